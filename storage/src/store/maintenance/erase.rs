//! Erasure: events leave the parts, the rollups, the indexes and the journal.
//!
//! # Invariants
//! * One edit erases the events everywhere, or none anywhere. A crash before it leaves files that
//!   no manifest names.
//! * After it every level is what it would be if the erased events had never come, but for events
//!   that cannot be counted out: a day of a rollup can be counted again only if all of its raw
//!   events exist. Their raw rows are erased all the same. They count as dropped, so that nothing
//!   later takes the remaining rows for all of them.
//! * Events that arrive meanwhile are not erased. No seal runs from the recount on to the edit.
//! * Neither the manifest nor a log names what is erased.

mod choice;
mod recounting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{TimestampMicrosecondType, UInt64Type};
use serde::{Deserialize, Serialize};

use self::choice::{ErasedTimes, choose};
use self::recounting::Recounting;
use super::part_rewrite::{PartRewrite, check_disk_space};
use crate::error::{Error, Result};
use crate::job_log::{Job, Said};
use crate::manifest::{Manifest, PartMeta};
use crate::model::{Name, SEQ, TIME};
use crate::part::{Stop, read_column};
use crate::seeded::{self, Bug};
use crate::snapshot::Snapshot;
use crate::store::pace::{Pace, wait_for_others};
use crate::store::staged_files::StagedFiles;
use crate::store::{Shared, seal};

/// Result of an erasure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EraseReport {
    /// Events erased from the parts.
    pub events: u64,
    /// Erased events that the rollups still count: other raw events of their days no longer exist.
    pub still_counted: u64,
    /// Parts that held the events.
    pub parts: usize,
    /// Rollups that were counted again.
    pub rollups: usize,
    /// Detached partitions of the stream, which were not read.
    pub detached: usize,
}

impl EraseReport {
    fn said(&self) -> Said {
        let Self {
            events,
            still_counted,
            parts,
            rollups,
            ..
        } = self;
        let mut what =
            format!("erased {events} events from {parts} parts and recounted {rollups} rollups");
        if *still_counted > 0 {
            what += &format!("; the rollups still count {still_counted} of them");
        }
        Said {
            what,
            done: Some(*events),
            total: Some(*events),
            ..Said::default()
        }
    }
}

/// Erases the events of a stream with these sequence numbers; `dry` only reports them.
/// `cut_journal` begins a new segment of the journal.
pub(super) fn run_erase(
    shared: &Shared,
    stream: &Name,
    mut seqs: Vec<u64>,
    dry: bool,
    cut_journal: &dyn Fn(),
) -> Result<EraseReport> {
    shared.check_stream(stream)?;
    seqs.sort_unstable();
    seqs.dedup();
    let erasure = Erasure {
        shared,
        stream,
        seqs: &seqs,
    };
    if dry {
        return erasure.report();
    }
    let why = "requested by an operator";
    let work = |_: &_| erasure.run(cut_journal);
    shared.run_job(Job::Erase, Some(stream), why, work, |report| {
        (report.events > 0).then(|| report.said())
    })
}

struct Erasure<'a> {
    shared: &'a Shared,
    stream: &'a Name,
    /// Rising.
    seqs: &'a [u64],
}

impl Erasure<'_> {
    fn report(&self) -> Result<EraseReport> {
        seal::seal(self.shared)?;
        let sealed = self.shared.sealed(&self.shared.state.lock());
        let found = self.find(&sealed)?;
        let (_, kept) = choose(self.shared, &sealed.manifest, self.stream, &found)?;
        Ok(EraseReport {
            rollups: 0,
            ..self.report_of(&sealed.manifest, &found, &kept, 0)
        })
    }

    fn report_of(
        &self,
        manifest: &Manifest,
        found: &[(&PartMeta, ErasedTimes)],
        kept: &BTreeMap<i64, u64>,
        rollups: usize,
    ) -> EraseReport {
        EraseReport {
            events: found.iter().map(|(_, found)| found.len() as u64).sum(),
            still_counted: kept.values().sum(),
            parts: found.len(),
            rollups,
            detached: manifest.detached_of(self.stream).count(),
        }
    }

    fn run(&self, cut_journal: &dyn Fn()) -> Result<EraseReport> {
        let shared = self.shared;
        let _no_merge = shared.merging.lock();
        let _parts = shared.parts.lock();
        let _tiles = shared.tiles.lock();
        seal::seal(shared)?;
        // The log thread may wait for a seal, so it is asked before seals are kept out.
        cut_journal();
        let sealed = shared.sealed(&shared.state.lock());
        let found = self.find(&sealed)?;
        if found.is_empty() {
            return Ok(self.report_of(&sealed.manifest, &found, &BTreeMap::new(), 0));
        }
        let mut written = StagedFiles::default();
        let outcome = self.rewrite(&sealed, &found, &mut written);
        let outcome = outcome.and_then(|()| self.commit(&found, &mut written));
        match &outcome {
            Ok(_) => {
                drop(found);
                drop(sealed);
                shared.remove_unreferenced();
            }
            Err(error) => written.discard(shared, error),
        }
        outcome
    }

    /// Returns the parts that hold events to erase, with the times of these events.
    fn find<'s>(&self, sealed: &'s Snapshot) -> Result<Vec<(&'s PartMeta, ErasedTimes)>> {
        let mut found = Vec::new();
        for part in &sealed.manifest.parts {
            let from = self.seqs.partition_point(|seq| *seq < part.seq.0);
            let reaches = self.seqs.get(from).is_some_and(|seq| *seq <= part.seq.1);
            if part.stream != *self.stream || !reaches {
                continue;
            }
            let times = self.times(sealed, part)?;
            if !times.is_empty() {
                found.push((part, times));
            }
        }
        Ok(found)
    }

    /// Returns the times of the events of a part that are to be erased.
    fn times(&self, sealed: &Snapshot, part: &PartMeta) -> Result<ErasedTimes> {
        let mut is_erased = Vec::new();
        let missing = || Error::Corrupt {
            path: (&part.file.path).into(),
            offset: 0,
            what: "the part lacks a column of its own".into(),
        };
        read_column(sealed, part, SEQ, &mut |_, seqs: Option<&ArrayRef>| {
            let seqs = seqs.and_then(|a| a.as_primitive_opt::<UInt64Type>());
            let seqs = seqs.ok_or_else(missing)?.values().iter();
            is_erased.extend(seqs.map(|seq| self.seqs.binary_search(seq).is_ok()));
            Ok(())
        })?;
        let (mut times, mut rows) = (Vec::new(), is_erased.iter());
        read_column(sealed, part, TIME, &mut |_, column: Option<&ArrayRef>| {
            let column = column.and_then(|a| a.as_primitive_opt::<TimestampMicrosecondType>());
            let values = column.ok_or_else(missing)?.values().iter();
            times.extend(values.filter(|_| rows.next() == Some(&true)));
            Ok(())
        })?;
        Ok(times)
    }

    /// Writes the parts anew without the events; a part of which nothing stays has no successor.
    fn rewrite(
        &self,
        sealed: &Snapshot,
        found: &[(&PartMeta, ErasedTimes)],
        written: &mut StagedFiles,
    ) -> Result<()> {
        let shared = self.shared;
        check_disk_space(shared, found.iter().map(|(part, _)| *part))?;
        let permit = shared.background_permits.acquire();
        let pause = || permit.pass(|| wait_for_others(shared, Pace::Foreground));
        let rewrite = PartRewrite {
            shared,
            sealed,
            without: self.seqs,
            pause: &pause,
        };
        for (part, erased) in found {
            if part.rows == erased.len() as u64 {
                continue;
            }
            rewrite.run(&[part], written).map_err(|stop| match stop {
                Stop::Unread(_, error) | Stop::Failed(error) => error,
                Stop::Unsorted(id) => panic!("BUG: part {id} was sorted in pieces"),
            })?;
        }
        Ok(())
    }

    /// Counts the rollups again and commits everything in one edit.
    fn commit(
        &self,
        found: &[(&PartMeta, ErasedTimes)],
        written: &mut StagedFiles,
    ) -> Result<EraseReport> {
        let (shared, stream) = (self.shared, self.stream);
        let _no_seal = shared.sealer.lock();
        let now = shared.sealed(&shared.state.lock());
        let (days, kept) = choose(shared, &now.manifest, stream, found)?;
        let old: BTreeSet<u64> = found.iter().map(|(part, _)| part.id).collect();
        let new = written.parts.clone();
        let mut remaining = (*now.manifest).clone();
        remaining.replace_parts(&old, new.clone());
        let mut recounts = Vec::new();
        for (rollup, days) in now.manifest.rollups_of(stream).zip(&days) {
            if days.is_empty() {
                continue;
            }
            let mut recounting = Recounting {
                shared,
                now: &now,
                remaining: &mut remaining,
                rollup,
                written: &mut *written,
            };
            recounts.push(recounting.recount(days)?);
        }
        if !seeded::is(Bug::ErasedUnsynced) {
            written.publish(shared)?;
        }
        let report = self.report_of(&now.manifest, found, &kept, recounts.len());
        let now_us = shared.now_us();
        shared.edit_and(
            |manifest, view| {
                manifest.replace_parts(&old, new);
                recounts.into_iter().for_each(|r| manifest.recount(r));
                manifest.erase(stream, now_us, report.events, &kept);
                seal::drop_journal(manifest, view);
            },
            |state| {
                let committed = Arc::clone(&state.committed.manifest);
                let live = Arc::make_mut(&mut state.streams).get_mut(stream);
                if let (Some(live), Some(known)) = (live, committed.streams.get(stream)) {
                    live.sealed_events = known.sealed_events;
                    live.dropped.clone_from(&known.dropped);
                    live.erasures.clone_from(&known.erasures);
                }
                let floor = committed.journal_floor;
                state.segments.retain(|(segment, _)| *segment >= floor);
            },
        )?;
        Ok(report)
    }
}

#[cfg(test)]
mod tests;
