//! What a reader sees: one manifest and the memtable that belongs to it, taken together.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::blocks::CheckedFile;
use crate::env::Fs;
use crate::error::Result;
use crate::file::FileRef;
use crate::manifest::{Manifest, StreamMeta};
use crate::memo::Memo;
use crate::memtable::{Chunk, Chunks};
use crate::model::Name;
use crate::resolutions::Settled;

/// A consistent view of the store at one moment. The files it names stay on disk while it lives.
///
/// # Invariants
/// Every event acknowledged before it was taken is in exactly one place: in a part and the tiles
/// (sequence below `manifest.sealed_seq`) or in a chunk (from there on).
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) data: PathBuf,
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) streams: Arc<BTreeMap<Name, StreamMeta>>,
    pub(crate) chunks: Chunks,
    pub(crate) next_seq: u64,
    /// The items of the quarantine that no longer wait.
    pub(crate) settled: Arc<Settled>,
    /// What readers keep for the snapshots to come.
    pub(crate) derived: Arc<Memo>,
    /// Keeps the files of `manifest` on disk.
    #[expect(
        dead_code,
        reason = "held so that the writer sees which versions are being read"
    )]
    pub(crate) pin: Arc<dyn Any + Send + Sync>,
}

impl Snapshot {
    /// What a manifest says is sealed, of a store that nobody has open.
    pub(crate) fn of_manifest(fs: Arc<dyn Fs>, data: &Path, manifest: Arc<Manifest>) -> Self {
        Self {
            data: data.into(),
            fs,
            streams: Arc::new(manifest.streams.clone()),
            chunks: Chunks::new(),
            next_seq: manifest.next_seq,
            settled: Arc::default(),
            derived: Arc::default(),
            manifest,
            pin: Arc::new(()),
        }
    }

    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        &self.data
    }

    /// What is in parts and tiles.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// Streams by name, with the columns that appeared since the last seal too.
    pub fn streams(&self) -> &BTreeMap<Name, StreamMeta> {
        &self.streams
    }

    /// The chunks of a stream, oldest first.
    pub fn chunks(&self, stream: &str) -> &[Arc<Chunk>] {
        self.chunks.get(stream).map_or(&[], Vec::as_slice)
    }

    /// Exclusive end of the sequence numbers seen here.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// The items of the quarantine that no longer wait. (A manifest alone does not tell: see
    /// [`crate::repair`], which has nothing to do with them.)
    pub fn settled(&self) -> &Settled {
        &self.settled
    }

    /// What readers of a rollup generation keep from one snapshot to the next, made by `make` the first
    /// time: snapshots of one open store share it.
    pub fn derived<T: Any + Send + Sync>(
        &self,
        generation: u32,
        make: impl FnOnce() -> T,
    ) -> Arc<T> {
        self.derived.get(generation, make)
    }

    /// Reads a file of this snapshot's manifest, checked against it.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] when it is not as it was written.
    pub fn read(&self, file: &FileRef) -> Result<Bytes> {
        file.read(&*self.fs, &self.data)
    }

    /// A file of this snapshot's manifest, to be read piece by piece and checked block by block.
    /// Nothing is opened yet.
    pub fn open(&self, file: &FileRef) -> CheckedFile {
        CheckedFile::new(self.clone(), file.clone())
    }
}
