//! Log queries: the plan, and its rows as entries.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::TimestampMicrosecondType;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use storage::{SEQ, TIME};

use super::ast::{LogQuery, Stage};
use super::compile::{EntryOutput, Source, entry_function, nothing, sources, text_at, united};
use super::entry::LogEntry;
use super::labels::named;
use super::names::bounds_us;
use super::pipeline::Pipeline;
use crate::error::{Error, Result};
use crate::question::{Question, Tables};

/// Column of the entry as JSON.
const ENTRY: &str = "entry";

/// The order of lines, and the end at which a limit cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The newest lines, the newest first.
    Backward,
    /// The oldest lines, the oldest first.
    Forward,
}

/// The lines that a log query returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRange {
    /// The first instant, nanoseconds since 1970.
    pub start_ns: i64,
    /// The end of the range, excluded, nanoseconds since 1970.
    pub end_ns: i64,
    /// Most lines.
    pub limit: usize,
    /// Their order.
    pub direction: Direction,
}

impl LogQuery {
    /// Returns the question for the lines of a range, in order.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a stage does not compile.
    pub fn question(&self, range: LogRange) -> Result<Question> {
        let query = self.clone();
        Ok(Question::Plan {
            text: query.to_string(),
            build: Box::new(move |tables| plan(&tables, &query, range)),
        })
    }
}

/// Returns the rows of an answer, in order: time in nanoseconds since 1970, and entry.
///
/// # Errors
/// When the rows are not those of [`LogQuery::question`].
pub(super) fn entries(batches: &[RecordBatch]) -> Result<Vec<(i64, LogEntry)>> {
    let mut found = Vec::new();
    for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
        let wrong = || Error::invalid("the rows are no entries of a log query");
        let times = batch.column_by_name(TIME).ok_or_else(wrong)?;
        let times = times.as_primitive::<TimestampMicrosecondType>();
        let texts = batch
            .column_by_name(ENTRY)
            .ok_or_else(wrong)?
            .as_string::<i32>();
        for row in 0..batch.num_rows() {
            let text = text_at(texts, row).unwrap_or_default();
            let entry: LogEntry = serde_json::from_str(text).map_err(|_| wrong())?;
            found.push((times.value(row).saturating_mul(1000), entry));
        }
    }
    Ok(found)
}

impl LogEntry {
    /// Returns the entries of a log query's answer, in order, each with its time in nanoseconds
    /// since 1970.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the rows are not those of a log query.
    pub fn read(batches: &[RecordBatch]) -> Result<Vec<(i64, Self)>> {
        entries(batches)
    }
}

fn plan(
    tables: &Tables<'_>,
    query: &LogQuery,
    range: LogRange,
) -> datafusion::error::Result<LogicalPlan> {
    let bounds_us = bounds_us((range.start_ns, range.end_ns));
    let (found, rest) = sources(tables, query, bounds_us)?;
    let pipeline = Pipeline::new(&rest, None).map_err(Error::invalid)?;
    let drops = rest
        .stages
        .iter()
        .any(|stage| matches!(stage, Stage::Line { .. } | Stage::Label(_)));
    let order = || {
        let is_forward = range.direction == Direction::Forward;
        [TIME, SEQ].map(|key| named(key).sort(is_forward, false))
    };
    let first = |plan: LogicalPlanBuilder| plan.sort(order())?.limit(0, Some(range.limit));
    let text = rest.to_string();
    let plans = found.into_iter().map(|Source { columns, plan }| {
        let compiled = (pipeline.clone(), text.clone());
        let entry = entry_function(&columns, None, true, compiled, EntryOutput::Entry).alias(ENTRY);
        // If no stage drops lines, the stages run for the returned ones alone.
        let plan = if drops { plan } else { first(plan)? };
        let plan = plan.project([named(TIME), named(SEQ), entry])?;
        match drops {
            true => first(plan.filter(named(ENTRY).is_not_null())?),
            false => Ok(plan),
        }
    });
    // Columns of a table have its name in front, which the sides of a union must not.
    let plans = plans.map(|plan| {
        let plan = plan?;
        let columns = [TIME, SEQ, ENTRY].map(|name| named(name).alias(name));
        plan.project(columns)
    });
    match united(plans)? {
        None => nothing(),
        Some(all) => {
            let all = first(all)?;
            let shown: Vec<Expr> = [TIME, ENTRY].map(named).to_vec();
            all.project(shown)?.build()
        }
    }
}
