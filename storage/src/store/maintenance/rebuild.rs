//! Rebuild: recomputes a (level, time partition) of a rollup from raw events, where all of them
//! are there.
//!
//! # Invariants
//! * A rebuilt partition replaces sections with the same number of events, or lies below a floor.
//! * A floor is lowered by one time partition after the other, the newest first, each with an
//!   edit that adds the partition's events again. It is not lowered past raw events that were
//!   dropped or are detached. So a level never lacks events that it seems to have. No seal runs
//!   between the last check and the edit.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::compact::by_level_partition;
use super::jobs::moment;
use crate::error::{Error, Result};
use crate::job_log::{Job, Said};
use crate::manifest::{Manifest, SectionKey};
use crate::model::Name;
use crate::part::partition_end;
use crate::rollup_hook::{Partition, RollupHook, RollupMeta, TileImage};
use crate::snapshot::Snapshot;
use crate::store::staged_files::write_images;
use crate::store::{Shared, seal};

/// Result of the rebuild of one (level, time partition).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebuilt {
    /// Name of the level.
    pub level: String,
    /// Start of the time partition, microseconds since 1970.
    pub partition_us: i64,
    /// Events that the partition counts.
    pub events: u64,
    /// Reason for which the partition was not rebuilt, if so: some of its raw events are gone.
    pub left: Option<String>,
}

/// Replaces every (level, time partition) of the rollup that reaches into `range_us`, in one edit
/// each.
pub(super) fn run_rebuild(
    shared: &Shared,
    name: &Name,
    range_us: (i64, i64),
) -> Result<Vec<Rebuilt>> {
    let (from, to) = (moment(range_us.0), moment(range_us.1));
    let why = format!("requested by an operator: partitions that overlap {from} to {to}");
    let work = |_: &_| rebuild(shared, name, range_us);
    shared.run_job(Job::Rebuild, Some(name), why, work, |report| {
        Some(describe(report))
    })
}

fn describe(report: &[Rebuilt]) -> Said {
    let left = report.iter().filter(|r| r.left.is_some()).count();
    let made = report.len() - left;
    Said {
        what: format!(
            "rebuilt {made} partitions of levels from the raw events, left {left} unchanged"
        ),
        done: Some(made as u64),
        total: Some(report.len() as u64),
        ..Said::default()
    }
}

fn rebuild(shared: &Shared, name: &Name, (from_us, to_us): (i64, i64)) -> Result<Vec<Rebuilt>> {
    seal::seal(shared)?;
    let _one_at_a_time = shared.tiles.lock();
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    let rollup = manifest.rollups.iter().rfind(|r| &r.name == name);
    let rollup = rollup.ok_or_else(|| Error::missing(format!("there is no rollup {name}")))?;
    let failed = |source| Error::Rollup {
        rollup: name.to_string(),
        source,
    };
    let mut report = Vec::new();
    for level in rollup.floors.keys() {
        report.extend(lower_floor(shared, rollup, level, from_us)?);
    }
    for ((level, partition_us), sections) in by_level_partition(&manifest, rollup) {
        let rollup_hook = &*shared.options.rollup_hook;
        // The lookup uses the first bucket, not the partition's start: the week that spans the
        // new year may belong to the year before.
        let (_, section) = sections[0];
        let partition = rollup_hook
            .partition(rollup, level, section.bucket_min_us)
            .map_err(failed)?;
        if partition.start_us >= to_us || partition.end_us <= from_us {
            continue;
        }
        // Each partition needs a new snapshot: an event sealed meanwhile is then in both the raw
        // events and the sections.
        let sealed = shared.sealed(&shared.state.lock());
        let made = LevelRebuild::of(rollup_hook, &sealed, rollup, level, partition_us)?;
        let left = made.lacks();
        if left.is_none() {
            write_images(shared, rollup, made.images, |files| {
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

/// Lowers the floor of a level down to `from_us`, or as far as raw events are complete.
fn lower_floor(
    shared: &Shared,
    rollup: &RollupMeta,
    level: &str,
    from_us: i64,
) -> Result<Vec<Rebuilt>> {
    let mut report = Vec::new();
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    let mut incomplete = incomplete_ranges(&manifest, rollup);
    incomplete.extend(uncounted(&manifest, rollup));
    for partition in partitions_below(shared, &manifest, rollup, level)?
        .into_iter()
        .rev()
    {
        if partition.end_us <= from_us {
            break;
        }
        // The first week of a year may begin in the year before.
        let earlier_us = if level == "week" { WEEK_US } else { 0 };
        let start_us = partition.start_us.saturating_sub(earlier_us);
        let lacks = incomplete
            .iter()
            .find(|(s, e)| *s < partition.end_us && *e > start_us);
        let newer = incomplete
            .iter()
            .any(|(s, _)| *s >= partition.end_us && *s < rollup.floor_us(level));
        let mut rebuilt = Rebuilt {
            level: level.to_owned(),
            partition_us: partition.start_us,
            events: 0,
            left: None,
        };
        if lacks.is_some() || newer {
            let what = "some of its raw events, or of later ones, were dropped or are detached";
            rebuilt.left = Some(format!("{what}, so the level's floor stays above it"));
            report.push(rebuilt);
            break;
        }
        rebuilt.events = count_below_floor(shared, rollup, level, partition)?;
        report.push(rebuilt);
    }
    Ok(report)
}

const WEEK_US: i64 = 7 * 86_400_000_000;

/// Returns the ranges in which raw events of the rollup's stream are incomplete.
pub(super) fn incomplete_ranges(manifest: &Manifest, rollup: &RollupMeta) -> Vec<(i64, i64)> {
    let width = manifest.streams.get(&rollup.stream).map(|s| s.partition);
    let end_us = |start_us| partition_end(width.unwrap_or_default(), start_us);
    let starts = manifest.incomplete(&rollup.stream);
    starts
        .map(|start_us| (start_us, end_us(start_us)))
        .collect()
}

/// Returns the ranges in which a rollup does not count existing raw events.
fn uncounted(manifest: &Manifest, rollup: &RollupMeta) -> Vec<(i64, i64)> {
    let waiting = rollup.counts_from_us().map(|until_us| (i64::MIN, until_us));
    let passed = uncounted_partitions(manifest, rollup);
    waiting.into_iter().chain(passed).collect()
}

/// Returns the ranges of partitions that were detached when a rollup counted their days, and so are
/// not counted even where they are attached again.
pub(super) fn uncounted_partitions(manifest: &Manifest, rollup: &RollupMeta) -> Vec<(i64, i64)> {
    let width = manifest.streams.get(&rollup.stream).map(|s| s.partition);
    let end_us = |start_us| partition_end(width.unwrap_or_default(), start_us);
    let passed = rollup.history.iter().flat_map(|h| &h.detached);
    passed
        .map(|start_us| (*start_us, end_us(*start_us)))
        .collect()
}

/// Returns the time partitions below a level's floor that have raw events, in order.
fn partitions_below(
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
/// start. Returns the number of these events.
fn count_below_floor(
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
        LevelRebuild::of(
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
        // Late events arrived meanwhile; the lock keeps further ones out.
        remade = made(&now)?;
    }
    let events = remade.images.iter().map(|i| i.events).sum();
    write_images(shared, rollup, remade.images, |files| {
        let gave_up: u64 = now.manifest.given_up(rollup.id, level);
        if gave_up < events {
            return Err(Error::Rollup {
                rollup: rollup.name.to_string(),
                source: format!(
                    "level {level} dropped {gave_up} events, but the raw events contain {events}"
                )
                .into(),
            });
        }
        let to = (level, partition.start_us);
        shared.edit(|manifest| manifest.lower_floor(rollup.id, to, (files, events)))
    })?;
    Ok(events)
}

/// A rebuilt (level, time partition), and the sections that it replaces.
pub(crate) struct LevelRebuild {
    pub(crate) images: Vec<TileImage>,
    pub(crate) gone: Vec<SectionKey>,
    /// Events that the old sections count.
    events: u64,
}

impl LevelRebuild {
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
        let sections = by_level_partition(manifest, rollup).remove(&(level, partition_us));
        let sections = sections.unwrap_or_default();
        let gone = sections.iter().map(|(f, s)| SectionKey::of(&f.path, s));
        Ok(Self {
            images,
            gone: gone.collect(),
            events: sections.iter().map(|(_, s)| s.events).sum(),
        })
    }

    /// Returns how many raw events are missing, in a sentence, if any are.
    pub(crate) fn lacks(&self) -> Option<String> {
        let made: u64 = self.images.iter().map(|i| i.events).sum();
        let all = self.events;
        (made != all).then(|| format!("only {made} of its {all} raw events are left"))
    }
}
