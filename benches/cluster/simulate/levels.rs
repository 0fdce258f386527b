//! The sections of a shard's rollups, with cells as docs/PERFORMANCE.md has them.

use std::collections::BTreeMap;

use aggregator::{Cascade, Definition};
use storage::{RollupHook, RollupMeta, Section, TileFile, TileMeta};

use super::merges::Merges;
use super::shape::{END_US, Shape};
use super::synthetic::Maker;

/// Cells of a level of a default rollup.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LevelFigures {
    pub(crate) rollup: &'static str,
    pub(crate) level: &'static str,
    /// Seconds of a bucket.
    bucket_s: f64,
    /// Cells for an event. More events in a bucket share more cells, so this is the most.
    cells_per_event: f64,
    /// Keys of a bucket that were seen at most; none if `max_keys` alone limits them.
    keys_max: Option<f64>,
    pub(crate) bytes_per_cell: f64,
}

/// From "The size of a cell" in docs/PERFORMANCE.md: ten million lines over 14 days.
pub(crate) static FIGURES: [LevelFigures; 12] = [
    stats("minute", 60.0, 0.522, 3.49),
    stats("hour", 3_600.0, 0.216, 11.03),
    stats("day", 86_400.0, 0.069, 19.34),
    stats("week", 604_800.0, 0.014, 52.36),
    stats("month", 2_629_746.0, 0.005, 107.59),
    stats("year", 31_556_952.0, 0.005, 107.59),
    // 1,131 cells in 19 buckets of a day and longer; 0.07 bytes an event are 619 bytes a cell.
    traffic("minute", 60.0, 0.035, 18.68),
    traffic("hour", 3_600.0, 0.002, 176.94),
    traffic("day", 86_400.0, 0.000_1, 619.0),
    traffic("week", 604_800.0, 0.000_1, 619.0),
    traffic("month", 2_629_746.0, 0.000_1, 619.0),
    traffic("year", 31_556_952.0, 0.000_1, 619.0),
];

const fn stats(level: &'static str, bucket_s: f64, cells: f64, bytes: f64) -> LevelFigures {
    LevelFigures {
        rollup: "stats",
        level,
        bucket_s,
        cells_per_event: cells,
        keys_max: None,
        bytes_per_cell: bytes,
    }
}

const fn traffic(level: &'static str, bucket_s: f64, cells: f64, bytes: f64) -> LevelFigures {
    LevelFigures {
        rollup: "traffic",
        level,
        bucket_s,
        cells_per_event: cells,
        keys_max: Some(60.0),
        bytes_per_cell: bytes,
    }
}

impl LevelFigures {
    fn of(rollup: &RollupMeta, level: &str) -> &'static Self {
        let is_it = |f: &&Self| f.rollup == rollup.name.as_str() && f.level == level;
        let found = FIGURES.iter().find(is_it);
        found.unwrap_or_else(|| panic!("no figures of {}.{level}", rollup.name))
    }

    /// Returns the cells of so many events in a range of time.
    fn cells(&self, max_keys: Option<u64>, events: u64, range_us: i64) -> u64 {
        let keys = max_keys.map_or(f64::INFINITY, |keys| keys as f64);
        let keys = keys.min(self.keys_max.unwrap_or(f64::INFINITY));
        let most = keys * self.buckets(range_us) as f64;
        (events as f64 * self.cells_per_event).min(most).ceil() as u64
    }

    /// Returns the number of buckets in a range of time.
    fn buckets(&self, range_us: i64) -> u64 {
        (range_us as f64 / 1e6 / self.bucket_s).ceil().max(1.0) as u64
    }
}

/// A rollup whose tile is made.
pub(crate) struct Tiling<'a> {
    pub(crate) hook: &'a Cascade,
    pub(crate) merges: &'a Merges,
    pub(crate) shape: &'a Shape,
    pub(crate) rollup: &'a RollupMeta,
}

impl Tiling<'_> {
    /// Returns the one tile that compaction leaves: each section in a file of its own, as large as
    /// merges make it.
    pub(crate) fn tile(&self, maker: &mut Maker) -> TileMeta {
        let (rollup, shape) = (self.rollup, self.shape);
        let mut files = Vec::new();
        for level in &rollup.levels {
            let mut at = shape.start_us();
            while at < END_US {
                let partition = self.hook.partition(rollup, level, at);
                let partition = partition.expect("a definition of our own");
                let end = partition.end_us.min(END_US);
                self.add(maker, level, (partition.start_us, at, end), &mut files);
                at = partition.end_us;
            }
        }
        TileMeta {
            rollup: rollup.id,
            first_seq: rollup.first_seq,
            cutoff: shape.events(),
            events: shape.events(),
            files,
            dropped: BTreeMap::new(),
        }
    }

    /// Adds the sections of a (level, time partition) with events in a range.
    fn add(
        &self,
        maker: &mut Maker,
        level: &str,
        (partition_us, from_us, to_us): (i64, i64, i64),
        files: &mut Vec<TileFile>,
    ) {
        let figures = LevelFigures::of(self.rollup, level);
        let definition = Definition::from_meta(self.rollup).expect("a definition of our own");
        let before = self.shape.events_before(from_us);
        let events = self.shape.events_before(to_us) - before;
        let cells = figures.cells(definition.max_keys(), events, to_us - from_us);
        let sections = cells.div_ceil(self.merges.cells(figures)).max(1);
        let buckets = figures.buckets(to_us - from_us);
        let last_us = to_us - (figures.bucket_s * 1e6) as i64;
        for nth in 0..sections {
            let share = |of: u64| of * (nth + 1) / sections - of * nth / sections;
            let len = (share(cells) as f64 * figures.bytes_per_cell) as u64;
            let section = Section {
                level: level.to_owned(),
                partition_us,
                bucket_min_us: from_us,
                bucket_max_us: last_us.max(from_us),
                cells: share(cells),
                densest: cells.div_ceil(buckets),
                events: share(events),
                offset: HEAD_BYTES,
                len,
            };
            files.push(TileFile {
                file: maker.tile(self.rollup.name.as_str(), HEAD_BYTES + len),
                sections: vec![section],
            });
        }
    }
}

/// Bytes before the first section of a file: about those of a head.
const HEAD_BYTES: u64 = 64;
