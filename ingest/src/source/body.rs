//! Decompresses the body of a request within bounds: a body comes from a stranger, and a small one
//! can be a large one.

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
        let mut rest = body;
        let read = match self {
            Self::Gzip => {
                let reader = flate2::bufread::MultiGzDecoder::new(&mut rest);
                read_within(reader, most, TIME_MAX)
            }
            Self::Deflate => {
                let reader = flate2::bufread::ZlibDecoder::new(&mut rest);
                read_within(reader, most, TIME_MAX)
            }
            Self::Zstd => zstd_reader(&mut rest)
                .map_err(Stopped::Failed)
                .and_then(|reader| read_within(reader, most, TIME_MAX)),
            // The block is the whole body.
            Self::Snappy => snappy_within(std::mem::take(&mut rest), most),
        };
        let read = match read {
            Ok(_) if !rest.is_empty() => Err(Stopped::Failed(bytes_behind(rest.len()))),
            read => read,
        };
        read.map_err(|stopped| self.error(stopped, bytes_max, most))
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

fn read_within(
    mut reader: impl Read,
    most: usize,
    time_max: Duration,
) -> std::result::Result<Vec<u8>, Stopped> {
    let (began, mut out) = (Instant::now(), Vec::new());
    loop {
        let step = STEP_BYTES.min(most.saturating_add(1) - out.len());
        let read = reader.by_ref().take(step as u64).read_to_end(&mut out);
        if read.map_err(Stopped::Failed)? == 0 {
            return Ok(out);
        }
        if out.len() > most {
            return Err(Stopped::Bytes);
        }
        if began.elapsed() > time_max {
            return Err(Stopped::Time);
        }
    }
}

#[cfg(test)]
mod tests;
