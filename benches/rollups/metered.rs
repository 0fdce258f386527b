//! The real cascade, with its events and cells counted.

use std::collections::BTreeMap;
use std::sync::Mutex;

use aggregator::Cascade;
use arrow::array::RecordBatch;
use storage::{
    BoxError, Merge, Name, NewRollup, Partition, RollupHook, RollupMeta, Snapshot, StreamKind,
    TileImage,
};

use crate::cpu;

/// The levels of the default rollups, finest first.
pub(crate) const LEVELS: [&str; 6] = ["minute", "hour", "day", "week", "month", "year"];

/// Work of a cascade up to a moment, or between two.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rolled {
    /// Events that seals read.
    pub(crate) rows: u64,
    /// Cells that seals and recomputations made, by level.
    pub(crate) cells: [u64; 6],
    /// CPU of the thread on which a seal cascades and encodes.
    pub(crate) tiles_ns: u64,
}

impl Rolled {
    pub(crate) fn all_cells(&self) -> u64 {
        self.cells.iter().sum()
    }

    fn add_cells(&mut self, images: &[TileImage]) {
        for section in images.iter().flat_map(|image| &image.sections) {
            let level = LEVELS.iter().position(|l| **l == *section.level);
            self.cells[level.expect("a level of the defaults")] += section.cells;
        }
    }
}

impl std::ops::Sub for Rolled {
    type Output = Self;
    fn sub(mut self, earlier: Self) -> Self {
        self.rows -= earlier.rows;
        self.tiles_ns -= earlier.tiles_ns;
        for (cells, before) in self.cells.iter_mut().zip(earlier.cells) {
            *cells -= before;
        }
        self
    }
}

impl std::ops::AddAssign for Rolled {
    fn add_assign(&mut self, other: Self) {
        self.rows += other.rows;
        self.tiles_ns += other.tiles_ns;
        for (cells, more) in self.cells.iter_mut().zip(other.cells) {
            *cells += more;
        }
    }
}

/// A cascade that counts.
#[derive(Debug, Default)]
pub(crate) struct Metered {
    cascade: Cascade,
    rolled: Mutex<Rolled>,
}

impl Metered {
    pub(crate) fn rolled(&self) -> Rolled {
        *self.rolled.lock().expect("nobody panicked")
    }
}

impl RollupHook for Metered {
    fn rollups_for(
        &self,
        stream: &Name,
        kind: StreamKind,
        existing: &[RollupMeta],
    ) -> Result<Vec<NewRollup>, BoxError> {
        self.cascade.rollups_for(stream, kind, existing)
    }

    /// Builds the tiles and counts. Storage calls this on a thread that it makes for it.
    fn tiles(
        &self,
        rollups: &[&RollupMeta],
        events: &[RecordBatch],
        sealed: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError> {
        let images = self.cascade.tiles(rollups, events, sealed)?;
        let mut rolled = self.rolled.lock().expect("nobody panicked");
        rolled.rows += events.iter().map(|e| e.num_rows() as u64).sum::<u64>();
        rolled.add_cells(&images);
        rolled.tiles_ns += cpu::ending();
        Ok(images)
    }

    fn backfill(
        &self,
        rollup: &RollupMeta,
        sealed: &Snapshot,
        window: Partition,
        write: &mut dyn FnMut(TileImage) -> Result<(), BoxError>,
    ) -> Result<(), BoxError> {
        self.cascade.backfill(rollup, sealed, window, write)
    }

    fn day(&self, rollup: &RollupMeta, at_us: i64) -> Result<Partition, BoxError> {
        self.cascade.day(rollup, at_us)
    }

    fn wants(&self, rollup: &RollupMeta, kind: StreamKind, existing: &[RollupMeta]) -> bool {
        self.cascade.wants(rollup, kind, existing)
    }

    fn recompute(
        &self,
        rollup: &RollupMeta,
        level: &str,
        partition_us: i64,
        sealed: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError> {
        let images = self
            .cascade
            .recompute(rollup, level, partition_us, sealed)?;
        let mut rolled = self.rolled.lock().expect("nobody panicked");
        rolled.add_cells(&images);
        Ok(images)
    }

    fn merge(
        &self,
        rollup: &RollupMeta,
        merges: &[Merge<'_>],
        sealed: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError> {
        self.cascade.merge(rollup, merges, sealed)
    }

    fn partition(
        &self,
        rollup: &RollupMeta,
        level: &str,
        at_us: i64,
    ) -> Result<Partition, BoxError> {
        self.cascade.partition(rollup, level, at_us)
    }

    fn retention(&self, rollup: &RollupMeta) -> BTreeMap<String, i64> {
        self.cascade.retention(rollup)
    }
}
