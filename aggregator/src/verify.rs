//! Verify: recomputes rollups from the raw events and compares them with what a reader sees.
//!
//! Both sides come from one snapshot. The finest levels, up to the coarsest at which a measure
//! enters, are recomputed from the raw events, window by window. Each coarser level is compared
//! with the merge of the next finer one as it is read, which was compared before. So no more than
//! one window is in memory, and where raw events are gone the coarser levels are still compared
//! with the finer ones.

mod windows;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use storage::{RollupMeta, Snapshot};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::calendar::{Bucket, Level};
use crate::cascade::chunk_cells;
use crate::cells::{CellSet, Cells, Filter, Projection};
use crate::definition::Definition;
use crate::error::Result;
use crate::raw::RawEvents;
use crate::read::{Comparison, coarsen, compare, merge};
use crate::recompute::recomputed_cells;
use crate::tile::TileFile;
use windows::Windows;

/// The side with which a level was compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Against {
    /// A recomputation from the raw events.
    Raw,
    /// The merge of the next finer level.
    Finer,
}

/// The result of verifying one rollup.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Verification {
    /// The rollup's name.
    pub rollup: String,
    /// Raw events that were read for the recomputation.
    pub events: u64,
    /// Windows of time that were recomputed from raw events.
    pub windows: u64,
    /// Windows with dropped or detached raw events: their finest levels cannot be checked.
    pub windows_incomplete: u64,
    /// Windows that the sample left out.
    pub windows_skipped: u64,
    /// The result of each level.
    pub levels: Vec<LevelVerification>,
}

/// The result of verifying one level.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LevelVerification {
    /// The level's name.
    pub level: String,
    /// The side with which it was compared.
    pub against: Against,
    /// Cells compared, present on either side.
    pub cells: u64,
    /// States that differ.
    pub differences: u64,
    /// The first differences, in words.
    pub shown: Vec<String>,
}

/// A sample of windows. The seed draws a number from 0 to 1 for each window; the sample takes the
/// windows whose number lies in a range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    from: f64,
    to: f64,
    seed: u64,
}

impl Sample {
    /// All windows.
    pub const ALL: Self = Self {
        from: 0.0,
        to: 1.0,
        seed: 0,
    };

    /// Takes a share of the windows, from 0 to 1. The same seed takes the same windows.
    pub fn of(share: f64, seed: u64) -> Self {
        Self {
            from: 0.0,
            to: share,
            seed,
        }
    }

    /// Takes a share of the windows, so that each window is in exactly one of `1 / share` turns.
    pub fn turn(share: f64, turn: u64) -> Self {
        let turns = (1.0 / share.clamp(1e-9, 1.0)).ceil();
        let nth = (turn as f64) % turns;
        Self {
            from: nth / turns,
            to: (nth + 1.0) / turns,
            seed: 0,
        }
    }

    fn takes(&self, window: &Bucket) -> bool {
        let drawn = xxh3_64_with_seed(&window.start_us.to_le_bytes(), self.seed);
        let number = drawn as f64 / u64::MAX as f64;
        self.from <= number && (number < self.to || self.to >= 1.0)
    }
}

impl Verification {
    /// Returns the number of differences over all levels.
    pub fn differences(&self) -> u64 {
        self.levels.iter().map(|l| l.differences).sum()
    }
}

/// Verifies one rollup, window by window.
///
/// # Errors
/// When a part or a tile cannot be read.
pub fn verify(snapshot: &Snapshot, meta: &RollupMeta, sample: Sample) -> Result<Verification> {
    let definition = Arc::new(Definition::from_meta(meta)?);
    let windows = Windows::of(snapshot, meta, &definition);
    let mut verifier = Verifier {
        snapshot,
        meta,
        definition: Arc::clone(&definition),
        tiles: BTreeMap::new(),
        out: Verification {
            rollup: meta.name.to_string(),
            events: 0,
            windows: 0,
            windows_incomplete: 0,
            windows_skipped: 0,
            levels: Vec::new(),
        },
    };
    let raw_to = windows::entry_level(&definition);
    let (raw, coarser): (Vec<Level>, Vec<Level>) = definition
        .levels()
        .iter()
        .partition(|l| **l <= raw_to || definition.source(**l).is_none());
    let mut found: BTreeMap<Level, Comparison> = BTreeMap::new();
    // Weeks do not nest in months: each coarse level has windows of its own.
    let of_days: Vec<Level> = raw.iter().copied().filter(|l| *l <= Level::Day).collect();
    for window in windows.days() {
        if !sample.takes(window) {
            verifier.out.windows_skipped += 1;
        } else if windows.is_complete(window) {
            verifier.out.windows += 1;
            verifier.out.events += verifier.compare_with_raw(*window, &of_days, &mut found)?;
        } else {
            verifier.out.windows_incomplete += 1;
        }
    }
    for level in raw.iter().filter(|l| **l > Level::Day) {
        for window in windows.of_level(*level).iter().filter(|w| sample.takes(w)) {
            if windows.is_complete(window) {
                verifier.compare_with_raw(*window, &[*level], &mut found)?;
            }
        }
    }
    for level in &coarser {
        let source = definition.source(*level);
        let source = source.expect("BUG: only levels with a source are compared with it");
        for window in windows.of_level(*level).iter().filter(|w| sample.takes(w)) {
            let Some(window) = verifier.above_floor(*level, *window) else {
                continue;
            };
            if verifier.above_floor(source, window) != Some(window) {
                // Retention has dropped the finer level there.
                if windows.is_complete(&window) {
                    verifier.compare_with_raw(window, &[*level], &mut found)?;
                }
                continue;
            }
            let finer = verifier.read(source, window)?;
            let left = coarsen(&definition, *level, &finer);
            let right = verifier.read(*level, window)?;
            let compared = compare(&definition, *level, &left, &right);
            found.entry(*level).or_default().add(compared);
        }
    }
    for level in definition.levels() {
        let against = if raw.contains(level) {
            Against::Raw
        } else {
            Against::Finer
        };
        let comparison = found.remove(level).unwrap_or_default();
        verifier
            .out
            .levels
            .push(describe(*level, against, &comparison));
    }
    Ok(verifier.out)
}

struct Verifier<'a> {
    snapshot: &'a Snapshot,
    meta: &'a RollupMeta,
    definition: Arc<Definition>,
    /// Tile files that one of the last two reads used, with the number of reads since.
    tiles: BTreeMap<String, (TileFile, u32)>,
    out: Verification,
}

impl Verifier<'_> {
    /// Compares levels with the raw events of a window. Returns the number of events recomputed.
    fn compare_with_raw(
        &mut self,
        window: Bucket,
        levels: &[Level],
        found: &mut BTreeMap<Level, Comparison>,
    ) -> Result<u64> {
        let raw = self.recompute(window)?;
        for level in levels {
            let Some(kept) = self.above_floor(*level, window) else {
                continue;
            };
            let left: Vec<&Cells> = raw.iter().filter_map(|set| set.level(*level)).collect();
            let left = merge(&self.definition, *level, &left);
            let left = left.filter(&within(kept), &Projection::all(&self.definition));
            let right = self.read(*level, kept)?;
            let compared = compare(&self.definition, *level, &left, &right);
            found.entry(*level).or_default().add(compared);
        }
        Ok(raw.iter().map(CellSet::events).sum())
    }

    /// Returns the range of a window above a level's floor, if any.
    fn above_floor(&self, level: Level, window: Bucket) -> Option<Bucket> {
        let floor = self.meta.floors.get(level.as_str());
        // A floor is the start of a time partition. A week that began before it belongs to an
        // earlier partition.
        let calendar = self.definition.calendar();
        let first_us = floor.map(|f| calendar.partition_window(level, f.from_us).start_us);
        let start_us = first_us.map_or(window.start_us, |first| first.max(window.start_us));
        let kept = Bucket { start_us, ..window };
        (start_us < window.end_us).then_some(kept)
    }

    /// Returns the cells of the raw events of a window.
    fn recompute(&self, window: Bucket) -> Result<Vec<CellSet>> {
        let raw = RawEvents::all(self.snapshot, self.meta, &self.definition, window);
        recomputed_cells(raw).collect()
    }

    /// Returns the cells that a reader sees of a level in a window, from tiles and the memtable.
    fn read(&mut self, level: Level, window: Bucket) -> Result<Cells> {
        let filter = within(window);
        let projection = Projection::all(&self.definition);
        let mut cells = Vec::new();
        self.tiles.retain(|_, (_, age)| {
            *age += 1;
            *age <= 2
        });
        for tile in self.snapshot.manifest().tiles_of(self.meta.id) {
            for file in &tile.files {
                let wanted: Vec<_> = file
                    .sections
                    .iter()
                    .filter(|s| {
                        s.level == level.as_str()
                            && s.bucket_min_us < window.end_us
                            && s.bucket_max_us >= window.start_us
                    })
                    .collect();
                if wanted.is_empty() {
                    continue;
                }
                if !self.tiles.contains_key(&file.file.path) {
                    let bytes = self.snapshot.read(&file.file)?;
                    let opened = TileFile::open(Arc::clone(&self.definition), bytes)?;
                    self.tiles.insert(file.file.path.clone(), (opened, 0));
                }
                let (opened, age) = self
                    .tiles
                    .get_mut(&file.file.path)
                    .expect("BUG: opened above");
                *age = 0;
                for section in wanted {
                    cells.push(opened.read(section, &projection, &filter)?);
                }
            }
        }
        for set in chunk_cells(&self.definition, self.meta.id, self.snapshot) {
            cells.extend(set?.level(level).map(|c| c.filter(&filter, &projection)));
        }
        let all: Vec<&Cells> = cells.iter().collect();
        Ok(merge(&self.definition, level, &all))
    }
}

fn within(window: Bucket) -> Filter {
    Filter {
        from_us: window.start_us,
        to_us: window.end_us,
        keys: Vec::new(),
    }
}

fn describe(level: Level, against: Against, found: &Comparison) -> LevelVerification {
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
        against,
        cells: found.cells,
        differences: found.total,
        shown: shown.collect(),
    }
}

#[cfg(test)]
mod tests;
