//! Sums of integers that do not wrap.
//!
//! # Invariants
//! * A sum of integers is the integer, or an error that names it and says how to ask for more than
//!   64 bits. It is added up as a decimal of 38 digits, which the events of no store exceed, and
//!   checked in the end: intermediate sums, the order of events and the division of work do not
//!   show.
//! * The mean of integers is their exact sum by their number.
//! * So say the sums and means that a rollup answers (`rollup_rewrite/measures.rs`).
//! * Sums beyond 64 bits that a level holds are null when its cells are read as they are, and an
//!   error where cells are added up: they would be left out without a word.

use std::any::Any;
use std::sync::Arc;

use aggregator::EXACT_TYPE;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, UInt64Array};
use arrow::datatypes::{DataType, Decimal128Type};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::logical_expr::expr::{
    AggregateFunction, AggregateFunctionParams, WindowFunction, WindowFunctionDefinition,
};
use datafusion::logical_expr::{
    Aggregate, Cast, ColumnarValue, Expr, ExprFunctionExt, ExprSchemable, LogicalPlan,
    LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    Window, cast, lit, when,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::error::Error;
use crate::level::LevelTable;
use crate::rollup_rewrite::PARTIAL;
use crate::stream::derive::over_arrays;
use crate::stream::source::plain;

/// The rule.
#[derive(Debug)]
pub(crate) struct CheckedSums;

impl OptimizerRule for CheckedSums {
    fn name(&self) -> &'static str {
        "checked_sums"
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }
    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate),
            LogicalPlan::Window(window) => of_window(window),
            other => Ok(Transformed::no(other)),
        }
    }
}

fn of_aggregate(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let input = refusing(&aggregate.input)?;
    let schema = Arc::clone(input.data.schema());
    let mut checked = Checked::default();
    for expr in &aggregate.aggr_expr {
        checked.add_aggregate(expr, &schema)?;
    }
    if !checked.is_any && !input.transformed {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let was = Arc::clone(&aggregate.schema);
    let plan = Aggregate::try_new(input.data, aggregate.group_expr, checked.inner)?;
    let groups = was.fields().len() - checked.outer.len();
    finish(LogicalPlan::Aggregate(plan), &was, groups, checked.outer)
}

fn of_window(window: Window) -> Result<Transformed<LogicalPlan>> {
    let input = refusing(&window.input)?;
    let schema = Arc::clone(input.data.schema());
    let mut checked = Checked::default();
    for expr in &window.window_expr {
        checked.add_window(expr, &schema)?;
    }
    if !checked.is_any && !input.transformed {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let was = Arc::clone(&window.schema);
    let plan = Window::try_new(checked.inner, input.data)?;
    let before = was.fields().len() - checked.outer.len();
    finish(LogicalPlan::Window(plan), &was, before, checked.outer)
}

/// The columns that a node had, of one that has others: the first as they are, then `outer`.
fn finish(
    plan: LogicalPlan,
    was: &DFSchema,
    kept: usize,
    outer: Vec<Option<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let columns = was.columns().into_iter().take(kept).map(Expr::Column);
    let named = outer.into_iter().zip(was.iter().skip(kept));
    let outer = named.map(|(expr, (table, field))| match expr {
        Some(expr) => expr.alias_qualified(table.cloned(), field.name()),
        None => Expr::Column(Column::new(table.cloned(), field.name())),
    });
    let all: Vec<Expr> = columns.chain(outer).collect();
    let plan = LogicalPlanBuilder::from(plan).project(all)?.build()?;
    Ok(Transformed::yes(plan))
}

/// The expressions of a node made anew, and what gives the old ones back.
#[derive(Default)]
struct Checked {
    inner: Vec<Expr>,
    /// `None` for one that is kept.
    outer: Vec<Option<Expr>>,
    is_any: bool,
}

impl Checked {
    fn add_aggregate(&mut self, expr: &Expr, input: &DFSchema) -> Result<()> {
        if let Expr::AggregateFunction(function) = expr.clone().unalias()
            && let [arg] = function.params.args.as_slice()
        {
            match function.func.name() {
                "sum" if is_checked(arg, input)? => {
                    let label = label_of(arg);
                    let unsigned = arg.get_type(input)? == DataType::UInt64;
                    let decimal = over_decimal(&function, arg);
                    let decimal = self.push(Expr::AggregateFunction(decimal));
                    self.outer
                        .push(Some(Fits { unsigned }.call(decimal, &label)));
                    return Ok(());
                }
                "avg" if !function.params.distinct => {
                    if let Some(whole) = whole_of_mean(arg, input)? {
                        return self.add_mean(&function, whole);
                    }
                }
                _ => {}
            }
        }
        self.keep(expr);
        Ok(())
    }

    fn add_mean(&mut self, function: &AggregateFunction, whole: &Expr) -> Result<()> {
        let with = |aggregate: Expr| match &function.params.filter {
            Some(filter) => aggregate.filter((**filter).clone()).build(),
            None => Ok(aggregate),
        };
        let total = with(sum(cast(whole.clone(), EXACT_TYPE)))?;
        let number = with(count(whole.clone()))?;
        let (total, number) = (self.push(total), self.push(number));
        self.outer.push(Some(mean(total, number)?));
        Ok(())
    }

    fn add_window(&mut self, expr: &Expr, input: &DFSchema) -> Result<()> {
        if let Expr::WindowFunction(function) = expr.clone().unalias()
            && let WindowFunctionDefinition::AggregateUDF(udf) = &function.fun
            && udf.name() == "sum"
            && let [arg] = function.params.args.as_slice()
            && is_checked(arg, input)?
        {
            let label = label_of(arg);
            let unsigned = arg.get_type(input)? == DataType::UInt64;
            let mut decimal: WindowFunction = (*function).clone();
            decimal.params.args = vec![cast(arg.clone(), EXACT_TYPE)];
            let decimal = self.push(Expr::WindowFunction(Box::new(decimal)));
            self.outer
                .push(Some(Fits { unsigned }.call(decimal, &label)));
            return Ok(());
        }
        self.keep(expr);
        Ok(())
    }

    fn keep(&mut self, expr: &Expr) {
        self.inner.push(expr.clone());
        self.outer.push(None);
    }

    /// An expression under a name of its own: the same may be asked for twice.
    fn push(&mut self, expr: Expr) -> Expr {
        self.is_any = true;
        let name = format!("__checked_{}", self.inner.len());
        self.inner.push(expr.alias(&name));
        plain(&name)
    }
}

/// Returns whether a sum is one of integers. Those that merge what the rollup rewrite has checked
/// are not.
fn is_checked(arg: &Expr, input: &DFSchema) -> Result<bool> {
    let is_partial = matches!(arg, Expr::Column(c) if c.name.starts_with(PARTIAL));
    Ok(!is_partial && arg.get_type(input)?.is_integer())
}

fn over_decimal(function: &AggregateFunction, arg: &Expr) -> AggregateFunction {
    let params = AggregateFunctionParams {
        args: vec![cast(arg.clone(), EXACT_TYPE)],
        ..function.params.clone()
    };
    AggregateFunction {
        params,
        ..function.clone()
    }
}

/// The integers of a mean, which DataFusion takes as doubles.
fn whole_of_mean<'a>(arg: &'a Expr, input: &DFSchema) -> Result<Option<&'a Expr>> {
    Ok(match arg {
        Expr::Cast(Cast { expr, field })
            if *field.data_type() == DataType::Float64 && expr.get_type(input)?.is_integer() =>
        {
            Some(expr)
        }
        _ => None,
    })
}

/// A mean of its exact sum and its number, null of none.
pub(crate) fn mean(total: Expr, number: Expr) -> Result<Expr> {
    let double = |expr: Expr| cast(expr, DataType::Float64);
    when(
        number.clone().gt(lit(0_i64)),
        double(total) / double(number),
    )
    .end()
}

/// The operand of a cast to a decimal of whole numbers that holds every integer.
pub(crate) fn undecimal(arg: &Expr) -> &Expr {
    match arg {
        Expr::Cast(Cast { expr, field })
            if matches!(field.data_type(), DataType::Decimal128(19.., 0)) =>
        {
            expr
        }
        other => other,
    }
}

/// The words in which an error names the argument of a sum.
pub(crate) fn label_of(arg: &Expr) -> String {
    match arg {
        Expr::Cast(Cast { expr, .. }) => label_of(expr),
        Expr::Column(column) => column.name.clone(),
        other => other.schema_name().to_string(),
    }
}

/// A sum of integers as 64 bits; an error that names it when it does not fit.
pub(crate) fn fits(sum: Expr, label: &str) -> Expr {
    Fits { unsigned: false }.call(sum, label)
}

/// Every level that is read below here refuses sums that are too large.
fn refusing(input: &Arc<LogicalPlan>) -> Result<Transformed<Arc<LogicalPlan>>> {
    let has_level = input.exists(|node| Ok(level_of(node).is_some_and(|l| l.refusing().is_some())));
    if !has_level? {
        return Ok(Transformed::no(Arc::clone(input)));
    }
    let plan = LogicalPlan::clone(input).transform_down(|node| {
        let Some(table) = level_of(&node).and_then(|level| level.refusing()) else {
            return Ok(Transformed::no(node));
        };
        let LogicalPlan::TableScan(mut scan) = node else {
            return Ok(Transformed::no(node));
        };
        scan.source = provider_as_source(Arc::new(table));
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    })?;
    Ok(Transformed::yes(Arc::new(plan.data)))
}

fn level_of(node: &LogicalPlan) -> Option<LevelTable> {
    let LogicalPlan::TableScan(scan) = node else {
        return None;
    };
    let provider = source_as_provider(&scan.source).ok()?;
    (&*provider as &dyn Any)
        .downcast_ref::<LevelTable>()
        .cloned()
}

/// `fits(sum, 'response_size')`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Fits {
    unsigned: bool,
}

impl Fits {
    fn call(self, sum: Expr, label: &str) -> Expr {
        ScalarUDF::from(FitsFunction::new(self)).call(vec![sum, lit(label)])
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FitsFunction {
    signature: Signature,
    fits: Fits,
}

impl FitsFunction {
    fn new(fits: Fits) -> Self {
        let types = vec![EXACT_TYPE, DataType::Utf8];
        Self {
            signature: Signature::exact(types, Volatility::Immutable),
            fits,
        }
    }
}

impl ScalarUDFImpl for FitsFunction {
    fn name(&self) -> &str {
        "sum_fits_64_bits"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.fits.unsigned {
            true => DataType::UInt64,
            false => DataType::Int64,
        })
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let unsigned = self.fits.unsigned;
        over_arrays(args, |columns| {
            let sums = columns[0].as_primitive::<Decimal128Type>();
            let labels = columns[1].as_string::<i32>();
            let refused = |row: usize, sum: i128| {
                let label = if labels.is_null(row) {
                    ""
                } else {
                    labels.value(row)
                };
                Error::invalid(format!(
                    "sum({label}) is {sum}, which exceeds 64 bits; \
                     ask for sum(CAST({label} AS DECIMAL(38, 0)))"
                ))
            };
            let rows = sums.iter().enumerate();
            Ok(if unsigned {
                let whole = rows.map(|(row, sum)| {
                    let fit = |s: i128| u64::try_from(s).map_err(|_| refused(row, s));
                    sum.map(fit).transpose()
                });
                Arc::new(whole.collect::<Result<UInt64Array, Error>>()?) as ArrayRef
            } else {
                let whole = rows.map(|(row, sum)| {
                    let fit = |s: i128| i64::try_from(s).map_err(|_| refused(row, s));
                    sum.map(fit).transpose()
                });
                Arc::new(whole.collect::<Result<Int64Array, Error>>()?) as ArrayRef
            })
        })
    }
}

#[cfg(test)]
mod tests;
