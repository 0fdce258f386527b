//! Verify: recompute every level from the raw events and compare with what a reader sees.
//!
//! Both sides come from one snapshot. The left side is made from parts and memtable chunks by a
//! cascade of their own events; the right side is what is read: tiles ⊕ the chunks' cells.

use std::sync::Arc;

use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};
use storage::{RollupMeta, SEQ, Snapshot, TIME, read_part};

use crate::calendar::Level;
use crate::cascade::{cascade, chunk_cells};
use crate::cells::{CellSet, Cells, Filter, Projection};
use crate::definition::Definition;
use crate::error::{Error, Result};
use crate::read::{Comparison, compare, merge};
use crate::tile::TileFile;

/// What a verification of one rollup found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Verification {
    /// The rollup.
    pub rollup: String,
    /// Raw events that were recomputed.
    pub events: u64,
    /// Each level.
    pub levels: Vec<LevelVerification>,
}

/// What a verification of one level found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LevelVerification {
    /// The level.
    pub level: String,
    /// Cells compared, present on either side.
    pub cells: u64,
    /// States that differ.
    pub differences: u64,
    /// The first of them, in words.
    pub shown: Vec<String>,
}

impl Verification {
    /// Differences over all levels.
    pub fn differences(&self) -> u64 {
        self.levels.iter().map(|l| l.differences).sum()
    }
}

/// Recomputes one rollup and compares.
///
/// # Errors
/// When a part or a tile cannot be read. Events of dropped parts cannot be recomputed: then the
/// rollup is not compared but refused.
pub fn verify(snapshot: &Snapshot, meta: &RollupMeta) -> Result<Verification> {
    let definition = Arc::new(Definition::from_meta(meta)?);
    let dropped = snapshot
        .streams()
        .get(&meta.stream)
        .map_or(0, storage::StreamMeta::dropped_events);
    if dropped > 0 {
        return Err(Error::invalid(format!(
            "rollup {}: {dropped} raw events of {} were dropped and cannot be recomputed",
            meta.name, meta.stream
        )));
    }
    let raw = recompute(snapshot, meta, &definition)?;
    let chunks: Vec<Arc<Result<CellSet>>> = snapshot
        .chunks(meta.stream.as_str())
        .iter()
        .map(|chunk| chunk_cells(&definition, meta.id, chunk))
        .collect();
    let mut unsealed = Vec::new();
    for made in &chunks {
        unsealed.push(
            (**made)
                .as_ref()
                .map_err(|e| Error::invalid(e.to_string()))?,
        );
    }
    let mut levels = Vec::new();
    for level in definition.levels() {
        let left: Vec<&Cells> = raw.iter().filter_map(|set| set.level(*level)).collect();
        let left = merge(&definition, *level, &left);
        let tiles = read_tiles(snapshot, meta, &definition, *level)?;
        let right: Vec<&Cells> = tiles
            .iter()
            .chain(unsealed.iter().filter_map(|set| set.level(*level)))
            .collect();
        let right = merge(&definition, *level, &right);
        levels.push(describe(
            *level,
            &compare(&definition, *level, &left, &right),
        ));
    }
    Ok(Verification {
        rollup: meta.name.to_string(),
        events: raw.iter().map(CellSet::events).sum(),
        levels,
    })
}

fn recompute(
    snapshot: &Snapshot,
    meta: &RollupMeta,
    definition: &Definition,
) -> Result<Vec<CellSet>> {
    let mut sets = Vec::new();
    let mut add = |events: &[RecordBatch]| -> Result<()> {
        sets.append(&mut cascade(&[definition], events)?);
        Ok(())
    };
    let columns = definition.fields();
    let columns: Vec<&str> = columns
        .iter()
        .map(String::as_str)
        .chain([TIME, SEQ])
        .collect();
    for part in snapshot.manifest().parts_of(&meta.stream) {
        let bytes = snapshot.read(&part.file)?;
        let events = read_part(bytes, Some(&columns))
            .map_err(|e| Error::invalid(format!("{}: {e}", part.file.path)))?;
        add(&events)?;
    }
    for chunk in snapshot.chunks(meta.stream.as_str()) {
        add(std::slice::from_ref(&chunk.events))?;
    }
    Ok(sets)
}

fn read_tiles(
    snapshot: &Snapshot,
    meta: &RollupMeta,
    definition: &Arc<Definition>,
    level: Level,
) -> Result<Vec<Cells>> {
    let projection = Projection::all(definition);
    let mut cells = Vec::new();
    for file in snapshot.manifest().tiles_of(meta.id).flat_map(|t| &t.files) {
        let sections: Vec<_> = file
            .sections
            .iter()
            .filter(|s| s.level == level.as_str())
            .collect();
        if sections.is_empty() {
            continue;
        }
        let tile = TileFile::open(Arc::clone(definition), snapshot.read(&file.file)?)?;
        for section in sections {
            cells.push(tile.read(section, &projection, &Filter::ALL)?);
        }
    }
    Ok(cells)
}

fn describe(level: Level, found: &Comparison) -> LevelVerification {
    let shown = found.shown.iter().map(|d| {
        let bucket = chrono::DateTime::from_timestamp_micros(d.bucket_us).map_or_else(
            || d.bucket_us.to_string(),
            |t| t.to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
        );
        format!(
            "{bucket} {:?} {}: {} recomputed, {} stored",
            d.key, d.measure, d.left, d.right
        )
    });
    LevelVerification {
        level: level.as_str().to_owned(),
        cells: found.cells,
        differences: found.total,
        shown: shown.collect(),
    }
}
