//! The names given before some events: by the tiles of a snapshot, and by chunks of its memtable.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::UInt32Array;
use arrow::compute::take;
use storage::{FileRef, Section, Snapshot};

use super::{Encoder, Named, Names};
use crate::calendar::Level;
use crate::cells::{CellSet, Cells, Filter, Projection};
use crate::definition::Definition;
use crate::error::{Error, Result};
use crate::seeded::{self, Bug};
use crate::tile::TileFile;

/// The names of one rollup before some events, which come in the order of their sequence numbers.
#[derive(Debug)]
pub(crate) struct Before<'a> {
    definition: &'a Arc<Definition>,
    generation: u32,
    snapshot: &'a Snapshot,
    /// The sections of the day level, looked for when something asks.
    sections: Option<Vec<(&'a FileRef, &'a Section)>>,
    /// The cells of the chunks that come before the events.
    chunks: Vec<Arc<CellSet>>,
    /// How many cells these have in each day.
    cells: BTreeMap<i64, u64>,
    /// Names by day, and of how many chunks.
    days: BTreeMap<i64, (Named, usize)>,
}

impl<'a> Before<'a> {
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
            days: BTreeMap::new(),
        }
    }

    /// Adds the cells of the next chunk.
    pub(crate) fn push(&mut self, chunk: Arc<CellSet>) {
        if let Some(days) = chunk.level(Level::Day) {
            // Cells of the cascade come by bucket.
            for day in days.bucket.chunk_by(|a, b| a == b) {
                *self.cells.entry(day[0]).or_default() += day.len() as u64;
            }
        }
        self.chunks.push(chunk);
    }

    fn sections(&mut self) -> &[(&'a FileRef, &'a Section)] {
        let (snapshot, generation) = (self.snapshot, self.generation);
        self.sections.get_or_insert_with(|| {
            let tiles = snapshot.manifest().tiles_of(generation);
            let files = tiles.flat_map(|t| &t.files);
            let sections = files.flat_map(|f| f.sections.iter().map(move |s| (&f.file, s)));
            let is_day = |s: &Section| s.level == Level::Day.as_str();
            sections
                .filter(|(_, s)| is_day(s) && !seeded::is(Bug::OtherPerSeal))
                .collect()
        })
    }

    /// The names that the tiles give in a day.
    fn sealed(&mut self, day_us: i64) -> Result<Named> {
        let (definition, snapshot) = (self.definition, self.snapshot);
        let mut named = Named::new();
        for (file, section) in self.sections() {
            if !reaches(section, (day_us, day_us)) {
                continue;
            }
            let bytes = snapshot.read(file)?;
            let cells = TileFile::open(Arc::clone(definition), bytes)
                .and_then(|tile| tile.read(section, &nothing(definition), &one_day(day_us)))
                .map_err(|e| corrupt(snapshot, file, &e))?;
            add(&mut named, definition, &cells)?;
        }
        Ok(named)
    }
}

impl Names for Before<'_> {
    fn at_most(&mut self, days_us: (i64, i64)) -> u64 {
        let sections = self.sections().iter().map(|(_, s)| *s);
        let sealed = densest(sections.filter(|s| reaches(s, days_us)));
        let cells = self.cells.range(days_us.0..=days_us.1);
        sealed.saturating_add(cells.map(|(_, cells)| *cells).max().unwrap_or(0))
    }

    fn of(&mut self, day_us: i64) -> Result<&Named> {
        let (mut named, taken) = match self.days.remove(&day_us) {
            Some(known) => known,
            None => (self.sealed(day_us)?, 0),
        };
        for chunk in &self.chunks[taken..] {
            if let Some(cells) = chunk.level(Level::Day) {
                let cells = cells.filter(&one_day(day_us), &nothing(self.definition));
                add(&mut named, self.definition, &cells)?;
            }
        }
        let known = (named, self.chunks.len());
        Ok(&self.days.entry(day_us).or_insert(known).0)
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
fn add(named: &mut Named, definition: &Definition, cells: &Cells) -> Result<()> {
    let ids = UInt32Array::from(cells.key.clone());
    let columns = cells.keys.columns.iter().map(|c| take(c, &ids, None));
    let encoder = Encoder::new(definition);
    let rows = encoder.rows(&columns.collect::<Result<Vec<_>, _>>()?)?;
    named.extend(rows.iter().map(|row| Box::from(row.as_ref())));
    named.remove(&encoder.other(definition)?);
    Ok(())
}
