//! Cache of open tile files, by path. Entries never become stale: a tile never changes, and its
//! name is never reused.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use aggregator::{Definition, TileFile};
use parking_lot::Mutex;
use storage::{FileRef, Snapshot};

use crate::error::{Error, Result};

/// LRU cache of open tile files.
#[derive(Debug)]
pub(crate) struct TileCache {
    bytes_max: u64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    files: HashMap<PathBuf, Entry>,
    bytes: u64,
    tick: u64,
}

#[derive(Debug)]
struct Entry {
    file: Arc<TileFile>,
    bytes: u64,
    used: u64,
}

impl TileCache {
    /// Creates a cache of at most `bytes_max` bytes. A single larger file is still kept.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            inner: Mutex::default(),
        }
    }

    /// Returns an open tile file, and the bytes that were read from the disk for it (0 when it
    /// was cached).
    pub(crate) fn open(
        &self,
        snapshot: &Snapshot,
        file: &FileRef,
        definition: &Arc<Definition>,
    ) -> Result<(Arc<TileFile>, u64)> {
        let path = snapshot.data_dir().join(&file.path);
        if let Some(known) = self.get(&path) {
            return Ok((known, 0));
        }
        // The read is outside the lock: two threads may both read the file, and the results are
        // equal.
        let bytes = snapshot.read(file)?;
        let opened =
            TileFile::open(definition.clone(), bytes).map_err(|e| corrupt(snapshot, file, &e))?;
        let opened = Arc::new(opened);
        self.put(path, opened.clone(), file.len);
        Ok((opened, file.len))
    }

    fn get(&self, path: &PathBuf) -> Option<Arc<TileFile>> {
        let mut inner = self.inner.lock();
        inner.tick += 1;
        let tick = inner.tick;
        let entry = inner.files.get_mut(path)?;
        entry.used = tick;
        // The entry may have grown: a tile builds its dictionaries and key lookups while it is
        // read.
        let (before, now) = (entry.bytes, entry.file.memory_bytes() as u64);
        entry.bytes = now;
        let file = entry.file.clone();
        inner.bytes = inner.bytes - before + now;
        inner.make_room(self.bytes_max);
        Some(file)
    }

    fn put(&self, path: PathBuf, file: Arc<TileFile>, bytes: u64) {
        let mut inner = self.inner.lock();
        inner.tick += 1;
        let used = inner.tick;
        inner.bytes += bytes;
        if let Some(old) = inner.files.insert(path, Entry { file, bytes, used }) {
            inner.bytes -= old.bytes;
        }
        inner.make_room(self.bytes_max);
    }
}

impl Inner {
    fn make_room(&mut self, bytes_max: u64) {
        while self.bytes > bytes_max && self.files.len() > 1 {
            let oldest = self
                .files
                .iter()
                .min_by_key(|(_, e)| e.used)
                .map(|(path, _)| path.clone());
            let gone = oldest
                .and_then(|path| self.files.remove(&path))
                .expect("BUG: a cache of two has an oldest");
            self.bytes -= gone.bytes;
        }
    }
}

/// Converts the error of a tile that cannot be decoded into a corruption error of the store.
pub(crate) fn corrupt(snapshot: &Snapshot, file: &FileRef, error: &aggregator::Error) -> Error {
    let offset = match error {
        aggregator::Error::Corrupt { offset, .. } => *offset,
        _ => 0,
    };
    storage::Error::Corrupt {
        path: snapshot.data_dir().join(&file.path),
        offset,
        what: error.to_string(),
    }
    .into()
}
