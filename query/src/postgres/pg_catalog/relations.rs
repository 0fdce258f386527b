//! Schemas, tables, columns, types and their comments.

use datafusion::common::ScalarValue;

use super::super::columns::CatalogRow;
use super::super::objects::{ColumnObject, ROLE, TableObject};
use super::super::session::OWNER;
use super::super::tables::{CatalogInputs, INFORMATION_SCHEMA, PG_CATALOG, named};
use super::super::types::{self, TypeRow};

/// The number of the access method `heap`.
pub(super) const HEAP: u32 = 2;

pub(super) fn namespaces(inputs: &CatalogInputs<'_>) -> Vec<CatalogRow> {
    let schemas = inputs.objects.schemas.iter();
    let row = |schema: &super::super::objects::SchemaObject| {
        CatalogRow::default()
            .texts([("nspname", &schema.name)])
            .numbers([("oid", schema.oid), ("nspowner", ROLE)])
    };
    schemas.map(row).collect()
}

fn kind(table: &TableObject) -> &'static str {
    if table.is_view { "v" } else { "r" }
}

pub(super) fn classes(inputs: &CatalogInputs<'_>) -> Vec<CatalogRow> {
    let tables = inputs.objects.tables.iter();
    let row = |table: &TableObject| {
        let schema = inputs.objects.schema_oid(&table.schema).unwrap_or(0);
        let columns = i16::try_from(table.columns.len()).unwrap_or(i16::MAX);
        // PostgreSQL's sign of a table whose rows were never counted.
        let rows = table.rows.map_or(-1.0, |rows| rows as f32);
        let file = if table.is_view { 0 } else { table.oid };
        CatalogRow::default()
            .texts([
                ("relname", &table.name),
                ("relkind", kind(table)),
                ("relpersistence", "p"),
                ("relreplident", "n"),
            ])
            .numbers([
                ("oid", table.oid),
                ("relnamespace", schema),
                ("reltype", table.row_type()),
                ("relowner", ROLE),
                ("relfilenode", file),
                ("relam", if table.is_view { 0 } else { HEAP }),
            ])
            .flags([("relispopulated", true), ("relhasrules", table.is_view)])
            .with("relnatts", columns)
            .with("reltuples", rows)
            .with(
                "relpages",
                i32::try_from(table.bytes / 8192).unwrap_or(i32::MAX),
            )
    };
    tables.map(row).collect()
}

pub(super) fn attributes(inputs: &CatalogInputs<'_>) -> Vec<CatalogRow> {
    let tables = inputs.objects.tables.iter();
    tables.flat_map(attributes_of).collect()
}

fn attributes_of(table: &TableObject) -> Vec<CatalogRow> {
    let row = |(at, column): (usize, &ColumnObject)| {
        let of_type = types::by_oid(column.pg_type.oid);
        let of_type = of_type.expect("BUG: the type of a column is one of types.txt");
        CatalogRow::default()
            .texts([
                ("attname", &column.name),
                ("attalign", of_type.align),
                ("attstorage", of_type.storage),
            ])
            .numbers([
                ("attrelid", table.oid),
                ("atttypid", of_type.oid),
                ("attcollation", of_type.collation),
            ])
            .flags([
                ("attnotnull", !column.is_nullable),
                ("attbyval", of_type.is_by_value),
                ("attislocal", true),
            ])
            .with("attnum", place(at))
            .with("attlen", of_type.size)
            .with("atttypmod", -1)
            .with("attcacheoff", -1)
            .with("attstattarget", -1)
            .with("attndims", i32::from(of_type.category == "A"))
    };
    table.columns.iter().enumerate().map(row).collect()
}

fn place(at: usize) -> i16 {
    i16::try_from(at + 1).unwrap_or(i16::MAX)
}

pub(super) fn types(inputs: &CatalogInputs<'_>) -> Vec<CatalogRow> {
    let base = types::rows().iter().map(base_type);
    let of_rows = inputs.objects.tables.iter().map(|table| {
        let schema = inputs.objects.schema_oid(&table.schema).unwrap_or(0);
        CatalogRow::default()
            .texts([
                ("typname", &table.name),
                ("typtype", "c"),
                ("typcategory", "C"),
                ("typdelim", ","),
                ("typalign", "d"),
                ("typstorage", "x"),
            ])
            .numbers([
                ("oid", table.row_type()),
                ("typnamespace", schema),
                ("typowner", ROLE),
                ("typrelid", table.oid),
            ])
            .flags([("typisdefined", true)])
            .with("typlen", -1_i16)
            .with("typtypmod", -1)
    });
    base.chain(of_rows).collect()
}

fn base_type(of_type: &TypeRow) -> CatalogRow {
    let [input, output, receive, send] = of_type.functions;
    CatalogRow::default()
        .texts([
            ("typname", of_type.name),
            ("typtype", "b"),
            ("typcategory", of_type.category),
            ("typdelim", ","),
            ("typalign", of_type.align),
            ("typstorage", of_type.storage),
        ])
        .numbers([
            ("oid", of_type.oid),
            ("typnamespace", types::PG_CATALOG),
            ("typowner", ROLE),
            ("typelem", of_type.element),
            ("typarray", of_type.array),
            ("typinput", input),
            ("typoutput", output),
            ("typreceive", receive),
            ("typsend", send),
            ("typcollation", of_type.collation),
        ])
        .flags([
            ("typisdefined", true),
            ("typbyval", of_type.is_by_value),
            ("typispreferred", of_type.is_preferred),
        ])
        .with("typlen", of_type.size)
        .with("typtypmod", -1)
}

pub(super) fn descriptions(inputs: &CatalogInputs<'_>) -> Vec<CatalogRow> {
    let class = |name| named(PG_CATALOG, name).map_or(0, |table| table.oid);
    let row = |object: u32, class: u32, column: i32, comment: &str| {
        CatalogRow::default()
            .texts([("description", comment)])
            .numbers([("objoid", object), ("classoid", class)])
            .with("objsubid", column)
    };
    let (classes, namespaces) = (class("pg_class"), class("pg_namespace"));
    let mut rows = Vec::new();
    for schema in &inputs.objects.schemas {
        let comment = schema.comment.iter();
        rows.extend(comment.map(|comment| row(schema.oid, namespaces, 0, comment)));
    }
    for table in &inputs.objects.tables {
        let comment = table.comment.iter();
        rows.extend(comment.map(|comment| row(table.oid, classes, 0, comment)));
        for (at, column) in table.columns.iter().enumerate() {
            let comment = column.comment.iter();
            let place = i32::from(place(at));
            rows.extend(comment.map(|comment| row(table.oid, classes, place, comment)));
        }
    }
    rows
}

pub(super) fn tables(inputs: &CatalogInputs<'_>) -> Vec<CatalogRow> {
    let tables = inputs.objects.tables.iter().filter(|table| !table.is_view);
    let row = |table: &TableObject| {
        CatalogRow::default()
            .texts([
                ("schemaname", &table.schema),
                ("tablename", &table.name),
                ("tableowner", OWNER),
            ])
            .with("hasindexes", false)
            .with("hasrules", false)
            .with("hastriggers", false)
            .with("rowsecurity", false)
    };
    tables.map(row).collect()
}

pub(super) fn views(inputs: &CatalogInputs<'_>) -> Vec<CatalogRow> {
    let views = inputs.objects.tables.iter().filter(|table| table.is_view);
    let row = |table: &TableObject| {
        CatalogRow::default().texts([
            ("schemaname", &table.schema),
            ("viewname", &table.name),
            ("viewowner", OWNER),
        ])
    };
    views.map(row).collect()
}

/// Statistics of tables of users, as far as the manifest has them.
pub(super) fn statistics(inputs: &CatalogInputs<'_>) -> Vec<CatalogRow> {
    let of_users = |table: &&TableObject| {
        !table.is_view && ![PG_CATALOG, INFORMATION_SCHEMA].contains(&table.schema.as_str())
    };
    let tables = inputs.objects.tables.iter().filter(of_users);
    let row = |table: &TableObject| {
        let rows = table.rows.and_then(|rows| i64::try_from(rows).ok());
        CatalogRow::default()
            .texts([("schemaname", &table.schema), ("relname", &table.name)])
            .numbers([("relid", table.oid)])
            .with("n_live_tup", ScalarValue::Int64(rows))
    };
    tables.map(row).collect()
}
