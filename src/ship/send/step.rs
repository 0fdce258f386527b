//! Cuts the next batch of a file.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use ingest::{LINE_BYTES_MAX, LineBlocks, SourceBlock};
use xxhash_rust::xxh3::Xxh3Default;

use crate::failure::Result;
use crate::ship::follow::{Guard, ShipPosition};
use crate::ship::seeded::{self, ShipBug};
use crate::source_id::ReadAt;

/// Some lines behind a position.
pub(crate) struct NextLines {
    pub(crate) block: SourceBlock,
    /// The block without the end of a line that was taken before.
    pub(crate) from: usize,
    /// The position behind it, once it is taken.
    pub(crate) after: ShipPosition,
}

impl NextLines {
    pub(crate) fn body(&self) -> &[u8] {
        &self.block.bytes[self.from..]
    }

    /// Returns whether it is one line, which cannot be sent in pieces.
    pub(crate) fn is_line(&self) -> bool {
        memchr::memchr(b'\n', self.body()).is_none_or(|end| end + 1 == self.body().len())
    }
}

/// Reads whole lines of about `limit` bytes; the last piece of a file that is complete counts as
/// one. `None` when there is none.
///
/// # Errors
/// Errors of reading the file.
pub(crate) fn cut(
    file: &Arc<File>,
    position: &ShipPosition,
    limit: usize,
    is_complete: bool,
) -> Result<Option<NextLines>> {
    let content = ReadAt::new(Arc::clone(file), position.at);
    let mut blocks = LineBlocks::new(content)
        .with_limits(limit, LINE_BYTES_MAX)
        .starting_at(position.lines + 1, position.at)
        .hashing(position.hasher.clone());
    let Some(block) = blocks.next_block()?.filter(|block| !block.is_blank()) else {
        return Ok(None);
    };
    // The rest of a very long line may not be written yet.
    let is_line = match block.too_long {
        true => has_line_end(file, block.end_byte)?,
        false => block.is_whole(),
    };
    if !is_line && !is_complete && !seeded::is(ShipBug::PieceIsLine) {
        return Ok(None);
    }
    let from = match position.mid_line {
        true => line_end(&block.bytes),
        false => 0,
    };
    if from == block.bytes.len() {
        return Ok(None);
    }
    let mut hasher = position.hasher.clone();
    match block.too_long {
        true => {
            let content = ReadAt::new(Arc::clone(file), position.at);
            hash_into(&mut hasher, content.take(block.end_byte - position.at))?;
        }
        false => hasher.update(&block.bytes),
    }
    let lines = memchr::memchr_iter(b'\n', &block.bytes).count() as u64;
    let guard: Guard = position.guard.after(file, &block)?;
    let after = ShipPosition {
        at: block.end_byte,
        format: position.format.behind(&block),
        lines: position.lines + if block.too_long { 1 } else { lines },
        mid_line: !is_line,
        hasher,
        guard,
        is_unsent: false,
        ..position.clone()
    };
    Ok(Some(NextLines { block, from, after }))
}

/// Returns the length of the line end at the beginning.
pub(crate) fn line_end(bytes: &[u8]) -> usize {
    match bytes {
        [b'\n', ..] => 1,
        [b'\r', b'\n', ..] => 2,
        _ => 0,
    }
}

fn has_line_end(file: &File, end: u64) -> Result<bool> {
    let mut last = [0];
    file.read_exact_at(&mut last, end - 1)?;
    Ok(last == *b"\n")
}

/// Adds a content to a hash.
pub(crate) fn hash_into(hasher: &mut Xxh3Default, mut content: impl Read) -> std::io::Result<()> {
    let mut buffer = vec![0; 128 << 10];
    loop {
        match content.read(&mut buffer)? {
            0 => return Ok(()),
            read => hasher.update(&buffer[..read]),
        }
    }
}
