//! Choice of the sections of tiles to merge.
//!
//! # Invariants
//! * The choice is a pure function of the manifest and of the set of quiet partitions.
//! * A merge reads at most [`CELLS_MAX`] cells and [`BYTES_MAX`] bytes of sections, and the
//!   merges of one edit few files beyond [`FILES_MAX`] bytes, so memory is bounded whatever the
//!   history.
//! * A section is merged again only with others that count at least as many events together as it
//!   does (a quarter, once the partition is quiet). So the number of its rewrites grows with the
//!   logarithm of the history. (Cells are the wrong measure: a year has as many as there are
//!   keys, however many events they count.)
//! * The section that remains in a file most of which was dropped moves into a file of its own,
//!   once its partition is quiet. The new file holds nothing else, so a section moves once.

use std::collections::{BTreeMap, BTreeSet};

use crate::file::FileRef;
use crate::manifest::{Manifest, TileFile};
use crate::rollup_hook::{Merge, RollupMeta, Section};

/// Maximum cells read by one merge; a decoded cell takes some 200 bytes.
const CELLS_MAX: u64 = 1 << 19;
/// Maximum bytes of sections read by one merge.
const BYTES_MAX: u64 = 16 << 20;
/// Bytes of files after which no further merge joins an edit.
const FILES_MAX: u64 = 64 << 20;
/// Sections of up to this many events count as equally large.
const SMALL: u64 = 64;
/// Maximum number of merges in one edit.
const MERGES_MAX: usize = 256;

/// A (level, time partition) of a rollup.
pub(in crate::store::maintenance) type LevelPartition<'a> = (u32, &'a str, i64);

/// A section and its file.
pub(super) type FileSection<'a> = (&'a FileRef, &'a Section);

/// Returns the sections of a rollup by level and time partition, in the order of their tiles.
pub(in crate::store::maintenance) fn by_level_partition<'a>(
    manifest: &'a Manifest,
    rollup: &RollupMeta,
) -> BTreeMap<(&'a str, i64), Vec<FileSection<'a>>> {
    let mut places: BTreeMap<(&str, i64), Vec<FileSection<'_>>> = BTreeMap::new();
    for file in manifest.tiles_of(rollup.id).flat_map(|t| &t.files) {
        for section in &file.sections {
            places
                .entry((&section.level, section.partition_us))
                .or_default()
                .push((&file.file, section));
        }
    }
    places
}

/// Chooses the next merges of one rollup, `None` when nothing is due. In a quiet partition, which
/// gets no more events, two sections suffice; otherwise four are needed.
pub(super) fn choose<'a>(
    manifest: &'a Manifest,
    quiet: &dyn Fn(LevelPartition<'_>) -> bool,
) -> Option<(&'a RollupMeta, Vec<Merge<'a>>)> {
    for rollup in &manifest.rollups {
        let (mut merges, mut cells) = (Vec::new(), 0);
        let mut files: BTreeMap<&str, u64> = BTreeMap::new();
        let mostly_dropped = mostly_dropped(manifest, rollup);
        for ((level, partition_us), sections) in by_level_partition(manifest, rollup) {
            let is_quiet = quiet((rollup.id, level, partition_us));
            let left =
                |(file, _): &&FileSection<'_>| is_quiet && mostly_dropped.contains(&*file.path);
            let left = sections.iter().find(left).map(|section| vec![*section]);
            let Some(sections) = alike(sections, is_quiet).or(left) else {
                continue;
            };
            cells += sections.iter().map(|(_, s)| s.cells).sum::<u64>();
            files.extend(sections.iter().map(|(f, _)| (f.path.as_str(), f.len)));
            merges.push(Merge {
                level,
                partition_us,
                sections,
            });
            let bytes: u64 = files.values().sum();
            if cells >= CELLS_MAX || bytes >= FILES_MAX || merges.len() == MERGES_MAX {
                break;
            }
        }
        if !merges.is_empty() {
            return Some((rollup, merges));
        }
    }
    None
}

/// Returns the files of a rollup of which more than half was dropped, the part before their first
/// section not counted.
fn mostly_dropped<'a>(manifest: &'a Manifest, rollup: &RollupMeta) -> BTreeSet<&'a str> {
    let files = manifest.tiles_of(rollup.id).flat_map(|t| &t.files);
    let given_up = |f: &TileFile| {
        let first = f.sections.iter().map(|s| s.offset).min().unwrap_or(0);
        let kept: u64 = f.sections.iter().map(|s| s.len).sum();
        f.file.len.saturating_sub(first + kept)
    };
    files
        .filter(|f| given_up(f) * 2 > f.file.len)
        .map(|f| f.file.path.as_str())
        .collect()
}

/// Returns sections of similar size, the smallest first: each counts at most as many events as
/// those before it together (or four times as many, in a quiet partition).
pub(super) fn alike(
    mut sections: Vec<FileSection<'_>>,
    quiet: bool,
) -> Option<Vec<FileSection<'_>>> {
    let (enough, ratio) = if quiet { (2, 4) } else { (4, 1) };
    sections.sort_by_key(|(_, s)| s.events);
    for first in 0..sections.len() {
        let (mut events, mut cells, mut bytes) = (0, 0, 0);
        let fits = |(_, s): &&FileSection<'_>| {
            let alike = events == 0 || s.events <= SMALL.max(events * ratio);
            events += s.events;
            cells += s.cells;
            bytes += s.len;
            alike && cells <= CELLS_MAX && bytes <= BYTES_MAX
        };
        let run = sections[first..].iter().take_while(fits).count();
        if run >= enough {
            return Some(sections[first..first + run].to_vec());
        }
    }
    None
}

#[cfg(test)]
mod tests;
