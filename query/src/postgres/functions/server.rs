//! Functions over the session and the server.

use std::sync::atomic::{AtomicI64, Ordering};

use arrow::datatypes::DataType;
use datafusion::DATAFUSION_VERSION;
use datafusion::common::{Result, ScalarValue, exec_err};

use super::calls::{Call, flag, maybe, null, text};
use super::{Definition, Returns, lenient, strict};
use crate::postgres::pg_catalog::UTF8;
use crate::postgres::session::{CATALOG, SERVER_VERSION};
use crate::postgres::tables::PG_CATALOG;

pub(super) const TABLE: &[Definition] = &[
    strict("current_user", (0, 0), Returns::Text, user),
    strict("session_user", (0, 0), Returns::Text, user),
    strict("current_role", (0, 0), Returns::Text, user),
    strict("current_catalog", (0, 0), Returns::Text, |_| text(CATALOG)),
    strict("current_database", (0, 0), Returns::Text, |_| text(CATALOG)),
    strict("current_schema", (0, 0), Returns::Text, |c| {
        text(c.scope.session.schema.as_str())
    }),
    strict("current_schemas", (1, 1), Returns::Texts, schemas),
    strict("current_setting", (1, 2), Returns::Text, setting),
    lenient("set_config", (3, 3), Returns::Text, |c| text(c.text(1)?)),
    strict("version", (0, 0), Returns::Text, version),
    strict("pg_backend_pid", (0, 0), Returns::Int4, process),
    strict("pg_client_encoding", (0, 0), Returns::Text, |c| {
        maybe(c.scope.session.setting("client_encoding"))
    }),
    strict("getdatabaseencoding", (0, 0), Returns::Text, |_| {
        text("UTF8")
    }),
    strict("pg_encoding_to_char", (1, 1), Returns::Text, encoding),
    strict(
        "pg_char_to_encoding",
        (1, 1),
        Returns::Int4,
        encoding_number,
    ),
    strict("inet_client_addr", (0, 0), Returns::Text, |c| {
        let values = c.scope.session.values.as_ref();
        maybe(values.and_then(|values| values.client_address.clone()))
    }),
    strict("inet_client_port", (0, 0), Returns::Int4, null),
    strict("inet_server_addr", (0, 0), Returns::Text, null),
    strict("inet_server_port", (0, 0), Returns::Int4, null),
    strict("pg_is_in_recovery", (0, 0), Returns::Bool, |_| flag(false)),
    strict("pg_is_wal_replay_paused", (0, 0), Returns::Bool, |_| {
        flag(false)
    }),
    strict("pg_postmaster_start_time", (0, 0), Returns::Stamp, started),
    strict("pg_conf_load_time", (0, 0), Returns::Stamp, started),
    strict("pg_my_temp_schema", (0, 0), Returns::Oid, |_| {
        Ok(ScalarValue::UInt32(Some(0)))
    }),
    strict("pg_is_other_temp_schema", (1, 1), Returns::Bool, |_| {
        flag(false)
    }),
    strict("pg_tablespace_location", (1, 1), Returns::Text, |_| {
        text("")
    }),
    strict("pg_jit_available", (0, 0), Returns::Bool, |_| flag(false)),
    strict("txid_current", (0, 0), Returns::Int8, transaction),
    strict("pg_current_xact_id", (0, 0), Returns::Int8, transaction),
    lenient("pg_stat_get_backend_pid", (1, 1), Returns::Int4, null),
    lenient("pg_stat_get_db_numbackends", (1, 1), Returns::Int4, null),
];

fn user(call: &Call<'_>) -> Result<ScalarValue> {
    text(call.scope.session.user.as_str())
}

fn schemas(call: &Call<'_>) -> Result<ScalarValue> {
    let with_implicit = call.values.first() == Some(&ScalarValue::Boolean(Some(true)));
    let implicit = with_implicit.then_some(PG_CATALOG).into_iter();
    let names = implicit.chain([call.scope.session.schema.as_str()]);
    let names: Vec<ScalarValue> = names.map(ScalarValue::from).collect();
    let list = ScalarValue::new_list(&names, &DataType::Utf8, true);
    Ok(ScalarValue::List(list))
}

fn setting(call: &Call<'_>) -> Result<ScalarValue> {
    let name = call.text(0)?;
    let may_be_missing = call.values.get(1) == Some(&ScalarValue::Boolean(Some(true)));
    match call.scope.session.setting(&name) {
        None if !may_be_missing => {
            exec_err!("unrecognized configuration parameter \"{name}\"")
        }
        value => maybe(value),
    }
}

/// Returns the version in the form that clients parse.
fn version(_: &Call<'_>) -> Result<ScalarValue> {
    let (arch, system) = (std::env::consts::ARCH, std::env::consts::OS);
    let own = env!("CARGO_PKG_VERSION");
    text(format!(
        "PostgreSQL {SERVER_VERSION} on {arch}-{system}, Logmill {own} (DataFusion {DATAFUSION_VERSION}), 64-bit"
    ))
}

fn process(call: &Call<'_>) -> Result<ScalarValue> {
    let values = call.scope.session.values.as_ref();
    let number = values.map_or(0, |values| values.process_id);
    Ok(ScalarValue::Int32(Some(number)))
}

fn encoding(call: &Call<'_>) -> Result<ScalarValue> {
    text(match call.integer(0)? {
        number if number == i64::from(UTF8) => "UTF8",
        0 => "SQL_ASCII",
        _ => "",
    })
}

fn encoding_number(call: &Call<'_>) -> Result<ScalarValue> {
    let name = call.text(0)?.to_ascii_uppercase();
    let is_utf8 = ["UTF8", "UTF-8", "UNICODE"].contains(&name.as_str());
    Ok(ScalarValue::Int32(Some(if is_utf8 { 6 } else { -1 })))
}

fn started(call: &Call<'_>) -> Result<ScalarValue> {
    Ok(ScalarValue::TimestampMicrosecond(
        Some(call.scope.session.server_started_us),
        Some("UTC".into()),
    ))
}

/// Returns a number that is larger at each call.
fn transaction(_: &Call<'_>) -> Result<ScalarValue> {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    Ok(ScalarValue::Int64(Some(number)))
}
