//! Streams, rollup levels and `system.*` as DataFusion tables, and what else a query needs.
//!
//! [`Engine::prepare`] binds a question to the tables of a [`storage::Snapshot`] and
//! [`Prepared::start`] runs it; [`Engine::sql`] does both. [`output`] writes the rows, and
//! [`QueryStats`] counts the data that was read. [`slice_sql`] and [`TailFilter`] serve the
//! commands of those names, and [`documents`] turns rows into the BSON documents of a MongoDB
//! client.
//!
//! # Invariants
//! * Nothing here writes to a store.
//! * Each query reads one snapshot: every acknowledged event once, in tables and in levels alike.
//! * A filter that leaves out parts, pages or cells never leaves out a row that passes it.

mod answer;
mod ask;
mod engine;
mod error;
mod functions;
pub mod logql;
mod marks;
pub mod mongo;
mod peer_answers;
mod plan;
mod plan_node;
mod postgres;
mod prepared;
mod question;
mod regex_steps;
mod run;
pub mod statements;
mod stats;
mod tables;

pub use answer::document::{document, documents};
pub use answer::output::{self, json_texts, type_name};
pub use answer::rows::{Answer, AnswerStream, QueryStatsHandle};
pub use ask::matching::matching;
pub use ask::random_questions::Asked;
pub use ask::schema::{FieldInfo, REST_FIELDS_MAX, SchemaInfo, schema};
pub use ask::shard_keys::{
    HotValue, LevelCells, LookupShards, SHARDS_MAX, ShardKeyFigures, ShardKeyInfo, shard_keys,
};
pub use ask::slice::{Slice, SliceArgs, slice_sql};
pub use ask::tail::TailFilter;
pub use datafusion::common::ScalarValue;
pub use engine::{Engine, EngineOptions};
pub use error::{Error, Fault, Kind, LineFull, Result, nearest};
pub use postgres::session::{SETTINGS, SessionValues};
pub use postgres::types::{PgType, pg_type, pg_type_of};
pub use prepared::Prepared;
pub use question::{Parameters, Question, Session, Sources, Tables, Viewer};
pub use run::limits::{Limits, Line, LinePlace};
pub use stats::{
    Count, OperatorTime, QueryInfo, QueryState, QueryStats, ScanProgress, Stage, StageTime,
};
pub use tables::level::{RollupUse, make_cells};
pub use tables::sharded::{GonePeer, Peer, PeerBytes, PeerTables, StreamColumns, agreed_stream};
pub use tables::stream::column_count;
pub use tables::system::{
    AccountInfo, Arrived, AuditInfo, NoSystemInfo, ShardState, SourceInfo, StoreState, SystemInfo,
};

#[cfg(test)]
mod tests;
