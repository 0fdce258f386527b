//! A plain DataFusion session over rows in memory, on one thread: none of our tables, rules or
//! caches, and of DataFusion's own optimizer only the rules that sub-queries cannot do without.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::{
    SortColumn, SortOptions, concat_batches, lexsort_to_indices, take_record_batch,
};
use arrow::datatypes::SchemaRef;
use datafusion::catalog::MemorySchemaProvider;
use datafusion::common::{Result, TableReference, plan_err};
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::optimizer::Optimizer;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;

use crate::functions;
use crate::plan::datafusion_fixes;

/// Without these a sub-query, a comma between tables or some functions have no plan at all.
const RULES: [&str; 9] = [
    "rewrite_set_comparison",
    "simplify_expressions",
    "replace_distinct_aggregate",
    "decorrelate_predicate_subquery",
    "scalar_subquery_to_join",
    "decorrelate_lateral_join",
    "extract_equijoin_predicate",
    "eliminate_cross_join",
    // Without this rule a limit above a sort keeps any rows, since the sort does not know it.
    "push_down_limit",
];

pub(super) struct Oracle {
    context: SessionContext,
}

impl Oracle {
    pub(super) fn new() -> Self {
        let mut config = datafusion_fixes::without_wrong(SessionConfig::new())
            .with_default_catalog_and_schema("plain", "public")
            .with_create_default_catalog_and_schema(true)
            .with_target_partitions(1);
        let set = config.options_mut();
        set.execution.time_zone = Some("UTC".to_owned());
        set.execution.skip_physical_aggregate_schema_check = true;
        let rules = Optimizer::new().rules.into_iter();
        let rules = rules.filter(|rule| RULES.contains(&rule.name())).collect();
        let physical = datafusion_fixes::physical_rules().into_iter();
        let saves_work = |rule: &str| {
            rule.starts_with("FilterPushdown")
                || ["ProjectionPushdown", "LimitAggregation"].contains(&rule)
        };
        let physical = physical.filter(|rule| !saves_work(rule.name())).collect();
        let mut state = SessionStateBuilder::new()
            .with_config(config)
            .with_default_features()
            .with_optimizer_rules(rules)
            .with_physical_optimizer_rules(physical)
            .build();
        functions::register(&mut state, 1 << 20).expect("functions");
        Self {
            context: SessionContext::new_with_state(state),
        }
    }

    pub(super) fn add(&mut self, schema: &str, name: &str, rows: RecordBatch) {
        let catalog = self.context.catalog("plain").expect("a catalog");
        if catalog.schema(schema).is_none() {
            let empty = Arc::new(MemorySchemaProvider::new());
            catalog.register_schema(schema, empty).expect("a schema");
        }
        let table = MemTable::try_new(rows.schema(), vec![vec![rows]]).expect("a table");
        let name = TableReference::partial(schema, name);
        self.context
            .register_table(name, Arc::new(table))
            .expect("new");
    }

    /// Returns the rows of a statement in the order of some of its columns. They are sorted after
    /// they are read, since DataFusion takes rows of one day for rows of one time and leaves the
    /// sort out.
    pub(super) async fn ask_sorted(
        &self,
        statement: Statement,
        keys: impl FnOnce(usize) -> Vec<(usize, SortOptions)>,
    ) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        let (schema, batches) = self.ask(statement).await?;
        let keys = keys(schema.fields().len());
        if keys.is_empty() || batches.is_empty() {
            return Ok((schema, batches));
        }
        let rows = concat_batches(&batches[0].schema(), &batches)?;
        // The engine refuses such a position too; a shorter form of a query may have left out its
        // column.
        if keys.iter().any(|(nth, _)| *nth >= rows.num_columns()) {
            return plan_err!("ORDER BY names a column that the query does not have");
        }
        let columns = keys.iter().map(|(nth, options)| SortColumn {
            values: Arc::clone(rows.column(*nth)),
            options: Some(*options),
        });
        let order = lexsort_to_indices(&columns.collect::<Vec<_>>(), None)?;
        Ok((schema, vec![take_record_batch(&rows, &order)?]))
    }

    pub(super) async fn ask(&self, statement: Statement) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        let plan = self.context.state().statement_to_plan(statement).await?;
        let frame = self.context.execute_logical_plan(plan).await?;
        let schema = Arc::clone(frame.schema().inner());
        Ok((schema, frame.collect().await?))
    }
}
