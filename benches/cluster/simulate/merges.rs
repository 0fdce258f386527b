//! The sizes up to which compaction merges. The store's own rule tells them: two equal pieces are
//! due to be merged or not.

use std::collections::BTreeMap;

use storage::{FileRef, Manifest, Name, PartMeta, Section, TileFile, TileMeta, compaction_debt};

use super::base::{Base, stream};
use super::levels::{FIGURES, LevelFigures};
use super::shape::part_bytes;

/// Size that no merge reaches.
const BEYOND: u64 = 1 << 40;
/// Events of a section: the rule compares those of the sections, which are equal here.
const EVENTS: u64 = 1 << 20;

/// The largest pieces that compaction makes.
pub(crate) struct Merges {
    pub(crate) part_rows: u64,
    /// Cells of a section, by rollup and level.
    cells: BTreeMap<(&'static str, &'static str), u64>,
}

impl Merges {
    pub(crate) fn find(base: &Base) -> Self {
        let manifest = &base.manifest;
        let part = manifest.parts.iter().find(|part| part.stream == stream());
        let part = part.expect("the store has a part");
        let part_rows = largest(|rows| {
            let of = |id| half_part(part, id, rows / 2);
            let parts = vec![of(1), of(2)];
            is_due(&of_pieces(manifest, parts, Vec::new()))
        });
        let cells = FIGURES.iter().map(|figures| {
            let cells = largest(|cells| is_due(&of_sections(manifest, figures, cells / 2)));
            ((figures.rollup, figures.level), cells)
        });
        Self {
            part_rows,
            cells: cells.collect(),
        }
    }

    /// Returns the most cells of a section of a level.
    pub(crate) fn cells(&self, figures: &LevelFigures) -> u64 {
        self.cells[&(figures.rollup, figures.level)]
    }
}

/// Returns the largest size at which it holds: it holds for small ones.
fn largest(holds: impl Fn(u64) -> bool) -> u64 {
    let (mut yes, mut no) = (2, BEYOND);
    while no - yes > 1 {
        let middle = yes.midpoint(no);
        if holds(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    yes
}

fn is_due(manifest: &Manifest) -> bool {
    let (parts, tiles) = compaction_debt(manifest);
    parts.values().chain(tiles.values()).any(|d| d.count > 0)
}

fn of_pieces(base: &Manifest, parts: Vec<PartMeta>, tiles: Vec<TileMeta>) -> Manifest {
    Manifest {
        parts,
        tiles,
        ..base.clone()
    }
}

fn half_part(part: &PartMeta, id: u64, rows: u64) -> PartMeta {
    PartMeta {
        id,
        rows,
        file: FileRef {
            len: part_bytes(rows),
            ..part.file.clone()
        },
        ..part.clone()
    }
}

/// Returns a manifest with two sections of a level alone.
fn of_sections(base: &Manifest, figures: &LevelFigures, cells: u64) -> Manifest {
    let name = Name::new(figures.rollup).expect("a good name");
    let rollup = base.rollups.iter().find(|rollup| rollup.name == name);
    let rollup = rollup.expect("a default rollup").id;
    let mut tile = base.tiles_of(rollup).next().expect("a tile").clone();
    let file = &tile.files[0];
    let section = file.sections.iter().find(|s| s.level == figures.level);
    let section = Section {
        cells,
        events: EVENTS,
        len: (cells as f64 * figures.bytes_per_cell) as u64,
        ..section.expect("a tile has all levels").clone()
    };
    tile.files = vec![TileFile {
        file: file.file.clone(),
        sections: vec![section.clone(), section],
    }];
    of_pieces(base, Vec::new(), vec![tile])
}
