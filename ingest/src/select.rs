//! The fields of each event that are stored: `keep`, `drop` and `raw_line` of a stream.
//!
//! A name stands for the field and for everything below it: `a` covers `a.b`. The event's time is
//! always stored, and so is the source of that time.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::Schema;
use storage::{Column, ColumnType, REST, TIME, TIME_SOURCE, arrow_schema};

use crate::error::{Error, Result};

/// The column of the line as it came.
pub(crate) const RAW_LINE: &str = "raw_line";

/// The fields to store of each event. The default is every field, without the line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// These fields alone.
    pub keep: Option<Vec<String>>,
    /// All but these fields.
    pub drop: Vec<String>,
    /// Also the line as it came, in the column `raw_line`.
    pub raw_line: bool,
}

impl Selection {
    /// Returns whether a field is stored.
    pub(crate) fn takes(&self, name: &str) -> bool {
        if name == TIME || name == TIME_SOURCE {
            return true;
        }
        let covers = |field: &String| {
            let below = name.strip_prefix(field.as_str());
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let kept = self
            .keep
            .as_ref()
            .is_none_or(|keep| keep.iter().any(covers));
        kept && !self.drop.iter().any(covers)
    }

    /// Returns whether every field is stored.
    pub(crate) fn is_all(&self) -> bool {
        self.keep.is_none() && self.drop.is_empty()
    }

    /// Checks the names against the fields that a format has.
    ///
    /// # Errors
    /// [`Error::UnknownField`] with those fields.
    pub(crate) fn check(&self, fields: &[Column]) -> Result<()> {
        let known = |name: &&String| fields.iter().any(|f| *f.name == ***name);
        let named = self.keep.iter().flatten().chain(&self.drop);
        match named.into_iter().find(|name| !known(name)) {
            None => Ok(()),
            Some(unknown) => Err(Error::UnknownField {
                name: unknown.clone(),
                known: fields.iter().map(|f| f.name.to_string()).collect(),
            }),
        }
    }
}

/// Adds to events the lines that they were.
pub(crate) fn with_lines(events: &RecordBatch, lines: ArrayRef) -> Result<RecordBatch> {
    let field = arrow_schema(&[Column::new(RAW_LINE, ColumnType::Text)]);
    let mut fields = events.schema_ref().fields().to_vec();
    let mut columns = events.columns().to_vec();
    // `_rest` comes last.
    let at = fields
        .iter()
        .position(|f| f.name() == REST)
        .unwrap_or(fields.len());
    fields.insert(at, Arc::clone(&field.fields()[0]));
    columns.insert(at, lines);
    let schema = Arc::new(Schema::new(fields));
    Ok(RecordBatch::try_new(schema, columns)?)
}

#[cfg(test)]
mod tests;
