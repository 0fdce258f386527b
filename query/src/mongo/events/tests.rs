//! Tests of events as documents.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Float64Array, Int16Array, Int64Array, RecordBatch,
    StringArray, TimestampMicrosecondArray, UInt64Array,
};
use bson::oid::ObjectId;
use bson::{DateTime, Document, doc};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::subsequence;

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
        assert_eq!(events.encoded(row).unwrap(), expected.to_vec().unwrap());
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

/// A column of some rows.
fn column(rows: usize) -> impl Strategy<Value = ArrayRef> {
    let text = prop_oneof!["[a-c]{0,3}", Just("507f1f77bcf86cd799439011".to_owned())];
    let number = prop_oneof![-3..3_i64, any::<i64>()];
    prop_oneof![
        vec(option::of(text), rows).prop_map(|v| Arc::new(StringArray::from(v)) as ArrayRef),
        vec(option::of(number), rows).prop_map(|v| Arc::new(Int64Array::from(v)) as ArrayRef),
        vec(option::of(any::<i16>()), rows).prop_map(|v| Arc::new(Int16Array::from(v)) as ArrayRef),
        vec(option::of(any::<bool>()), rows)
            .prop_map(|v| Arc::new(BooleanArray::from(v)) as ArrayRef),
        vec(option::of(any::<f64>()), rows)
            .prop_map(|v| Arc::new(Float64Array::from(v)) as ArrayRef),
        vec(option::of(any::<i32>().prop_map(i64::from)), rows).prop_map(times),
    ]
}

fn batches() -> impl Strategy<Value = RecordBatch> {
    let texts = |rows| vec(option::of("[a-z]{0,2}"), rows);
    let documents = prop_oneof![
        Just(doc! {}),
        Just(doc! { "b": [1_i64], "x.y": 2_i64 }),
        Just(doc! { "_id": 5_i64, "time": "x" }),
    ];
    let rows = 1..5_usize;
    rows.prop_flat_map(move |rows| {
        let names = subsequence(
            vec!["b", "host", "response_size", "site", "n.c", "n.d.e"],
            0..6,
        );
        let columns = vec(column(rows), 6);
        let own = (
            texts(rows),
            texts(rows),
            vec(option::of(documents.clone()), rows),
        );
        let time = vec(any::<i32>().prop_map(|us| Some(i64::from(us))), rows);
        (names, columns, own, time, any::<[bool; 3]>())
    })
    .prop_map(|(names, columns, (ids, sources, rests), time, has)| {
        let mut all: Vec<(&str, ArrayRef)> = vec![("time", times(time))];
        all.extend(names.into_iter().zip(columns));
        let own: [(&str, ArrayRef); 3] = [
            ("_id", Arc::new(StringArray::from(ids))),
            ("time_source", Arc::new(StringArray::from(sources))),
            ("_rest", rest(rests)),
        ];
        all.extend(
            own.into_iter()
                .zip(has)
                .filter(|(_, has)| *has)
                .map(|(own, _)| own),
        );
        let all = all.into_iter().map(|(name, array)| (name, array, true));
        RecordBatch::try_from_iter_with_nullable(all).unwrap()
    })
}

proptest! {
    #[test]
    fn encoded_documents_and_single_fields_are_those_of_the_document(
        batch in batches(), is_access in any::<bool>(),
    ) {
        let kind = if is_access { StreamKind::Access } else { StreamKind::Documents };
        let events = EventDocuments::new(&batch, kind).unwrap();
        for row in 0..events.len() {
            let document = events.document(row).unwrap();
            prop_assert_eq!(events.encoded(row).unwrap(), document.to_vec().unwrap());
            for name in ["_id", "time", "b", "host", "response_size", "site", "n", "none"] {
                let part = events.part(row, |wanted| wanted == name).unwrap();
                prop_assert_eq!(part.get(name).map(bits), document.get(name).map(bits));
                let place = events.field(name).filter(|_| !events.has_rest(row) && name != "_id");
                let value = match place {
                    None => continue,
                    Some(FieldPlace::Nowhere) => None,
                    Some(FieldPlace::At(place)) => events.value(place, row),
                };
                let value = value.map(|value| Bson::try_from(value).unwrap());
                prop_assert_eq!(value.as_ref().map(bits), document.get(name).map(bits));
            }
        }
    }
}

/// Returns a value in BSON: a NaN is not equal to itself.
fn bits(value: &Bson) -> Vec<u8> {
    doc! { "": value.clone() }.to_vec().unwrap()
}
