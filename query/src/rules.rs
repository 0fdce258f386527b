//! Through which rules a plan goes: DataFusion's and ours, all of them or those that one table needs.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{Optimizer, OptimizerRule};

use crate::each_value::EachValueOnce;
use crate::manifest_count::ManifestCount;
use crate::rollup_rewrite::RollupRewrite;
use crate::upstream;

/// A rule, as DataFusion keeps it.
type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// Rules of joins, unions, subqueries and DISTINCT, each of which would walk the rows of one table or their
/// groups in every pass and find nothing.
const OF_MANY_TABLES: [&str; 12] = [
    "rewrite_set_comparison",
    "optimize_unions",
    "unions_to_filter",
    "replace_distinct_aggregate",
    "eliminate_join",
    "decorrelate_predicate_subquery",
    "scalar_subquery_to_join",
    "decorrelate_lateral_join",
    "extract_equijoin_predicate",
    "eliminate_cross_join",
    "filter_null_join_keys",
    "eliminate_outer_join",
];

/// DataFusion's rules, and ours among them.
pub(crate) fn all() -> Vec<Rule> {
    let mut rules = Optimizer::new().rules;
    // When constants are known, and before anything is made of a scan that is not needed.
    let simplified = rules
        .iter()
        .position(|rule| rule.name() == "simplify_expressions");
    rules.insert(simplified.map_or(0, |at| at + 1), Arc::new(ManifestCount));
    rules.push(Arc::new(RollupRewrite));
    rules.push(Arc::new(EachValueOnce::of_streams()));
    rules
}

/// The rules for each kind of plan.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Those of plans that read one table and no other. A session has all.
    one_table: Optimizer,
}

impl Rules {
    pub(crate) fn new() -> Self {
        let rules = all().into_iter();
        let rules = rules.filter(|rule| !OF_MANY_TABLES.contains(&rule.name()));
        Self {
            one_table: Optimizer::with_rules(rules.collect()),
        }
    }

    /// Analyses and optimizes a plan.
    pub(crate) fn optimize(&self, plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
        let plan = upstream::keep_repeated(plan)?;
        if !reads_one_table(&plan)? {
            return state.optimize(&plan);
        }
        let options = state.config_options();
        let plan = state
            .analyzer()
            .execute_and_check(plan, options, |_, _| {})?;
        self.one_table.optimize(plan, state, |_, _| {})
    }
}

/// Whether a plan takes rows of one table, or groups of them, and nothing else.
fn reads_one_table(plan: &LogicalPlan) -> Result<bool> {
    let mut is_one = true;
    plan.apply_with_subqueries(|node| {
        is_one &= matches!(
            node,
            LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::Aggregate(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::Limit(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::TableScan(_)
        );
        node.apply_expressions(|expr| {
            is_one &= !expr.exists(|e| {
                Ok(matches!(
                    e,
                    Expr::ScalarSubquery(_)
                        | Expr::InSubquery(_)
                        | Expr::Exists(_)
                        | Expr::SetComparison(_)
                ))
            })?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(is_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_are_left_out_are_there_to_be_left_out() {
        let all = all();
        for name in OF_MANY_TABLES {
            assert!(all.iter().any(|rule| rule.name() == name), "{name}");
        }
        let kept = Rules::new().one_table.rules.len();
        assert_eq!(kept + OF_MANY_TABLES.len(), all.len());
    }
}
