//! Workarounds for faults of DataFusion 55.2, until a release fixes them.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, VisitMut};

use crate::plan::statement::visit;
use unless::Unless;

mod casts;
mod distinct_from;
mod extract;
mod filter_projections;
mod first_floats;
mod float_lists;
mod grouping_sets;
mod interval_casts;
mod limited_groups;
mod repeated_groups;
mod same_names;
#[cfg(test)]
mod tests;
mod unless;

pub(crate) use float_lists::FloatLists;
pub(crate) use interval_casts::hide_lossy_casts;

type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// Turns off the settings that produce wrong answers, or refuse right questions.
pub(crate) fn without_wrong(mut config: SessionConfig) -> SessionConfig {
    // A bound found by one `min` or `max` prunes rows that another one has not seen yet, if that
    // other one has met only nulls so far or is of an expression
    // (<https://github.com/apache/datafusion/issues/25147>,
    // <https://github.com/apache/datafusion/issues/24816>).
    let optimizer = &mut config.options_mut().optimizer;
    optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    // A limit that is pushed below a window leaves out the row that `lag` reads in the other order.
    optimizer.enable_window_limits = false;
    // A field of a structure within a function, beside the field itself and another one, is looked
    // for under a name that no projection gives, as in
    // `SELECT date_trunc('hour', t.s['a']), t.s['a'], sum(t.s['b']) FROM t GROUP BY 1, 2`.
    optimizer.enable_leaf_expression_pushdown = false;
    config
}

/// Corrects misreadings of the parser, and rewrites forms that the planner rejects, before
/// planning.
pub(crate) fn mend(statement: &mut Statement) {
    visit(statement, &mut distinct_from::DistinctFrom);
    visit(statement, &mut repeated_groups::RepeatedGroups);
    visit(statement, &mut casts::Casts::default());
    visit(statement, &mut extract::Extract);
}

/// Corrects a condition that stands alone, as that of `tail --where`.
pub(crate) fn mend_expr(expr: &mut ast::Expr) {
    let _: ControlFlow<()> = VisitMut::visit(expr, &mut distinct_from::DistinctFrom);
    let _: ControlFlow<()> = VisitMut::visit(expr, &mut extract::Extract);
}

/// Returns the rules for physical plans: DataFusion's, of which some are wrapped, and ours.
pub(crate) fn physical_rules() -> Vec<PhysicalRule> {
    let rules = PhysicalOptimizer::new().rules.into_iter();
    // This rule takes `count(DISTINCT path) … WHERE path = '/a'` for 1, even where no row is left
    // (<https://github.com/apache/datafusion/pull/21077>). A rule of ours, `ManifestCount`,
    // computes the number of rows of a stream instead.
    let rules = rules.filter(|rule| rule.name() != "aggregate_statistics");
    let mut rules: Vec<_> = rules
        .map(|rule| match rule.name() {
            name if name.starts_with("FilterPushdown") => unless(rule, same_names::repeats_names),
            "LimitAggregation" => unless(rule, limited_groups::may_leave_groups_out),
            "ProjectionPushdown" => Arc::new(filter_projections::BelowBareFilters(rule)) as _,
            _ => rule,
        })
        .collect();
    let last_pushdown = rules
        .iter()
        .rposition(|rule| rule.name().starts_with("FilterPushdown"));
    let before = last_pushdown.unwrap_or(rules.len());
    rules.insert(before, Arc::new(first_floats::FirstFloats));
    rules.insert(0, Arc::new(grouping_sets::ForgetBelowGroupingSets));
    rules
}

fn unless(rule: PhysicalRule, may_be_wrong: fn(&dyn ExecutionPlan) -> bool) -> PhysicalRule {
    Arc::new(Unless { rule, may_be_wrong })
}

/// Keeps two stacked projections apart that compute the same expressions, as in
/// `SELECT x + 1 AS x FROM (SELECT x + 1 AS x FROM t)`. The optimizer takes the second one for a
/// copy of the first and removes it (<https://github.com/apache/datafusion/pull/24686>). The
/// change adds empty metadata to aliases without metadata: the meaning is the same, but the two
/// are not equal.
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

/// Returns the node if it is a projection that computes the same as the one below it.
fn repeated(node: &LogicalPlan) -> Option<&Projection> {
    match node {
        LogicalPlan::Projection(upper) => match &*upper.input {
            LogicalPlan::Projection(lower) => (lower.expr == upper.expr).then_some(upper),
            _ => None,
        },
        _ => None,
    }
}
