//! The session of a PostgreSQL client as SQL sees it: its user, and the settings that
//! `current_setting` returns.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The name of the one database, the catalog in qualified names of tables.
pub(crate) const CATALOG: &str = "logmill";
/// The owner of every object.
pub(crate) const OWNER: &str = "logmill";
/// The version of PostgreSQL whose catalog and functions statements find.
pub(crate) const SERVER_VERSION: &str = "15.0";
/// The same version as `server_version_num` has it.
const SERVER_VERSION_NUM: &str = "150000";

/// Values of a PostgreSQL session that SQL can read.
#[derive(Debug, Clone, Default)]
pub struct SessionValues {
    /// The name with which the client has logged in.
    pub user: String,
    /// The number by which a cancel request names the session.
    pub process_id: i32,
    /// Settings by their names in lower case.
    pub settings: BTreeMap<String, String>,
    /// The client's address, without its port.
    pub client_address: Option<String>,
}

/// Settings that every session has, by their printed names, with the values of a session that has
/// set none.
pub const SETTINGS: &[(&str, &str)] = &[
    ("application_name", ""),
    ("bytea_output", "hex"),
    ("client_encoding", "UTF8"),
    ("client_min_messages", "notice"),
    ("DateStyle", "ISO, MDY"),
    ("default_table_access_method", "heap"),
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "on"),
    ("extra_float_digits", "1"),
    ("idle_in_transaction_session_timeout", "0"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("IntervalStyle", "postgres"),
    ("is_superuser", "off"),
    ("jit", "off"),
    ("lc_collate", "C"),
    ("lc_ctype", "C"),
    ("lc_messages", "C"),
    ("lc_monetary", "C"),
    ("lc_numeric", "C"),
    ("lc_time", "C"),
    ("lock_timeout", "0"),
    ("max_identifier_length", "63"),
    ("max_index_keys", "32"),
    ("row_security", "on"),
    ("search_path", "\"$user\", public"),
    ("server_encoding", "UTF8"),
    ("server_version", SERVER_VERSION),
    ("server_version_num", SERVER_VERSION_NUM),
    ("session_authorization", ""),
    ("standard_conforming_strings", "on"),
    ("statement_timeout", "0"),
    ("synchronize_seqscans", "on"),
    ("synchronous_commit", "on"),
    ("TimeZone", "UTC"),
    ("transaction_isolation", "read committed"),
    ("transaction_read_only", "on"),
    ("wal_level", "replica"),
    ("xmloption", "content"),
];

/// The values of one statement's session, with defaults for a client that has none.
#[derive(Debug, Clone, Default)]
pub(crate) struct StatementSession {
    /// The user's name.
    pub(crate) user: String,
    /// The schema of tables without one.
    pub(crate) schema: String,
    pub(crate) values: Option<Arc<SessionValues>>,
    pub(crate) time_zone: Option<String>,
    /// The start of the engine, microseconds since 1970.
    pub(crate) server_started_us: i64,
}

impl StatementSession {
    /// Returns all settings by name.
    pub(crate) fn settings(&self) -> BTreeMap<String, String> {
        let mut all: BTreeMap<String, String> = SETTINGS
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), (*value).to_owned()))
            .collect();
        let zone = self.time_zone.clone().unwrap_or_else(|| "UTC".to_owned());
        all.insert("timezone".to_owned(), zone);
        all.insert("search_path".to_owned(), self.search_path());
        let own = self.values.iter().flat_map(|values| &values.settings);
        all.extend(own.map(|(name, value)| (name.clone(), value.clone())));
        all
    }

    /// Returns the setting of a name in any case.
    pub(crate) fn setting(&self, name: &str) -> Option<String> {
        self.settings().remove(&name.to_lowercase())
    }

    fn search_path(&self) -> String {
        match self.schema.as_str() {
            "public" => "\"$user\", public".to_owned(),
            other => other.to_owned(),
        }
    }
}
