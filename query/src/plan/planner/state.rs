//! Session states of DataFusion with what this crate adds and what a session sets.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::execution::context::SQLOptions;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{FunctionRegistry, SessionState, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::LogicalPlan;

use crate::functions;
use crate::plan::datafusion_fixes;
use crate::plan::rules;
use crate::postgres;
use crate::run::memory::Share;

/// Builds a state with the functions and rules of this crate. No function returns a constant
/// longer than `longest_constant` bytes.
pub(crate) fn with_ours(
    builder: SessionStateBuilder,
    longest_constant: usize,
) -> datafusion::error::Result<SessionState> {
    let mut state = builder
        .with_analyzer_rules(rules::of_analysis())
        .with_optimizer_rules(rules::all())
        .with_physical_optimizer_rules(datafusion_fixes::physical_rules())
        .build();
    functions::register(&mut state, longest_constant)?;
    Ok(state)
}

/// Returns the names of all functions that a statement can call.
pub(super) fn function_names(state: &SessionState) -> Arc<[String]> {
    let scalars = state.scalar_functions().keys();
    let others = state.aggregate_functions().keys();
    let names = scalars.chain(others).chain(state.window_functions().keys());
    let of_clients = postgres::functions::names().map(str::to_owned);
    let names: BTreeSet<String> = names.cloned().chain(of_clients).collect();
    names.into_iter().collect()
}

/// Sets the zone in which texts without one are read. Some functions hold a copy of the settings.
pub(super) fn set_time_zone(state: &mut SessionState, zone: &str) {
    let options = state.config_mut().options_mut();
    options.execution.time_zone = Some(zone.to_owned());
    let options = Arc::clone(state.config_options());
    let functions = state.scalar_functions().values();
    let changed: Vec<_> = functions
        .filter_map(|function| function.inner().with_updated_config(&options))
        .collect();
    for function in changed {
        // Only a session that cannot have functions fails to take one.
        let _ = state.register_udf(Arc::new(function));
    }
}

/// Returns the task context of a plan with the memory of its query. It needs no functions: a plan
/// contains its own, and those of a context serve plans from another process.
pub(super) fn context(state: &SessionState, share: Arc<Share>) -> Arc<TaskContext> {
    let runtime = RuntimeEnv {
        memory_pool: share,
        ..RuntimeEnv::clone(state.runtime_env())
    };
    Arc::new(TaskContext::new(
        None,
        state.session_id().to_owned(),
        state.config().clone(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        Arc::new(runtime),
    ))
}

/// Refuses a plan that does more than read.
pub(super) fn reading(plan: LogicalPlan) -> datafusion::error::Result<LogicalPlan> {
    let read_only = SQLOptions::new()
        .with_allow_ddl(false)
        .with_allow_dml(false)
        .with_allow_statements(false);
    read_only.verify_plan(&plan)?;
    Ok(plan)
}
