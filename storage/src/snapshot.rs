//! The snapshot that a reader uses: one manifest and its memtable, taken together.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::blocks::CheckedFile;
use crate::depot::Depot;
use crate::env::Fs;
use crate::error::Result;
use crate::file::FileRef;
use crate::manifest::{Manifest, StreamMeta};
use crate::memo::Memo;
use crate::memtable::{Chunk, Chunks};
use crate::model::Name;
use crate::resolutions::Settled;

/// The streams of a snapshot, shared.
pub(crate) type Streams = Arc<BTreeMap<Name, StreamMeta>>;

/// A consistent view of the store at one moment. The files it lists stay on disk while it lives.
///
/// # Invariants
/// Every event that was acknowledged before the snapshot was taken is in exactly one place: in a
/// part and the tiles (sequence number below `manifest.sealed_seq`) or in a chunk (from there
/// on).
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) data: PathBuf,
    pub(crate) fs: Arc<dyn Fs>,
    /// The object store with the files that are not in the data directory.
    pub(crate) depot: Option<Arc<dyn Depot>>,
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) streams: Streams,
    pub(crate) chunks: Chunks,
    pub(crate) next_seq: u64,
    /// Quarantined items that are resolved.
    pub(crate) settled: Arc<Settled>,
    /// Values that readers keep for later snapshots.
    pub(crate) derived: Arc<Memo>,
    /// Keeps the files of `manifest` on disk.
    #[expect(
        dead_code,
        reason = "held so that the writer sees which versions are being read"
    )]
    pub(crate) pin: Arc<dyn Any + Send + Sync>,
}

impl Snapshot {
    /// Returns the sealed data of a manifest as a snapshot, for a store that no process has open.
    pub(crate) fn of_manifest(fs: Arc<dyn Fs>, data: &Path, manifest: Arc<Manifest>) -> Self {
        Self {
            data: data.into(),
            fs,
            depot: None,
            streams: Arc::new(manifest.streams.clone()),
            chunks: Chunks::new(),
            next_seq: manifest.next_seq,
            settled: Arc::default(),
            derived: Arc::default(),
            manifest,
            pin: Arc::new(()),
        }
    }

    /// Returns the data directory.
    pub fn data_dir(&self) -> &Path {
        &self.data
    }

    /// Returns the manifest, which lists parts and tiles.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// Returns the streams by name, including columns that appeared since the last seal.
    pub fn streams(&self) -> &BTreeMap<Name, StreamMeta> {
        &self.streams
    }

    /// Returns the chunks of a stream, oldest first.
    pub fn chunks(&self, stream: &str) -> &[Arc<Chunk>] {
        self.chunks.get(stream).map_or(&[], Vec::as_slice)
    }

    /// Returns the exclusive end of the sequence numbers in this snapshot.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Returns the quarantined items that are resolved. (The set is empty in a snapshot of a
    /// manifest alone: [`crate::repair`] uses such a snapshot and does not need it.)
    pub fn settled(&self) -> &Settled {
        &self.settled
    }

    /// Returns a value that readers of a rollup generation keep from one snapshot to the next;
    /// `make` computes it the first time. Snapshots of one open store share it.
    pub fn derived<T: Any + Send + Sync>(
        &self,
        generation: u32,
        make: impl FnOnce() -> T,
    ) -> Arc<T> {
        self.derived.get(generation, make)
    }

    /// Reads a file of this snapshot's manifest and verifies its checksum.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] when the file is not as it was written.
    pub fn read(&self, file: &FileRef) -> Result<Bytes> {
        match (file.read(&*self.fs, &self.data), &self.depot) {
            (Err(error), Some(depot)) if error.is_absent() => file.fetch(&**depot),
            (read, _) => read,
        }
    }

    /// Returns a file of this snapshot's manifest, to be read in pieces that are verified block
    /// by block. It is not opened yet.
    pub fn open(&self, file: &FileRef) -> CheckedFile {
        CheckedFile::new(self.clone(), file.clone())
    }
}
