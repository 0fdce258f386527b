//! Recount: a (level, time partition) is counted again in some days, after raw events of these days
//! were erased.
//!
//! # Invariants
//! * Only buckets that hold a part of one of the days change. The others keep the cells that they
//!   have, whose raw events may be gone.
//! * Up to the day, buckets are counted from the raw events of the whole day: an erased event may
//!   have been the first of its key, and then another key of the day is admitted.
//! * A coarser bucket is the merge of the next finer level that the rollup has. So of its raw
//!   events, those of the days are enough ([`counts_days`]).

use std::sync::Arc;

use storage::{Partition, RollupMeta, Snapshot, TileImage};

use crate::calendar::{Bucket, Level};
use crate::cells::{Cells, Filter, Projection};
use crate::definition::{Component, Definition};
use crate::error::Result;
use crate::raw::RawEvents;
use crate::read::coarsen;
use crate::recompute::recomputed_cells;
use crate::tile::{TileFile, merge_sections};

/// Checks whether every level beyond the day is the merge of a finer level, all of which the rollup
/// keeps and which has all of its states.
pub(crate) fn counts_days(rollup: &RollupMeta, definition: &Definition) -> bool {
    let mut coarser = definition.levels().iter().filter(|l| **l > Level::Day);
    coarser.all(|level| {
        let source = definition.source(*level);
        source.is_some_and(|source| {
            let enters = |c: &Component| {
                let has_range = c.range_at(*level) && !c.range_at(source);
                c.at(*level) && (!c.at(source) || has_range)
            };
            let has_floor = rollup.floors.contains_key(source.as_str());
            !has_floor && !definition.components().iter().any(enters)
        })
    })
}

/// A recount of one (level, time partition) of a rollup for which [`counts_days`] holds.
pub(crate) struct Recount<'a> {
    pub(crate) rollup: &'a RollupMeta,
    pub(crate) definition: &'a Arc<Definition>,
    pub(crate) level: Level,
    pub(crate) partition_us: i64,
    /// The store without the erased events, in which finer levels are counted again.
    pub(crate) remaining: &'a Snapshot,
}

impl Recount<'_> {
    pub(crate) fn image(&self, days: &[Partition]) -> Result<TileImage> {
        let windows = self.windows(days);
        let mut cells = self.unchanged(&windows)?;
        for window in &windows {
            if self.level <= Level::Day {
                self.add_raw(*window, &mut cells)?;
            } else {
                let source = self.definition.source(self.level);
                let source = source.expect("BUG: `counts_days` holds");
                for finer in self.read(source, None, *window)? {
                    cells.push(coarsen(self.definition, self.level, &finer));
                }
            }
        }
        Ok(merge_sections(self.definition, self.level, cells))
    }

    /// Returns the ranges of the partition to count again, in order.
    fn windows(&self, days: &[Partition]) -> Vec<Bucket> {
        let calendar = self.definition.calendar();
        let bucket = |day: &Partition| match self.level {
            Level::Minute | Level::Hour | Level::Day => Bucket {
                start_us: day.start_us,
                end_us: day.end_us,
            },
            coarser => calendar.bucket(coarser, day.start_us),
        };
        let is_here = |window: &Bucket| {
            let first = calendar.bucket(self.level, window.start_us).start_us;
            calendar.partition(self.level, first) == self.partition_us
        };
        let mut windows: Vec<Bucket> = days.iter().map(bucket).filter(is_here).collect();
        windows.sort_unstable();
        windows.dedup();
        windows
    }

    /// Returns the cells of the partition outside of the windows.
    fn unchanged(&self, windows: &[Bucket]) -> Result<Vec<Cells>> {
        let mut cells = Vec::new();
        let mut from_us = i64::MIN;
        let ends = windows.iter().map(|w| (w.start_us, w.end_us));
        for (to_us, next_us) in ends.chain([(i64::MAX, i64::MAX)]) {
            let (start_us, end_us) = (from_us, to_us);
            from_us = next_us;
            if start_us < end_us {
                let gap = Bucket { start_us, end_us };
                cells.extend(self.read(self.level, Some(self.partition_us), gap)?);
            }
        }
        Ok(cells)
    }

    /// Adds the cells of the raw events of a window.
    fn add_raw(&self, window: Bucket, cells: &mut Vec<Cells>) -> Result<()> {
        let raw = RawEvents::sealed(self.remaining, self.rollup, self.definition, window);
        for set in recomputed_cells(raw) {
            let levels = set?.levels.into_iter();
            let own = levels.filter(|(level, _)| *level == self.level);
            cells.extend(own.map(|(_, cells)| cells));
        }
        Ok(())
    }

    /// Reads the cells of a level, or of one of its partitions, whose buckets begin in a range.
    fn read(
        &self,
        level: Level,
        partition_us: Option<i64>,
        Bucket { start_us, end_us }: Bucket,
    ) -> Result<Vec<Cells>> {
        let filter = Filter {
            from_us: start_us,
            to_us: end_us,
            keys: Vec::new(),
        };
        let mut cells = Vec::new();
        let tiles = self.remaining.manifest().tiles_of(self.rollup.id);
        for tile in tiles.flat_map(|t| &t.files) {
            let wanted = tile.sections.iter().filter(|s| {
                s.level == level.as_str()
                    && partition_us.is_none_or(|us| s.partition_us == us)
                    && s.bucket_min_us < end_us
                    && s.bucket_max_us >= start_us
            });
            for section in wanted {
                let bytes = self.remaining.read(&tile.file)?;
                let file = TileFile::open(Arc::clone(self.definition), bytes)?;
                let all = Projection::all(self.definition);
                cells.push(file.read(section, &all, &filter)?);
            }
        }
        Ok(cells)
    }
}
