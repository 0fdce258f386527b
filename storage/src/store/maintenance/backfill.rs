//! Backfill: the history of rollups that were added to a stream with events (`rollups`) is counted
//! step by step in the background, from the newest day to the oldest.
//!
//! # Invariants
//! * After each edit a [`History`] records exactly what is not counted. Each step is one edit; a
//!   step that a crash interrupts starts again.
//! * A step holds the cells of one part at a time, and writes its tile before the next part. It
//!   takes whole days of the rollup: at least one, and no more than hold the configured number of
//!   rows.
//! * No seal runs between the last check and the edit of a step. Events sealed into its days
//!   meanwhile are counted with them.

use std::sync::Arc;

use super::rebuild;
use crate::error::{Error, Result};
use crate::job_log::{Job, Said};
use crate::manifest::{Manifest, TileFile};
use crate::part::partition_end;
use crate::rollup_hook::{BoxError, History, Partition, RollupMeta, TileImage};
use crate::snapshot::Snapshot;
use crate::store::Shared;
use crate::store::staged_files::StagedFiles;

/// Maximum number of days that one step covers.
const DAYS_MAX: usize = 400;

/// Counts the short histories; failed steps are retried in the background.
pub(super) fn count_short(shared: &Shared, ids: &[u32]) {
    for id in ids {
        let manifest = Arc::clone(&shared.state.lock().committed.manifest);
        let Some(rollup) = manifest.rollups.iter().find(|r| r.id == *id) else {
            continue;
        };
        let rows: u64 = manifest.parts_of(&rollup.stream).map(|p| p.rows).sum();
        while rows <= shared.options.config.backfill_at_once && step_of(shared, *id) == Some(true) {
        }
    }
}

/// Counts one step of a rollup's history. Returns whether more remains to count.
pub(super) fn step(shared: &Shared) -> bool {
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    let mut waiting = manifest.rollups.iter();
    // A rollup whose step fails does not hold up the others.
    waiting.any(|r| r.counts_from_us().is_some() && step_of(shared, r.id).is_some())
}

/// Does one step of one rollup. Returns whether another step follows, or `None` when the step
/// failed or there was nothing to do.
fn step_of(shared: &Shared, id: u32) -> Option<bool> {
    let _one_at_a_time = shared.tiles.lock();
    let sealed = shared.sealed(&shared.state.lock());
    let rollup = sealed.manifest.rollups.iter().find(|r| r.id == id)?;
    rollup.counts_from_us()?;
    let waiting = rollup.missing();
    let why = format!(
        "the rollup was added to {} after events had been sealed, {waiting} of which are not counted yet",
        rollup.stream
    );
    let work = |_: &_| count(shared, &sealed, rollup);
    let describe = |done: &StepReport| Some(done.said(waiting));
    match shared.run_job(Job::Backfill, Some(&rollup.name), why, work, describe) {
        Ok(done) => Some(!done.is_last),
        Err(Error::Closed) => None,
        Err(error) => {
            tracing::error!(rollup = %rollup.name, %error, "backfill of a rollup failed; maintenance tries again");
            None
        }
    }
}

/// Result of a step.
struct StepReport {
    events: u64,
    files: usize,
    bytes: u64,
    from_us: Option<i64>,
    is_last: bool,
}

impl StepReport {
    fn said(&self, waiting: u64) -> Said {
        let from = self
            .from_us
            .and_then(chrono::DateTime::from_timestamp_micros);
        let from = from.map_or_else(
            || "complete as far as raw events exist".to_owned(),
            |at| format!("complete from {}", at.to_rfc3339()),
        );
        Said {
            what: format!(
                "counted {} events into {} files; {from}",
                self.events, self.files
            ),
            done: Some(self.events),
            total: Some(waiting),
            bytes_written: Some(self.bytes),
            bytes_read: None,
        }
    }
}

fn count(shared: &Shared, sealed: &Snapshot, rollup: &RollupMeta) -> Result<StepReport> {
    let window = window(shared, &sealed.manifest, rollup)?;
    let mut staged = StepFiles::default();
    if let Some(window) = window {
        staged.count(shared, sealed, rollup, window)?;
    }
    let _no_seal = shared.sealer.lock();
    let now = shared.sealed(&shared.state.lock());
    let now_rollup = now.manifest.rollups.iter().find(|r| r.id == rollup.id);
    let Some(now_rollup) = now_rollup else {
        staged.written.remove(shared);
        return Err(Error::Closed);
    };
    if now_rollup.missing() != rollup.missing() {
        // Events of uncounted days were sealed meanwhile, maybe in this window. The lock keeps
        // seals out from here on, so the second count is complete.
        staged.written.remove(shared);
        staged = StepFiles::default();
        match window {
            Some(window) => staged.count(shared, &now, rollup, window)?,
            // The next step counts them.
            None => return Ok(staged.report(rollup.counts_from_us(), false)),
        }
    }
    let left = remaining_history(&now.manifest, now_rollup, window, staged.events);
    let from_us = left.as_ref().and_then(|l| l.until_us);
    let done = staged.report(from_us, from_us.is_none());
    let tile = (std::mem::take(&mut staged.files), staged.events);
    let edit = shared.edit(|manifest| manifest.add_history(rollup.id, tile, left));
    if let Err(error) = &edit {
        staged.written.discard(shared, error);
    }
    edit.map(|()| done)
}

/// Files written by a step.
#[derive(Default)]
struct StepFiles {
    written: StagedFiles,
    files: Vec<TileFile>,
    events: u64,
}

impl StepFiles {
    fn count(
        &mut self,
        shared: &Shared,
        sealed: &Snapshot,
        rollup: &RollupMeta,
        window: Partition,
    ) -> Result<()> {
        let mut failed = None;
        let permit = shared.background_permits.acquire();
        let mut write = |image: TileImage| -> Result<(), BoxError> {
            self.events += image.events;
            if image.events == 0 {
                return Ok(());
            }
            match self.written.write_tile(shared, rollup, image) {
                Ok(file) => self.files.push(file),
                Err(error) => {
                    let what = error.to_string();
                    failed = Some(error);
                    return Err(what.into());
                }
            }
            if shared.state.lock().closing {
                failed = Some(Error::Closed);
                return Err("the store is closing".into());
            }
            Ok(())
        };
        let rollup_hook = &shared.options.rollup_hook;
        let counted = rollup_hook.backfill(rollup, sealed, window, &mut write);
        drop(permit);
        let outcome = match (failed, counted) {
            (Some(error), _) => Err(error),
            (None, Err(source)) => Err(Error::Rollup {
                rollup: rollup.name.to_string(),
                source,
            }),
            (None, Ok(())) => self.written.publish(shared),
        };
        if let Err(error) = &outcome {
            self.written.discard(shared, error);
        }
        outcome
    }

    fn report(&self, from_us: Option<i64>, is_last: bool) -> StepReport {
        StepReport {
            events: self.events,
            files: self.written.paths.len(),
            bytes: self.files.iter().map(|f| f.file.len).sum(),
            from_us,
            is_last,
        }
    }
}

/// Returns the next days to count: at least one day with raw events, and further days while all
/// of them together have few rows.
fn window(shared: &Shared, manifest: &Manifest, rollup: &RollupMeta) -> Result<Option<Partition>> {
    let until_us = rollup.counts_from_us().unwrap_or(i64::MIN);
    let parts = manifest.parts_of(&rollup.stream);
    let mut older: Vec<(i64, i64, u64)> = parts
        .filter(|p| p.time.0 < until_us)
        .map(|p| (p.time.1.min(until_us - 1), p.time.0, p.rows))
        .collect();
    // Sorted with the newest last.
    older.sort_unstable();
    let (mut rows, mut oldest_us, mut start_us) = (0, i64::MAX, until_us);
    for _ in 0..DAYS_MAX {
        let spans = oldest_us < start_us;
        let newest = older.last().map(|(last, ..)| *last);
        let Some(at_us) = spans.then(|| start_us - 1).max(newest) else {
            break;
        };
        let day = day(shared, rollup, at_us)?;
        let mut more = 0;
        let reaches = older.iter().rev();
        for (_, _, rows) in reaches.take_while(|(last, ..)| *last >= day.start_us) {
            more += rows;
        }
        if start_us < until_us && rows + more > shared.options.config.backfill_step_rows {
            break;
        }
        rows += more;
        while let Some((_, first, _)) = older.pop_if(|(last, ..)| *last >= day.start_us) {
            oldest_us = oldest_us.min(first);
        }
        start_us = day.start_us;
    }
    Ok((start_us < until_us).then_some(Partition {
        start_us,
        end_us: until_us,
    }))
}

/// Returns the rest of a history after a window was counted. Without a window the history is
/// over; the result is `None` when no events are missing either.
fn remaining_history(
    manifest: &Manifest,
    rollup: &RollupMeta,
    window: Option<Partition>,
    events: u64,
) -> Option<History> {
    let mut left = rollup.history.clone()?;
    // A history that began without raw events has no counted range yet, so this range has no end.
    let end_us = left.until_us.filter(|us| *us > i64::MIN);
    let end_us = end_us.unwrap_or(i64::MAX);
    let start_us = window.map_or(i64::MIN, |w| w.start_us);
    left.missing = left.missing.saturating_sub(events);
    left.until_us = window.map(|w| w.start_us);
    note_missing(manifest, rollup, &mut left, (start_us, end_us));
    (left.until_us.is_some() || left.missing > 0).then_some(left)
}

/// Records in `history` which raw events are missing from a range of time that is never counted
/// again.
pub(super) fn note_missing(
    manifest: &Manifest,
    rollup: &RollupMeta,
    history: &mut History,
    (start_us, end_us): (i64, i64),
) {
    let meets = |from_us: i64, to_us: i64| to_us > start_us && from_us < end_us;
    for (from_us, to_us) in rebuild::incomplete_ranges(manifest, rollup) {
        if meets(from_us, to_us) {
            history.lost_to_us = history.lost_to_us.max(Some(to_us));
        }
    }
    let width = manifest.streams.get(&rollup.stream).map(|s| s.partition);
    for detached in manifest.detached_of(&rollup.stream) {
        let at_us = detached.partition_us;
        let to_us = partition_end(width.unwrap_or_default(), at_us);
        if meets(at_us, to_us) && !history.detached.contains(&at_us) {
            history.detached.push(at_us);
        }
    }
}

/// Returns the rollup's day of this time.
pub(super) fn day(shared: &Shared, rollup: &RollupMeta, at_us: i64) -> Result<Partition> {
    let day = shared.options.rollup_hook.day(rollup, at_us);
    day.map_err(|source| Error::Rollup {
        rollup: rollup.name.to_string(),
        source,
    })
}
