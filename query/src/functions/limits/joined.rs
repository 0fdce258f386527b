//! The operator `a || b` as a function, which can be bounded.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::kernels::concat_elements::concat_elements_dyn;
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// Name of the function.
pub(super) const NAME: &str = "||";

/// Replaces the operator by the function.
#[derive(Debug)]
pub(super) struct ByFunction(pub(super) Arc<ScalarUDF>);

impl FunctionRewrite for ByFunction {
    fn name(&self) -> &str {
        "concatenation as a function"
    }
    fn rewrite(&self, expr: Expr, _: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: Operator::StringConcat,
                right,
            }) => {
                let function = ScalarFunction::new_udf(self.0.clone(), vec![*left, *right]);
                Transformed::yes(Expr::ScalarFunction(function))
            }
            other => Transformed::no(other),
        })
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Join {
    signature: Signature,
}

impl Join {
    pub(super) fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Join {
    fn name(&self) -> &str {
        NAME
    }
    /// Returns the name of the operator, by which expressions above refer to its result.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let names = args.iter().map(|arg| arg.schema_name().to_string());
        Ok(names.collect::<Vec<_>>().join(" || "))
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [left, right] = types else {
            return plan_err!("|| takes two texts");
        };
        let (left, right) =
            BinaryTypeCoercer::new(left, &Operator::StringConcat, right).get_input_types()?;
        Ok(vec![left, right])
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [left, right] => {
                BinaryTypeCoercer::new(left, &Operator::StringConcat, right).get_result_type()
            }
            _ => plan_err!("|| takes two texts"),
        }
    }
    /// The result is null if either argument is.
    fn is_strict(&self) -> bool {
        true
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_one = args
            .args
            .iter()
            .all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_one { 1 } else { args.number_rows };
        let array = |at: usize| -> Result<ArrayRef> { args.args[at].to_array(rows) };
        let joined = concat_elements_dyn(&array(0)?, &array(1)?)?;
        Ok(match is_one {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&joined, 0)?),
            false => ColumnarValue::Array(joined),
        })
    }
}
