//! The manifest: what the store consists of, and the only commit point.
//!
//! A manifest is one small file, `manifest/<version>.manifest` (its bytes: the module `encoding`),
//! with a copy in `manifest-copy/` (the module `places`). Each version is a whole; the highest one
//! counts. It is written to a temporary name, synced,
//! renamed, and the directory synced; only then does anything else rely on it. Before a version is
//! written the newest one on the disk is compared with the one that it follows, and it gets its
//! name only where nothing lies: of two writers the slower one learns of the other
//! (`store/lock.rs`).
//!
//! # Invariants, checked at every edit in release builds too (`manifest/proof.rs`)
//! 1. Versions rise by one; `sealed_seq`, `next_seq`, `writer_epoch` and the journal's floor never
//!    fall.
//! 2. The tiles of a rollup tile `[first_seq, sealed_seq)`: no gap, no overlap.
//! 3. In a tile the sections of each of the rollup's levels hold as many events as the tile says,
//!    less those of sections that lay below the level's floor. No section lies below. A floor falls
//!    only by an edit that puts back sections of as many events as fewer lie below it.
//! 4. The tiles of a rollup, and what its history says that it has not counted, are as many events
//!    as were ever sealed into its stream; and its live
//!    parts, those that were dropped and those that are detached hold that number together.
//! 5. No file is named twice, and none that is named is also pending deletion.
//! 6. A file has a checksum for each of its blocks, or none of blocks.

mod detached;
mod encoding;
mod parts;
mod places;
mod proof;
mod tiles;

pub use detached::DetachedPartition;
#[cfg(test)]
pub(crate) use encoding::FORMAT;
pub(crate) use places::{
    COPY_DIR, Found, copy_path, damaged, find_newest, newest_version, read_newest, refuse_newer,
};
pub(crate) use tiles::SectionKey;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::env::{Fs, IoContext};
use crate::error::{Error, Result};
use crate::file::{FileRef, create_dir_durably, write_new_durably};
use crate::model::{Column, ColumnType, Name, StreamKind};
use crate::rollup_hook::{RollupMeta, Section};
use crate::seeded::{self, Bug};

pub(crate) const DIR: &str = "manifest";
const SUFFIX: &str = ".manifest";

/// How wide a time partition is.
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

/// A stream: what MongoDB calls a collection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamMeta {
    /// What it holds.
    pub kind: StreamKind,
    /// The width of its partitions.
    pub partition: PartitionWidth,
    /// The columns by which its parts are sorted, then by `_seq`.
    pub order_by: Vec<String>,
    /// Its columns, in the order in which they appeared.
    pub columns: Vec<Column>,
    /// When it was created, microseconds since 1970.
    pub created_us: i64,
    /// Events ever sealed into parts, dropped ones included.
    pub sealed_events: u64,
    /// Partitions of which raw events were dropped since, by their start.
    pub dropped: Vec<DroppedPartition>,
}

/// Raw events that are gone from one partition. The rollups still count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedPartition {
    /// Start of the partition, microseconds since 1970.
    pub partition_us: i64,
    /// The partition's raw events are complete from this sequence number on. After a drop there is
    /// none from before; after a repair, which gives up single parts, there may be some.
    pub complete_from: u64,
    /// Events that are gone.
    pub events: u64,
}

impl StreamMeta {
    /// Events of parts that were dropped.
    pub fn dropped_events(&self) -> u64 {
        self.dropped.iter().map(|d| d.events).sum()
    }

    /// Notes that `events` raw events of a partition are gone, all from before `complete_from`.
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

    /// The columns as a parser is to know them. Only those of documents become wider.
    pub fn schema(&self) -> Vec<Column> {
        let fixed = self.kind != StreamKind::Documents;
        let mut columns = self.columns.clone();
        columns.iter_mut().for_each(|c| c.wide |= fixed);
        columns
    }

    /// The type of a column.
    pub fn column_type(&self, name: &str) -> Option<ColumnType> {
        self.columns
            .iter()
            .find(|c| &*c.name == name)
            .map(|c| c.column_type)
    }
}

/// One immutable Parquet file: rows of one partition of one stream, sorted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartMeta {
    /// Unique in the store, never used again.
    pub id: u64,
    /// Its stream.
    pub stream: Name,
    /// Start of its partition, microseconds since 1970.
    pub partition_us: i64,
    /// The file.
    pub file: FileRef,
    /// Rows.
    pub rows: u64,
    /// First and last sequence number.
    pub seq: (u64, u64),
    /// Least and greatest event time, microseconds since 1970.
    pub time: (i64, i64),
    /// Least and greatest value of the text columns in `order_by`, cut to 64 bytes (the greatest
    /// rounded up), so that a part is pruned without opening it.
    pub text_range: BTreeMap<String, (String, String)>,
}

/// The states of one rollup over the events of one range of sequence numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TileMeta {
    /// Its rollup's generation.
    pub rollup: u32,
    /// First sequence number covered.
    pub first_seq: u64,
    /// Exclusive end of the range.
    pub cutoff: u64,
    /// Events counted, the same at every level.
    pub events: u64,
    /// Its files; none when no event of the stream lies in the range.
    pub files: Vec<TileFile>,
    /// Events of sections that lay below the floor of their level and are gone, by level.
    #[serde(default)]
    pub dropped: BTreeMap<String, u64>,
}

/// One file of a tile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TileFile {
    /// The file.
    pub file: FileRef,
    /// What lies where in it.
    pub sections: Vec<Section>,
}

/// A file that no version from `since` on refers to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    /// Path relative to the data directory.
    pub path: String,
    /// The first version that does without it.
    pub since: u64,
}

/// Everything the store consists of, as of one version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Rises by one with every edit.
    pub version: u64,
    /// crc32c of the body of the version before, 0 for the first.
    pub previous_crc: u32,
    /// Random, given once, 32 hex digits.
    pub store_id: String,
    /// When the store was created, seconds since 1970: the first four bytes of every `_id`.
    pub created_s: u32,
    /// Rises each time a writer opens the store.
    pub writer_epoch: u64,
    /// Whether the last writer closed the store: then no sequence number was shown beyond `next_seq`.
    pub clean: bool,
    /// Exclusive end of what is in parts and tiles: `last_run` of every rollup.
    pub sealed_seq: u64,
    /// When that was committed, microseconds since 1970.
    pub sealed_at_us: i64,
    /// How long the last seal took, milliseconds.
    pub sealed_ms: u64,
    /// The first sequence number that is free, as of this version.
    pub next_seq: u64,
    /// The first journal segment that is still needed.
    pub journal_floor: u64,
    /// The next number for parts, tiles and checkpoints.
    pub next_file: u64,
    /// The next rollup generation.
    pub next_rollup: u32,
    /// Streams by name.
    pub streams: BTreeMap<Name, StreamMeta>,
    /// Parts, by id.
    pub parts: Vec<PartMeta>,
    /// Partitions that lie in folders of their own and are part of no answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub detached: Vec<DetachedPartition>,
    /// Rollups, by generation.
    pub rollups: Vec<RollupMeta>,
    /// Tiles, by rollup and then range.
    pub tiles: Vec<TileMeta>,
    /// Batch identities up to `sealed_seq`, oldest file first.
    pub identities: Vec<FileRef>,
    /// Files to delete once no reader's version refers to them.
    pub pending: Vec<Pending>,
}

impl Manifest {
    /// The manifest of a new store.
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
            rollups: Vec::new(),
            tiles: Vec::new(),
            identities: Vec::new(),
            pending: Vec::new(),
        }
    }

    /// The parts of a stream.
    pub fn parts_of<'a>(&'a self, stream: &'a Name) -> impl Iterator<Item = &'a PartMeta> {
        self.parts.iter().filter(move |p| &p.stream == stream)
    }

    /// The rollups of a stream.
    pub fn rollups_of<'a>(&'a self, stream: &'a Name) -> impl Iterator<Item = &'a RollupMeta> {
        self.rollups.iter().filter(move |r| &r.stream == stream)
    }

    /// The tiles of a rollup, in the order of their ranges.
    pub fn tiles_of(&self, rollup: u32) -> impl Iterator<Item = &TileMeta> {
        self.tiles.iter().filter(move |t| t.rollup == rollup)
    }

    /// Every file that this version refers to.
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

    /// Where, by the first four bytes of the store's birth and two of its identity, `_id`s begin.
    /// The rest of an ObjectId is the sequence number in six bytes.
    pub fn id_prefix(&self) -> [u8; 6] {
        id_prefix(&self.store_id, self.created_s)
    }
}

/// Where the `_id`s of a store begin.
pub(crate) fn id_prefix(store_id: &str, created_s: u32) -> [u8; 6] {
    let mut prefix = [0; 6];
    prefix[..4].copy_from_slice(&created_s.to_be_bytes());
    let salt = u16::from_str_radix(store_id.get(..4).unwrap_or("0"), 16).unwrap_or(0);
    prefix[4..].copy_from_slice(&salt.to_be_bytes());
    prefix
}

/// Hex digits of an `_id`.
const ID_DIGITS: usize = 24;

/// The `_id` of a sequence number, hex digits: the store's prefix, then six bytes of the number.
pub fn object_id(prefix: [u8; 6], seq: u64) -> [u8; ID_DIGITS] {
    let seq = seq.to_be_bytes();
    let mut text = [0; ID_DIGITS];
    for (i, byte) in prefix.iter().chain(&seq[2..]).enumerate() {
        text[2 * i] = b"0123456789abcdef"[usize::from(byte >> 4)];
        text[2 * i + 1] = b"0123456789abcdef"[usize::from(byte & 15)];
    }
    text
}

/// A manifest with the checksum of its body, which the next version names.
#[derive(Debug, Clone)]
pub(crate) struct Committed {
    pub(crate) manifest: std::sync::Arc<Manifest>,
    pub(crate) crc: u32,
}

fn file_name(version: u64) -> String {
    format!("{version:016x}{SUFFIX}")
}

/// Where a version lies.
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

/// Refuses a directory with data and without a manifest: to take it for a new store would give up
/// what lies there. Nothing is written in these folders before the first manifest is durable.
pub(crate) fn refuse_headless(fs: &dyn Fs, data: &Path) -> Result<()> {
    for folder in ["streams", "rollups", "identities", crate::journal::DIR] {
        let path = data.join(folder);
        if fs.exists(&path) && !fs.list(&path).at("list", &path)?.is_empty() {
            return Err(Error::Corrupt {
                path: data.join(DIR),
                offset: 0,
                what: format!(
                    "there is no manifest, and {folder}/ is not empty; a backup that was cut short \
                     is to be removed and made again"
                ),
            });
        }
    }
    Ok(())
}

/// What to say where no manifest is.
pub(crate) fn absent(fs: &dyn Fs, data: &Path) -> Error {
    let path = data.into();
    refuse_headless(fs, data)
        .err()
        .unwrap_or(Error::NotAStore { path })
}

/// Compares the newest version on the disk with the one that this writer holds. A version that has
/// gone or is damaged is no other writer's: the next edit mends it.
fn compare(fs: &dyn Fs, dir: &Path, current: &Committed) -> Result<()> {
    let held = current.manifest.version;
    let known = if fs.exists(dir) {
        versions(fs, dir)?
    } else {
        Vec::new()
    };
    let newest = known.last().copied().unwrap_or(0);
    if newest > held {
        return Err(superseded(dir, held, newest));
    }
    if newest < held {
        return Ok(());
    }
    let path = dir.join(file_name(held));
    let mut head = [0; encoding::HEAD_BYTES_MAX];
    let read = || -> std::io::Result<usize> {
        let file = fs.open_read(&path)?;
        let len = usize::try_from(file.len()?).map_or(head.len(), |len| len.min(head.len()));
        file.read_exact_at(&mut head[..len], 0)?;
        Ok(len)
    };
    let crc = { read }()
        .ok()
        .and_then(|len| encoding::crc_of(&head[..len]));
    match crc {
        Some(crc) if crc != current.crc => Err(superseded(dir, held, newest)),
        _ => Ok(()),
    }
}

fn superseded(dir: &Path, held: u64, newest: u64) -> Error {
    Error::Unknown {
        what: format!(
            "{}: another process has written version {newest}, this one holds {held}; start one \
             server for a store",
            dir.display()
        ),
    }
}

/// Commits `next` as the successor of `current` and removes the versions before it.
///
/// # Errors
/// [`Error::Unknown`] when it may or may not have been committed, or another writer was met: this
/// one must stop. After any other error `current` stands.
pub(crate) fn commit(
    fs: &dyn Fs,
    data: &Path,
    current: Option<&Committed>,
    mut next: Manifest,
) -> Result<Committed> {
    let dir = data.join(DIR);
    if let Some(current) = current {
        if !seeded::is(Bug::LockUnchecked) {
            compare(fs, &dir, current)?;
        }
        next.version = current.manifest.version + 1;
        next.previous_crc = current.crc;
        if let Err(what) = current.manifest.check_edit(&next)
            && !seeded::is(Bug::TilesApart)
        {
            return Err(refused(&dir, &what));
        }
    }
    let (bytes, crc) = encoding::encode(&next).map_err(|what| refused(&dir, &what))?;
    if !fs.exists(&dir) {
        create_dir_durably(fs, data, &dir)?;
    }
    let path = dir.join(file_name(next.version));
    match write_new_durably(fs, &path, &bytes, next.writer_epoch) {
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::AlreadyExists => {
            return Err(superseded(&dir, next.version - 1, next.version));
        }
        other => other?,
    }
    if let Err(e) = fs.sync_dir(&dir) {
        // The new version is there and counts, or is not there after a power cut: which of the two
        // cannot be known any more, so nothing may be built on either.
        return Err(Error::Unknown {
            what: format!("sync {}: {e}", dir.display()),
        });
    }
    let known = versions(fs, &dir).unwrap_or_default();
    if let Some(newest) = known.last().filter(|v| **v > next.version)
        && !seeded::is(Bug::LockUnchecked)
    {
        return Err(superseded(&dir, next.version, *newest));
    }
    match places::write_copy(fs, data, (next.version, next.writer_epoch), &bytes) {
        Ok(()) => places::remove_older(fs, data, next.version),
        // The edit is committed all the same, and the version before stays until there is a copy.
        Err(error) => {
            tracing::warn!(%error, "could not write the copy of the manifest; the next edit tries again");
            places::remove_older(fs, data, next.version.saturating_sub(1));
        }
    }
    Ok(Committed {
        manifest: next.into(),
        crc,
    })
}

/// The edit is thrown away; the store goes on with the manifest it has.
fn refused(dir: &Path, what: &str) -> Error {
    Error::Corrupt {
        path: dir.into(),
        offset: 0,
        what: format!("edit refused: {what}"),
    }
}

#[cfg(test)]
mod tests;
