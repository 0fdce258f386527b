//! A value that events carry beside their payload. Its column, type and size follow from the
//! batch's number, so that columns are added and widened, and conflict with other types and the
//! limit of columns.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema};
use bson::{Bson, Document};

use super::oracle::number_of;
use crate::model::REST;

/// Limit of columns, out of `host`, `n` and three more.
pub(super) const COLUMNS_MAX: usize = 4;

/// Returns the column of a batch's value.
fn name(number: i64) -> String {
    format!("x{}", number % 3)
}

/// Returns the value of a batch; some batches have none.
fn value(number: i64) -> Option<Bson> {
    Some(match number % 16 {
        0..6 => Bson::Int64(number),
        6..9 => Bson::Double(number as f64 + 0.5),
        9 | 10 => Bson::String(format!("text {number}")),
        11 => Bson::Boolean(true),
        // No float represents it. It is rare, because a column that has one is never widened
        // again.
        12 if number % 7 == 0 => Bson::Int64((1 << 53) + 1 + 2 * number),
        _ => return None,
    })
}

/// Returns the events with the value of their batch.
pub(super) fn extend(events: &RecordBatch, number: i64) -> RecordBatch {
    let rows = events.num_rows();
    let array: ArrayRef = match value(number) {
        Some(Bson::Int64(n)) => Arc::new(Int64Array::from(vec![n; rows])),
        Some(Bson::Double(n)) => Arc::new(Float64Array::from(vec![n; rows])),
        Some(Bson::String(text)) => Arc::new(StringArray::from(vec![text; rows])),
        Some(Bson::Boolean(truth)) => Arc::new(BooleanArray::from(vec![truth; rows])),
        _ => return events.clone(),
    };
    let field = Field::new(name(number), array.data_type().clone(), true);
    let fields = events.schema_ref().fields().iter().cloned();
    let fields: Vec<_> = fields.chain([Arc::new(field)]).collect();
    let columns = events.columns().iter().cloned().chain([array]).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("columns fit")
}

/// Checks that every event has its value in one place, and in its own type unless that is a
/// number.
pub(super) fn check(events: &RecordBatch) {
    let Some(payloads) = events.column_by_name("n") else {
        return;
    };
    let payloads = payloads.as_primitive::<Int64Type>();
    for row in 0..events.num_rows() {
        let number = number_of(payloads.value(row));
        let columns = (0..3).filter_map(|nth| {
            let name = format!("x{nth}");
            let found = in_column(events.column_by_name(&name)?, row)?;
            Some((name, found))
        });
        let mut found: Vec<(String, Bson)> = columns.collect();
        found.extend(in_rest(events, row));
        let wanted: Vec<(String, Bson)> = value(number)
            .map(|v| (name(number), v))
            .into_iter()
            .collect();
        let is_same = match (found.as_slice(), wanted.as_slice()) {
            // The value was written before its column was widened.
            ([(a, Bson::Double(float))], [(b, Bson::Int64(integer))]) => {
                a == b && *float as i64 == *integer && float.fract() == 0.0
            }
            (found, wanted) => found == wanted,
        };
        assert!(is_same, "batch {number}: {found:?}, expected {wanted:?}");
    }
}

fn in_column(array: &ArrayRef, row: usize) -> Option<Bson> {
    if array.is_null(row) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).into(),
        DataType::Boolean => array.as_boolean().value(row).into(),
        _ => array.as_string::<i32>().value(row).into(),
    })
}

fn in_rest(events: &RecordBatch, row: usize) -> Document {
    let rest = events.column_by_name(REST).map(|a| a.as_binary::<i32>());
    let rest = rest.filter(|a| a.is_valid(row));
    rest.map_or_else(Document::new, |a| {
        Document::from_reader(a.value(row)).expect("a document")
    })
}
