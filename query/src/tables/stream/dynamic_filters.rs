//! Detects dynamic filters that lose their columns on the way to a scan.
//!
//! A sort of the first rows sends a filter to scans: the rows that come before the rows it has,
//! in terms of its keys. A projection below has other columns, so DataFusion replaces the keys
//! with the projection's expressions. It searches the filter for keys from its leaves upwards.
//! Where one key is within another, as in `ORDER BY a, a + b`, it replaces the inner key first.
//! Then it does not find the outer key any more, whose other columns stay those of the sort. A
//! scan takes such a `b` for whatever column it has by that name or at that position.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;

/// Returns whether every column of a filter belongs to the node to which the filter was pushed.
///
/// The keys are visible here only after their replacement. A key that was within another still
/// is, since the columns of both were replaced alike; the reverse does not hold.
pub(crate) fn has_its_columns(filter: &Arc<dyn PhysicalExpr>) -> Result<bool> {
    let mut has = true;
    filter.apply(|expr| {
        if let Some(dynamic) = expr.downcast_ref::<DynamicFilterPhysicalExpr>() {
            let keys = dynamic.children();
            has &= keys.iter().all(|key| is_replaced(key, &keys));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(has)
}

/// Returns whether no other key is within this one, or one key within it has all of its columns.
/// In either case all columns are replaced: with the inner key, or else with the outer one.
fn is_replaced(key: &Arc<dyn PhysicalExpr>, keys: &[&Arc<dyn PhysicalExpr>]) -> bool {
    let parts = key.children().into_iter();
    let parts: Vec<_> = parts
        .filter(|part| !collect_columns(part).is_empty())
        .collect();
    match parts.as_slice() {
        [part] => keys.contains(part) || is_replaced(part, keys),
        parts => !parts.iter().any(|part| has_key(part, keys)),
    }
}

/// Returns whether an expression is one of the keys, or contains one.
fn has_key(expr: &Arc<dyn PhysicalExpr>, keys: &[&Arc<dyn PhysicalExpr>]) -> bool {
    keys.contains(&expr) || expr.children().iter().any(|part| has_key(part, keys))
}
