//! Keeps casts that lose something away from the arithmetic of intervals.
//!
//! A filter estimates its rows from intervals of its columns. Where its predicate casts a column,
//! DataFusion casts the interval of the result back and takes that for the interval of the column.
//! If the cast loses something, the interval may be wider than the one known before
//! (`time::date < '2026-01-01'` in a known day), and the query is refused with "Selectivity is out
//! of limit"; or narrower than the rows that pass, and the estimate is wrong; of two casts to text
//! the bounds may be in the wrong order, and the query is refused too.
//!
//! A predicate with a function in it is not estimated so. The casts of filters therefore become
//! calls, once the optimizer, whose rules know casts, is done with the plan.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Replaces the casts of a plan's filters that lose something.
///
/// # Errors
/// If a node cannot be built again.
pub(crate) fn hide_lossy_casts(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|node| match &node {
        LogicalPlan::Filter(filter) => {
            let schema = Arc::clone(filter.input.schema());
            node.map_expressions(|predicate| predicate.transform_up(|expr| hidden(expr, &schema)))
        }
        _ => Ok(Transformed::no(node)),
    });
    Ok(plan?.data)
}

fn hidden(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::Cast(Cast { expr: inner, field }) = &expr else {
        return Ok(Transformed::no(expr));
    };
    let to = field.data_type();
    if is_lossless(&inner.get_type(schema)?, to) {
        return Ok(Transformed::no(expr));
    }
    let function = ScalarUDF::new_from_impl(LossyCast {
        name: format!("cast_to_{to}"),
        to: to.clone(),
        signature: Signature::any(1, Volatility::Immutable),
    });
    Ok(Transformed::yes(function.call(vec![Expr::clone(inner)])))
}

/// Returns whether a cast has another result for each value, in the same order. Then an interval
/// that is cast and cast back does not change.
fn is_lossless(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Date32, Float32, Float64, Int8, Int16, Int32, Int64, Timestamp, UInt8, UInt16, UInt32,
        UInt64,
    };
    match (from, to) {
        (from, to) if from == to => true,
        (Int8, Int16 | Int32 | Int64 | Float32 | Float64)
        | (Int16, Int32 | Int64 | Float32 | Float64)
        | (Int32, Int64 | Float64)
        | (UInt8, UInt16 | UInt32 | UInt64 | Int16 | Int32 | Int64 | Float32 | Float64)
        | (UInt16, UInt32 | UInt64 | Int32 | Int64 | Float32 | Float64)
        | (UInt32, UInt64 | Int64 | Float64)
        | (Float32, Float64)
        | (Date32, Timestamp(..)) => true,
        // From one zone's name to another: the instant stays.
        (Timestamp(unit, Some(_)), Timestamp(to, Some(_))) => unit == to,
        _ => false,
    }
}

/// A cast, as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LossyCast {
    name: String,
    to: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for LossyCast {
    fn name(&self) -> &str {
        &self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let may_be_null = args.arg_fields.iter().any(|operand| operand.is_nullable());
        Ok(Arc::new(Field::new(
            self.name(),
            self.to.clone(),
            may_be_null,
        )))
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [value] => value.cast_to(&self.to, None),
            _ => internal_err!("a cast has one operand"),
        }
    }
}
