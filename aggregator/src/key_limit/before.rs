//! The names given before some events: by the tiles of a snapshot, and by chunks of its memtable.

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

/// The names of one rollup before some events, which come in the order of their sequence numbers.
#[derive(Debug)]
pub(crate) struct AdmittedBefore<'a> {
    definition: &'a Arc<Definition>,
    generation: u32,
    snapshot: &'a Snapshot,
    /// The sections of the day level, looked for when something asks.
    sections: Option<Vec<Sealed<'a>>>,
    /// The cells of the chunks that come before the events, each with where its events end.
    chunks: Vec<(u64, Arc<CellSet>)>,
    /// How many cells these have in each day.
    cells: BTreeMap<i64, u64>,
    /// What was asked for last.
    asked: Arc<AdmittedKeys>,
    kept: Arc<AdmissionCache>,
}

/// A section of the day level.
#[derive(Debug)]
struct Sealed<'a> {
    /// Where the events of its tile end.
    cutoff: u64,
    file: &'a FileRef,
    section: &'a Section,
}

impl<'a> AdmittedBefore<'a> {
    /// What the tiles of a generation name.
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
            asked: Arc::default(),
            kept: snapshot.derived(generation, AdmissionCache::default),
        }
    }

    /// Adds the cells of the next chunk.
    pub(crate) fn push(&mut self, chunk: &Chunk, cells: Arc<CellSet>) {
        if let Some(days) = cells.level(Level::Day) {
            // Cells of the cascade come by bucket.
            for day in days.bucket.chunk_by(|a, b| a == b) {
                *self.cells.entry(day[0]).or_default() += day.len() as u64;
            }
        }
        self.chunks.push((chunk.seq.1 + 1, cells));
    }

    /// Where the events end that come before.
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

    /// Adds the names that tiles give in a day to events from `from` on.
    fn add_sealed(&mut self, named: &mut AdmittedKeys, day_us: i64, from: u64) -> Result<()> {
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
            add(named, definition, &cells)?;
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
        let known = self.kept.of(day_us);
        let known = known.filter(|_| !seeded::is(Bug::OtherPerSeal));
        let (from, known) = known.unwrap_or_default();
        if from >= end {
            self.asked = known;
            return Ok(&self.asked);
        }
        let mut named = AdmittedKeys::clone(&known);
        self.add_sealed(&mut named, day_us, from)?;
        let new = self.chunks.partition_point(|(end, _)| *end <= from);
        for (_, chunk) in &self.chunks[new..] {
            if let Some(cells) = chunk.level(Level::Day) {
                let cells = cells.filter(&one_day(day_us), &nothing(self.definition));
                add(&mut named, self.definition, &cells)?;
            }
        }
        named.settle();
        self.asked = Arc::new(named);
        self.kept.keep(day_us, end, Arc::clone(&self.asked));
        Ok(&self.asked)
    }
}

fn reaches(section: &Section, days_us: (i64, i64)) -> bool {
    section.bucket_min_us <= days_us.1 && section.bucket_max_us >= days_us.0
}

/// No day has more names in these sections together: those of one year's days are not those of the
/// next, but sections of the same days add up.
pub(super) fn densest<'a>(sections: impl Iterator<Item = &'a Section>) -> u64 {
    let mut edges: Vec<(i64, bool, u64)> = Vec::new();
    for section in sections {
        let names = names_of(section);
        edges.push((section.bucket_min_us, true, names));
        edges.push((section.bucket_max_us.saturating_add(1), false, names));
    }
    // Where one ends and another begins, the end comes first.
    edges.sort_unstable();
    let (mut now, mut most) = (0_u64, 0);
    for (_, begins, names) in edges {
        now = if begins {
            now.saturating_add(names)
        } else {
            now.saturating_sub(names)
        };
        most = most.max(now);
    }
    most
}

/// No day of a section of days has more.
pub(super) fn names_of(section: &Section) -> u64 {
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

/// A tile that does not read as it was written is damage of the store.
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

/// Adds the keys of the cells of one day.
fn add(named: &mut AdmittedKeys, definition: &Definition, cells: &Cells) -> Result<()> {
    let ids = UInt32Array::from(cells.key.clone());
    let columns = cells.keys.columns.iter().map(|c| take(c, &ids, None));
    let encoder = Encoder::new(definition);
    let rows = encoder.rows(&columns.collect::<Result<Vec<_>, _>>()?)?;
    let other = encoder.other(definition)?;
    for row in rows.iter().filter(|row| row.as_ref() != &*other) {
        named.insert(row.as_ref());
    }
    Ok(())
}
