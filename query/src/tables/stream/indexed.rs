//! Selects the rows of parts to read, by the indexes of storage.
//!
//! # Invariants
//! * An index excludes only rows that the filters would exclude: the filters stay above the scan,
//!   and a part whose index is missing or damaged is scanned. (The blocks of a covering index are
//!   verified when they are read. A query that reads a damaged block fails with an error that
//!   names it, and the next query scans the part.)
//! * Heads of indexes are cached up to a bound. A head is used only if it belongs to the very
//!   part.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::RowSelection;
use storage::{
    CheckedFile, Clock, CoveringIndex, FileRef, IndexName, IndexValue, IndexedRows, Name,
    PartIndex, PartMeta, Snapshot, SystemClock, may_be_indexed,
};
use tokio::task::spawn_blocking;

use super::Files;
use super::prune::Bounds;
use crate::tables::byte_cache::ByteCache;

/// An index that names more than one in this many rows of a part is not used: a scan is as fast.
const SHARE: usize = 30;

/// Rows to read instead of whole parts, by number of the part. Parts that are not listed are
/// scanned.
#[derive(Debug, Default)]
pub(super) struct Picked {
    /// Rows of a part, ascending.
    rows: HashMap<u64, Vec<u32>>,
    /// Covering indexes: the rows of a part in the order of a requested column.
    covering: HashMap<u64, Covering>,
    /// Columns whose indexes were used.
    pub(super) fields: BTreeSet<String>,
}

/// A part to read: all of its rows, some of them, or all of them in the order of a covering
/// index.
pub(super) struct Candidate<'a> {
    pub(super) part: &'a PartMeta,
    pub(super) rows: Option<Vec<u32>>,
    pub(super) covering: Option<Covering>,
}

impl Candidate<'_> {
    /// Returns the upper bound of the number of rows to read.
    pub(super) fn rows(&self) -> u64 {
        let picked = self.rows.as_ref().map(|rows| rows.len() as u64);
        picked.unwrap_or(self.part.rows)
    }

    /// Returns the file to read.
    pub(super) fn file(&self) -> &FileRef {
        let covering = self.covering.as_ref().map(|covering| covering.index.file());
        covering.unwrap_or(&self.part.file)
    }
}

/// The covering index of a part.
#[derive(Debug, Clone)]
pub(super) struct Covering {
    index: CoveringIndex,
    key: IndexOfPart,
    heads: Arc<Heads>,
}

impl Covering {
    pub(super) fn read(&self, snapshot: &Snapshot) -> CheckedFile {
        self.index.read(snapshot)
    }

    /// Returns the column by which the index is sorted.
    pub(super) fn column(&self) -> &str {
        &self.key.column
    }

    /// Records that a read has found the index damaged. The part is scanned from now on.
    pub(super) fn is_damaged(&self, error: &storage::Error) {
        self.heads.note_damage(self.key.clone(), error);
    }
}

impl Picked {
    /// Returns the rows of a part to read; `None` if there are none.
    pub(super) fn candidate<'a>(&mut self, part: &'a PartMeta) -> Option<Candidate<'a>> {
        let rows = self.rows.remove(&part.id);
        let covering = self.covering.remove(&part.id);
        let has_any = rows.as_ref().is_none_or(|rows| !rows.is_empty());
        // Row numbers of the part do not hold in a covering index, which has another order.
        has_any.then_some(Candidate {
            part,
            covering: covering.filter(|_| rows.is_none()),
            rows,
        })
    }
}

/// Looks up the requested values in the existing indexes. Covering indexes are left out if parts
/// are read by their own order. Indexes are files, so a blocking thread reads them.
pub(super) async fn pick(
    files: &Files,
    snapshot: &Arc<Snapshot>,
    stream: &Name,
    (bounds, by_order): (&Bounds, bool),
) -> Result<Picked> {
    let is_indexed = |field: &String| may_be_indexed(snapshot, stream, field);
    if !bounds.values.iter().any(|(field, _)| is_indexed(field)) {
        return Ok(Picked::default());
    }
    let (files, bounds) = (files.clone(), bounds.clone());
    let (snapshot, stream) = (snapshot.clone(), stream.clone());
    let found =
        spawn_blocking(move || look_up(&files, &snapshot, &stream, (&bounds, by_order))).await;
    found.map_err(|stopped| DataFusionError::ExecutionJoin(Box::new(stopped)))
}

fn look_up(
    files: &Files,
    snapshot: &Snapshot,
    stream: &Name,
    (bounds, by_order): (&Bounds, bool),
) -> Picked {
    let mut picked = Picked::default();
    let (heads, hinted) = (&files.heads, files.indexes.as_ref());
    for (field, values) in &bounds.values {
        let is_allowed = hinted.is_none_or(|fields| fields.contains(field));
        if !is_allowed || !may_be_indexed(snapshot, stream, field) {
            continue;
        }
        let parts = snapshot.manifest().parts_of(stream);
        for part in parts.filter(|part| bounds.may_hold(part)) {
            let covering = (!by_order).then(|| heads.covering(snapshot, part, field));
            if let Some(covering) = covering.flatten() {
                picked.fields.insert(field.clone());
                picked.covering.insert(part.id, covering);
                continue;
            }
            let Some(rows) = heads.rows(snapshot, part, field, values) else {
                continue;
            };
            if hinted.is_none() && (rows.len() * SHARE) as u64 > part.rows {
                continue;
            }
            picked.fields.insert(field.clone());
            match picked.rows.get_mut(&part.id) {
                Some(known) => known.retain(|row| rows.binary_search(row).is_ok()),
                None => {
                    picked.rows.insert(part.id, rows);
                }
            }
        }
        if picked.fields.contains(field) {
            heads.used(snapshot.data_dir(), stream, field);
        }
    }
    picked
}

/// Returns the Parquet selection of these rows of a part.
pub(super) fn selection(rows: &[u32], part: &PartMeta) -> ParquetRowSelection {
    let runs = rows.chunk_by(|a, b| a + 1 == *b);
    let ranges = runs.map(|run| run[0] as usize..run[0] as usize + run.len());
    let all = usize::try_from(part.rows).expect("BUG: an index knows 2^32 rows at most");
    RowSelection::from_consecutive_ranges(ranges, all).into()
}

/// Cache of the heads of indexes, and the state of indexes that lasts longer than a query.
#[derive(Debug)]
pub(crate) struct Heads {
    /// Heads, each with the stream of its part.
    heads: ByteCache<IndexOfPart, (Name, Arc<PartIndex>)>,
    /// Time of the last use of each index, microseconds since 1970.
    used_us: Mutex<BTreeMap<(PathBuf, Name, String), i64>>,
    /// Indexes that are known to be damaged. Each is logged once.
    damaged: Mutex<HashSet<IndexOfPart>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct IndexOfPart {
    /// Data directory of the store.
    data: PathBuf,
    part: u64,
    column: String,
}

impl IndexOfPart {
    fn new(snapshot: &Snapshot, part: &PartMeta, column: &str) -> Self {
        Self {
            data: snapshot.data_dir().to_owned(),
            part: part.id,
            column: column.to_owned(),
        }
    }
}

impl Heads {
    /// Creates a cache of at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self {
            heads: ByteCache::new(bytes_max),
            used_us: Mutex::default(),
            damaged: Mutex::default(),
        }
    }

    /// Returns the rows of a part that may have one of these values; `None` if the part has to be
    /// scanned.
    fn rows(
        &self,
        snapshot: &Snapshot,
        part: &PartMeta,
        field: &str,
        values: &[IndexValue],
    ) -> Option<Vec<u32>> {
        let key = IndexOfPart::new(snapshot, part, field);
        let found = match self.heads.get(&key) {
            Some((_, head)) => Ok(Some(head)),
            None => PartIndex::open(snapshot, part, field).map(|head| {
                let head = Arc::new(head?);
                self.put(key.clone(), &part.stream, &head);
                Some(head)
            }),
        };
        let rows = found.and_then(|head| match head {
            Some(head) => head.rows(snapshot, values),
            None => Ok(None),
        });
        match rows {
            Ok(Some(IndexedRows::These(rows))) => Some(rows),
            Ok(Some(IndexedRows::Many)) => None,
            Ok(None) => {
                self.heads.remove(&key);
                None
            }
            Err(error) => {
                self.heads.remove(&key);
                self.note_damage(key, &error);
                None
            }
        }
    }

    /// Returns the covering index of a part; `None` if there is none, or if it is damaged.
    fn covering(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        part: &PartMeta,
        field: &str,
    ) -> Option<Covering> {
        let key = IndexOfPart::new(snapshot, part, field);
        match CoveringIndex::open(snapshot, part, field) {
            Ok(None) => {
                // An index that is created again is a new one, and is used.
                self.damaged.lock().remove(&key);
                None
            }
            Ok(Some(_)) if self.damaged.lock().contains(&key) => None,
            Ok(Some(index)) => Some(Covering {
                index,
                key,
                heads: Arc::clone(self),
            }),
            Err(error) => {
                self.note_damage(key, &error);
                None
            }
        }
    }

    fn note_damage(&self, key: IndexOfPart, error: &storage::Error) {
        if self.damaged.lock().insert(key) {
            tracing::warn!(%error, "an index is damaged; its part is scanned instead, answers stay correct; drop the index and create it again");
        }
    }

    fn put(&self, key: IndexOfPart, stream: &Name, head: &Arc<PartIndex>) {
        let bytes = head.memory_bytes() + size_of::<(IndexOfPart, Name, Arc<PartIndex>)>();
        let entry = (stream.clone(), Arc::clone(head));
        self.heads.put(key, entry, bytes as u64);
    }

    fn used(&self, data: &Path, stream: &Name, field: &str) {
        let now_us = SystemClock.now_us();
        let index = (data.to_owned(), stream.clone(), field.to_owned());
        self.used_us.lock().insert(index, now_us);
    }

    /// Returns the bytes of an index in memory, and the time of its last use.
    pub(crate) fn usage(&self, data: &Path, name: &IndexName) -> (u64, Option<i64>) {
        let bytes = self.heads.bytes(|index, (stream, _)| {
            index.data == data && index.column == name.field && *stream == name.stream
        });
        let index = (data.to_owned(), name.stream.clone(), name.field.clone());
        (bytes, self.used_us.lock().get(&index).copied())
    }
}
