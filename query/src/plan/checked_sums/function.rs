//! DataFusion's `sum`, changed so that integers do not wrap.
//!
//! Integers are passed to the sum of decimals with 38 digits, and its result is checked.
//! Everything else is DataFusion's, except one of its rewrites: `sum(x + 1)` as
//! `sum(x) + 1 * count(x)` would wrap unchecked.

use std::collections::HashMap;
use std::sync::Arc;

use aggregator::EXACT_TYPE;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array};
use arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Int64Type, UInt64Type};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr_common::physical_expr::fmt_sql;

use crate::error::{Error, Fault};
use crate::functions::inner::aggregate_as_inner;

/// Returns the function that replaces DataFusion's.
pub(super) fn checked(inner: Arc<AggregateUDF>) -> AggregateUDF {
    AggregateUDF::new_from_impl(CheckedSum { inner })
}

/// Returns the error for a sum that 64 bits do not hold.
pub(super) fn refused(label: &str, sum: i128) -> Error {
    let message = format!(
        "sum({label}) is {sum}, which exceeds 64 bits; \
         ask for sum(CAST({label} AS DECIMAL(38, 0)))"
    );
    Error::of_fault(Fault::OutOfRange, message)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedSum {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for CheckedSum {
    aggregate_as_inner!();

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let return_field = exact(&args.return_field);
        self.inner.state_fields(StateFieldsArgs {
            return_field,
            ..args
        })
    }
    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let Some(sum) = Integers::of(&args) else {
            return self.inner.accumulator(args);
        };
        let inner = self.inner.accumulator(widened(args))?;
        Ok(Box::new(Checked { inner, sum }))
    }
    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let Some(sum) = Integers::of(&args) else {
            return self.inner.create_sliding_accumulator(args);
        };
        if args.is_distinct {
            if sum.unsigned {
                return self.inner.create_sliding_accumulator(args);
            }
            return Ok(Box::new(Distinct {
                counts: HashMap::new(),
                total: 0,
                sum,
            }));
        }
        let inner = self.inner.create_sliding_accumulator(widened(args))?;
        Ok(Box::new(Checked { inner, sum }))
    }
    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let Some(sum) = Integers::of(&args) else {
            return self.inner.create_groups_accumulator(args);
        };
        let inner = self.inner.create_groups_accumulator(widened(args))?;
        Ok(Box::new(CheckedGroups { inner, sum }))
    }
    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// Type and name of a sum of integers, for its check.
#[derive(Debug)]
struct Integers {
    unsigned: bool,
    /// Name of the argument in an error.
    label: String,
}

impl Integers {
    fn of(args: &AccumulatorArgs<'_>) -> Option<Self> {
        let unsigned = match args.return_field.data_type() {
            DataType::Int64 => false,
            DataType::UInt64 => true,
            _ => return None,
        };
        let label = args.exprs.first().map_or_else(String::new, label_of);
        Some(Self { unsigned, label })
    }

    /// Returns the sums as 64 bits, or an error when one does not fit.
    fn narrow(&self, sums: &ArrayRef) -> Result<ArrayRef> {
        let sums = sums.as_primitive::<Decimal128Type>();
        Ok(match self.unsigned {
            true => Arc::new(sums.try_unary::<_, UInt64Type, _>(|sum| {
                u64::try_from(sum).map_err(|_| refused(&self.label, sum))
            })?),
            false => Arc::new(sums.try_unary::<_, Int64Type, _>(|sum| {
                i64::try_from(sum).map_err(|_| refused(&self.label, sum))
            })?),
        })
    }
}

fn label_of(expr: &Arc<dyn PhysicalExpr>) -> String {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return column.name().to_owned();
    }
    match expr.downcast_ref::<CastExpr>() {
        Some(cast) => label_of(cast.expr()),
        None => fmt_sql(expr.as_ref()).to_string(),
    }
}

/// Returns the field of a sum, widened to 128 bits for integers.
fn exact(field: &FieldRef) -> FieldRef {
    if field.data_type().is_integer() {
        let field = Field::clone(field);
        return Arc::new(field.with_data_type(EXACT_TYPE));
    }
    Arc::clone(field)
}

fn widened(args: AccumulatorArgs<'_>) -> AccumulatorArgs<'_> {
    let return_field = exact(&args.return_field);
    AccumulatorArgs {
        return_field,
        ..args
    }
}

/// Converts integers to decimals.
fn widen(values: &[ArrayRef]) -> Result<[ArrayRef; 1]> {
    let wide: Decimal128Array = match values {
        [values] if *values.data_type() == DataType::Int64 => {
            values.as_primitive::<Int64Type>().unary(i128::from)
        }
        [values] if *values.data_type() == DataType::UInt64 => {
            values.as_primitive::<UInt64Type>().unary(i128::from)
        }
        _ => return internal_err!("BUG: a checked sum has an argument that is not an integer"),
    };
    Ok([Arc::new(wide.with_data_type(EXACT_TYPE))])
}

#[derive(Debug)]
struct Checked {
    inner: Box<dyn Accumulator>,
    sum: Integers,
}

impl Accumulator for Checked {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(&widen(values)?)
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = self.inner.evaluate()?.to_array()?;
        ScalarValue::try_from_array(&self.sum.narrow(&sum)?, 0)
    }
    fn size(&self) -> usize {
        self.inner.size() + size_of_val(self) + self.sum.label.capacity()
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(&widen(values)?)
    }
    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

struct CheckedGroups {
    inner: Box<dyn GroupsAccumulator>,
    sum: Integers,
}

impl GroupsAccumulator for CheckedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.inner
            .update_batch(&widen(values)?, groups, filter, count)
    }
    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        self.sum.narrow(&self.inner.evaluate(emit)?)
    }
    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit)
    }
    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.inner.merge_batch(states, groups, count)
    }
    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(&widen(values)?, filter)
    }
    fn size(&self) -> usize {
        self.inner.size() + size_of_val(self) + self.sum.label.capacity()
    }
}

/// `sum(DISTINCT x)` over a window whose frame moves. DataFusion's accumulator accepts only
/// 64-bit values, not decimals.
#[derive(Debug)]
struct Distinct {
    /// Number of rows of the frame for each value.
    counts: HashMap<i64, u64>,
    total: i128,
    sum: Integers,
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Int64Type>().iter().flatten() {
            let count = self.counts.entry(value).or_default();
            if *count == 0 {
                self.total += i128::from(value);
            }
            *count += 1;
        }
        Ok(())
    }
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Int64Type>().iter().flatten() {
            let Some(count) = self.counts.get_mut(&value) else {
                return internal_err!("BUG: a window retracts a row that it has not added");
            };
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&value);
                self.total -= i128::from(value);
            }
        }
        Ok(())
    }
    fn supports_retract_batch(&self) -> bool {
        true
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.counts.is_empty() {
            return Ok(ScalarValue::Int64(None));
        }
        let sum = i64::try_from(self.total).map_err(|_| refused(&self.sum.label, self.total))?;
        Ok(ScalarValue::Int64(Some(sum)))
    }
    fn size(&self) -> usize {
        size_of_val(self)
            + self.counts.capacity() * size_of::<(i64, u64)>()
            + self.sum.label.capacity()
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("BUG: states of a window function are never merged")
    }
    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("BUG: states of a window function are never merged")
    }
}
