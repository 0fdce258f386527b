//! Maintenance, the background work between seals: streams and levels drop data beyond their
//! retention, rollups count their history, settled partitions of the quarantine are dropped,
//! tiles and parts are compacted, and parts get the wanted indexes. Indexes come last, after the
//! merges of parts. The thread has low priority, and merges and index builds pause for foreground
//! requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::compact::{
    LevelPartition, Pace, Partition, by_level_partition, by_partition, compact_parts, compact_tiles,
};
use super::retain::Trust;
use super::{Shared, disk_forecast, index, wait_for};
use crate::env::step_back;
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::model::Name;
use crate::retention;
use crate::rollup_hook::RollupMeta;

/// Background work gives way to every foreground request.
const MAINTENANCE_NICE: i32 = 19;
/// Time without new events after which a partition is quiet: ten minutes.
const QUIET_US: i64 = 600_000_000;
/// Interval of maintenance when no seal triggers it.
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
                let is_requested = std::mem::take(&mut state.maintenance_requested);
                if is_requested || sealed != tended || shared.now_us() - started >= INTERVAL_US {
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
    // The last reader of a file may have gone long ago, with no edit since.
    shared.remove_unreferenced();
    shared.run_retain(|| super::retain::tend(shared, trust))?;
    if let Some(now_us) = trusted_for_levels(shared, trust) {
        shared.run_retain_levels(now_us)?;
    }
    let has_history = super::backfill::step(shared);
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    quiet.observe(&manifest, shared.now_us());
    let now_us = shared.now_us();
    shared.run_drop_settled()?;
    compact_tiles(shared, &|place| quiet.is_quiet(place, now_us))?;
    let is_quiet = |partition: Partition<'_>| quiet.is_partition_quiet(partition, now_us);
    compact_parts(shared, None, &is_quiet, Pace::Background)?;
    let (_, has_more) = index::build(shared, Pace::Background)?;
    shared.state.lock().maintenance_requested |= has_more || has_history;
    Ok(())
}

/// Time since which each (level, time partition) has had the same sections, and each partition of
/// a stream the same number of rows.
#[derive(Debug, Default)]
struct Quiet {
    sections: BTreeMap<(u32, String, i64), (u64, i64)>,
    rows: BTreeMap<(Name, i64), (u64, i64)>,
}

impl Quiet {
    fn observe(&mut self, manifest: &Manifest, now_us: i64) {
        let mut seen = BTreeMap::new();
        for rollup in &manifest.rollups {
            for ((level, partition_us), sections) in by_level_partition(manifest, rollup) {
                let paths: Vec<&str> = sections.iter().map(|(f, _)| f.path.as_str()).collect();
                let hash = xxh3_64(paths.join("\n").as_bytes());
                let place = (rollup.id, level.to_owned(), partition_us);
                let known = self.sections.get(&place).filter(|(h, _)| *h == hash);
                let since = known.map_or(now_us, |(_, since)| *since);
                seen.insert(place, (hash, since));
            }
        }
        self.sections = seen;
        self.observe_parts(manifest, now_us);
    }

    fn observe_parts(&mut self, manifest: &Manifest, now_us: i64) {
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

    fn is_quiet(&self, (rollup, level, partition_us): LevelPartition<'_>, now_us: i64) -> bool {
        let known = self.sections.get(&(rollup, level.to_owned(), partition_us));
        known.is_some_and(|(_, since)| now_us - since >= QUIET_US)
    }

    fn is_partition_quiet(&self, (stream, partition_us): Partition<'_>, now_us: i64) -> bool {
        let known = self.rows.get(&(stream.clone(), partition_us));
        known.is_some_and(|(_, since)| now_us - since >= QUIET_US)
    }
}

/// Returns the time from which floors may count back, once the wall clock can be trusted; `None`
/// also when no level has a retention.
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
    let is_trusted = trust.observe(now_us, shared.options.clock.elapsed_us());
    is_trusted.then_some(now_us)
}

/// Raises the floors of levels to their retention and drops the buckets below. The retention
/// counts back from the newest events of the stream or from `now_us`, whichever is earlier; a few
/// events with wrong timestamps do not count as the newest.
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

/// Checks whether a level holds a section that begins before `floor_us`. (A floor that cuts
/// nothing waits.)
fn has_below(manifest: &Manifest, rollup: &RollupMeta, level: &str, floor_us: i64) -> bool {
    let files = manifest.tiles_of(rollup.id).flat_map(|t| &t.files);
    files
        .flat_map(|f| &f.sections)
        .any(|s| s.level == level && s.partition_us < floor_us)
}

/// Returns the time of the newest sealed events of a rollup's stream, or the start of the newest
/// bucket of its finest level when the raw events are gone. Either must have as many events as a
/// usual partition, so that a few stray ones do not count.
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
