//! Streams, rollup levels and `system.*` as DataFusion tables, and what else a query needs.
//!
//! [`Engine::sql`] plans and runs a query over one [`storage::Snapshot`]; [`output`] writes its rows;
//! [`Figures`] say what was looked at. [`slice_sql`] and [`TailFilter`] serve the commands of those
//! names, [`documents`] turns rows into the BSON documents that a MongoDB client sees.
//!
//! # Invariants
//! * Nothing here writes to a store.
//! * Each query reads one snapshot: every acknowledged event once, in tables and in levels alike.
//! * A filter that leaves out parts, pages or cells never leaves out a row that passes it.

mod answer;
mod catalog;
mod checked_sums;
mod document;
mod each_value;
mod engine;
mod error;
mod figures;
mod functions;
mod hints;
mod level;
mod limits;
mod manifest_count;
mod memory;
mod occupancy;
pub mod output;
mod portions;
mod questions;
mod registry;
mod rewrite;
mod rollup_rewrite;
mod rules;
mod runtime;
mod schema;
mod sessions;
mod slice;
mod steps;
mod stream;
mod system;
mod tail;
mod top_k;
mod upstream;
mod windows;

pub use answer::{Answer, AnswerStream, FiguresHandle};
pub use document::{document, documents};
pub use engine::{Engine, EngineOptions};
pub use error::{Error, Kind, Result};
pub use figures::{Count, Done, Figures, OperatorTook, Stage, Took};
pub use level::make_cells;
pub use limits::Limits;
pub use output::type_name;
pub use questions::Asked;
pub use registry::{QueryInfo, QueryState};
pub use rollup_rewrite::Answers;
pub use schema::{FieldInfo, REST_FIELDS_MAX, SchemaInfo, schema};
pub use slice::{Slice, SliceArgs, slice_sql};
pub use system::{NoSystemInfo, SourceInfo, SystemInfo};
pub use tail::TailFilter;

#[cfg(test)]
mod tests;
