//! What DataFusion 55.2 does wrong, put right until it is right there.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::SessionConfig;

mod grouping_sets;
#[cfg(test)]
mod tests;

/// Settings without what answers wrongly.
pub(crate) fn without_wrong(mut config: SessionConfig) -> SessionConfig {
    // What has been found of one `min` or `max` leaves out rows that another one has not seen yet, when that
    // has met nothing but nulls or is of an expression (<https://github.com/apache/datafusion/issues/25147>,
    // <https://github.com/apache/datafusion/issues/24816>).
    let optimizer = &mut config.options_mut().optimizer;
    optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    config
}

/// The rules of a physical plan.
pub(crate) fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.insert(0, Arc::new(grouping_sets::ForgetBelowGroupingSets));
    rules
}

/// Keeps two projections apart that compute the same of one another, as in
/// `SELECT x + 1 AS x FROM (SELECT x + 1 AS x FROM t)`: the optimizer takes the second for a copy of the first
/// and leaves it out (<https://github.com/apache/datafusion/pull/24686>). An alias that has no metadata and one
/// whose metadata are empty mean the same, and are not equal.
pub(crate) fn keep_repeated(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut any = false;
    plan.apply_with_subqueries(|node| {
        any |= repeated(node).is_some();
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !any {
        return Ok(plan);
    }
    let kept = plan.transform_up_with_subqueries(|node| {
        let Some(upper) = repeated(&node) else {
            return Ok(Transformed::no(node));
        };
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

/// A projection that computes the same as the one below it.
fn repeated(node: &LogicalPlan) -> Option<&Projection> {
    match node {
        LogicalPlan::Projection(upper) => match &*upper.input {
            LogicalPlan::Projection(lower) => (lower.expr == upper.expr).then_some(upper),
            _ => None,
        },
        _ => None,
    }
}
