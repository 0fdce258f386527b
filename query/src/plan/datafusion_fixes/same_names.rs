//! Prevents filters from being pushed below joins whose sides have columns of one name.
//!
//! The rule that moves filters of a physical plan towards the scans finds columns by their names.
//! Where both sides of a join have a `time`, the rule moves a filter on `a.time` below `b`: rows
//! are lost or wrongly kept (<https://github.com/apache/datafusion/issues/25244>,
//! <https://github.com/apache/datafusion/issues/25296>, fixed after the release in use). The
//! logical plan has already pushed filters to where they belong, and a filter that is pushed no
//! further stays above the join.

use std::collections::HashSet;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};

/// Returns whether two columns of a join have one name, on both sides or on one.
pub(super) fn repeats_names(node: &dyn ExecutionPlan) -> bool {
    let children = node.children();
    if children.len() < 2 || node.is::<UnionExec>() || node.is::<InterleaveExec>() {
        return false;
    }
    let mut known = HashSet::new();
    let schemas: Vec<_> = children.into_iter().map(|child| child.schema()).collect();
    let mut fields = schemas.iter().flat_map(|schema| schema.fields());
    fields.any(|field| !known.insert(field.name().as_str()))
}
