//! The maintenance thread: runs all jobs of maintenance after each seal and every minute.

use std::sync::Arc;

use super::compact::{Partition, compact_parts, compact_tiles};
use super::quarantine::run_drop_settled;
use super::quiet::Quiet;
use super::retain::{Trust, retain_in_background};
use super::retain_levels::{run_retain_levels, trusted_time};
use super::{backfill, disk_forecast, index};
use crate::env::step_back;
use crate::error::Result;
use crate::store::pace::Pace;
use crate::store::{Shared, wait_for};

/// Background work gives way to every foreground request.
const MAINTENANCE_NICE: i32 = 19;
/// Interval of maintenance when no seal triggers it.
const INTERVAL_US: i64 = 60_000_000;

/// Runs maintenance after each seal, on request, and at least once per interval.
pub(in crate::store) fn maintenance_loop(shared: &Arc<Shared>) {
    step_back(MAINTENANCE_NICE);
    let mut quiet = Quiet::default();
    let mut trust = Trust::default();
    let mut seen_seq = None;
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
                if is_requested || sealed != seen_seq || shared.now_us() - started >= INTERVAL_US {
                    seen_seq = sealed;
                    break;
                }
                wait_for(&shared.sealing, &mut state, 250_000);
            }
        }
        let outcome = run_once(shared, &mut quiet, &mut trust);
        shared.state.lock().tend_error = outcome.as_ref().err().map(ToString::to_string);
        if let Err(error) = outcome {
            tracing::error!(%error, "maintenance failed; nothing is lost, parts and tiles stay as they are, and the next run tries again");
            if shared.syncer.poisoned().is_some() {
                return;
            }
        }
    }
}

/// Runs every job once. Indexes come last, after the merges of parts.
fn run_once(shared: &Shared, quiet: &mut Quiet, trust: &mut Trust) -> Result<()> {
    shared.reserve.restore(shared.fs());
    disk_forecast::sample(shared);
    // The last reader of a file may have gone long ago, with no edit since.
    shared.remove_unreferenced();
    let objects = shared.tend_objects();
    // Other jobs go on without the object store.
    if shared.syncer.poisoned().is_some() {
        return objects;
    }
    retain_in_background(shared, trust)?;
    if let Some(now_us) = trusted_time(shared, trust) {
        run_retain_levels(shared, now_us)?;
    }
    let has_history = backfill::step(shared);
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    quiet.observe(&manifest, shared.now_us());
    let now_us = shared.now_us();
    run_drop_settled(shared)?;
    compact_tiles(shared, &|place| quiet.is_quiet(place, now_us))?;
    let is_quiet = |partition: Partition<'_>| quiet.is_partition_quiet(partition, now_us);
    compact_parts(shared, None, &is_quiet, Pace::Background)?;
    let (_, has_more) = index::build(shared, Pace::Background)?;
    shared.state.lock().maintenance_requested |= has_more || has_history;
    objects
}

#[cfg(test)]
mod tests;
