//! Series as an evaluation reads them.

use super::labels::Labels;

/// The meaning of the cells of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// Each cell adds to a running sum.
    Counter {
        /// The sum of all cells before the first one here; `None` where the series had none.
        base: Option<f64>,
    },
    /// Each cell is a sample.
    Gauge,
}

/// One series: its cells in the order of time.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) labels: Labels,
    pub(crate) kind: Kind,
    /// The ends of the buckets with a cell, milliseconds since 1970, ascending.
    pub(crate) ends: Vec<i64>,
    /// The first instant, in milliseconds, at which the next bucket has ended, for each cell.
    pub(crate) untils: Vec<i64>,
    /// The value of each cell.
    pub(crate) values: Vec<f64>,
    /// The running sums of a counter at each cell.
    sums: Vec<f64>,
}

impl Series {
    /// Creates a series of cells `(end, until, value)` in the order of time.
    pub(crate) fn new(
        labels: Labels,
        kind: Kind,
        cells: impl IntoIterator<Item = (i64, i64, f64)>,
    ) -> Self {
        let (mut ends, mut untils, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (end, until, value) in cells {
            ends.push(end);
            untils.push(until);
            values.push(value);
        }
        let mut sum = match kind {
            Kind::Counter { base } => base.unwrap_or(0.0),
            Kind::Gauge => 0.0,
        };
        let running = values.iter().map(|value| {
            sum += value;
            sum
        });
        let sums = match kind {
            Kind::Counter { .. } => running.collect(),
            Kind::Gauge => Vec::new(),
        };
        Self {
            labels,
            kind,
            ends,
            untils,
            values,
            sums,
        }
    }

    /// Returns the range of cells that end in `(from, to]`.
    pub(super) fn cells(&self, from: i64, to: i64) -> std::ops::Range<usize> {
        let first = self.ends.partition_point(|end| *end <= from);
        let next = self.ends.partition_point(|end| *end <= to);
        first..next.max(first)
    }

    /// Returns the value at an instant, and the time of its sample.
    pub(super) fn at(&self, t: i64) -> Option<(i64, f64)> {
        let next = self.ends.partition_point(|end| *end <= t);
        match self.kind {
            Kind::Counter { base } => match next.checked_sub(1) {
                Some(last) => Some((t, self.sums[last])),
                None => base.map(|base| (t, base)),
            },
            Kind::Gauge => {
                let last = next.checked_sub(1)?;
                (t < self.untils[last]).then(|| (self.ends[last], self.values[last]))
            }
        }
    }
}

/// The series that one selector reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Read {
    pub(crate) series: Vec<Series>,
    /// All ends of buckets at which counters have samples, milliseconds, ascending.
    pub(crate) ends: Vec<i64>,
}
