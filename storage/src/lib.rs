//! Documents, journal, memtable, parts, manifest: what Logmill has acknowledged and where it is.

mod env;
mod error;
mod file;
mod manifest;
mod memtable;
mod model;
mod rolling;
mod snapshot;

pub use env::{Clock, Fs, FsFile, Guard, ManualClock, RealFs, SystemClock};
pub use error::{Error, Kind, Result};
pub use file::FileRef;
pub use manifest::{Manifest, PartMeta, PartitionWidth, Pending, StreamMeta, TileFile, TileMeta};
pub use memtable::Chunk;
pub use model::{
    Ack, Batch, Column, ColumnType, ID, Identity, Name, QUARANTINE, Quarantined, REST, SEQ, StreamKind, TIME,
    WriteConcern, access_fields, arrow_schema,
};
pub use rolling::{BoxError, NewRollup, NoRollups, Roller, RollupMeta, Section, TileImage};
pub use snapshot::Snapshot;
