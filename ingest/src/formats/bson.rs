//! BSON: an item is one document, as clients of MongoDB send it (bsonspec.org).
//!
//! Unlike the other formats, its values have types: null is a value, dates become columns of times,
//! and only a date in the field `time` is stored as the time of the event.

use arrow::array::RecordBatch;
use bson::raw::RawBsonRef;
use bson::{Bson, RawArray, RawDocument};
use storage::StreamKind;

use crate::bad::Bad;
use crate::documents::{DEPTH_MAX, DocumentRow, Documents, Value, check_key};
use crate::error::Result;
use crate::reader::{FormatEntry, LineReader, ReaderOptions, Taken};
use crate::stamp;
use crate::text::LineText;

pub(super) static FORMAT: FormatEntry = entry("bson", StreamKind::Documents);

/// The same, of increments of counters: their stream has columns of its own.
pub(super) static COUNTERS: FormatEntry = entry("counters", StreamKind::Counters);

const fn entry(name: &'static str, kind: StreamKind) -> FormatEntry {
    FormatEntry {
        name,
        kind,
        recognise: None,
        is_closed: |_, _| false,
        reader: |options, _| Box::new(BsonReader::new(options)),
        holds_values: false,
        // The first bytes are a length, which may be any.
        keeps_mark: true,
    }
}

/// Takes documents as events.
#[derive(Debug)]
struct BsonReader {
    row: DocumentRow,
    documents: Documents,
}

impl BsonReader {
    fn new(options: &ReaderOptions) -> Self {
        Self {
            row: DocumentRow::default(),
            documents: Documents::new(options),
        }
    }
}

impl LineReader for BsonReader {
    fn expect_lines(&mut self, count: &dyn Fn() -> usize) {
        self.documents.expect(count());
    }

    fn take(&mut self, item: LineText<'_>, options: &ReaderOptions) -> Result<Taken, Bad> {
        self.row.clear();
        self.row.is_typed = true;
        let document = RawDocument::from_bytes(item.bytes()).map_err(|e| not_bson(&e))?;
        put_fields(document, 1, &mut self.row)?;
        self.documents.take(&mut self.row, options)?;
        Ok(Taken::Event)
    }

    fn finish(&mut self, _: &ReaderOptions) -> Result<RecordBatch> {
        self.documents.finish()
    }
}

/// Appends the fields of a document at the path of the row; that of the item itself is at depth 1.
fn put_fields(document: &RawDocument, depth: usize, row: &mut DocumentRow) -> Result<(), Bad> {
    check_depth(depth)?;
    let path = row.mark();
    let mut is_empty = true;
    for field in document {
        let (name, value) = field.map_err(|e| not_bson(&e))?;
        row.enter(name.as_str(), depth > 1)?;
        match value {
            RawBsonRef::Document(below) => put_fields(below, depth + 1, row)?,
            value => {
                let value = row_value(value, depth, row)?;
                row.push(value)?;
            }
        }
        row.return_to(path);
        is_empty = false;
    }
    if is_empty && depth > 1 {
        row.push(Value::Other(Bson::Document(bson::Document::new())))?;
    }
    Ok(())
}

/// Returns the value of a field in a document at `depth`.
fn row_value(value: RawBsonRef<'_>, depth: usize, row: &mut DocumentRow) -> Result<Value, Bad> {
    Ok(match value {
        RawBsonRef::Boolean(value) => Value::Bool(value),
        RawBsonRef::Int32(number) => Value::Int(number.into()),
        RawBsonRef::Int64(number) => Value::Int(number),
        // Columns order their values, and these have no place in an order.
        RawBsonRef::Double(number) if number.is_finite() => Value::Float(number),
        RawBsonRef::String(text) => Value::Text(row.store(text)),
        RawBsonRef::DateTime(time) => {
            let us = time.timestamp_millis().checked_mul(1000);
            let us = us.filter(|us| stamp::is_held(*us));
            us.map_or(Value::Other(Bson::DateTime(time)), Value::Time)
        }
        RawBsonRef::Array(items) => {
            check_items(items, depth + 1)?;
            Value::Other(owned(value)?)
        }
        value => Value::Other(owned(value)?),
    })
}

/// Copies a value whose depth was checked.
fn owned(value: RawBsonRef<'_>) -> Result<Bson, Bad> {
    value.try_into().map_err(|e| not_bson(&e))
}

/// Checks the depth, the names and the bytes of all that an array holds.
fn check_items(items: &RawArray, depth: usize) -> Result<(), Bad> {
    check_depth(depth)?;
    for item in items {
        check_value(item.map_err(|e| not_bson(&e))?, depth)?;
    }
    Ok(())
}

fn check_value(value: RawBsonRef<'_>, depth: usize) -> Result<(), Bad> {
    match value {
        RawBsonRef::Array(items) => check_items(items, depth + 1),
        RawBsonRef::Document(document) => {
            check_depth(depth + 1)?;
            for field in document {
                let (name, value) = field.map_err(|e| not_bson(&e))?;
                check_key(name.as_str())?;
                check_value(value, depth + 1)?;
            }
            Ok(())
        }
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            check_value(RawBsonRef::Document(code.scope), depth)
        }
        _ => Ok(()),
    }
}

fn check_depth(depth: usize) -> Result<(), Bad> {
    match depth > DEPTH_MAX {
        true => {
            let message = format!("nested more than {DEPTH_MAX} levels deep");
            Err(Bad::because("too_deep", 0, message))
        }
        false => Ok(()),
    }
}

fn not_bson(error: &bson::error::Error) -> Bad {
    Bad::because("bad_bson", 0, format!("not BSON: {error}"))
}

#[cfg(test)]
mod tests;
