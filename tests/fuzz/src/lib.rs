//! Every target by its name.
//!
//! A target lies in the crate whose parser it calls, so that the tests of that crate replay its
//! corpus. The modules below are those of the program and of `query` that need no other one: their
//! crates are too large for this workspace.

#![allow(dead_code, unused_imports, reason = "the modules are parts of larger crates")]

mod access;
mod changes;
mod config;
mod fluent;
mod fuzzing;
mod hints;
mod mongo_wire;
mod postgres;
mod server;
mod shippers;

#[path = "../../../query/src/regex_steps.rs"]
mod regex_steps;

/// The modules of `query`'s `mongo` that need nothing of DataFusion. They stand here, since they
/// name `crate::mongo::expression`.
#[path = "../../../query/src/mongo"]
mod mongo {
    mod accumulator;
    mod distinct;
    mod encoding;
    mod error;
    mod expression;
    mod filter;
    pub(crate) mod fuzzing;
    mod number;
    mod path;
    mod pattern;
    mod pipeline;
    mod projection;
    mod size;
    mod sort;
    mod value;

    pub(crate) use self::distinct::DistinctValues;
    pub(crate) use self::error::QueryError;
    pub(crate) use self::expression::{ExpressionContext, ExpressionScope, FieldUses};
    pub(crate) use self::filter::Filter;
    pub(crate) use self::pipeline::{
        KeptBytes, Pipeline, PipelineContext, PipelineRun, PipelineSink, SinkCollection, StageFlow,
        WhenMatched, WhenNotMatched,
    };
    pub(crate) use self::projection::Projection;
    pub(crate) use self::size::encoded_bytes;
    pub(crate) use self::sort::{Sort, TopK};
}

pub use changes::{change as changed_query, cross as crossed_query};
pub use aggregator::fuzzing::{expression, rollup, tile};
pub use ingest::fuzzing::{blocks, bodies, bson, json, line_formats, shippers};
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

/// See `src/mongo/message/fuzzing.rs`.
pub fn mongo_message(bytes: &[u8]) {
    mongo_wire::message::fuzzing::mongo_message(bytes);
}

/// See `query/src/mongo/fuzzing.rs`.
pub fn mongo_query(bytes: &[u8]) {
    mongo::fuzzing::mongo_query(bytes);
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
