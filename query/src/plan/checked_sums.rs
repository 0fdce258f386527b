//! Sums of integers that do not wrap.
//!
//! # Invariants
//! * A sum of integers is the integer, or an error that names it and explains how to request more
//!   than 64 bits. The sum is added up with 128 bits, which the events of no store exceed, and
//!   checked at the end. So intermediate sums, the order of events and the division of work have
//!   no effect ([`function`]).
//! * The mean of integers is their exact sum divided by their number: a rule ([`CheckedSums`]).
//! * The same holds for sums and means that a rollup answers (`plan/rollup_rewrite/measures.rs`).
//! * A level may hold sums beyond 64 bits. They are null when its cells are read as they are, and
//!   an error where cells are added up, because a null would be left out silently. The same rule
//!   does this.

mod function;

use std::any::Any;
use std::sync::Arc;

use aggregator::EXACT_TYPE;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Decimal128Type};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{
    Aggregate, Cast, ColumnarValue, Expr, ExprFunctionExt, ExprSchemable, LogicalPlan,
    LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    Window, cast, lit, when,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::error::Error;
use crate::functions::arrays::over_arrays;
use crate::tables::level::LevelTable;
use crate::tables::stream::source::plain;

/// Prefix of the names of the columns from which a mean is computed.
const WHOLE: &str = "__whole_";

/// Replaces DataFusion's sum with the checked one.
pub(crate) fn replace(state: &mut SessionState) -> Result<()> {
    let inner = state.udaf("sum")?;
    state.register_udaf(Arc::new(function::checked(inner)))?;
    Ok(())
}

/// Optimizer rule for means, and for levels whose cells are added up.
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
        checked.add(expr, &schema)?;
    }
    if !checked.is_any && !input.transformed {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let was = Arc::clone(&aggregate.schema);
    let plan = Aggregate::try_new(input.data, aggregate.group_expr, checked.inner)?;
    let groups = was.fields().len() - checked.outer.len();
    finish(LogicalPlan::Aggregate(plan), &was, groups, checked.outer)
}

/// Rejects in windows over the cells of a level what [`of_aggregate`] rejects in aggregates.
fn of_window(window: Window) -> Result<Transformed<LogicalPlan>> {
    let input = refusing(&window.input)?;
    if !input.transformed {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let plan = Window::try_new(window.window_expr, input.data)?;
    Ok(Transformed::yes(LogicalPlan::Window(plan)))
}

/// Restores the columns that a node had from a node with others: the first as they are, then
/// `outer`.
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

/// The rewritten expressions of a node, and the expressions that restore its old columns.
#[derive(Default)]
struct Checked {
    inner: Vec<Expr>,
    /// Expression that restores a column; `None` for a column that is kept.
    outer: Vec<Option<Expr>>,
    is_any: bool,
}

impl Checked {
    fn add(&mut self, expr: &Expr, input: &DFSchema) -> Result<()> {
        if let Expr::AggregateFunction(function) = expr.clone().unalias()
            && let [arg] = function.params.args.as_slice()
            && function.func.name() == "avg"
            && !function.params.distinct
            && let Some(whole) = whole_of_mean(arg, input)?
        {
            return self.add_mean(&function, whole);
        }
        self.inner.push(expr.clone());
        self.outer.push(None);
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

    /// Adds an expression under a new name, because a query may contain the same expression
    /// twice.
    fn push(&mut self, expr: Expr) -> Expr {
        self.is_any = true;
        let name = format!("{WHOLE}{}", self.inner.len());
        self.inner.push(expr.alias(&name));
        plain(&name)
    }
}

/// Returns the integers of a mean, which DataFusion casts to doubles.
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

/// Returns the mean from the exact sum and the number of values; null when the number is 0.
pub(crate) fn mean(total: Expr, number: Expr) -> Result<Expr> {
    let double = |expr: Expr| cast(expr, DataType::Float64);
    when(
        number.clone().gt(lit(0_i64)),
        double(total) / double(number),
    )
    .end()
}

/// Returns the operand of a cast to a decimal without fraction that holds every integer; any
/// other expression unchanged.
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

/// Returns the words by which an error names the argument of a sum.
pub(crate) fn label_of(arg: &Expr) -> String {
    match arg {
        Expr::Cast(Cast { expr, .. }) => label_of(expr),
        Expr::Column(column) => column.name.clone(),
        other => other.schema_name().to_string(),
    }
}

/// Returns a sum of integers as 64 bits. Its evaluation fails with an error that names `label`
/// when the sum does not fit.
pub(crate) fn fits(sum: Expr, label: &str) -> Expr {
    ScalarUDF::from(Fits::new()).call(vec![sum, lit(label)])
}

/// Makes every level that is scanned below reject sums that are too large.
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

/// The function `sum_fits_64_bits(sum, 'response_size')`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Fits {
    signature: Signature,
}

impl Fits {
    fn new() -> Self {
        let types = vec![EXACT_TYPE, DataType::Utf8];
        Self {
            signature: Signature::exact(types, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Fits {
    fn name(&self) -> &str {
        "sum_fits_64_bits"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        over_arrays(args, |columns| {
            let sums = columns[0].as_primitive::<Decimal128Type>();
            let labels = columns[1].as_string::<i32>();
            let fit = |row: usize, sum: i128| {
                let label = match labels.is_null(row) {
                    true => "",
                    false => labels.value(row),
                };
                i64::try_from(sum).map_err(|_| function::refused(label, sum))
            };
            let sums = sums.iter().enumerate();
            let whole = sums.map(|(row, sum)| sum.map(|sum| fit(row, sum)).transpose());
            Ok(Arc::new(whole.collect::<Result<Int64Array, Error>>()?) as ArrayRef)
        })
    }
}

#[cfg(test)]
mod tests;
