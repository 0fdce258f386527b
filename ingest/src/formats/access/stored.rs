//! The columns of an access log that a stream keeps.
//!
//! The `request` is not stored where its parts make it again. Where it is kept without all of them,
//! it is stored whole; where one of them is dropped, so is the request, which would reveal it: the
//! `request` that a reader sees is then made of the parts that are left.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::Schema;
use storage::{Column, ColumnType};

use super::request::rebuild_request;
use crate::anonymise::Anonymiser;
use crate::error::{Error, Result};
use crate::select::Selection;

const REQUEST: &str = "request";
/// Fields that tell each other: a request and its parts.
const RELATED: [&str; 5] = [REQUEST, "method", "path", "query", "protocol"];
/// The fields that make a request.
const PARTS: [&str; 4] = ["method", "path", "query", "protocol"];

/// Checks the names that a stream's configuration has for fields of an access log, which are these.
///
/// # Errors
/// [`Error::UnknownField`]; [`Error::NotAnonymised`] for a name that is no column of text, or one
/// whose value can be read in another column.
pub(super) fn check(
    selection: &Selection,
    anonymiser: &Anonymiser,
    fields: &[Column],
) -> Result<()> {
    selection.check(fields)?;
    let is_text = |name: &str| {
        let mut fields = fields.iter();
        fields.any(|field| *field.name == *name && field.column_type == ColumnType::Text)
    };
    let mut names = anonymiser.fields();
    match names.find(|name| !is_text(name) || RELATED.contains(name)) {
        None => Ok(()),
        Some(wrong) => Err(Error::NotAnonymised {
            name: wrong.to_owned(),
        }),
    }
}

/// Returns the events with the columns that are stored of them.
pub(super) fn select(selection: &Selection, events: RecordBatch) -> Result<RecordBatch> {
    if selection.is_all() {
        return Ok(events);
    }
    let hides = PARTS.iter().any(|part| !selection.takes(part));
    let request = match (&selection.keep, hides) {
        (Some(_), true) if selection.takes(REQUEST) => {
            Some(Arc::new(requests(&events)) as ArrayRef)
        }
        (None, true) => None,
        _ => events
            .column_by_name(REQUEST)
            .cloned()
            .filter(|_| selection.takes(REQUEST)),
    };
    let mut fields = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (field, array) in events.schema_ref().fields().iter().zip(events.columns()) {
        let array = match field.name().as_str() {
            REQUEST => request.clone(),
            name => selection.takes(name).then(|| Arc::clone(array)),
        };
        if let Some(array) = array {
            fields.push(Arc::clone(field));
            columns.push(array);
        }
    }
    let schema = Arc::new(Schema::new(fields));
    Ok(RecordBatch::try_new(schema, columns)?)
}

/// Returns the request of every line.
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

#[cfg(test)]
mod tests;
