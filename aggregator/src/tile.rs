//! The tile file: the cells of one seal and one rollup, at every level.
//!
//! # Layout
//! All integers little endian; varints in groups of seven bits; streams as in `tile/stream.rs`.
//!
//! ```text
//! header     "LMTILE", version u16, fingerprint of the definition u64,
//!            varint length of keys, varint length of coupons, crc32c of all before u32
//! keys       crc32c of the rest u32, dictionary of keys
//! coupons    crc32c of the rest u32, dictionary of coupons
//! section…   one per (level, time partition), at the offset and length of its manifest entry
//!
//! section    head, then its blocks but for those that an earlier section has written
//! head       crc32c of the rest u32, varint length of the rest, varint buckets, first bucket
//!            (zigzag seconds), distance of each next one (seconds, from 1 on), varint blocks, then
//!            per block varints: cells; events - cells; least rank of a bucket, greatest - least;
//!            least id of a key, greatest - least; offset (0: behind this head and its blocks
//!            before); length
//! block      crc32c of the rest u32, shape, counts, then per component of the level:
//!            varint length, its states
//! shape      ranks and key ids from the least of the block on;
//!            by bucket (minute): cells of each bucket; keys as distances within a bucket
//!            by key (hour and coarser): distances of keys; buckets as distances within a key
//! counts     events - 1
//! count      events that passed a filter
//! numeric    events without a value (or that did not pass); unfit values; sums where there is a
//!            value; from `range_from` on, smallest value where there are two or more, and spread
//!            where there are three or more
//! squares    sums of squares where there are two or more values: lower halves, then upper ones
//! histogram  for cells of three or more values whose extremes lie in two buckets: number of
//!            buckets between, their distances, counts - 1 of all but the last; for cells with
//!            values outside the layout: number of buckets, overflow, distances, counts - 1
//! distinct   events (129 at most) - coupons (129: registers); distances of coupon ids; per cell
//!            with registers the number raised; fewer than 900 as distances and values, others as
//!            4096 bytes
//! ```
//!
//! Values that follow from others are not written: a cell of one event is its key and its value.
//! Hours are sorted by key within runs of whole buckets, each run in blocks of its own; coarser
//! levels within the section. A reader of one bucket or one key needs the head and the blocks whose
//! ranges hold it. When the events of a seal lie within one week and month, its week, month and
//! year have the same cells but for the bucket, so these sections share their blocks. Tiles without
//! events have no bytes.
//!
//! # Invariants
//! * Dictionaries hold only values that some cell refers to, ordered by frequency (in powers of
//!   two) and then by value. The frequency of a key is its number of events; the frequency of a
//!   coupon is the number of cells that list it. The cells alone decide where blocks end. So the
//!   same cells give the same bytes, whatever seals and merges they come from.

mod dictionary;
mod file;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod head;
mod index;
mod layout;
mod merge;
mod read;
mod sizes;
mod stream;
mod write;

pub use file::TileFile;
#[cfg(any(test, fuzzing))]
pub use fuzzing::tile;
pub use merge::merge_sections;
pub use sizes::SectionSizes;

use std::ops::Range;

use hashbrown::HashMap;
use storage::{Section, TileImage};
use xxhash_rust::xxh3::xxh3_64;

use crate::bytes_io::put_varint;
use crate::calendar::Level;
use crate::cells::{CellSet, Cells};
use crate::column::StateColumn;
use crate::definition::Definition;
use crate::group::group;
use crate::intern::by_frequency;
use crate::read::ranks_of_buckets;
use head::TileBlock;
use layout::{MAGIC, VERSION, by_key};
use stream::Packer;
use write::BlockCells;

/// Most cells of a block. With half as many, `stats` took 1.5 % more disk space, and with twice as
/// many 0.8 % less; finding one cell takes half or twice as long.
pub const BLOCK_CELLS_MAX: usize = 4_096;
/// A cell weighs as much as its events, up to this number: its states hardly grow beyond.
const CELL_WEIGHT_MAX: u64 = 256;
/// Most cells of a run of hours, in full blocks, unless one hour has more. The cells of a key stand
/// side by side in a run, and one hour lies in one run: many hours of few cells are one run, and a
/// busy hour is one. The weight of cells does not count: such blocks are smaller, and more.
/// With a quarter as many, a page over a year took 12 ms instead of 7, and one hour of all pages
/// 2.6 instead of 4.4.
const HOUR_RUN_BLOCKS: usize = 32;
/// Most weight of a block: blocks of cells with many events hold fewer cells.
const BLOCK_WEIGHT_MAX: u64 = 65_536;

/// Encodes the cells of one seal as one tile file.
pub fn encode(definition: &Definition, cells: &CellSet) -> TileImage {
    encode_in_blocks(definition, cells, BLOCK_CELLS_MAX)
}

fn encode_in_blocks(definition: &Definition, cells: &CellSet, block_cells: usize) -> TileImage {
    if cells.events == 0 {
        return TileImage {
            bytes: Vec::new(),
            sections: Vec::new(),
            events: 0,
        };
    }
    let mut packer = Packer::new();
    let (coupons, coupon_ids) = used_coupons(cells);
    let mut keys_block = Vec::new();
    dictionary::write_keys(&mut packer, &cells.levels[0].1.keys, &mut keys_block);
    let mut coupons_block = Vec::new();
    dictionary::write_coupons(&mut packer, &coupons, &mut coupons_block);

    let mut bytes = Vec::new();
    bytes.extend_from_slice(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(definition.fingerprint().to_le_bytes());
    put_varint(&mut bytes, keys_block.len() as u128 + 4);
    put_varint(&mut bytes, coupons_block.len() as u128 + 4);
    let crc = crc32c::crc32c(&bytes);
    bytes.extend(crc.to_le_bytes());
    put_checked(&mut bytes, &keys_block);
    put_checked(&mut bytes, &coupons_block);

    let mut writer = TileWriter {
        definition,
        block_cells,
        coupon_ids,
        packer,
        bytes,
        sections: Vec::new(),
        payloads: HashMap::new(),
    };
    for (level, cells) in &cells.levels {
        writer.level(*level, cells);
    }
    TileImage {
        bytes: writer.bytes,
        sections: writer.sections,
        events: cells.events,
    }
}

fn put_checked(bytes: &mut Vec<u8>, block: &[u8]) {
    bytes.extend(crc32c::crc32c(block).to_le_bytes());
    bytes.extend_from_slice(block);
}

/// Returns the coupons that some cell lists, in their order, and the new id of each old one. (A
/// coupon that is only counted in registers is left out.)
fn used_coupons(cells: &CellSet) -> (Vec<u64>, Vec<u32>) {
    let all = &cells.levels[0].1.coupons;
    let mut counts = vec![0; all.len()];
    for column in cells
        .levels
        .iter()
        .flat_map(|(_, cells)| cells.columns.iter().flatten())
    {
        if let StateColumn::Sets(sets) = column {
            sets.ids.iter().for_each(|id| counts[*id as usize] += 1);
        }
    }
    let order = by_frequency(&counts, |a, b| all[a as usize].cmp(&all[b as usize]));
    let mut ids = vec![0; all.len()];
    for (place, id) in order.iter().enumerate() {
        ids[*id as usize] = place as u32;
    }
    (order.iter().map(|id| all[*id as usize]).collect(), ids)
}

struct TileWriter<'a> {
    definition: &'a Definition,
    /// Most cells of a block.
    block_cells: usize,
    /// The new id of each coupon.
    coupon_ids: Vec<u32>,
    packer: Packer,
    bytes: Vec<u8>,
    sections: Vec<Section>,
    /// Positions of the blocks written, by their hashes.
    payloads: HashMap<u64, Range<usize>>,
}

impl TileWriter<'_> {
    /// Writes the sections of a level, one for each time partition.
    fn level(&mut self, level: Level, cells: &Cells) {
        let (ranks, starts) = ranks_of_buckets(&cells.bucket);
        let sorted: Vec<u32> = group(&ranks, &cells.key, starts.len(), cells.keys.len).order;
        let calendar = self.definition.calendar();
        let mut rest = &sorted[..];
        while let Some(first) = rest.first() {
            let partition_us = calendar.partition(level, cells.bucket[*first as usize]);
            let same =
                |c: &u32| calendar.partition(level, cells.bucket[*c as usize]) == partition_us;
            let (here, after) = rest.split_at(rest.partition_point(same));
            self.section(level, partition_us, cells, here);
            rest = after;
        }
    }

    fn section(&mut self, level: Level, partition_us: i64, cells: &Cells, sorted: &[u32]) {
        let buckets: Vec<i64> = sorted.iter().map(|c| cells.bucket[*c as usize]).collect();
        let (ranks, starts) = ranks_of_buckets(&buckets);
        let (mut blocks, mut shared, mut own) = (Vec::new(), Vec::new(), Vec::new());
        let mut done = 0;
        while done < sorted.len() {
            let run = done..done + run_len(&ranks[done..], self.run_cells(level));
            done = run.end;
            let (order, ranks) = in_run(level, cells, &sorted[run.clone()], &ranks[run]);
            let (mut order_left, mut ranks_left) = (&order[..], &ranks[..]);
            while !order_left.is_empty() {
                let (order, ranks);
                let len = self.block_len(cells, order_left);
                (order, order_left) = order_left.split_at(len);
                (ranks, ranks_left) = ranks_left.split_at(len);
                let (block, payload) = self.block(level, cells, order, ranks);
                let written = self.payloads.get(&xxh3_64(&payload));
                let written = written.filter(|range| self.bytes[(*range).clone()] == payload);
                shared.push(written.map(|range| range.start));
                if written.is_none() {
                    own.push(payload);
                }
                blocks.push(block);
            }
        }
        let offset = self.bytes.len();
        put_checked(&mut self.bytes, &head::write(&starts, &blocks, &shared));
        for payload in own {
            let at = self.bytes.len();
            self.bytes.extend_from_slice(&payload);
            self.payloads
                .insert(xxh3_64(&payload), at..self.bytes.len());
        }
        self.sections.push(Section {
            level: level.as_str().to_owned(),
            partition_us,
            bucket_min_us: starts[0],
            bucket_max_us: starts[starts.len() - 1],
            cells: sorted.len() as u64,
            densest: densest(&ranks, starts.len()),
            events: blocks.iter().map(|b| b.events).sum(),
            offset: offset as u64,
            len: (self.bytes.len() - offset) as u64,
        });
    }

    /// Returns the most cells of a run, unless one bucket has more.
    fn run_cells(&self, level: Level) -> usize {
        match level {
            Level::Hour => HOUR_RUN_BLOCKS * self.block_cells,
            _ => usize::MAX,
        }
    }

    /// Returns the number of cells of the next block, out of the `remaining` ones of a section.
    fn block_len(&self, cells: &Cells, remaining: &[u32]) -> usize {
        let mut weight = 0;
        let fits = |cell: &&u32| {
            weight += cells.count[**cell as usize].min(CELL_WEIGHT_MAX);
            weight <= BLOCK_WEIGHT_MAX
        };
        let block = remaining.iter().take(self.block_cells);
        block.take_while(fits).count()
    }

    /// Returns a block and its payload, checksum included.
    fn block(
        &mut self,
        level: Level,
        cells: &Cells,
        order: &[u32],
        ranks: &[u32],
    ) -> (TileBlock, Vec<u8>) {
        let slice = BlockCells {
            definition: self.definition,
            level,
            cells,
            order,
            ranks,
            coupon_ids: &self.coupon_ids,
        };
        let mut block = slice.block();
        let mut payload = vec![0; 4];
        slice.write(&block, &mut self.packer, &mut payload);
        let crc = crc32c::crc32c(&payload[4..]);
        payload[..4].copy_from_slice(&crc.to_le_bytes());
        block.payload = 0..payload.len();
        (block, payload)
    }
}

/// Returns the number of cells of the next run: whole buckets of at most so many cells, or one. The
/// ranks ascend.
fn run_len(ranks: &[u32], most: usize) -> usize {
    let Some(beyond) = ranks.get(most) else {
        return ranks.len();
    };
    match ranks.partition_point(|rank| rank < beyond) {
        0 => ranks.partition_point(|rank| rank <= beyond),
        whole => whole,
    }
}

/// Returns the cells of a run in the order of their level, and the ranks of their buckets. They
/// come by bucket and key.
fn in_run(level: Level, cells: &Cells, sorted: &[u32], ranks: &[u32]) -> (Vec<u32>, Vec<u32>) {
    if !by_key(level, VERSION) {
        return (sorted.to_vec(), ranks.to_vec());
    }
    let keys: Vec<u32> = sorted.iter().map(|c| cells.key[*c as usize]).collect();
    let buckets = ranks.last().map_or(0, |last| *last as usize + 1);
    let places = group(&keys, ranks, cells.keys.len, buckets).order;
    let in_order = |values: &[u32]| places.iter().map(|p| values[*p as usize]).collect();
    (in_order(sorted), in_order(ranks))
}

/// Returns the number of cells of the bucket that has the most.
fn densest(ranks: &[u32], buckets: usize) -> u64 {
    let mut cells = vec![0; buckets];
    ranks.iter().for_each(|rank| cells[*rank as usize] += 1);
    cells.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
