//! The catalog, its schemas and its tables, as a client sees them; and the keys of tables, of which
//! there are none.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetDbSchemas, CommandGetTableTypes, CommandGetTables,
};
use query::output::described_schema;
use query::{Parameters, Question, ScalarValue, Session};
use tonic::Status;

use super::{DATABASE, status};
use crate::serve::{Client, Serving};

const TABLE: &str = "TABLE";
const VIEW: &str = "VIEW";
/// The type of tables that describe the store itself.
const SYSTEM_TABLE: &str = "SYSTEM TABLE";
const SYSTEM: &str = "system";
/// Schemas that only describe the others; this protocol has calls for that.
const HIDDEN: &str = "('information_schema', 'pg_catalog')";

/// A table as `information_schema` lists it.
struct Listed {
    schema: String,
    name: String,
    kind: &'static str,
}

/// Returns the catalogs.
pub(super) fn catalogs(command: CommandGetCatalogs) -> Result<RecordBatch, Status> {
    let mut catalogs = command.into_builder();
    catalogs.append(DATABASE);
    catalogs.build().map_err(Status::from)
}

/// Returns the types of tables.
pub(super) fn table_types(command: CommandGetTableTypes) -> Result<RecordBatch, Status> {
    let mut types = command.into_builder();
    for kind in [TABLE, VIEW, SYSTEM_TABLE] {
        types.append(kind);
    }
    types.build().map_err(Status::from)
}

/// Returns the schemas that a client sees.
pub(super) async fn schemas(
    serving: &Serving,
    client: &Client,
    command: CommandGetDbSchemas,
) -> Result<RecordBatch, Status> {
    let sql = format!(
        "SELECT DISTINCT table_schema FROM information_schema.tables WHERE table_schema NOT IN {HIDDEN}"
    );
    let rows = texts(serving, client, sql, Vec::new()).await?;
    let mut schemas = command.into_builder();
    for row in rows {
        schemas.append(DATABASE, &row[0]);
    }
    schemas.build().map_err(Status::from)
}

/// Returns the tables that a client sees, with their columns if it asks for them.
pub(super) async fn tables(
    serving: &Serving,
    client: &Client,
    command: CommandGetTables,
) -> Result<RecordBatch, Status> {
    let listed = listed(serving, client, &command).await?;
    let has_columns = command.include_schema;
    let mut tables = command.into_builder();
    for table in listed {
        let columns = match has_columns {
            true => columns(serving, client, &table).await?,
            false => Some(Schema::empty()),
        };
        // A table may have gone since it was listed.
        let Some(columns) = columns else { continue };
        let added = tables.append(DATABASE, &table.schema, &table.name, table.kind, &columns);
        added.map_err(Status::from)?;
    }
    tables.build().map_err(Status::from)
}

/// Returns the tables of a client that pass the conditions of a command, before their columns are
/// found: those cost a plan for each table.
async fn listed(
    serving: &Serving,
    client: &Client,
    command: &CommandGetTables,
) -> Result<Vec<Listed>, Status> {
    if command
        .catalog
        .as_deref()
        .is_some_and(|name| name != DATABASE)
    {
        return Ok(Vec::new());
    }
    let mut sql = format!(
        "SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE table_schema NOT IN {HIDDEN}"
    );
    let mut patterns = Vec::new();
    for (column, pattern) in [
        ("table_schema", &command.db_schema_filter_pattern),
        ("table_name", &command.table_name_filter_pattern),
    ] {
        if let Some(pattern) = pattern {
            patterns.push(ScalarValue::Utf8(Some(pattern.clone())));
            sql += &format!(" AND {column} LIKE ${}", patterns.len());
        }
    }
    let rows = texts(serving, client, sql, patterns).await?;
    let of_row = |mut row: Vec<String>| {
        let (kind, name, schema) = (row.pop()?, row.pop()?, row.pop()?);
        let kind = match (&*schema, &*kind) {
            (SYSTEM, _) => SYSTEM_TABLE,
            (_, VIEW) => VIEW,
            _ => TABLE,
        };
        Some(Listed { schema, name, kind })
    };
    let is_asked = |table: &Listed| {
        command.table_types.is_empty() || command.table_types.iter().any(|kind| kind == table.kind)
    };
    Ok(rows
        .into_iter()
        .filter_map(of_row)
        .filter(is_asked)
        .collect())
}

/// Returns the columns of `SELECT *` of a table; `None` if there is no such table.
async fn columns(
    serving: &Serving,
    client: &Client,
    table: &Listed,
) -> Result<Option<Schema>, Status> {
    let quoted = |name: &str| name.replace('"', "\"\"");
    let sql = format!(
        "SELECT * FROM \"{}\".\"{}\"",
        quoted(&table.schema),
        quoted(&table.name)
    );
    let prepared = serving.prepare(client, Session::default(), Question::Sql(sql));
    match prepared.await {
        Ok(prepared) => Ok(Some(described_schema(prepared.schema()))),
        Err(error) if error.fault() == Some(query::Fault::NoTable) => Ok(None),
        Err(error) => Err(status::of_query(&error)),
    }
}

/// Returns the rows of a question of texts.
async fn texts(
    serving: &Serving,
    client: &Client,
    sql: String,
    parameters: Vec<ScalarValue>,
) -> Result<Vec<Vec<String>>, Status> {
    let parameters = match parameters.is_empty() {
        true => Parameters::None,
        false => Parameters::Typed(parameters.into()),
    };
    let asked = serving.ask(client, Session::default(), Question::Sql(sql), parameters);
    let answer = asked.await.map_err(|error| status::of_query(&error))?;
    let collected = answer.collect().await;
    let (_, batches, _) = collected.map_err(|error| status::of_query(&error))?;
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|column| cast(column, &DataType::Utf8));
        let columns = columns
            .collect::<Result<Vec<_>, _>>()
            .map_err(status::of_arrow)?;
        let columns: Vec<&StringArray> = columns.iter().map(|c| c.as_string()).collect();
        for row in 0..batch.num_rows() {
            let value = |column: &&StringArray| match column.is_valid(row) {
                true => column.value(row).to_owned(),
                false => String::new(),
            };
            rows.push(columns.iter().map(value).collect());
        }
    }
    Ok(rows)
}

/// Returns the columns of an answer to `CommandGetPrimaryKeys`.
pub(super) fn primary_keys() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("catalog_name", DataType::Utf8, true),
        Field::new("db_schema_name", DataType::Utf8, true),
        Field::new("table_name", DataType::Utf8, false),
        Field::new("column_name", DataType::Utf8, false),
        Field::new("key_name", DataType::Utf8, true),
        Field::new("key_sequence", DataType::Int32, false),
    ]))
}

/// Returns the columns of an answer about foreign keys.
pub(super) fn foreign_keys() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("pk_catalog_name", DataType::Utf8, true),
        Field::new("pk_db_schema_name", DataType::Utf8, true),
        Field::new("pk_table_name", DataType::Utf8, false),
        Field::new("pk_column_name", DataType::Utf8, false),
        Field::new("fk_catalog_name", DataType::Utf8, true),
        Field::new("fk_db_schema_name", DataType::Utf8, true),
        Field::new("fk_table_name", DataType::Utf8, false),
        Field::new("fk_column_name", DataType::Utf8, false),
        Field::new("key_sequence", DataType::Int32, false),
        Field::new("fk_key_name", DataType::Utf8, true),
        Field::new("pk_key_name", DataType::Utf8, true),
        Field::new("update_rule", DataType::UInt8, false),
        Field::new("delete_rule", DataType::UInt8, false),
    ]))
}
