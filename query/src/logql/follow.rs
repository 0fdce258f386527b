//! A log query over events as they arrive.

use arrow::array::AsArray;
use arrow::array::RecordBatch;
use arrow::datatypes::TimestampMicrosecondType;
use storage::TIME;

use super::ast::LogQuery;
use super::compile::EntryFunction;
use super::entry::LogEntry;
use super::labels::{Columns, STREAM};
use super::pipeline::Pipeline;
use crate::error::{Error, Result};

/// The lines of one stream that a log query selects, from rows as `SELECT *` returns them.
#[derive(Debug, Clone)]
pub struct LineFilter {
    query: LogQuery,
    stream: String,
}

impl LineFilter {
    /// Creates a filter for a stream. Returns `None` if the selector does not select the stream.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the query cannot be compiled.
    pub fn new(query: &LogQuery, stream: &str) -> Result<Option<Self>> {
        let mut of_name = query.clone();
        of_name.matchers.retain(|matcher| matcher.label == STREAM);
        let pipeline = Pipeline::new(&of_name, None).map_err(Error::invalid)?;
        let labels = [(STREAM.to_owned(), stream.to_owned())].into();
        Ok(pipeline.selects(&labels).then(|| Self {
            query: query.clone(),
            stream: stream.to_owned(),
        }))
    }

    /// Returns the lines that pass, in the order of the rows, each with its time in nanoseconds
    /// since 1970.
    ///
    /// # Errors
    /// When the columns cannot be read.
    pub fn lines(&self, rows: &RecordBatch) -> Result<Vec<(i64, LogEntry)>> {
        let columns = Columns::new(&self.stream, rows.schema_ref());
        let wrong = |e| Error::of(e, Vec::new);
        let pipeline = Pipeline::new(&self.query, None).map_err(Error::invalid)?;
        let events = EntryFunction::over_rows(columns, pipeline);
        let times = rows.column_by_name(TIME);
        let times = times.and_then(|t| t.as_primitive_opt::<TimestampMicrosecondType>());
        let times = times.ok_or_else(|| Error::invalid("the rows have no time"))?;
        let entries = events.entries(rows.columns()).map_err(wrong)?;
        let lines = entries.into_iter().enumerate();
        let lines = lines.filter_map(|(row, entry)| {
            let ns = times.value(row).saturating_mul(1000);
            Some((ns, entry?))
        });
        Ok(lines.collect())
    }
}
