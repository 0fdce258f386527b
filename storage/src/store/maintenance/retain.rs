//! Applies retention: drops the partitions that `retention.rs` chooses, by hand or in
//! maintenance.
//!
//! # Invariants
//! * Maintenance applies an age only while the wall clock can be trusted: for an hour of this
//!   process it has advanced in step with the monotonic clock. When the two diverge by more than
//!   a minute, either way, the hour begins anew and a warning is logged.
//! * One edit drops all chosen partitions.
//! * A limit that a command has set is in the manifest before the command succeeds, and no command
//!   sets one where the configuration does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::drop;
use super::jobs::{moment, span};
use crate::error::{Error, Result};
use crate::job_log::{Job, Said};
use crate::limits::Retention;
use crate::manifest::Manifest;
use crate::model::Name;
use crate::part::partition_end;
use crate::retention::{Leaving, Why, choose};
use crate::store::{Shared, seal};

/// Time for which the clocks must have agreed.
const TRUST_US: i64 = 3_600_000_000;
/// Maximum difference at which they agree.
const JUMP_US: i64 = 60_000_000;

/// Decides when the wall clock can be trusted.
#[derive(Debug, Default)]
pub(super) struct Trust {
    /// Difference of the clocks when they were first compared, and the monotonic time of that.
    since: Option<(i64, i64)>,
}

impl Trust {
    /// Compares both clocks, in microseconds. Returns whether the wall clock can be trusted.
    pub(super) fn observe(&mut self, now_us: i64, elapsed_us: i64) -> bool {
        let apart = now_us.saturating_sub(elapsed_us);
        let (before, since_us) = *self.since.get_or_insert((apart, elapsed_us));
        let jump_us = apart.saturating_sub(before);
        if jump_us.saturating_abs() > JUMP_US {
            tracing::warn!(
                seconds = jump_us / 1_000_000,
                "the clock jumped; nothing is dropped for its age until the clock has run steadily for an hour"
            );
            self.since = Some((apart, elapsed_us));
            return false;
        }
        elapsed_us - since_us >= TRUST_US
    }
}

/// Applies retention in maintenance.
pub(super) fn retain_in_background(shared: &Shared, trust: &mut Trust) -> Result<Vec<Leaving>> {
    let limits = limits(shared);
    if limits.is_empty() {
        return Ok(Vec::new());
    }
    run_retain(shared, || {
        let now_us = shared.now_us();
        let trusted = trust.observe(now_us, shared.options.clock.elapsed_us());
        let _one_at_a_time = shared.parts.lock();
        let leaving = apply(shared, &limits, trusted.then_some(now_us), false)?;
        for partition in &leaving {
            tracing::info!(
                ?partition,
                "dropped a partition beyond its stream's retention"
            );
        }
        Ok(leaving)
    })
}

/// Applies retention for an operator, to one stream or to all, and trusts the clock.
pub(super) fn retain(shared: &Shared, only: Option<&Name>, dry: bool) -> Result<Vec<Leaving>> {
    let work = || {
        only.map_or(Ok(()), |stream| shared.check_stream(stream))?;
        let _one_at_a_time = shared.parts.lock();
        shared.with_reserve(|| seal::seal(shared))?;
        let mut limits = limits(shared);
        limits.retain(|stream, _| only.is_none_or(|only| stream == only));
        apply(shared, &limits, Some(shared.now_us()), dry)
    };
    if dry {
        return work();
    }
    run_retain(shared, work)
}

/// Runs retention as a job, with one line in the job log for each dropped partition.
fn run_retain(
    shared: &Shared,
    work: impl FnOnce() -> Result<Vec<Leaving>>,
) -> Result<Vec<Leaving>> {
    let why = "the retention of the streams";
    let leaving = shared.run_job(Job::Retain, None, why, |_| work(), |_| None)?;
    for gone in &leaving {
        let stream = Some(&gone.stream);
        shared.run_job(
            Job::Retain,
            stream,
            limit_of(shared, gone),
            |_| Ok(()),
            |()| Some(describe(gone)),
        )?;
    }
    Ok(leaving)
}

/// Returns the limit beyond which a dropped partition was, in a sentence.
fn limit_of(shared: &Shared, gone: &Leaving) -> String {
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    let limits = shared.options.config.retention(&manifest, &gone.stream);
    match gone.why {
        Why::Age => {
            let width = manifest.streams.get(&gone.stream).map(|s| s.partition);
            let end = partition_end(width.unwrap_or_default(), gone.partition_us);
            let age = span(limits.age_us.unwrap_or(0));
            format!("age limit {age}: the partition ended {}", moment(end))
        }
        Why::Bytes => {
            let bytes = limits.bytes.unwrap_or(0);
            format!("the stream has more than {bytes} bytes of parts")
        }
    }
}

fn describe(gone: &Leaving) -> Said {
    let start = moment(gone.partition_us);
    Said {
        what: format!(
            "dropped the partition of {start}: {} events, {} parts, {} bytes",
            gone.events, gone.parts, gone.bytes
        ),
        done: Some(1),
        total: Some(1),
        ..Said::default()
    }
}

/// Returns the streams that have limits.
fn limits(shared: &Shared) -> BTreeMap<Name, Retention> {
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    let config = &shared.options.config;
    let streams = config.streams.keys().chain(manifest.retention.keys());
    let limits = streams.map(|stream| (stream.clone(), config.retention(&manifest, stream)));
    limits
        .filter(|(_, limits)| *limits != Retention::default())
        .collect()
}

/// Sets the retention of a stream by a command.
pub(super) fn set(
    shared: &Shared,
    stream: &Name,
    change: impl FnOnce(Retention) -> Retention,
) -> Result<Retention> {
    if shared.options.config.sets_retention(stream) {
        return Err(Error::invalid(format!(
            "the retention of {stream} is set in [stream.{stream}] of the configuration; change it there"
        )));
    }
    let mut then = Retention::default();
    shared.edit(|manifest| {
        then = change(manifest.retention.remove(stream).unwrap_or_default());
        if then != Retention::default() {
            manifest.retention.insert(stream.clone(), then);
        }
    })?;
    tracing::info!(%stream, ?then, "a command has set the retention of a stream");
    shared.request_maintenance();
    Ok(then)
}

/// Drops the partitions that retention chooses. The caller holds the lock of the parts.
fn apply(
    shared: &Shared,
    limits: &BTreeMap<Name, Retention>,
    now_us: Option<i64>,
    dry: bool,
) -> Result<Vec<Leaving>> {
    let manifest: Arc<Manifest> = Arc::clone(&shared.state.lock().committed.manifest);
    let leaving = choose(&manifest, limits, now_us);
    if dry || leaving.is_empty() {
        return Ok(leaving);
    }
    drop::commit(shared, |manifest| {
        for (stream, gone) in by_stream(&leaving) {
            drop::take_out(manifest, stream, |at| gone.contains(&at));
        }
    })?;
    Ok(leaving)
}

fn by_stream(leaving: &[Leaving]) -> BTreeMap<&Name, BTreeSet<i64>> {
    let mut all: BTreeMap<&Name, BTreeSet<i64>> = BTreeMap::new();
    for partition in leaving {
        let of_stream = all.entry(&partition.stream).or_default();
        of_stream.insert(partition.partition_us);
    }
    all
}

#[cfg(test)]
mod tests;
