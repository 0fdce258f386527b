//! Adds the missing zero to lists of floats that have 0 or -0.
//!
//! `x = 0` is true for -0 and for 0. But `x IN (0, 1, 2, 3)` was true only for the zero in the
//! list, because DataFusion compares the values of a list bit by bit. DataFusion also rewrites
//! `x = 0 OR x = 1 OR x = 2 OR x = 3` to such a list, so whether a row was returned depended on
//! the number of terms.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, lit};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Optimizer rule that adds the zeros. It has to run after literals have the type of the value
/// with which they are compared.
#[derive(Debug)]
pub(crate) struct FloatLists;

impl OptimizerRule for FloatLists {
    fn name(&self) -> &'static str {
        "float_lists"
    }
    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }
    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            if !expr.exists(|part| Ok(lacks_a_zero(part)))? {
                return Ok(Transformed::no(expr));
            }
            let name = names.save(&expr);
            let with_zeros = expr.transform_up(|part| Ok(with_both_zeros(part)))?;
            Ok(with_zeros.update_data(|expr| name.restore(expr)))
        })
    }
}

fn lacks_a_zero(expr: &Expr) -> bool {
    match expr {
        Expr::InList(list) => missing(list).is_some(),
        _ => false,
    }
}

fn with_both_zeros(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::InList(mut list) => match missing(&list) {
            Some(zero) => {
                list.list.push(lit(zero));
                Transformed::yes(Expr::InList(list))
            }
            None => Transformed::no(Expr::InList(list)),
        },
        other => Transformed::no(other),
    }
}

/// Returns the zero that a list lacks while it has the other one.
fn missing(list: &InList) -> Option<ScalarValue> {
    let has = |wanted: &ScalarValue| {
        let is_wanted = |e: &Expr| matches!(e, Expr::Literal(value, _) if value == wanted);
        list.list.iter().any(is_wanted)
    };
    let mut zeros = list.list.iter().filter_map(|value| match value {
        Expr::Literal(ScalarValue::Float64(Some(x)), _) if *x == 0.0 => {
            Some(ScalarValue::Float64(Some(-x)))
        }
        Expr::Literal(ScalarValue::Float32(Some(x)), _) if *x == 0.0 => {
            Some(ScalarValue::Float32(Some(-x)))
        }
        _ => None,
    });
    zeros.find(|other| !has(other))
}
