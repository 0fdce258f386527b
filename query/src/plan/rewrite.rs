//! Changes the expressions of a whole plan.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Changes the expressions of every node of a plan, and keeps the names of its columns. `change`
/// gets a whole expression with the columns that it can name.
///
/// # Errors
/// The errors of `change`, and the error of a node that cannot be built again.
pub(super) fn expressions(
    plan: LogicalPlan,
    change: &dyn Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    // The columns that a correlated subquery takes from outside bring their types along.
    let changed = plan.transform_up_with_subqueries(|node| {
        let mut schema = merge_schema(&node.inputs());
        if let LogicalPlan::TableScan(scan) = &node {
            schema.merge(&DFSchema::try_from_qualified_schema(
                scan.table_name.clone(),
                &scan.source.schema(),
            )?);
        }
        let names = NamePreserver::new(&node);
        let one = |expr: Expr| {
            let name = names.save(&expr);
            let changed = change(expr, &schema)?;
            Ok(match changed.transformed {
                true => changed.update_data(|expr| name.restore(expr)),
                false => changed,
            })
        };
        let node = node.map_expressions(|expr| match expr {
            // Its columns are those of the expressions in it.
            sets @ Expr::GroupingSet(_) => sets.map_children(one),
            expr => one(expr),
        })?;
        match node.transformed {
            true => node.map_data(LogicalPlan::recompute_schema),
            false => Ok(node),
        }
    });
    Ok(changed?.data)
}
