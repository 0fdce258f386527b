//! An open tile file, and reads of its sections.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use storage::Section;

use super::dictionary;
use super::head::{Head, TileBlock};
use super::index::KeyIndex;
use super::layout::{MAGIC, OLDEST_VERSION, VERSION, by_key};
use super::read::Payload;
use super::stream::Unpacker;
use crate::bytes_io::ByteReader;
use crate::calendar::Level;
use crate::cells::{Cells, Filter, Passing, Projection};
use crate::column::StateColumn;
use crate::definition::{Component, Definition};
use crate::error::{Error, Result};
use crate::keys::Keys;

/// An open tile file: its bytes and, once needed, its dictionaries. It is cheap to share. Callers
/// that read it often should keep it, because the dictionaries are decoded once per open file.
#[derive(Debug)]
pub struct TileFile {
    definition: Arc<Definition>,
    version: u16,
    bytes: Bytes,
    pub(super) keys_at: Range<usize>,
    pub(super) coupons_at: Range<usize>,
    keys: OnceLock<Arc<Keys>>,
    coupons: OnceLock<Arc<Vec<u64>>>,
    index: KeyIndex,
}

impl TileFile {
    /// Opens a tile file and checks its header.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the bytes are not a tile of this definition.
    pub fn open(definition: Arc<Definition>, bytes: Bytes) -> Result<Self> {
        let mut reader = ByteReader::new(&bytes, 0);
        if reader.take(6)? != MAGIC {
            return Err(Error::corrupt(0, "it is not a tile file"));
        }
        let version = u16::from_le_bytes([reader.u8()?, reader.u8()?]);
        if !(OLDEST_VERSION..=VERSION).contains(&version) {
            return Err(Error::corrupt(
                6,
                format!(
                    "its version is {version}, this program reads {OLDEST_VERSION} to {VERSION}; use the logmill that wrote it"
                ),
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
            index: KeyIndex::new(definition.by().len()),
            definition,
            version,
            keys_at: keys_at..coupons_at,
            coupons_at: coupons_at..sections_at,
            bytes,
            keys: OnceLock::new(),
            coupons: OnceLock::new(),
        })
    }

    /// Returns the definition with which the file was opened.
    pub fn definition(&self) -> &Arc<Definition> {
        &self.definition
    }

    /// Returns the bytes in memory: the file, and the dictionaries and indexes built so far.
    pub fn memory_bytes(&self) -> usize {
        let keys = self.keys.get().map_or(0, |k| k.memory_bytes());
        let coupons = self.coupons.get().map_or(0, |c| c.len() * 8);
        self.bytes.len() + keys + coupons + self.index.memory_bytes()
    }

    /// Reads the cells of one section that pass the filter, with the states of the projection.
    /// Blocks that cannot hold such cells are not read.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the section, or a dictionary it needs, is damaged.
    pub fn read(
        &self,
        section: &Section,
        projection: &Projection,
        filter: &Filter,
    ) -> Result<Cells> {
        let (level, at) = self.level_of(section)?;
        let mut cells = Cells::empty(&self.definition, level, projection);
        if section.bucket_max_us < filter.from_us || section.bucket_min_us >= filter.to_us {
            return Ok(cells);
        }
        let head = self.head(section, at)?;
        let keys = self.keys()?;
        let section_filter = SectionFilter {
            ranks: head.ranks(filter),
            passing: self.index.passing(&keys, filter),
        };
        let blocks = head.blocks.iter();
        let mut blocks = blocks.filter(|b| section_filter.may_pass(b)).peekable();
        if blocks.peek().is_none() {
            return Ok(cells);
        }
        let mut section_reader = SectionReader {
            file: self,
            level,
            starts: &head.starts,
            filter: &section_filter,
            needed: self.needed(projection),
            projection,
            unpacker: Unpacker::new(self.bytes.len()),
            keys_len: keys.len,
            cells: &mut cells,
        };
        for block in blocks {
            section_reader.add(block)?;
        }
        if !cells.is_empty() {
            cells.keys = keys;
        }
        Ok(cells)
    }

    /// Reads all of one section and both dictionaries and keeps nothing, for `check`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] naming the damage.
    pub fn check(&self, section: &Section) -> Result<()> {
        self.coupons()?;
        self.read(section, &Projection::all(&self.definition), &Filter::ALL)
            .map(|_| ())
    }

    /// Returns the level of a section and its offset in the file.
    pub(super) fn level_of(&self, section: &Section) -> Result<(Level, usize)> {
        let at = usize::try_from(section.offset).unwrap_or(usize::MAX);
        let level = Level::from_name(&section.level);
        let level = level.filter(|l| self.definition.levels().contains(l));
        let unknown = || Error::corrupt(at, format!("the rollup has no level {:?}", section.level));
        Ok((level.ok_or_else(unknown)?, at))
    }

    /// Returns the components of the projection, and the numbers without which they cannot be read.
    fn needed(&self, projection: &Projection) -> Vec<bool> {
        let mut needed = projection.components.clone();
        for (nth, component) in self.definition.components().iter().enumerate() {
            if let Some(numeric) = component.numeric()
                && needed[nth]
            {
                needed[numeric] = true;
            }
        }
        needed
    }

    pub(super) fn head(&self, section: &Section, at: usize) -> Result<Head> {
        let end = at.checked_add(usize::try_from(section.len).unwrap_or(usize::MAX));
        let end = end.filter(|end| *end <= self.bytes.len() && at >= self.coupons_at.end);
        let Some(end) = end else {
            return Err(Error::corrupt(at, "the section lies outside the file"));
        };
        let mut outer = ByteReader::new(&self.bytes[at..end], at);
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
        let reader = ByteReader::new(head, head_at);
        Head::read(reader, section, outer.offset(), self.bytes.len())
    }

    /// Returns whether the sections of a level are sorted by key first.
    pub(super) fn by_key(&self, level: Level) -> bool {
        by_key(level, self.version)
    }

    /// Returns the file's length, bytes.
    pub(super) fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes of a range behind the checksum with which it begins.
    pub(super) fn checked(&self, range: Range<usize>) -> Result<&[u8]> {
        let mut reader = ByteReader::new(&self.bytes[range.clone()], range.start);
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
        let mut reader =
            ByteReader::new(self.checked(self.keys_at.clone())?, self.keys_at.start + 4);
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
        let mut reader = ByteReader::new(
            self.checked(self.coupons_at.clone())?,
            self.coupons_at.start + 4,
        );
        let mut unpacker = Unpacker::new(self.bytes.len());
        let coupons = Arc::new(dictionary::read_coupons(&mut unpacker, &mut reader)?);
        reader.finish()?;
        Ok(Arc::clone(self.coupons.get_or_init(|| coupons)))
    }
}

/// A filter, resolved for one section.
struct SectionFilter {
    /// Ranks of the buckets that pass.
    ranks: Range<u32>,
    /// Keys that pass; `None` when all do.
    passing: Option<Passing>,
}

impl SectionFilter {
    /// Returns whether a block can hold cells that pass.
    fn may_pass(&self, block: &TileBlock) -> bool {
        let passing = self.passing.as_ref();
        block.ranks.start < self.ranks.end
            && self.ranks.start < block.ranks.end
            && passing.is_none_or(|p| p.any_in(block.keys.clone()))
    }

    fn passes(&self, rank: u32, key: u32) -> bool {
        self.ranks.contains(&rank) && self.passing.as_ref().is_none_or(|p| p.has(key))
    }
}

/// Reads the cells of one section that pass.
struct SectionReader<'a> {
    file: &'a TileFile,
    level: Level,
    starts: &'a [i64],
    filter: &'a SectionFilter,
    projection: &'a Projection,
    /// The components of the projection, and the numbers without which they cannot be read.
    needed: Vec<bool>,
    unpacker: Unpacker,
    /// Length of the dictionary of keys.
    keys_len: usize,
    cells: &'a mut Cells,
}

impl SectionReader<'_> {
    /// Adds the cells of a block that pass.
    fn add(&mut self, block: &TileBlock) -> Result<()> {
        let (file, at) = (self.file, block.payload.start);
        let mut payload = Payload {
            definition: &file.definition,
            level: self.level,
            by_key: file.by_key(self.level),
            unpacker: &mut self.unpacker,
            reader: ByteReader::new(file.checked(block.payload.clone())?, at + 4),
        };
        let shape = payload.shape(block, self.keys_len)?;
        let cells = shape.ranks.iter().zip(&shape.keys).zip(0..);
        let kept: Vec<u32> = cells
            .filter(|((rank, key), _)| self.filter.passes(**rank, **key))
            .map(|(_, cell)| cell)
            .collect();
        if kept.is_empty() {
            return Ok(());
        }
        let counts = payload.counts(block)?;
        let mut components = file.definition.components().iter().zip(&self.needed);
        if components.any(|(c, needed)| *needed && matches!(c, Component::Distinct { .. })) {
            self.cells.coupons = file.coupons()?;
        }
        let coupons = self.cells.coupons.len();
        let columns = payload.columns(&self.needed, &counts, coupons)?;
        self.add_columns(columns, &kept, block.cells);
        let kept = || kept.iter().map(|cell| *cell as usize);
        let start = |cell| self.starts[shape.ranks[cell] as usize];
        self.cells.bucket.extend(kept().map(start));
        self.cells.key.extend(kept().map(|cell| shape.keys[cell]));
        self.cells.count.extend(kept().map(|cell| counts[cell]));
        Ok(())
    }

    /// Adds the states of the cells that are kept, for the components of the projection.
    fn add_columns(&mut self, columns: Vec<Option<StateColumn>>, kept: &[u32], cells: usize) {
        let before = self.cells.len();
        let projected = columns.into_iter().zip(&self.projection.components);
        for ((column, projected), mine) in projected.zip(&mut self.cells.columns) {
            let Some(mut column) = column.filter(|_| *projected) else {
                continue;
            };
            if kept.len() < cells {
                column = column.take(kept);
            }
            match mine {
                Some(mine) if before > 0 => mine.append(&column, before, kept.len(), None),
                _ => *mine = Some(column),
            }
        }
    }
}
