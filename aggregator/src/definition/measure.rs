//! Measures: the computations of a rollup over the events of a cell.

use serde::{Deserialize, Serialize};
use storage::{ColumnType, StreamKind};

use crate::calendar::Level;
use crate::expression::{Condition, column_type};
use crate::state::Layout;

/// A field that is read as a number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Number {
    /// Name of the field.
    pub field: String,
    /// False for an exact integer, true for a decimal, stored as an integer number of millionths.
    pub scaled: bool,
}

impl Number {
    pub(crate) fn of(field: &str, kind: StreamKind) -> Result<Self, String> {
        let scaled = match column_type(field, kind) {
            Some(ColumnType::Int16 | ColumnType::Int64) => false,
            None => true,
            Some(_) => return Err(format!("{field} is not a number")),
        };
        Ok(Self {
            field: field.to_owned(),
            scaled,
        })
    }
}

/// The computation of a measure.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MeasureKind {
    /// Number of events.
    Count,
    /// Exact sum.
    Sum(Number),
    /// Smallest value.
    Min(Number),
    /// Largest value.
    Max(Number),
    /// Sum divided by the number of values.
    Mean(Number),
    /// The sample variance, SQL's `variance` and `var_samp`: the sum of the squared distances from
    /// the mean, divided by one less than the number of values; null for fewer than two. The state
    /// is exact integers (number, sum, sum of squares), from which a read computes a double.
    Variance(Number),
    /// Count, sum, mean, smallest, largest and quantiles.
    Histogram {
        /// The field.
        field: Number,
        /// Layout of the buckets of values.
        layout: Layout,
    },
    /// Number of distinct values.
    Distinct {
        /// The field.
        field: String,
    },
}

impl MeasureKind {
    /// Returns the name in the canonical form, and the kind's rank among the columns of a level.
    pub(super) fn label(&self) -> (&'static str, u8) {
        match self {
            Self::Count => ("count", 0),
            Self::Sum(_) => ("sum", 1),
            Self::Min(_) => ("min", 2),
            Self::Max(_) => ("max", 3),
            Self::Mean(_) => ("mean", 4),
            Self::Variance(_) => ("variance", 5),
            Self::Histogram { .. } => ("histogram", 6),
            Self::Distinct { .. } => ("distinct", 7),
        }
    }
}

/// A measure of a rollup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measure {
    /// Name of the measure, with which the names of its columns begin.
    pub name: String,
    /// Computation and fields.
    pub kind: MeasureKind,
    /// Finest level that has the measure.
    pub from: Level,
    /// Condition on the events that it counts; `None` for all events.
    pub filter: Option<Condition>,
}

impl Measure {
    /// Returns the number field that the measure reads.
    pub(super) fn number(&self) -> Option<&Number> {
        match &self.kind {
            MeasureKind::Sum(field)
            | MeasureKind::Min(field)
            | MeasureKind::Max(field)
            | MeasureKind::Mean(field)
            | MeasureKind::Variance(field)
            | MeasureKind::Histogram { field, .. } => Some(field),
            MeasureKind::Count | MeasureKind::Distinct { .. } => None,
        }
    }
}
