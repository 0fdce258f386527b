//! Documents, journal, memtable, parts, manifest: what Logmill has acknowledged and where it is.
//!
//! In the order in which an event meets them: [`Batch`] (`model`), its bytes (`record`), the
//! `journal`, the `memtable`, the seal (`store/seal`) into a `part` and, through [`Roller`], into
//! tiles, all committed by the `manifest`. A [`Snapshot`] is what a reader sees of it, in this
//! process ([`Store::snapshot`]) or in another ([`Reader`]).

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests arrange and damage files")
)]

mod backup;
mod birth;
mod blocks;
mod check;
mod derived;
mod detached;
mod disk;
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that asks the machine itself"
)]
mod env;
mod error;
mod file;
#[cfg(test)]
mod fixtures;
mod gather;
mod identity;
mod index;
mod journal;
mod maintenance;
mod manifest;
mod memtable;
mod model;
mod part;
mod reader;
mod readers;
mod record;
mod recover;
mod repair;
mod retention;
mod rolling;
#[cfg(test)]
mod rot;
mod seeded;
mod settled;
mod shape;
#[cfg(any(test, feature = "sim"))]
#[allow(clippy::disallowed_methods, reason = "a disk of its own")]
pub mod sim;
mod snapshot;
mod spare;
mod store;
#[cfg(test)]
mod testing;
mod trash;

pub use backup::{BackupReport, backup};
pub use blocks::CheckedFile;
pub use check::{CheckReport, check};
pub use detached::DetachedFolder;
pub use disk::{DiskUse, disk_use};
pub use env::{
    Clock, Fs, FsFile, Guard, ManualClock, RealFs, Space, SystemClock, ThreadId, give_back_memory,
    resident_bytes, serve_nobody, step_back,
};
pub use error::{Error, Kind, Result};
pub use file::FileRef;
pub use identity::SourcePosition;
pub use index::{
    CoveringIndex, INDEX_ROWS_MIN, IndexKind, IndexName, IndexUse, IndexValue, IndexedRows,
    PartIndex, index_use, may_be_indexed,
};
pub use maintenance::{Job, JobCounts, JobEntry, JobState, Maintenance, Running, Said};
pub use manifest::{
    DetachedPartition, DroppedPartition, Manifest, PartMeta, PartitionWidth, Pending, StreamMeta,
    TileFile, TileMeta, object_id,
};
pub use memtable::Chunk;
pub use model::{
    Ack, Batch, Column, ColumnType, ID, Identity, Name, QUARANTINE, Quarantined, REST, SEQ,
    StreamKind, TIME, TIME_SOURCE, WriteConcern, access_fields, arrow_schema, fits_float,
};
pub use part::{partition_end, partition_folder, partition_start, read_part};
pub use reader::Reader;
pub use repair::{RepairReport, repair};
pub use retention::{Leaving, Retention, Why};
pub use rolling::{
    BoxError, Floor, History, Merge, NewRollup, NoRollups, Partition, Replaces, Roller, RollupMeta,
    Section, TileImage,
};
pub use settled::{Ranges, Settled, Settlement};
pub use snapshot::Snapshot;
pub use spare::Turn;
pub use store::{
    Arrived, COLUMNS_MAX, CompactReport, Config, Counters, Debt, DiskRoom, IndexReport, Options,
    PartitionReport, PartsReport, Rebuilt, SealReport, Status, Store, StreamConfig,
    compaction_debt,
};
