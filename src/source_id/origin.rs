//! SourceReader that can be read more than once: files, open files, and standard input.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ingest::Compression;

use super::SourceReader;
use crate::failure::Result;
use crate::interrupt::Interrupt;

/// Bytes of the compressed side's buffer.
const BUFFER_BYTES: usize = 256 << 10;

/// SourceReader that can be read more than once.
pub(crate) enum Origin {
    /// A file, and the place in it up to which it was read for the last time, in bytes on disk.
    File(PathBuf, Arc<AtomicU64>),
    /// A file that is open, so that another one under its name is not taken for it.
    Open(Arc<File>, Compression),
    /// Standard input, decompressed, with what was read of it so far.
    Input {
        kept: File,
        bytes: u64,
        rest: Option<SourceReader>,
        /// A read of standard input may wait for ever.
        interrupt: Interrupt,
    },
}

impl Origin {
    /// Returns standard input. The part that is read to recognise it is kept in a temporary file.
    pub(crate) fn input(rest: SourceReader, interrupt: Interrupt) -> std::io::Result<Self> {
        Ok(Self::Input {
            kept: tempfile::tempfile()?,
            bytes: 0,
            rest: Some(rest),
            interrupt,
        })
    }

    /// Returns the content from its beginning: at least the first `bytes`, where there are as many.
    pub(super) fn probe(&mut self, bytes: u64) -> Result<SourceReader> {
        match self {
            Self::File(path, _) => Ok(ingest::open(path)?),
            Self::Open(file, compression) => opened(file, *compression),
            Self::Input {
                kept,
                bytes: have,
                rest,
                interrupt,
            } => {
                if let Some(mut source) = rest.take() {
                    let mut end = Self::reopen(kept, *have)?;
                    let missing = bytes.saturating_sub(*have);
                    let (source, read) = interrupt.unless(move || {
                        let read = std::io::copy(&mut source.by_ref().take(missing), &mut end);
                        Ok((source, read))
                    })?;
                    *have += read?;
                    *rest = Some(source);
                }
                Ok(Box::new(Self::reopen(kept, 0)?))
            }
        }
    }

    /// Returns the content from byte `from` on.
    pub(super) fn from(self, from: u64) -> Result<SourceReader> {
        match self {
            Self::File(path, read) => Ok(ingest::open_at(&path, from, read)?),
            Self::Open(file, Compression::None) => Ok(Box::new(ReadAt::new(file, from))),
            Self::Open(file, compression) => {
                let mut content = opened(&file, compression)?;
                std::io::copy(&mut content.by_ref().take(from), &mut std::io::sink())?;
                Ok(content)
            }
            Self::Input { kept, rest, .. } => {
                let kept = Self::reopen(&kept, from)?;
                Ok(match rest {
                    Some(rest) => Box::new(kept.chain(rest)),
                    None => Box::new(kept),
                })
            }
        }
    }

    fn reopen(kept: &File, at: u64) -> std::io::Result<File> {
        let mut file = kept.try_clone()?;
        file.seek(SeekFrom::Start(at))?;
        Ok(file)
    }
}

/// Returns the decompressed content of an open file from its beginning.
pub(crate) fn opened(file: &Arc<File>, compression: Compression) -> Result<SourceReader> {
    let content = ReadAt::new(Arc::clone(file), 0);
    Ok(match compression {
        Compression::None => Box::new(content),
        _ => {
            let content = BufReader::with_capacity(BUFFER_BYTES, content);
            ingest::decompress(content, compression)?
        }
    })
}

/// A reader of a file that shares the descriptor with others and not their position.
pub(crate) struct ReadAt {
    file: Arc<File>,
    at: u64,
}

impl ReadAt {
    /// Reads from byte `at` on.
    pub(crate) fn new(file: Arc<File>, at: u64) -> Self {
        Self { file, at }
    }
}

impl Read for ReadAt {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
