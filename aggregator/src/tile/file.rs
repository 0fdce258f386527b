//! An open tile file and the reading of its sections.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use storage::Section;

use super::read::Payload;
use super::stream::Unpacker;
use super::{MAGIC, SECOND_US, VERSION, by_key, dictionary};
use crate::bytes_io::{Reader, unzigzag};
use crate::calendar::Level;
use crate::cells::{Cells, Filter, Keys, Projection};
use crate::definition::{Component, Definition};
use crate::error::{Error, Result};

/// An open tile file: its bytes and, once needed, its dictionaries. Cheap to share; keep it while
/// it is read often, because the dictionaries are decoded once.
#[derive(Debug)]
pub struct TileFile {
    definition: Arc<Definition>,
    bytes: Bytes,
    pub(super) keys_at: Range<usize>,
    pub(super) coupons_at: Range<usize>,
    keys: OnceLock<Arc<Keys>>,
    coupons: OnceLock<Arc<Vec<u64>>>,
}

/// The head of a section.
pub(super) struct Head {
    cells: usize,
    starts: Vec<i64>,
    pub(super) payload: Range<usize>,
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
