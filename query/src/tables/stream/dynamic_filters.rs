//! Tells filters that change while a query runs and lose their columns on the way to a scan.
//!
//! A sort of the first rows tells scans what comes before the rows that it has, in terms of its
//! keys. A projection below has other columns, so the keys are replaced by what they are there. The
//! filter is searched for keys from its leaves upwards: where one key is within another, as in
//! `ORDER BY a, a + b`, the inner one is replaced first, the outer one is not found any more, and
//! its other columns stay those of the sort. A scan takes `b` for whatever column it has by that
//! name or in that place.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;

/// Returns whether every column of a filter is that of the node which it was handed down to.
///
/// Keys are seen here as they are after they were replaced. One that was within another still is,
/// since the columns of both were replaced alike; the reverse does not hold.
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

/// Returns whether no other key is within this one, or all columns of this one are within it. In
/// either case all are replaced: with the inner key, or else with the outer one.
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

/// Returns whether an expression is one of the keys, or has one within.
fn has_key(expr: &Arc<dyn PhysicalExpr>, keys: &[&Arc<dyn PhysicalExpr>]) -> bool {
    keys.contains(&expr) || expr.children().iter().any(|part| has_key(part, keys))
}
