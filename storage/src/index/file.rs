//! The byte layout of an inverted index.
//!
//! ```text
//! "LMINDEX1"  u32 bytes of the head  u32 crc32c of the head
//! head        u64 part  u64 its length  u32 its crc32c  u64 its rows  u64 hash of the field's name
//!             u8 kind: 0 the part lacks the column, 1 texts, 2 integers
//!             for each block: u32 its first key  u32 bytes  u32 crc32c
//! block       for each key, ascending: difference from the key before (from the block's first),
//!             rows × 2 + (1 when they are listed), then differences of the rows, the first from 0
//! ```
//! Numbers in the head are little-endian, those in blocks LEB128. A key is 32 bits of a value's
//! hash. Rows are not listed for a value that more than one row in [`LISTED_SHARE`] has.

use super::{IndexedRows, ValueKind};
use crate::manifest::PartMeta;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 8] = *b"LMINDEX1";
pub(super) const PREFIX_BYTES: usize = 16;
const ABOUT_BYTES: usize = 37;
const BLOCK_HEAD_BYTES: usize = 12;
/// Size at which a block is closed. A lookup decodes half a block on average, in some 10 µs.
const BLOCK_BYTES: usize = 16 * 1024;
/// A scan is as fast for a value that more than one row in this many has, and the rows of such
/// values would be most of the file.
const LISTED_SHARE: usize = 8;

/// The part and the column of an index. A part that was written anew is another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexTarget {
    part: u64,
    len: u64,
    crc: u32,
    rows: u64,
    field: u64,
}

impl IndexTarget {
    pub(super) fn new(part: &PartMeta, field: &str) -> Self {
        Self {
            part: part.id,
            len: part.file.len,
            crc: part.file.crc,
            rows: part.rows,
            field: xxh3_64(field.as_bytes()),
        }
    }

    fn encode(&self, values: ValueKind) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ABOUT_BYTES);
        bytes.extend(self.part.to_le_bytes());
        bytes.extend(self.len.to_le_bytes());
        bytes.extend(self.crc.to_le_bytes());
        bytes.extend(self.rows.to_le_bytes());
        bytes.extend(self.field.to_le_bytes());
        bytes.push(match values {
            ValueKind::None => 0,
            ValueKind::Texts => 1,
            ValueKind::Integers => 2,
        });
        bytes
    }
}

/// The bytes before the head.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prefix {
    len: u32,
    crc: u32,
}

impl Prefix {
    pub(super) fn decode(bytes: &[u8; PREFIX_BYTES]) -> Result<Self, &'static str> {
        if bytes[..8] != MAGIC {
            return Err("the file is not an index of this format");
        }
        Ok(Self {
            len: u32_at(bytes, 8),
            crc: u32_at(bytes, 12),
        })
    }

    pub(super) fn head_len(self) -> usize {
        self.len as usize
    }

    pub(super) fn blocks_at(self) -> u64 {
        PREFIX_BYTES as u64 + u64::from(self.len)
    }
}

/// The head of an index: its blocks and their first keys.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) values: ValueKind,
    rows: u64,
    blocks: Vec<Block>,
    file_len: u64,
}

/// A block: keys from `first` up to the first key of the next block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    first: u32,
    crc: u32,
    pub(super) len: u32,
    pub(super) at: u64,
}

impl Head {
    pub(super) fn decode(
        prefix: Prefix,
        bytes: &[u8],
        of: &IndexTarget,
    ) -> Result<Self, &'static str> {
        if crc32c::crc32c(bytes) != prefix.crc {
            return Err("the checksum of its head differs");
        }
        let Some((about, blocks)) = bytes.split_at_checked(ABOUT_BYTES) else {
            return Err("its head is truncated");
        };
        let kinds = [ValueKind::None, ValueKind::Texts, ValueKind::Integers];
        let known = kinds.into_iter().find(|kind| of.encode(*kind) == about);
        let values = known.ok_or("the index belongs to another part or column")?;
        let mut at = prefix.blocks_at();
        let mut read = |bytes: &[u8]| {
            let block = Block {
                first: u32_at(bytes, 0),
                len: u32_at(bytes, 4),
                crc: u32_at(bytes, 8),
                at,
            };
            at += u64::from(block.len);
            block
        };
        let blocks: Vec<Block> = blocks
            .chunks_exact(BLOCK_HEAD_BYTES)
            .map(&mut read)
            .collect();
        Ok(Self {
            values,
            rows: of.rows,
            blocks,
            file_len: at,
        })
    }

    pub(super) fn file_len(&self) -> u64 {
        self.file_len
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.blocks.len() * size_of::<Block>()
    }

    /// Returns the block that has a key, if any has it.
    pub(super) fn block_of(&self, key: u32) -> Option<&Block> {
        let after = self.blocks.partition_point(|block| block.first <= key);
        after.checked_sub(1).map(|nth| &self.blocks[nth])
    }

    /// Returns the rows of a key in its block.
    pub(super) fn find(
        &self,
        block: &Block,
        bytes: &[u8],
        key: u32,
    ) -> Result<Option<IndexedRows>, &'static str> {
        if crc32c::crc32c(bytes) != block.crc {
            return Err("the checksum of a block differs");
        }
        let mut numbers = Numbers(bytes);
        let mut at = u64::from(block.first);
        while !numbers.0.is_empty() {
            at += numbers.next()?;
            let rows = numbers.next()?;
            let (count, is_listed) = (rows / 2, rows % 2 == 1);
            if at > u64::from(key) {
                break;
            }
            if at == u64::from(key) {
                return Ok(Some(if is_listed {
                    IndexedRows::These(self.rows(&mut numbers, count)?)
                } else {
                    IndexedRows::Many
                }));
            }
            if is_listed {
                numbers.skip(count)?;
            }
        }
        Ok(None)
    }

    fn rows(&self, numbers: &mut Numbers<'_>, count: u64) -> Result<Vec<u32>, &'static str> {
        let (mut rows, mut row) = (Vec::new(), 0);
        for _ in 0..count {
            row += numbers.next()?;
            let fits = u32::try_from(row).ok().filter(|_| row < self.rows);
            rows.push(fits.ok_or("it names a row that the part does not have")?);
        }
        Ok(rows)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes[at..at + 4].try_into();
    u32::from_le_bytes(bytes.expect("BUG: four bytes are four bytes"))
}

/// Consecutive LEB128 numbers.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next(&mut self) -> Result<u64, &'static str> {
        let mut number = 0;
        for shift in (0..35).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or("a block is truncated")?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("a block has a number that is too long")
    }

    fn skip(&mut self, count: u64) -> Result<(), &'static str> {
        for _ in 0..count {
            let end = self.0.iter().position(|byte| byte & 0x80 == 0);
            self.0 = &self.0[end.ok_or("a block is truncated")? + 1..];
        }
        Ok(())
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Joins a key and a row that has it into a number that sorts in the order of the file.
pub(super) fn pair(key: u32, row: u32) -> u64 {
    u64::from(key) << 32 | u64::from(row)
}

/// Sorts the pairs and returns the bytes of their index.
pub(super) fn encode(of: &IndexTarget, values: ValueKind, pairs: &mut [u64]) -> Vec<u8> {
    pairs.sort_unstable();
    let mut head = of.encode(values);
    let (mut blocks, mut block) = (Vec::new(), Vec::new());
    let (mut first, mut last) = (0, 0);
    let key_of = |pair: &u64| (pair >> 32) as u32;
    for same in pairs.chunk_by(|a, b| key_of(a) == key_of(b)) {
        let key = key_of(&same[0]);
        if block.is_empty() {
            (first, last) = (key, key);
        }
        put(&mut block, u64::from(key - last));
        last = key;
        let is_listed = (same.len() * LISTED_SHARE) as u64 <= of.rows.max(LISTED_SHARE as u64);
        put(&mut block, same.len() as u64 * 2 + u64::from(is_listed));
        if is_listed {
            let mut before = 0;
            for row in same.iter().map(|pair| pair & u64::from(u32::MAX)) {
                put(&mut block, row - before);
                before = row;
            }
        }
        if block.len() >= BLOCK_BYTES {
            close(&mut head, &mut blocks, first, &mut block);
        }
    }
    if !block.is_empty() {
        close(&mut head, &mut blocks, first, &mut block);
    }
    let len = u32::try_from(head.len()).expect("BUG: a head has some bytes for each 16 KiB");
    let mut bytes = Vec::with_capacity(PREFIX_BYTES + head.len() + blocks.len());
    bytes.extend(MAGIC);
    bytes.extend(len.to_le_bytes());
    bytes.extend(crc32c::crc32c(&head).to_le_bytes());
    bytes.extend(head);
    bytes.extend(blocks);
    bytes
}

fn close(head: &mut Vec<u8>, blocks: &mut Vec<u8>, first: u32, block: &mut Vec<u8>) {
    let len = u32::try_from(block.len()).expect("BUG: the rows of a value take less than 4 GiB");
    head.extend(first.to_le_bytes());
    head.extend(len.to_le_bytes());
    head.extend(crc32c::crc32c(block).to_le_bytes());
    blocks.append(block);
}

#[cfg(any(test, fuzzing))]
pub(super) mod fuzzing;
