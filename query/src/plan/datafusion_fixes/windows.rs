//! Keeps limits above window functions.
//!
//! The rule that lets groups end at the first keys of a `LIMIT` goes down through every operator
//! that keeps the number of rows. A window function does, but its values depend on all rows:
//! `SELECT h, count(*) OVER (ORDER BY h DESC) … GROUP BY h ORDER BY h LIMIT 3` would count three.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

/// The rule, skipped for plans with window functions.
#[derive(Debug)]
pub(super) struct UnlessWindows(pub(super) Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for UnlessWindows {
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
        let is_window = |node: &Arc<dyn ExecutionPlan>| {
            node.is::<BoundedWindowAggExec>() || node.is::<WindowAggExec>()
        };
        if plan.exists(|node| Ok(is_window(node)))? {
            return Ok(plan);
        }
        self.0.optimize(plan, config)
    }
}
