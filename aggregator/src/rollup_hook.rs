//! The interface to storage: chooses the rollups of a stream, and encodes the tiles of a seal.

mod redefinition;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use serde::Deserialize;
use storage::{
    BoxError, Merge, Name, NewRollup, Partition, Replaces, RollupHook, RollupMeta, Snapshot,
    StreamKind, TileImage,
};

use crate::calendar::{Bucket, Level, zone};
use crate::cascade::cascade_after;
use crate::cells::{Filter, Projection};
use crate::definition::{Definition, defaults};
use crate::error::{Error, Result};
use crate::key_limit::AdmittedBefore;
use crate::raw::{RawEvents, counted_from};
use crate::recompute::recomputed_cells;
use crate::recount::{Recount, counts_days};
#[cfg(test)]
use crate::seeded::{self, Bug};
use crate::table::RollupTable;
use crate::tile::{TileFile, encode, merge_sections};
use redefinition::require_equal;

/// The rollups of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CascadeConfig {
    /// The tables `[rollup.NAME]`.
    pub rollups: BTreeMap<String, RollupTable>,
    /// The member `rollups` of `[stream.NAME]`, where it is given. Only `[]` is valid: the stream
    /// gets no default rollups.
    pub streams: BTreeMap<String, Vec<String>>,
}

/// Storage's [`RollupHook`]: pure, and callable from any thread.
#[derive(Debug, Default)]
pub struct Cascade {
    rollups: BTreeMap<Name, RollupTable>,
    without_defaults: Vec<String>,
    /// Definitions that may differ from the store's, by name, and the loss that each may cause.
    redefined: BTreeMap<Name, Replaces>,
}

impl Cascade {
    /// Checks the configuration.
    ///
    /// # Errors
    /// [`Error::Definition`] naming the first table that cannot be used.
    pub fn new(config: CascadeConfig) -> Result<Self> {
        let mut rollups = BTreeMap::new();
        for (name, table) in config.rollups {
            let name = Name::new(&name).map_err(|e| Error::definition(&name, e.to_string()))?;
            // The kind of its stream is not known yet, so a table is wrong only if it fits no kind.
            if let Err(error) = table.resolve(&name, StreamKind::Access)
                && table.resolve(&name, StreamKind::Documents).is_err()
            {
                return Err(error);
            }
            rollups.insert(name, table);
        }
        let mut without_defaults = Vec::new();
        for (stream, list) in config.streams {
            if !list.is_empty() {
                return Err(Error::invalid(format!(
                    "stream {stream}: rollups = [] means no defaults; define rollups as [rollup.NAME] with stream = {stream:?}"
                )));
            }
            without_defaults.push(stream);
        }
        Ok(Self {
            rollups,
            without_defaults,
            redefined: BTreeMap::new(),
        })
    }

    /// Accepts a definition of this name that differs from the store's: it becomes a new
    /// generation of the rollup.
    #[must_use]
    pub fn redefining(mut self, name: Name, replaces: Replaces) -> Self {
        self.redefined.insert(name, replaces);
        self
    }

    /// Returns the definitions that `stream` is to have and that `existing` (every rollup of the
    /// store) lacks.
    ///
    /// # Errors
    /// [`Error::Differs`] when the configuration changed a definition that the store has.
    pub fn missing(
        &self,
        stream: &Name,
        kind: StreamKind,
        existing: &[RollupMeta],
    ) -> Result<Vec<Definition>> {
        let existing: Vec<&RollupMeta> = existing.iter().collect();
        self.missing_beside(stream, kind, &existing)
    }

    fn missing_beside(
        &self,
        stream: &Name,
        kind: StreamKind,
        existing: &[&RollupMeta],
    ) -> Result<Vec<Definition>> {
        if kind == StreamKind::Quarantine {
            return Ok(Vec::new());
        }
        let mut missing = Vec::new();
        let mut configured = false;
        for (name, table) in self
            .rollups
            .iter()
            .filter(|(_, table)| table.stream == stream.as_str())
        {
            configured = true;
            match existing
                .iter()
                .filter(|r| r.name == *name)
                .max_by_key(|r| r.id)
            {
                Some(current) => {
                    let definition = table.resolve_as(name, kind, &current.definition)?;
                    let same = require_equal(&definition, current);
                    let recorded = current.zone_data.as_deref();
                    let has_changed = zone::has_changed(definition.timezone(), recorded);
                    if self.redefined.contains_key(name) && (same.is_err() || has_changed) {
                        missing.push(table.resolve(name, kind)?);
                    } else {
                        same?;
                    }
                }
                None => missing.push(table.resolve(name, kind)?),
            }
        }
        if configured || self.without_defaults.iter().any(|s| s == stream.as_str()) {
            return Ok(missing);
        }
        // A name that the configuration gives to another stream is taken before that stream exists.
        let configured = self.rollups.iter();
        let configured = configured.map(|(name, table)| (name, table.stream.as_str()));
        let stored = existing.iter().map(|r| (&r.name, r.stream.as_str()));
        let taken: Vec<(&Name, &str)> = stored.chain(configured).collect();
        defaults(stream, kind, &taken)
    }
}

impl RollupHook for Cascade {
    fn rollups_for(
        &self,
        stream: &Name,
        kind: StreamKind,
        existing: &[RollupMeta],
    ) -> Result<Vec<NewRollup>, BoxError> {
        let missing = self.missing(stream, kind, existing)?;
        Ok(missing
            .into_iter()
            .map(|d| NewRollup {
                zone_data: zone::stamp(d.timezone()),
                replaces: self.redefined.get(d.name()).copied(),
                name: d.name().clone(),
                definition: d.to_value(),
                levels: d.levels().iter().map(Level::to_string).collect(),
            })
            .collect())
    }

    fn tiles(
        &self,
        rollups: &[&RollupMeta],
        events: &[RecordBatch],
        sealed: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError> {
        if rollups.iter().any(|r| r.counts_from_us().is_some()) {
            return tiles_apart(rollups, events, sealed);
        }
        let definitions = rollups
            .iter()
            .map(|r| Definition::from_meta(r).map(Arc::new))
            .collect::<Result<Vec<_>>>()?;
        let mut admitted: Vec<AdmittedBefore<'_>> = definitions
            .iter()
            .zip(rollups)
            .map(|(definition, rollup)| AdmittedBefore::new(definition, rollup.id, sealed))
            .collect();
        let by_reference: Vec<&Definition> = definitions.iter().map(Arc::as_ref).collect();
        let sets = cascade_after(&by_reference, &mut admitted, events)?;
        #[cfg(test)]
        let sets = with_totals(sets, rollups, &by_reference, events, sealed)?;
        Ok(definitions
            .iter()
            .zip(&sets)
            .map(|(definition, set)| encode(definition, set))
            .collect())
    }

    fn backfill(
        &self,
        rollup: &RollupMeta,
        sealed: &Snapshot,
        window: Partition,
        write: &mut dyn FnMut(TileImage) -> Result<(), BoxError>,
    ) -> Result<(), BoxError> {
        let definition = Definition::from_meta(rollup)?;
        let window = Bucket {
            start_us: window.start_us,
            end_us: window.end_us,
        };
        let raw = RawEvents::sealed(sealed, rollup, &definition, window);
        for set in recomputed_cells(raw) {
            write(encode(&definition, &set?))?;
        }
        Ok(())
    }

    fn day(&self, rollup: &RollupMeta, at_us: i64) -> Result<Partition, BoxError> {
        let day = Definition::from_meta(rollup)?
            .calendar()
            .bucket(Level::Day, at_us);
        Ok(Partition {
            start_us: day.start_us,
            end_us: day.end_us,
        })
    }

    fn wants(&self, rollup: &RollupMeta, kind: StreamKind, existing: &[RollupMeta]) -> bool {
        let others = existing.iter().filter(|r| r.name != rollup.name);
        let others: Vec<&RollupMeta> = others.collect();
        let wanted = self.missing_beside(&rollup.stream, kind, &others);
        // The caller reports the errors of the configuration.
        wanted.map_or(true, |all| all.iter().any(|d| *d.name() == rollup.name))
    }

    fn recompute(
        &self,
        rollup: &RollupMeta,
        level: &str,
        partition_us: i64,
        sealed: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError> {
        let definition = Definition::from_meta(rollup)?;
        let level = level_of(&definition, level)?;
        let mut window = definition.calendar().partition_window(level, partition_us);
        let from_us = rollup.counts_from_us().unwrap_or(i64::MIN);
        window.start_us = window.start_us.max(from_us);
        let mut images = Vec::new();
        let raw = RawEvents::sealed(sealed, rollup, &definition, window);
        for set in recomputed_cells(raw) {
            let mut set = set?;
            set.levels.retain(|(l, _)| *l == level);
            images.push(encode(&definition, &set));
        }
        Ok(images)
    }

    fn recounts_days(&self, rollup: &RollupMeta) -> Result<bool, BoxError> {
        Ok(counts_days(rollup, &Definition::from_meta(rollup)?))
    }

    fn recount(
        &self,
        rollup: &RollupMeta,
        (level, partition_us): (&str, i64),
        days: &[Partition],
        remaining: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError> {
        let definition = Arc::new(Definition::from_meta(rollup)?);
        if !counts_days(rollup, &definition) {
            return self.recompute(rollup, level, partition_us, remaining);
        }
        let recount = Recount {
            rollup,
            definition: &definition,
            level: level_of(&definition, level)?,
            partition_us,
            remaining,
        };
        Ok(vec![recount.image(days)?])
    }

    fn merge(
        &self,
        rollup: &RollupMeta,
        merges: &[Merge<'_>],
        sealed: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError> {
        let definition = Arc::new(Definition::from_meta(rollup)?);
        let mut files: BTreeMap<&str, TileFile> = BTreeMap::new();
        let mut images = Vec::new();
        for merge in merges {
            let level = level_of(&definition, merge.level)?;
            let mut inputs = Vec::new();
            for (file, section) in &merge.sections {
                if !files.contains_key(file.path.as_str()) {
                    let bytes = sealed.read(file)?;
                    let tile = TileFile::open(Arc::clone(&definition), bytes)?;
                    files.insert(&file.path, tile);
                }
                let all = Projection::all(&definition);
                inputs.push(files[file.path.as_str()].read(section, &all, &Filter::ALL)?);
            }
            images.push(merge_sections(&definition, level, inputs));
        }
        Ok(images)
    }

    fn partition(
        &self,
        rollup: &RollupMeta,
        level: &str,
        at_us: i64,
    ) -> Result<Partition, BoxError> {
        let definition = Definition::from_meta(rollup)?;
        let (level, calendar) = (level_of(&definition, level)?, definition.calendar());
        let bucket = calendar.bucket(level, at_us);
        let start_us = calendar.partition(level, bucket.start_us);
        let end_us = calendar.partition_window(level, start_us).end_us;
        Ok(Partition { start_us, end_us })
    }

    fn retention(&self, rollup: &RollupMeta) -> BTreeMap<String, i64> {
        let table = self.rollups.get(&rollup.name);
        let table = table.filter(|t| t.stream == rollup.stream.as_str());
        table.map_or_else(BTreeMap::new, RollupTable::ages_us)
    }
}

/// Applies [`Bug::TotalsNotDeltas`]: each set of a seal also counts all events sealed before.
#[cfg(test)]
fn with_totals(
    mut sets: Vec<crate::CellSet>,
    rollups: &[&RollupMeta],
    definitions: &[&Definition],
    events: &[RecordBatch],
    sealed: &Snapshot,
) -> Result<Vec<crate::CellSet>> {
    if !seeded::is(Bug::TotalsNotDeltas) {
        return Ok(sets);
    }
    let (start_us, end_us) = (i64::MIN, i64::MAX);
    let always = Bucket { start_us, end_us };
    for ((set, meta), definition) in sets.iter_mut().zip(rollups).zip(definitions) {
        let mut all = events.to_vec();
        let raw = RawEvents::sealed(sealed, meta, definition, always);
        for nth in 0..raw.sources() {
            all.extend(raw.source_events(nth)?);
        }
        set.levels = crate::cascade(&[definition], &all)?.remove(0).levels;
    }
    Ok(sets)
}

/// Encodes one tile for each rollup, from the events that its history does not hold back.
fn tiles_apart(
    rollups: &[&RollupMeta],
    events: &[RecordBatch],
    sealed: &Snapshot,
) -> Result<Vec<TileImage>, BoxError> {
    let tile = |rollup: &&RollupMeta| -> Result<TileImage, BoxError> {
        let definition = Arc::new(Definition::from_meta(rollup)?);
        let from_us = rollup.counts_from_us().unwrap_or(i64::MIN);
        let events = counted_from(events, from_us)?;
        if events.is_empty() {
            return Ok(TileImage {
                bytes: Vec::new(),
                sections: Vec::new(),
                events: 0,
            });
        }
        let mut admitted = [AdmittedBefore::new(&definition, rollup.id, sealed)];
        let sets = cascade_after(&[&*definition], &mut admitted, &events)?;
        Ok(encode(&definition, &sets[0]))
    };
    rollups.iter().map(tile).collect()
}

fn level_of(definition: &Definition, name: &str) -> Result<Level> {
    let level = Level::from_name(name).filter(|l| definition.levels().contains(l));
    level.ok_or_else(|| Error::invalid(format!("rollup {} has no level {name}", definition.name())))
}

#[cfg(test)]
mod tests;
