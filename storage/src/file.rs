//! The only way in which a file becomes part of the store, and the check when it is read back.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::depot::{self, Depot};
use crate::env::{Fs, FsFile, IoContext};
use crate::error::{Error, Result};
use crate::seeded::{self, Bug};

/// Bytes of a block, the smallest unit that is read of a file. A query that reads ten rows of a
/// part reads one or two blocks of each column.
pub(crate) const BLOCK_BYTES: usize = 64 * 1024;
/// Number of blocks past which a file has longer ones, up to [`BLOCK_BYTES_MAX`]: the manifest
/// holds a checksum of each block.
const BLOCKS: usize = 512;
/// Bytes of a block of a large file, and of a file whose manifest does not state them. A checksum
/// adds less than a ten-thousandth of that to the manifest.
const BLOCK_BYTES_MAX: u64 = 256 * 1024;

/// A file as the manifest names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRef {
    /// Path relative to the data directory.
    pub path: String,
    /// Length in bytes.
    pub len: u64,
    /// crc32c of the whole file.
    pub crc: u32,
    /// crc32c of each block. Empty for a file of one block.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<u32>,
    /// Bytes of each block but the last.
    #[serde(default = "long_blocks", skip_serializing_if = "are_long")]
    pub block_bytes: u64,
}

fn long_blocks() -> u64 {
    BLOCK_BYTES_MAX
}

fn are_long(block_bytes: &u64) -> bool {
    *block_bytes == BLOCK_BYTES_MAX
}

/// A long file is synced each time this many bytes of it were written, so that a sync of another
/// file does not wait for all of it.
const SYNC_BYTES: u64 = 8 << 20;

/// Writes a file that is there as a whole or not at all: temporary name, write, sync, read back
/// and compare, rename. The name is durable once the caller has synced the directory.
pub(crate) fn write_durably(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> Result<u32> {
    let mut file = FileWriter::create(fs, path)?;
    file.put(bytes)?;
    Ok(file.finish(Naming::Replace)?.crc)
}

/// Writes a file durably under a temporary name that ends in `writer`: two writers that each take
/// the other for dead never write to one file. [`name_new`] gives it its name.
pub(crate) fn prepare_new<'a>(
    fs: &'a dyn Fs,
    path: &Path,
    bytes: &[u8],
    writer: u64,
) -> Result<FileWriter<'a>> {
    let mut file = FileWriter::create_as(fs, path, &format!(".{writer:x}.tmp"))?;
    file.put(bytes)?;
    file.complete()?;
    Ok(file)
}

/// Names a prepared file, at a path where there is no file yet.
///
/// # Errors
/// [`Error::Io`] of the kind `AlreadyExists` when there is a file; it stays as it is.
pub(crate) fn name_new(file: FileWriter<'_>) -> Result<()> {
    file.finish(Naming::New).map(|_| ())
}

/// As [`write_durably`], under a temporary name that ends in `writer`.
pub(crate) fn replace_durably(fs: &dyn Fs, path: &Path, bytes: &[u8], writer: u64) -> Result<()> {
    let mut file = FileWriter::create_as(fs, path, &format!(".{writer:x}.tmp"))?;
    file.put(bytes)?;
    file.finish(Naming::Replace).map(|_| ())
}

/// As [`replace_durably`], for a file that only its owner may read.
#[expect(clippy::disallowed_methods, reason = "the helper itself")]
pub(crate) fn replace_privately(fs: &dyn Fs, path: &Path, bytes: &[u8], writer: u64) -> Result<()> {
    let temporary = temporary(fs, path, &format!(".{writer:x}.tmp"))?;
    let file = fs.create_private(&temporary).at("create", &temporary)?;
    let mut file = FileWriter::of(fs, path, temporary, file);
    file.put(bytes)?;
    file.finish(Naming::Replace).map(|_| ())
}

/// Returns the temporary name of a file, at which there is nothing any more.
fn temporary(fs: &dyn Fs, path: &Path, ending: &str) -> Result<PathBuf> {
    let mut name = path.file_name().expect("BUG: a file has a name").to_owned();
    name.push(ending);
    let temporary = path.with_file_name(name);
    if fs.exists(&temporary) {
        fs.remove(&temporary).at("remove", &temporary)?;
    }
    Ok(temporary)
}

/// Handling of a file that is at the path already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Naming {
    /// The new file replaces it.
    Replace,
    /// The old file stays, and the new one is removed.
    New,
}

/// Length and checksums of a file, as in the manifest.
#[derive(Default)]
struct Sums {
    len: u64,
    crc: u32,
    blocks: Vec<u32>,
}

impl Sums {
    /// Returns the manifest's entry of the file at `path`. A long file gets fewer and longer
    /// blocks.
    fn file(self, path: String) -> FileRef {
        let Self {
            len,
            crc,
            mut blocks,
        } = self;
        let mut block_bytes = BLOCK_BYTES as u64;
        let long = FileRef::block_bytes_of(len);
        while block_bytes < long {
            blocks = in_pairs(&blocks, block_bytes, len);
            block_bytes *= 2;
        }
        if blocks.len() == 1 {
            blocks.clear();
        }
        if blocks.is_empty() {
            block_bytes = BLOCK_BYTES_MAX;
        }
        FileRef {
            path,
            len,
            crc,
            blocks,
            block_bytes,
        }
    }
}

/// A file that is written block by block as [`write_durably`] does; one block of it is in memory.
/// A file that is not finished is removed.
pub(crate) struct FileWriter<'a> {
    fs: &'a dyn Fs,
    path: PathBuf,
    temporary: PathBuf,
    file: Option<Box<dyn FsFile>>,
    sums: Sums,
    /// Bytes that are not written yet, less than a block.
    unwritten: Vec<u8>,
    /// The error of a failed write: callers that write through [`Write`] get its text only.
    failed: Option<Error>,
    is_complete: bool,
}

impl<'a> FileWriter<'a> {
    /// Creates a file that appears at `path` once it is finished.
    pub(crate) fn create(fs: &'a dyn Fs, path: &Path) -> Result<Self> {
        Self::create_as(fs, path, ".tmp")
    }

    #[expect(clippy::disallowed_methods, reason = "the helper itself")]
    fn create_as(fs: &'a dyn Fs, path: &Path, ending: &str) -> Result<Self> {
        let temporary = temporary(fs, path, ending)?;
        let file = fs.create_new(&temporary).at("create", &temporary)?;
        Ok(Self::of(fs, path, temporary, file))
    }

    fn of(fs: &'a dyn Fs, path: &Path, temporary: PathBuf, file: Box<dyn FsFile>) -> Self {
        Self {
            fs,
            path: path.into(),
            temporary,
            file: Some(file),
            sums: Sums::default(),
            unwritten: Vec::new(),
            failed: None,
            is_complete: false,
        }
    }

    /// Appends bytes.
    pub(crate) fn put(&mut self, mut bytes: &[u8]) -> Result<()> {
        while self.unwritten.len() + bytes.len() >= BLOCK_BYTES {
            let (block, more) = bytes.split_at(BLOCK_BYTES - self.unwritten.len());
            if self.unwritten.is_empty() {
                self.write_block(block)?;
            } else {
                self.unwritten.extend_from_slice(block);
                self.flush_unwritten()?;
            }
            bytes = more;
        }
        self.unwritten.extend_from_slice(bytes);
        Ok(())
    }

    fn flush_unwritten(&mut self) -> Result<()> {
        let mut rest = std::mem::take(&mut self.unwritten);
        self.write_block(&rest)?;
        rest.clear();
        self.unwritten = rest;
        Ok(())
    }

    /// Writes a whole block, or the last one.
    fn write_block(&mut self, block: &[u8]) -> Result<()> {
        let file = self.file.as_ref().expect("BUG: it is not finished");
        let (sums, temporary) = (&mut self.sums, &self.temporary);
        file.write_all_at(block, sums.len).at("write", temporary)?;
        sums.len += block.len() as u64;
        sums.crc = crc32c::crc32c_append(sums.crc, block);
        sums.blocks.push(crc32c::crc32c(block));
        if sums.len.is_multiple_of(SYNC_BYTES) {
            file.sync_data().at("sync", temporary)?;
        }
        Ok(())
    }

    /// Takes the error of the write that failed, if one has.
    pub(crate) fn failure(&mut self) -> Option<Error> {
        self.failed.take()
    }

    /// Makes the content durable under the temporary name; nothing can be added then. A disk that
    /// is full shows here.
    pub(crate) fn complete(&mut self) -> Result<()> {
        if self.is_complete {
            return Ok(());
        }
        if !self.unwritten.is_empty() || self.sums.len == 0 {
            self.flush_unwritten()?;
        }
        let file = self.file.as_ref().expect("BUG: it is not finished");
        if !seeded::is(Bug::FileSyncSkipped) {
            file.sync_data().at("sync", &self.temporary)?;
        }
        self.compare()?;
        self.is_complete = true;
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "the helper itself")]
    fn finish(mut self, naming: Naming) -> Result<Sums> {
        self.complete()?;
        let renamed = match naming {
            Naming::Replace => self.fs.rename(&self.temporary, &self.path),
            Naming::New => self.fs.rename_new(&self.temporary, &self.path),
        };
        renamed.at("rename", &self.temporary)?;
        self.file = None;
        Ok(std::mem::take(&mut self.sums))
    }

    /// Finishes the file and returns its entry for the manifest. `path` is relative to the data
    /// directory; a file that is there is replaced.
    pub(crate) fn finish_as(self, path: String) -> Result<FileRef> {
        self.finish_named(path, Naming::Replace)
    }

    /// As [`FileWriter::finish_as`], but a file that another writer has put there stays, which is
    /// an error.
    pub(crate) fn finish_new(self, path: String) -> Result<FileRef> {
        self.finish_named(path, Naming::New)
    }

    fn finish_named(self, path: String, naming: Naming) -> Result<FileRef> {
        Ok(self.finish(naming)?.file(path))
    }

    /// Reads the file back and compares its checksums.
    fn compare(&self) -> Result<()> {
        let temporary = &self.temporary;
        let file = self.fs.open_read(temporary).at("read back", temporary)?;
        let found = file.len().at("read back", temporary)?;
        let mut block = vec![0; BLOCK_BYTES];
        let (mut offset, mut same) = (0, found == self.sums.len);
        for crc in &self.sums.blocks {
            let left = usize::try_from(self.sums.len - offset).unwrap_or(usize::MAX);
            let block = &mut block[..BLOCK_BYTES.min(left)];
            if same {
                file.read_exact_at(block, offset)
                    .at("read back", temporary)?;
            }
            same &= crc32c::crc32c(block) == *crc;
            offset += block.len() as u64;
        }
        if same {
            return Ok(());
        }
        Err(Error::Corrupt {
            path: temporary.clone(),
            offset: 0,
            what: "the bytes read back differ from the bytes written".into(),
        })
    }
}

impl Write for FileWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.put(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                let reported = io::Error::other(error.to_string());
                self.failed = Some(error);
                Err(reported)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for FileWriter<'_> {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // No manifest names the file, so a failure to remove it has no consequence.
            let _ignored = self.fs.remove(&self.temporary);
        }
    }
}

/// Returns the checksums of blocks twice as long.
fn in_pairs(blocks: &[u32], block_bytes: u64, len: u64) -> Vec<u32> {
    let pairs = blocks.chunks(2).zip((0..).step_by(2));
    let one = |(pair, first): (&[u32], u64)| match pair {
        [left, right] => {
            let right_bytes = block_bytes.min(len - (first + 1) * block_bytes);
            let right_bytes = usize::try_from(right_bytes).expect("BUG: a block is in memory");
            crc32c::crc32c_combine(*left, *right, right_bytes)
        }
        alone => alone[0],
    };
    pairs.map(one).collect()
}

/// Creates a directory and makes its name durable in every parent up to `data`. The parents are
/// synced even when it exists: a process may have been killed before it synced them.
#[expect(clippy::disallowed_methods, reason = "the helper itself")]
pub(crate) fn create_dir_durably(fs: &dyn Fs, data: &Path, dir: &Path) -> Result<()> {
    fs.create_dir_all(dir).at("create directory", dir)?;
    let mut child = dir;
    while let Some(parent) = child.parent() {
        fs.sync_dir(parent).at("sync", parent)?;
        if parent == data || !parent.starts_with(data) {
            break;
        }
        child = parent;
    }
    Ok(())
}

impl FileRef {
    /// Returns the bytes of each block but the last, of a file of this length.
    #[must_use]
    pub fn block_bytes_of(len: u64) -> u64 {
        let mut block_bytes = BLOCK_BYTES as u64;
        while len.div_ceil(block_bytes) > BLOCKS as u64 && block_bytes < BLOCK_BYTES_MAX {
            block_bytes *= 2;
        }
        block_bytes
    }

    /// Writes a file below `data` as [`write_durably`] does, at a path that no file has ever had:
    /// an error when there is one.
    pub(crate) fn write_new(fs: &dyn Fs, data: &Path, path: String, bytes: &[u8]) -> Result<Self> {
        let mut file = FileWriter::create(fs, &data.join(&path))?;
        file.put(bytes)?;
        file.finish_new(path)
    }

    /// Computes the entry of a file from its content, when no manifest has one.
    pub(crate) fn of(path: String, bytes: &[u8]) -> Self {
        let sums = Sums {
            len: bytes.len() as u64,
            crc: crc32c::crc32c(bytes),
            blocks: bytes.chunks(BLOCK_BYTES).map(crc32c::crc32c).collect(),
        };
        sums.file(path)
    }

    /// Returns the bytes of each block but the last.
    pub(crate) fn block_len(&self) -> u64 {
        if self.blocks.is_empty() {
            self.len
        } else {
            self.block_bytes
        }
    }

    /// Returns the crc32c of a block.
    pub(crate) fn block_crc(&self, block: u64) -> u32 {
        if self.blocks.is_empty() {
            return self.crc;
        }
        let block = usize::try_from(block).expect("BUG: blocks are in memory");
        self.blocks[block]
    }

    /// Checks that there are as many checksums as blocks.
    pub(crate) fn blocks_fit(&self) -> bool {
        self.blocks.is_empty()
            || self.block_bytes > 0
                && self.blocks.len() as u64 == self.len.div_ceil(self.block_bytes)
    }

    /// Compares the length of the file on disk with the manifest's.
    pub(crate) fn compare_len(&self, path: &Path, found: u64) -> Result<()> {
        if found == self.len {
            return Ok(());
        }
        Err(Error::Corrupt {
            path: path.into(),
            offset: self.len.min(found),
            what: format!("{found} bytes long, the manifest says {}", self.len),
        })
    }

    /// Links the file to a second path below `data`, or copies it where the file system cannot
    /// link. A file that a failed attempt has left at that path is removed first.
    pub(crate) fn link(&self, fs: &dyn Fs, data: &Path, to: String) -> Result<Self> {
        let (from, target) = (data.join(&self.path), data.join(&to));
        if fs.exists(&target) {
            fs.remove(&target).at("remove", &target)?;
        }
        if fs.link(&from, &target).is_err() {
            write_durably(fs, &target, &self.read(fs, data)?)?;
        }
        Ok(Self {
            path: to,
            ..self.clone()
        })
    }

    /// Reads the whole file piece by piece, and compares length and checksum.
    pub(crate) fn verify(&self, fs: &dyn Fs, data: &Path) -> Result<()> {
        let path = data.join(&self.path);
        let file = fs.open_read(&path).at("open", &path)?;
        self.compare_len(&path, file.len().at("read", &path)?)?;
        let (mut at, mut crc) = (0, 0);
        let mut piece = vec![0; BLOCK_BYTES];
        while at < self.len {
            let left = usize::try_from(self.len - at).unwrap_or(usize::MAX);
            piece.truncate(left);
            file.read_exact_at(&mut piece, at).at("read", &path)?;
            crc = crc32c::crc32c_append(crc, &piece);
            at += piece.len() as u64;
        }
        self.compare_crc(&path, crc)
    }

    fn compare_crc(&self, path: &Path, found: u32) -> Result<()> {
        if found == self.crc {
            return Ok(());
        }
        Err(Error::Corrupt {
            path: path.into(),
            offset: 0,
            what: "checksum differs from the manifest's".into(),
        })
    }

    /// Reads the file from an object store, as [`FileRef::read`] does from the disk.
    pub(crate) fn fetch(&self, depot: &dyn Depot) -> Result<Bytes> {
        let path = PathBuf::from(format!("{}/{}", depot.url(), self.path));
        let fetch = || {
            let whole = std::iter::once(0..self.len).collect::<Vec<_>>();
            let read = depot.get(&self.path, &whole);
            let read = read.map_err(|e| depot::failed(depot, "get", &self.path, e))?;
            let bytes = read.into_iter().next().unwrap_or_default();
            self.compare_len(&path, bytes.len() as u64)?;
            self.compare_crc(&path, crc32c::crc32c(&bytes))?;
            Ok(bytes)
        };
        match fetch() {
            // A cache may be damaged.
            Err(Error::Corrupt { .. }) => {
                depot.forget(&self.path);
                fetch()
            }
            fetched => fetched,
        }
    }

    /// Reads the file and compares length and checksum.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when they differ from the manifest's.
    pub fn read(&self, fs: &dyn Fs, data: &Path) -> Result<Bytes> {
        let path = data.join(&self.path);
        let bytes = fs.read(&path).at("read", &path)?;
        self.compare_len(&path, bytes.len() as u64)?;
        self.compare_crc(&path, crc32c::crc32c(&bytes))?;
        Ok(bytes.into())
    }
}
