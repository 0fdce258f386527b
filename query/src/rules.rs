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

/// Rules of joins, unions, subqueries and DISTINCT, which find nothing in the rows of one table or in their
/// groups: to look for it takes a fifth of the time that such a plan is optimized.
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

/// The rules of plans that read one table and no other.
#[derive(Debug)]
pub(crate) struct OneTable(Optimizer);

impl OneTable {
    pub(crate) fn new() -> Self {
        let rules = all().into_iter();
        let rules = rules.filter(|rule| !OF_MANY_TABLES.contains(&rule.name()));
        Self(Optimizer::with_rules(rules.collect()))
    }

    /// Analyses and optimizes a plan of any kind.
    pub(crate) fn optimize(
        &self,
        plan: LogicalPlan,
        state: &mut SessionState,
    ) -> Result<LogicalPlan> {
        let plan = upstream::keep_repeated(plan)?;
        let reads = Reads::of(&plan)?;
        if reads == Reads::Any {
            return state.optimize(&plan);
        }
        if reads == Reads::Rows {
            state.config_mut().options_mut().optimizer.max_passes = 1;
        }
        let options = state.config_options();
        let plan = state
            .analyzer()
            .execute_and_check(plan, options, |_, _| {})?;
        self.0.optimize(plan, state, |_, _| {})
    }
}

/// What a plan makes of what it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// Rows of one table: its optimizer has nothing to do twice.
    Rows,
    /// Groups of them.
    Groups,
    Any,
}

impl Reads {
    fn of(plan: &LogicalPlan) -> Result<Self> {
        let mut reads = Self::Rows;
        plan.apply_with_subqueries(|node| {
            match node {
                LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::Limit(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::TableScan(_) => {}
                LogicalPlan::Aggregate(_) if reads != Self::Any => reads = Self::Groups,
                _ => reads = Self::Any,
            }
            node.apply_expressions(|expr| {
                let asks = expr.exists(|e| {
                    Ok(matches!(
                        e,
                        Expr::ScalarSubquery(_)
                            | Expr::InSubquery(_)
                            | Expr::Exists(_)
                            | Expr::SetComparison(_)
                    ))
                })?;
                if asks {
                    reads = Self::Any;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(reads)
    }
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
        let kept = OneTable::new().0.rules.len();
        assert_eq!(kept + OF_MANY_TABLES.len(), all.len());
    }
}
