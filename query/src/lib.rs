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
mod engine;
mod error;
mod functions;
mod plan;
mod questions;
mod run;
mod tables;

pub use answer::document::{document, documents};
pub use answer::output::{self, type_name};
pub use answer::query_stats::{Count, OperatorTime, QueryStats, ScanProgress, Stage, StageTime};
pub use answer::rows::{Answer, AnswerStream, QueryStatsHandle};
pub use answer::schema::{FieldInfo, REST_FIELDS_MAX, SchemaInfo, schema};
pub use answer::slice::{Slice, SliceArgs, slice_sql};
pub use answer::tail::TailFilter;
pub use engine::{Engine, EngineOptions};
pub use error::{Error, Kind, Result};
pub use plan::rollup_rewrite::RollupUse;
pub use questions::Asked;
pub use run::limits::Limits;
pub use run::registry::{QueryInfo, QueryState};
pub use tables::level::make_cells;
pub use tables::system::{NoSystemInfo, SourceInfo, SystemInfo};

#[cfg(test)]
mod tests;
