//! Reads ranges of files of the manifest, and checks the blocks around them.
//!
//! # Invariants
//! * No byte is returned before the checksum of its block was compared with the manifest's.
//! * A compared block is trusted as long as its [`CheckedFile`] lives: for one query.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use crate::depot::{self, FetchedRuns};
use crate::env::{FsFile, IoContext};
use crate::error::{Error, Result};
use crate::file::FileRef;
use crate::snapshot::Snapshot;

/// Number of blocks kept from one call to the next. A range of a row group often begins in the
/// block in which the range before ends, and the footer of a small part is in a block with data.
const KEPT_BLOCKS: usize = 4;

/// A file of a snapshot, read range by range.
#[derive(Debug)]
pub struct CheckedFile {
    /// The snapshot keeps the file on disk.
    snapshot: Snapshot,
    file: FileRef,
    path: PathBuf,
    kept: VecDeque<(u64, Bytes)>,
    bytes_read: u64,
    /// The open file, if the caller holds one; otherwise each call opens it.
    held: Option<Arc<dyn FsFile>>,
}

impl CheckedFile {
    pub(crate) fn new(snapshot: Snapshot, file: FileRef) -> Self {
        Self {
            path: snapshot.data.join(&file.path),
            snapshot,
            file,
            kept: VecDeque::new(),
            bytes_read: 0,
            held: None,
        }
    }

    /// Reads from `file`, which is open already: its name may be removed meanwhile.
    pub(crate) fn held(self, file: Arc<dyn FsFile>) -> Self {
        Self {
            held: Some(file),
            ..self
        }
    }

    /// Returns the file's length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.file.len
    }

    /// Returns whether reads come from this machine, and not from an object store.
    pub fn is_local(&self) -> bool {
        let is_kept = || self.snapshot.fs.exists(&self.path);
        self.held.is_some() || self.snapshot.depot.is_none() || is_kept()
    }

    /// Returns the number of bytes read from the disk so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Returns the bytes of each range, in the order of `ranges`. Every block that a range
    /// touches is read once and its checksum compared.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the offset of the block whose checksum differs.
    pub fn read_ranges(&mut self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let read = self.read_checked(ranges);
        match (&read, self.snapshot.depot.clone()) {
            // A cache of the object store may be damaged.
            (Err(Error::Corrupt { .. }), Some(depot)) if !self.snapshot.fs.exists(&self.path) => {
                depot.forget(&self.file.path);
                self.read_checked(ranges)
            }
            _ => read,
        }
    }

    fn read_checked(&mut self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if let Some(range) = ranges.iter().find(|r| r.end > self.file.len) {
            return Err(self.corrupt(
                self.file.len,
                format!(
                    "a read of bytes {range:?} exceeds the file's {} bytes",
                    self.file.len
                ),
            ));
        }
        let runs = runs(ranges, self.file.block_len());
        let mut source = self.held.clone();
        let mut read = Vec::new();
        for run in runs.clone() {
            let start = run.start * self.file.block_len();
            read.push((start, self.read_run(run, (&mut source, &runs))?));
        }
        Ok(ranges.iter().map(|range| piece(&read, range)).collect())
    }

    /// Returns the bytes of neighbouring blocks. `source` is opened when the first block is read
    /// for which it is needed; it has all runs then.
    fn read_run(&mut self, run: Range<u64>, source: SourceOf<'_>) -> Result<Bytes> {
        let (open, runs) = source;
        let blocks = usize::try_from(run.end - run.start).expect("BUG: blocks fit into memory");
        if blocks == 1
            && let Some(known) = self.cached(run.start)
        {
            return Ok(known);
        }
        let block_len = self.file.block_len();
        let end = self.file.len.min(run.end * block_len);
        let length = |bytes: u64| usize::try_from(bytes).expect("BUG: a run fits into memory");
        let mut bytes = vec![0; length(end - run.start * block_len)];
        for (block, into) in (run.start..).zip(bytes.chunks_mut(length(block_len))) {
            match self.cached(block) {
                Some(known) => into.copy_from_slice(&known),
                None => self.read_block(block, into, (&mut *open, runs))?,
            }
        }
        let bytes = Bytes::from(bytes);
        // Blocks of a long run are not kept: each is a slice that holds the whole run in memory.
        if blocks <= KEPT_BLOCKS {
            for (block, offset) in run.zip((0..bytes.len()).step_by(length(block_len))) {
                let end = bytes.len().min(offset + length(block_len));
                self.keep(block, bytes.slice(offset..end));
            }
        }
        Ok(bytes)
    }

    fn read_block(&mut self, block: u64, into: &mut [u8], source: SourceOf<'_>) -> Result<()> {
        let (open, runs) = source;
        let file = match open {
            Some(file) => file,
            None => open.insert(self.open(runs)?),
        };
        let offset = block * self.file.block_len();
        file.read_exact_at(into, offset).at("read", &self.path)?;
        self.bytes_read += into.len() as u64;
        if crc32c::crc32c(into) != self.file.block_crc(block) {
            return Err(self.corrupt(offset, "checksum differs from the manifest's".into()));
        }
        Ok(())
    }

    /// Opens the file, or fetches the runs from the object store when it is not on the disk.
    fn open(&self, runs: &[Range<u64>]) -> Result<Arc<dyn FsFile>> {
        let opened = self
            .snapshot
            .fs
            .open_read(&self.path)
            .at("open", &self.path);
        let file = match (opened, &self.snapshot.depot) {
            (Err(error), Some(depot)) if error.is_absent() => {
                let block_len = self.file.block_len();
                let bytes = |run: &Range<u64>| {
                    run.start * block_len..self.file.len.min(run.end * block_len)
                };
                let runs = runs.iter().map(bytes).collect();
                let name = &self.file.path;
                let fetched = FetchedRuns::fetch(&**depot, name, runs);
                let fetched = fetched.map_err(|e| depot::failed(&**depot, "get", name, e))?;
                return Ok(Arc::new(fetched));
            }
            (opened, _) => opened?,
        };
        let found = file.len().at("measure", &self.path)?;
        self.file.compare_len(&self.path, found)?;
        Ok(file.into())
    }

    fn cached(&self, block: u64) -> Option<Bytes> {
        let found = self.kept.iter().find(|(number, _)| *number == block);
        found.map(|(_, bytes)| bytes.clone())
    }

    fn keep(&mut self, block: u64, bytes: Bytes) {
        self.kept.retain(|(number, _)| *number != block);
        self.kept.push_back((block, bytes));
        if self.kept.len() > KEPT_BLOCKS {
            self.kept.pop_front();
        }
    }

    fn corrupt(&self, offset: u64, what: String) -> Error {
        Error::Corrupt {
            path: self.path.clone(),
            offset,
            what,
        }
    }
}

/// The file from which blocks are read once it is open, and all runs of blocks of a call.
type SourceOf<'a> = (&'a mut Option<Arc<dyn FsFile>>, &'a [Range<u64>]);

/// Returns the blocks that hold the ranges, neighbours joined, in the order of the file.
fn runs(ranges: &[Range<u64>], block_len: u64) -> Vec<Range<u64>> {
    let mut blocks: Vec<Range<u64>> = ranges
        .iter()
        .filter(|r| !r.is_empty())
        .map(|r| r.start / block_len..r.end.div_ceil(block_len))
        .collect();
    blocks.sort_unstable_by_key(|r| r.start);
    let mut runs: Vec<Range<u64>> = Vec::new();
    for next in blocks {
        match runs.last_mut() {
            Some(run) if next.start <= run.end => run.end = run.end.max(next.end),
            _ => runs.push(next),
        }
    }
    runs
}

/// Returns the bytes of a range from the runs that were read, each with its offset in the file.
fn piece(read: &[(u64, Bytes)], range: &Range<u64>) -> Bytes {
    if range.is_empty() {
        return Bytes::new();
    }
    let after = read.partition_point(|(start, _)| *start <= range.start);
    let (start, bytes) = &read[after - 1];
    let within = |offset: u64| usize::try_from(offset - start).expect("BUG: a run is in memory");
    bytes.slice(within(range.start)..within(range.end))
}

#[cfg(test)]
mod tests;
