//! What DataFusion 55.2 does wrong, put right until it is right there.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};

/// Keeps two projections apart that compute the same of one another, as in
/// `SELECT x + 1 AS x FROM (SELECT x + 1 AS x FROM t)`: the optimizer takes the second for a copy of the first
/// and leaves it out (<https://github.com/apache/datafusion/pull/24686>). An alias that has no metadata and one
/// whose metadata are empty mean the same, and are not equal.
pub(crate) fn keep_repeated(plan: LogicalPlan) -> Result<LogicalPlan> {
    let kept = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Projection(upper) = &node else {
            return Ok(Transformed::no(node));
        };
        let repeats = match &*upper.input {
            LogicalPlan::Projection(lower) => lower.expr == upper.expr,
            _ => false,
        };
        if !repeats {
            return Ok(Transformed::no(node));
        }
        let told_apart = upper.expr.iter().cloned().map(|expr| match expr {
            Expr::Alias(Alias {
                expr,
                relation,
                name,
                metadata: None,
            }) => Expr::Alias(Alias {
                expr,
                relation,
                name,
                metadata: Some(Default::default()),
            }),
            other => other,
        });
        let kept = Projection::try_new(told_apart.collect(), upper.input.clone())?;
        Ok(Transformed::yes(LogicalPlan::Projection(kept)))
    });
    Ok(kept?.data)
}
