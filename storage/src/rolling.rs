//! The seam through which the aggregator takes part in a seal.
//!
//! Storage decides *when* and *which events*; the [`Roller`] turns them into one tile per rollup;
//! storage writes the files and commits them in the same manifest edit as the parts. Storage never
//! imports upward, so the definition of a rollup is opaque here.

use std::fmt::Debug;

use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};

use crate::model::{Name, StreamKind};

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
    /// The first sequence number that this generation covers.
    pub first_seq: u64,
    /// When it was created, microseconds since 1970.
    pub created_us: i64,
}

/// A rollup that a stream is to get.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRollup {
    /// Its name.
    pub name: Name,
    /// Its definition.
    pub definition: serde_json::Value,
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

/// What storage asks of the aggregator. Pure: no clock, no files.
pub trait Roller: Send + Sync + Debug {
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

    /// Cascades events of one stream through each of its `rollups`, in their order. `events` hold
    /// `time`, `_seq` and any other columns; a column that is missing reads as null.
    ///
    /// # Errors
    /// When a definition cannot be read.
    fn tiles(
        &self,
        rollups: &[&RollupMeta],
        events: &[RecordBatch],
    ) -> Result<Vec<TileImage>, BoxError>;
}

/// A roller without rollups, for stores that only keep events.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoRollups;

impl Roller for NoRollups {
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
    ) -> Result<Vec<TileImage>, BoxError> {
        Ok(rollups
            .iter()
            .map(|_| TileImage {
                bytes: Vec::new(),
                sections: Vec::new(),
                events: 0,
            })
            .collect())
    }
}
