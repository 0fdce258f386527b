//! Which rows of which parts are to be looked at, as the indexes of storage say.
//!
//! # Invariants
//! * An index only leaves out what no filter would let pass: the filters stay above the scan, and a part
//!   whose index is missing or damaged is scanned. (The rows of a covering one are compared as they are read: the
//!   query that meets a damaged block fails and names it, the next one scans.)
//! * Heads of indexes are kept up to a bound; nothing is believed of one that is not of the very part.

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

/// Rows that more than one in so many of a part are asked for are found by a scan as quickly.
const SHARE: usize = 30;

/// What is to be looked at in the place of whole parts, by their numbers. Parts that are not named are to be
/// scanned.
#[derive(Debug, Default)]
pub(super) struct Picked {
    /// These rows of a part, ascending.
    rows: HashMap<u64, Vec<u32>>,
    /// The rows of a part in the order of a column that is asked for.
    covering: HashMap<u64, Covering>,
    /// The columns whose indexes say so.
    pub(super) fields: BTreeSet<String>,
}

/// A part that is looked at, or these rows of it, or all of them in another order.
pub(super) struct Candidate<'a> {
    pub(super) part: &'a PartMeta,
    pub(super) rows: Option<Vec<u32>>,
    pub(super) covering: Option<Covering>,
}

impl Candidate<'_> {
    /// How many rows that are at most.
    pub(super) fn rows(&self) -> u64 {
        let picked = self.rows.as_ref().map(|rows| rows.len() as u64);
        picked.unwrap_or(self.part.rows)
    }

    /// The file that is read.
    pub(super) fn file(&self) -> &FileRef {
        let covering = self.covering.as_ref().map(|covering| covering.index.file());
        covering.unwrap_or(&self.part.file)
    }
}

/// The covering index of a part.
#[derive(Debug, Clone)]
pub(super) struct Covering {
    index: CoveringIndex,
    key: Key,
    heads: Arc<Heads>,
}

impl Covering {
    pub(super) fn read(&self, snapshot: &Snapshot) -> CheckedFile {
        self.index.read(snapshot)
    }

    /// The column in whose order it is.
    pub(super) fn column(&self) -> &str {
        &self.key.2
    }

    /// It was read and is damaged: the part is scanned from now on.
    pub(super) fn is_damaged(&self, error: &storage::Error) {
        self.heads.tell(self.key.clone(), error);
    }
}

impl Picked {
    /// What is to be looked at of a part, when there is anything.
    pub(super) fn candidate<'a>(&mut self, part: &'a PartMeta) -> Option<Candidate<'a>> {
        let rows = self.rows.remove(&part.id);
        let covering = self.covering.remove(&part.id);
        let has_any = rows.as_ref().is_none_or(|rows| !rows.is_empty());
        // Places in the part are not those in another order of it.
        has_any.then_some(Candidate {
            part,
            covering: covering.filter(|_| rows.is_none()),
            rows,
        })
    }
}

/// Looks up what is asked for in the indexes that there are, the covering ones unless parts are read by their
/// own order. They are files, and read where files are.
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

/// A selection of these rows of a part.
pub(super) fn selection(rows: &[u32], part: &PartMeta) -> ParquetRowSelection {
    let runs = rows.chunk_by(|a, b| a + 1 == *b);
    let ranges = runs.map(|run| run[0] as usize..run[0] as usize + run.len());
    let all = usize::try_from(part.rows).expect("BUG: an index knows 2^32 rows at most");
    RowSelection::from_consecutive_ranges(ranges, all).into()
}

/// Heads of indexes in memory, the least recently used forgotten first.
#[derive(Debug)]
pub(crate) struct Heads {
    bytes_max: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    heads: HashMap<Key, Entry>,
    bytes: usize,
    tick: u64,
    /// When each index was of use last, microseconds since 1970.
    used_us: BTreeMap<(PathBuf, Name, String), i64>,
    /// Those that are known to be damaged: that is told once.
    told: HashSet<Key>,
}

/// A store, the number of a part in it, and a column.
type Key = (PathBuf, u64, String);

#[derive(Debug)]
struct Entry {
    stream: Name,
    head: Arc<PartIndex>,
    bytes: usize,
    used: u64,
}

impl Heads {
    /// Heads of at most `bytes_max` bytes together.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            inner: Mutex::default(),
        }
    }

    /// The rows of a part that have one of these values; `None` when it is to be scanned.
    fn rows(
        &self,
        snapshot: &Snapshot,
        part: &PartMeta,
        field: &str,
        values: &[IndexValue],
    ) -> Option<Vec<u32>> {
        let key = (snapshot.data_dir().to_owned(), part.id, field.to_owned());
        let found = match self.get(&key) {
            Some(head) => Ok(Some(head)),
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
                self.forget(&key);
                None
            }
            Err(error) => {
                self.forget(&key);
                self.tell(key, &error);
                None
            }
        }
    }

    /// The covering index of a part; `None` when there is none, or none that is sound.
    fn covering(
        self: &Arc<Self>,
        snapshot: &Snapshot,
        part: &PartMeta,
        field: &str,
    ) -> Option<Covering> {
        let key = (snapshot.data_dir().to_owned(), part.id, field.to_owned());
        match CoveringIndex::open(snapshot, part, field) {
            Ok(None) => {
                // What comes in its place is another one.
                self.inner.lock().told.remove(&key);
                None
            }
            Ok(Some(_)) if self.inner.lock().told.contains(&key) => None,
            Ok(Some(index)) => Some(Covering {
                index,
                key,
                heads: Arc::clone(self),
            }),
            Err(error) => {
                self.tell(key, &error);
                None
            }
        }
    }

    fn tell(&self, key: Key, error: &storage::Error) {
        if self.inner.lock().told.insert(key) {
            tracing::warn!(%error, "an index is damaged, and its part is scanned; drop the index and create it again");
        }
    }

    fn get(&self, key: &Key) -> Option<Arc<PartIndex>> {
        let mut inner = self.inner.lock();
        inner.tick += 1;
        let tick = inner.tick;
        let entry = inner.heads.get_mut(key)?;
        entry.used = tick;
        Some(entry.head.clone())
    }

    fn put(&self, key: Key, stream: &Name, head: &Arc<PartIndex>) {
        let mut inner = self.inner.lock();
        inner.tick += 1;
        let entry = Entry {
            stream: stream.clone(),
            head: head.clone(),
            bytes: head.memory_bytes() + size_of::<(Key, Entry)>(),
            used: inner.tick,
        };
        inner.bytes += entry.bytes;
        if let Some(old) = inner.heads.insert(key, entry) {
            inner.bytes -= old.bytes;
        }
        inner.make_room(self.bytes_max);
    }

    fn forget(&self, key: &Key) {
        let mut inner = self.inner.lock();
        if let Some(gone) = inner.heads.remove(key) {
            inner.bytes -= gone.bytes;
        }
    }

    fn used(&self, data: &Path, stream: &Name, field: &str) {
        let now_us = SystemClock.now_us();
        let mut inner = self.inner.lock();
        let index = (data.to_owned(), stream.clone(), field.to_owned());
        inner.used_us.insert(index, now_us);
    }

    /// Bytes in memory of an index, and when it was of use last.
    pub(crate) fn usage(&self, data: &Path, name: &IndexName) -> (u64, Option<i64>) {
        let inner = self.inner.lock();
        let of_it = inner.heads.iter().filter(|((store, _, field), entry)| {
            store == data && *field == name.field && entry.stream == name.stream
        });
        let bytes: usize = of_it.map(|(_, entry)| entry.bytes).sum();
        let index = (data.to_owned(), name.stream.clone(), name.field.clone());
        let used_us = inner.used_us.get(&index);
        (bytes as u64, used_us.copied())
    }
}

impl Inner {
    /// A quarter is forgotten at once, so that not every further head looks for the oldest.
    fn make_room(&mut self, bytes_max: usize) {
        if self.bytes <= bytes_max {
            return;
        }
        let mut ticks: Vec<(u64, usize)> = self.heads.values().map(|e| (e.used, e.bytes)).collect();
        ticks.sort_unstable();
        let (mut left, mut until) = (self.bytes, 0);
        for (used, bytes) in ticks {
            if left <= bytes_max / 4 * 3 {
                break;
            }
            (left, until) = (left - bytes, used);
        }
        self.heads.retain(|_, entry| entry.used > until);
        self.bytes = left;
    }
}
