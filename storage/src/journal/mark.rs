//! `JOURNAL`: the number of the newest segment, written beside the journal.
//!
//! Each segment records the end of the one before it, but nothing in the journal records the
//! last. With this mark a last segment that was removed is detected, at the cost of one small
//! file for each segment. (A last segment that was cut between two groups is not detected: that
//! would cost a sync for each group.)
//!
//! # Invariant
//! The mark is written after the segment's name is durable, and read before the segments are
//! listed, so it never names a segment that is not there yet. A missing or damaged mark is
//! ignored.
//!
//! ```text
//! logmill journal <32 hex digits of the store> <segment, hex> <crc32c of both, hex>
//! ```

use std::path::Path;

use crate::env::{Fs, IoContext};
use crate::error::Result;
use crate::file::write_durably;

pub(crate) const FILE: &str = "JOURNAL";

fn line(store_id: &str, segment: u64) -> String {
    let both = format!("{store_id} {segment:x}");
    format!(
        "logmill journal {both} {:08x}\n",
        crc32c::crc32c(both.as_bytes())
    )
}

/// Returns the newest segment of this store by the mark; 0 when there is no valid mark.
pub(crate) fn read(fs: &dyn Fs, data: &Path, store_id: &str) -> u64 {
    let text = fs.read(&data.join(FILE)).unwrap_or_default();
    let text = String::from_utf8(text).unwrap_or_default();
    let segment = text
        .split_whitespace()
        .nth(3)
        .and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let segment = segment.filter(|segment| line(store_id, *segment) == text);
    segment.unwrap_or(0)
}

/// Marks a segment whose name is durable. A failure is only logged: the journal is valid without
/// the mark.
pub(super) fn write(fs: &dyn Fs, data: &Path, store_id: &str, segment: u64) {
    let written = || -> Result<()> {
        write_durably(fs, &data.join(FILE), line(store_id, segment).as_bytes())?;
        fs.sync_dir(data).at("sync", data)
    };
    if let Err(error) = written() {
        tracing::warn!(%error, segment, "could not record the number of the journal's newest segment; the journal is valid without it");
    }
}
