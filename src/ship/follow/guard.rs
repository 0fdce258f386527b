//! The proof that an open file still is the content that was read from it.
//!
//! A file that is copied and cut off keeps its inode, and may be longer than before when it is
//! looked at next. Its length says nothing then. The guard remembers some bytes at the beginning
//! and before the place that reading has reached. A file that does not have them any more holds
//! other content. The beginning is remembered before the first byte is taken: a producer has its
//! name from it, and no other content may come under that name.

use std::fs::File;
use std::os::unix::fs::FileExt;

use ingest::SourceBlock;

use crate::ship::seeded::{self, ShipBug};

/// Bytes remembered of the beginning.
const HEAD_BYTES: usize = 1024;
/// Bytes remembered before the place that was reached.
const TAIL_BYTES: usize = 256;

/// Remembered bytes of a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guard {
    head: Vec<u8>,
    tail: Vec<u8>,
    /// The place that was reached, in bytes.
    at: u64,
}

impl Guard {
    /// Reads the bytes around a place that was reached before; the file begins with `head`.
    pub(crate) fn read(file: &File, head: &[u8], at: u64) -> std::io::Result<Self> {
        let tail_bytes = at.min(TAIL_BYTES as u64);
        Ok(Self {
            head: head[..head.len().min(HEAD_BYTES)].to_vec(),
            tail: bytes_at(file, at - tail_bytes, tail_bytes)?,
            at,
        })
    }

    /// Returns the guard of the place behind a block that was read at this one.
    ///
    /// # Errors
    /// Errors of reading the end of a line that is too long to be in its block.
    pub(crate) fn after(&self, file: &File, block: &SourceBlock) -> std::io::Result<Self> {
        let mut after = self.clone();
        after.at = block.end_byte;
        let known = after.head.len() as u64;
        let begins = usize::try_from(known.saturating_sub(self.at)).unwrap_or(HEAD_BYTES);
        if let Some(unknown) = block.bytes.get(begins..) {
            let missing = HEAD_BYTES - after.head.len();
            after
                .head
                .extend_from_slice(&unknown[..unknown.len().min(missing)]);
        }
        if block.too_long {
            after.tail = bytes_at(file, after.at - TAIL_BYTES as u64, TAIL_BYTES as u64)?;
            return Ok(after);
        }
        let kept = TAIL_BYTES.saturating_sub(block.bytes.len());
        let kept = after.tail.len().saturating_sub(kept);
        after.tail.drain(..kept);
        let new = block.bytes.len().saturating_sub(TAIL_BYTES);
        after.tail.extend_from_slice(&block.bytes[new..]);
        Ok(after)
    }

    /// Returns whether the file still has the remembered bytes.
    pub(crate) fn fits(&self, file: &File) -> bool {
        if seeded::is(ShipBug::GuardFits) {
            return file.metadata().is_ok_and(|m| m.len() >= self.at);
        }
        let tail_at = self.at - self.tail.len() as u64;
        has(file, &self.head, 0) && has(file, &self.tail, tail_at)
    }

    /// Returns whether another content may begin as the remembered one does.
    pub(crate) fn may_begin(&self, head: &[u8]) -> bool {
        let shared = self.head.len().min(head.len());
        self.head[..shared] == head[..shared]
    }
}

fn has(file: &File, bytes: &[u8], at: u64) -> bool {
    let mut found = vec![0; bytes.len()];
    file.read_exact_at(&mut found, at).is_ok() && found == bytes
}

fn bytes_at(file: &File, at: u64, length: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(HEAD_BYTES)];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ingest::LineBlocks;

    use super::*;
    use crate::source_id::ReadAt;

    #[test]
    fn a_file_cut_off_and_grown_beyond_its_old_length_does_not_fit() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("log");
        for lines in [1, 2, 40, 400] {
            let text = |name: &str| {
                (0..lines)
                    .map(|i| format!("{name} {i}\n"))
                    .collect::<String>()
            };
            std::fs::write(&path, text("one")).expect("a file");
            let file = Arc::new(File::open(&path).expect("a file"));
            let head = bytes_at(&file, 0, 10.min(text("one").len() as u64)).expect("a head");
            let mut guard = Guard::read(&file, &head[..lines % 10], 0).expect("a guard");
            let content = ReadAt::new(Arc::clone(&file), 0);
            for block in LineBlocks::new(content).with_limits(100, 1 << 20) {
                guard = guard
                    .after(&file, &block.expect("a block"))
                    .expect("a guard");
                assert!(guard.fits(&file));
                let reached = usize::try_from(guard.at).expect("a length");
                let head = &text("one").into_bytes()[..reached.max(lines % 10).min(HEAD_BYTES)];
                let read = Guard::read(&file, head, guard.at).expect("a guard");
                assert_eq!((&read.head, &read.tail), (&guard.head, &guard.tail));
            }
            std::fs::write(&path, format!("{}more\n", text("one"))).expect("a file");
            assert!(guard.fits(&file), "it only grew");
            std::fs::write(&path, format!("{}more\n", text("two"))).expect("a file");
            assert!(!guard.fits(&file));
            std::fs::write(&path, "").expect("a file");
            assert!(!guard.fits(&file));
        }
    }
}
