//! Retention of the levels of rollups: their floors rise, and the buckets below are dropped.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::retain::Trust;
use crate::error::{Error, Result};
use crate::job_log::{Job, Said};
use crate::manifest::Manifest;
use crate::retention;
use crate::rollup_hook::RollupMeta;
use crate::store::Shared;

/// Applies the retention of the levels as of `now_us`. Returns the number of events that they no
/// longer count.
pub(super) fn run_retain_levels(shared: &Shared, now_us: i64) -> Result<u64> {
    let why = "the retention of the levels";
    let work = |_: &_| retain_levels(shared, now_us);
    shared.run_job(Job::RetainLevels, None, why, work, |events| {
        (*events > 0).then(|| Said {
            what: format!(
                "raised the floors of levels; the counts of {events} events below them are dropped"
            ),
            ..Said::default()
        })
    })
}

/// Returns the time from which floors may count back, once the wall clock can be trusted; `None`
/// also when no level has a retention.
pub(super) fn trusted_time(shared: &Shared, trust: &mut Trust) -> Option<i64> {
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
fn retain_levels(shared: &Shared, now_us: i64) -> Result<u64> {
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
