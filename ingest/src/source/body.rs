//! Decompresses the body of a request within bounds: a body comes from a stranger, and a small one
//! can be a large one.

use std::io::Read;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Maximum decompressed bytes for each byte of the body, beyond [`RATIO_FROM`].
const RATIO_MAX: usize = 100;
/// Decompressed bytes up to which any ratio is allowed: a batch of equal lines compresses a
/// thousand times, and these bytes are few for a server.
const RATIO_FROM: usize = 8 << 20;
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
    /// [`Error::Expands`] beyond the bytes, the ratio or the time, [`Error::BadBody`] for bytes
    /// that are not of this encoding.
    pub fn decompress(self, body: &[u8], bytes_max: usize) -> Result<Vec<u8>> {
        let bad = |why: std::io::Error| Error::BadBody {
            encoding: self.name(),
            why,
        };
        let most = bytes_max.min(ratio_bytes(body.len()));
        let reader: Box<dyn Read + '_> = match self {
            Self::Gzip => Box::new(flate2::read::MultiGzDecoder::new(body)),
            Self::Deflate => Box::new(flate2::read::ZlibDecoder::new(body)),
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(body).map_err(bad)?;
                decoder.window_log_max(WINDOW_LOG_MAX).map_err(bad)?;
                Box::new(decoder)
            }
            Self::Snappy => {
                let failed = |error| bad(std::io::Error::other(error));
                // The block begins with its decompressed length.
                let len = snap::raw::decompress_len(body).map_err(failed)?;
                if len > most {
                    let limit = expansion(body.len(), bytes_max);
                    return Err(Error::Expands { limit });
                }
                let block = snap::raw::Decoder::new().decompress_vec(body);
                return block.map_err(failed);
            }
        };
        read_within(reader, most, TIME_MAX).map_err(|e| match e {
            Stopped::Failed(why) => bad(why),
            Stopped::Bytes => Error::Expands {
                limit: expansion(body.len(), bytes_max),
            },
            Stopped::Time => Error::Expands {
                limit: format!("takes more than {} s to decompress", TIME_MAX.as_secs()),
            },
        })
    }
}

/// Returns the decompressed bytes that the ratio allows for so many compressed ones.
fn ratio_bytes(compressed: usize) -> usize {
    compressed.saturating_mul(RATIO_MAX).max(RATIO_FROM)
}

/// Returns the limit that a body of so many bytes has reached.
fn expansion(compressed: usize, bytes_max: usize) -> String {
    match ratio_bytes(compressed) < bytes_max {
        true => format!("expands more than {RATIO_MAX} times"),
        false => format!("has more than {bytes_max} bytes, decompressed"),
    }
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
