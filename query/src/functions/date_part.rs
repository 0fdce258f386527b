//! DataFusion's `date_part`, but for conditions on years that its stamps cannot hold.
//!
//! A condition `extract(year FROM t) >= 200` becomes one on `t` itself. Where the first instant of
//! a year has no stamp (nanoseconds begin in 1677, and a zone may skip a midnight), DataFusion 55.2
//! puts null in its place, and the condition lets no row pass. Such a condition stays as it is
//! written here.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};

/// Puts it in the place of DataFusion's.
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
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(args)
    }
    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
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
