//! Opens files that may be compressed or in UTF-16. Every reader here reads concatenated members as
//! one, because rotated logs are often appended to compressed files.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::utf16::{self, Utf8Reader};
use crate::error::{Error, Result};

/// Bytes of the compressed side's buffer.
const BUFFER_BYTES: usize = 256 << 10;
/// Archives made with `zstd --long=31` need windows of up to 2^31 bytes.
const ZSTD_WINDOW_LOG_MAX: u32 = 31;

/// The compression of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// No compression.
    None,
    /// `.gz`, of any number of members.
    Gzip,
    /// `.zst`, of any number of frames.
    Zstd,
    /// `.bz2`, of any number of streams.
    Bzip2,
    /// `.xz`, of any number of streams.
    Xz,
}

impl Compression {
    /// Returns the compression that a file's ending names.
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(|e| e.to_str()) {
            Some("gz") => Self::Gzip,
            Some("zst") => Self::Zstd,
            Some("bz2") => Self::Bzip2,
            Some("xz") => Self::Xz,
            _ => Self::None,
        }
    }
}

impl Compression {
    /// Returns the compression by the first bytes of a source; six are enough.
    pub fn of_bytes(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, 8, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            // The size of its blocks is a digit.
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31 | 0x17, ..] => Self::Bzip2,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            _ => Self::None,
        }
    }
}

/// Returns the decompressed content of a reader, as UTF-8 if it is marked as UTF-16.
///
/// # Errors
/// Errors of the decompressor's start; damaged data is an error of the reads.
pub fn decompress<'a>(
    source: impl Read + Send + 'a,
    compression: Compression,
) -> std::io::Result<Box<dyn Read + Send + 'a>> {
    Ok(match compression {
        Compression::None => utf_8(source),
        Compression::Gzip => utf_8(flate2::read::MultiGzDecoder::new(source)),
        Compression::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::new(source)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            utf_8(decoder)
        }
        Compression::Bzip2 => utf_8(bzip2::read::MultiBzDecoder::new(source)),
        Compression::Xz => utf_8(liblzma::read::XzDecoder::new_multi_decoder(source)),
    })
}

fn utf_8<'a>(source: impl Read + Send + 'a) -> Box<dyn Read + Send + 'a> {
    Box::new(Utf8Reader::new(source))
}

/// Opens a file, decompresses it by its ending, and reads it as UTF-8 if it is marked as UTF-16.
///
/// # Errors
/// [`Error::Open`] when the file cannot be opened.
pub fn open(path: &Path) -> Result<Box<dyn Read + Send>> {
    open_counting(path, Arc::default())
}

fn open_counting(path: &Path, bytes: Arc<AtomicU64>) -> Result<Box<dyn Read + Send>> {
    let failed = |source| Error::Open {
        path: path.to_path_buf(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    let file = CountedFile { file, bytes };
    match Compression::of(path) {
        Compression::None => Ok(utf_8(file)),
        compression => {
            decompress(BufReader::with_capacity(BUFFER_BYTES, file), compression).map_err(failed)
        }
    }
}

/// Opens a file as [`open`] does, behind the first `from` bytes that it would read. `bytes` becomes
/// the place in the file, in bytes as they lie on disk.
///
/// # Errors
/// [`Error::Open`] when the file cannot be opened, or breaks off before that byte.
pub fn open_at(path: &Path, from: u64, bytes: Arc<AtomicU64>) -> Result<Box<dyn Read + Send>> {
    let failed = |source| Error::Open {
        path: path.to_path_buf(),
        source,
    };
    let mut file = File::open(path).map_err(failed)?;
    if Compression::of(path) == Compression::None && !is_utf_16(&mut file).map_err(failed)? {
        // The bytes read are those of the file.
        file.seek(SeekFrom::Start(from)).map_err(failed)?;
        bytes.store(from, Ordering::Relaxed);
        return Ok(Box::new(CountedFile { file, bytes }));
    }
    let mut source = open_counting(path, bytes)?;
    std::io::copy(&mut source.by_ref().take(from), &mut std::io::sink()).map_err(failed)?;
    Ok(source)
}

/// A file that counts the bytes that were read of it.
struct CountedFile {
    file: File,
    bytes: Arc<AtomicU64>,
}

impl Read for CountedFile {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

fn is_utf_16(file: &mut File) -> std::io::Result<bool> {
    let mut mark = Vec::new();
    file.take(2).read_to_end(&mut mark)?;
    Ok(utf16::is_marked(&mark))
}

#[cfg(test)]
mod tests;
