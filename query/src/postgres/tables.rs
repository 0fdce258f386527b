//! The tables of `pg_catalog` and `information_schema`: their columns, from PostgreSQL's own
//! catalog (`tables.txt`), and their rows.
//!
//! A table that a store has no objects for is empty, with the columns that clients select.

use std::sync::{Arc, LazyLock};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Result;

use super::columns::{CatalogRow, batch};
use super::objects::{ColumnObject, Objects, TableObject};
use super::session::StatementSession;
use super::{information_schema, pg_catalog, types};
use crate::stats::QueryInfo;

/// The schema of PostgreSQL's own catalog.
pub(crate) const PG_CATALOG: &str = "pg_catalog";
/// The schema of the standard's catalog.
pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";

/// A table of a catalog schema.
#[derive(Debug)]
pub(crate) struct CatalogTable {
    pub(crate) schema: &'static str,
    pub(crate) name: &'static str,
    pub(crate) oid: u32,
    pub(crate) is_view: bool,
    pub(crate) columns: SchemaRef,
}

/// Each line of `tables.txt` is a table: schema, name, number, `r` or `v`, then `column:type`, with
/// `?` where the column may be null.
static TABLES: LazyLock<Vec<CatalogTable>> =
    LazyLock::new(|| include_str!("tables.txt").lines().map(definition).collect());

fn definition(line: &'static str) -> CatalogTable {
    let mut words = line.split(' ');
    let mut next = || words.next().expect("BUG: tables.txt has four words first");
    let (schema, name, oid, kind) = (next(), next(), next(), next());
    let columns = words.map(|word| {
        let (column, of_type) = word.split_once(':').expect("BUG: a column has a type");
        let plain = of_type.trim_end_matches('?');
        types::field(column, plain, plain != of_type)
    });
    CatalogTable {
        schema,
        name,
        oid: oid.parse().expect("BUG: tables.txt has a number here"),
        is_view: kind == "v",
        columns: Arc::new(Schema::new(columns.collect::<Vec<_>>())),
    }
}

/// Returns all tables of catalog schemas.
pub(crate) fn definitions() -> &'static [CatalogTable] {
    &TABLES
}

/// Returns the table of a schema and name.
pub(crate) fn named(schema: &str, name: &str) -> Option<&'static CatalogTable> {
    let mut tables = TABLES.iter();
    tables.find(|table| table.schema == schema && table.name == name)
}

/// Returns whether a table of `pg_catalog` has no rows in any store.
pub(crate) fn is_always_empty(name: &str) -> bool {
    named(PG_CATALOG, name).is_some() && !pg_catalog::FILLED.contains(&name)
}

/// Returns a catalog table as an object of the catalog itself.
pub(super) fn object(table: &CatalogTable) -> TableObject {
    let fields = table.columns.fields().iter();
    TableObject {
        oid: table.oid,
        schema: table.schema.to_owned(),
        name: table.name.to_owned(),
        is_view: table.is_view,
        columns: fields.map(|field| ColumnObject::new(field, None)).collect(),
        comment: None,
        rows: None,
        bytes: 0,
    }
}

/// Inputs of the rows of catalog tables.
pub(crate) struct CatalogInputs<'a> {
    pub(crate) objects: &'a Objects,
    pub(crate) session: &'a StatementSession,
    pub(crate) queries: &'a [QueryInfo],
    /// The names of the functions that a statement can call.
    pub(crate) functions: &'a [String],
}

/// Returns the rows of a catalog table.
pub(crate) fn rows(table: &CatalogTable, inputs: &CatalogInputs<'_>) -> Result<RecordBatch> {
    let rows: Vec<CatalogRow> = match table.schema {
        INFORMATION_SCHEMA => information_schema::rows(table.name, inputs),
        _ => pg_catalog::rows(table.name, inputs),
    };
    batch(&table.columns, &rows)
}
