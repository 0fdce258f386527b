//! Hides the properties of rows below grouping sets from the nodes above them.
//!
//! Grouping sets set columns to null. DataFusion still applies the properties of the columns
//! below (order, constants, equal columns, partitioning) above them. So an aggregate that takes
//! its rows for sorted returns a group before its last row has arrived, and a necessary sort is
//! left out.
//!
//! The same is done above filters that compare an expression of a column, or a column of floats
//! with zero.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{ColumnStatistics, Result, ScalarValue, Statistics};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::intervals::utils::check_support;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};

use crate::plan_node::{NodeKind, PlanNode};

/// Physical rule that puts [`ForgetExec`] below every aggregate of grouping sets, and also above
/// aggregates that group by a constant, or by one expression twice. An input without properties
/// leads to no other properties of the groups. The rule has to run before the rules that use
/// properties of rows.
#[derive(Debug)]
pub(crate) struct ForgetBelowGroupingSets;

impl PhysicalOptimizerRule for ForgetBelowGroupingSets {
    fn name(&self) -> &str {
        "forget_below_grouping_sets"
    }
    fn schema_check(&self) -> bool {
        true
    }
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|node| {
            if node.downcast_ref::<FilterExec>().is_some_and(fixes_a_part) {
                let forgotten: Arc<dyn ExecutionPlan> =
                    Arc::new(PlanNode::over(ForgetExec, node, []));
                return Ok(Transformed::yes(forgotten));
            }
            let expands = node
                .downcast_ref::<AggregateExec>()
                .filter(|aggregate| aggregate.group_expr().has_grouping_set());
            match expands {
                Some(aggregate) => {
                    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                    let groups = aggregate.group_expr().expr();
                    let mut known = Vec::new();
                    let follows = groups.iter().any(|(group, _)| {
                        let repeats = known.contains(&group);
                        known.push(group);
                        repeats || collect_columns(group).is_empty()
                    });
                    let input = Arc::clone(aggregate.input());
                    let input = Arc::new(PlanNode::over(ForgetExec, input, []));
                    let sets = node.replace_children(vec![input], options)?;
                    // A constant is null in the sets without it. Of two groups of one expression,
                    // one is null in the sets that have only the other.
                    Ok(Transformed::yes(match follows {
                        true => Arc::new(PlanNode::over(ForgetExec, sets, [])),
                        false => sets,
                    }))
                }
                None => Ok(Transformed::no(node)),
            }
        });
        Ok(plan?.data)
    }
}

/// Returns whether DataFusion may assume one value of a column where a filter leaves several, and
/// so leave out a sort by it.
///
/// * A term `CAST(time AS DATE) = DATE '2026-10-05'` makes all columns of its operand constant,
///   and `x = 0` makes a column of floats constant, which may be -0 and 0.
/// * Intervals of columns are derived from all terms and from the known properties of the rows,
///   where every expression of the filter supports intervals. They are too narrow where less than
///   the whole value is compared:
///   `CAST(time AS DATE) <= DATE '2026-10-05' AND time >= '2026-10-05'` leaves midnight only, and
///   `x / 2 <= 1 AND x >= 2` leaves 2 only.
fn fixes_a_part(filter: &FilterExec) -> bool {
    let schema = filter.input().schema();
    let has_intervals = check_support(filter.predicate(), &schema);
    let terms = split_conjunction(filter.predicate());
    terms.into_iter().any(|term| {
        let Some(compared) = term.downcast_ref::<BinaryExpr>() else {
            return false;
        };
        let is_plain = |side: &Arc<dyn PhysicalExpr>| side.is::<Column>() || side.is::<Literal>();
        let are_plain = is_plain(compared.left()) && is_plain(compared.right());
        match compared.op() {
            Operator::Eq => !are_plain || !is_of_one_value(compared, &schema),
            Operator::LtEq | Operator::GtEq if are_plain => {
                has_intervals && !is_of_one_value(compared, &schema)
            }
            Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => {
                has_intervals && !are_plain
            }
            _ => false,
        }
    })
}

/// Returns whether equal values are identical: for floats, all values but zeros.
fn is_of_one_value(equal: &BinaryExpr, schema: &Schema) -> bool {
    let sides = [equal.left(), equal.right()];
    let is_float = |side: &Arc<dyn PhysicalExpr>| {
        side.data_type(schema)
            .is_ok_and(|data_type| data_type.is_floating())
    };
    let is_no_zero = |side: &Arc<dyn PhysicalExpr>| {
        let value = side.downcast_ref::<Literal>().map(Literal::value);
        let value = value.and_then(|value| value.cast_to(&DataType::Float64).ok());
        matches!(value, Some(ScalarValue::Float64(Some(x))) if x != 0.0)
    };
    !sides.into_iter().any(is_float) || sides.into_iter().any(is_no_zero)
}

/// Passes its input on without its properties, except its columns, its number of partitions and
/// an estimate of its rows.
#[derive(Debug)]
struct ForgetExec;

impl NodeKind for ForgetExec {
    const NAME: &'static str = "ForgetExec";

    fn describe(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ForgetExec: order and constants")
    }
    fn properties(input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        Arc::new(PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            input.pipeline_behavior(),
            input.boundedness(),
        ))
    }
    fn statistics(
        &self,
        input: Option<&Arc<Statistics>>,
        _: Option<usize>,
    ) -> Option<Arc<Statistics>> {
        let input = input?;
        // With statistics of columns, a filter above would rely on too narrow an interval.
        let columns = input.column_statistics.len();
        Some(Arc::new(Statistics {
            num_rows: input.num_rows.to_inexact(),
            total_byte_size: Precision::Absent,
            column_statistics: vec![ColumnStatistics::new_unknown(); columns],
        }))
    }
}
