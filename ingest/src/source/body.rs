//! Decompresses the body of a request within bounds: a body comes from a stranger, and a small one
//! can be a large one.
//!
//! A body that expands far more than logs do is counted before it gets memory. To map and unmap
//! memory by the tens of megabytes stops the other threads of the process, however low the
//! priority of the thread is that does it.

use std::cell::Cell;
use std::io::{BufRead, Read};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Maximum decompressed bytes for each byte of the body, beyond [`RATIO_FROM`]. Deflate expands
/// 1,032 times at most, so no gzip is a bomb by its ratio alone.
const RATIO_MAX: usize = 1100;
/// Decompressed bytes up to which any ratio is allowed. Equal lines, as of a health check, compress
/// as well as any bomb: 20 MiB 10,400 times under zstd. So the bytes are the limit here, which are
/// filled in under a second; the ratio is one for servers that take larger batches.
const RATIO_FROM: usize = 32 << 20;
/// Maximum time of the decompression.
const TIME_MAX: Duration = Duration::from_secs(10);
/// A zstd frame makes its reader allocate a window of up to this many bytes, as a power of two.
const WINDOW_LOG_MAX: u32 = 25;
/// Bytes decompressed between two checks.
const STEP_BYTES: usize = 256 << 10;
/// A body is counted first if, beyond so many decompressed bytes, each compressed one has become
/// more than so many. Logs stay below; equal lines do not, and are decompressed twice.
const DENSE_FROM: usize = 1 << 20;
const DENSE_RATIO: usize = 64;
/// Buffer in which bytes are counted: too small to be memory that is mapped for it alone.
const COUNTED_BYTES: usize = 64 << 10;

/// The compression of a body, as `Content-Encoding` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Members of RFC 1952.
    Gzip,
    /// Frames of RFC 8878.
    Zstd,
    /// `deflate`: one stream of RFC 1950, as RFC 9110 has it.
    Deflate,
    /// One block without frames, as Prometheus and Loki send it.
    Snappy,
}

impl Encoding {
    /// Returns the encoding of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "gzip" | "x-gzip" => Self::Gzip,
            "zstd" => Self::Zstd,
            "deflate" => Self::Deflate,
            "snappy" => Self::Snappy,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Deflate => "deflate",
            Self::Snappy => "snappy",
        }
    }

    /// Decompresses a body of at most `bytes_max` decompressed bytes.
    ///
    /// # Errors
    /// [`Error::Expands`] beyond the bytes or the time, [`Error::Ratio`] and [`Error::Window`];
    /// [`Error::BadBody`] for bytes that are not of this encoding, those behind its end included.
    pub fn decompress(self, body: &[u8], bytes_max: usize) -> Result<Vec<u8>> {
        let most = bytes_max.min(ratio_bytes(body.len()));
        let read = match self {
            // The block is the whole body.
            Self::Snappy => snappy_within(body, most),
            _ => self.stream_within(body, most),
        };
        read.map_err(|stopped| self.error(stopped, bytes_max, most))
    }

    /// Decompresses a stream, and begins anew when a dense one is counted.
    fn stream_within(self, body: &[u8], most: usize) -> std::result::Result<Vec<u8>, Stopped> {
        let until = Instant::now() + TIME_MAX;
        let mut len = None;
        loop {
            let taken = CountedInput::of(body);
            let read = read_within(self.reader(&taken)?, &taken, len, most, until)?;
            let behind = body.len() - taken.bytes.get();
            match read {
                _ if behind > 0 => return Err(Stopped::Failed(bytes_behind(behind))),
                Decompressed::Whole(out) => return Ok(out),
                Decompressed::Counted(counted) => len = Some(counted),
            }
        }
    }

    fn reader<'a>(
        self,
        body: &'a CountedInput<'a>,
    ) -> std::result::Result<Box<dyn Read + 'a>, Stopped> {
        Ok(match self {
            Self::Deflate => Box::new(flate2::bufread::ZlibDecoder::new(body)),
            Self::Zstd => Box::new(zstd_reader(body).map_err(Stopped::Failed)?),
            _ => Box::new(flate2::bufread::MultiGzDecoder::new(body)),
        })
    }

    fn error(self, stopped: Stopped, bytes_max: usize, most: usize) -> Error {
        match stopped {
            // The decompressor has no code for it.
            Stopped::Failed(why) if why.to_string().contains("too much memory") => Error::Window {
                mib: 1 << (WINDOW_LOG_MAX - 20),
            },
            Stopped::Failed(why) => Error::BadBody {
                encoding: self.name(),
                why,
            },
            Stopped::Bytes if most < bytes_max => Error::Ratio { times: RATIO_MAX },
            Stopped::Bytes => Error::Expands {
                limit: format!("has more than {bytes_max} bytes, decompressed"),
            },
            Stopped::Time => Error::Expands {
                limit: format!("takes more than {} s to decompress", TIME_MAX.as_secs()),
            },
        }
    }
}

fn zstd_reader<R: BufRead>(body: R) -> std::io::Result<impl Read> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(body)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    Ok(decoder)
}

/// Decompresses a block of snappy, which begins with its decompressed length.
fn snappy_within(block: &[u8], most: usize) -> std::result::Result<Vec<u8>, Stopped> {
    let failed = |error| Stopped::Failed(std::io::Error::other(error));
    let len = snap::raw::decompress_len(block).map_err(failed)?;
    if len > most {
        return Err(Stopped::Bytes);
    }
    let whole = snap::raw::Decoder::new().decompress_vec(block);
    whole.map_err(failed)
}

/// Returns the error of a body that goes on behind its end: what stands there would be lost.
fn bytes_behind(count: usize) -> std::io::Error {
    std::io::Error::other(format!("{count} bytes stand behind its end"))
}

/// Returns the decompressed bytes that the ratio allows for so many compressed ones.
fn ratio_bytes(compressed: usize) -> usize {
    compressed.saturating_mul(RATIO_MAX).max(RATIO_FROM)
}

enum Stopped {
    Failed(std::io::Error),
    Bytes,
    Time,
}

/// The compressed bytes, and how many of them have been taken.
struct CountedInput<'a> {
    body: &'a [u8],
    bytes: Cell<usize>,
}

impl<'a> CountedInput<'a> {
    fn of(body: &'a [u8]) -> Self {
        let bytes = Cell::new(0);
        Self { body, bytes }
    }

    /// Returns whether so many decompressed bytes are more than logs have.
    fn is_dense(&self, decompressed: usize) -> bool {
        decompressed >= DENSE_FROM && decompressed / DENSE_RATIO > self.bytes.get()
    }
}

impl Read for &CountedInput<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let read = self.fill_buf()?.read(out)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for &CountedInput<'_> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        Ok(&self.body[self.bytes.get()..])
    }

    fn consume(&mut self, count: usize) {
        self.bytes.set(self.bytes.get() + count);
    }
}

/// A decompressed stream.
enum Decompressed {
    Whole(Vec<u8>),
    /// A dense one has so many bytes.
    Counted(usize),
}

/// Reads a stream to its end; `len` is the length of one that was counted.
fn read_within(
    mut reader: impl Read,
    taken: &CountedInput<'_>,
    len: Option<usize>,
    most: usize,
    until: Instant,
) -> std::result::Result<Decompressed, Stopped> {
    let mut out = Vec::with_capacity(len.unwrap_or(0));
    loop {
        let step = STEP_BYTES.min(most.saturating_add(1) - out.len());
        let read = reader.by_ref().take(step as u64).read_to_end(&mut out);
        if read.map_err(Stopped::Failed)? == 0 {
            return Ok(Decompressed::Whole(out));
        }
        check(out.len(), most, until)?;
        if len.is_none() && taken.is_dense(out.len()) {
            let begun = out.len();
            drop(out);
            return count_within(reader, begun, most, until);
        }
    }
}

/// Counts the bytes of a stream behind so many that were read.
fn count_within(
    mut reader: impl Read,
    begun: usize,
    most: usize,
    until: Instant,
) -> std::result::Result<Decompressed, Stopped> {
    let (mut count, mut buffer) = (begun, vec![0; COUNTED_BYTES]);
    loop {
        match reader.read(&mut buffer).map_err(Stopped::Failed)? {
            0 => return Ok(Decompressed::Counted(count)),
            read => count += read,
        }
        check(count, most, until)?;
    }
}

fn check(len: usize, most: usize, until: Instant) -> std::result::Result<(), Stopped> {
    match len > most {
        true => Err(Stopped::Bytes),
        false if Instant::now() > until => Err(Stopped::Time),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
