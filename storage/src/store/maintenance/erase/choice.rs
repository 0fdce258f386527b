//! The choice which erased events the rollups stop counting: a function of the manifest and of the
//! times of the events.
//!
//! An event can be counted out if the raw events of its day exist in every rollup of the stream:
//! neither dropped, nor detached, nor before the history that a rollup has counted. An event that
//! stays counted is a missing raw event itself, so the choice is repeated until it no longer
//! changes.

use std::collections::BTreeMap;

use super::super::rebuild::{incomplete_ranges, uncounted_partitions};
use crate::error::{Error, Result};
use crate::manifest::{Manifest, PartMeta};
use crate::model::Name;
use crate::rollup_hook::{Partition, RollupMeta};
use crate::store::Shared;

/// The times of the events to erase from one part.
pub(super) type ErasedTimes = Vec<i64>;

/// The days of a rollup in which events are counted out.
#[derive(Debug, Default)]
pub(super) struct CountedDays {
    /// Each day with its erased events, in order.
    pub(super) days: Vec<(Partition, u64)>,
    /// Erased events that the rollup's history had not counted yet.
    pub(super) waiting: u64,
}

impl CountedDays {
    pub(super) fn is_empty(&self) -> bool {
        self.days.is_empty() && self.waiting == 0
    }

    pub(super) fn events(&self) -> u64 {
        self.days.iter().map(|(_, events)| events).sum()
    }

    pub(super) fn partitions(&self) -> Vec<Partition> {
        self.days.iter().map(|(day, _)| *day).collect()
    }
}

/// An event to erase.
struct Erased {
    time_us: i64,
    partition_us: i64,
    /// The rollups keep counting it.
    is_kept: bool,
}

/// Returns, for each rollup of the stream, the days to count again; and how many events of each
/// partition the rollups keep counting.
pub(super) fn choose(
    shared: &Shared,
    manifest: &Manifest,
    stream: &Name,
    found: &[(&PartMeta, ErasedTimes)],
) -> Result<(Vec<CountedDays>, BTreeMap<i64, u64>)> {
    let erased = found.iter().flat_map(|(part, times)| {
        let partition_us = part.partition_us;
        times.iter().map(move |time_us| Erased {
            time_us: *time_us,
            partition_us,
            is_kept: false,
        })
    });
    let mut erased: Vec<Erased> = erased.collect();
    erased.sort_unstable_by_key(|e| e.time_us);
    let rollups = manifest.rollups_of(stream);
    let rollups = rollups.map(|rollup| RollupDays::of(shared, manifest, rollup, &erased));
    let rollups = rollups.collect::<Result<Vec<_>>>()?;
    while rollups.iter().any(|rollup| rollup.keep(&mut erased)) {}
    let mut kept: BTreeMap<i64, u64> = BTreeMap::new();
    for event in erased.iter().filter(|e| e.is_kept) {
        *kept.entry(event.partition_us).or_default() += 1;
    }
    let days = rollups.iter().map(|rollup| rollup.counted(&erased));
    Ok((days.collect(), kept))
}

/// The days of one rollup that hold events to erase.
struct RollupDays {
    /// Each day, with the range of its events in the order of time.
    days: Vec<(Partition, std::ops::Range<usize>)>,
    /// Number of events before the counted history.
    waiting: usize,
    /// Groups of days, each with true if it lacks raw events: a recount reads one whole group.
    groups: Vec<(std::ops::Range<usize>, bool)>,
}

impl RollupDays {
    fn of(
        shared: &Shared,
        manifest: &Manifest,
        rollup: &RollupMeta,
        erased: &[Erased],
    ) -> Result<Self> {
        let failed = |source| Error::Rollup {
            rollup: rollup.name.to_string(),
            source,
        };
        let hook = &shared.options.rollup_hook;
        let from_us = rollup.counts_from_us().unwrap_or(i64::MIN);
        let waiting = erased.partition_point(|e| e.time_us < from_us);
        let mut days: Vec<(Partition, std::ops::Range<usize>)> = Vec::new();
        let mut at = waiting;
        while let Some(event) = erased.get(at) {
            let day = hook.day(rollup, event.time_us).map_err(failed)?;
            let end = erased.partition_point(|e| e.time_us < day.end_us);
            days.push((day, at..end));
            at = end;
        }
        let mut lacking = incomplete_ranges(manifest, rollup);
        lacking.extend(uncounted_partitions(manifest, rollup));
        let groups = if hook.recounts_days(rollup).map_err(failed)? {
            let lacks = |day: &Partition| {
                let mut lacking = lacking.iter();
                lacking.any(|(from, to)| *from < day.end_us && *to > day.start_us)
            };
            let group = |(nth, (day, _)): (usize, &(Partition, _))| (nth..nth + 1, lacks(day));
            days.iter().enumerate().map(group).collect()
        } else {
            let lacks = !lacking.is_empty() || rollup.counts_from_us().is_some();
            vec![(0..days.len(), lacks)]
        };
        Ok(Self {
            days,
            waiting,
            groups,
        })
    }

    /// Marks the events that this rollup keeps counting. Returns whether that changed anything.
    fn keep(&self, erased: &mut [Erased]) -> bool {
        let mut has_changed = false;
        for (days, lacks) in &self.groups {
            let Some((first, last)) = days.clone().next().zip(days.clone().last()) else {
                continue;
            };
            let events = &mut erased[self.days[first].1.start..self.days[last].1.end];
            if *lacks || events.iter().any(|e| e.is_kept) {
                has_changed |= events.iter().any(|e| !e.is_kept);
                events.iter_mut().for_each(|e| e.is_kept = true);
            }
        }
        has_changed
    }

    fn counted(&self, erased: &[Erased]) -> CountedDays {
        let leaves = |events: &[Erased]| events.iter().filter(|e| !e.is_kept).count() as u64;
        let days = self.days.iter();
        let days = days.map(|(day, events)| (*day, leaves(&erased[events.clone()])));
        CountedDays {
            days: days.filter(|(_, events)| *events > 0).collect(),
            waiting: leaves(&erased[..self.waiting]),
        }
    }
}
