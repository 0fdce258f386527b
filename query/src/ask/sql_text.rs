//! Names and times as SQL.

use chrono::DateTime;

/// Returns a name as an identifier.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns a time, in microseconds since 1970, as a constant.
pub(super) fn stamp(at_us: i64) -> String {
    let at = DateTime::from_timestamp_micros(at_us).unwrap_or_default();
    format!("TIMESTAMP '{}'", at.format("%Y-%m-%dT%H:%M:%S%.6fZ"))
}
