//! Functions over the catalog: visibility, types, comments, privileges and sizes.

use datafusion::common::{Result, ScalarValue};

use super::calls::{Call, flag, maybe, null, text};
use super::{Definition, Returns, lenient, strict};
use crate::postgres::objects::{SchemaObject, TableObject};
use crate::postgres::types;

pub(super) const TABLE: &[Definition] = &[
    strict("pg_table_is_visible", (1, 1), Returns::Bool, is_visible),
    strict("pg_type_is_visible", (1, 1), Returns::Bool, is_type_visible),
    strict("pg_function_is_visible", (1, 1), Returns::Bool, yes),
    strict("pg_operator_is_visible", (1, 1), Returns::Bool, yes),
    strict("pg_opclass_is_visible", (1, 1), Returns::Bool, yes),
    strict("pg_collation_is_visible", (1, 1), Returns::Bool, yes),
    strict("pg_conversion_is_visible", (1, 1), Returns::Bool, yes),
    strict("pg_statistics_obj_is_visible", (1, 1), Returns::Bool, yes),
    strict("pg_ts_config_is_visible", (1, 1), Returns::Bool, yes),
    strict("pg_ts_dict_is_visible", (1, 1), Returns::Bool, yes),
    strict("pg_ts_parser_is_visible", (1, 1), Returns::Bool, yes),
    strict("pg_ts_template_is_visible", (1, 1), Returns::Bool, yes),
    lenient("format_type", (2, 2), Returns::Text, format_type),
    strict("pg_get_expr", (2, 3), Returns::Text, |c| text(c.text(0)?)),
    lenient("pg_get_indexdef", (1, 3), Returns::Text, null),
    lenient("pg_get_constraintdef", (1, 2), Returns::Text, null),
    lenient("pg_get_viewdef", (1, 2), Returns::Text, null),
    lenient("pg_get_ruledef", (1, 2), Returns::Text, null),
    lenient("pg_get_triggerdef", (1, 2), Returns::Text, null),
    lenient("pg_get_partkeydef", (1, 1), Returns::Text, null),
    lenient("pg_get_functiondef", (1, 1), Returns::Text, null),
    lenient("pg_get_function_result", (1, 1), Returns::Text, null),
    lenient("pg_get_function_arguments", (1, 1), Returns::Text, null),
    lenient(
        "pg_get_function_identity_arguments",
        (1, 1),
        Returns::Text,
        null,
    ),
    lenient("pg_get_function_sqlbody", (1, 1), Returns::Text, null),
    lenient(
        "pg_get_statisticsobjdef_columns",
        (1, 1),
        Returns::Text,
        null,
    ),
    lenient("pg_get_serial_sequence", (2, 2), Returns::Text, null),
    strict("obj_description", (1, 2), Returns::Text, object_comment),
    strict("col_description", (2, 2), Returns::Text, column_comment),
    lenient("shobj_description", (2, 2), Returns::Text, null),
    strict("has_table_privilege", (2, 3), Returns::Bool, may_read),
    strict("has_any_column_privilege", (2, 3), Returns::Bool, may_read),
    strict("has_column_privilege", (3, 4), Returns::Bool, may_read),
    strict("has_schema_privilege", (2, 3), Returns::Bool, may_read),
    strict("has_database_privilege", (2, 3), Returns::Bool, may_read),
    strict("has_function_privilege", (2, 3), Returns::Bool, may_read),
    strict("has_type_privilege", (2, 3), Returns::Bool, may_read),
    strict("has_language_privilege", (2, 3), Returns::Bool, may_read),
    strict("has_sequence_privilege", (2, 3), Returns::Bool, may_read),
    strict("has_tablespace_privilege", (2, 3), Returns::Bool, may_read),
    strict("pg_has_role", (2, 3), Returns::Bool, yes),
    strict("row_security_active", (1, 1), Returns::Bool, no),
    strict("pg_relation_is_publishable", (1, 1), Returns::Bool, no),
    strict("pg_relation_is_updatable", (2, 2), Returns::Int4, zero),
    strict("pg_column_is_updatable", (3, 3), Returns::Bool, no),
    strict("pg_relation_size", (1, 2), Returns::Int8, size),
    strict("pg_table_size", (1, 1), Returns::Int8, size),
    strict("pg_total_relation_size", (1, 1), Returns::Int8, size),
    strict("pg_indexes_size", (1, 1), Returns::Int8, |_| int8(0)),
    strict("pg_database_size", (1, 1), Returns::Int8, database_size),
    strict("pg_size_pretty", (1, 1), Returns::Text, |c| {
        pretty(c.integer(0)?)
    }),
    strict("pg_stat_get_live_tuples", (1, 1), Returns::Int8, live_rows),
    lenient("pg_stat_get_numscans", (1, 1), Returns::Int8, null),
    lenient("pg_stat_get_last_vacuum_time", (1, 1), Returns::Stamp, null),
    lenient(
        "pg_stat_get_last_analyze_time",
        (1, 1),
        Returns::Stamp,
        null,
    ),
];

fn yes(_: &Call<'_>) -> Result<ScalarValue> {
    flag(true)
}

fn no(_: &Call<'_>) -> Result<ScalarValue> {
    flag(false)
}

fn zero(_: &Call<'_>) -> Result<ScalarValue> {
    Ok(ScalarValue::Int32(Some(0)))
}

fn int8(value: u64) -> Result<ScalarValue> {
    Ok(ScalarValue::Int64(i64::try_from(value).ok()))
}

fn table<'a>(call: &Call<'a>) -> Result<Option<&'a TableObject>> {
    Ok(call.scope.objects().table(call.oid(0)?))
}

/// Returns whether a statement finds the table without its schema.
fn is_visible(call: &Call<'_>) -> Result<ScalarValue> {
    let Some(table) = table(call)? else {
        return Ok(ScalarValue::Null);
    };
    let path = call.path();
    let found = call.scope.objects().find(None, &table.name, &path);
    flag(found.is_some_and(|found| found.oid == table.oid))
}

fn is_type_visible(call: &Call<'_>) -> Result<ScalarValue> {
    let oid = call.oid(0)?;
    let is_of_rows = || {
        let mut tables = call.scope.objects().tables.iter();
        let path = call.path();
        tables.any(|t| t.row_type() == oid && path.contains(&t.schema.as_str()))
    };
    flag(types::by_oid(oid).is_some() || is_of_rows())
}

fn format_type(call: &Call<'_>) -> Result<ScalarValue> {
    if call.values.first().is_none_or(ScalarValue::is_null) {
        return Ok(ScalarValue::Null);
    }
    let oid = call.oid(0)?;
    let name = match types::by_oid(oid) {
        Some(row) => row.sql_name.clone(),
        None => {
            let mut tables = call.scope.objects().tables.iter();
            let table = tables.find(|table| table.row_type() == oid);
            table.map_or_else(|| "???".to_owned(), |table| table.name.clone())
        }
    };
    text(name)
}

fn object_comment(call: &Call<'_>) -> Result<ScalarValue> {
    let objects = call.scope.objects();
    let oid = call.oid(0)?;
    let class = call.text(1)?;
    let of_table = || objects.table(oid).and_then(|table| table.comment.clone());
    let of_schema = || {
        let schema: Option<&SchemaObject> = objects.schema(oid);
        schema.and_then(|schema| schema.comment.clone())
    };
    maybe(match class.trim_start_matches("pg_catalog.") {
        "pg_class" => of_table(),
        "pg_namespace" => of_schema(),
        "" => of_table().or_else(of_schema),
        _ => None,
    })
}

fn column_comment(call: &Call<'_>) -> Result<ScalarValue> {
    let place = usize::try_from(call.integer(1)?).ok();
    let at = place.and_then(|place| place.checked_sub(1));
    let column = table(call)?.zip(at).and_then(|(t, at)| t.columns.get(at));
    maybe(column.and_then(|column| column.comment.clone()))
}

/// Returns whether each of the privileges in the last argument only reads.
fn may_read(call: &Call<'_>) -> Result<ScalarValue> {
    let asked = call.text(call.values.len().saturating_sub(1))?;
    let reads = ["SELECT", "USAGE", "CONNECT", "EXECUTE"];
    let mut asked = asked
        .split(',')
        .map(|word| word.trim().to_ascii_uppercase());
    flag(asked.any(|word| reads.contains(&word.as_str())))
}

fn size(call: &Call<'_>) -> Result<ScalarValue> {
    match table(call)? {
        Some(table) => int8(table.bytes),
        None => Ok(ScalarValue::Null),
    }
}

fn database_size(call: &Call<'_>) -> Result<ScalarValue> {
    let tables = call.scope.objects().tables.iter();
    int8(tables.map(|table| table.bytes).sum())
}

fn live_rows(call: &Call<'_>) -> Result<ScalarValue> {
    match table(call)?.and_then(|table| table.rows) {
        Some(rows) => int8(rows),
        None => Ok(ScalarValue::Null),
    }
}

/// Returns a size with the largest unit of which there are ten or more.
fn pretty(bytes: i64) -> Result<ScalarValue> {
    let mut size = i128::from(bytes);
    let units = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let mut at = 0;
    while size.abs() >= 10 * 1024 && at + 1 < units.len() {
        size = (size + 512 * size.signum()) / 1024;
        at += 1;
    }
    text(format!("{size} {}", units[at]))
}
