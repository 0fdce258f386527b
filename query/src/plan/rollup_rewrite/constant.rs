//! The proof that an expression over keys and `time` has one value in every bucket of a level.
//!
//! # Invariant
//! [`Proof::holds`] is true only if the expression has one value for all instants of each bucket
//! of the level that meets the events' times and has none of the expression's [`cuts`] within.
//! The proof never samples the expression at some instants of a bucket: it knows all instants at
//! which the expression may change, and checks each of them.
//!
//! # The closed list
//! An expression is constant in buckets if it is
//! 1. a key or a literal: a cell has one value of each key;
//! 2. `time` compared with constants: it changes only at the [`cuts`], and no bucket that is used
//!    has one of them within (`cover.rs`);
//! 3. a function of `time` for which [`changes`] knows all instants where it may change, and each
//!    of these is the first instant of a bucket, or the function has the same value just before
//!    it and at it;
//! 4. an operator, a `CASE`, a cast or an immutable function of expressions that are constant.
//!
//! Everything else is not known to be constant, and raw events answer it: `time` itself, volatile
//! and stable functions, subqueries, outer references, aggregates, windows, placeholders,
//! lambdas, and each function of `time` that is not listed in [`changes`]. A boolean is decided
//! by its leaves: `date_trunc('hour', time) = c` is true in few buckets of a day and false in
//! most, and is constant only where `date_trunc('hour', time)` is.
//!
//! Outside of the years 1900 to 2200 nothing is known: beyond the range of 64 bits of
//! nanoseconds, functions return null or an error for some instants.

mod changes;
mod clock;
mod zones;

use std::cell::RefCell;
use std::sync::Arc;

use aggregator::{Calendar, Level};
use arrow::array::{RecordBatch, TimestampMicrosecondArray, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, Volatility};
use datafusion::physical_expr::create_physical_expr;
use storage::TIME;

use crate::tables::stream::prune::TimeRange;
use changes::{Changes, Days};
use clock::DAY_US;
use zones::{OffsetSpan, Zone};

/// 1900-01-01T00:00:00Z and 2200-01-01T00:00:00Z.
const KNOWN_YEARS: TimeRange = TimeRange {
    first: -2_208_988_800_000_000,
    last: 7_258_118_400_000_000,
};

/// Proves expressions constant in the buckets of one calendar that meet some times.
pub(super) struct Proof {
    calendar: Calendar,
    /// Range of the events' times.
    events: TimeRange,
    /// Cache of the spans of constant offset, by zone.
    spans: RefCell<Vec<(Zone, Arc<[OffsetSpan]>)>>,
}

impl Proof {
    pub(super) fn new(calendar: Calendar, events: TimeRange) -> Self {
        Self {
            calendar,
            events,
            spans: RefCell::default(),
        }
    }

    /// Returns whether an expression over the stream's columns has one value in each bucket of a
    /// level that meets the events' times and has no cut within. `false` when that is not known.
    pub(super) fn holds(&self, expr: &Expr, level: Level) -> bool {
        self.is_constant(expr, level, self.whole_buckets(level))
    }

    /// Returns the levels in whose buckets all the expressions are constant, the coarsest first.
    pub(super) fn levels<'e, I: Iterator<Item = &'e Expr>>(
        &self,
        coarsest_first: impl Iterator<Item = Level>,
        exprs: impl Fn() -> I,
    ) -> Vec<Level> {
        let mut proved: Vec<Level> = Vec::new();
        for level in coarsest_first {
            if proved.iter().any(|coarser| lies_in(level, *coarser))
                || exprs().all(|expr| self.holds(expr, level))
            {
                proved.push(level);
            }
        }
        proved
    }

    /// Returns the range from the first instant of the first bucket to the last instant of the
    /// last one; `None` when it reaches beyond the known years.
    fn whole_buckets(&self, level: Level) -> Option<TimeRange> {
        let known = |at_us: i64| KNOWN_YEARS.contains(at_us);
        if !known(self.events.first) || !known(self.events.last) {
            return None;
        }
        let bucket = |at_us| self.calendar.bucket(level, at_us);
        Some(TimeRange {
            first: bucket(self.events.first).start_us,
            last: bucket(self.events.last).end_us - 1,
        })
    }

    fn is_constant(&self, expr: &Expr, level: Level, buckets: Option<TimeRange>) -> bool {
        if let Some(changes) = changes::of(expr) {
            return match (&changes, buckets) {
                (Changes::At(_), _) => true,
                (_, Some(buckets)) => self.are_edges(&changes, expr, level, buckets),
                (_, None) => false,
            };
        }
        if matches!(expr, Expr::Column(column) if column.name == TIME) || !is_listed(expr) {
            return false;
        }
        let mut are_constant = true;
        let walked = expr.apply_children(|child| {
            are_constant &= self.is_constant(child, level, buckets);
            Ok(match are_constant {
                true => TreeNodeRecursion::Continue,
                false => TreeNodeRecursion::Stop,
            })
        });
        walked.is_ok() && are_constant
    }

    /// Returns whether each change within the buckets is the first instant of one of them, or
    /// leaves the value as it was.
    fn are_edges(&self, changes: &Changes, expr: &Expr, level: Level, buckets: TimeRange) -> bool {
        let is_edge = |at_us: i64| self.calendar.bucket(level, at_us).start_us == at_us;
        let is_within = |at_us: i64| buckets.first < at_us && at_us <= buckets.last;
        let zone = match changes {
            Changes::At(_) => return true,
            Changes::Every { zone, .. } | Changes::Days { zone, .. } => zone,
        };
        let spans = self.spans(zone);
        // A change of offset shifts the local time, which some functions show and others do not.
        let shifts = spans.iter().skip(1).map(|span| span.range.first);
        let shifts: Vec<i64> = shifts
            .filter(|at| is_within(*at) && !is_edge(*at))
            .collect();
        if !shifts.is_empty() && !is_same_around(expr, &shifts).unwrap_or(false) {
            return false;
        }
        spans.iter().all(|span| {
            let Some(within) = span.within(buckets) else {
                return true;
            };
            match *changes {
                Changes::Every {
                    width_us,
                    origin_us,
                    ..
                } => {
                    let grid = Grid {
                        width_us,
                        origin_us: origin_us - span.offset_us,
                    };
                    match level {
                        Level::Minute | Level::Hour => self.is_on_clock(grid, level, within),
                        _ => grid.instants_in(within).all(is_edge),
                    }
                }
                Changes::Days { days, .. } => {
                    let midnights = Grid {
                        width_us: DAY_US,
                        origin_us: -span.offset_us,
                    };
                    let day = |at_us: i64| (at_us + span.offset_us).div_euclid(DAY_US);
                    let begins = |at_us: &i64| days.begin_with(day(*at_us));
                    midnights.instants_in(within).filter(begins).all(is_edge)
                }
                Changes::At(_) => true,
            }
        })
    }

    /// Returns whether each instant of a grid within a range is the start of a minute or hour of
    /// the calendar. There are too many instants to check each one. But between two changes of
    /// the calendar's offset, minutes and hours form a grid too, so the two grids are compared.
    fn is_on_clock(&self, grid: Grid, level: Level, range: TimeRange) -> bool {
        let width_us = match level {
            Level::Minute => 60_000_000,
            _ => 3_600_000_000,
        };
        // A minute and an hour begin wherever the calendar's offset changes.
        let spans = self.spans(&Zone::of(self.calendar.zone()));
        spans.iter().all(|span| {
            let Some(within) = span.within(range) else {
                return true;
            };
            let Some(first_us) = grid.first_in(within) else {
                return true;
            };
            let is_alone = first_us + grid.width_us > within.last;
            (first_us + span.offset_us).rem_euclid(width_us) == 0
                && (is_alone || grid.width_us % width_us == 0)
        })
    }

    /// Returns the spans of constant offset around the buckets of all levels.
    fn spans(&self, zone: &Zone) -> Arc<[OffsetSpan]> {
        let mut known = self.spans.borrow_mut();
        if let Some((_, spans)) = known.iter().find(|(other, _)| other == zone) {
            return Arc::clone(spans);
        }
        let around = Level::ALL.map(|level| {
            let bucket = |at_us| self.calendar.bucket(level, at_us);
            (
                bucket(self.events.first).start_us,
                bucket(self.events.last).end_us,
            )
        });
        let range = TimeRange {
            first: around.iter().map(|a| a.0).min().unwrap_or(i64::MIN) - 2 * DAY_US,
            last: around.iter().map(|a| a.1).max().unwrap_or(i64::MAX) + 2 * DAY_US,
        };
        let spans: Arc<[OffsetSpan]> = zone.spans(range).into();
        known.push((*zone, Arc::clone(&spans)));
        spans
    }
}

/// Returns whether each bucket of a level lies in one of a coarser level.
fn lies_in(level: Level, coarser: Level) -> bool {
    match coarser {
        Level::Year => level != Level::Week,
        Level::Month => level <= Level::Day,
        _ => level <= coarser,
    }
}

/// Instants that are a whole number of widths from an origin.
#[derive(Debug, Clone, Copy)]
struct Grid {
    width_us: i64,
    origin_us: i64,
}

impl Grid {
    /// Returns the first instant of the grid in a range, except the first instant of the range
    /// itself: that one is an edge, or was checked already.
    fn first_in(self, range: TimeRange) -> Option<i64> {
        let from = range.first + 1;
        let first = from + (self.origin_us - from).rem_euclid(self.width_us);
        (first <= range.last).then_some(first)
    }

    fn instants_in(self, range: TimeRange) -> impl Iterator<Item = i64> {
        let next = move |at_us: &i64| Some(at_us + self.width_us).filter(|at| *at <= range.last);
        std::iter::successors(self.first_in(range), next)
    }
}

impl Days {
    /// Returns whether one of these runs of days begins on `day`, counted from 1970-01-01.
    fn begin_with(self, day: i64) -> bool {
        use chrono::Datelike;
        match self {
            Self::Every { days, first } => (day - first).rem_euclid(days) == 0,
            Self::Months(months) => {
                let date = i32::try_from(day)
                    .ok()
                    .and_then(chrono::NaiveDate::from_epoch_days);
                // A day beyond the calendar may be any date, so it counts as a beginning.
                date.is_none_or(|date| {
                    let month = i64::from(date.year()) * 12 + i64::from(date.month0());
                    date.day() == 1 && month.rem_euclid(months) == 0
                })
            }
        }
    }
}

/// Returns the instants at which comparisons of `time` with constants change, in order. A bucket
/// with none of them within has one value of each comparison.
pub(super) fn cuts<'e>(exprs: impl Iterator<Item = &'e Expr>) -> Vec<i64> {
    let mut cuts = Vec::new();
    for expr in exprs {
        let walked = expr.apply(|e| {
            if let Some(Changes::At(instants)) = changes::of(e) {
                cuts.extend(instants);
            }
            Ok(TreeNodeRecursion::Continue)
        });
        walked.expect("BUG: walking does not fail");
    }
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// Returns whether the value of an expression depends on nothing but the values of its children.
fn is_listed(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => call.func.signature().volatility == Volatility::Immutable,
        Expr::Alias(_)
        | Expr::Column(_)
        | Expr::Literal(..)
        | Expr::BinaryExpr(_)
        | Expr::Like(_)
        | Expr::SimilarTo(_)
        | Expr::Not(_)
        | Expr::IsNotNull(_)
        | Expr::IsNull(_)
        | Expr::IsTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNotFalse(_)
        | Expr::IsNotUnknown(_)
        | Expr::Negative(_)
        | Expr::Between(_)
        | Expr::Case(_)
        | Expr::Cast(_)
        | Expr::TryCast(_)
        | Expr::InList(_) => true,
        _ => false,
    }
}

/// Returns whether an expression over `time` has the same value just before each of some instants
/// and at it.
fn is_same_around(expr: &Expr, instants: &[i64]) -> Result<bool> {
    let times = instants.iter().flat_map(|at_us| [at_us - 1, *at_us]);
    let values = values_at(expr, times.collect())?;
    let compare = make_comparator(&values, &values, SortOptions::default())?;
    Ok((0..instants.len()).all(|nth| compare(2 * nth, 2 * nth + 1).is_eq()))
}

/// Returns the values of an expression over `time` at some instants.
pub(super) fn values_at(expr: &Expr, times: Vec<i64>) -> Result<arrow::array::ArrayRef> {
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let schema = Arc::new(Schema::new(vec![Field::new(TIME, utc, false)]));
    let compiled = create_physical_expr(
        expr,
        &DFSchema::try_from(Arc::clone(&schema))?,
        &ExecutionProps::new(),
        &PhysicalPlanningContext::default(),
    )?;
    let rows = times.len();
    let times = TimestampMicrosecondArray::from(times).with_timezone("UTC");
    let batch = RecordBatch::try_new(schema, vec![Arc::new(times)])?;
    compiled.evaluate(&batch)?.into_array(rows)
}

#[cfg(test)]
mod tests;
