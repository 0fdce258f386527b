//! Binds the names of a statement: tables of the query's catalog, functions of the session state
//! and those of PostgreSQL's clients, and the types of declared parameters.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::catalog::TableFunctionArgs;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{
    DFSchema, DataFusionError, ResolvedTableReference, Result, TableReference,
};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::planner::{
    ContextProvider, ExprPlanner, RelationPlanner, TypePlanner,
};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::{ParserOptions, PlannerContext, SqlToRel};

use crate::error::{Error, Fault};
use crate::plan::dialect::type_names::TypeNames;
use crate::postgres::functions::FunctionScope;
use crate::tables::catalog::{CATALOG, Catalog};

/// The names that one statement can use.
pub(super) struct Binder<'a> {
    state: &'a SessionState,
    tables: HashMap<ResolvedTableReference, Arc<dyn TableSource>>,
    scope: Arc<FunctionScope>,
}

impl<'a> Binder<'a> {
    /// Finds the tables that a statement names.
    ///
    /// # Errors
    /// The error of a table that exists and cannot be read.
    pub(super) fn new(
        state: &'a SessionState,
        catalog: &Arc<Catalog>,
        statement: &Statement,
    ) -> Result<Self> {
        let mut tables = HashMap::new();
        for reference in state.resolve_table_references(statement)? {
            let resolved = resolve(state, reference);
            if *resolved.catalog == *CATALOG
                && !tables.contains_key(&resolved)
                && let Some(table) = catalog.table(&resolved.schema, &resolved.table)?
            {
                tables.insert(resolved, provider_as_source(table));
            }
        }
        let session = catalog.session().clone();
        let catalog = Arc::clone(catalog);
        let scope = FunctionScope::new(session, Box::new(move || catalog.objects()));
        Ok(Self {
            state,
            tables,
            scope: Arc::new(scope),
        })
    }

    /// Returns whether one of the tables has a column.
    pub(super) fn has_column(&self, name: &str) -> bool {
        let mut tables = self.tables.values();
        tables.any(|table| table.schema().column_with_name(name).is_some())
    }

    /// Returns the plan of a statement. `parameters` are the types of `$1`, `$2`, …
    pub(super) fn plan(
        &self,
        statement: Statement,
        parameters: &[Option<DataType>],
    ) -> Result<LogicalPlan> {
        let options = ParserOptions::from(&self.state.config_options().sql_parser);
        let planner = SqlToRel::new_with_options(self, options);
        match statement {
            Statement::Statement(sql) => {
                let field = |data_type: &DataType| -> FieldRef {
                    Arc::new(Field::new("", data_type.clone(), true))
                };
                let declared = parameters.iter().map(|t| t.as_ref().map(field));
                let mut context =
                    PlannerContext::new().with_prepare_param_data_types(declared.collect());
                planner.sql_statement_to_plan_with_context(*sql, &mut context)
            }
            other => planner.statement_to_plan(other),
        }
    }
}

fn resolve(state: &SessionState, name: TableReference) -> ResolvedTableReference {
    let defaults = &state.config_options().catalog;
    name.resolve(&defaults.default_catalog, &defaults.default_schema)
}

impl ContextProvider for Binder<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        let name = resolve(self.state, name);
        let table = self.tables.get(&name).cloned();
        // The error's hint and words come from this text.
        table.ok_or_else(|| DataFusionError::Plan(format!("table '{name}' not found")))
    }
    fn get_table_function_source(
        &self,
        name: &str,
        args: Vec<Expr>,
    ) -> Result<Arc<dyn TableSource>> {
        let Some(function) = self.state.table_functions().get(name) else {
            let message = format!("there is no table function {name}");
            return Err(Error::of_fault(Fault::NoFunction, message).into());
        };
        let started = self.state.execution_props().query_execution_start_time;
        let context = SimplifyContext::builder()
            .with_config_options(Arc::clone(self.state.config_options()))
            .with_query_execution_start_time(started)
            .build();
        let simplifier = ExprSimplifier::new(context);
        let schema = DFSchema::empty();
        let args = args.into_iter().map(|arg| {
            let arg = simplifier.coerce(arg, &schema)?;
            simplifier.simplify(arg)
        });
        let args = args.collect::<Result<Vec<_>>>()?;
        let args = TableFunctionArgs::new(&args, self.state);
        let table = function.create_table_provider_with_args(args)?;
        Ok(provider_as_source(table))
    }
    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.state.expr_planners()
    }
    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        self.state.relation_planners()
    }
    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(TypeNames))
    }
    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        let of_clients = self.scope.function(name);
        of_clients.or_else(|| self.state.scalar_functions().get(name).cloned())
    }
    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.state.higher_order_functions().get(name).cloned()
    }
    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state.aggregate_functions().get(name).cloned()
    }
    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).cloned()
    }
    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }
    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }
    fn udf_names(&self) -> Vec<String> {
        self.state.scalar_functions().keys().cloned().collect()
    }
    fn higher_order_function_names(&self) -> Vec<String> {
        let functions = self.state.higher_order_functions();
        functions.keys().cloned().collect()
    }
    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().cloned().collect()
    }
    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }
}
