//! The one database, its roles, settings, functions and running queries.

use datafusion::common::ScalarValue;

use super::super::columns::CatalogRow;
use super::super::functions::function_oid;
use super::super::objects::{DATABASE, ROLE};
use super::super::session::{CATALOG, OWNER};
use super::super::tables::CatalogInputs;
use super::super::types::PG_CATALOG;
use super::UTF8;
use super::relations::HEAP;

/// The number of the tablespace `pg_default`.
const DEFAULT_SPACE: u32 = 1663;

pub(super) fn databases() -> Vec<CatalogRow> {
    let row = CatalogRow::default()
        .texts([
            ("datname", CATALOG),
            ("datlocprovider", "c"),
            ("datcollate", "C"),
            ("datctype", "C"),
        ])
        .numbers([
            ("oid", DATABASE),
            ("datdba", ROLE),
            ("encoding", UTF8),
            ("dattablespace", DEFAULT_SPACE),
        ])
        .flags([("datallowconn", true)])
        .with("datconnlimit", -1);
    vec![row]
}

/// The owner of all objects, and the user of the session: each client sees no other account.
fn names<'a>(inputs: &CatalogInputs<'a>) -> Vec<(&'a str, u32)> {
    let user = inputs.session.user.as_str();
    let owner = [(OWNER, ROLE)].into_iter();
    owner
        .chain((user != OWNER).then_some((user, ROLE + 1)))
        .collect()
}

pub(super) fn roles(inputs: &CatalogInputs<'_>) -> Vec<CatalogRow> {
    let row = |(name, oid): (&str, u32)| {
        CatalogRow::default()
            .texts([("rolname", name)])
            .numbers([("oid", oid)])
            .with("rolsuper", false)
            .with("rolinherit", true)
            .with("rolcreaterole", false)
            .with("rolcreatedb", false)
            .with("rolcanlogin", true)
            .with("rolreplication", false)
            .with("rolbypassrls", false)
            .with("rolconnlimit", -1)
    };
    names(inputs).into_iter().map(row).collect()
}

pub(super) fn users(inputs: &CatalogInputs<'_>) -> Vec<CatalogRow> {
    let row = |(name, oid): (&str, u32)| {
        CatalogRow::default()
            .texts([("usename", name)])
            .numbers([("usesysid", oid)])
            .with("usecreatedb", false)
            .with("usesuper", false)
            .with("userepl", false)
            .with("usebypassrls", false)
    };
    names(inputs).into_iter().map(row).collect()
}

pub(super) fn access_methods() -> Vec<CatalogRow> {
    let row = |(oid, name, kind)| {
        CatalogRow::default()
            .texts([("amname", name), ("amtype", kind)])
            .numbers([("oid", oid)])
    };
    [(HEAP, "heap", "t"), (403, "btree", "i")].map(row).into()
}

pub(super) fn collations() -> Vec<CatalogRow> {
    let row = |(oid, name, provider)| {
        CatalogRow::default()
            .texts([("collname", name), ("collprovider", provider)])
            .numbers([
                ("oid", oid),
                ("collnamespace", PG_CATALOG),
                ("collowner", ROLE),
            ])
            .flags([("collisdeterministic", true)])
            .with("collencoding", -1)
    };
    let all = [(100, "default", "d"), (950, "C", "c"), (951, "POSIX", "c")];
    all.map(row).into()
}

pub(super) fn languages() -> Vec<CatalogRow> {
    let row = |(oid, name)| {
        CatalogRow::default()
            .texts([("lanname", name)])
            .numbers([("oid", oid), ("lanowner", ROLE)])
    };
    [(12, "internal"), (14, "sql")].map(row).into()
}

pub(super) fn tablespaces() -> Vec<CatalogRow> {
    let row = |(oid, name)| {
        CatalogRow::default()
            .texts([("spcname", name)])
            .numbers([("oid", oid), ("spcowner", ROLE)])
    };
    [(DEFAULT_SPACE, "pg_default"), (1664, "pg_global")]
        .map(row)
        .into()
}

pub(super) fn functions(inputs: &CatalogInputs<'_>) -> Vec<CatalogRow> {
    let row = |name: &String| {
        CatalogRow::default()
            .texts([
                ("proname", name),
                ("prosrc", name),
                ("prokind", "f"),
                ("provolatile", "s"),
                ("proparallel", "s"),
            ])
            .numbers([
                ("oid", function_oid(name)),
                ("pronamespace", PG_CATALOG),
                ("proowner", ROLE),
                ("prolang", 12),
            ])
    };
    inputs.functions.iter().map(row).collect()
}

pub(super) fn settings(inputs: &CatalogInputs<'_>) -> Vec<CatalogRow> {
    let row = |(name, value): (String, String)| {
        let shown = match name.as_str() {
            "datestyle" => "DateStyle",
            "intervalstyle" => "IntervalStyle",
            "timezone" => "TimeZone",
            other => other,
        };
        CatalogRow::default().texts([
            ("name", shown),
            ("setting", &value),
            ("reset_val", &value),
            ("boot_val", &value),
            ("category", "Client Connection Defaults"),
            ("context", "user"),
            ("vartype", "string"),
            ("source", "session"),
        ])
    };
    inputs.session.settings().into_iter().map(row).collect()
}

pub(super) fn activity(inputs: &CatalogInputs<'_>) -> Vec<CatalogRow> {
    let stamp = |us| ScalarValue::TimestampMicrosecond(Some(us), Some("UTC".into()));
    let row = |query: &crate::stats::QueryInfo| {
        let state = if query.cancelled { "idle" } else { "active" };
        CatalogRow::default()
            .texts([
                ("datname", CATALOG),
                ("query", &query.sql),
                ("state", state),
                ("backend_type", "client backend"),
            ])
            .numbers([("datid", DATABASE)])
            .with("pid", i32::try_from(query.id).unwrap_or(i32::MAX))
            .with("usename", ScalarValue::Utf8(query.client.clone()))
            .with("query_start", stamp(query.started_us))
            .with("xact_start", stamp(query.started_us))
            .with("query_id", i64::try_from(query.id).unwrap_or(i64::MAX))
    };
    inputs.queries.iter().map(row).collect()
}
