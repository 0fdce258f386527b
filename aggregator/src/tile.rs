//! The tile file: the cells of one seal, one rollup, every level.
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
//! section    head, then its payload unless an earlier one is the same
//! head       crc32c of the rest u32, varint length of the rest, varint cells, varint buckets,
//!            first bucket (zigzag seconds), distance of each next one (seconds, from 1 on),
//!            varint offset of the payload (0: behind this head), varint its length
//! payload    crc32c of the rest u32, shape, counts, then per component of the level:
//!            varint length, block
//! shape      by bucket (minute, hour): cells of each bucket; keys as distances within a bucket
//!            by key (day and coarser): distances of keys; buckets as distances within a key
//! counts     events - 1
//! count      events that passed a filter
//! numeric    events without a value (or that did not pass); unfit values; sums where there is a value; from `range_from`
//!            on, smallest where there are two or more, and spread where there are three or more
//! squares    their sums where there are two or more values: lower halves, then upper ones
//! histogram  for cells of three or more values whose extremes lie in two buckets: number of
//!            buckets between, their distances, counts - 1 of all but the last; for cells with
//!            values outside the layout: number of buckets, overflow, distances, counts - 1
//! distinct   how far the number of coupons (129: registers) stays behind that of events;
//!            distances of coupon ids; per registers the number raised, then fewer than 900
//!            as distances and values, more as 4096 bytes
//! ```
//!
//! Nothing is written that follows from the rest: a cell of one event is its key and its value.
//! Seals within one week and month have the same week, month and year but for the bucket, so these
//! sections share one payload. Tiles without events have no bytes.

mod dictionary;
mod file;
mod read;
mod stream;
mod write;

pub use file::TileFile;

use std::ops::Range;

use hashbrown::HashMap;
use storage::{Section, TileImage};
use xxhash_rust::xxh3::xxh3_64;

use crate::bytes_io::{put_varint, zigzag};
use crate::calendar::Level;
use crate::cells::{CellSet, Cells};
use crate::column::Column;
use crate::definition::Definition;
use crate::group::group;
use crate::read::ranks_of_buckets;
use stream::Packer;
use write::Slice;

const MAGIC: &[u8; 6] = b"LMTILE";
const VERSION: u16 = 1;
const SECOND_US: i64 = 1_000_000;

/// Whether the sections of a level are sorted by key first.
fn by_key(level: Level) -> bool {
    level >= Level::Day
}

/// Writes the cells of one seal as one tile file.
pub fn encode(definition: &Definition, cells: &CellSet) -> TileImage {
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

    let mut writer = Writer {
        definition,
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

/// The coupons that some cell refers to, in order, and the new id of each old one. (A coupon that
/// only registers have seen is not needed.)
fn used_coupons(cells: &CellSet) -> (Vec<u64>, Vec<u32>) {
    let all = &cells.levels[0].1.coupons;
    let mut used = vec![false; all.len()];
    for column in cells
        .levels
        .iter()
        .flat_map(|(_, cells)| cells.columns.iter().flatten())
    {
        if let Column::Sets(sets) = column {
            sets.ids.iter().for_each(|id| used[*id as usize] = true);
        }
    }
    let mut coupons = Vec::new();
    let mut ids = vec![0; all.len()];
    for (id, coupon) in all.iter().enumerate().filter(|(id, _)| used[*id]) {
        ids[id] = coupons.len() as u32;
        coupons.push(*coupon);
    }
    (coupons, ids)
}

struct Writer<'a> {
    definition: &'a Definition,
    coupon_ids: Vec<u32>,
    packer: Packer,
    bytes: Vec<u8>,
    sections: Vec<Section>,
    /// Where a payload of this hash lies.
    payloads: HashMap<u64, Range<usize>>,
}

impl Writer<'_> {
    /// Cuts a level into its time partitions.
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
        let by_key = by_key(level);
        let mut order = sorted.to_vec();
        if by_key {
            let keys: Vec<u32> = sorted.iter().map(|c| cells.key[*c as usize]).collect();
            let places = group(&keys, &ranks, cells.keys.len, starts.len()).order;
            order = places.iter().map(|p| sorted[*p as usize]).collect();
        }
        let (definition, coupon_ids) = (self.definition, &self.coupon_ids[..]);
        let mut payload = vec![0; 4];
        Slice {
            definition,
            level,
            cells,
            order: &order,
            by_key,
            starts: &starts,
            coupon_ids,
        }
        .write(&mut self.packer, &mut payload);
        let crc = crc32c::crc32c(&payload[4..]);
        payload[..4].copy_from_slice(&crc.to_le_bytes());

        let hash = xxh3_64(&payload);
        let known = self
            .payloads
            .get(&hash)
            .filter(|range| self.bytes[(*range).clone()] == payload)
            .cloned();
        let mut head = Vec::new();
        put_varint(&mut head, order.len() as u128);
        put_varint(&mut head, starts.len() as u128);
        let mut before: Option<i64> = None;
        for start in starts.iter().map(|s| s.div_euclid(SECOND_US)) {
            put_varint(
                &mut head,
                before.map_or_else(|| zigzag(start.into()), |b| (start - b) as u128),
            );
            before = Some(start);
        }
        put_varint(
            &mut head,
            known.as_ref().map_or(0, |range| range.start) as u128,
        );
        put_varint(&mut head, payload.len() as u128);
        let mut whole = Vec::new();
        put_varint(&mut whole, head.len() as u128);
        whole.extend_from_slice(&head);

        let offset = self.bytes.len();
        put_checked(&mut self.bytes, &whole);
        if known.is_none() {
            let at = self.bytes.len();
            self.bytes.extend_from_slice(&payload);
            self.payloads.insert(hash, at..self.bytes.len());
        }
        self.sections.push(Section {
            level: level.as_str().to_owned(),
            partition_us,
            bucket_min_us: starts[0],
            bucket_max_us: starts[starts.len() - 1],
            cells: order.len() as u64,
            densest: densest(&ranks, starts.len()),
            events: order.iter().map(|c| cells.count[*c as usize]).sum(),
            offset: offset as u64,
            len: (self.bytes.len() - offset) as u64,
        });
    }
}

/// The number of cells of the bucket that has most.
fn densest(ranks: &[u32], buckets: usize) -> u64 {
    let mut cells = vec![0; buckets];
    ranks.iter().for_each(|rank| cells[*rank as usize] += 1);
    cells.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
