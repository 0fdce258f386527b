//! Every target by its name.
//!
//! A target lies in the crate whose parser it calls, so that the tests of that crate replay its
//! corpus. The modules below are those of the program and of `query` that need no other one: their
//! crates are too large for this workspace.

#![allow(dead_code, unused_imports, reason = "the modules are parts of larger crates")]

mod access;
mod config;
mod fluent;
mod fuzzing;
mod hints;
mod postgres;
mod server;
mod shippers;

pub use aggregator::fuzzing::{expression, rollup, tile};
pub use ingest::fuzzing::{blocks, bodies, json, line_formats, shippers};
pub use storage::fuzzing::{
    backup, detached_card, identities, index_file, journal_record, journal_segment, manifest, part,
    small_files,
};

/// See `src/fluent/message/fuzzing.rs`.
pub fn fluent_message(bytes: &[u8]) {
    fluent::message::fuzzing::fluent_message(bytes);
}

/// See `src/fluent/msgpack/fuzzing.rs`.
pub fn msgpack(bytes: &[u8]) {
    fluent::msgpack::fuzzing::msgpack(bytes);
}

/// See `src/fuzzing/http_head.rs`.
pub fn http_head(bytes: &[u8]) {
    fuzzing::http_head(bytes);
}

/// See `src/postgres/message/fuzzing.rs`.
pub fn postgres_message(bytes: &[u8]) {
    postgres::message::fuzzing::postgres_message(bytes);
}

/// See `src/fuzzing/secrets.rs`.
pub fn secrets(bytes: &[u8]) {
    fuzzing::secrets(bytes);
}

/// See `src/relp/frame/fuzzing.rs`.
pub fn relp_frames(bytes: &[u8]) {
    shippers::relp::frame::fuzzing::relp_frames(bytes);
}

/// See `src/syslog/framing/fuzzing.rs`.
pub fn syslog_framing(bytes: &[u8]) {
    shippers::syslog::framing::fuzzing::syslog_framing(bytes);
}

/// See `query/src/plan/hints/fuzzing.rs`.
pub fn sql_hints(bytes: &[u8]) {
    hints::fuzzing::sql_hints(bytes);
}
