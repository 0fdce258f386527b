//! The head of a section: its buckets, and for each block its contents and its position.

use std::ops::Range;

use storage::Section;

use super::layout::SECOND_US;
use super::stream::check_len;
use crate::bytes_io::{ByteReader, put_varint, unzigzag, zigzag};
use crate::cells::Filter;
use crate::error::{Error, Result};

/// A block that claims more cells than this is damaged. Writers stop at `BLOCK_CELLS_MAX`.
const BLOCK_CELLS_LIMIT: usize = 1 << 16;
/// Least bytes of a block's entry in a head: eight varints.
const BLOCK_BYTES_MIN: usize = 8;

/// The head of a section.
pub(super) struct Head {
    /// Starts of the section's buckets, rising.
    pub(super) starts: Vec<i64>,
    pub(super) blocks: Vec<TileBlock>,
}

/// Some neighbouring cells of a section, encoded on their own.
pub(super) struct TileBlock {
    pub(super) cells: usize,
    pub(super) events: u64,
    /// From the rank of its first bucket to one past that of its last bucket.
    pub(super) ranks: Range<u32>,
    /// From the least id of a key to one past the greatest.
    pub(super) keys: Range<u32>,
    /// Position of its payload in the file.
    pub(super) payload: Range<usize>,
}

/// Returns an encoded head, preceded by its length. `shared` has the offsets of the blocks that an
/// earlier section wrote; the other blocks follow this head.
pub(super) fn write(starts: &[i64], blocks: &[TileBlock], shared: &[Option<usize>]) -> Vec<u8> {
    let mut head = Vec::new();
    put_varint(&mut head, starts.len() as u128);
    let mut before: Option<i64> = None;
    for start in starts.iter().map(|s| s.div_euclid(SECOND_US)) {
        put_varint(
            &mut head,
            before.map_or_else(|| zigzag(start.into()), |b| (start - b) as u128),
        );
        before = Some(start);
    }
    put_varint(&mut head, blocks.len() as u128);
    for (block, shared) in blocks.iter().zip(shared) {
        put_varint(&mut head, block.cells as u128);
        put_varint(&mut head, u128::from(block.events) - block.cells as u128);
        for range in [&block.ranks, &block.keys] {
            put_varint(&mut head, range.start.into());
            put_varint(&mut head, (range.end - 1 - range.start).into());
        }
        put_varint(&mut head, shared.unwrap_or(0) as u128);
        put_varint(&mut head, block.payload.len() as u128);
    }
    let mut out = Vec::new();
    put_varint(&mut out, head.len() as u128);
    out.extend_from_slice(&head);
    out
}

impl Head {
    /// Reads the head of `section` from `reader`, which holds nothing else. The section's own
    /// blocks begin at `own_at` of a file of `file_len` bytes.
    pub(super) fn read(
        mut reader: ByteReader<'_>,
        section: &Section,
        own_at: usize,
        file_len: usize,
    ) -> Result<Self> {
        Self::parse(&mut reader, own_at, file_len)?.checked(&reader, section, file_len)
    }

    /// Reads a head without comparing it with a section.
    pub(super) fn parse(
        reader: &mut ByteReader<'_>,
        own_at: usize,
        file_len: usize,
    ) -> Result<Self> {
        let starts = read_starts(reader)?;
        let len = reader.varint_len()?;
        if len > reader.left() / BLOCK_BYTES_MIN {
            return Err(Error::corrupt(
                reader.offset(),
                "its number of blocks is wrong",
            ));
        }
        let mut blocks = Vec::with_capacity(len);
        let mut own_at = own_at;
        for _ in 0..len {
            let block = read_block(reader, starts.len(), own_at, file_len)?;
            if block.payload.start == own_at {
                own_at = block.payload.end;
            }
            blocks.push(block);
        }
        Ok(Self { starts, blocks })
    }

    /// Fails unless everything was read and the blocks have as many cells and events as the
    /// section's manifest entry.
    fn checked(self, reader: &ByteReader<'_>, section: &Section, file_len: usize) -> Result<Self> {
        reader.finish()?;
        let sum = |of: fn(&TileBlock) -> u64| {
            let mut values = self.blocks.iter().map(of);
            values.try_fold(0_u64, |sum, value| sum.checked_add(value))
        };
        let (cells, events) = (sum(|b| b.cells as u64), sum(|b| b.events));
        if (cells, events) != (Some(section.cells), Some(section.events)) {
            return Err(Error::corrupt(
                reader.offset(),
                "its cells or events differ from its manifest entry",
            ));
        }
        if section.cells < self.starts.len() as u64 {
            return Err(Error::corrupt(
                reader.offset(),
                "it has more buckets than cells",
            ));
        }
        let cells = usize::try_from(section.cells).unwrap_or(usize::MAX);
        check_len(reader, cells, file_len)?;
        Ok(self)
    }

    /// Returns the ranks of the buckets that pass the filter.
    pub(super) fn ranks(&self, filter: &Filter) -> Range<u32> {
        let before = |us: i64| self.starts.partition_point(|start| *start < us) as u32;
        before(filter.from_us)..before(filter.to_us)
    }
}

fn read_starts(reader: &mut ByteReader<'_>) -> Result<Vec<i64>> {
    let at = reader.offset();
    let buckets = reader.varint_len()?;
    if buckets == 0 || buckets > reader.left() {
        return Err(Error::corrupt(at, "its number of buckets is wrong"));
    }
    let mut starts = Vec::with_capacity(buckets);
    let mut second = unzigzag(reader.varint()?);
    for nth in 0..buckets {
        if nth > 0 {
            let distance = reader.varint_u64()?;
            if distance == 0 {
                return Err(Error::corrupt(
                    reader.offset(),
                    "its buckets are not in increasing order",
                ));
            }
            second += i128::from(distance);
        }
        let start = i64::try_from(second.saturating_mul(SECOND_US.into()));
        starts
            .push(start.map_err(|_| Error::corrupt(reader.offset(), "a bucket is out of range"))?);
    }
    Ok(starts)
}

fn read_block(
    reader: &mut ByteReader<'_>,
    buckets: usize,
    own_at: usize,
    file_len: usize,
) -> Result<TileBlock> {
    let at = reader.offset();
    let wrong = || Error::corrupt(at, "a block's buckets, keys or cells are out of range");
    let cells = reader.varint_len()?;
    if cells == 0 || cells > BLOCK_CELLS_LIMIT {
        return Err(wrong());
    }
    let events = reader.varint_u64()?.checked_add(cells as u64);
    let mut range = |bound: u64| -> Result<Range<u32>> {
        let start = reader.varint_u64()?;
        let end = start.checked_add(reader.varint_u64()?);
        let end = end.and_then(|last| last.checked_add(1));
        let end = end.filter(|end| *end <= bound).ok_or_else(wrong)?;
        Ok(start as u32..end as u32)
    };
    let ranks = range(buckets as u64)?;
    let keys = range(u32::MAX.into())?;
    Ok(TileBlock {
        cells,
        events: events.ok_or_else(wrong)?,
        ranks,
        keys,
        payload: read_payload_range(reader, own_at, file_len)?,
    })
}

/// Reads the position of a payload: its offset, where 0 stands for `own_at`, and its length.
fn read_payload_range(
    reader: &mut ByteReader<'_>,
    own_at: usize,
    file_len: usize,
) -> Result<Range<usize>> {
    let at = reader.offset();
    let (from, len) = (reader.varint_len()?, reader.varint_len()?);
    let from = if from == 0 { own_at } else { from };
    let to = from.checked_add(len).filter(|to| *to <= file_len);
    let to = to.filter(|_| len >= 4);
    let to = to.ok_or_else(|| Error::corrupt(at, "a payload lies outside the file"))?;
    Ok(from..to)
}
