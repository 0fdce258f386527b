//! The one way in which a file becomes part of the store, and the check when it is read back.

use std::path::Path;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::env::{Fs, IoContext};
use crate::error::{Error, Result};
use crate::seeded::{self, Bug};

/// Bytes of a block, the least that is read of a part: small beside a column of a row group, and
/// its checksum adds less than a ten-thousandth to the manifest.
pub(crate) const BLOCK_BYTES: usize = 256 * 1024;

/// A file as the manifest names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRef {
    /// Path relative to the data directory.
    pub path: String,
    /// Length in bytes.
    pub len: u64,
    /// crc32c of the whole file.
    pub crc: u32,
    /// crc32c of each block of 256 KiB. Empty when the file is one block, as it is when it is not
    /// longer, or was written before there were blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<u32>,
}

/// Writes a whole file so that, once its directory is synced, it is there or not there: temporary
/// name, write, sync, read back and compare, rename.
#[expect(clippy::disallowed_methods, reason = "the helper itself")]
pub(crate) fn write_durably(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> Result<u32> {
    let mut name = path.file_name().expect("BUG: a file has a name").to_owned();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    if fs.exists(&temporary) {
        fs.remove(&temporary).at("remove", &temporary)?;
    }
    let crc = crc32c::crc32c(bytes);
    let file = fs.create_new(&temporary).at("create", &temporary)?;
    let written = file
        .write_all_at(bytes, 0)
        .at("write", &temporary)
        .and_then(|()| {
            if !seeded::is(Bug::FileSyncSkipped) {
                file.sync_data().at("sync", &temporary)?;
            }
            drop(file);
            let back = fs.read(&temporary).at("read back", &temporary)?;
            if back.len() != bytes.len() || crc32c::crc32c(&back) != crc {
                return Err(Error::Corrupt {
                    path: temporary.clone(),
                    offset: 0,
                    what: "what was written does not read back".into(),
                });
            }
            fs.rename(&temporary, path).at("rename", &temporary)
        });
    if written.is_err() {
        // Nothing refers to it; a failure to remove it too changes nothing.
        let _ignored = fs.remove(&temporary);
    }
    written.map(|()| crc)
}

/// Makes a directory and makes its name durable in every parent up to `data`. That it is there
/// already says nothing: a process may have been killed before it synced the parents.
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
    /// Writes a file below `data` with [`write_durably`].
    pub(crate) fn write(fs: &dyn Fs, data: &Path, path: String, bytes: &[u8]) -> Result<Self> {
        let crc = write_durably(fs, &data.join(&path), bytes)?;
        let len = bytes.len() as u64;
        let blocks = if bytes.len() > BLOCK_BYTES {
            bytes.chunks(BLOCK_BYTES).map(crc32c::crc32c).collect()
        } else {
            Vec::new()
        };
        Ok(Self {
            path,
            len,
            crc,
            blocks,
        })
    }

    /// Bytes of each block but the last.
    pub(crate) fn block_len(&self) -> u64 {
        if self.blocks.is_empty() {
            self.len
        } else {
            BLOCK_BYTES as u64
        }
    }

    /// crc32c of a block.
    pub(crate) fn block_crc(&self, block: u64) -> u32 {
        if self.blocks.is_empty() {
            return self.crc;
        }
        let block = usize::try_from(block).expect("BUG: blocks are in memory");
        self.blocks[block]
    }

    /// Whether there are as many checksums as the length has blocks.
    pub(crate) fn blocks_fit(&self) -> bool {
        self.blocks.is_empty() || self.blocks.len() as u64 == self.len.div_ceil(BLOCK_BYTES as u64)
    }

    /// Compares the length that the file has.
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

    /// Gives the file a second name below `data`, or a copy where the disk cannot link. What an
    /// attempt that failed has left at that name goes.
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

    /// Reads the file through, piece by piece, and compares length and checksum.
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
