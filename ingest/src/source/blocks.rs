//! Cuts a stream of bytes into blocks of whole lines.
//!
//! A block ends after an LF, or at the end of the source. A line that is longer than a block makes
//! its block grow, up to a limit; of a longer line only the beginning is kept, in a block of its
//! own that has the length of the line, so that the parser can quarantine it as `line_too_long` and
//! the source goes on behind it. Memory is therefore bounded by the two limits, whatever the
//! source.
//!
//! JSON values that are not one to a line (`source/values.rs`) are cut between values in the same
//! way, and lines that a rule (`source/multiline.rs`) makes records, between records.
//!
//! Positions count decompressed bytes and, from 1, lines. Blocks lie side by side:
//! each begins where the one before ended.

use std::io::Read;

use xxhash_rust::xxh3::Xxh3Default;

use super::multiline::Multiline;
use super::values::{JsonValues, Nesting};
use crate::error::{Error, Result};

/// Bytes of a block by default: large enough that its batch of columns compresses well, small
/// enough that a few of them are under way at once in little memory.
pub const BLOCK_BYTES: usize = 4 << 20;
/// The longest line by default, in bytes. The issue asks for lines of 1 MiB; 16 MiB is also the
/// largest document of MongoDB.
pub const LINE_BYTES_MAX: usize = 16 << 20;

/// Maximum number of lines of a block: the rows of a line take some hundred bytes, however
/// short it is.
const LINES_MAX: usize = 1 << 16;

/// Some lines of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceBlock {
    /// The lines with their ends; only the last of a source may lack its LF.
    pub bytes: Vec<u8>,
    /// The number of the first line, from 1.
    pub first_line: u64,
    /// The byte at which the first line begins, from 0.
    pub first_byte: u64,
    /// The byte after the last line and its end.
    pub end_byte: u64,
    /// xxh3-64 of all the source's content before `end_byte`.
    pub content: u64,
    /// The block is one line longer than the limit; `bytes` is its beginning.
    pub too_long: bool,
    /// The block holds JSON values that are not one to a line.
    pub values: bool,
    /// The last line or value ended before the source did. The bytes alone do not tell: of the
    /// values `1, 2` the first may be the last of its block, and its comma is not.
    pub ended: bool,
    /// By a rule, lines that come later may belong to the last record: the source ended with it.
    pub may_go_on: bool,
}

impl SourceBlock {
    /// Returns whether the block holds no line or value.
    pub fn is_blank(&self) -> bool {
        match self.values {
            true => JsonValues::new(&self.bytes, self.first_byte)
                .next()
                .is_none(),
            false => self.bytes.is_empty(),
        }
    }

    /// Returns whether the block ends with a whole line or value, and not where the source did. Of
    /// a block that is too long only the beginning is there, whatever follows.
    pub fn is_whole(&self) -> bool {
        self.too_long || self.ended || self.is_blank()
    }
}

/// Reads a source block by block.
pub struct LineBlocks<R> {
    source: R,
    block_bytes: usize,
    line_max: usize,
    /// Bytes that were read and are in no block yet.
    buffer: Vec<u8>,
    /// No LF lies before this place of the buffer.
    searched: usize,
    line: u64,
    byte: u64,
    ended: bool,
    failure: Option<std::io::Error>,
    /// Hash of all bytes that are in blocks or were passed over.
    hasher: Xxh3Default,
    /// Cut between JSON values instead of lines.
    values: bool,
    /// Cut between records instead of lines.
    multiline: Option<Multiline>,
}

impl<R: Read> LineBlocks<R> {
    /// Makes blocks of about [`BLOCK_BYTES`], of lines of at most [`LINE_BYTES_MAX`].
    pub fn new(source: R) -> Self {
        Self {
            source,
            block_bytes: BLOCK_BYTES,
            line_max: LINE_BYTES_MAX,
            buffer: Vec::new(),
            searched: 0,
            line: 1,
            byte: 0,
            ended: false,
            failure: None,
            hasher: Xxh3Default::new(),
            values: false,
            multiline: None,
        }
    }

    /// Sets the size of a block and the longest line without its LF, in bytes and at least 1. A
    /// block is not made larger than the longest line, so that no block hides a longer one.
    #[must_use]
    pub fn with_limits(mut self, block_bytes: usize, line_max: usize) -> Self {
        self.line_max = line_max.max(1);
        self.block_bytes = block_bytes.clamp(1, self.line_max);
        self
    }

    /// Sets the position of the source: the line (from 1) and the byte of its next byte.
    #[must_use]
    pub fn starting_at(mut self, line: u64, byte: u64) -> Self {
        self.line = line;
        self.byte = byte;
        self
    }

    /// Continues the hash of the content before the source's next byte.
    #[must_use]
    pub fn hashing(mut self, hasher: Xxh3Default) -> Self {
        self.hasher = hasher;
        self
    }

    /// Cuts between JSON values that are not one to a line. The longest line is the longest value
    /// then.
    #[must_use]
    pub fn of_values(mut self, values: bool) -> Self {
        self.values = values;
        self
    }

    /// Cuts between the records that a rule makes of lines.
    #[must_use]
    pub fn of_records(mut self, rule: Option<Multiline>) -> Self {
        self.multiline = rule;
        self
    }

    /// Returns the next block, `None` at the end.
    ///
    /// # Errors
    /// [`Error::Read`] when the source breaks off. Whole lines that were read before it did are
    /// returned first; an unfinished line is not, for its rest may still exist.
    pub fn next_block(&mut self) -> Result<Option<SourceBlock>> {
        loop {
            self.fill();
            if let Some(end) = self.last_end() {
                return Ok(Some(self.give(end)));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > self.line_max {
                if self.multiline.is_some()
                    && !self.values
                    && let Some(end) = memchr::memrchr(b'\n', &self.buffer)
                {
                    return Ok(Some(self.give(end + 1)));
                }
                return self.give_too_long().map(Some);
            }
            if let Some(source) = self.failure.take() {
                self.ended = true;
                let byte = self.byte + self.buffer.len() as u64;
                self.buffer.clear();
                self.searched = 0;
                return Err(Error::Read {
                    byte,
                    line: self.line,
                    source,
                });
            }
            if self.ended {
                let end = self.buffer.len();
                return Ok((end > 0).then(|| self.give_last()));
            }
        }
    }

    /// Returns the end of the last whole line, record or value of the buffer. By a rule it leaves
    /// no more than [`LINES_MAX`] lines before it, and `None` means that there are fewer.
    fn last_end(&self) -> Option<usize> {
        if self.values {
            // The next read is twice as long each time: to search known bytes again costs as much
            // again.
            return JsonValues::whole(&self.buffer, self.byte, LINES_MAX);
        }
        let end = memchr::memrchr(b'\n', &self.buffer[self.searched..])?;
        let end = self.searched + end + 1;
        match &self.multiline {
            None => Some(end),
            Some(rule) => match memchr::memchr_iter(b'\n', &self.buffer).nth(LINES_MAX - 1) {
                // A block has no more lines, whatever lies behind them.
                Some(last) => Some(
                    rule.last_begin(&self.buffer[..=last], 0)
                        .unwrap_or(last + 1),
                ),
                // It ends where the next one begins.
                None => rule.last_begin(&self.buffer[..end], self.searched),
            },
        }
    }

    /// Reads until the buffer holds a block, or twice the unfinished line that it holds already. It
    /// never holds more than the longest line and its end.
    fn fill(&mut self) {
        let want = self
            .block_bytes
            .max(self.searched.saturating_mul(2))
            .min(self.line_max + 1);
        let missing = want.saturating_sub(self.buffer.len());
        if missing == 0 || self.ended || self.failure.is_some() {
            return;
        }
        match self
            .source
            .by_ref()
            .take(missing as u64)
            .read_to_end(&mut self.buffer)
        {
            Ok(read) => self.ended = read < missing,
            Err(e) => self.failure = Some(e),
        }
    }

    /// Returns what is left at the end of the source.
    fn give_last(&mut self) -> SourceBlock {
        let block = self.give(self.buffer.len());
        let is_record = self.multiline.is_some() && !self.values;
        SourceBlock {
            ended: is_record && block.bytes.ends_with(b"\n"),
            may_go_on: is_record,
            ..block
        }
    }

    /// Returns the first `end` bytes of the buffer as a block, or fewer where they hold very many
    /// lines.
    fn give(&mut self, end: usize) -> SourceBlock {
        let mut ends = memchr::memchr_iter(b'\n', &self.buffer[..end]);
        let end = match self.values {
            true => end,
            false => ends.nth(LINES_MAX - 1).map_or(end, |last| last + 1),
        };
        let rest = self.buffer[end..].to_vec();
        let mut bytes = std::mem::replace(&mut self.buffer, rest);
        bytes.truncate(end);
        self.hasher.update(&bytes);
        self.searched = 0;
        let line_ends = memchr::memchr_iter(b'\n', &bytes).count() as u64;
        // A block of values may end within a line.
        let is_piece = !self.values && !bytes.ends_with(b"\n");
        let block = self.block(bytes, end as u64, line_ends + u64::from(is_piece), false);
        SourceBlock {
            ended: true,
            ..block
        }
    }

    /// Returns the beginning of a line over the limit and passes over the rest of it.
    fn give_too_long(&mut self) -> Result<SourceBlock> {
        let mut head = std::mem::take(&mut self.buffer);
        self.searched = 0;
        let mut length = head.len() as u64;
        let mut lines = memchr::memchr_iter(b'\n', &head).count() as u64;
        self.hasher.update(&head);
        let mut nesting = Nesting::default();
        nesting.end_in(head.trim_ascii_start());
        head.truncate(self.line_max);
        let mut is_whole = false;
        while !is_whole && !self.ended && self.failure.is_none() {
            self.fill();
            let end = match self.values {
                true => nesting.end_in(&self.buffer),
                false => memchr::memchr(b'\n', &self.buffer).map(|end| end + 1),
            };
            let passed = &self.buffer[..end.unwrap_or(self.buffer.len())];
            lines += memchr::memchr_iter(b'\n', passed).count() as u64;
            match end {
                Some(end) => {
                    length += end as u64;
                    self.hasher.update(&self.buffer[..end]);
                    self.buffer.drain(..end);
                    is_whole = true;
                }
                None => {
                    length += self.buffer.len() as u64;
                    self.hasher.update(&self.buffer);
                    self.buffer.clear();
                }
            }
        }
        // Behind a whole line it is an error of the next one.
        if !is_whole && let Some(source) = self.failure.take() {
            self.ended = true;
            return Err(Error::Read {
                byte: self.byte + length,
                line: self.line,
                source,
            });
        }
        // A line that is the last may lack its end.
        let lines = if self.values { lines } else { 1 };
        Ok(self.block(head, length, lines, true))
    }

    fn block(&mut self, bytes: Vec<u8>, length: u64, lines: u64, too_long: bool) -> SourceBlock {
        let (first_line, first_byte) = (self.line, self.byte);
        self.line += lines;
        self.byte += length;
        SourceBlock {
            bytes,
            first_line,
            first_byte,
            end_byte: self.byte,
            content: self.hasher.digest(),
            too_long,
            values: self.values,
            ended: too_long,
            may_go_on: false,
        }
    }
}

impl<R: Read> Iterator for LineBlocks<R> {
    type Item = Result<SourceBlock>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_block().transpose()
    }
}

#[cfg(test)]
mod tests;
