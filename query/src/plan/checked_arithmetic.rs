//! Integer arithmetic that does not wrap: a result without room in its type is an error, as in
//! PostgreSQL. DataFusion's operators wrap silently, and no setting changes them.
//!
//! The operators become functions in two places: at the latest when the optimizer is done with the
//! plan ([`checked`]), since its rules and ours know operators and not these functions; and before
//! ([`Constants`]) where the optimizer could compute one.
//!
//! It computes an expression only if that has no column. An operator has none from the beginning,
//! or when the optimizer has put the constant in the place of a column that a node below defines by
//! it. So all operators of a plan are replaced before if below one of them there is such a node.

use std::sync::Arc;

use arrow::compute::kernels::numeric;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion, TreeNodeRewriter};
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
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
        if meets_constants(&plan)? {
            return checked(plan);
        }
        rewrite::expressions(plan, &|expr, schema| {
            let operands = Vec::new();
            expr.rewrite(&mut OfConstants { schema, operands })
        })
    }
}

/// Returns whether a node with an operator is above one that defines a column without columns.
fn meets_constants(plan: &LogicalPlan) -> Result<bool> {
    let mut meets = false;
    plan.apply_with_subqueries(|node| {
        if has_operator(node)? {
            let mut below = |input: &LogicalPlan| -> Result<TreeNodeRecursion> {
                meets |= defines_constants(input)?;
                Ok(TreeNodeRecursion::Continue)
            };
            for input in node.inputs() {
                input.apply_with_subqueries(&mut below)?;
            }
            // The value of a subquery stands beside the operators of its node, and the columns of
            // an outer query beside those of a subquery.
            node.apply_subqueries(|subquery| subquery.apply_with_subqueries(&mut below))?;
            if has_expr(node, |expr| matches!(expr, Expr::OuterReferenceColumn(..)))? {
                plan.apply_with_subqueries(&mut below)?;
            }
        }
        Ok(match meets {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(meets)
}

/// Returns whether a node defines a column by an expression without columns.
fn defines_constants(node: &LogicalPlan) -> Result<bool> {
    let has_columns = |expr: &Expr| {
        expr.exists(|expr| {
            Ok(matches!(
                expr,
                Expr::Column(_) | Expr::OuterReferenceColumn(..)
            ))
        })
    };
    let defined = match node {
        LogicalPlan::Projection(projection) => &projection.expr,
        LogicalPlan::Aggregate(aggregate) => &aggregate.group_expr,
        LogicalPlan::Values(_) => return Ok(true),
        _ => return Ok(false),
    };
    for expr in defined {
        if !has_columns(expr)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a node has an operator that may be one between integers.
fn has_operator(node: &LogicalPlan) -> Result<bool> {
    has_expr(node, |expr| Operation::of(expr).is_some())
}

/// Returns whether an expression of a node, or one in it, is as asked for.
fn has_expr(node: &LogicalPlan, is: impl Fn(&Expr) -> bool) -> Result<bool> {
    let mut any = false;
    node.apply_expressions(|expr| {
        any |= expr.exists(|expr| Ok(is(expr)))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(any)
}

/// Returns whether a node of a plan has an operator that may be one between integers.
fn has_any(plan: &LogicalPlan) -> Result<bool> {
    let mut any = false;
    plan.apply_with_subqueries(|node| {
        any |= has_operator(node)?;
        Ok(TreeNodeRecursion::Continue)
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
    /// A plan keeps its columns only if the result may be null where that of the operator may.
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let may_be_null = args.arg_fields.iter().any(|operand| operand.is_nullable());
        Ok(Arc::new(Field::new(
            self.name(),
            self.of.clone(),
            may_be_null,
        )))
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
