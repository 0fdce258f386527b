//! Tests of events as documents.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
    UInt64Array,
};
use bson::oid::ObjectId;
use bson::{DateTime, Document, doc};

use super::*;

fn times(values: Vec<Option<i64>>) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from(values).with_timezone("UTC"))
}

fn rest(documents: Vec<Option<Document>>) -> ArrayRef {
    let bytes = documents
        .iter()
        .map(|d| d.as_ref().map(|d| d.to_vec().unwrap()));
    Arc::new(BinaryArray::from_iter(bytes))
}

#[test]
fn a_document_is_as_it_was_inserted() {
    let hex = "507f1f77bcf86cd799439011";
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("_id", Arc::new(StringArray::from(vec![hex; 3]))),
        ("time", times(vec![Some(1_999), Some(-1), Some(5_000)])),
        (
            "a.b",
            Arc::new(Int64Array::from(vec![Some(5), None, Some(1 << 40)])),
        ),
        ("ts", times(vec![None, Some(2_000), None])),
        (
            "a.c.d",
            Arc::new(StringArray::from(vec![Some("x"), None, None])),
        ),
        (
            "time_source",
            Arc::new(StringArray::from(vec![None, Some("ts"), Some("received")])),
        ),
        (
            "_rest",
            rest(vec![
                Some(doc! { "a.list": [1_i64], "none": null, "a.e": {} }),
                Some(doc! { "_id.u": "rick", "_id.n": 7_i64, "time": 12_i64 }),
                None,
            ]),
        ),
        ("_seq", Arc::new(UInt64Array::from(vec![8, 9, 10]))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    );
    let events = EventDocuments::new(&batch.unwrap(), StreamKind::Documents).unwrap();
    let id = ObjectId::parse_str(hex).unwrap();
    let expected = [
        doc! {
            "_id": id, "time": DateTime::from_millis(1),
            "a": { "b": 5_i32, "c": { "d": "x" }, "list": [1_i64], "e": {} }, "none": null,
        },
        doc! {
            "_id": { "u": "rick", "n": 7_i32 }, "ts": DateTime::from_millis(2), "time": 12_i32,
        },
        doc! { "_id": id, "a": { "b": 1_i64 << 40 } },
    ];
    for (row, expected) in expected.into_iter().enumerate() {
        assert_eq!(events.document(row).unwrap(), expected, "{row}");
        assert_eq!(events.seq(row), row as u64 + 8);
    }
}

#[test]
fn a_name_with_a_value_takes_no_fields() {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("a", Arc::new(Int64Array::from(vec![1]))),
        ("a.b", Arc::new(Int64Array::from(vec![2]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let events = EventDocuments::new(&batch, StreamKind::Documents).unwrap();
    assert_eq!(
        events.document(0).unwrap(),
        doc! { "a": 1_i32, "a.b": 2_i32 }
    );
}

#[test]
fn an_access_log_has_the_same_fields_in_every_document() {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("host", Arc::new(StringArray::from(vec![Some("a"), None]))),
        ("response_size", Arc::new(Int64Array::from(vec![5, 6]))),
        ("site", Arc::new(StringArray::from(vec![None, Some("s")]))),
        ("more", Arc::new(Int64Array::from(vec![None, Some(1)]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let events = EventDocuments::new(&batch, StreamKind::Access).unwrap();
    let first = doc! { "host": "a", "response_size": 5_i64 };
    assert_eq!(events.document(0).unwrap(), first);
    let second = doc! { "host": null, "response_size": 6_i64, "site": "s", "more": 1_i32 };
    assert_eq!(events.document(1).unwrap(), second);
}
