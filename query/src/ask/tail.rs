//! `tail --where`: the rows of new chunks that pass a condition, as `SELECT *` would return them.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::PhysicalExpr;
use storage::StreamMeta;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::plan::datafusion_fixes;
use crate::tables::stream::chunks::conform;
use crate::tables::stream::{stored_schema, view};

/// Turns chunks into the rows of `SELECT * FROM stream WHERE …`.
#[derive(Debug)]
pub struct TailFilter {
    stored: SchemaRef,
    /// Columns of `SELECT *`, then `_seq`, so that a condition can name it.
    columns: Vec<Arc<dyn PhysicalExpr>>,
    viewed: SchemaRef,
    condition: Option<Arc<dyn PhysicalExpr>>,
}

impl TailFilter {
    /// Creates a filter over the chunks of a stream as it is now; a column that is added later
    /// needs a new filter. `condition` is an SQL expression such as `status >= 500`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the condition cannot be parsed, names an unknown column or is not
    /// true or false.
    pub fn new(
        engine: &Engine,
        meta: &StreamMeta,
        id_prefix: [u8; 6],
        condition: Option<&str>,
    ) -> Result<Self> {
        let session = engine.state();
        let stored = stored_schema(meta);
        let wrong = |e| Error::of(e, Vec::new);
        let from = DFSchema::try_from(stored.as_ref().clone()).map_err(wrong)?;
        let exprs = view(meta, id_prefix, None, true);
        let mut fields = Vec::with_capacity(exprs.len());
        let mut columns = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let name = expr.schema_name().to_string();
            let column = session.create_physical_expr(expr, &from).map_err(wrong)?;
            fields.push(Field::new(
                name,
                column.data_type(&stored).map_err(wrong)?,
                true,
            ));
            columns.push(column);
        }
        let viewed = Arc::new(Schema::new(fields));
        let condition = condition
            .map(|sql| Self::condition(engine, &viewed, sql))
            .transpose()?;
        Ok(Self {
            stored,
            columns,
            viewed,
            condition,
        })
    }

    /// Returns the condition as an expression over the columns of the stream's table.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it cannot be parsed or names an unknown column.
    pub(crate) fn logical_condition(&self, engine: &Engine, sql: &str) -> Result<Expr> {
        Self::parse(engine, &self.viewed, sql).map(|(expr, _)| expr)
    }

    fn parse(engine: &Engine, viewed: &SchemaRef, sql: &str) -> Result<(Expr, DFSchema)> {
        let session = engine.state();
        let wrong = |e| Error::of(e, Vec::new);
        let schema = DFSchema::try_from(viewed.as_ref().clone()).map_err(wrong)?;
        let dialect = session.config_options().sql_parser.dialect;
        let parsed = session.sql_to_expr_with_alias(sql, &dialect);
        let mut parsed = parsed.map_err(wrong)?;
        datafusion_fixes::mend_expr(&mut parsed.expr);
        let expr = session.create_logical_expr_from_sql_expr(parsed, &schema);
        Ok((expr.map_err(wrong)?, schema))
    }

    fn condition(engine: &Engine, viewed: &SchemaRef, sql: &str) -> Result<Arc<dyn PhysicalExpr>> {
        let session = engine.state();
        let wrong = |e| Error::of(e, Vec::new);
        let (expr, schema) = Self::parse(engine, viewed, sql)?;
        let condition = session.create_physical_expr(expr, &schema).map_err(wrong)?;
        let found = condition.data_type(viewed).map_err(wrong)?;
        if found != DataType::Boolean {
            return Err(Error::invalid(format!(
                "the condition {sql:?} is {found}, not true or false"
            )));
        }
        Ok(condition)
    }

    /// Returns the columns that a condition can name, with their types.
    pub(crate) fn into_columns(self) -> Vec<(String, DataType)> {
        let fields = self.viewed.fields().iter();
        let column = |field: &FieldRef| (field.name().clone(), field.data_type().clone());
        fields.map(column).collect()
    }

    /// Returns the columns of the returned rows: those of `SELECT *`.
    pub fn schema(&self) -> SchemaRef {
        let fields = &self.viewed.fields()[..self.viewed.fields().len() - 1];
        Arc::new(Schema::new(fields.to_vec()))
    }

    /// Returns the rows of a chunk that pass the condition.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the condition fails on a row, as a cast may.
    pub fn filter(&self, events: &RecordBatch) -> Result<RecordBatch> {
        let wrong = |e| Error::of(e, Vec::new);
        let arrow = |e: arrow::error::ArrowError| Error::of(e.into(), Vec::new);
        let stored = conform(events, &self.stored).map_err(wrong)?;
        let rows = stored.num_rows();
        let columns = self
            .columns
            .iter()
            .map(|c| c.evaluate(&stored)?.into_array(rows));
        let columns = columns
            .collect::<datafusion::error::Result<Vec<_>>>()
            .map_err(wrong)?;
        let mut viewed = RecordBatch::try_new(self.viewed.clone(), columns).map_err(arrow)?;
        if let Some(condition) = &self.condition {
            let keep = condition
                .evaluate(&viewed)
                .and_then(|v| v.into_array(rows))
                .map_err(wrong)?;
            viewed = filter_record_batch(&viewed, keep.as_boolean()).map_err(arrow)?;
        }
        let shown: Vec<usize> = (0..viewed.num_columns() - 1).collect();
        viewed.project(&shown).map_err(arrow)
    }
}
