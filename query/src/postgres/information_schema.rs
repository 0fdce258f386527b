//! The rows of `information_schema`.

use super::columns::CatalogRow;
use super::objects::{ColumnObject, TableObject};
use super::session::{CATALOG, OWNER};
use super::tables::CatalogInputs;

/// Returns the rows of a table. Tables of objects that a store does not have are empty.
pub(super) fn rows(name: &str, inputs: &CatalogInputs<'_>) -> Vec<CatalogRow> {
    let tables = &inputs.objects.tables;
    match name {
        "information_schema_catalog_name" => {
            vec![CatalogRow::default().texts([("catalog_name", CATALOG)])]
        }
        "enabled_roles" => {
            vec![CatalogRow::default().texts([("role_name", &inputs.session.user)])]
        }
        "schemata" => schemata(inputs),
        "tables" => tables.iter().map(table).collect(),
        "views" => tables.iter().filter(|t| t.is_view).map(view).collect(),
        "columns" => tables.iter().flat_map(columns).collect(),
        "table_privileges" | "role_table_grants" => {
            let of = |t| privilege(t, &inputs.session.user);
            tables.iter().map(of).collect()
        }
        "routines" => inputs.functions.iter().map(|f| routine(f)).collect(),
        _ => Vec::new(),
    }
}

fn schemata(inputs: &CatalogInputs<'_>) -> Vec<CatalogRow> {
    let schemas = inputs.objects.schemas.iter();
    let row = |schema: &super::objects::SchemaObject| {
        CatalogRow::default().texts([
            ("catalog_name", CATALOG),
            ("schema_name", &schema.name),
            ("schema_owner", OWNER),
        ])
    };
    schemas.map(row).collect()
}

fn located(table: &TableObject) -> CatalogRow {
    CatalogRow::default().texts([
        ("table_catalog", CATALOG),
        ("table_schema", &table.schema),
        ("table_name", &table.name),
    ])
}

fn table(table: &TableObject) -> CatalogRow {
    let kind = if table.is_view { "VIEW" } else { "BASE TABLE" };
    located(table).texts([
        ("table_type", kind),
        ("is_insertable_into", "NO"),
        ("is_typed", "NO"),
    ])
}

fn view(table: &TableObject) -> CatalogRow {
    located(table).texts([
        ("check_option", "NONE"),
        ("is_updatable", "NO"),
        ("is_insertable_into", "NO"),
        ("is_trigger_updatable", "NO"),
        ("is_trigger_deletable", "NO"),
        ("is_trigger_insertable_into", "NO"),
    ])
}

fn privilege(table: &TableObject, user: &str) -> CatalogRow {
    located(table).texts([
        ("grantor", OWNER),
        ("grantee", user),
        ("privilege_type", "SELECT"),
        ("is_grantable", "NO"),
        ("with_hierarchy", "NO"),
    ])
}

fn routine(name: &str) -> CatalogRow {
    CatalogRow::default().texts([
        ("specific_catalog", CATALOG),
        ("specific_schema", "pg_catalog"),
        ("specific_name", name),
        ("routine_catalog", CATALOG),
        ("routine_schema", "pg_catalog"),
        ("routine_name", name),
        ("routine_type", "FUNCTION"),
        ("routine_body", "EXTERNAL"),
    ])
}

fn columns(table: &TableObject) -> Vec<CatalogRow> {
    let columns = table.columns.iter().enumerate();
    let row = |(at, column): (usize, &ColumnObject)| {
        let place = i32::try_from(at + 1).unwrap_or(i32::MAX);
        let of_type = column.pg_type;
        let sizes = sizes(of_type.name);
        let text = place.to_string();
        located(table)
            .texts([
                ("column_name", &column.name),
                ("is_nullable", if column.is_nullable { "YES" } else { "NO" }),
                ("data_type", of_type.sql_name),
                ("udt_catalog", CATALOG),
                ("udt_schema", "pg_catalog"),
                ("udt_name", of_type.name),
                ("dtd_identifier", &text),
                ("is_self_referencing", "NO"),
                ("is_identity", "NO"),
                ("identity_cycle", "NO"),
                ("is_generated", "NEVER"),
                ("is_updatable", "NO"),
            ])
            .with("ordinal_position", place)
            .with("numeric_precision", sizes.precision)
            .with("numeric_precision_radix", sizes.radix)
            .with("numeric_scale", sizes.scale)
            .with("datetime_precision", sizes.datetime)
            .with("character_octet_length", sizes.octets)
    };
    columns.map(row).collect()
}

/// The sizes of a type, as the standard counts them.
#[derive(Default)]
struct Sizes {
    precision: Option<i32>,
    radix: Option<i32>,
    scale: Option<i32>,
    datetime: Option<i32>,
    octets: Option<i32>,
}

fn sizes(name: &str) -> Sizes {
    let binary = |bits, scale| Sizes {
        precision: Some(bits),
        radix: Some(2),
        scale,
        ..Sizes::default()
    };
    match name {
        "int2" => binary(16, Some(0)),
        "int4" => binary(32, Some(0)),
        "int8" => binary(64, Some(0)),
        "float4" => binary(24, None),
        "float8" => binary(53, None),
        "numeric" => Sizes {
            radix: Some(10),
            ..Sizes::default()
        },
        "timestamptz" | "timestamp" | "time" | "interval" => Sizes {
            datetime: Some(6),
            ..Sizes::default()
        },
        "date" => Sizes {
            datetime: Some(0),
            ..Sizes::default()
        },
        "text" => Sizes {
            octets: Some(1 << 30),
            ..Sizes::default()
        },
        _ => Sizes::default(),
    }
}
