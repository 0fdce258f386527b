//! The rows of `pg_catalog`.

mod relations;
mod server;

use super::columns::CatalogRow;
use super::tables::CatalogInputs;

/// The number of the encoding UTF-8.
pub(crate) const UTF8: u32 = 6;

/// The tables that may have rows.
pub(super) const FILLED: [&str; 21] = [
    "pg_am",
    "pg_attribute",
    "pg_authid",
    "pg_class",
    "pg_collation",
    "pg_database",
    "pg_description",
    "pg_language",
    "pg_namespace",
    "pg_proc",
    "pg_roles",
    "pg_settings",
    "pg_shadow",
    "pg_stat_activity",
    "pg_stat_all_tables",
    "pg_stat_user_tables",
    "pg_tables",
    "pg_tablespace",
    "pg_type",
    "pg_user",
    "pg_views",
];

/// Returns the rows of a table. Tables of objects that a store does not have are empty.
pub(super) fn rows(name: &str, inputs: &CatalogInputs<'_>) -> Vec<CatalogRow> {
    match name {
        "pg_namespace" => relations::namespaces(inputs),
        "pg_class" => relations::classes(inputs),
        "pg_attribute" => relations::attributes(inputs),
        "pg_type" => relations::types(inputs),
        "pg_description" => relations::descriptions(inputs),
        "pg_tables" => relations::tables(inputs),
        "pg_views" => relations::views(inputs),
        "pg_stat_user_tables" | "pg_stat_all_tables" => relations::statistics(inputs),
        "pg_database" => server::databases(),
        "pg_roles" | "pg_authid" => server::roles(inputs),
        "pg_user" | "pg_shadow" => server::users(inputs),
        "pg_am" => server::access_methods(),
        "pg_collation" => server::collations(),
        "pg_language" => server::languages(),
        "pg_tablespace" => server::tablespaces(),
        "pg_proc" => server::functions(inputs),
        "pg_settings" => server::settings(inputs),
        "pg_stat_activity" => server::activity(inputs),
        _ => Vec::new(),
    }
}
