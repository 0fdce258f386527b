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
//! numeric    events without a value; unfit values; sums where there is a value; from `range_from`
//!            on, smallest where there are two or more, and spread where there are three or more
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
mod read;
mod stream;
mod write;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use hashbrown::HashMap;
use storage::{Section, TileImage};
use xxhash_rust::xxh3::xxh3_64;

use crate::bytes_io::{Reader, put_varint, unzigzag, zigzag};
use crate::calendar::Level;
use crate::cells::{CellSet, Cells, Filter, Keys, Projection};
use crate::column::Column;
use crate::definition::{Component, Definition};
use crate::error::{Error, Result};
use crate::group::group;
use crate::read::ranks_of_buckets;
use read::Payload;
use stream::{Packer, Unpacker};
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
            events: order.iter().map(|c| cells.count[*c as usize]).sum(),
            offset: offset as u64,
            len: (self.bytes.len() - offset) as u64,
        });
    }
}

/// An open tile file: its bytes and, once needed, its dictionaries. Cheap to share; keep it while
/// it is read often, because the dictionaries are decoded once.
#[derive(Debug)]
pub struct TileFile {
    definition: Arc<Definition>,
    bytes: Bytes,
    keys_at: Range<usize>,
    coupons_at: Range<usize>,
    keys: OnceLock<Arc<Keys>>,
    coupons: OnceLock<Arc<Vec<u64>>>,
}

/// The head of a section.
struct Head {
    cells: usize,
    starts: Vec<i64>,
    payload: Range<usize>,
}

impl TileFile {
    /// Checks the header.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the bytes are not a tile of this definition.
    pub fn open(definition: Arc<Definition>, bytes: Bytes) -> Result<Self> {
        let mut reader = Reader::new(&bytes, 0);
        if reader.take(6)? != MAGIC {
            return Err(Error::corrupt(0, "it is not a tile file"));
        }
        let version = u16::from_le_bytes([reader.u8()?, reader.u8()?]);
        if version != VERSION {
            return Err(Error::corrupt(
                6,
                format!("its version is {version}, known is {VERSION}; use a newer logmill"),
            ));
        }
        let fingerprint = reader.u64()?;
        let (keys, coupons) = (reader.varint_len()?, reader.varint_len()?);
        let end = reader.offset();
        if reader.u32()? != crc32c::crc32c(&bytes[..end]) {
            return Err(Error::corrupt(0, "the checksum of its header is wrong"));
        }
        if fingerprint != definition.fingerprint() {
            return Err(Error::corrupt(
                8,
                format!(
                    "it was written under another definition than {}'s",
                    definition.name()
                ),
            ));
        }
        let keys_at = reader.offset();
        let coupons_at = keys_at.saturating_add(keys);
        let sections_at = coupons_at.saturating_add(coupons);
        if sections_at > bytes.len() {
            return Err(Error::corrupt(
                bytes.len(),
                "it ends inside its dictionaries",
            ));
        }
        Ok(Self {
            definition,
            keys_at: keys_at..coupons_at,
            coupons_at: coupons_at..sections_at,
            bytes,
            keys: OnceLock::new(),
            coupons: OnceLock::new(),
        })
    }

    /// The definition it was opened with.
    pub fn definition(&self) -> &Arc<Definition> {
        &self.definition
    }

    /// Bytes in memory: the file's and the decoded dictionaries'.
    pub fn memory_bytes(&self) -> usize {
        let keys = self.keys.get().map_or(0, |k| k.memory_bytes());
        self.bytes.len() + keys + self.coupons.get().map_or(0, |c| c.len() * 8)
    }

    /// Reads the cells of one section that pass the filter, with the states asked for.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the section, or a dictionary it needs, is damaged.
    pub fn read(
        &self,
        section: &Section,
        projection: &Projection,
        filter: &Filter,
    ) -> Result<Cells> {
        let at = usize::try_from(section.offset).unwrap_or(usize::MAX);
        let Some(level) =
            Level::from_name(&section.level).filter(|l| self.definition.levels().contains(l))
        else {
            return Err(Error::corrupt(
                at,
                format!("the rollup has no level {:?}", section.level),
            ));
        };
        let wanted = self.wanted(projection);
        let nothing = || Ok(Cells::empty(&self.definition, level, projection));
        if section.bucket_max_us < filter.from_us || section.bucket_min_us >= filter.to_us {
            return nothing();
        }
        let head = self.head(section, at)?;
        let keys = self.keys()?;
        let passing = keys.passing(filter);
        if passing.as_ref().is_some_and(|p| !p.contains(&true)) {
            return nothing();
        }
        let block = self.checked(head.payload.clone())?;
        let mut unpacker = Unpacker::new(self.bytes.len());
        let reader = Reader::new(block, head.payload.start + 4);
        let mut payload = Payload {
            definition: &self.definition,
            level,
            unpacker: &mut unpacker,
            reader,
        };
        let shape = payload.shape(by_key(level), head.cells, head.starts.len(), keys.len)?;
        let events = shape
            .counts
            .iter()
            .fold(0_u64, |sum, c| sum.wrapping_add(*c));
        if (events, head.cells as u64) != (section.events, section.cells) {
            return Err(Error::corrupt(
                at,
                "it does not hold what its manifest entry says",
            ));
        }
        let kept: Vec<u32> = (0..head.cells)
            .filter(|c| {
                let bucket = head.starts[shape.ranks[*c] as usize];
                let passes = passing.as_ref().is_none_or(|p| p[shape.keys[*c] as usize]);
                passes && filter.from_us <= bucket && bucket < filter.to_us
            })
            .map(|c| c as u32)
            .collect();
        if kept.is_empty() {
            return nothing();
        }
        let needs_coupons =
            |(c, wanted): (&Component, &bool)| *wanted && matches!(c, Component::Distinct { .. });
        let coupons = if self
            .definition
            .components()
            .iter()
            .zip(&wanted)
            .any(needs_coupons)
        {
            self.coupons()?
        } else {
            Arc::default()
        };
        let mut columns = payload.columns(&wanted, &shape.counts, coupons.len())?;
        for (column, wanted) in columns.iter_mut().zip(&projection.components) {
            if !wanted {
                *column = None;
            } else if kept.len() < head.cells {
                *column = column.as_ref().map(|c| c.take(&kept));
            }
        }
        Ok(Cells {
            keys,
            coupons,
            bucket: kept
                .iter()
                .map(|c| head.starts[shape.ranks[*c as usize] as usize])
                .collect(),
            key: kept.iter().map(|c| shape.keys[*c as usize]).collect(),
            count: kept.iter().map(|c| shape.counts[*c as usize]).collect(),
            columns,
        })
    }

    /// Reads everything of one section and both dictionaries, for `check`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] naming what is damaged.
    pub fn check(&self, section: &Section) -> Result<()> {
        self.coupons()?;
        self.read(section, &Projection::all(&self.definition), &Filter::ALL)
            .map(|_| ())
    }

    /// The components asked for, and the numbers of the histograms among them.
    fn wanted(&self, projection: &Projection) -> Vec<bool> {
        let mut wanted = projection.components.clone();
        for (nth, component) in self.definition.components().iter().enumerate() {
            if let Component::Histogram { numeric, .. } = component
                && wanted[nth]
            {
                wanted[*numeric] = true;
            }
        }
        wanted
    }

    fn head(&self, section: &Section, at: usize) -> Result<Head> {
        let end = at.checked_add(usize::try_from(section.len).unwrap_or(usize::MAX));
        let end = end.filter(|end| *end <= self.bytes.len() && at >= self.coupons_at.end);
        let Some(end) = end else {
            return Err(Error::corrupt(at, "the section lies outside the file"));
        };
        let mut outer = Reader::new(&self.bytes[at..end], at);
        let crc = outer.u32()?;
        let checked_from = outer.offset();
        let len = outer.varint_len()?;
        let head_at = outer.offset();
        let head = outer.take(len)?;
        if crc != crc32c::crc32c(&self.bytes[checked_from..head_at + len]) {
            return Err(Error::corrupt(
                at,
                "the checksum of a section's head is wrong",
            ));
        }
        let mut reader = Reader::new(head, head_at);
        let cells = reader.varint_len()?;
        let buckets = reader.varint_len()?;
        if buckets == 0 || buckets > reader.left() || cells < buckets {
            return Err(Error::corrupt(head_at, "its number of buckets is wrong"));
        }
        Unpacker::new(self.bytes.len()).check_len(&reader, cells)?;
        let mut starts = Vec::with_capacity(buckets);
        let mut second = unzigzag(reader.varint()?);
        for nth in 0..buckets {
            if nth > 0 {
                let distance = reader.varint_u64()?;
                if distance == 0 {
                    return Err(Error::corrupt(reader.offset(), "its buckets do not rise"));
                }
                second += i128::from(distance);
            }
            let start = i64::try_from(second.saturating_mul(SECOND_US.into()));
            starts.push(
                start.map_err(|_| Error::corrupt(reader.offset(), "a bucket is out of range"))?,
            );
        }
        let (from, len) = (reader.varint_len()?, reader.varint_len()?);
        reader.finish()?;
        let from = if from == 0 { outer.offset() } else { from };
        let to = from
            .checked_add(len)
            .filter(|to| *to <= self.bytes.len() && len >= 4);
        let Some(to) = to else {
            return Err(Error::corrupt(at, "its payload lies outside the file"));
        };
        Ok(Head {
            cells,
            starts,
            payload: from..to,
        })
    }

    /// The bytes behind a checksum.
    fn checked(&self, range: Range<usize>) -> Result<&[u8]> {
        let mut reader = Reader::new(&self.bytes[range.clone()], range.start);
        let crc = reader.u32()?;
        let block = reader.take(reader.left())?;
        if crc != crc32c::crc32c(block) {
            return Err(Error::corrupt(range.start, "a checksum is wrong"));
        }
        Ok(block)
    }

    fn keys(&self) -> Result<Arc<Keys>> {
        if let Some(keys) = self.keys.get() {
            return Ok(Arc::clone(keys));
        }
        let mut reader = Reader::new(self.checked(self.keys_at.clone())?, self.keys_at.start + 4);
        let mut unpacker = Unpacker::new(self.bytes.len());
        let keys = Arc::new(dictionary::read_keys(
            &mut unpacker,
            &mut reader,
            &self.definition,
        )?);
        reader.finish()?;
        Ok(Arc::clone(self.keys.get_or_init(|| keys)))
    }

    fn coupons(&self) -> Result<Arc<Vec<u64>>> {
        if let Some(coupons) = self.coupons.get() {
            return Ok(Arc::clone(coupons));
        }
        let mut reader = Reader::new(
            self.checked(self.coupons_at.clone())?,
            self.coupons_at.start + 4,
        );
        let mut unpacker = Unpacker::new(self.bytes.len());
        let coupons = Arc::new(dictionary::read_coupons(&mut unpacker, &mut reader)?);
        reader.finish()?;
        Ok(Arc::clone(self.coupons.get_or_init(|| coupons)))
    }
}

#[cfg(test)]
mod tests;
