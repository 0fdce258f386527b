//! A rollup's (level, time partition) made again from the raw events: where all of them are there.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::compact::by_place;
use super::{Shared, seal};
use crate::error::{Error, Result};
use crate::manifest::{Manifest, SectionKey};
use crate::model::Name;
use crate::rolling::{Roller, RollupMeta, TileImage};
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
    for ((level, partition_us), sections) in by_place(&manifest, rollup) {
        let roller = &*shared.options.roller;
        // Not at the partition's start: the week around the start of a year may be one of the last.
        let (_, section) = sections[0];
        let partition = roller
            .partition(rollup, level, section.bucket_min_us)
            .map_err(failed)?;
        if partition.start_us >= to_us || partition.end_us <= from_us {
            continue;
        }
        // Each time anew: an event that was sealed meanwhile is among both.
        let sealed = shared.sealed(&shared.state.lock());
        let made = Remade::of(roller, &sealed, rollup, level, partition_us)?;
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

/// A (level, time partition) made again, and what it is to replace.
pub(crate) struct Remade {
    pub(crate) images: Vec<TileImage>,
    pub(crate) gone: Vec<SectionKey>,
    /// Events that the sections count.
    events: u64,
}

impl Remade {
    pub(crate) fn of(
        roller: &dyn Roller,
        sealed: &Snapshot,
        rollup: &RollupMeta,
        level: &str,
        partition_us: i64,
    ) -> Result<Self> {
        let images = roller.recompute(rollup, level, partition_us, sealed);
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
