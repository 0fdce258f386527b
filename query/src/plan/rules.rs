//! Chooses the rules for a plan: DataFusion's and ours, or only the rules that find something in
//! a plan of its shape. Each rule walks the plan, and for a query that reads ten rows these walks
//! would take longer than the reading.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::plan::checked_arithmetic::{self, Constants};
use crate::plan::checked_sums::CheckedSums;
use crate::plan::datafusion_fixes;
use crate::plan::distinct_predicate::DistinctPredicate;
use crate::plan::known_counts::ManifestCount;
use crate::plan::rollup_rewrite::RollupRewrite;
use crate::plan::session_zone::SessionZone;

mod planning_session;
#[cfg(test)]
mod tests;

use planning_session::PlanningSession;

/// A rule, as DataFusion stores it.
type Rule = Arc<dyn OptimizerRule + Send + Sync>;
type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// Rules for joins, unions, subqueries and DISTINCT. In a plan over the rows of one table or
/// their groups each of them would walk the plan in every pass and find nothing.
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

/// Rules for groups, orders and limits, which a plan of [`Shape::Rows`] does not have.
const OF_GROUPS_AND_ORDERS: [&str; 9] = [
    "eliminate_duplicated_expr",
    "eliminate_limit",
    "push_down_limit",
    "single_distinct_aggregation_to_group_by",
    "eliminate_group_by_constant",
    "manifest_count",
    "rollup_rewrite",
    "checked_sums",
    "each_value_once",
];

/// Physical rules that change a plan of [`Shape::Rows`]. The scan itself determines the number of
/// its output partitions, so no rule needs to redistribute the rows.
const PHYSICAL_OF_ROWS: [&str; 3] = ["FilterPushdown", "ProjectionPushdown", "EnsureCooperative"];

/// Kinds of nodes in a plan, as far as they matter to rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Rows of one table in their stored order: filters, projections and computed columns.
    Rows,
    /// Rows of one table, with groups, an order or a limit.
    OneTable,
    Any,
}

/// Returns all rules: DataFusion's, and ours among them.
pub(crate) fn all() -> Vec<Rule> {
    let mut rules = Optimizer::new().rules;
    // These rules run after constants are known, and before any work on a scan that turns out to
    // be unnecessary.
    let simplified = rules
        .iter()
        .position(|rule| rule.name() == "simplify_expressions");
    let constants_known = simplified.map_or(0, |at| at + 1);
    rules.insert(constants_known, Arc::new(ManifestCount));
    rules.insert(constants_known, Arc::new(datafusion_fixes::FloatLists));
    rules.push(Arc::new(RollupRewrite));
    rules.push(Arc::new(CheckedSums));
    rules.push(Arc::new(DistinctPredicate::of_streams()));
    rules
}

/// Returns DataFusion's rules for the analysis of a plan, with ours after the coercion of types:
/// these need the types with which expressions are evaluated.
pub(crate) fn of_analysis() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules = Analyzer::new().rules;
    rules.push(Arc::new(SessionZone));
    rules.push(Arc::new(Constants));
    rules
}

/// The rules for each shape of plan. The session has all rules, for [`Shape::Any`].
#[derive(Debug)]
pub(crate) struct Rules {
    rows: Optimizer,
    one_table: Optimizer,
    physical_of_rows: Arc<[PhysicalRule]>,
}

impl Rules {
    pub(crate) fn new() -> Self {
        let but = |left_out: &[&[&str]]| {
            let is_left_out = |rule: &Rule| left_out.iter().any(|l| l.contains(&rule.name()));
            Optimizer::with_rules(all().into_iter().filter(|r| !is_left_out(r)).collect())
        };
        let mut kept: Vec<PhysicalRule> = Vec::new();
        for rule in datafusion_fixes::physical_rules() {
            // DataFusion lists some rules twice because of the rules between. These are absent
            // here, so once is enough.
            let is_new = kept.iter().all(|k| k.name() != rule.name());
            if is_new && PHYSICAL_OF_ROWS.contains(&rule.name()) {
                kept.push(rule);
            }
        }
        Self {
            rows: but(&[&OF_MANY_TABLES, &OF_GROUPS_AND_ORDERS]),
            one_table: but(&[&OF_MANY_TABLES]),
            physical_of_rows: kept.into(),
        }
    }

    /// Analyzes and optimizes a plan, and returns it with the shape that it had before.
    pub(crate) fn optimize(
        &self,
        plan: LogicalPlan,
        state: &SessionState,
    ) -> Result<(LogicalPlan, Shape)> {
        let shape = shape(&plan)?;
        let rules = match shape {
            Shape::Rows => &self.rows,
            Shape::OneTable => &self.one_table,
            Shape::Any => {
                let plan = datafusion_fixes::keep_repeated(plan)?;
                return Ok((state.optimize(&plan)?, shape));
            }
        };
        let plan = analyze(plan, state)?;
        Ok((rules.optimize(plan, state, |_, _| {})?, shape))
    }

    /// Creates the physical plan of an optimized plan, with the rules for its shape. Returns the
    /// session too.
    pub(crate) async fn physical(
        &self,
        plan: LogicalPlan,
        shape: Shape,
        state: SessionState,
    ) -> Result<(Arc<dyn ExecutionPlan>, SessionState)> {
        let plan = &datafusion_fixes::hide_lossy_casts(checked_arithmetic::checked(plan)?)?;
        let planner = Arc::clone(state.query_planner());
        if shape != Shape::Rows {
            return Ok((planner.create_physical_plan(plan, &state).await?, state));
        }
        let planning = PlanningSession {
            state,
            rules: Arc::clone(&self.physical_of_rows),
        };
        let plan = planner.create_physical_plan(plan, &planning).await?;
        Ok((plan, planning.state))
    }
}

/// Analyzes a plan: every expression gets the types with which it is evaluated.
pub(crate) fn analyze(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    let plan = datafusion_fixes::keep_repeated(plan)?;
    let options = state.config_options();
    state.analyzer().execute_and_check(plan, options, |_, _| {})
}

fn shape(plan: &LogicalPlan) -> Result<Shape> {
    let mut shape = Shape::Rows;
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::TableScan(_) => {}
            LogicalPlan::Aggregate(_) | LogicalPlan::Sort(_) | LogicalPlan::Limit(_) => {
                shape = Shape::OneTable;
            }
            _ => {
                shape = Shape::Any;
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        let mut asks = false;
        node.apply_expressions(|expr| {
            asks |= expr.exists(|e| {
                Ok(matches!(
                    e,
                    Expr::ScalarSubquery(_)
                        | Expr::InSubquery(_)
                        | Expr::Exists(_)
                        | Expr::SetComparison(_)
                ))
            })?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        if asks {
            shape = Shape::Any;
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(shape)
}
