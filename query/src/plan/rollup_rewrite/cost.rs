//! What an answer looks at, estimated from the manifest.

use aggregator::{Level, TILE_BLOCK_CELLS};
use datafusion::logical_expr::Expr;
use storage::{Snapshot, TIME};

use super::Question;
use super::answer::Answer;
use crate::tables::level::{Rollup, key_filter};
use crate::tables::stream::prune::TimeRange;

/// What it takes to read, merge and return a cell, in rows of raw events.
const ROWS_PER_CELL: f64 = 4.0;
/// What it takes to find that a cell has another key.
const ROWS_PER_CELL_PASSED: f64 = 0.5;
/// Rows of a part that are looked at for one value of the column by which it is sorted.
const ROWS_OF_VALUE: f64 = 16_384.0;

impl Answer<'_> {
    /// What it looks at, in rows of raw events.
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
    /// About how many raw events of a range are looked at. Those of a part lie in the order of the stream, so
    /// all of them unless that begins with the time, or with what is asked for.
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

/// How many values are asked for of a column that suits; `None` when all are.
fn values_of(predicates: &[Expr], suits: impl Fn(&str) -> bool) -> Option<usize> {
    let asked = predicates.iter().filter_map(key_filter);
    let asked = asked.filter(|(name, _)| suits(name));
    asked.map(|(_, values)| values.len()).min()
}

/// What the cells of a level in a range take. Those of some keys lie together: of each bucket, from days on
/// of each section.
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

/// Buckets of minutes or hours that begin in both ranges.
fn buckets_in(level: Level, buckets: (i64, i64), range: TimeRange) -> f64 {
    let width = if level == Level::Minute { 60e6 } else { 3600e6 };
    let within = (buckets.0.max(range.first), buckets.1.min(range.last));
    ((within.1 as f64 - within.0 as f64) / width).max(0.0) + 1.0
}

/// The share of some times that lies in a range, if they are spread evenly.
fn share(times: (i64, i64), range: TimeRange) -> f64 {
    if !range.meets(times) {
        return 0.0;
    }
    let width = |first: i64, last: i64| last as f64 - first as f64 + 1.0;
    let within = (times.0.max(range.first), times.1.min(range.last));
    width(within.0, within.1) / width(times.0, times.1)
}
