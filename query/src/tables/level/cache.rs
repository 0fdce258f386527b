//! Cache of open tile files, by path. Entries never become stale: a tile never changes, and its
//! name is never reused.

use std::path::PathBuf;
use std::sync::Arc;

use aggregator::{Definition, TileFile};
use storage::{FileRef, Snapshot};

use crate::error::{Error, Result};
use crate::tables::byte_cache::ByteCache;

/// Cache of open tile files.
#[derive(Debug)]
pub(crate) struct TileCache(ByteCache<PathBuf, Arc<TileFile>>);

impl TileCache {
    /// Creates a cache of at most `bytes_max` bytes. A single larger file is still kept.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self(ByteCache::new(bytes_max))
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
        self.0.put(path, opened.clone(), file.len);
        Ok((opened, file.len))
    }

    fn get(&self, path: &PathBuf) -> Option<Arc<TileFile>> {
        let file = self.0.get(path)?;
        // The entry may have grown: a tile builds its dictionaries and key lookups while it is
        // read.
        let bytes = file.memory_bytes() as u64;
        self.0.put(path.clone(), file.clone(), bytes);
        Some(file)
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
