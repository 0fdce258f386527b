//! Physical rules that are wrong for some plans.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use super::PhysicalRule;

/// A rule, skipped for plans with a node for which it may be wrong.
#[derive(Debug)]
pub(super) struct Unless {
    pub(super) rule: PhysicalRule,
    pub(super) may_be_wrong: fn(&dyn ExecutionPlan) -> bool,
}

impl PhysicalOptimizerRule for Unless {
    fn name(&self) -> &str {
        self.rule.name()
    }
    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if plan.exists(|node| Ok((self.may_be_wrong)(&**node)))? {
            return Ok(plan);
        }
        self.rule.optimize(plan, config)
    }
}
