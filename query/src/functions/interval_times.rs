//! `interval * number` and `interval / number`, which DataFusion does not have, with the rules of
//! PostgreSQL (`interval_mul` in its `timestamp.c`): a fraction of a month becomes days, 30 to a
//! month, and a fraction of a day becomes time, 24 hours to a day.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray};
use arrow::datatypes::{
    DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use arrow::error::ArrowError;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility, lit,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::arrays::over_arrays;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const NANOS_PER_MICRO: i64 = 1_000;
const MICROS_PER_DAY: f64 = 86_400e6;
const DAYS_PER_MONTH: f64 = 30.0;

/// Plans the operators as calls of the function.
#[derive(Debug)]
pub(super) struct IntervalOperators(Arc<ScalarUDF>);

impl IntervalOperators {
    pub(super) fn new() -> Self {
        Self(Arc::new(ScalarUDF::new_from_impl(IntervalTimes::new())))
    }
}

impl ExprPlanner for IntervalOperators {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let is_interval = |e: &Expr| matches!(e.get_type(schema), Ok(DataType::Interval(_)));
        let is_number = |e: &Expr| e.get_type(schema).is_ok_and(|of| of.is_numeric());
        let (left, right) = (&expr.left, &expr.right);
        let times = |interval: &Expr, number: Expr| {
            PlannerResult::Planned(self.0.call(vec![interval.clone(), number]))
        };
        Ok(match expr.op {
            BinaryOperator::Multiply if is_interval(left) && is_number(right) => {
                times(left, right.clone())
            }
            BinaryOperator::Multiply if is_number(left) && is_interval(right) => {
                times(right, left.clone())
            }
            BinaryOperator::Divide if is_interval(left) && is_number(right) => {
                times(left, lit(1.0) / right.clone())
            }
            _ => PlannerResult::Original(expr),
        })
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalTimes {
    signature: Signature,
}

impl IntervalTimes {
    fn new() -> Self {
        let of = |number| TypeSignature::Exact(vec![INTERVAL, number]);
        let signature = TypeSignature::OneOf(vec![of(DataType::Int64), of(DataType::Float64)]);
        Self {
            signature: Signature::new(signature, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for IntervalTimes {
    fn name(&self) -> &str {
        "interval_times"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        over_arrays(args, |columns| {
            let intervals = columns[0].as_primitive::<IntervalMonthDayNanoType>();
            let products = match columns[1].data_type() {
                DataType::Int64 => {
                    products(intervals, columns[1].as_primitive::<Int64Type>(), whole)
                }
                _ => products(
                    intervals,
                    columns[1].as_primitive::<Float64Type>(),
                    fractional,
                ),
            };
            Ok(Arc::new(products?) as ArrayRef)
        })
    }
}

/// Multiplies row by row. `None` of `times` is a product that has no room.
fn products<N: Copy>(
    intervals: &IntervalMonthDayNanoArray,
    numbers: impl IntoIterator<Item = Option<N>>,
    times: fn(IntervalMonthDayNano, N) -> Option<IntervalMonthDayNano>,
) -> Result<IntervalMonthDayNanoArray> {
    let pairs = intervals.iter().zip(numbers);
    let products = pairs.map(|(interval, number)| match interval.zip(number) {
        Some((interval, number)) => match times(interval, number) {
            None => Err(ArrowError::ArithmeticOverflow("interval out of range".to_owned()).into()),
            product => Ok(product),
        },
        None => Ok(None),
    });
    products.collect()
}

fn whole(of: IntervalMonthDayNano, by: i64) -> Option<IntervalMonthDayNano> {
    let times = |part: i32| i32::try_from(i64::from(part).checked_mul(by)?).ok();
    Some(IntervalMonthDayNano {
        months: times(of.months)?,
        days: times(of.days)?,
        nanoseconds: of.nanoseconds.checked_mul(by)?,
    })
}

fn fractional(of: IntervalMonthDayNano, by: f64) -> Option<IntervalMonthDayNano> {
    // PostgreSQL rounds what is left of a month to a microsecond of a day's length.
    let to_micro = |days: f64| (days * MICROS_PER_DAY).round_ties_even() / MICROS_PER_DAY;
    let months = f64::from(of.months) * by;
    let days = f64::from(of.days) * by;
    let days_of_month = to_micro((months - months.trunc()) * DAYS_PER_MONTH);
    let rest_of_days = to_micro((days - days.trunc()) + (days_of_month - days_of_month.trunc()));
    let whole_days = days.trunc() + days_of_month.trunc() + rest_of_days.trunc();
    let micros = of.nanoseconds as f64 / NANOS_PER_MICRO as f64 * by
        + (rest_of_days - rest_of_days.trunc()) * MICROS_PER_DAY;
    Some(IntervalMonthDayNano {
        months: to_i32(months)?,
        days: to_i32(whole_days)?,
        nanoseconds: to_i64(micros.round_ties_even())?.checked_mul(NANOS_PER_MICRO)?,
    })
}

fn to_i32(number: f64) -> Option<i32> {
    i32::try_from(to_i64(number)?).ok()
}

fn to_i64(number: f64) -> Option<i64> {
    // Beyond this power of two, a float may be no i64.
    (number.abs() < (1_u64 << 63) as f64).then_some(number as i64)
}
