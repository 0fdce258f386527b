//! The keys admitted before some events, from the tiles and the memtable chunks of a snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::UInt32Array;
use arrow::compute::take;
use storage::{Chunk, FileRef, Section, Snapshot};

use super::cache::AdmissionCache;
use super::{AdmittedKeys, Encoder, KeyAdmission};
use crate::calendar::Level;
use crate::cells::{CellSet, Cells, Filter, Projection};
use crate::definition::Definition;
use crate::error::{Error, Result};
use crate::seeded::{self, Bug};
use crate::tile::TileFile;

/// The admitted keys of one rollup before some events, which are in order of sequence numbers.
#[derive(Debug)]
pub(crate) struct AdmittedBefore<'a> {
    definition: &'a Arc<Definition>,
    generation: u32,
    snapshot: &'a Snapshot,
    /// Sections of the day level, collected when first needed.
    sections: Option<Vec<Sealed<'a>>>,
    /// Cells of the chunks before the events, each with the exclusive end of its sequence numbers.
    chunks: Vec<(u64, Arc<CellSet>)>,
    /// Number of cells of these chunks by day.
    cells: BTreeMap<i64, u64>,
    /// Keys of the day that was requested last.
    latest: Arc<AdmittedKeys>,
    cache: Arc<AdmissionCache>,
}

/// A section of the day level.
#[derive(Debug)]
struct Sealed<'a> {
    /// Exclusive end of the sequence numbers of its tile.
    cutoff: u64,
    file: &'a FileRef,
    section: &'a Section,
}

impl<'a> AdmittedBefore<'a> {
    /// Creates the admission that the tiles of a generation hold, before any chunk.
    pub(crate) fn new(
        definition: &'a Arc<Definition>,
        generation: u32,
        snapshot: &'a Snapshot,
    ) -> Self {
        Self {
            definition,
            generation,
            snapshot,
            sections: None,
            chunks: Vec::new(),
            cells: BTreeMap::new(),
            latest: Arc::default(),
            cache: snapshot.derived(generation, AdmissionCache::default),
        }
    }

    /// Adds the cells of the next chunk.
    pub(crate) fn push(&mut self, chunk: &Chunk, cells: Arc<CellSet>) {
        if let Some(days) = cells.level(Level::Day) {
            // Cells of the cascade are sorted by bucket.
            for day in days.bucket.chunk_by(|a, b| a == b) {
                *self.cells.entry(day[0]).or_default() += day.len() as u64;
            }
        }
        self.chunks.push((chunk.seq.1 + 1, cells));
    }

    /// Returns the exclusive end of the sequence numbers before the events.
    fn end(&self) -> u64 {
        let sealed = self.snapshot.manifest().sealed_seq;
        self.chunks.last().map_or(sealed, |(end, _)| *end)
    }

    fn sections(&mut self) -> &[Sealed<'a>] {
        let (snapshot, generation) = (self.snapshot, self.generation);
        self.sections.get_or_insert_with(|| {
            let tiles = snapshot.manifest().tiles_of(generation);
            let files = tiles.flat_map(|t| t.files.iter().map(|file| (t.cutoff, file)));
            let sections = files.flat_map(|(cutoff, of)| {
                let file = &of.file;
                let sealed = move |section| Sealed {
                    cutoff,
                    file,
                    section,
                };
                of.sections.iter().map(sealed)
            });
            let is_day = |s: &Section| s.level == Level::Day.as_str();
            sections
                .filter(|s| is_day(s.section) && !seeded::is(Bug::OtherPerSeal))
                .collect()
        })
    }

    /// Adds the keys of a day from the tiles that end after the sequence number `from`.
    fn add_sealed(&mut self, admitted: &mut AdmittedKeys, day_us: i64, from: u64) -> Result<()> {
        let (definition, snapshot) = (self.definition, self.snapshot);
        for sealed in self.sections() {
            let (file, section) = (sealed.file, sealed.section);
            if sealed.cutoff <= from || !reaches(section, (day_us, day_us)) {
                continue;
            }
            let bytes = snapshot.read(file)?;
            let cells = TileFile::open(Arc::clone(definition), bytes)
                .and_then(|tile| tile.read(section, &nothing(definition), &one_day(day_us)))
                .map_err(|e| corrupt(snapshot, file, &e))?;
            add(admitted, definition, &cells)?;
        }
        Ok(())
    }
}

impl KeyAdmission for AdmittedBefore<'_> {
    fn at_most(&mut self, days_us: (i64, i64)) -> u64 {
        let sections = self.sections().iter().map(|s| s.section);
        let sealed = densest(sections.filter(|s| reaches(s, days_us)));
        let cells = self.cells.range(days_us.0..=days_us.1);
        sealed.saturating_add(cells.map(|(_, cells)| *cells).max().unwrap_or(0))
    }

    fn of(&mut self, day_us: i64) -> Result<&AdmittedKeys> {
        let end = self.end();
        let cached = self.cache.of(day_us);
        let cached = cached.filter(|_| !seeded::is(Bug::OtherPerSeal));
        let (from, cached) = cached.unwrap_or_default();
        if from >= end {
            self.latest = cached;
            return Ok(&self.latest);
        }
        let mut admitted = AdmittedKeys::clone(&cached);
        self.add_sealed(&mut admitted, day_us, from)?;
        let new = self.chunks.partition_point(|(end, _)| *end <= from);
        for (_, chunk) in &self.chunks[new..] {
            if let Some(cells) = chunk.level(Level::Day) {
                let cells = cells.filter(&one_day(day_us), &nothing(self.definition));
                add(&mut admitted, self.definition, &cells)?;
            }
        }
        admitted.settle();
        self.latest = Arc::new(admitted);
        self.cache.keep(day_us, end, Arc::clone(&self.latest));
        Ok(&self.latest)
    }
}

fn reaches(section: &Section, days_us: (i64, i64)) -> bool {
    section.bucket_min_us <= days_us.1 && section.bucket_max_us >= days_us.0
}

/// Returns an upper bound of the admitted keys of one day in these sections together. Sections of
/// the same days add up; sections of different days, such as those of two years, do not.
pub(super) fn densest<'a>(sections: impl Iterator<Item = &'a Section>) -> u64 {
    let mut edges: Vec<(i64, bool, u64)> = Vec::new();
    for section in sections {
        let keys = keys_at_most(section);
        edges.push((section.bucket_min_us, true, keys));
        edges.push((section.bucket_max_us.saturating_add(1), false, keys));
    }
    // If one section ends where another begins, the end sorts first.
    edges.sort_unstable();
    let (mut now, mut most) = (0_u64, 0);
    for (_, begins, keys) in edges {
        now = if begins {
            now.saturating_add(keys)
        } else {
            now.saturating_sub(keys)
        };
        most = most.max(now);
    }
    most
}

/// Returns an upper bound of the admitted keys of any day of a section of the day level.
pub(super) fn keys_at_most(section: &Section) -> u64 {
    if section.densest > 0 {
        section.densest
    } else {
        section.cells
    }
}

fn one_day(day_us: i64) -> Filter {
    Filter {
        from_us: day_us,
        to_us: day_us + 1,
        keys: Vec::new(),
    }
}

fn nothing(definition: &Definition) -> Projection {
    Projection {
        components: vec![false; definition.components().len()],
    }
}

/// Reports an error of a tile as damage of the store: tiles are read as they were written.
fn corrupt(snapshot: &Snapshot, file: &FileRef, error: &Error) -> Error {
    let offset = match error {
        Error::Corrupt { offset, .. } => *offset,
        _ => 0,
    };
    Error::Storage(storage::Error::Corrupt {
        path: snapshot.data_dir().join(&file.path),
        offset,
        what: error.to_string(),
    })
}

/// Adds the keys of the cells of one day, except `(other)`.
fn add(admitted: &mut AdmittedKeys, definition: &Definition, cells: &Cells) -> Result<()> {
    let ids = UInt32Array::from(cells.key.clone());
    let columns = cells.keys.columns.iter().map(|c| take(c, &ids, None));
    let encoder = Encoder::new(definition);
    let rows = encoder.rows(&columns.collect::<Result<Vec<_>, _>>()?)?;
    let other = encoder.other(definition)?;
    for row in rows.iter().filter(|row| row.as_ref() != &*other) {
        admitted.insert(row.as_ref());
    }
    Ok(())
}
