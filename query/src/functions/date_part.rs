//! DataFusion's `date_part`, corrected for conditions on years that its timestamps cannot hold.
//!
//! DataFusion turns a condition `extract(year FROM t) >= 200` into one on `t` itself. If the
//! first instant of a year has no timestamp (nanoseconds begin in 1677, and a zone may skip a
//! midnight), DataFusion 55.2 compares with null instead, and no row passes. Here such a
//! condition stays as it was written.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};

use super::inner::scalar_as_inner;

/// Replaces DataFusion's function.
pub(super) fn replace(state: &mut SessionState) -> Result<()> {
    let inner = state.udf("date_part")?;
    state.register_udf(Arc::new(ScalarUDF::new_from_impl(DatePart { inner })))?;
    Ok(())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DatePart {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for DatePart {
    scalar_as_inner!();

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(args)
    }
    fn preimage(
        &self,
        args: &[Expr],
        compared: &Expr,
        info: &SimplifyContext,
    ) -> Result<PreimageResult> {
        Ok(match self.inner.preimage(args, compared, info)? {
            PreimageResult::Range { interval, .. }
                if interval.lower().is_null() || interval.upper().is_null() =>
            {
                PreimageResult::None
            }
            found => found,
        })
    }
}
