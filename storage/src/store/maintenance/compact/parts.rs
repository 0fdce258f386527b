//! Compaction of parts: within one partition of a stream, parts of similar size become one.
//!
//! # Invariants
//! * One edit replaces the inputs (`part_choice`) by the new part. The manifest's proof checks that
//!   their rows add up, and `part_rewrite` that they are the same rows.
//! * A part that cannot be read is left alone; the others are merged, and the error is reported.
//! * `Shared.parts` is held only while the inputs are checked once more and the edit is
//!   committed. A merge whose inputs were dropped meanwhile is void.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::debt::why_parts;
use super::part_choice::{Partition, choose};
use crate::background_permits::BackgroundPermit;
use crate::error::{Error, Result};
use crate::job_log::{Job, Running, Said};
use crate::manifest::PartMeta;
use crate::model::Name;
use crate::part::Stop;
use crate::snapshot::Snapshot;
use crate::store::Shared;
use crate::store::maintenance::part_rewrite::{PartRewrite, check_disk_space};
use crate::store::pace::{Pace, wait_for_others};
use crate::store::staged_files::StagedFiles;

/// Result of a compaction of parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartsReport {
    /// Parts merged.
    pub merged: usize,
    /// Parts that replaced them.
    pub into: usize,
    /// Rows rewritten.
    pub rows: u64,
    /// Bytes of the merged parts.
    pub bytes_read: u64,
    /// Bytes of the parts that replaced them.
    pub bytes_written: u64,
    /// Edits of the manifest.
    pub edits: usize,
}

impl PartsReport {
    fn said(&self) -> Said {
        let Self {
            merged, into, rows, ..
        } = self;
        Said {
            what: format!("merged {merged} parts into {into}: {rows} rows"),
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
    only: Option<&Name>,
    quiet: &dyn Fn(Partition<'_>) -> bool,
    pace: Pace,
) -> Result<PartsReport> {
    let _one_at_a_time = shared.merging.lock();
    let sealed = Arc::clone(&shared.state.lock().committed.manifest);
    let (parts, why) = why_parts(&sealed, only, quiet);
    drop(sealed);
    let work = |run: &Running| {
        let compaction = PartsCompaction {
            shared,
            run,
            parts,
            pace,
            unreadable: BTreeSet::new(),
            first_error: None,
            report: PartsReport::default(),
            permit: None,
        };
        compaction.run(only, quiet)
    };
    shared.run_job(Job::CompactParts, only, why, work, |report| {
        (report.merged > 0).then(|| report.said())
    })
}

struct PartsCompaction<'a> {
    shared: &'a Shared,
    run: &'a Running,
    /// Number of parts of similar size at the start; merged parts may be merged again.
    parts: u64,
    pace: Pace,
    /// Parts that cannot be read.
    unreadable: BTreeSet<u64>,
    /// Error of the first unreadable part.
    first_error: Option<Error>,
    report: PartsReport,
    /// Permit of the merge under way.
    permit: Option<BackgroundPermit<'a>>,
}

impl PartsCompaction<'_> {
    /// Runs the compaction. An unreadable part is an error once all others are merged.
    fn run(
        mut self,
        only: Option<&Name>,
        quiet: &dyn Fn(Partition<'_>) -> bool,
    ) -> Result<PartsReport> {
        self.merge_all(only, quiet)?;
        self.first_error.map_or(Ok(self.report), Err)
    }

    /// Merges until nothing is left to do, or the store is closing.
    fn merge_all(
        &mut self,
        only: Option<&Name>,
        quiet: &dyn Fn(Partition<'_>) -> bool,
    ) -> Result<()> {
        let shared = self.shared;
        while !shared.state.lock().closing {
            let sealed = shared.sealed(&shared.state.lock());
            let merges = choose(&sealed.manifest, only, quiet, &self.unreadable);
            if merges.is_empty() {
                break;
            }
            let done = self.step(&sealed, &merges);
            // A snapshot keeps the merged inputs on the disk, so drop it before they are removed.
            drop(merges);
            drop(sealed);
            match done {
                Err(Error::Closed) => break,
                other => other?,
            }
            shared.remove_unreferenced();
        }
        Ok(())
    }

    /// Does some merges and commits them in one edit.
    fn step(&mut self, sealed: &Snapshot, merges: &[Vec<&PartMeta>]) -> Result<()> {
        check_disk_space(self.shared, merges.iter().flatten().copied())?;
        self.permit = Some(self.shared.background_permits.acquire());
        let mut written = StagedFiles::default();
        let mut gone: Vec<&PartMeta> = Vec::new();
        let mut work = || {
            for parts in merges {
                gone.extend(self.merge(sealed, parts, &mut written)?);
            }
            written.publish(self.shared)
        };
        let worked = work();
        self.permit = None;
        let outcome = worked.and_then(|()| self.commit(&gone, &mut written));
        if let Err(error) = &outcome {
            written.discard(self.shared, error);
        }
        outcome
    }

    /// Merges parts of one partition and returns the parts to replace: none when one cannot be
    /// read.
    fn merge<'p>(
        &mut self,
        sealed: &Snapshot,
        parts: &[&'p PartMeta],
        written: &mut StagedFiles,
    ) -> Result<Vec<&'p PartMeta>> {
        let before = written.parts.len();
        let rewrite = PartRewrite {
            shared: self.shared,
            sealed,
            without: &[],
            pause: &|| self.pause(),
        };
        match rewrite.run(parts, written) {
            Ok(replaced) => Ok(replaced),
            Err(Stop::Unread(id, error)) => {
                tracing::error!(%error, "a part cannot be read; it stays in place and is not merged with others");
                written.undo(self.shared, before);
                self.unreadable.insert(id);
                self.first_error.get_or_insert(error);
                Ok(Vec::new())
            }
            Err(Stop::Unsorted(id)) => panic!("BUG: part {id} was sorted in pieces"),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    /// Replaces the inputs by the written parts in one edit, unless an input was dropped
    /// meanwhile.
    fn commit(&mut self, gone: &[&PartMeta], written: &mut StagedFiles) -> Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        let _one_at_a_time = self.shared.parts.lock();
        let current = Arc::clone(&self.shared.state.lock().committed.manifest);
        let live: BTreeSet<u64> = current.parts.iter().map(|p| p.id).collect();
        let ids: BTreeSet<u64> = gone.iter().map(|p| p.id).collect();
        if !ids.is_subset(&live) {
            written.remove(self.shared);
            return Ok(());
        }
        let new = written.parts.clone();
        let bytes =
            |parts: &mut dyn Iterator<Item = &PartMeta>| parts.map(|p| p.file.len).sum::<u64>();
        self.shared
            .edit(|manifest| manifest.replace_parts(&ids, new))?;
        self.shared.remove_unreferenced();
        self.report.merged += gone.len();
        self.report.into += written.parts.len();
        self.report.rows += gone.iter().map(|p| p.rows).sum::<u64>();
        self.report.bytes_read += bytes(&mut gone.iter().copied());
        self.report.bytes_written += bytes(&mut written.parts.iter());
        self.report.edits += 1;
        let merged = self.report.merged as u64;
        self.run.progress(merged, Some(self.parts.max(merged)));
        Ok(())
    }

    /// Lets foreground requests and seals go first.
    fn pause(&self) -> Result<()> {
        let permit = self.permit.as_ref().expect("BUG: a merge has its turn");
        permit.pass(|| wait_for_others(self.shared, self.pace))
    }
}

#[cfg(test)]
mod tests;
