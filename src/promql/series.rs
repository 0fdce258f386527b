//! Series as an evaluation reads them.

use std::ops::Range;
use std::sync::Arc;

use super::labels::Labels;

/// The meaning of the cells of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum SeriesKind {
    /// Each cell adds to a running sum.
    Counter {
        /// The sum of all cells before the grid; `None` where the series had none.
        base: Option<f64>,
    },
    /// Each cell is a sample.
    Gauge,
}

/// The buckets of a level in which series have cells, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grid {
    /// The starts of the buckets and the end of the last one, milliseconds since 1970, ascending.
    bounds: Vec<i64>,
    /// The start of the first bucket that retention has kept, milliseconds.
    complete_from: i64,
}

impl Grid {
    /// Creates a grid of consecutive buckets: the starts of all and the end of the last, ascending.
    /// Buckets that begin before `complete_from` are not known. Milliseconds since 1970.
    pub(crate) fn new(bounds: Vec<i64>, complete_from: i64) -> Self {
        Self {
            bounds,
            complete_from,
        }
    }

    /// Returns the number of buckets.
    fn len(&self) -> usize {
        self.bounds.len().saturating_sub(1)
    }

    /// Returns the bucket that ends at an instant in milliseconds.
    pub(crate) fn ending_at(&self, end: i64) -> Option<u32> {
        let at = self.bounds.binary_search(&end).ok()?.checked_sub(1)?;
        u32::try_from(at).ok()
    }

    /// Returns the number of buckets that have ended at an instant.
    fn ended(&self, t: i64) -> usize {
        let bounds = self.bounds.partition_point(|bound| *bound <= t);
        bounds.saturating_sub(1)
    }

    /// Returns the buckets that end in `(from, to]`.
    pub(super) fn within(&self, from: i64, to: i64) -> Range<usize> {
        let first = self.ended(from);
        first..self.ended(to).max(first)
    }

    /// Returns the length of consecutive buckets, milliseconds.
    pub(super) fn span(&self, buckets: &Range<usize>) -> i64 {
        self.bounds[buckets.end] - self.bounds[buckets.start]
    }

    /// Returns the end of a bucket.
    pub(super) fn end(&self, bucket: usize) -> i64 {
        self.bounds[bucket + 1]
    }

    /// Returns whether all buckets that end after an instant are known.
    pub(super) fn is_complete_after(&self, t: i64) -> bool {
        t >= self.complete_from
    }
}

/// GridCells of a series in the order of time: bucket of the grid, value.
pub(crate) type GridCells = Vec<(u32, f64)>;

/// One series: its cells in the order of time.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) labels: Labels,
    /// The labels without the name of the metric.
    pub(super) bare: Labels,
    pub(crate) kind: SeriesKind,
    pub(super) grid: Arc<Grid>,
    cells: GridCells,
    /// Of a counter, the sums of the first cells: of none, of one, and so on.
    sums: Vec<f64>,
}

impl Series {
    /// Creates a series of cells in the order of time.
    pub(crate) fn new(labels: Labels, kind: SeriesKind, grid: Arc<Grid>, cells: GridCells) -> Self {
        let mut sums = Vec::new();
        if let SeriesKind::Counter { .. } = kind {
            let mut sum = 0.0;
            sums.push(sum);
            sums.extend(cells.iter().map(|(_, value)| {
                sum += value;
                sum
            }));
        }
        let bare = labels.nameless();
        Self {
            labels,
            bare,
            kind,
            grid,
            cells,
            sums,
        }
    }

    /// Returns the cells of consecutive buckets.
    fn cells_of(&self, buckets: &Range<usize>) -> Range<usize> {
        let before = |bucket: usize| {
            self.cells
                .partition_point(|cell| (cell.0 as usize) < bucket)
        };
        let first = before(buckets.start);
        first..before(buckets.end).max(first)
    }

    /// Returns the cells that end in `(from, to]`: end in milliseconds, value.
    pub(super) fn within(&self, from: i64, to: i64) -> impl ExactSizeIterator<Item = (i64, f64)> {
        let cells = &self.cells[self.cells_of(&self.grid.within(from, to))];
        let pair = |(bucket, value): &(u32, f64)| (self.grid.end(*bucket as usize), *value);
        cells.iter().map(pair)
    }

    /// Returns the sum of the cells of consecutive buckets of a counter; `None` without a cell.
    pub(super) fn sum(&self, buckets: &Range<usize>) -> Option<f64> {
        let cells = self.cells_of(buckets);
        (!cells.is_empty()).then(|| self.sums[cells.end] - self.sums[cells.start])
    }

    /// Returns the sample at an instant: its time in milliseconds, its value.
    pub(super) fn at(&self, t: i64) -> Option<(i64, f64)> {
        let ended = self.grid.ended(t);
        let at = *self.grid.bounds.get(ended)?;
        let cells = self.cells_of(&(0..ended));
        match self.kind {
            SeriesKind::Counter { base } => {
                let sum = match base {
                    None if cells.is_empty() => return None,
                    base => base.unwrap_or(0.0) + self.sums[cells.end],
                };
                self.grid.is_complete_after(t).then_some((at, sum))
            }
            SeriesKind::Gauge => {
                let (bucket, value) = self.cells[cells].last()?;
                (*bucket as usize + 1 == ended).then_some((at, *value))
            }
        }
    }

    /// Returns the samples in `(from, to]`: a gauge has one for each cell, a counter one at the end
    /// of each bucket from its first cell on.
    pub(super) fn samples(&self, from: i64, to: i64) -> Vec<(i64, f64)> {
        match self.kind {
            SeriesKind::Gauge => self.within(from, to).collect(),
            SeriesKind::Counter { .. } => {
                let ends = self
                    .grid
                    .within(from, to)
                    .map(|bucket| self.grid.end(bucket));
                ends.filter_map(|end| Some((end, self.at(end)?.1)))
                    .collect()
            }
        }
    }

    /// Returns the number of buckets that end in `(from, to]`.
    pub(super) fn buckets(&self, from: i64, to: i64) -> usize {
        self.grid.within(from, to).len().min(self.grid.len())
    }
}

/// The series that one selector reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct SelectorRead {
    pub(crate) series: Vec<Series>,
}
