//! What the store does by itself between seals: streams and levels give up what their retention says,
//! tiles and parts are compacted, the quarantine gives up what is settled, and parts get the indexes that
//! are wanted. Those come last, after the merges of parts: the thread steps back, and both pause for others.

use std::collections::BTreeMap;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::compact::{
    Pace, Partition, Place, by_partition, by_place, compact_parts, compact_tiles,
};
use super::retain::Trust;
use super::{Shared, disk_forecast, index, wait_for};
use crate::env::step_back;
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::model::Name;
use crate::retention;
use crate::rollup_hook::RollupMeta;

/// Nobody waits for what is tended.
const MAINTENANCE_NICE: i32 = 19;
/// A partition is quiet when nothing was added to it for ten minutes.
const QUIET_US: i64 = 600_000_000;
/// How often to look when no seal asks for it.
const INTERVAL_US: i64 = 60_000_000;

pub(super) fn maintenance_loop(shared: &Arc<Shared>) {
    step_back(MAINTENANCE_NICE);
    let mut quiet = Quiet::default();
    let mut trust = Trust::default();
    let mut tended = None;
    loop {
        {
            let mut state = shared.state.lock();
            let started = shared.now_us();
            loop {
                if state.closing {
                    return;
                }
                let sealed = Some(state.committed.manifest.sealed_seq);
                let is_asked = std::mem::take(&mut state.maintenance_asked);
                if is_asked || sealed != tended || shared.now_us() - started >= INTERVAL_US {
                    tended = sealed;
                    break;
                }
                wait_for(&shared.sealing, &mut state, 250_000);
            }
        }
        let tended = tend(shared, &mut quiet, &mut trust);
        shared.state.lock().tend_error = tended.as_ref().err().map(ToString::to_string);
        if let Err(error) = tended {
            tracing::error!(%error, "tiles or parts could not be tended; nothing is lost, they stay as they are");
            if shared.syncer.poisoned().is_some() {
                return;
            }
        }
    }
}

fn tend(shared: &Shared, quiet: &mut Quiet, trust: &mut Trust) -> Result<()> {
    shared.reserve.restore(shared.fs());
    disk_forecast::sample(shared);
    // Nobody may have read it any more for a while, with no edit since.
    shared.remove_unreferenced();
    shared.tell_retain(|| super::retain::tend(shared, trust))?;
    if let Some(now_us) = trusted_for_levels(shared, trust) {
        shared.tell_retain_levels(now_us)?;
    }
    let has_history = super::backfill::step(shared);
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    quiet.look(&manifest, shared.now_us());
    let now_us = shared.now_us();
    shared.tell_drop_settled()?;
    compact_tiles(shared, &|place| quiet.since(place, now_us))?;
    let is_quiet = |partition: Partition<'_>| quiet.parts_since(partition, now_us);
    compact_parts(shared, None, &is_quiet, Pace::Background)?;
    let (_, has_more) = index::build(shared, Pace::Background)?;
    shared.state.lock().maintenance_asked |= has_more || has_history;
    Ok(())
}

/// Since when each (level, time partition) has had the sections that it has, and each partition of a
/// stream as many rows.
#[derive(Debug, Default)]
struct Quiet {
    sections: BTreeMap<(u32, String, i64), (u64, i64)>,
    rows: BTreeMap<(Name, i64), (u64, i64)>,
}

impl Quiet {
    fn look(&mut self, manifest: &Manifest, now_us: i64) {
        let mut seen = BTreeMap::new();
        for rollup in &manifest.rollups {
            for ((level, partition_us), sections) in by_place(manifest, rollup) {
                let paths: Vec<&str> = sections.iter().map(|(f, _)| f.path.as_str()).collect();
                let hash = xxh3_64(paths.join("\n").as_bytes());
                let place = (rollup.id, level.to_owned(), partition_us);
                let known = self.sections.get(&place).filter(|(h, _)| *h == hash);
                let since = known.map_or(now_us, |(_, since)| *since);
                seen.insert(place, (hash, since));
            }
        }
        self.sections = seen;
        self.look_at_parts(manifest, now_us);
    }

    fn look_at_parts(&mut self, manifest: &Manifest, now_us: i64) {
        let seen = by_partition(manifest)
            .into_iter()
            .map(|((stream, partition_us), parts)| {
                let partition = (stream.clone(), partition_us);
                let rows = parts.iter().map(|p| p.rows).sum();
                let known = self.rows.get(&partition).filter(|(r, _)| *r == rows);
                let since = known.map_or(now_us, |(_, since)| *since);
                (partition, (rows, since))
            });
        self.rows = seen.collect();
    }

    fn since(&self, (rollup, level, partition_us): Place<'_>, now_us: i64) -> bool {
        let known = self.sections.get(&(rollup, level.to_owned(), partition_us));
        known.is_some_and(|(_, since)| now_us - since >= QUIET_US)
    }

    fn parts_since(&self, (stream, partition_us): Partition<'_>, now_us: i64) -> bool {
        let known = self.rows.get(&(stream.clone(), partition_us));
        known.is_some_and(|(_, since)| now_us - since >= QUIET_US)
    }
}

/// The time from which floors may count back, once the wall clock can be trusted and some level has
/// an age.
fn trusted_for_levels(shared: &Shared, trust: &mut Trust) -> Option<i64> {
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    let ages = |rollup| shared.options.rollup_hook.retention(rollup);
    if manifest
        .rollups
        .iter()
        .all(|rollup| ages(rollup).is_empty())
    {
        return None;
    }
    let now_us = shared.now_us();
    let is_trusted = trust.look(now_us, shared.options.clock.elapsed_us());
    is_trusted.then_some(now_us)
}

/// Raises the floors of levels whose retention says so and gives up what lies below. It counts back
/// from the newest events of the stream or from `now_us`, whichever is earlier; a few events with
/// wrong stamps are not the newest.
pub(super) fn retain(shared: &Shared, now_us: i64) -> Result<u64> {
    let _one_at_a_time = shared.tiles.lock();
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    let mut cuts = Vec::new();
    for rollup in &manifest.rollups {
        let Some(newest_us) = newest(&manifest, rollup) else {
            continue;
        };
        for (level, age_us) in shared.options.rollup_hook.retention(rollup) {
            let limit_us = newest_us.min(now_us).saturating_sub(age_us);
            let partition = shared
                .options
                .rollup_hook
                .partition(rollup, &level, limit_us);
            let floor_us = partition.map_err(|source| Error::Rollup {
                rollup: rollup.name.to_string(),
                source,
            })?;
            if floor_us.start_us > rollup.floor_us(&level)
                && has_below(&manifest, rollup, &level, floor_us.start_us)
            {
                cuts.push((rollup.id, level, floor_us.start_us));
            }
        }
    }
    let mut events = 0;
    if !cuts.is_empty() {
        shared.edit(|manifest| {
            for (rollup, level, floor_us) in &cuts {
                events += manifest.cut_level(*rollup, level, *floor_us);
            }
        })?;
        shared.remove_unreferenced();
    }
    Ok(events)
}

/// Whether a level holds something that begins before this. (A floor that cuts nothing waits.)
fn has_below(manifest: &Manifest, rollup: &RollupMeta, level: &str, floor_us: i64) -> bool {
    let files = manifest.tiles_of(rollup.id).flat_map(|t| &t.files);
    files
        .flat_map(|f| &f.sections)
        .any(|s| s.level == level && s.partition_us < floor_us)
}

/// The time of the newest sealed events of a rollup's stream, or the start of the newest bucket of
/// its finest level when the raw events are gone: of as many events as a usual partition of either
/// holds.
fn newest(manifest: &Manifest, rollup: &RollupMeta) -> Option<i64> {
    let raw = retention::newest_of(manifest, &rollup.stream);
    let mut partitions: BTreeMap<i64, (u64, i64)> = BTreeMap::new();
    let files = manifest.tiles_of(rollup.id).flat_map(|t| &t.files);
    let sections = files.flat_map(|f| &f.sections);
    for section in sections.filter(|s| Some(&s.level) == rollup.levels.first()) {
        let (events, newest) = partitions
            .entry(section.partition_us)
            .or_insert((0, i64::MIN));
        *events += section.events;
        *newest = section.bucket_max_us.max(*newest);
    }
    raw.max(retention::usual_newest(&partitions))
}

#[cfg(test)]
mod tests;
