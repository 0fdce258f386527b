//! Integer arithmetic that does not wrap: a result without room in its type is an error, as in
//! PostgreSQL. DataFusion's operators wrap silently, and no setting changes them.
//!
//! The operators become functions in two places. Constants do so before DataFusion computes them
//! ([`Constants`]). All others do so when the optimizer is done with the plan ([`checked`]), since
//! its rules and ours know operators and not these functions.

use arrow::compute::kernels::numeric;
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion, TreeNodeRewriter};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;

use super::rewrite;

/// Replaces the operators of an optimized plan.
///
/// # Errors
/// If a node cannot be built again.
pub(crate) fn checked(plan: LogicalPlan) -> Result<LogicalPlan> {
    match has_any(&plan)? {
        true => rewrite::expressions(plan, &|expr, schema| {
            expr.transform_up(|expr| replaced(expr, schema))
        }),
        false => Ok(plan),
    }
}

/// Replaces the operators between constants. It comes after the coercion of types.
#[derive(Debug)]
pub(crate) struct Constants;

impl AnalyzerRule for Constants {
    fn name(&self) -> &str {
        "checked_constants"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_any(&plan)? {
            return Ok(plan);
        }
        rewrite::expressions(plan, &|expr, schema| {
            let operands = Vec::new();
            expr.rewrite(&mut OfConstants { schema, operands })
        })
    }
}

/// Returns whether a plan has an operator that may be one between integers.
fn has_any(plan: &LogicalPlan) -> Result<bool> {
    let mut any = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            any |= expr.exists(|expr| Ok(Operation::of(expr).is_some()))?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(any)
}

/// Replaces operators that have nothing but constants below them. It visits every expression once:
/// statements may nest them by the thousand.
struct OfConstants<'a> {
    schema: &'a DFSchema,
    /// For each expression that contains the present one, whether its operands so far are
    /// constants.
    operands: Vec<bool>,
}

impl TreeNodeRewriter for OfConstants<'_> {
    type Node = Expr;

    fn f_down(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        self.operands.push(true);
        Ok(Transformed::no(expr))
    }

    fn f_up(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        let are_constants = self.operands.pop() == Some(true);
        let is_constant = are_constants
            && matches!(
                expr,
                Expr::Literal(..)
                    | Expr::BinaryExpr(_)
                    | Expr::Cast(_)
                    | Expr::Negative(_)
                    | Expr::ScalarFunction(_)
            );
        if let Some(outer) = self.operands.last_mut() {
            *outer &= is_constant;
        }
        match is_constant {
            true => replaced(expr, self.schema),
            false => Ok(Transformed::no(expr)),
        }
    }
}

/// Replaces one operator, if it is between integers. Those below it have been replaced.
fn replaced(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Some(operation) = Operation::of(&expr) else {
        return Ok(Transformed::no(expr));
    };
    let of = match &expr {
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => {
            integer(right, schema).filter(|of| integer(left, schema).as_ref() == Some(of))
        }
        Expr::Negative(negated) => integer(negated, schema),
        _ => None,
    };
    let Some(of) = of else {
        return Ok(Transformed::no(expr));
    };
    let args = match expr {
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => vec![*left, *right],
        Expr::Negative(negated) => vec![Expr::Literal(ScalarValue::new_zero(&of)?, None), *negated],
        other => vec![other],
    };
    let function = ScalarUDF::new_from_impl(CheckedOperator::new(operation, of));
    Ok(Transformed::yes(function.call(args)))
}

/// Returns the type of an expression if it is an integer. Of a replaced operator the type is known
/// without a look at its operands.
fn integer(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    let of = match expr {
        Expr::ScalarFunction(call) if call.name().starts_with(CHECKED) => {
            call.func.inner().return_type(&[])
        }
        other => other.get_type(schema),
    };
    of.ok().filter(DataType::is_integer)
}

/// Beginning of the functions' names.
const CHECKED: &str = "checked_";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    Add,
    Subtract,
    Multiply,
}

impl Operation {
    fn of(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Negative(_) => Some(Self::Subtract),
            Expr::BinaryExpr(BinaryExpr { op, .. }) => match op {
                Operator::Plus => Some(Self::Add),
                Operator::Minus => Some(Self::Subtract),
                Operator::Multiply => Some(Self::Multiply),
                _ => None,
            },
            _ => None,
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedOperator {
    operation: Operation,
    /// The type of both operands and of the result.
    of: DataType,
    signature: Signature,
}

impl CheckedOperator {
    fn new(operation: Operation, of: DataType) -> Self {
        Self {
            operation,
            of,
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for CheckedOperator {
    fn name(&self) -> &str {
        match self.operation {
            Operation::Add => "checked_add",
            Operation::Subtract => "checked_subtract",
            Operation::Multiply => "checked_multiply",
        }
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.of.clone())
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return internal_err!("an operator has two operands");
        };
        match self.operation {
            Operation::Add => apply(left, right, numeric::add),
            Operation::Subtract => apply(left, right, numeric::sub),
            Operation::Multiply => apply(left, right, numeric::mul),
        }
    }
}
