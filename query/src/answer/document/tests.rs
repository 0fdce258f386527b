//! Rows as BSON.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, Int16Array, Int64Array, RecordBatch, StringArray, StringViewArray,
    StructArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow::datatypes::{Field, Schema};
use bson::{DateTime, doc, oid::ObjectId};

use super::{document, documents};

fn text(value: Option<&str>) -> ArrayRef {
    Arc::new(StringViewArray::from(vec![value]))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        columns.into_iter().map(|(_, array)| array).collect(),
    )
    .expect("columns fit")
}

fn example() -> RecordBatch {
    batch(vec![
        ("_id", text(Some("39e382db0102000000000007"))),
        ("host", text(Some("127.0.0.1"))),
        ("logname", text(None)),
        ("user", text(Some("frank"))),
        (
            "time",
            Arc::new(
                TimestampMicrosecondArray::from(vec![971_211_336_000_000]).with_timezone("UTC"),
            ),
        ),
        ("method", text(Some("GET"))),
        ("path", text(Some("/apache_pb.gif"))),
        ("query", text(None)),
        ("protocol", text(Some("HTTP/1.0"))),
        ("request", text(Some("GET /apache_pb.gif HTTP/1.0"))),
        ("status", Arc::new(Int16Array::from(vec![200]))),
        ("response_size", Arc::new(Int64Array::from(vec![2326]))),
        ("referrer", text(Some("http://www.example.com/start.html"))),
        (
            "user_agent",
            text(Some("Mozilla/4.08 [en] (Win98; I ;Nav)")),
        ),
        ("site", text(None)),
        ("extra", text(None)),
    ])
}

/// Appends an element of a BSON document: type, name, value (bsonspec.org, version 1.1).
fn element(kind: u8, name: &str, value: &[u8], to: &mut Vec<u8>) {
    to.push(kind);
    to.extend_from_slice(name.as_bytes());
    to.push(0);
    to.extend_from_slice(value);
}

fn string(name: &str, value: &str, to: &mut Vec<u8>) {
    let length = i32::try_from(value.len() + 1).expect("short");
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend_from_slice(value.as_bytes());
    bytes.push(0);
    element(2, name, &bytes, to);
}

#[test]
fn the_example_line_is_these_bytes() {
    let mut fields = Vec::new();
    element(
        7,
        "_id",
        &[0x39, 0xe3, 0x82, 0xdb, 1, 2, 0, 0, 0, 0, 0, 7],
        &mut fields,
    );
    string("host", "127.0.0.1", &mut fields);
    element(10, "logname", &[], &mut fields);
    string("user", "frank", &mut fields);
    element(9, "time", &971_211_336_000_i64.to_le_bytes(), &mut fields);
    string("method", "GET", &mut fields);
    string("path", "/apache_pb.gif", &mut fields);
    element(10, "query", &[], &mut fields);
    string("protocol", "HTTP/1.0", &mut fields);
    string("request", "GET /apache_pb.gif HTTP/1.0", &mut fields);
    element(16, "status", &200_i32.to_le_bytes(), &mut fields);
    element(18, "response_size", &2326_i64.to_le_bytes(), &mut fields);
    string("referrer", "http://www.example.com/start.html", &mut fields);
    string(
        "user_agent",
        "Mozilla/4.08 [en] (Win98; I ;Nav)",
        &mut fields,
    );
    let length = i32::try_from(fields.len() + 5).expect("short");
    let expected = [length.to_le_bytes().as_slice(), &fields, &[0]].concat();
    let found = documents(&example())
        .expect("BSON")
        .remove(0)
        .to_vec()
        .expect("bytes");
    assert_eq!(found, expected);
    assert_eq!(
        document(&example(), 0)
            .expect("BSON")
            .to_vec()
            .expect("bytes"),
        expected
    );
}

#[test]
fn site_and_extra_are_there_when_they_have_a_value() {
    let row = batch(vec![
        ("site", text(Some("example.com"))),
        ("extra", text(None)),
        ("path", text(None)),
    ]);
    assert_eq!(
        documents(&row).expect("BSON"),
        [doc! { "site": "example.com", "path": null }]
    );
}

#[test]
fn an_id_of_another_form_and_overflow_fields_keep_their_types() {
    let rest = doc! { "n": 5_i32, "when": DateTime::from_millis(7), "in": { "ner": [true] } };
    let row = batch(vec![
        ("_id", text(Some("client's own"))),
        (
            "time",
            Arc::new(TimestampMicrosecondArray::from(vec![-1]).with_timezone("UTC")),
        ),
        (
            "_rest",
            Arc::new(BinaryArray::from(vec![
                rest.to_vec().expect("bytes").as_slice(),
            ])),
        ),
        ("_seq", Arc::new(UInt64Array::from(vec![9]))),
    ]);
    let expected = doc! {
        "_id": "client's own", "time": DateTime::from_millis(-1), "n": 5_i32, "when": DateTime::from_millis(7),
        "in": { "ner": [true] },
    };
    assert_eq!(documents(&row).expect("BSON"), [expected]);
    let hex = batch(vec![("_id", text(Some("39e382db0102000000000007")))]);
    let id = ObjectId::parse_str("39e382db0102000000000007").expect("hex");
    assert_eq!(documents(&hex).expect("BSON"), [doc! { "_id": id }]);
}

fn structure(members: Vec<(&str, ArrayRef)>) -> ArrayRef {
    let members = batch(members);
    Arc::new(StructArray::from(members))
}

#[test]
fn structs_are_documents_in_documents() {
    let date = TimestampMicrosecondArray::from(vec![971_136_000_000_000]).with_timezone("UTC");
    let one = |n: i64| -> ArrayRef { Arc::new(Int64Array::from(vec![n])) };
    let row = batch(vec![
        ("_id", text(Some("20001010/-//a"))),
        (
            "metadata",
            structure(vec![
                ("date", Arc::new(date)),
                ("site", text(None)),
                ("path", Arc::new(StringArray::from(vec!["/a"]))),
            ]),
        ),
        (
            "minute",
            structure(vec![("0", structure(vec![("0", one(0)), ("1", one(3))]))]),
        ),
    ]);
    let expected = doc! {
        "_id": "20001010/-//a",
        "metadata": { "date": DateTime::from_millis(971_136_000_000), "site": null, "path": "/a" },
        "minute": { "0": { "0": 0_i64, "1": 3_i64 } },
    };
    assert_eq!(documents(&row).expect("BSON"), [expected]);
}
