//! Prometheus' query language over series that a caller supplies.
//!
//! [`Query::parse`] checks a text, [`Query::needs`] lists the series that it reads, and
//! [`evaluate()`] computes the answer of each step from these series alone. So the answers of a
//! range are those of its instants.
//!
//! # Samples
//! A series comes from the cells of a rollup, and a cell counts at the end of its bucket.
//! * A counter is the sum of all cells so far. Its increase over `(t - range, t]` is the sum of the
//!   cells that end there: exact for a window as long as whole buckets, scaled to the window's
//!   length for another one.
//! * A gauge has one sample for each cell, which is good until the next bucket has ended.
//!
//! Ranges of gauges and of subqueries are extrapolated as Prometheus does.
//!
//! # Invariants
//! * A text has at most [`query::OPERATORS_MAX`] operators and parentheses: recursion is bounded.
//! * An evaluation looks at no more than [`SAMPLES_MAX`] samples, and ends at its time.
//! * A window or an instant that needs a bucket below the floor of its level has no value.

mod aggregate;
mod binary;
mod date;
mod error;
mod evaluate;
mod function;
mod labels;
mod needs;
mod quantile;
mod query;
mod relabel;
mod series;
mod window;

pub(crate) use error::PromqlError;
use evaluate::SAMPLES_MAX;
pub(crate) use evaluate::{Points, PromqlValue, Steps, VectorSample, evaluate};
pub(crate) use function::{label_name, number_text};
pub(crate) use labels::Labels;
pub(crate) use needs::{KeptLabels, Need, Reads};
pub(crate) use query::{Query, selector_matchers};
pub(crate) use series::{Grid, GridCells, SelectorRead, Series, SeriesKind};

#[cfg(test)]
mod tests;
