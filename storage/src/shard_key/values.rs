//! The values of events, as the texts that a key hashes: whatever their columns' types, and whether
//! they have columns.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int16Type, Int64Type, TimestampMicrosecondType, UInt64Type};
use bson::{Bson, Document};

use super::hash::shard_hash;
use crate::model::{ColumnType, REST};

/// The integers that a float holds exactly end here.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// The hashes of the values that the events of a batch have of a key's fields.
pub(super) struct FieldHashes<'a> {
    fields: &'a [String],
    columns: Vec<Option<&'a ArrayRef>>,
    events: &'a RecordBatch,
    /// Memory for the text of a value.
    text: String,
}

impl<'a> FieldHashes<'a> {
    pub(super) fn of(fields: &'a [String], events: &'a RecordBatch) -> Self {
        let columns = fields.iter().map(|field| events.column_by_name(field));
        Self {
            fields,
            columns: columns.collect(),
            events,
            text: String::new(),
        }
    }

    /// Returns the hash of an event's values. `set` hears the places of the fields that have one.
    pub(super) fn of_event(&mut self, row: usize, mut set: impl FnMut(usize)) -> u64 {
        let (mut rest, mut hash) = (None, 0);
        for (nth, (field, column)) in self.fields.iter().zip(&self.columns).enumerate() {
            hash = match column.filter(|column| column.is_valid(row)) {
                Some(column) => {
                    set(nth);
                    with_value(hash, column, row, &mut self.text)
                }
                // A value that did not fit its column when the batch came.
                None => {
                    let rest = rest.get_or_insert_with(|| rest_of(self.events, row));
                    let value = rest.get(field).map(Vec::as_slice);
                    if value.is_some() {
                        set(nth);
                    }
                    shard_hash(hash, value)
                }
            };
        }
        hash
    }
}

/// Returns the values of an event that have no column, each as the text that it would have in one.
/// Fields of documents have dotted names, as columns have.
pub(super) fn rest_of(events: &RecordBatch, row: usize) -> BTreeMap<String, Vec<u8>> {
    let mut values = BTreeMap::new();
    let rest = events.column_by_name(REST);
    let rest = rest.and_then(|rest| rest.as_binary_opt::<i32>());
    let rest = rest.filter(|rest| rest.is_valid(row));
    let document = rest.and_then(|rest| Document::from_reader(rest.value(row)).ok());
    if let Some(document) = document {
        add_fields("", &document, &mut values);
    }
    values
}

fn add_fields(prefix: &str, document: &Document, values: &mut BTreeMap<String, Vec<u8>>) {
    for (name, value) in document {
        let name = format!("{prefix}{name}");
        let text = match value {
            Bson::Document(inner) => {
                add_fields(&format!("{name}."), inner, values);
                continue;
            }
            Bson::Null => continue,
            Bson::String(text) => text.clone().into_bytes(),
            Bson::Binary(binary) => binary.bytes.clone(),
            Bson::Double(number) => float_text(*number).into_bytes(),
            Bson::DateTime(time) => (time.timestamp_millis() * 1000).to_string().into_bytes(),
            other => other.to_string().into_bytes(),
        };
        values.insert(name, text);
    }
}

/// Returns the text of a float: that of an integer for one that it was, or will be.
fn float_text(number: f64) -> String {
    match number.trunc() == number && number.abs() <= EXACT_MAX {
        true => (number as i64).to_string(),
        false => number.to_string(),
    }
}

/// Adds the text of a value to a hash; `text` is memory for it.
pub(super) fn with_value(hash: u64, column: &ArrayRef, row: usize, text: &mut String) -> u64 {
    use std::fmt::Write;
    if column.is_null(row) {
        return shard_hash(hash, None);
    }
    text.clear();
    let written = match ColumnType::of(column.data_type()) {
        Some(ColumnType::Text) => {
            return shard_hash(hash, Some(column.as_string::<i32>().value(row).as_bytes()));
        }
        Some(ColumnType::Binary) => {
            return shard_hash(hash, Some(column.as_binary::<i32>().value(row)));
        }
        Some(ColumnType::Bool) => write!(text, "{}", column.as_boolean().value(row)),
        Some(ColumnType::Int16) => {
            write!(text, "{}", column.as_primitive::<Int16Type>().value(row))
        }
        Some(ColumnType::Int64) => {
            write!(text, "{}", column.as_primitive::<Int64Type>().value(row))
        }
        Some(ColumnType::Uint64) => {
            write!(text, "{}", column.as_primitive::<UInt64Type>().value(row))
        }
        Some(ColumnType::Time) => {
            let times = column.as_primitive::<TimestampMicrosecondType>();
            write!(text, "{}", times.value(row))
        }
        Some(ColumnType::Float64) => {
            let number = column.as_primitive::<Float64Type>().value(row);
            write!(text, "{}", float_text(number))
        }
        None => Ok(()),
    };
    written.expect("BUG: a string takes every text");
    shard_hash(hash, Some(text.as_bytes()))
}
