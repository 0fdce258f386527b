//! A session that plans with other physical rules than its own.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProviderList, Session};
use datafusion::common::config::TableOptions;
use datafusion::common::{DFSchema, Result};
use datafusion::execution::context::{ExecutionProps, QueryPlanner};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::registry::ExtensionTypeRegistryRef;
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, WindowUDF,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;

use super::PhysicalRule;

/// A session, and the physical rules that replace its own.
pub(super) struct PlanningSession {
    pub(super) state: SessionState,
    pub(super) rules: Arc<[PhysicalRule]>,
}

#[async_trait]
impl Session for PlanningSession {
    fn physical_optimizers(&self) -> &[PhysicalRule] {
        &self.rules
    }
    fn session_id(&self) -> &str {
        self.state.session_id()
    }
    fn config(&self) -> &SessionConfig {
        self.state.config()
    }
    fn catalog_list(&self) -> Arc<dyn CatalogProviderList> {
        Arc::clone(self.state.catalog_list())
    }
    fn query_planner(&self) -> Arc<dyn QueryPlanner + Send + Sync> {
        Arc::clone(self.state.query_planner())
    }
    fn optimize(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        self.state.optimize(plan)
    }
    async fn create_physical_plan(&self, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.optimize(plan)?;
        self.query_planner().create_physical_plan(&plan, self).await
    }
    fn create_physical_expr(&self, expr: Expr, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>> {
        self.state.create_physical_expr(expr, schema)
    }
    fn scalar_functions(&self) -> &HashMap<String, Arc<ScalarUDF>> {
        self.state.scalar_functions()
    }
    fn higher_order_functions(&self) -> &HashMap<String, Arc<HigherOrderUDF>> {
        self.state.higher_order_functions()
    }
    fn aggregate_functions(&self) -> &HashMap<String, Arc<AggregateUDF>> {
        self.state.aggregate_functions()
    }
    fn window_functions(&self) -> &HashMap<String, Arc<WindowUDF>> {
        self.state.window_functions()
    }
    fn extension_type_registry(&self) -> &ExtensionTypeRegistryRef {
        self.state.extension_type_registry()
    }
    fn runtime_env(&self) -> &Arc<RuntimeEnv> {
        self.state.runtime_env()
    }
    fn execution_props(&self) -> &ExecutionProps {
        self.state.execution_props()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn table_options(&self) -> &TableOptions {
        self.state.table_options()
    }
    fn table_options_mut(&mut self) -> &mut TableOptions {
        self.state.table_options_mut()
    }
    fn task_ctx(&self) -> Arc<TaskContext> {
        self.state.task_ctx()
    }
}
