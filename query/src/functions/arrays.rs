//! Functions over whole columns.

use arrow::array::ArrayRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

/// Runs a function on whole columns. Constant arguments give a constant.
pub(crate) fn over_arrays(
    args: ScalarFunctionArgs,
    compute: impl FnOnce(&[ArrayRef]) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let constant = args
        .args
        .iter()
        .all(|a| matches!(a, ColumnarValue::Scalar(_)));
    let columns = if constant {
        args.args
            .into_iter()
            .map(|a| a.into_array(1))
            .collect::<Result<Vec<_>>>()?
    } else {
        ColumnarValue::values_to_arrays(&args.args)?
    };
    let out = compute(&columns)?;
    if constant {
        Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&out, 0)?))
    } else {
        Ok(ColumnarValue::Array(out))
    }
}
