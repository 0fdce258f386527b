//! Prevents projections from being moved below filters that have a projection of their own.
//!
//! A filter may pass on some of its columns only. The rule that moves projections towards the
//! scans moves a projection above such a filter below it unchanged. But the numbers of its
//! columns refer to the columns that the filter passes on, not to the columns that it receives.
//! Where the names at these positions differ, the query is rejected; where both sides of a join
//! have columns of one name, the query is answered with the columns of the other side.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::ProjectionExec;

/// The rule that moves projections, applied to filters that pass on all of their columns. The
/// rule itself adds projections to filters again where they belong.
#[derive(Debug)]
pub(super) struct BelowBareFilters(pub(super) Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for BelowBareFilters {
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
        self.0.optimize(bare(plan, false)?, config)
    }
}

/// Returns the same plan, in which filters that are `projected`, that is below some projection,
/// pass on all of their columns to a projection of their own.
fn bare(plan: Arc<dyn ExecutionPlan>, projected: bool) -> Result<Arc<dyn ExecutionPlan>> {
    let below = projected || plan.is::<ProjectionExec>();
    let children = plan.children().into_iter();
    let children = children.map(|child| bare(Arc::clone(child), below));
    let children = children.collect::<Result<_>>()?;
    let plan = replace_children_if_necessary(plan, children)?;
    let filter = plan.downcast_ref::<FilterExec>().filter(|_| projected);
    let Some((filter, columns)) = filter.and_then(|f| f.projection().as_ref().map(|c| (f, c)))
    else {
        return Ok(plan);
    };
    let schema = filter.input().schema();
    let columns = columns.iter().map(|at| {
        let name = schema.field(*at).name();
        ProjectionExpr::new(Arc::new(Column::new(name, *at)), name.clone())
    });
    let all = FilterExecBuilder::from(filter).apply_projection(None)?;
    Ok(Arc::new(ProjectionExec::try_new(
        columns,
        Arc::new(all.build()?),
    )?))
}
