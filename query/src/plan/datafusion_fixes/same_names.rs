//! Prevents filters from being pushed below joins whose sides have columns of one name.
//!
//! The rule that moves filters of a physical plan towards the scans finds columns by their names.
//! Where both sides of a join have a `time`, the rule moves a filter on `a.time` below `b`: rows
//! are lost or wrongly kept (<https://github.com/apache/datafusion/issues/25244>,
//! <https://github.com/apache/datafusion/issues/25296>, fixed after the release in use). The
//! logical plan has already pushed filters to where they belong, and a filter that is pushed no
//! further stays above the join.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};

/// The rule, skipped for plans in which a name does not identify a column.
#[derive(Debug)]
pub(super) struct UnlessNamesRepeat(pub(super) Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for UnlessNamesRepeat {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if plan.exists(|node| Ok(repeats_names(&**node)))? {
            return Ok(plan);
        }
        self.0.optimize(plan, config)
    }
}

/// Returns whether two columns of a join have one name, on both sides or on one.
fn repeats_names(node: &dyn ExecutionPlan) -> bool {
    let children = node.children();
    if children.len() < 2 || node.is::<UnionExec>() || node.is::<InterleaveExec>() {
        return false;
    }
    let mut known = HashSet::new();
    let schemas: Vec<_> = children.into_iter().map(|child| child.schema()).collect();
    let mut fields = schemas.iter().flat_map(|schema| schema.fields());
    fields.any(|field| !known.insert(field.name().as_str()))
}
