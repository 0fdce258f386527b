//! DataFusion's `date_trunc`, quick for stamps in UTC: it cuts those that name no zone as whole numbers,
//! and all others by way of a calendar of their zone, row by row, UTC's too.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, FieldRef, TimeUnit, TimestampMicrosecondType};
use datafusion::common::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};

const NAME: &str = "date_trunc";
const UTC: &str = "UTC";

/// Puts it in the place of DataFusion's.
pub(super) fn replace(state: &mut SessionState) -> Result<()> {
    let inner = state.udf(NAME)?;
    state.register_udf(Arc::new(ScalarUDF::new_from_impl(DateTrunc { inner })))?;
    Ok(())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateTrunc {
    inner: Arc<ScalarUDF>,
}

/// The same field, of stamps without a zone.
fn without_zone(field: &FieldRef) -> FieldRef {
    let kind = DataType::Timestamp(TimeUnit::Microsecond, None);
    Arc::new(field.as_ref().clone().with_data_type(kind))
}

impl ScalarUDFImpl for DateTrunc {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }
    fn signature(&self) -> &Signature {
        self.inner.signature()
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }
    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(inputs)
    }
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }
    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
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
