//! Choice of the parts to merge.
//!
//! # Invariants
//! * The choice is a pure function of the manifest and of the set of quiet partitions.
//! * A part is merged again only with others that hold at least as many rows together as it does
//!   (a quarter, once the partition is quiet). So the number of its rewrites grows with the
//!   logarithm of the history, and a few late rows do not rewrite a day.
//! * A merge reads at most [`INPUTS_MAX`] parts of [`ROWS_MAX`] rows and [`BYTES_MAX`] bytes
//!   together. It keeps some thousand rows of each in memory, and the dictionaries; therefore few
//!   large parts are open at a time ([`OPEN_BYTES_MAX`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::manifest::{Manifest, PartMeta};
use crate::model::Name;

/// Maximum rows of a merged part. A reader of whole parts (a rebuild, a verification) holds some
/// hundred bytes for each row. A day of two million events is one part.
const ROWS_MAX: u64 = 1 << 21;
/// Maximum bytes read by one merge: some seconds of one core and of the disk.
const BYTES_MAX: u64 = 128 << 20;
/// Maximum number of parts read by one merge; an open part takes about two megabytes.
const INPUTS_MAX: usize = 32;
/// Maximum for the open inputs of a merge, each of which counts as its bytes up to
/// [`OPEN_BYTES`]. An open part has its dictionaries in memory, which for long texts that do not
/// repeat take more than the part itself. Four parts always fit, as many as a merge needs at
/// least.
const OPEN_BYTES_MAX: u64 = 4 * OPEN_BYTES;
const OPEN_BYTES: u64 = 8 << 20;
/// Parts of up to this many rows count as equally large, since their footers outweigh their rows.
const SMALL: u64 = 256;
/// Maximum number of merges in one edit, and the bytes read after which no further merge begins.
/// Several merges share an edit because each edit writes a manifest.
const MERGES_MAX: usize = 64;
const EDIT_BYTES: u64 = 32 << 20;
/// A partition of a stream.
pub(in crate::store::maintenance) type Partition<'a> = (&'a Name, i64);

/// Returns the parts of each partition.
pub(in crate::store::maintenance) fn by_partition(
    manifest: &Manifest,
) -> BTreeMap<Partition<'_>, Vec<&PartMeta>> {
    let mut partitions: BTreeMap<Partition<'_>, Vec<&PartMeta>> = BTreeMap::new();
    for part in &manifest.parts {
        let partition = (&part.stream, part.partition_us);
        partitions.entry(partition).or_default().push(part);
    }
    partitions
}

/// Chooses the next merges, none when nothing is due; parts in `unreadable` are left out.
pub(super) fn choose<'a>(
    manifest: &'a Manifest,
    only: Option<&Name>,
    quiet: &dyn Fn(Partition<'_>) -> bool,
    unreadable: &BTreeSet<u64>,
) -> Vec<Vec<&'a PartMeta>> {
    let (mut merges, mut bytes) = (Vec::new(), 0);
    for (partition, mut parts) in by_partition(manifest) {
        if merges.len() == MERGES_MAX || bytes >= EDIT_BYTES {
            break;
        }
        if only.is_some_and(|only| only != partition.0) {
            continue;
        }
        parts.retain(|part| !unreadable.contains(&part.id));
        let alike = alike(&mut parts, quiet(partition));
        if alike > 0 {
            parts.truncate(alike);
            bytes += parts.iter().map(|p| p.file.len).sum::<u64>();
            merges.push(parts);
        }
    }
    merges
}

/// Sorts parts by rows and returns how many of the first to merge: the largest number for which
/// the last part has at most as many rows as the others together (or four times as many, in a
/// quiet partition). The parts between are smaller than the last, so the same holds for each of
/// them.
pub(super) fn alike(parts: &mut [&PartMeta], quiet: bool) -> usize {
    let (enough, ratio) = if quiet { (2, 4) } else { (4, 1) };
    parts.sort_by_key(|p| (p.rows, p.id));
    let (mut rows, mut bytes, mut open, mut alike) = (0, 0, 0, 0);
    for (before, part) in parts.iter().enumerate().take(INPUTS_MAX) {
        let is_alike = part.rows <= SMALL.max(rows * ratio);
        rows += part.rows;
        bytes += part.file.len;
        open += part.file.len.min(OPEN_BYTES);
        if rows > ROWS_MAX || bytes > BYTES_MAX || open > OPEN_BYTES_MAX {
            break;
        }
        if is_alike && before + 1 >= enough {
            alike = before + 1;
        }
    }
    alike
}

#[cfg(test)]
mod tests;
