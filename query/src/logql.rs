//! LogQL, the language of Grafana's Loki data source: a subset that compiles to plans.
//!
//! [`parse`] reads a query. A log query becomes one plan ([`LogQuery::question`]), and its rows
//! become [`Entry`] values. Every range aggregation of a metric query becomes a plan too
//! ([`RangeAggregation::question`]), which counts by label and by piece of the windows; the rest
//! is arithmetic on a few series ([`Metric::evaluate`]).
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
#[cfg(test)]
mod fuzzing;
mod labels;
mod lexer;
mod log_query;
mod matrix;
mod parser;
mod pattern;
mod pipeline;
mod print;
mod range;
mod stages;
mod template;

pub use ast::{
    BinaryOp, Comparison, Conversion, Expr, FilterValue, FormatValue, Grouping, LabelFilter,
    LineOp, LogQuery, MatchOp, Matcher, Metric, Named, RangeAggregation, RangeFunction, Stage,
    Unwrap, VectorAggregation,
};
pub use duration::{bytes, duration_ns};
pub use entry::{Entry, Labels};
pub use evaluate::{Value, leaves};
pub use labels::LABELS;
pub use log_query::{Direction, LogRange};
pub use matrix::{Matrix, POINTS_MAX, SERIES_MAX, Series, Steps};
pub use parser::parse;
pub use pipeline::Pipeline;

#[cfg(test)]
mod tests;
