//! Documents, journal, memtable, parts, manifest: the events that Logmill has acknowledged, and
//! their places on disk.
//!
//! An event passes through them in this order: [`Batch`] (`model`), its bytes (`record`), the
//! `journal`, the `memtable`, the seal (`store/seal`) into a `part` and, through [`RollupHook`],
//! into tiles, all committed by the `manifest`. A [`Snapshot`] is a reader's view of them, in
//! this process ([`Store::snapshot`]) or in another ([`ReadOnlyStore`]).

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests arrange and damage files")
)]

mod access_file;
mod apply;
mod background_permits;
mod backup;
mod birth;
mod blocks;
mod check;
mod concern;
mod counter_columns;
mod depot;
mod detached;
mod disk;
mod encoded_batch;
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that asks the machine itself"
)]
mod env;
mod error;
mod file;
mod file_id;
#[cfg(test)]
mod fixtures;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod identity;
mod index;
mod interleave;
mod job_log;
mod journal;
mod kept_text;
mod limits;
mod manifest;
mod memo;
mod memtable;
mod model;
mod objects;
mod part;
mod read_only_store;
mod reader_registry;
mod record;
mod recover;
mod repair;
mod resolutions;
mod retention;
mod rollup_hook;
#[cfg(test)]
mod rot;
mod schema_evolution;
mod seeded;
mod shard_key;
mod shared_journal;
#[cfg(any(test, feature = "sim"))]
#[allow(clippy::disallowed_methods, reason = "a disk of its own")]
pub mod sim;
mod snapshot;
mod store;
#[cfg(test)]
mod testing;
mod trash;

pub use access_file::operator_secret;
pub use background_permits::BackgroundPermit;
pub use backup::{BackupReport, backup};
pub use blocks::CheckedFile;
pub use check::{CheckReport, check, check_stream};
pub use concern::{Copies, Durability, WriteConcern};
pub use counter_columns::{COUNTER, COUNTER_PATH, INCREMENT, counter_fields};
pub use depot::{CacheSettings, Content, Depot, S3Depot, S3Settings, Swap, Tag};
pub use detached::DetachedFolder;
pub use disk::{DiskUse, disk_use};
pub use encoded_batch::EncodedBatch;
pub use env::{
    Clock, Fs, FsFile, Guard, ManualClock, RealFs, Space, SystemClock, ThreadId, anonymous_bytes,
    give_back_memory, resident_bytes, serve_nobody, step_back,
};
pub use error::{Error, Kind, Result};
pub use file::FileRef;
pub use identity::SourcePosition;
pub use index::{
    CoveringIndex, INDEX_ROWS_MIN, IndexKind, IndexName, IndexUse, IndexValue, IndexedRows,
    PartIndex, index_use, may_be_indexed,
};
pub use job_log::{Job, JobCounts, JobEntry, JobLog, JobState, Running, Said};
pub use limits::Retention;
pub use manifest::{
    COLUMNS_MAX, DetachedPartition, DroppedPartition, Erasure, KafkaJournal, Manifest, PartMeta,
    PartitionWidth, Pending, StreamMeta, TileFile, TileMeta, object_id,
};
pub use memtable::Chunk;
pub use model::{
    Ack, Batch, Column, ColumnType, ID, Identity, Name, QUARANTINE, Quarantined, REST, SEQ, SHARD,
    StreamKind, TIME, TIME_SOURCE, access_fields, arrow_schema, fits_float,
};
pub use objects::{Adoption, writer_address};
pub use part::{partition_end, partition_folder, partition_start, read_part};
pub use read_only_store::ReadOnlyStore;
pub use repair::{RepairReport, repair};
pub use resolutions::{Ranges, Settled, Settlement};
pub use retention::{Leaving, Why};
pub use rollup_hook::{
    BoxError, Floor, History, Merge, NewRollup, NoRollups, Partition, Replaces, RollupHook,
    RollupMeta, Section, TileImage,
};
pub use schema_evolution::agree;
pub use shard_key::{Division, HotValues, SALTS, Salt, ShardKey, shard_hash, shard_mix};
pub use shared_journal::{Appended, JournalPlace, JournalPosition, Replication, SharedJournal};
pub use snapshot::Snapshot;
pub use store::{
    Arrived, CompactReport, Config, Counters, Debt, DiskForecast, EraseReport, IndexReport,
    JournalStatus, Options, PartitionReport, PartsReport, Rebuilt, SealReport, Status, Store,
    StreamConfig, compaction_debt, recorded_writer,
};
