//! Series of numbers at the steps of a query.

use super::entry::Labels;
use crate::error::{Error, Result};

/// Most steps of a query, as in Loki and Prometheus.
pub const POINTS_MAX: usize = 11_000;
/// Most series of a metric query.
pub const SERIES_MAX: usize = 10_000;
/// Most points of a metric query, about 50 MB.
pub const CELLS_MAX: usize = 1_000_000;

/// The instants at which a metric query is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// The first instant, nanoseconds since 1970.
    pub start_ns: i64,
    /// The distance of two instants, nanoseconds; at least 1.
    pub step_ns: i64,
    /// The number of instants.
    pub count: usize,
}

impl Steps {
    /// Returns the instants from `start_ns` to `end_ns`, both included.
    ///
    /// # Errors
    /// When `end_ns` is before `start_ns`, the step is not positive or there are more than
    /// [`POINTS_MAX`] instants.
    pub fn new(start_ns: i64, end_ns: i64, step_ns: i64) -> Result<Self> {
        if end_ns < start_ns {
            return Err(Error::invalid("the end is before the start"));
        }
        if step_ns <= 0 {
            return Err(Error::invalid("step must be greater than 0"));
        }
        let count = (i128::from(end_ns) - i128::from(start_ns)) / i128::from(step_ns) + 1;
        match usize::try_from(count)
            .ok()
            .filter(|count| *count <= POINTS_MAX)
        {
            Some(count) => Ok(Self {
                start_ns,
                step_ns,
                count,
            }),
            None => Err(Error::invalid(format!(
                "{count} steps are more than {POINTS_MAX}; make the step longer or the range shorter"
            ))),
        }
    }

    /// Returns the one instant of an instant query.
    pub fn instant(at_ns: i64) -> Self {
        Self {
            start_ns: at_ns,
            step_ns: 1,
            count: 1,
        }
    }

    /// Returns an instant, nanoseconds since 1970.
    pub fn at(&self, nth: usize) -> i64 {
        let nth = i64::try_from(nth).unwrap_or(i64::MAX);
        self.start_ns
            .saturating_add(nth.saturating_mul(self.step_ns))
    }
}

/// A series: its labels, and a value or none at each step.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The labels.
    pub labels: Labels,
    /// One for each step.
    pub points: Vec<Option<f64>>,
}

/// Series with different labels.
pub type Matrix = Vec<Series>;

/// Checks the number of series that a query holds at once.
pub(super) fn check_size(series: usize, steps: Steps) -> Result<()> {
    if series <= SERIES_MAX && series.saturating_mul(steps.count) <= CELLS_MAX {
        return Ok(());
    }
    Err(Error::Limit {
        limit: "the size of a LogQL answer",
        message: format!(
            "the query has {series} series of {} steps; the limits are {SERIES_MAX} series and \
             {CELLS_MAX} points",
            steps.count
        ),
        hint: "group by fewer labels: sum by (status_class) (…)",
    })
}
