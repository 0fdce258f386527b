//! The interface through which the aggregator takes part in a seal.
//!
//! Storage decides *when* and *which events*; the [`RollupHook`] turns them into one tile per
//! rollup; storage writes the files and commits them in the same manifest edit as the parts.
//! Storage never imports upward, so the definition of a rollup is opaque here.

use std::collections::BTreeMap;
use std::fmt::Debug;

use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};

use crate::file::FileRef;
use crate::model::{Name, StreamKind};
use crate::snapshot::Snapshot;

/// An error of the layer above, passed on unchanged.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A rollup in the manifest: one generation of one definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RollupMeta {
    /// Generation: unique in the store, never reused.
    pub id: u32,
    /// Name of the rollup, also the schema of its level tables.
    pub name: Name,
    /// Stream whose events it counts.
    pub stream: Name,
    /// Definition, opaque to storage, compared byte for byte.
    pub definition: serde_json::Value,
    /// Levels, finest first: every tile accounts for all of its events at each of them.
    pub levels: Vec<String>,
    /// First sequence number that this generation covers.
    pub first_seq: u64,
    /// Creation time, microseconds since 1970.
    pub created_us: i64,
    /// Floors of the levels that retention has cut, by level.
    pub floors: BTreeMap<String, Floor>,
    /// History: the events that the stream had when the rollup was added and that it has not
    /// counted yet; `None` when it has counted them all, or when there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// Rules of the rollup's time zone, which define its buckets; opaque to storage. Rollups from
    /// before this field existed have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_data: Option<String>,
}

/// The events of a stream from before its rollup was added, as far as the rollup has not counted
/// them.
///
/// # Invariants
/// * No event before `until_us` is counted, and every live event from then on is: by a seal or,
///   when it had been sealed before the rollup was added, by the step that lowered `until_us`
///   past it. The time of an event alone determines which of the two counts it.
/// * Steps begin and end with a day of the rollup, so that all keys of a day are admitted at
///   once, in the order of the sequence.
/// * The events of the tiles and `missing` add up to the events that were sealed into the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// Events before this time wait to be counted, microseconds since 1970; `None` when none
    /// waits.
    pub until_us: Option<i64>,
    /// Sealed events that are not counted: those that wait, and those that could not be
    /// recomputed because their raw events no longer existed.
    pub missing: u64,
    /// Time before which no bucket is complete, because raw events no longer existed when their
    /// days were counted; microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_to_us: Option<i64>,
    /// Partitions that were detached when their days were counted: their events are not counted
    /// even once they are attached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub detached: Vec<i64>,
}

/// The lower end of a level: its retention has dropped everything below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Floor {
    /// Buckets that start before this time are not returned at the level, microseconds since
    /// 1970. The floor is the start of a time partition and never falls.
    pub from_us: i64,
    /// Events that arrived when their bucket was already below the floor: only the other levels
    /// count them.
    pub late: u64,
}

impl RollupMeta {
    /// Returns the start of the first bucket that `level` returns, microseconds since 1970.
    pub fn floor_us(&self, level: &str) -> i64 {
        self.floors.get(level).map_or(i64::MIN, |f| f.from_us)
    }

    /// Returns the time before which events are not counted yet, microseconds since 1970.
    pub fn counts_from_us(&self) -> Option<i64> {
        self.history.as_ref().and_then(|h| h.until_us)
    }

    /// Returns the number of sealed events that the rollup has not counted.
    pub fn missing(&self) -> u64 {
        self.history.as_ref().map_or(0, |h| h.missing)
    }

    /// Returns the time before which no bucket is complete, microseconds since 1970; `None` when
    /// all buckets are complete.
    pub fn complete_from_us(&self) -> Option<i64> {
        let history = self.history.as_ref()?;
        history.until_us.max(history.lost_to_us)
    }
}

/// A rollup to be added to a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRollup {
    /// Name of the rollup.
    pub name: Name,
    /// Definition, opaque to storage.
    pub definition: serde_json::Value,
    /// Levels, finest first.
    pub levels: Vec<String>,
    /// Rules of the rollup's time zone.
    pub zone_data: Option<String>,
    /// Set when the rollup replaces the previous generation, which is removed.
    pub replaces: Option<Replaces>,
}

/// Losses that the replacement of a generation may accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaces {
    /// No loss: all that the previous generation has counted can be counted again.
    Counted,
    /// Loss of buckets whose raw events no longer exist.
    Anything,
}

/// Location and counts of the cells of one (level, time partition) in a tile file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// `minute`, `hour`, `day`, `week`, `month` or `year`.
    pub level: String,
    /// Start of the time partition, microseconds since 1970.
    pub partition_us: i64,
    /// Start of the first bucket, microseconds since 1970.
    pub bucket_min_us: i64,
    /// Start of the last bucket, microseconds since 1970.
    pub bucket_max_us: i64,
    /// Number of cells.
    pub cells: u64,
    /// Number of cells in the fullest bucket, 0 when unknown: no bucket has more keys.
    pub densest: u64,
    /// Number of events counted in the cells. Over the sections of one level of a tile they add
    /// up to the events of the tile, so the manifest proves that none is missing or counted
    /// twice.
    pub events: u64,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Length in the file, bytes.
    pub len: u64,
}

/// A tile that the aggregator has built and that is not yet on disk.
#[derive(Debug, Clone)]
pub struct TileImage {
    /// Bytes of the file; empty when the seal had no event of the stream.
    pub bytes: Vec<u8>,
    /// Sections of the file, with their offsets.
    pub sections: Vec<Section>,
    /// Events counted, the same at every level.
    pub events: u64,
}

/// Sections of one (level, time partition) to be merged into one, in the order of their tiles.
#[derive(Debug, Clone)]
pub struct Merge<'a> {
    /// Level of the sections.
    pub level: &'a str,
    /// Start of the time partition, microseconds since 1970.
    pub partition_us: i64,
    /// Sections with the file of each.
    pub sections: Vec<(&'a FileRef, &'a Section)>,
}

/// A time partition of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    /// Start of the partition, microseconds since 1970.
    pub start_us: i64,
    /// Exclusive end of the partition, microseconds since 1970.
    pub end_us: i64,
}

/// The functions of the aggregator that storage calls. They are pure: they use no clock, and read
/// no files but those of the snapshots passed to them.
pub trait RollupHook: Send + Sync + Debug {
    /// Returns the rollups that `stream` gets when it is created, or that the configuration has
    /// added since.
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
    /// `rollups`, and returns one image per rollup in the same order. An image counts the events
    /// that the rollup's history does not hold back. `events` hold `time`, `_seq` and any other
    /// columns; a missing column reads as null. `sealed` is a snapshot of everything sealed
    /// before them.
    ///
    /// # Errors
    /// When a definition cannot be read.
    fn tiles(
        &self,
        rollups: &[&RollupMeta],
        events: &[RecordBatch],
        sealed: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError>;

    /// Cascades the sealed events of a window that the rollup has not counted yet, and passes
    /// each image to `write`. The window begins and ends with days of the rollup.
    ///
    /// # Errors
    /// When a part or a definition cannot be read, or when `write` fails.
    fn backfill(
        &self,
        rollup: &RollupMeta,
        sealed: &Snapshot,
        window: Partition,
        write: &mut dyn FnMut(TileImage) -> Result<(), BoxError>,
    ) -> Result<(), BoxError>;

    /// Returns the day of the rollup that contains an instant.
    ///
    /// # Errors
    /// When the definition cannot be read.
    fn day(&self, rollup: &RollupMeta, at_us: i64) -> Result<Partition, BoxError>;

    /// Returns true when the configuration, or the defaults of a stream of this kind, include the
    /// rollup.
    fn wants(&self, rollup: &RollupMeta, kind: StreamKind, existing: &[RollupMeta]) -> bool;

    /// Recomputes one (level, time partition) from the sealed raw events that still exist;
    /// `events` of the images count them. Each image has sections of that partition only.
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

    /// Returns true when [`RollupHook::recount`] needs the raw events of some days alone.
    ///
    /// # Errors
    /// When the definition cannot be read.
    fn recounts_days(&self, _: &RollupMeta) -> Result<bool, BoxError> {
        Ok(false)
    }

    /// Counts again, in one (level, time partition), the buckets around `days` after raw events of
    /// these days were erased. `remaining` has the raw events that stay, and the sections of finer
    /// levels as they were counted again. Each image has sections of that partition only, which
    /// together replace all sections that it has. Where [`RollupHook::recounts_days`] is false, all
    /// raw events that the partition counts are there.
    ///
    /// # Errors
    /// When a file or a definition cannot be read.
    fn recount(
        &self,
        rollup: &RollupMeta,
        (level, partition_us): (&str, i64),
        _days: &[Partition],
        remaining: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError> {
        self.recompute(rollup, level, partition_us, remaining)
    }

    /// Merges sections; returns one image with one section for each merge.
    ///
    /// # Errors
    /// When a file cannot be read.
    fn merge(
        &self,
        rollup: &RollupMeta,
        merges: &[Merge<'_>],
        sealed: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError>;

    /// Returns the time partition of a level that holds the bucket around an instant.
    ///
    /// # Errors
    /// When the definition cannot be read or has no such level.
    fn partition(
        &self,
        rollup: &RollupMeta,
        level: &str,
        at_us: i64,
    ) -> Result<Partition, BoxError>;

    /// Returns the age at which each level drops its buckets, microseconds; levels that keep them
    /// for ever are left out.
    fn retention(&self, rollup: &RollupMeta) -> BTreeMap<String, i64>;
}

/// A hook without rollups, for stores that only keep events.
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
    format!("unknown rollup {}", rollup.name).into()
}

fn no_rollups(rollup: Option<&RollupMeta>) -> Result<Vec<TileImage>, BoxError> {
    rollup.map_or(Ok(Vec::new()), |rollup| Err(unknown(rollup)))
}
