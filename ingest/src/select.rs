//! What is stored of each event: `keep`, `drop` and `raw_line` of a stream.
//!
//! A name stands for the field and for everything below it: `a` covers `a.b`. The event's time is
//! stored whatever is said, and so is where it comes from.
//!
//! The `request` of an access log is not stored where its parts give it back. Where it is kept without
//! all of them, it is stored whole; where one of them is dropped, so is the request, which would tell
//! it: what reads as `request` is then put together from those that are left.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use storage::{Column, ColumnType, REST, TIME, TIME_SOURCE, arrow_schema};

use crate::access::rebuild_request;
use crate::error::{Error, Result};

/// The column of the line as it came.
pub(crate) const RAW_LINE: &str = "raw_line";
const REQUEST: &str = "request";
/// What gives a request back.
const PARTS: [&str; 4] = ["method", "path", "query", "protocol"];

/// What to store of each event. Everything, unless something is said.
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
    /// Whether a field is stored.
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

    /// Whether everything is stored.
    pub(crate) fn is_all(&self) -> bool {
        self.keep.is_none() && self.drop.is_empty()
    }

    /// Checks the names against the fields of an access log.
    ///
    /// # Errors
    /// [`Error::UnknownField`] with those that there are.
    pub fn check_access(&self) -> Result<()> {
        let fields = storage::access_fields();
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

    /// What is stored of the events of an access log.
    pub(crate) fn of_access(&self, events: RecordBatch) -> Result<RecordBatch> {
        if self.is_all() {
            return Ok(events);
        }
        let hides = PARTS.iter().any(|part| !self.takes(part));
        let request = match (&self.keep, hides) {
            (Some(_), true) if self.takes(REQUEST) => Some(Arc::new(requests(&events)) as ArrayRef),
            (None, true) => None,
            _ => events
                .column_by_name(REQUEST)
                .cloned()
                .filter(|_| self.takes(REQUEST)),
        };
        let mut fields = Vec::new();
        let mut columns: Vec<ArrayRef> = Vec::new();
        for (field, array) in events.schema_ref().fields().iter().zip(events.columns()) {
            let array = match field.name().as_str() {
                REQUEST => request.clone(),
                name => self.takes(name).then(|| Arc::clone(array)),
            };
            if let Some(array) = array {
                fields.push(Arc::clone(field));
                columns.push(array);
            }
        }
        let schema = Arc::new(arrow::datatypes::Schema::new(fields));
        Ok(RecordBatch::try_new(schema, columns)?)
    }
}

/// The request of every line.
fn requests(events: &RecordBatch) -> StringArray {
    let text = |name: &str| {
        events
            .column_by_name(name)
            .map(|a| a.as_string::<i32>().clone())
    };
    let [method, path, query, protocol] = PARTS.map(text);
    let of = |array: &Option<StringArray>, row: usize| {
        let array = array.as_ref().filter(|a| a.is_valid(row))?;
        Some(array.value(row).to_owned())
    };
    let stored = text(REQUEST);
    let request = |row| {
        of(&stored, row).or_else(|| {
            let method = of(&method, row)?;
            let [path, query, protocol] = [&path, &query, &protocol].map(|a| of(a, row));
            Some(rebuild_request(
                &method,
                path.as_deref(),
                query.as_deref(),
                protocol.as_deref(),
            ))
        })
    };
    (0..events.num_rows()).map(request).collect()
}

/// Events with the lines that they were.
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
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    Ok(RecordBatch::try_new(schema, columns)?)
}

#[cfg(test)]
mod tests;
