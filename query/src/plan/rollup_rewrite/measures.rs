//! Aggregates as merges of the states in a rollup's levels.
//!
//! Each aggregate is split into three: partial columns that every piece of an answer has, the
//! merge of these over all pieces, and the computation of the result from the merged columns. A
//! level computes a partial column cell by cell; raw events compute it with an aggregate of
//! DataFusion's own.

use aggregator::{Definition, EXACT_TYPE, Level, Measure, MeasureKind, exact_column};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::FunctionRegistry;
use datafusion::functions_aggregate::expr_fn::{count, max, min, sum};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{Cast, Expr, ExprFunctionExt, cast, lit, when};
use storage::TIME;

use super::cells::KeyColumns;
use crate::plan::checked_sums::{fits, label_of, mean, undecimal};

/// Merge of a partial column over all pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartialMerge {
    Sum,
    Min,
    Max,
    /// Merge of histogram states; raw events have none.
    Histograms,
    /// Merge of states of distinct values; raw events have none.
    Distincts,
}

impl PartialMerge {
    pub(super) fn of(self, column: Expr, functions: &dyn FunctionRegistry) -> Result<Expr> {
        let states =
            |name: &str| -> Result<Expr> { Ok(functions.udaf(name)?.call(vec![column.clone()])) };
        match self {
            Self::Sum => Ok(sum(column)),
            Self::Min => Ok(min(column)),
            Self::Max => Ok(max(column)),
            Self::Histograms => states("hist_merge"),
            Self::Distincts => states("distinct_merge"),
        }
    }
}

/// A partial column, which every piece has.
#[derive(Debug, Clone)]
pub(super) struct Partial {
    /// Value from a cell, over the stream's columns for keys and `time`, over the level's for
    /// measures.
    pub(super) of_cell: CellValue,
    /// Value from raw events, over the input's columns; `None` when raw events cannot compute it.
    pub(super) of_raw: Option<Expr>,
    pub(super) merge: PartialMerge,
    /// Type of the column; `None` for the type of the aggregate.
    pub(super) data_type: Option<DataType>,
}

/// The value of a cell in a partial column.
#[derive(Debug, Clone)]
pub(super) enum CellValue {
    /// The column of a measure.
    Measure(String),
    /// A value computed from the keys.
    Keys(Expr),
    /// A value computed from the keys, multiplied by the number of events in the cell: its
    /// column.
    Times(Expr, String),
}

impl CellValue {
    /// Returns the expression that is computed from keys, if there is one.
    pub(super) fn over_keys(&self) -> Option<&Expr> {
        match self {
            Self::Keys(expr) | Self::Times(expr, _) => Some(expr),
            Self::Measure(_) => None,
        }
    }
}

/// An aggregate, split into partial columns, their merge and the result.
pub(super) struct Merged {
    /// The finest level that has all the measures needed.
    pub(super) from: Level,
    pub(super) partials: Vec<Partial>,
    /// Filter of the aggregated events, over the stream's columns.
    pub(super) filter: Option<Expr>,
    /// Computation of the result from the merged columns.
    pub(super) finish: Finish,
}

/// Computation of a result from merged columns.
#[derive(Debug, Clone)]
pub(super) enum Finish {
    /// The first column, unchanged.
    Same,
    /// The first column, a sum of integers, when it fits 64 bits; otherwise an error with this
    /// label.
    Fits(String),
    /// The first column; 0 when there was no event.
    Count,
    /// The first column divided by the second.
    Mean,
    /// This quantile of a histogram.
    Quantile(Expr),
    /// The size of a set of distinct values.
    Size,
}

impl Finish {
    pub(super) fn of(&self, merged: &[Expr], functions: &dyn FunctionRegistry) -> Result<Expr> {
        Ok(match self {
            Self::Same => merged[0].clone(),
            Self::Fits(label) => fits(merged[0].clone(), label),
            Self::Count => {
                when(merged[0].clone().is_null(), lit(0_i64)).otherwise(merged[0].clone())?
            }
            Self::Mean => mean(merged[0].clone(), merged[1].clone())?,
            Self::Quantile(at) => {
                let args = vec![merged[0].clone(), at.clone()];
                functions.udf("hist_quantile")?.call(args)
            }
            Self::Size => functions
                .udf("distinct_count")?
                .call(vec![merged[0].clone()]),
        })
    }
}

/// The measures of a rollup from which aggregates can be computed.
pub(super) struct Measures<'a> {
    pub(super) definition: &'a Definition,
    pub(super) keys: &'a KeyColumns,
}

impl Measures<'_> {
    /// Splits an aggregate, if this rollup has all the measures for it. `resolved` is the same
    /// aggregate over the stream's columns.
    pub(super) fn merged(
        &self,
        aggregate: &AggregateFunction,
        resolved: &AggregateFunction,
    ) -> Option<Merged> {
        let AggregateFunctionParams {
            args,
            distinct,
            filter,
            order_by,
            null_treatment,
        } = &resolved.params;
        let name = aggregate.func.name();
        let is_percentile = name == "approx_percentile_cont";
        if *distinct || (!order_by.is_empty() && !is_percentile) || null_treatment.is_some() {
            return None;
        }
        if let Some(filter) = filter
            && !self.keys.are_enough_for(filter)
        {
            return None;
        }
        let raw = Raw(&aggregate.params);
        let mut merged = match (name, args.as_slice()) {
            ("count", [arg]) => self.count(arg, &raw)?,
            ("sum", [arg]) => self.sum(arg, &raw)?,
            ("min", [arg]) => self.extreme(arg, &raw, PartialMerge::Min)?,
            ("max", [arg]) => self.extreme(arg, &raw, PartialMerge::Max)?,
            ("avg", [arg]) => self.mean(arg, &raw)?,
            ("approx_percentile_cont", [arg, at]) => self.quantile(arg, at.clone())?,
            ("approx_median", [arg]) => self.quantile(arg, lit(0.5))?,
            ("approx_distinct", [arg]) => self.distinct(arg)?,
            _ => return None,
        };
        merged.filter = filter.as_deref().cloned();
        Some(merged)
    }

    fn count(&self, arg: &Expr, raw: &Raw<'_>) -> Option<Merged> {
        let is_never_null = match arg {
            Expr::Literal(value, _) => !value.is_null(),
            Expr::Column(column) => column.name == TIME,
            _ => false,
        };
        let (from, of_cell) = if is_never_null {
            let (from, hits) = self.hits()?;
            (from, CellValue::Measure(hits))
        } else if self.keys.are_enough_for(arg) {
            let (from, hits) = self.hits()?;
            let one = when(arg.clone().is_not_null(), lit(1_i64)).otherwise(lit(0_i64));
            (from, CellValue::Times(one.ok()?, hits))
        } else {
            let (from, column) = self.numbers(arg, "_count")?;
            (from, CellValue::Measure(column))
        };
        let partial = Partial {
            of_cell,
            of_raw: Some(raw.with(count(raw.arg()))?),
            merge: PartialMerge::Sum,
            data_type: Some(DataType::Int64),
        };
        Some(made(from, vec![partial], Finish::Count))
    }

    fn sum(&self, arg: &Expr, raw: &Raw<'_>) -> Option<Merged> {
        let (whole, raw_arg) = (undecimal(arg), raw.arg());
        let (from, partial) = self.total(whole, undecimal(&raw_arg).clone(), raw)?;
        let finish = match whole == arg {
            true => Finish::Fits(label_of(&raw_arg)),
            // The query requested a decimal, so the result stays one.
            false => Finish::Same,
        };
        Some(made(from, vec![partial], finish))
    }

    /// Returns the sum of integers, as a decimal.
    fn total(&self, arg: &Expr, raw_arg: Expr, raw: &Raw<'_>) -> Option<(Level, Partial)> {
        let mut raw_arg = raw_arg;
        let (from, of_cell) = if self.keys.are_enough_for(arg) {
            let (from, hits) = self.hits()?;
            let whole = match arg {
                key if self.keys.is_integer(key) => {
                    raw_arg = cast(raw_arg, DataType::Int64);
                    cast(arg.clone(), DataType::Int64)
                }
                // Only these other expressions reveal their type here; any other may be a float.
                Expr::Cast(Cast { field, .. }) if *field.data_type() == DataType::Int64 => {
                    arg.clone()
                }
                other if is_whole_choice(other) => arg.clone(),
                _ => return None,
            };
            (from, CellValue::Times(cast(whole, EXACT_TYPE), hits))
        } else {
            let (from, column) = self.numbers(arg, "_sum")?;
            let exact = exact_column(self.definition, &column)?;
            (from, CellValue::Measure(exact))
        };
        let partial = Partial {
            of_cell,
            of_raw: Some(raw.with(sum(cast(raw_arg, EXACT_TYPE)))?),
            merge: PartialMerge::Sum,
            data_type: Some(EXACT_TYPE),
        };
        Some((from, partial))
    }

    fn extreme(&self, arg: &Expr, raw: &Raw<'_>, merge: PartialMerge) -> Option<Merged> {
        let suffix = if merge == PartialMerge::Min {
            "_min"
        } else {
            "_max"
        };
        let of_raw = if merge == PartialMerge::Min { min } else { max }(raw.arg());
        let (from, of_cell) = if self.keys.are_enough_for(arg) {
            (self.hits()?.0, CellValue::Keys(arg.clone()))
        } else {
            let (from, column) = self.numbers(arg, suffix)?;
            (from, CellValue::Measure(column))
        };
        let partial = Partial {
            of_cell,
            of_raw: Some(raw.with(of_raw)?),
            merge,
            data_type: None,
        };
        Some(made(from, vec![partial], Finish::Same))
    }

    /// Computes the mean of integers from their exact sum. DataFusion casts them to doubles.
    fn mean(&self, arg: &Expr, raw: &Raw<'_>) -> Option<Merged> {
        let (whole, raw_whole) = (uncast(arg), uncast(&raw.arg()).clone());
        let (from, total) = self.total(whole, raw_whole.clone(), raw)?;
        let mut counted = self.count(whole, raw)?;
        counted.partials[0].of_raw = Some(raw.with(count(raw_whole))?);
        let partials = vec![total, counted.partials.pop()?];
        Some(made(from.max(counted.from), partials, Finish::Mean))
    }

    fn quantile(&self, arg: &Expr, at: Expr) -> Option<Merged> {
        let (from, column) = self.numbers(uncast(arg), "")?;
        let partial = Partial {
            of_cell: CellValue::Measure(column),
            of_raw: None,
            merge: PartialMerge::Histograms,
            data_type: Some(DataType::Binary),
        };
        Some(made(from, vec![partial], Finish::Quantile(at)))
    }

    fn distinct(&self, arg: &Expr) -> Option<Merged> {
        let Expr::Column(column) = arg else {
            return None;
        };
        let measure = self.measures().find(
            |m| matches!(&m.kind, MeasureKind::Distinct { field } if *field == column.name),
        )?;
        let partial = Partial {
            of_cell: CellValue::Measure(format!("{}_state", measure.name)),
            of_raw: None,
            merge: PartialMerge::Distincts,
            data_type: Some(DataType::Binary),
        };
        Some(made(measure.from, vec![partial], Finish::Size))
    }

    /// Returns the measures without a filter, which cover every event.
    fn measures(&self) -> impl Iterator<Item = &Measure> {
        let all = self.definition.measures().iter();
        all.filter(|measure| measure.filter.is_none())
    }

    /// Returns the measure that counts events, and the finest level that has it.
    pub(super) fn hits(&self) -> Option<(Level, String)> {
        let mut counts = self.measures().filter(|m| m.kind == MeasureKind::Count);
        counts.next().map(|m| (m.from, m.name.clone()))
    }

    /// Returns the column with the statistic `what` of a field, and the finest level that has it.
    /// Accepts only integers: sums of floats depend on their order.
    fn numbers(&self, arg: &Expr, what: &str) -> Option<(Level, String)> {
        let Expr::Column(column) = arg else {
            return None;
        };
        let fits = |measure: &&Measure| -> Option<String> {
            let (number, name) = match (&measure.kind, what) {
                (MeasureKind::Sum(number), "_sum")
                | (MeasureKind::Min(number), "_min")
                | (MeasureKind::Max(number), "_max") => (number, measure.name.clone()),
                (MeasureKind::Histogram { field, .. }, _) => {
                    (field, format!("{}{what}", measure.name))
                }
                _ => return None,
            };
            (number.field == column.name && !number.scaled).then_some(name)
        };
        let found = self.measures().filter_map(|m| Some((m.from, fits(&m)?)));
        found.min_by_key(|(from, _)| *from)
    }
}

fn made(from: Level, partials: Vec<Partial>, finish: Finish) -> Merged {
    Merged {
        from,
        partials,
        filter: None,
        finish,
    }
}

/// The aggregate as it was written, over the input's columns.
struct Raw<'a>(&'a AggregateFunctionParams);

impl Raw<'_> {
    fn arg(&self) -> Expr {
        self.0.args[0].clone()
    }

    /// Adds the filter of this aggregate to another one.
    fn with(&self, aggregate: Expr) -> Option<Expr> {
        match &self.0.filter {
            Some(filter) => aggregate.filter((**filter).clone()).build().ok(),
            None => Some(aggregate),
        }
    }
}

/// Returns the operand of a cast to a double; any other expression unchanged.
fn uncast(arg: &Expr) -> &Expr {
    match arg {
        Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Float64 => expr,
        other => other,
    }
}

/// Returns whether an expression chooses between integer constants: `CASE … THEN 1 ELSE 0 END`.
fn is_whole_choice(arg: &Expr) -> bool {
    let is_whole = |e: &Expr| {
        matches!(
            e,
            Expr::Literal(ScalarValue::Int64(_) | ScalarValue::Null, _)
        )
    };
    match arg {
        Expr::Case(case) => {
            case.when_then_expr.iter().all(|(_, then)| is_whole(then))
                && case.else_expr.as_deref().is_none_or(is_whole)
        }
        _ => false,
    }
}
