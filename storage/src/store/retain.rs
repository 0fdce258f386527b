//! Retention at work: what `retention.rs` chooses is dropped, by hand or by the tend thread.
//!
//! # Invariants
//! * By itself the store applies an age only while the wall clock can be trusted: it has gone along
//!   with the clock that nobody sets for an hour of this process. When the two disagree by more than
//!   a minute, either way, the hour begins anew and the log says so.
//! * One edit drops everything that was chosen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Shared, drop, seal};
use crate::error::Result;
use crate::manifest::Manifest;
use crate::model::Name;
use crate::retention::{Leaving, Retention, choose};

/// How long the clocks must have agreed.
const TRUST_US: i64 = 3_600_000_000;
/// And how closely.
const JUMP_US: i64 = 60_000_000;

/// Whether the wall clock can be trusted.
#[derive(Debug, Default)]
pub(super) struct Trust {
    /// By how much the clocks differed when they were first looked at together, and when that was.
    since: Option<(i64, i64)>,
}

impl Trust {
    /// Looks at both clocks, microseconds.
    pub(super) fn look(&mut self, now_us: i64, elapsed_us: i64) -> bool {
        let apart = now_us.saturating_sub(elapsed_us);
        let (before, since_us) = *self.since.get_or_insert((apart, elapsed_us));
        let jump_us = apart.saturating_sub(before);
        if jump_us.saturating_abs() > JUMP_US {
            tracing::warn!(
                seconds = jump_us / 1_000_000,
                "the clock was set; nothing is dropped for its age until it has gone evenly for an hour"
            );
            self.since = Some((apart, elapsed_us));
            return false;
        }
        elapsed_us - since_us >= TRUST_US
    }
}

/// What the store does by itself.
pub(super) fn tend(shared: &Shared, trust: &mut Trust) -> Result<Vec<Leaving>> {
    let limits = limits(shared);
    if limits.is_empty() {
        return Ok(Vec::new());
    }
    let now_us = shared.now_us();
    let trusted = trust.look(now_us, shared.options.clock.elapsed_us());
    let _one_at_a_time = shared.parts.lock();
    let leaving = apply(shared, &limits, trusted.then_some(now_us), false)?;
    for partition in &leaving {
        tracing::info!(?partition, "dropped what is beyond the stream's retention");
    }
    Ok(leaving)
}

/// What an operator asks for, of one stream or of all: the clock is taken at its word.
pub(super) fn retain(shared: &Shared, only: Option<&Name>, dry: bool) -> Result<Vec<Leaving>> {
    only.map_or(Ok(()), |stream| shared.check_stream(stream))?;
    let _one_at_a_time = shared.parts.lock();
    shared.with_reserve(|| seal::seal(shared))?;
    let mut limits = limits(shared);
    limits.retain(|stream, _| only.is_none_or(|only| stream == only));
    apply(shared, &limits, Some(shared.now_us()), dry)
}

fn limits(shared: &Shared) -> BTreeMap<Name, Retention> {
    let streams = shared.options.config.streams.iter();
    let limits = streams.map(|(name, config)| (name.clone(), config.retention));
    limits
        .filter(|(_, limits)| *limits != Retention::default())
        .collect()
}

/// Drops what is to go. Who calls holds the lock of the parts.
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
