//! Files whose large writes bypass the kernel's page cache.
//!
//! A journal is written once and read only after a crash. In an import of ten million lines, 58 %
//! of the kernel's time went into copying the journal to newly allocated pages of the cache.
//!
//! # Invariants
//! * The file has the same content as with plain writes. Whole blocks of a write go to the disk
//!   directly, and its ends within a block go through the cache, in the order of the file.
//! * A write returns when its data is in the file, and fails when any part of it failed. As any
//!   write it is durable after [`FsFile::sync_data`].
//! * Where the file system refuses direct writes, all writes go through the cache.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use parking_lot::Mutex;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{FsFile, RealFile};

/// Alignment of direct writes, in the file and in memory. No disk has larger sectors.
const BLOCK: usize = 4096;
/// Size from which on a write is worth the wait for the disk.
const LARGE: usize = 1 << 20;
/// Maximum bytes of one direct write.
const PIECE: usize = 4 << 20;

#[derive(Debug)]
pub(super) struct Uncached {
    file: RealFile,
    /// The file opened for direct writes; `None` where that is not possible.
    direct: Option<File>,
    /// Copy of a piece, at an address that is aligned for direct writes.
    buffer: Mutex<Vec<u8>>,
}

impl Uncached {
    /// Wraps the file at `path`, which is open as `file`.
    pub(super) fn of(file: RealFile, path: &Path) -> Self {
        let mut options = OpenOptions::new();
        options.write(true);
        let flags = i32::try_from(OFlags::DIRECT.bits()).unwrap_or(0);
        options.custom_flags(flags);
        Self {
            file,
            direct: options.open(path).ok().filter(|_| flags != 0),
            buffer: Mutex::default(),
        }
    }

    fn write_directly(&self, direct: &File, blocks: &[u8], mut offset: u64) -> io::Result<()> {
        let mut buffer = self.buffer.lock();
        buffer.resize(PIECE + BLOCK, 0);
        let aligned = buffer.as_ptr().align_offset(BLOCK);
        for piece in blocks.chunks(PIECE) {
            let copy = &mut buffer[aligned..aligned + piece.len()];
            copy.copy_from_slice(piece);
            let written = match direct.write_at(copy, offset) {
                Ok(written) => written,
                // The file system requires another alignment, or a signal came first.
                Err(e) if is_refused(&e) => 0,
                Err(e) => return Err(e),
            };
            if written < piece.len() {
                let rest = offset + written as u64;
                self.file.write_all_at(&piece[written..], rest)?;
            }
            offset += piece.len() as u64;
        }
        Ok(())
    }
}

fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted || Errno::from_io_error(error) == Some(Errno::INVAL)
}

impl FsFile for Uncached {
    fn write_all_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let Some(direct) = self.direct.as_ref().filter(|_| data.len() >= LARGE) else {
            return self.file.write_all_at(data, offset);
        };
        let within = usize::try_from(offset % BLOCK as u64).expect("BUG: less than a block");
        let (head, rest) = data.split_at((BLOCK - within) % BLOCK);
        let (blocks, tail) = rest.split_at(rest.len() - rest.len() % BLOCK);
        let blocks_at = offset + head.len() as u64;
        self.file.write_all_at(head, offset)?;
        self.write_directly(direct, blocks, blocks_at)?;
        let tail_at = blocks_at + blocks.len() as u64;
        self.file.write_all_at(tail, tail_at)
    }
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Random;

    /// Makes writes of all sizes at all offsets, with gaps and overlaps, and truncates and syncs
    /// between them. After each step a new reader finds the bytes of a model.
    #[test]
    fn a_file_holds_what_was_written_however_it_went_there() {
        let dir = tempfile::tempdir().expect("a directory");
        for seed in 0..6 {
            let mut random = Random::new(seed);
            let mut below = |end: usize| usize::try_from(random.below(end as u64)).expect("small");
            let path = dir.path().join(seed.to_string());
            let file = RealFile::create_new(&path, 0o600).expect("creates");
            let mut file = Uncached::of(file, &path);
            if seed == 0 {
                file.direct = None;
            }
            let mut model: Vec<u8> = Vec::new();
            for nth in 0..12 {
                let len = match below(4) {
                    0 => 1 + below(3 * BLOCK),
                    1 => LARGE - BLOCK + below(3 * BLOCK),
                    2 => LARGE + below(4) * BLOCK,
                    _ => 2 * PIECE - BLOCK + below(3 * BLOCK),
                };
                let at = match below(4) {
                    0 => model.len(),
                    1 => model.len().next_multiple_of(8),
                    2 => model.len().next_multiple_of(BLOCK),
                    _ => below(model.len() + BLOCK),
                };
                // Neighbouring bytes differ, and so do two writes to one offset.
                let data: Vec<u8> = (at..at + len).map(|i| (i % 251 + nth) as u8).collect();
                file.write_all_at(&data, at as u64).expect("writes");
                model.resize(model.len().max(at + len), 0);
                model[at..at + len].copy_from_slice(&data);
                match below(4) {
                    0 => file.sync_data().expect("syncs"),
                    1 => {
                        model.truncate(below(model.len() + 1));
                        file.set_len(model.len() as u64).expect("cuts");
                    }
                    _ => {}
                }
                let held = std::fs::read(&path).expect("reads");
                assert!(held == model, "seed {seed}, write {nth}");
            }
        }
    }
}
