//! The manifest: the list of everything that the store consists of, and the only commit point.
//!
//! A manifest is one small file, `manifest/<version>.manifest` (its encoding: the module
//! `encoding`), with a copy in `manifest-copy/` (the module `places`). Each version is complete;
//! the highest one counts. A version is written to a temporary name, synced and renamed, and the
//! directory is synced; nothing relies on it before that.
//! Before a version is written, the newest one on the disk is compared with the one that it
//! follows, and the rename never replaces a file. So of two writers the slower one detects the
//! other (`store/lock.rs`).
//!
//! # Invariants, checked at every edit in release builds too (`manifest/proof.rs`)
//! 1. Versions rise by one; `sealed_seq`, `next_seq`, `writer_epoch` and the journal's floor
//!    never fall.
//! 2. The tiles of a rollup cover `[first_seq, sealed_seq)` without gap or overlap.
//! 3. In a tile, the sections of each level of the rollup hold as many events as the tile, less
//!    the events of sections that were dropped below the level's floor. No section lies below the
//!    floor. A floor falls only in an edit that restores sections with as many events as it
//!    subtracts from the count of dropped ones.
//! 4. The events in the tiles of a rollup and the events that its history has not counted add up
//!    to the events ever sealed into its stream and not erased. So do the rows of the stream's
//!    live, dropped and detached parts. Events sealed and erased together never become fewer.
//! 5. No file is listed twice, and no listed file is pending deletion.
//! 6. A file has one checksum for each of its blocks, or no block checksums at all.
//! 7. The division of a stream that is there never says more than it did.

mod commit;
mod detached;
mod encoding;
mod erasure;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod parts;
mod places;
mod proof;
mod reserved;
mod tiles;

pub(crate) use commit::{CommitPlace, commit, commit_for, write_version};
pub use detached::DetachedPartition;
#[cfg(test)]
pub(crate) use encoding::FORMAT;
pub use erasure::Erasure;
pub(crate) use erasure::Recount;
pub(crate) use places::{
    COPY_DIR, Found, copy_path, damaged, find_newest, newest_version, read_newest,
    refuse_other_format,
};
pub use reserved::KafkaJournal;
pub(crate) use tiles::SectionKey;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::depot::Tag;
use crate::env::{Fs, IoContext};
use crate::error::{Error, Result};
use crate::file::FileRef;
use crate::limits::Retention;
use crate::model::{Column, ColumnType, Name, StreamKind};
use crate::rollup_hook::{RollupMeta, Section};
use crate::shard_key::Division;

pub(crate) const DIR: &str = "manifest";
const SUFFIX: &str = ".manifest";
/// Default maximum number of columns of a stream. A manifest does not name it, so it is part of
/// the format.
pub const COLUMNS_MAX: usize = 1000;

/// Width of a time partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionWidth {
    /// One hour, UTC.
    Hour,
    /// One day, UTC.
    #[default]
    Day,
    /// One calendar month, UTC.
    Month,
}

/// A stream of events; MongoDB's term is collection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamMeta {
    /// Kind of its events.
    pub kind: StreamKind,
    /// Width of its partitions.
    pub partition: PartitionWidth,
    /// Columns by which its parts are sorted, before `_seq`.
    pub order_by: Vec<String>,
    /// Columns of the stream, in the order in which they appeared.
    pub columns: Vec<Column>,
    /// Creation time, microseconds since 1970.
    pub created_us: i64,
    /// Events ever sealed into parts, including dropped ones, less those that an erasure took out
    /// of parts and rollups.
    pub sealed_events: u64,
    /// Partitions whose raw events were dropped, sorted by their start.
    pub dropped: Vec<DroppedPartition>,
    /// Maximum number of columns, besides the store's own. It is the limit that was configured
    /// when the stream was created: every program that reads the journal decides by it.
    #[serde(default = "default_columns_max", skip_serializing_if = "is_default")]
    pub columns_max: usize,
    /// Erasures, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub erasures: Vec<Erasure>,
    /// The rule by which all of its events came to this store, a shard of a cluster; `None` if some
    /// may have come otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divided_by: Option<Division>,
}

fn default_columns_max() -> usize {
    COLUMNS_MAX
}

fn is_default(columns_max: &usize) -> bool {
    *columns_max == COLUMNS_MAX
}

/// Raw events that were dropped from one partition. The rollups still count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DroppedPartition {
    /// Start of the partition, microseconds since 1970.
    pub partition_us: i64,
    /// First sequence number from which the partition's raw events are complete. A drop leaves no
    /// earlier ones; a repair, which discards single parts, may leave some.
    pub complete_from: u64,
    /// Number of events dropped.
    pub events: u64,
}

impl StreamMeta {
    /// Returns the number of events in dropped parts.
    pub fn dropped_events(&self) -> u64 {
        self.dropped.iter().map(|d| d.events).sum()
    }

    /// Records that `events` raw events of a partition, all before `complete_from`, were dropped.
    pub(crate) fn lose(&mut self, partition_us: i64, complete_from: u64, events: u64) {
        let at = self
            .dropped
            .partition_point(|d| d.partition_us < partition_us);
        match self.dropped.get_mut(at) {
            Some(known) if known.partition_us == partition_us => {
                known.complete_from = known.complete_from.max(complete_from);
                known.events += events;
            }
            _ => self.dropped.insert(
                at,
                DroppedPartition {
                    partition_us,
                    complete_from,
                    events,
                },
            ),
        }
    }

    /// Returns the columns for a parser. Integer columns of all kinds but documents never become
    /// floats, so they are marked `wide`.
    pub fn schema(&self) -> Vec<Column> {
        let fixed = self.kind != StreamKind::Documents;
        let mut columns = self.columns.clone();
        columns.iter_mut().for_each(|c| c.wide |= fixed);
        columns
    }

    /// Returns the type of a column.
    pub fn column_type(&self, name: &str) -> Option<ColumnType> {
        self.columns
            .iter()
            .find(|c| &*c.name == name)
            .map(|c| c.column_type)
    }
}

/// One immutable Parquet file: rows of one partition of one stream, sorted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartMeta {
    /// Number of the part: unique in the store, never reused.
    pub id: u64,
    /// Stream of the part.
    pub stream: Name,
    /// Start of the partition, microseconds since 1970.
    pub partition_us: i64,
    /// Parquet file of the part.
    pub file: FileRef,
    /// Number of rows.
    pub rows: u64,
    /// First and last sequence number.
    pub seq: (u64, u64),
    /// Least and greatest event time, microseconds since 1970.
    pub time: (i64, i64),
    /// Least and greatest value of the text columns in `order_by`, cut to 64 bytes (the greatest
    /// rounded up), so that a part is pruned without opening it.
    pub text_range: BTreeMap<String, (String, String)>,
}

/// The rollup states of the events in one range of sequence numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TileMeta {
    /// Generation of the rollup.
    pub rollup: u32,
    /// First sequence number covered.
    pub first_seq: u64,
    /// Exclusive end of the range.
    pub cutoff: u64,
    /// Events counted, the same at every level.
    pub events: u64,
    /// Files of the tile; none when no event of the stream lies in the range.
    pub files: Vec<TileFile>,
    /// Events of sections that were dropped because they lay below their level's floor, by level.
    pub dropped: BTreeMap<String, u64>,
}

/// One file of a tile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TileFile {
    /// Bytes and checksums of the file.
    pub file: FileRef,
    /// Sections of the file, with their offsets.
    pub sections: Vec<Section>,
}

/// A file that no version from `since` on refers to. It waits for deletion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pending {
    /// Path relative to the data directory.
    pub path: String,
    /// First version that does not refer to it.
    pub since: u64,
}

/// The content of the store as of one version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version number; rises by one with every edit.
    pub version: u64,
    /// Checksum (crc32c) of the body of the previous version, 0 for the first.
    pub previous_crc: u32,
    /// Random id of the store, never changed, 32 hex digits.
    pub store_id: String,
    /// Creation time of the store, seconds since 1970: the first four bytes of every `_id`.
    pub created_s: u32,
    /// Epoch of the writer that wrote this version; rises each time a writer opens the store. The
    /// names of that writer's files begin with it (`file_id.rs`).
    pub writer_epoch: u32,
    /// True when the last writer closed the store: then no reader saw a sequence number beyond
    /// `next_seq`.
    pub clean: bool,
    /// Exclusive end of the sequence numbers in parts and tiles: `last_run` of every rollup.
    pub sealed_seq: u64,
    /// Time of the last seal's commit, microseconds since 1970.
    pub sealed_at_us: i64,
    /// Duration of the last seal, milliseconds.
    pub sealed_ms: u64,
    /// First free sequence number as of this version.
    pub next_seq: u64,
    /// First journal segment that is still needed.
    pub journal_floor: u64,
    /// Next number for parts, tiles and checkpoints.
    pub next_file: u64,
    /// Next rollup generation.
    pub next_rollup: u32,
    /// Streams by name.
    pub streams: BTreeMap<Name, StreamMeta>,
    /// Parts, by id.
    pub parts: Vec<PartMeta>,
    /// Partitions in folders of their own, which no query reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub detached: Vec<DetachedPartition>,
    /// Limits that commands have set, by stream. Those of the configuration come before them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub retention: BTreeMap<Name, Retention>,
    /// Rollups, by generation.
    pub rollups: Vec<RollupMeta>,
    /// Tiles, by rollup and then range.
    pub tiles: Vec<TileMeta>,
    /// Checkpoints of batch identities up to `sealed_seq`, oldest file first.
    pub identities: Vec<FileRef>,
    /// Files to delete once no reader's version refers to them.
    pub pending: Vec<Pending>,
    /// Number of the shard that the store is in a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<u16>,
    /// The shared journal in place of the one in the data directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<KafkaJournal>,
    /// Nonce of the conditional write that committed this version, 32 hex digits. By it a writer
    /// recognizes its own commit when the answer was lost. Versions on a local disk have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

impl Manifest {
    /// Returns the manifest of a new store.
    pub(crate) fn new(store_id: String, created_s: u32) -> Self {
        Self {
            version: 0,
            previous_crc: 0,
            store_id,
            created_s,
            writer_epoch: 0,
            clean: true,
            sealed_seq: 0,
            sealed_at_us: i64::from(created_s) * 1_000_000,
            sealed_ms: 0,
            next_seq: 0,
            journal_floor: 0,
            next_file: 1,
            next_rollup: 1,
            streams: BTreeMap::new(),
            parts: Vec::new(),
            detached: Vec::new(),
            retention: BTreeMap::new(),
            rollups: Vec::new(),
            tiles: Vec::new(),
            identities: Vec::new(),
            pending: Vec::new(),
            shard: None,
            journal: None,
            commit: None,
        }
    }

    /// Returns the parts of a stream.
    pub fn parts_of<'a>(&'a self, stream: &'a Name) -> impl Iterator<Item = &'a PartMeta> {
        self.parts.iter().filter(move |p| &p.stream == stream)
    }

    /// Returns the rollups of a stream.
    pub fn rollups_of<'a>(&'a self, stream: &'a Name) -> impl Iterator<Item = &'a RollupMeta> {
        self.rollups.iter().filter(move |r| &r.stream == stream)
    }

    /// Returns the tiles of a rollup, in the order of their ranges.
    pub fn tiles_of(&self, rollup: u32) -> impl Iterator<Item = &TileMeta> {
        self.tiles.iter().filter(move |t| t.rollup == rollup)
    }

    /// Returns every file that this version refers to.
    pub fn files(&self) -> impl Iterator<Item = &FileRef> {
        let tiles = self
            .tiles
            .iter()
            .flat_map(|t| t.files.iter().map(|f| &f.file));
        self.parts
            .iter()
            .map(|p| &p.file)
            .chain(tiles)
            .chain(&self.identities)
    }

    /// Returns the first six bytes of every `_id`: four of the store's creation time and two of
    /// its id. The other six bytes of an ObjectId are the sequence number.
    pub fn id_prefix(&self) -> [u8; 6] {
        id_prefix(&self.store_id, self.created_s)
    }
}

/// Returns the first six bytes of every `_id` of a store.
pub(crate) fn id_prefix(store_id: &str, created_s: u32) -> [u8; 6] {
    let mut prefix = [0; 6];
    prefix[..4].copy_from_slice(&created_s.to_be_bytes());
    let salt = u16::from_str_radix(store_id.get(..4).unwrap_or("0"), 16).unwrap_or(0);
    prefix[4..].copy_from_slice(&salt.to_be_bytes());
    prefix
}

/// Length of an `_id` in hex digits.
const ID_DIGITS: usize = 24;

/// Returns the `_id` of a sequence number in hex digits: the store's prefix, then six bytes of
/// the number.
pub fn object_id(prefix: [u8; 6], seq: u64) -> [u8; ID_DIGITS] {
    let seq = seq.to_be_bytes();
    let mut text = [0; ID_DIGITS];
    for (i, byte) in prefix.iter().chain(&seq[2..]).enumerate() {
        text[2 * i] = b"0123456789abcdef"[usize::from(byte >> 4)];
        text[2 * i + 1] = b"0123456789abcdef"[usize::from(byte & 15)];
    }
    text
}

/// A manifest with the checksum of its body, which the next version records.
#[derive(Debug, Clone)]
pub(crate) struct Committed {
    pub(crate) manifest: std::sync::Arc<Manifest>,
    pub(crate) crc: u32,
    /// The `CURRENT` that points to it, where the store has an object store.
    pub(crate) tag: Option<Tag>,
}

fn file_name(version: u64) -> String {
    format!("{version:016x}{SUFFIX}")
}

/// Returns the path of a version.
pub(crate) fn path(data: &Path, version: u64) -> PathBuf {
    data.join(DIR).join(file_name(version))
}

fn versions(fs: &dyn Fs, dir: &Path) -> Result<Vec<u64>> {
    let mut versions: Vec<u64> = fs
        .list(dir)
        .at("list", dir)?
        .iter()
        .filter_map(|name| u64::from_str_radix(name.strip_suffix(SUFFIX)?, 16).ok())
        .collect();
    versions.sort_unstable();
    Ok(versions)
}

/// Refuses a directory that has data but no manifest: opening it as a new store would lose that
/// data. Nothing is written to these folders before the first manifest is durable.
pub(crate) fn refuse_headless(fs: &dyn Fs, data: &Path) -> Result<()> {
    for folder in ["streams", "rollups", "identities", crate::journal::DIR] {
        let path = data.join(folder);
        if fs.exists(&path) && !fs.list(&path).at("list", &path)?.is_empty() {
            return Err(Error::Corrupt {
                path: data.join(DIR),
                offset: 0,
                what: format!(
                    "the manifest is missing, but {folder}/ is not empty; if this is an \
                     interrupted backup, remove it and make it again"
                ),
            });
        }
    }
    Ok(())
}

/// Returns the error for a directory without a manifest.
pub(crate) fn absent(fs: &dyn Fs, data: &Path) -> Error {
    let path = data.into();
    refuse_headless(fs, data)
        .err()
        .unwrap_or(Error::NotAStore { path })
}

impl Committed {
    /// Reads the bytes of a version; `path` names their place in an error.
    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<Self> {
        let (manifest, crc) = encoding::decode(path, bytes)?;
        Ok(Self {
            manifest: manifest.into(),
            crc,
            tag: None,
        })
    }
}

#[cfg(test)]
mod tests;
