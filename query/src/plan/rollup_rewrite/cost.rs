//! Estimates the cost of an answer from the manifest: the cells and the raw events that it reads.

use aggregator::{Level, TILE_BLOCK_CELLS};
use datafusion::logical_expr::Expr;
use storage::{Snapshot, TIME};

use super::Question;
use super::answer::Answer;
use crate::tables::level::{Rollup, key_filter};
use crate::tables::stream::prune::TimeRange;

/// Cost of reading, merging and returning a cell, in rows of raw events.
const ROWS_PER_CELL: f64 = 4.0;
/// Cost of finding that a cell has another key, in rows of raw events.
const ROWS_PER_CELL_PASSED: f64 = 0.5;
/// Rows of a part that are read for one value of the column by which the part is sorted.
const ROWS_OF_VALUE: f64 = 16_384.0;

impl Answer<'_> {
    /// Returns the cost of the answer, in rows of raw events.
    pub(super) fn cost(&self, question: &Question<'_>) -> f64 {
        let (snapshot, _) = question.source.table().of();
        let keys = self.rollup.definition.by();
        let is_key = |name: &str| keys.iter().any(|key| key.name == name);
        let values = values_of(&question.source.predicates, is_key);
        let pieces = self.pieces.iter().map(|piece| match piece.level {
            Some(level) => cells(snapshot, self.rollup, level, piece.range, values),
            None => question.rows(piece.range),
        });
        pieces.sum()
    }
}

impl Question<'_> {
    /// Estimates how many raw events of a range are read. The events of a part have the order of
    /// the stream, so all of them are read, unless that order begins with the time or with a
    /// column that the query restricts to some values.
    pub(super) fn rows(&self, range: TimeRange) -> f64 {
        let (snapshot, name) = self.source.table().of();
        let meta = snapshot.streams().get(name);
        let first = meta.and_then(|meta| meta.order_by.first());
        let is_first = |name: &str| first.is_some_and(|first| **first == *name);
        let values = values_of(&self.source.predicates, is_first);
        let parts = snapshot.manifest().parts_of(name);
        let parts = parts.filter(|p| range.meets(p.time)).map(|p| {
            let rows = p.rows as f64;
            match values {
                Some(values) => rows.min(ROWS_OF_VALUE * values as f64),
                None if is_first(TIME) => rows * share(p.time, range),
                None => rows,
            }
        });
        let chunks = snapshot.chunks(name.as_str()).iter();
        let chunks = chunks.map(|c| c.events.num_rows() as f64 * share(c.time, range));
        parts.chain(chunks).sum()
    }
}

/// Returns how many values the query requests of a column that suits; `None` when it requests
/// all.
fn values_of(predicates: &[Expr], suits: impl Fn(&str) -> bool) -> Option<usize> {
    let asked = predicates.iter().filter_map(key_filter);
    let asked = asked.filter(|(name, _)| suits(name));
    asked.map(|(_, values)| values.len()).min()
}

/// Estimates the cost of the cells of a level in a range. The cells of one key lie together:
/// within each bucket, and from days on within each section.
fn cells(
    snapshot: &Snapshot,
    rollup: &Rollup,
    level: Level,
    range: TimeRange,
    values: Option<usize>,
) -> f64 {
    let tiles = snapshot.manifest().tiles_of(rollup.meta.id);
    let sections = tiles.flat_map(|t| &t.files).flat_map(|f| &f.sections);
    let of_level = sections.filter(|s| s.level == level.as_str());
    let taken = of_level.map(|s| {
        let buckets = (s.bucket_min_us, s.bucket_max_us);
        let cells = s.cells as f64 * share(buckets, range);
        let Some(values) = values else {
            return cells * ROWS_PER_CELL;
        };
        let runs = match level {
            Level::Minute | Level::Hour => buckets_in(level, buckets, range),
            _ => 1.0,
        };
        let blocks = runs * values as f64 * TILE_BLOCK_CELLS as f64;
        cells.min(blocks) * ROWS_PER_CELL_PASSED
    });
    taken.sum()
}

/// Estimates how many buckets of minutes or hours begin in both ranges.
fn buckets_in(level: Level, buckets: (i64, i64), range: TimeRange) -> f64 {
    let width = if level == Level::Minute { 60e6 } else { 3600e6 };
    let within = (buckets.0.max(range.first), buckets.1.min(range.last));
    ((within.1 as f64 - within.0 as f64) / width).max(0.0) + 1.0
}

/// Returns the share of some times that lies in a range, if the times are spread evenly.
fn share(times: (i64, i64), range: TimeRange) -> f64 {
    if !range.meets(times) {
        return 0.0;
    }
    let width = |first: i64, last: i64| last as f64 - first as f64 + 1.0;
    let within = (times.0.max(range.first), times.1.min(range.last));
    width(within.0, within.1) / width(times.0, times.1)
}
