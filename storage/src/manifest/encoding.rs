//! The encoding of a manifest: a head line with a checksum, and the body.
//!
//! ```text
//! logmill store <format> <bytes of the body> <crc32c of the body, hex>
//! the manifest as JSON, compressed with zstd
//! ```
//! The number is the format of the whole store, of every file in it, and is recorded only here.
//! The format is frozen: any change that a program of this format would misread or lose,
//! including a new field of the manifest, needs the next number. Development versions wrote
//! `logmill manifest 1` or `2` before plain JSON; they are read, and the next edit writes the
//! current format.

use std::io::Read;
use std::path::Path;

use super::Manifest;
use crate::error::{Error, Result};
use crate::model::{ColumnType, StreamKind};

/// Format of the store: the newest that this program reads, and the one that it writes.
pub(crate) const FORMAT: u32 = 1;
/// Last development version.
const DEVELOPMENT_MAX: u32 = 2;
/// Compression level: the 504 kB of a manifest of 400 days become 74 kB; level 3 took half as
/// long again and produced 81 kB.
const LEVEL: i32 = 1;
/// Limit of a manifest's length: a longer one is neither written nor accepted. A manifest is
/// written in full with each edit, and 400 days of two rollups are half a megabyte.
const JSON_BYTES_MAX: u64 = 256 << 20;

/// Upper limit of a head line's length.
pub(super) const HEAD_BYTES_MAX: usize = 128;

/// Layout of the body, as the head line names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Plain JSON of a development version.
    Development(u32),
    /// Compressed JSON of a store format.
    Store(u32),
}

impl Layout {
    fn head_line(self, body: &[u8]) -> String {
        let (word, number) = match self {
            Self::Development(number) => ("manifest", number),
            Self::Store(number) => ("store", number),
        };
        let crc = crc32c::crc32c(body);
        format!("logmill {word} {number} {} {crc:08x}", body.len())
    }
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
    let mut bytes = (Layout::Store(FORMAT).head_line(&body) + "\n").into_bytes();
    bytes.extend_from_slice(&body);
    Ok((bytes, crc32c::crc32c(&body)))
}

/// Returns the checksum of the body from a head line of the current format, `None` for any other.
pub(super) fn crc_of(bytes: &[u8]) -> Option<u32> {
    let (layout, head) = read_head(Path::new(""), bytes).ok()?;
    let crc = head.rsplit(' ').next()?;
    let is_today = matches!(layout, Layout::Store(_)) && crc.len() == 8;
    is_today
        .then(|| u32::from_str_radix(crc, 16).ok())
        .flatten()
}

/// Refuses a manifest that a newer program wrote; other faults are left to [`decode`].
pub(super) fn refuse_newer(path: &Path, bytes: &[u8]) -> Result<()> {
    match read_head(path, bytes) {
        Err(error @ Error::FormatTooNew { .. }) => Err(error),
        _ => Ok(()),
    }
}

/// Reads a manifest of any format that ever existed; returns it with the checksum of its body.
pub(super) fn decode(path: &Path, bytes: &[u8]) -> Result<(Manifest, u32)> {
    let (layout, head) = read_head(path, bytes)?;
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
    if head != layout.head_line(body) {
        let what = "the head line is not in canonical form";
        return Err(self::corrupt(path, 0, what));
    }
    let manifest: Manifest = match layout {
        Layout::Development(_) => serde_json::from_slice(body).map(keep_integers),
        Layout::Store(_) => serde_json::from_slice(&decompress(body).map_err(|w| corrupt(&w))?),
    }
    .map_err(|e| corrupt(&e.to_string()))?;
    manifest.check().map_err(|what| corrupt(&what))?;
    Ok((manifest, crc))
}

/// Marks every integer column of documents as `wide`: development versions did not record whether
/// a column holds integers of which a float would lose digits.
fn keep_integers(mut manifest: Manifest) -> Manifest {
    let streams = manifest.streams.values_mut();
    let documents = streams.filter(|s| s.kind == StreamKind::Documents);
    documents
        .flat_map(|s| &mut s.columns)
        .filter(|c| c.column_type == ColumnType::Int64)
        .for_each(|c| c.wide = true);
    manifest
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

/// Returns the layout that the head line names, and the line itself.
fn read_head<'a>(path: &Path, bytes: &'a [u8]) -> Result<(Layout, &'a str)> {
    let corrupt = |what: &str| corrupt(path, 0, what);
    let end = bytes.iter().position(|b| *b == b'\n');
    let head = &bytes[..end.ok_or_else(|| corrupt("no head line"))?];
    let head = std::str::from_utf8(head).map_err(|_| corrupt("the head line is not text"))?;
    let words: Vec<&str> = head.split(' ').collect();
    let ["logmill", word @ ("store" | "manifest"), number, _, _] = words[..] else {
        return Err(corrupt("the head line does not say `logmill store`"));
    };
    let number: u32 = number.parse().map_err(|_| corrupt("no format number"))?;
    let layout = match (word, number) {
        (_, 0) => return Err(corrupt("there is no format 0")),
        ("store", found) if found > FORMAT => {
            return Err(Error::FormatTooNew {
                path: path.into(),
                found,
                known: FORMAT,
            });
        }
        ("store", number) => Layout::Store(number),
        (_, number) if number <= DEVELOPMENT_MAX => Layout::Development(number),
        _ => return Err(corrupt("unknown development version")),
    };
    Ok((layout, head))
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
