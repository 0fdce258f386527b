//! MongoDB's query language over streams.
//!
//! A [`Filter`] is exact on documents, and [`scan`] reads the events that may match it;
//! [`EventDocuments`] makes documents of them. [`Projection`], [`TopK`] and [`DistinctValues`] are
//! the rest of `find` and `distinct`, and a [`Pipeline`] is what `aggregate` asks for. Levels of
//! rollups are documents, too, and so are counters.
//!
//! # Invariants
//! * Values compare as in MongoDB: across types, and numbers by their exact values.
//! * A scan leaves out no event whose document matches.

mod accumulator;
mod counted;
mod counters;
mod distinct;
mod encoding;
mod error;
mod events;
mod expression;
mod filter;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod level;
mod number;
mod path;
mod pattern;
mod pipeline;
mod projection;
mod scan;
mod size;
mod sort;
mod value;

pub use counted::{CountedDocuments, CountedScan};
pub use counters::{
    CounterDocuments, FIXED, begun_counter, counter_text, is_counter_id, scan_counters,
};
pub use distinct::DistinctValues;
pub use error::QueryError;
pub use events::EventDocuments;
pub use expression::{ExpressionContext, ExpressionScope, FieldUses};
pub use filter::Filter;
pub use level::scan_level;
pub use pipeline::{
    ColumnGroups, FieldPlace, FieldRows, GroupResults, KeptBytes, Pipeline, PipelineContext,
    PipelineRun, PipelineSink, SinkCollection, StageFlow, WhenMatched, WhenNotMatched,
};
pub use projection::Projection;
pub use scan::scan;
pub use size::encoded_bytes;
pub use sort::{Sort, TopK};

#[cfg(test)]
mod tests;
