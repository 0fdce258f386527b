//! LogQL, the language of Grafana's Loki data source: a subset that compiles to plans.
//!
//! [`parse`] reads a query. A log query becomes one plan ([`LogQuery::question`]), and its rows
//! become [`LogEntry`] values. Every range aggregation of a metric query becomes a plan too
//! ([`RangeAggregation::question`]), which counts by label and by piece of the windows;
//! [`SeriesPieces`] makes series of its rows, and the rest is arithmetic on them
//! ([`Metric::evaluate`]).
//!
//! # Invariants
//! * A window is `(t - range, t]`, a log query reads `[start, end)`, as in Loki.
//! * A query that is not understood as a whole is refused. The error names the operator and its
//!   position.

mod ast;
mod compile;
mod duration;
mod entry;
mod evaluate;
mod follow;
#[cfg(test)]
mod fuzzing;
mod labels;
mod lexer;
mod log_query;
mod matrix;
mod names;
mod parser;
mod pattern;
mod pipeline;
mod print;
mod range;
mod stages;
mod template;

pub use ast::{
    BinaryOp, Comparison, Conversion, Expr, FilterValue, FormatValue, LabelFilter, LabelGrouping,
    LineOp, LogQuery, MatchOp, Matcher, Metric, Named, RangeAggregation, RangeFunction, Stage,
    Unwrap, VectorAggregation,
};
pub use duration::{bytes, duration_ns};
pub use entry::{Labels, LogEntry};
pub use evaluate::{MetricValue, SeriesLabels, leaves};
pub use follow::LineFilter;
pub use labels::LABELS;
pub use log_query::{Direction, LogRange};
pub use matrix::{CELLS_MAX, Matrix, POINTS_MAX, SERIES_MAX, Series, Steps};
pub use names::{label_names, label_sets};
pub use parser::parse;
pub use pipeline::Pipeline;
pub use range::SeriesPieces;

#[cfg(test)]
mod tests;
