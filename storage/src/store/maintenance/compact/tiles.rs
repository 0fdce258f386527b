//! Compaction of tiles: within one (level, time partition) of a rollup, sections of similar size
//! become one section in a file of its own.
//!
//! # Invariants
//! * One edit replaces the chosen sections (`section_choice`) by the new files, and the manifest's
//!   proof checks that no event is lost or counted twice.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::debt::why_tiles;
use super::section_choice::{LevelPartition, choose};
use crate::error::{Error, Result};
use crate::job_log::{Job, Running, Said};
use crate::manifest::SectionKey;
use crate::rollup_hook::{Merge, RollupMeta};
use crate::snapshot::Snapshot;
use crate::store::Shared;
use crate::store::staged_files::write_images;

/// Result of a compaction of tiles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactReport {
    /// Sections merged.
    pub merged: usize,
    /// Sections that replaced them.
    pub into: usize,
    /// Cells read.
    pub cells_read: u64,
    /// Cells written.
    pub cells_written: u64,
    /// Bytes of the sections read.
    #[serde(default)]
    pub bytes_read: u64,
    /// Bytes of the files written.
    pub bytes_written: u64,
    /// Edits of the manifest.
    pub edits: usize,
}

impl CompactReport {
    fn add(&mut self, other: Self) {
        self.merged += other.merged;
        self.into += other.into;
        self.cells_read += other.cells_read;
        self.cells_written += other.cells_written;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.edits += other.edits;
    }

    fn said(&self) -> Said {
        let Self {
            merged,
            into,
            cells_read,
            cells_written,
            ..
        } = self;
        Said {
            what: format!(
                "merged {merged} sections into {into}: {cells_read} cells became {cells_written}"
            ),
            done: Some(*merged as u64),
            total: Some(*merged as u64),
            bytes_read: Some(self.bytes_read),
            bytes_written: Some(self.bytes_written),
        }
    }
}

/// Merges until nothing is left to do, or the store is closing.
pub(in crate::store::maintenance) fn compact(
    shared: &Shared,
    quiet: &dyn Fn(LevelPartition<'_>) -> bool,
) -> Result<CompactReport> {
    let _one_at_a_time = shared.tiles.lock();
    let sealed = Arc::clone(&shared.state.lock().committed.manifest);
    let (sections, why) = why_tiles(&sealed, quiet);
    drop(sealed);
    let work = |run: &Running| merge_all(shared, quiet, sections, run);
    shared.run_job(Job::CompactTiles, None, why, work, |report| {
        (report.merged > 0).then(|| report.said())
    })
}

/// Merges until nothing is left to do. `sections` is the number to merge as it was at the start;
/// merged sections may be merged again.
fn merge_all(
    shared: &Shared,
    quiet: &dyn Fn(LevelPartition<'_>) -> bool,
    sections: u64,
    run: &Running,
) -> Result<CompactReport> {
    let mut report = CompactReport::default();
    while !shared.state.lock().closing {
        let sealed = shared.sealed(&shared.state.lock());
        let Some((rollup, merges)) = choose(&sealed.manifest, quiet) else {
            break;
        };
        merge(shared, rollup, &merges, &sealed, &mut report)?;
        let merged = report.merged as u64;
        run.progress(merged, Some(sections.max(merged)));
    }
    Ok(report)
}

fn merge(
    shared: &Shared,
    rollup: &RollupMeta,
    merges: &[Merge<'_>],
    sealed: &Snapshot,
    report: &mut CompactReport,
) -> Result<()> {
    let failed = |source| Error::Rollup {
        rollup: rollup.name.to_string(),
        source,
    };
    let permit = shared.background_permits.acquire();
    let merged = shared.options.rollup_hook.merge(rollup, merges, sealed);
    drop(permit);
    let images = merged.map_err(failed)?;
    let read = || merges.iter().flat_map(|m| &m.sections);
    let gone: Vec<SectionKey> = read()
        .map(|(file, section)| SectionKey::of(&file.path, section))
        .collect();
    let sections = || images.iter().flat_map(|i| &i.sections);
    let done = CompactReport {
        merged: gone.len(),
        into: sections().count(),
        cells_read: read().map(|(_, s)| s.cells).sum(),
        cells_written: sections().map(|s| s.cells).sum(),
        bytes_read: read().map(|(_, s)| s.len).sum(),
        bytes_written: images.iter().map(|i| i.bytes.len() as u64).sum(),
        edits: 1,
    };
    write_images(shared, rollup, images, |files| {
        shared.edit(|manifest| manifest.replace_sections(rollup.id, &gone, files))
    })?;
    shared.remove_unreferenced();
    report.add(done);
    Ok(())
}
