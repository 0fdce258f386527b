//! The seam through which the aggregator takes part in a seal.
//!
//! Storage decides *when* and *which events*; the [`RollupHook`] turns them into one tile per rollup;
//! storage writes the files and commits them in the same manifest edit as the parts. Storage never
//! imports upward, so the definition of a rollup is opaque here.

use std::collections::BTreeMap;
use std::fmt::Debug;

use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};

use crate::file::FileRef;
use crate::model::{Name, StreamKind};
use crate::snapshot::Snapshot;

/// A failure of the room above, kept as it is.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A rollup as the store knows it: one generation of one definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RollupMeta {
    /// Generation: unique in the store, never used again.
    pub id: u32,
    /// The rollup's name, the schema of its level tables.
    pub name: Name,
    /// The stream it counts.
    pub stream: Name,
    /// Its definition, opaque to storage, compared byte for byte.
    pub definition: serde_json::Value,
    /// Its levels, finest first: every tile accounts for all of its events at each of them. (A store
    /// of manifest format 1 does not say; its tiles account at the levels they have.)
    #[serde(default)]
    pub levels: Vec<String>,
    /// The first sequence number that this generation covers.
    pub first_seq: u64,
    /// When it was created, microseconds since 1970.
    pub created_us: i64,
    /// Where levels end that retention has cut, by level.
    #[serde(default)]
    pub floors: BTreeMap<String, Floor>,
    /// Events that it has not counted of those that its stream had when it was added; `None` when
    /// it has counted them all, or when there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// The rules of its time zone by which its buckets are made, opaque to storage. Rollups of
    /// before this was kept have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_data: Option<String>,
}

/// Events that a rollup has not counted, when it was added to a stream that had some.
///
/// # Invariants
/// * No event from before `until_us` is counted, and every live one from then on: by a seal or,
///   when it was sealed before, by the step that lowered `until_us` past it. Which of them counts
///   an event follows from its time alone.
/// * Steps begin and end with a day of the rollup, so that the names of a day are given all at
///   once, in the order of the sequence.
/// * Tiles and `missing` are together the events that were sealed into the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Events before this wait to be counted, microseconds since 1970; `None` once that is done.
    pub until_us: Option<i64>,
    /// Sealed events that are not counted: those that wait, and those that raw events could not
    /// give.
    pub missing: u64,
    /// No bucket before this is complete, since raw events were gone when their days were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_to_us: Option<i64>,
    /// Partitions that were detached when their days were counted: their events are not counted
    /// even once they are attached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub detached: Vec<i64>,
}

/// Where a level ends: its retention has given up what lies below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    /// Buckets that start before this are not returned at the level, microseconds since 1970. It is
    /// the start of a time partition and never falls.
    pub from_us: i64,
    /// Events that came when their bucket was below already: they reached the other levels only.
    pub late: u64,
}

impl RollupMeta {
    /// The start of the first bucket that `level` returns, microseconds since 1970.
    pub fn floor_us(&self, level: &str) -> i64 {
        self.floors.get(level).map_or(i64::MIN, |f| f.from_us)
    }

    /// Events from before this are not counted yet, microseconds since 1970.
    pub fn counts_from_us(&self) -> Option<i64> {
        self.history.as_ref().and_then(|h| h.until_us)
    }

    /// Sealed events that it has not counted.
    pub fn missing(&self) -> u64 {
        self.history.as_ref().map_or(0, |h| h.missing)
    }

    /// No bucket that starts before this is complete, microseconds since 1970; `None` when all are.
    pub fn complete_from_us(&self) -> Option<i64> {
        let history = self.history.as_ref()?;
        history.until_us.max(history.lost_to_us)
    }
}

/// A rollup that a stream is to get.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRollup {
    /// Its name.
    pub name: Name,
    /// Its definition.
    pub definition: serde_json::Value,
    /// Its levels, finest first.
    pub levels: Vec<String>,
    /// The rules of its time zone.
    pub zone_data: Option<String>,
    /// It takes the place of the generation before, which goes.
    pub replaces: Option<Replaces>,
}

/// Losses that the replacement of a generation may accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaces {
    /// Nothing: all that it has counted can be counted again.
    Counted,
    /// Buckets that raw events can no longer give.
    Anything,
}

/// Where the cells of one (level, time partition) lie in a tile file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// `minute`, `hour`, `day`, `week`, `month` or `year`.
    pub level: String,
    /// Start of the time partition, microseconds since 1970.
    pub partition_us: i64,
    /// Start of its first bucket.
    pub bucket_min_us: i64,
    /// Start of its last bucket.
    pub bucket_max_us: i64,
    /// Number of cells.
    pub cells: u64,
    /// Cells of the bucket that has most, 0 when that is not known: no bucket has more keys.
    #[serde(default)]
    pub densest: u64,
    /// Number of events counted in them. Over the sections of one level of a tile they add up to
    /// the events of the tile: the manifest itself proves that none is missing or counted twice.
    pub events: u64,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Length in the file, bytes.
    pub len: u64,
}

/// A tile as the aggregator made it, not yet on disk.
#[derive(Debug, Clone)]
pub struct TileImage {
    /// The file's bytes; empty when no event of the stream was in the seal.
    pub bytes: Vec<u8>,
    /// What lies where in it.
    pub sections: Vec<Section>,
    /// Events counted, the same at every level.
    pub events: u64,
}

/// Sections of one (level, time partition) that are to become one, in the order of their tiles.
#[derive(Debug, Clone)]
pub struct Merge<'a> {
    /// The level.
    pub level: &'a str,
    /// Start of the time partition, microseconds since 1970.
    pub partition_us: i64,
    /// Each section, and the file in which it lies.
    pub sections: Vec<(&'a FileRef, &'a Section)>,
}

/// A time partition of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    /// Its start, microseconds since 1970.
    pub start_us: i64,
    /// Its exclusive end.
    pub end_us: i64,
}

/// What storage asks of the aggregator. Pure: no clock, and no files but those of the snapshots that
/// it is handed.
pub trait RollupHook: Send + Sync + Debug {
    /// The rollups that `stream` gets when it is created, or that the configuration has added since.
    ///
    /// # Errors
    /// When a configured definition differs from one in `existing`.
    fn rollups_for(
        &self,
        stream: &Name,
        kind: StreamKind,
        existing: &[RollupMeta],
    ) -> Result<Vec<NewRollup>, BoxError>;

    /// Cascades events of one stream, in the order of their sequence numbers, through each of its
    /// `rollups`, in their order; each image counts those that the rollup's history does not hold
    /// back. `events` hold `time`, `_seq` and any other columns; a column that
    /// is missing reads as null. `sealed` is what was sealed before them.
    ///
    /// # Errors
    /// When a definition cannot be read.
    fn tiles(
        &self,
        rollups: &[&RollupMeta],
        events: &[RecordBatch],
        sealed: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError>;

    /// Cascades the sealed events of a window, which begins and ends with days of the rollup, that
    /// it has not counted yet; each image goes to `write`.
    ///
    /// # Errors
    /// When a part or a definition cannot be read, or what `write` says.
    fn backfill(
        &self,
        rollup: &RollupMeta,
        sealed: &Snapshot,
        window: Partition,
        write: &mut dyn FnMut(TileImage) -> Result<(), BoxError>,
    ) -> Result<(), BoxError>;

    /// The day of the rollup around an instant.
    ///
    /// # Errors
    /// When the definition cannot be read.
    fn day(&self, rollup: &RollupMeta, at_us: i64) -> Result<Partition, BoxError>;

    /// Returns whether the configuration, or the defaults of a stream of this kind, want the
    /// rollup.
    fn wants(&self, rollup: &RollupMeta, kind: StreamKind, existing: &[RollupMeta]) -> bool;

    /// One (level, time partition) made again from the sealed raw events that are left; `events` of
    /// the images say how many they were. Each image has sections of that one alone.
    ///
    /// # Errors
    /// When a part or a definition cannot be read.
    fn recompute(
        &self,
        rollup: &RollupMeta,
        level: &str,
        partition_us: i64,
        sealed: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError>;

    /// Merges sections: one image for each merge, with one section.
    ///
    /// # Errors
    /// When a file cannot be read.
    fn merge(
        &self,
        rollup: &RollupMeta,
        merges: &[Merge<'_>],
        sealed: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError>;

    /// The time partition of a level that holds the bucket around an instant.
    ///
    /// # Errors
    /// When the definition cannot be read or has no such level.
    fn partition(
        &self,
        rollup: &RollupMeta,
        level: &str,
        at_us: i64,
    ) -> Result<Partition, BoxError>;

    /// How long each level keeps its buckets, microseconds; levels that keep them for ever are left
    /// out.
    fn retention(&self, rollup: &RollupMeta) -> BTreeMap<String, i64>;
}

/// A roller without rollups, for stores that only keep events.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoRollups;

impl RollupHook for NoRollups {
    fn rollups_for(
        &self,
        _: &Name,
        _: StreamKind,
        _: &[RollupMeta],
    ) -> Result<Vec<NewRollup>, BoxError> {
        Ok(Vec::new())
    }
    fn tiles(
        &self,
        rollups: &[&RollupMeta],
        _: &[RecordBatch],
        _: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError> {
        no_rollups(rollups.first().copied())
    }
    fn backfill(
        &self,
        rollup: &RollupMeta,
        _: &Snapshot,
        _: Partition,
        _: &mut dyn FnMut(TileImage) -> Result<(), BoxError>,
    ) -> Result<(), BoxError> {
        no_rollups(Some(rollup)).map(|_| ())
    }
    fn day(&self, rollup: &RollupMeta, _: i64) -> Result<Partition, BoxError> {
        Err(unknown(rollup))
    }
    fn wants(&self, _: &RollupMeta, _: StreamKind, _: &[RollupMeta]) -> bool {
        true
    }
    fn recompute(
        &self,
        rollup: &RollupMeta,
        _: &str,
        _: i64,
        _: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError> {
        no_rollups(Some(rollup))
    }
    fn merge(
        &self,
        rollup: &RollupMeta,
        _: &[Merge<'_>],
        _: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError> {
        no_rollups(Some(rollup))
    }
    fn partition(&self, rollup: &RollupMeta, _: &str, _: i64) -> Result<Partition, BoxError> {
        Err(unknown(rollup))
    }
    fn retention(&self, _: &RollupMeta) -> BTreeMap<String, i64> {
        BTreeMap::new()
    }
}

fn unknown(rollup: &RollupMeta) -> BoxError {
    format!("rollup {} is not known here", rollup.name).into()
}

fn no_rollups(asked: Option<&RollupMeta>) -> Result<Vec<TileImage>, BoxError> {
    asked.map_or(Ok(Vec::new()), |rollup| Err(unknown(rollup)))
}
