//! DataFusion's `date_trunc`, made fast for timestamps in UTC. DataFusion truncates timestamps
//! without a zone as integers. All others, even those in UTC, take a slow path through the
//! calendar of their zone, row by row.
//!
//! From hours to years, buckets of a zone are those of `time_bucket`, levels and documents. An hour
//! is cut where the zone's offset changes: when Lord Howe's clocks go back from 2:00 to 1:30, the
//! repeated half hour is a bucket of its own, which DataFusion counts to the hour before. A day has
//! one start: when Havana's clocks go back from 1:00 to midnight, DataFusion begins the day twice.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, TimestampMicrosecondArray, TimestampNanosecondArray};
use arrow::datatypes::{
    DataType, FieldRef, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, lit,
};

use super::inner::scalar_as_inner;
use super::time_bucket::starts_of;

const NAME: &str = "date_trunc";
const UTC: &str = "UTC";

/// Returns a call of the function for plans that other languages compile to.
pub(crate) fn date_trunc(unit: &str, time: Expr) -> Expr {
    let inner = datafusion::functions::datetime::date_trunc();
    let function = Arc::new(ScalarUDF::new_from_impl(DateTrunc { inner }));
    function.call(vec![lit(unit), time])
}

/// Replaces DataFusion's function.
pub(super) fn replace(state: &mut SessionState) -> Result<()> {
    let inner = state.udf(NAME)?;
    state.register_udf(Arc::new(ScalarUDF::new_from_impl(DateTrunc { inner })))?;
    Ok(())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateTrunc {
    inner: Arc<ScalarUDF>,
}

/// Returns the field with timestamps that have no zone.
fn without_zone(field: &FieldRef) -> FieldRef {
    let kind = DataType::Timestamp(TimeUnit::Microsecond, None);
    Arc::new(field.as_ref().clone().with_data_type(kind))
}

/// Returns the starts of the buckets of a named zone; `None` if the call asks for anything else.
fn starts(args: &ScalarFunctionArgs) -> Result<Option<ColumnarValue>> {
    let [ColumnarValue::Scalar(unit), times] = args.args.as_slice() else {
        return Ok(None);
    };
    let DataType::Timestamp(precision, Some(zone)) = times.data_type() else {
        return Ok(None);
    };
    let unit = unit.try_as_str().flatten();
    let Some(mut start) = unit.and_then(|unit| starts_of(unit, &zone)) else {
        return Ok(None);
    };
    let of_one = matches!(times, ColumnarValue::Scalar(_));
    let stamps = times.to_array(args.number_rows)?;
    let starts: ArrayRef = match precision {
        TimeUnit::Microsecond => {
            let stamps = stamps.as_primitive::<TimestampMicrosecondType>();
            let starts = stamps.iter().map(|t| t.map(&mut start));
            Arc::new(TimestampMicrosecondArray::from_iter(starts).with_timezone(zone))
        }
        TimeUnit::Nanosecond => {
            let stamps = stamps.as_primitive::<TimestampNanosecondType>();
            // The first bucket of the nanosecond range begins before the range: its start is null.
            let starts = stamps
                .iter()
                .map(|t| start(t?.div_euclid(1_000)).checked_mul(1_000));
            Arc::new(TimestampNanosecondArray::from_iter(starts).with_timezone(zone))
        }
        _ => return Ok(None),
    };
    Ok(Some(match of_one {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&starts, 0)?),
        false => ColumnarValue::Array(starts),
    }))
}

impl ScalarUDFImpl for DateTrunc {
    scalar_as_inner!();

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }
    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(inputs)
    }
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }
    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some(starts) = starts(&args)? {
            return Ok(starts);
        }
        let of_utc = DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()));
        match args.args.as_mut_slice() {
            [_, ColumnarValue::Array(times)] if *times.data_type() == of_utc => {
                let stamps = times.as_primitive::<TimestampMicrosecondType>().clone();
                *times = Arc::new(stamps.with_timezone_opt(None::<Arc<str>>));
            }
            _ => return self.inner.invoke_with_args(args),
        }
        args.arg_fields[1] = without_zone(&args.arg_fields[1]);
        args.return_field = without_zone(&args.return_field);
        let rows = args.number_rows;
        let starts = self.inner.invoke_with_args(args)?.into_array(rows)?;
        let starts = starts.as_primitive::<TimestampMicrosecondType>().clone();
        Ok(ColumnarValue::Array(Arc::new(starts.with_timezone(UTC))))
    }
}
