//! Levels as documents: `stats.daily_documents` has one for each key and day, with the hits of
//! its hours and minutes as members; `stats.monthly_documents` has one for each key and month,
//! with the hits of its days.
//!
//! # Invariants
//! * Documents are computed when they are read, from one snapshot, and never stored.
//! * A member is a unit of local time in the rollup's zone. Buckets of a local time that clocks
//!   show twice are added up in one member, and a local time that clocks skip is 0. So the
//!   members of each level add up to the document's total.
//! * Ranges of `metadata['date']` and values of keys are applied to cells. The minutes are read
//!   only for queries that use the column `minute`.

mod exec;
mod form;
mod read;
mod rows;
mod sheet;

use std::sync::Arc;

use aggregator::{Calendar, Filter};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use storage::{ID, Snapshot};

pub(crate) use exec::DocumentExec;
pub(crate) use form::Form;
use form::Shape;

use super::{LevelScan, LevelTable, Rollup, TileCache};
use crate::tables::sharded::Peer;

/// Column with a document's date and keys.
const METADATA: &str = "metadata";
/// First member of `metadata`, the start of the local day or month.
const DATE: &str = "date";

/// Table of the documents of one rollup.
#[derive(Debug)]
pub(crate) struct DocumentTable {
    form: Form,
    /// Name of the measure that documents show.
    counter: String,
    calendar: Calendar,
    /// Tables of the levels behind the documents, the coarsest first.
    levels: Vec<LevelTable>,
    schema: SchemaRef,
}

impl DocumentTable {
    /// Creates the table of a rollup's documents.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`], which names the requirement that the rollup lacks.
    pub(crate) fn new(
        form: Form,
        snapshot: &Arc<Snapshot>,
        rollup: &Rollup,
        cache: &Arc<TileCache>,
        peers: &[Arc<dyn Peer>],
    ) -> crate::Result<Self> {
        let definition = &rollup.definition;
        let counter = form.counter(definition)?.to_owned();
        let level = |level| {
            LevelTable::new(
                Arc::clone(snapshot),
                rollup.clone(),
                level,
                Arc::clone(cache),
            )
            .with_peers(peers.to_vec())
        };
        let levels: Vec<LevelTable> = form.levels().iter().copied().map(level).collect();
        let bucket = levels[0].schema.field(0);
        let keys = definition.by().iter();
        let mut metadata = vec![Field::new(DATE, bucket.data_type().clone(), false)];
        metadata.extend(keys.map(|key| Field::new(&key.name, key.key_type.arrow(), true)));
        let mut fields = vec![
            Field::new(ID, DataType::Utf8, false),
            Field::new(METADATA, DataType::Struct(metadata.into()), false),
            Field::new(form.total(), DataType::Int64, false),
        ];
        fields.extend(form.levels().iter().map(|level| form::members_of(*level)));
        Ok(Self {
            form,
            counter,
            calendar: definition.calendar(),
            levels,
            schema: Arc::new(Schema::new(fields)),
        })
    }

    /// Combines filters into one filter on cells. Its range begins and ends at the start of a
    /// document, so it selects whole documents.
    fn filter(&self, filters: &[Expr]) -> Filter {
        let filters: Vec<Expr> = filters.iter().filter_map(on_levels).collect();
        let mut filter = self.levels[0].filter(&filters);
        filter.from_us = self.first_document(filter.from_us);
        filter.to_us = self.first_document(filter.to_us);
        filter
    }

    /// Returns the start of the first document that starts at `at_us` or later.
    fn first_document(&self, at_us: i64) -> i64 {
        if at_us == i64::MIN || at_us == i64::MAX {
            return at_us;
        }
        let holding = self.calendar.bucket(self.form.document(), at_us);
        if holding.start_us == at_us {
            at_us
        } else {
            holding.end_us
        }
    }

    /// Plans the read of a level: bucket, keys and the measure.
    fn source(&self, level: &LevelTable, filter: &Filter) -> Result<LevelScan> {
        let wanted = |field: &&Arc<Field>| {
            let keys = level.rollup.definition.by();
            let name = field.name();
            name == "bucket" || *name == self.counter || keys.iter().any(|key| key.name == *name)
        };
        let fields: Vec<Arc<Field>> = level
            .schema
            .fields()
            .iter()
            .filter(wanted)
            .cloned()
            .collect();
        level.source(Arc::new(Schema::new(fields)), filter.clone())
    }
}

/// Translates a filter on `metadata` to the columns of a level: `metadata['date']` becomes
/// `bucket`, `metadata['path']` becomes `path`. `None` if the filter has other columns.
fn on_levels(filter: &Expr) -> Option<Expr> {
    let mut others = false;
    let made = filter.clone().transform_down(|expr| {
        if let Some(name) = member_of_metadata(&expr) {
            let name = if name == DATE { "bucket" } else { name };
            let column = Expr::Column(Column::new_unqualified(name));
            return Ok(Transformed::new(column, true, TreeNodeRecursion::Jump));
        }
        others |= matches!(expr, Expr::Column(_));
        Ok(Transformed::no(expr))
    });
    made.ok().filter(|_| !others).map(|made| made.data)
}

/// Returns the name in `metadata['name']`.
fn member_of_metadata(expr: &Expr) -> Option<&str> {
    let Expr::ScalarFunction(call) = expr else {
        return None;
    };
    match call.args.as_slice() {
        [Expr::Column(column), Expr::Literal(name, _)]
            if call.name() == "get_field" && column.name == METADATA =>
        {
            name.try_as_str().flatten()
        }
        _ => None,
    }
}

#[async_trait]
impl TableProvider for DocumentTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
    fn table_type(&self) -> TableType {
        TableType::View
    }
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let applies = |filter: &&Expr| {
            on_levels(filter).is_some_and(|on_levels| self.levels[0].applies(&on_levels))
        };
        Ok(filters
            .iter()
            .map(|filter| {
                if applies(filter) {
                    TableProviderFilterPushDown::Exact
                } else {
                    TableProviderFilterPushDown::Unsupported
                }
            })
            .collect())
    }
    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(projection) => Arc::new(self.schema.project(projection)?),
            None => self.schema.clone(),
        };
        let filter = self.filter(filters);
        // The coarsest level determines which documents exist; a finer one only adds its members.
        let wanted = |level: &&LevelTable| {
            level.level == self.form.levels()[0]
                || schema.index_of(form::column_of(level.level)).is_ok()
        };
        let sources = self
            .levels
            .iter()
            .filter(wanted)
            .map(|level| self.source(level, &filter))
            .collect::<Result<Vec<_>>>()?;
        let shape = Shape {
            form: self.form,
            counter: self.counter.clone(),
            schema,
        };
        Ok(Arc::new(DocumentExec::plan(shape, sources)))
    }
}
