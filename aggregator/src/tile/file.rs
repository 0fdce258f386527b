//! An open tile file and the reading of its sections.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use storage::Section;

use super::head::{Block, Head};
use super::read::Payload;
use super::stream::Unpacker;
use super::{MAGIC, VERSION, dictionary};
use crate::bytes_io::Reader;
use crate::calendar::Level;
use crate::cells::{Cells, Filter, Keys, Passing, Projection};
use crate::definition::{Component, Definition};
use crate::error::{Error, Result};

/// An open tile file: its bytes and, once needed, its dictionaries. Cheap to share; keep it while
/// it is read often, because the dictionaries are decoded once.
#[derive(Debug)]
pub struct TileFile {
    definition: Arc<Definition>,
    version: u16,
    bytes: Bytes,
    pub(super) keys_at: Range<usize>,
    pub(super) coupons_at: Range<usize>,
    keys: OnceLock<Arc<Keys>>,
    coupons: OnceLock<Arc<Vec<u64>>>,
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
        if !(1..=VERSION).contains(&version) {
            return Err(Error::corrupt(
                6,
                format!("its version is {version}, known are 1 to {VERSION}; use a newer logmill"),
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
            version,
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

    /// Reads the cells of one section that pass the filter, with the states asked for. Blocks that
    /// cannot hold such cells are not looked at.
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
        let mut blocks = Blocks {
            file: self,
            level,
            starts: &head.starts,
            ranks: head.ranks(filter),
            passing: keys.passing(filter),
            wanted: self.wanted(projection),
            projection,
            unpacker: Unpacker::new(self.bytes.len()),
            keys: &keys,
        };
        for block in &head.blocks {
            if blocks.may_pass(block) {
                blocks.read(block, &mut cells)?;
            }
        }
        if !cells.is_empty() {
            cells.keys = keys;
        }
        Ok(cells)
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

    /// The level of a section, and where it lies.
    pub(super) fn level_of(&self, section: &Section) -> Result<(Level, usize)> {
        let at = usize::try_from(section.offset).unwrap_or(usize::MAX);
        let level = Level::from_name(&section.level);
        let level = level.filter(|l| self.definition.levels().contains(l));
        let unknown = || Error::corrupt(at, format!("the rollup has no level {:?}", section.level));
        Ok((level.ok_or_else(unknown)?, at))
    }

    /// The components asked for, and the numbers that they need.
    fn wanted(&self, projection: &Projection) -> Vec<bool> {
        let mut wanted = projection.components.clone();
        for (nth, component) in self.definition.components().iter().enumerate() {
            if let Some(numeric) = component.numeric()
                && wanted[nth]
            {
                wanted[numeric] = true;
            }
        }
        wanted
    }

    pub(super) fn head(&self, section: &Section, at: usize) -> Result<Head> {
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
        let read = if self.version == 1 {
            Head::read_v1
        } else {
            Head::read
        };
        let reader = Reader::new(head, head_at);
        read(reader, section, outer.offset(), self.bytes.len())
    }

    /// The file's length, bytes.
    pub(super) fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes behind a checksum.
    pub(super) fn checked(&self, range: Range<usize>) -> Result<&[u8]> {
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

/// The blocks of one section under one question.
struct Blocks<'a> {
    file: &'a TileFile,
    level: Level,
    starts: &'a [i64],
    /// Ranks of the buckets that pass.
    ranks: Range<u32>,
    /// Which keys pass; `None` when all do.
    passing: Option<Passing>,
    /// The components asked for, and the numbers that they need.
    wanted: Vec<bool>,
    projection: &'a Projection,
    unpacker: Unpacker,
    keys: &'a Keys,
}

impl Blocks<'_> {
    /// Whether a block can hold cells that pass.
    fn may_pass(&self, block: &Block) -> bool {
        block.ranks.start < self.ranks.end
            && self.ranks.start < block.ranks.end
            && self
                .passing
                .as_ref()
                .is_none_or(|p| p.any_in(block.keys.clone()))
    }

    /// Adds the cells of a block that pass.
    fn read(&mut self, block: &Block, out: &mut Cells) -> Result<()> {
        let file = self.file;
        let mut payload = Payload {
            definition: &file.definition,
            level: self.level,
            unpacker: &mut self.unpacker,
            reader: Reader::new(
                file.checked(block.payload.clone())?,
                block.payload.start + 4,
            ),
        };
        let shape = payload.shape(block, self.keys.len)?;
        let passes = |cell: &u32| {
            let (rank, key) = (shape.ranks[*cell as usize], shape.keys[*cell as usize]);
            self.ranks.contains(&rank) && self.passing.as_ref().is_none_or(|p| p.has(key))
        };
        let kept: Vec<u32> = (0..block.cells as u32).filter(passes).collect();
        if kept.is_empty() {
            return Ok(());
        }
        let components = file.definition.components().iter().zip(&self.wanted);
        if components
            .into_iter()
            .any(|(c, wanted)| *wanted && matches!(c, Component::Distinct { .. }))
        {
            out.coupons = file.coupons()?;
        }
        let columns = payload.columns(&self.wanted, &shape.counts, out.coupons.len())?;
        let before = out.len();
        for ((column, wanted), mine) in columns
            .into_iter()
            .zip(&self.projection.components)
            .zip(&mut out.columns)
        {
            let Some(column) = column.filter(|_| *wanted) else {
                continue;
            };
            let column = if kept.len() < block.cells {
                column.take(&kept)
            } else {
                column
            };
            match mine {
                Some(mine) if before > 0 => mine.append(&column, before, kept.len(), None),
                _ => *mine = Some(column),
            }
        }
        let kept = || kept.iter().map(|c| *c as usize);
        out.bucket
            .extend(kept().map(|c| self.starts[shape.ranks[c] as usize]));
        out.key.extend(kept().map(|c| shape.keys[c]));
        out.count.extend(kept().map(|c| shape.counts[c]));
        Ok(())
    }
}
