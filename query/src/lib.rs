//! Streams, rollup levels and `system.*` as DataFusion tables, and what else a query needs.
//!
//! [`Engine::sql`] plans and runs a query over one [`storage::Snapshot`]; [`answer/output`] writes its rows;
//! [`QueryStats`] say what was looked at. [`slice_sql`] and [`TailFilter`] serve the commands of those
//! names, [`documents`] turns rows into the BSON documents that a MongoDB client sees.
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
mod plan;
mod prepared;
mod question;
mod run;
mod stats;
mod tables;

pub use answer::document::{document, documents};
pub use answer::output::{self, type_name};
pub use answer::rows::{Answer, AnswerStream, QueryStatsHandle};
pub use ask::random_questions::Asked;
pub use ask::schema::{FieldInfo, REST_FIELDS_MAX, SchemaInfo, schema};
pub use ask::slice::{Slice, SliceArgs, slice_sql};
pub use ask::tail::TailFilter;
pub use engine::{Engine, EngineOptions};
pub use error::{Error, Kind, Result};
pub use prepared::Prepared;
pub use question::{Parameters, Question, Session, Sources, Tables};
pub use run::limits::Limits;
pub use stats::{
    Count, OperatorTime, QueryInfo, QueryState, QueryStats, ScanProgress, Stage, StageTime,
};
pub use tables::level::{RollupUse, make_cells};
pub use tables::system::{NoSystemInfo, SourceInfo, SystemInfo};

#[cfg(test)]
mod tests;
