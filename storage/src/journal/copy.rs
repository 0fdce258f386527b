//! Copies the journal while its writer appends.

use std::path::Path;

use super::reader::{read_segment, sealed_end};
use super::{DIR, Replay, replay, segment_path};
use crate::env::Fs;
use crate::error::{Error, Result};
use crate::file::write_durably;

/// Copies the journal from segment `floor` on into `to`, where its directory must exist: all
/// groups that are whole when the copy begins, and nothing of a torn tail. Returns the extent of
/// the copy and the bytes of each segment. The names are durable once the caller has synced the
/// directory.
///
/// # Errors
/// As [`replay`], and [`Error::Corrupt`] when the copy does not read back.
pub(crate) fn copy(
    fs: &dyn Fs,
    data: &Path,
    to: &Path,
    store_id: &str,
    floor: u64,
) -> Result<(Replay, Vec<u64>)> {
    let mut found = replay(fs, data, store_id, floor, |_| Ok(()))?;
    let mut copied = Vec::new();
    for number in floor.max(1)..=found.last.segment {
        let end = if number == found.last.segment {
            found.last.end
        } else {
            sealed_end(fs, data, number + 1)?.0
        };
        let mut bytes = Vec::from(read_segment(fs, &segment_path(data, number))?);
        bytes.truncate(usize::try_from(end).expect("BUG: a segment fits into memory"));
        write_durably(fs, &segment_path(to, number), &bytes)?;
        copied.push(end);
    }
    found.torn_bytes = 0;
    if replay(fs, to, store_id, floor, |_| Ok(()))? != found {
        return Err(Error::Corrupt {
            path: to.join(DIR),
            offset: 0,
            what: "the copy of the journal differs from the journal".into(),
        });
    }
    Ok((found, copied))
}
