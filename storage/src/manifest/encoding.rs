//! The encoding of a manifest: a head line with a checksum, and the body.
//!
//! ```text
//! logmill store <format> <bytes of the body> <crc32c of the body, hex>
//! the manifest as JSON, compressed with zstd
//! ```
//! The number is the format of the whole store, of every file in it, and is recorded only here.
//! The format is frozen: a program refuses fields and values that it does not know, and a change
//! that a program of this format would misread all the same needs the next number. Development
//! versions wrote `logmill manifest`; their stores are refused.

use std::io::Read;
use std::path::Path;

use super::Manifest;
use crate::error::{Error, Result};

/// Format of the store: the newest that this program reads, and the one that it writes.
pub(crate) const FORMAT: u32 = 1;
/// Compression level: the 504 kB of a manifest of 400 days become 74 kB; level 3 took half as
/// long again and produced 81 kB.
const LEVEL: i32 = 1;
/// Limit of a manifest's length: a longer one is neither written nor accepted. A manifest is
/// written in full with each edit, and 400 days of two rollups are half a megabyte.
const JSON_BYTES_MAX: u64 = 256 << 20;

/// Upper limit of a head line's length.
pub(super) const HEAD_BYTES_MAX: usize = 128;

/// Returns the head line before a body.
pub(super) fn head_line(body: &[u8]) -> String {
    let crc = crc32c::crc32c(body);
    format!("logmill store {FORMAT} {} {crc:08x}", body.len())
}

/// Returns the bytes of a manifest and the checksum of its body.
///
/// # Errors
/// A message, when the manifest is longer than any reader would accept.
pub(super) fn encode(manifest: &Manifest) -> Result<(Vec<u8>, u32), String> {
    let json = serde_json::to_vec(manifest).expect("BUG: a manifest is plain data");
    if json.len() as u64 > JSON_BYTES_MAX {
        return Err(format!(
            "the manifest would be {} bytes of JSON; the limit is {JSON_BYTES_MAX}",
            json.len()
        ));
    }
    let body =
        zstd::bulk::compress(&json, LEVEL).expect("BUG: compressing in memory does not fail");
    let mut bytes = (head_line(&body) + "\n").into_bytes();
    bytes.extend_from_slice(&body);
    Ok((bytes, crc32c::crc32c(&body)))
}

/// Returns the checksum of the body from a head line; `None` for one that is not of this format.
pub(super) fn crc_of(bytes: &[u8]) -> Option<u32> {
    let head = read_head(Path::new(""), bytes).ok()?;
    let crc = head.rsplit(' ').next().filter(|crc| crc.len() == 8)?;
    u32::from_str_radix(crc, 16).ok()
}

/// Refuses a sound manifest of another format; damage is left to [`decode`].
pub(super) fn refuse_other_format(path: &Path, bytes: &[u8]) -> Result<()> {
    match decode(path, bytes) {
        Err(error @ (Error::FormatTooNew { .. } | Error::FormatUnknown { .. })) => Err(error),
        _ => Ok(()),
    }
}

/// Reads a manifest; returns it with the checksum of its body.
pub(super) fn decode(path: &Path, bytes: &[u8]) -> Result<(Manifest, u32)> {
    let head = read_head(path, bytes)?;
    let at = head.len() + 1;
    let body = &bytes[at..];
    let corrupt = |what: &str| corrupt(path, at, what);
    if head.split(' ').nth(3).map(str::parse) != Some(Ok(body.len())) {
        return Err(corrupt("the length differs from the head line's"));
    }
    let crc = crc32c::crc32c(body);
    if !head.ends_with(&format!(" {crc:08x}")) {
        return Err(corrupt("the checksum differs from the head line's"));
    }
    // Compare letter for letter: the head line has no checksum of its own.
    if head != head_line(body) {
        let what = "the head line is not in canonical form";
        return Err(self::corrupt(path, 0, what));
    }
    let json = decompress(body).map_err(|what| corrupt(&what))?;
    let manifest: Manifest = serde_json::from_slice(&json).map_err(|error| {
        let what = error.to_string();
        match what.split_once(", expected") {
            Some((unknown, _)) if what.starts_with("unknown ") => newer(path, unknown),
            _ => corrupt(&what),
        }
    })?;
    manifest.check().map_err(|what| corrupt(&what))?;
    Ok((manifest, crc))
}

impl Manifest {
    /// Upper limit of a manifest's JSON, bytes: a longer one is neither written nor accepted.
    pub const JSON_BYTES_MAX: u64 = JSON_BYTES_MAX;

    /// Returns the bytes of its file, as a commit writes them.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is longer than any reader would accept.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let encoded = encode(self).map_err(Error::invalid)?;
        Ok(encoded.0)
    }

    /// Reads the bytes of a file, and checks all invariants of the manifest.
    ///
    /// # Errors
    /// [`Error::Corrupt`], or the error of a format that this program does not know.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (manifest, _) = decode(Path::new("manifest"), bytes)?;
        Ok(manifest)
    }
}

/// Returns the error of a manifest with something that newer programs write under this number.
fn newer(path: &Path, part: &str) -> Error {
    Error::FormatUnknown {
        path: path.into(),
        what: format!("has a part that this program does not know, {part}; use a newer logmill"),
    }
}

fn decompress(body: &[u8]) -> Result<Vec<u8>, String> {
    let mut json = Vec::new();
    zstd::stream::read::Decoder::new(body)
        .and_then(|all| all.take(JSON_BYTES_MAX + 1).read_to_end(&mut json))
        .map_err(|e| e.to_string())?;
    if json.len() as u64 > JSON_BYTES_MAX {
        return Err(format!("its JSON exceeds {JSON_BYTES_MAX} bytes"));
    }
    Ok(json)
}

/// Returns the head line, if it is of this format.
fn read_head<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a str> {
    let corrupt = |what: &str| corrupt(path, 0, what);
    let end = bytes.iter().position(|b| *b == b'\n');
    let head = &bytes[..end.ok_or_else(|| corrupt("no head line"))?];
    let head = std::str::from_utf8(head).map_err(|_| corrupt("the head line is not text"))?;
    let words: Vec<&str> = head.split(' ').collect();
    let number = match words[..] {
        ["logmill", "store", number, _, _] => number,
        ["logmill", "manifest", number, _, _] => {
            return Err(Error::FormatUnknown {
                path: path.into(),
                what: format!(
                    "was written by a development version of logmill (manifest {number}), whose \
                     stores no release reads; import the original logs into a new store"
                ),
            });
        }
        _ => return Err(corrupt("the head line does not say `logmill store`")),
    };
    match number.parse() {
        Ok(0) => Err(corrupt("there is no format 0")),
        Ok(found) if found > FORMAT => Err(Error::FormatTooNew {
            path: path.into(),
            found,
            known: FORMAT,
        }),
        Ok(_) => Ok(head),
        Err(_) => Err(corrupt("no format number")),
    }
}

fn corrupt(path: &Path, offset: usize, what: &str) -> Error {
    Error::Corrupt {
        path: path.into(),
        offset: offset as u64,
        what: what.into(),
    }
}

#[cfg(test)]
mod tests;
