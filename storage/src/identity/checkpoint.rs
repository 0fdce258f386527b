//! Checkpoint files of identities. A file has the entries of some records in journal order, or in
//! place of all earlier files the entries that are still needed.

use std::path::Path;

use super::{Entry, Identities};
use crate::error::{Error, Result};
use crate::file::FileRef;

/// Start of a checkpoint file; the number of its format follows.
const HEAD: &str = "logmill identities ";
const FORMAT: u32 = 1;
/// Number of checkpoint files past which they are merged.
pub(crate) const FILES_MAX: usize = 16;

/// Returns the bytes of a checkpoint: a head line, and JSON compressed with zstd.
pub(crate) fn encode(entries: &[Entry]) -> Vec<u8> {
    let json = serde_json::to_vec(entries).expect("BUG: entries are plain data");
    let body = zstd::bulk::compress(&json, 1).expect("BUG: compressing in memory does not fail");
    [format!("{HEAD}{FORMAT}\n").as_bytes(), &body].concat()
}

/// Returns the entries of a checkpoint file.
pub(crate) fn decode(data: &Path, file: &FileRef, bytes: &[u8]) -> Result<Vec<Entry>> {
    let corrupt = |what: String| Error::Corrupt {
        path: data.join(&file.path),
        offset: 0,
        what,
    };
    let body = match bytes.strip_prefix(HEAD.as_bytes()) {
        Some(rest) => {
            let mut parts = rest.splitn(2, |b| *b == b'\n');
            let number = parts.next().and_then(|n| std::str::from_utf8(n).ok());
            let found = number.and_then(|n| n.parse().ok());
            let found = found.ok_or_else(|| corrupt("its head has no format number".into()))?;
            if found != FORMAT {
                return Err(Error::FormatTooNew {
                    path: data.join(&file.path),
                    found,
                    known: FORMAT,
                });
            }
            parts.next().unwrap_or_default()
        }
        None => {
            return Err(corrupt(
                "it does not begin as a checkpoint of identities".into(),
            ));
        }
    };
    let json = zstd::decode_all(body).map_err(|e| corrupt(e.to_string()))?;
    serde_json::from_slice(&json).map_err(|e| corrupt(e.to_string()))
}

/// Returns the entries that are still needed, of a list with the oldest first: those that are in
/// memory after a start that reads the list.
pub(crate) fn still_needed(entries: Vec<Entry>) -> Vec<Entry> {
    let mut remembered = Identities::default();
    entries
        .into_iter()
        .for_each(|entry| remembered.apply(entry));
    remembered.into_entries()
}
