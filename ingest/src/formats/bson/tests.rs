//! Tests of BSON documents as events.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type, TimestampMicrosecondType};
use bson::oid::ObjectId;
use bson::{Bson, DateTime, Decimal128, Document, doc};
use storage::{ID, REST, TIME, TIME_SOURCE};

use crate::{Format, ParseOptions, Parsed, Parser, Records};

/// 27 November 2026, 00:00 UTC.
const NOW_MS: i64 = 1_795_737_600_000;

fn parse(documents: &[Vec<u8>]) -> Parsed {
    let mut records = Records::default();
    documents.iter().for_each(|document| records.push(document));
    let options = ParseOptions {
        format: Format::Bson,
        received_us: NOW_MS * 1000,
        ..ParseOptions::default()
    };
    let items = records.items(NOW_MS * 1000);
    Parser::new(options).parse_items(items).unwrap()
}

fn events(documents: &[Document]) -> RecordBatch {
    let bytes: Vec<Vec<u8>> = documents.iter().map(|d| d.to_vec().unwrap()).collect();
    let parsed = parse(&bytes);
    assert!(parsed.quarantine.is_empty(), "{:?}", parsed.quarantine);
    parsed.events
}

fn text<'a>(events: &'a RecordBatch, column: &str, row: usize) -> Option<&'a str> {
    let column = events.column_by_name(column)?.as_string::<i32>();
    column.is_valid(row).then(|| column.value(row))
}

fn time_ms(events: &RecordBatch, column: &str, row: usize) -> i64 {
    let column = events[column].as_primitive::<TimestampMicrosecondType>();
    column.value(row) / 1000
}

fn rest(events: &RecordBatch, row: usize) -> Document {
    let Some(column) = events.column_by_name(REST) else {
        return Document::new();
    };
    let column = column.as_binary::<i32>();
    match column.is_valid(row) {
        true => Document::from_reader(column.value(row)).unwrap(),
        false => Document::new(),
    }
}

#[test]
fn scalars_become_columns_and_all_else_keeps_its_type() {
    let id = ObjectId::parse_str("507f1f77bcf86cd799439011").unwrap();
    let price: Decimal128 = "19.90".parse().unwrap();
    let date = DateTime::from_millis(NOW_MS - 1);
    let events = events(&[doc! {
        "_id": id, "time": date, "seen": date, "n": 5_i32, "long": 1_i64 << 40, "share": 0.5,
        "ok": true, "a": { "b": "x", "none": {} }, "list": [1_i32, { "y": null }], "price": price,
        "nothing": null, "nan": f64::INFINITY, "far": DateTime::MAX,
    }]);
    assert_eq!(text(&events, ID, 0), Some("507f1f77bcf86cd799439011"));
    assert_eq!(time_ms(&events, TIME, 0), NOW_MS - 1);
    assert_eq!(time_ms(&events, "seen", 0), NOW_MS - 1);
    assert_eq!(events["n"].as_primitive::<Int64Type>().value(0), 5);
    assert_eq!(events["share"].as_primitive::<Float64Type>().value(0), 0.5);
    assert_eq!(text(&events, "a.b", 0), Some("x"));
    assert_eq!(
        rest(&events, 0),
        doc! {
            "a.none": {}, "list": [1_i32, { "y": null }], "price": price, "nothing": null,
            "nan": f64::INFINITY, "far": DateTime::MAX,
        }
    );
    assert!(events.column_by_name(TIME_SOURCE).is_none());
}

#[test]
fn the_source_of_a_time_names_the_field_that_has_it() {
    let date = DateTime::from_millis(NOW_MS);
    let id = ObjectId::from_parts(1_700_000_000, [0; 5], [0; 3]);
    let events = events(&[
        doc! { "ts": date },
        doc! { "time": 1_700_000_000_i64 },
        doc! { "_id": id },
        doc! { "time": date },
        doc! {},
    ]);
    let sources: Vec<_> = (0..5).map(|row| text(&events, TIME_SOURCE, row)).collect();
    let expected = [
        Some("ts"),
        Some("time"),
        Some("objectid"),
        None,
        Some("received"),
    ];
    assert_eq!(sources, expected);
    assert_eq!(time_ms(&events, "ts", 0), NOW_MS);
    // A number that is read as a time stays a number.
    assert_eq!(rest(&events, 1), doc! { "time": 1_700_000_000_i64 });
    assert_eq!(time_ms(&events, TIME, 1), 1_700_000_000_000);
    assert_eq!(time_ms(&events, TIME, 2), 1_700_000_000_000);
}

#[test]
fn an_id_that_the_column_does_not_tell_from_others_is_kept_beside_it() {
    let hex = "507f1f77bcf86cd799439011";
    let ids = [
        Bson::from("20001010/site-1/a"),
        Bson::from(hex),
        Bson::from(7_i32),
        Bson::from(doc! { "u": "rick" }),
    ];
    let documents: Vec<Document> = ids.iter().map(|id| doc! { "_id": id.clone() }).collect();
    let events = events(&documents);
    assert_eq!(text(&events, ID, 0), Some("20001010/site-1/a"));
    for row in 1..4 {
        assert_eq!(text(&events, ID, row), None, "{row}");
    }
    assert_eq!(rest(&events, 1), doc! { "_id": hex });
    assert_eq!(rest(&events, 2), doc! { "_id": 7_i64 });
    assert_eq!(rest(&events, 3), doc! { "_id.u": "rick" });
}

#[test]
fn documents_that_are_none_are_quarantined() {
    // Written byte by byte: the encoder of the crate would need a deep stack.
    let deep = |levels: usize, array: bool| {
        let (kind, name) = if array { (4, "0") } else { (3, "a") };
        let mut bytes = doc! { name: 1_i32 }.to_vec().unwrap();
        for level in 0..levels {
            let (kind, name) = if level + 1 == levels {
                (kind, "a")
            } else {
                (kind, name)
            };
            let length = i32::try_from(bytes.len() + 8).unwrap();
            let head = [&length.to_le_bytes()[..], &[kind], name.as_bytes(), &[0]].concat();
            bytes = [head, bytes, vec![0]].concat();
        }
        bytes
    };
    let whole = doc! { "a": "text" }.to_vec().unwrap();
    let mut cut = whole.clone();
    cut.pop();
    let mut wrong_text = whole.clone();
    let at = whole.windows(4).position(|w| w == b"text").unwrap();
    wrong_text[at] = 0xff;
    let cases: [(Vec<u8>, &str); 6] = [
        (deep(100, false), "too_deep"),
        (deep(100, true), "too_deep"),
        (deep(2_000, true), "too_deep"),
        (cut, "bad_bson"),
        (wrong_text, "bad_bson"),
        (Vec::new(), "bad_bson"),
    ];
    for (bytes, reason) in cases {
        let length = bytes.len();
        let parsed = parse(&[bytes.clone(), whole.clone()]);
        assert_eq!(parsed.events.num_rows(), 1, "{length} bytes");
        assert_eq!(parsed.quarantine[0].reason, reason, "{length} bytes");
        assert_eq!(parsed.quarantine[0].raw, bytes);
    }
    assert_eq!(
        parse(&[deep(99, false), deep(99, true)]).events.num_rows(),
        2
    );
}
