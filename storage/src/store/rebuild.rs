//! A rollup's (level, time partition) made again from the raw events: where all of them are there.
//!
//! # Invariants
//! * What is made again replaces sections that count as many events, or lies below a floor.
//! * A floor comes down one time partition after the other, the newest first, each with an edit
//!   that puts its events back; not past raw events that were dropped or are detached. So a level
//!   is never without events that it seems to have. No seal comes between the last look and the
//!   edit.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::compact::by_place;
use super::{Shared, seal};
use crate::error::{Error, Result};
use crate::manifest::{Manifest, SectionKey};
use crate::model::Name;
use crate::part::partition_end;
use crate::rollup_hook::{Partition, RollupHook, RollupMeta, TileImage};
use crate::snapshot::Snapshot;

/// What became of one (level, time partition).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebuilt {
    /// The level.
    pub level: String,
    /// Start of the time partition, microseconds since 1970.
    pub partition_us: i64,
    /// Events that it counts.
    pub events: u64,
    /// Why it was left as it was, when it was: some of its raw events are gone.
    pub left: Option<String>,
}

/// Replaces every (level, time partition) of the rollup that reaches into `[from_us, to_us)`, one
/// edit each.
pub(super) fn rebuild(
    shared: &Shared,
    name: &Name,
    (from_us, to_us): (i64, i64),
) -> Result<Vec<Rebuilt>> {
    seal::seal(shared)?;
    let _one_at_a_time = shared.tiles.lock();
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    let rollup = manifest.rollups.iter().rfind(|r| &r.name == name);
    let rollup = rollup.ok_or_else(|| Error::invalid(format!("there is no rollup {name}")))?;
    let failed = |source| Error::Rollup {
        rollup: name.to_string(),
        source,
    };
    let mut report = Vec::new();
    for level in rollup.floors.keys() {
        report.extend(lower(shared, rollup, level, from_us)?);
    }
    for ((level, partition_us), sections) in by_place(&manifest, rollup) {
        let rollup_hook = &*shared.options.rollup_hook;
        // Not at the partition's start: the week around the start of a year may be one of the last.
        let (_, section) = sections[0];
        let partition = rollup_hook
            .partition(rollup, level, section.bucket_min_us)
            .map_err(failed)?;
        if partition.start_us >= to_us || partition.end_us <= from_us {
            continue;
        }
        // Each time anew: an event that was sealed meanwhile is among both.
        let sealed = shared.sealed(&shared.state.lock());
        let made = Remade::of(rollup_hook, &sealed, rollup, level, partition_us)?;
        let left = made.lacks();
        if left.is_none() {
            seal::write_images(shared, rollup, made.images, |files| {
                shared.edit(|manifest| manifest.replace_sections(rollup.id, &made.gone, files))
            })?;
            shared.remove_unreferenced();
        }
        report.push(Rebuilt {
            level: level.to_owned(),
            partition_us,
            events: made.events,
            left,
        });
    }
    Ok(report)
}

/// Lowers the floor of a level as far as `from_us`, or as raw events are complete.
fn lower(shared: &Shared, rollup: &RollupMeta, level: &str, from_us: i64) -> Result<Vec<Rebuilt>> {
    let mut report = Vec::new();
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    let mut gone = gone(&manifest, rollup);
    gone.extend(uncounted(&manifest, rollup));
    for partition in below(shared, &manifest, rollup, level)?.into_iter().rev() {
        if partition.end_us <= from_us {
            break;
        }
        // The first week of a year may have begun in the one before.
        let earlier_us = if level == "week" { WEEK_US } else { 0 };
        let start_us = partition.start_us.saturating_sub(earlier_us);
        let lacks = gone
            .iter()
            .find(|(s, e)| *s < partition.end_us && *e > start_us);
        let newer = gone
            .iter()
            .any(|(s, _)| *s >= partition.end_us && *s < rollup.floor_us(level));
        let mut rebuilt = Rebuilt {
            level: level.to_owned(),
            partition_us: partition.start_us,
            events: 0,
            left: None,
        };
        if lacks.is_some() || newer {
            let what = "some of its raw events, or of those after it, were dropped or are detached";
            rebuilt.left = Some(format!("{what}: the level's floor stays above it"));
            report.push(rebuilt);
            break;
        }
        rebuilt.events = put_back(shared, rollup, level, partition)?;
        report.push(rebuilt);
    }
    Ok(report)
}

const WEEK_US: i64 = 7 * 86_400_000_000;

/// Where raw events of the rollup's stream are not complete.
pub(super) fn gone(manifest: &Manifest, rollup: &RollupMeta) -> Vec<(i64, i64)> {
    let width = manifest.streams.get(&rollup.stream).map(|s| s.partition);
    let end_us = |start_us| partition_end(width.unwrap_or_default(), start_us);
    let starts = manifest.incomplete(&rollup.stream);
    starts
        .map(|start_us| (start_us, end_us(start_us)))
        .collect()
}

/// Where a rollup does not count raw events that are there.
fn uncounted(manifest: &Manifest, rollup: &RollupMeta) -> Vec<(i64, i64)> {
    let width = manifest.streams.get(&rollup.stream).map(|s| s.partition);
    let end_us = |start_us| partition_end(width.unwrap_or_default(), start_us);
    let waiting = rollup.counts_from_us().map(|until_us| (i64::MIN, until_us));
    let passed = rollup.history.iter().flat_map(|h| &h.detached);
    let passed = passed.map(|start_us| (*start_us, end_us(*start_us)));
    waiting.into_iter().chain(passed).collect()
}

/// The time partitions below a level's floor that have raw events, in order.
fn below(
    shared: &Shared,
    manifest: &Manifest,
    rollup: &RollupMeta,
    level: &str,
) -> Result<Vec<Partition>> {
    let mut found: BTreeMap<i64, Partition> = BTreeMap::new();
    for part in manifest.parts_of(&rollup.stream) {
        let mut at_us = part.time.0;
        while at_us <= part.time.1 {
            let partition = shared.options.rollup_hook.partition(rollup, level, at_us);
            let partition = partition.map_err(|source| Error::Rollup {
                rollup: rollup.name.to_string(),
                source,
            })?;
            if partition.start_us >= rollup.floor_us(level) {
                break;
            }
            found.insert(partition.start_us, partition);
            at_us = partition.end_us;
        }
    }
    Ok(found.into_values().collect())
}

/// Counts the raw events of a time partition below a level's floor and lowers the floor to its
/// start. Returns how many they are.
fn put_back(
    shared: &Shared,
    rollup: &RollupMeta,
    level: &str,
    partition: Partition,
) -> Result<u64> {
    let late = |manifest: &Manifest| {
        let rollup = manifest.rollups.iter().find(|r| r.id == rollup.id);
        rollup
            .and_then(|r| r.floors.get(level))
            .map(|floor| floor.late)
    };
    let made = |sealed: &Snapshot| {
        Remade::of(
            &*shared.options.rollup_hook,
            sealed,
            rollup,
            level,
            partition.start_us,
        )
    };
    let sealed = shared.sealed(&shared.state.lock());
    let mut remade = made(&sealed)?;
    let _no_seal = shared.sealer.lock();
    let now = shared.sealed(&shared.state.lock());
    if late(&now.manifest) != late(&sealed.manifest) {
        // Late events came meanwhile; now none can.
        remade = made(&now)?;
    }
    let events = remade.images.iter().map(|i| i.events).sum();
    seal::write_images(shared, rollup, remade.images, |files| {
        let gave_up: u64 = now.manifest.given_up(rollup.id, level);
        if gave_up < events {
            return Err(Error::Rollup {
                rollup: rollup.name.to_string(),
                source: format!(
                    "level {level} gave up {gave_up} events and raw events give {events}"
                )
                .into(),
            });
        }
        let to = (level, partition.start_us);
        shared.edit(|manifest| manifest.lower_floor(rollup.id, to, (files, events)))
    })?;
    Ok(events)
}

/// A (level, time partition) made again, and what it is to replace.
pub(crate) struct Remade {
    pub(crate) images: Vec<TileImage>,
    pub(crate) gone: Vec<SectionKey>,
    /// Events that the sections count.
    events: u64,
}

impl Remade {
    pub(crate) fn of(
        rollup_hook: &dyn RollupHook,
        sealed: &Snapshot,
        rollup: &RollupMeta,
        level: &str,
        partition_us: i64,
    ) -> Result<Self> {
        let images = rollup_hook.recompute(rollup, level, partition_us, sealed);
        let images = images.map_err(|source| Error::Rollup {
            rollup: rollup.name.to_string(),
            source,
        })?;
        let manifest: &Manifest = &sealed.manifest;
        let sections = by_place(manifest, rollup).remove(&(level, partition_us));
        let sections = sections.unwrap_or_default();
        let gone = sections.iter().map(|(f, s)| SectionKey::of(&f.path, s));
        Ok(Self {
            images,
            gone: gone.collect(),
            events: sections.iter().map(|(_, s)| s.events).sum(),
        })
    }

    /// What is missing of the raw events, if something is.
    pub(crate) fn lacks(&self) -> Option<String> {
        let made: u64 = self.images.iter().map(|i| i.events).sum();
        let all = self.events;
        (made != all).then(|| format!("{made} of its {all} raw events are left"))
    }
}
