use serde_json::json;

use crate::Format;
use crate::formats::documents::testing::{options, parsed, refusal};

fn events(format: Format, text: &str) -> Vec<serde_json::Value> {
    let (events, bad) = parsed(options(format), text.as_bytes());
    assert!(bad.is_empty(), "{bad:?}");
    events
}

#[test]
fn values_have_the_type_of_their_text() {
    let text = "time,n,share,ok,text,code,none\n\
        2026-11-26T09:00:00+01:00,-7,0.25,true,\"a, \"\"b\"\"\",007,\n\
        1700000000.5,8,1,false,c,008,\"\"\n";
    assert_eq!(
        events(Format::Csv, text),
        [
            json!({ "time": "2026-11-26T08:00:00Z", "n": -7, "share": 0.25, "ok": true,
                "text": "a, \"b\"", "code": "007" }),
            json!({ "time": "2023-11-14T22:13:20.500000Z", "n": 8, "share": 1.0, "ok": false,
                "text": "c", "code": "008" }),
        ]
    );
}

#[test]
fn a_value_of_another_type_is_kept() {
    let text = "ts,n\n1700000000,1\n1700000001,one\n";
    let rows = events(Format::Csv, text);
    assert_eq!(rows[1]["_rest"], json!({ "n": "one" }));
    assert_eq!(rows[1]["time"], "2023-11-14T22:13:21Z");
}

#[test]
fn tsv_has_no_quotes() {
    let rows = events(Format::Tsv, "ts\ta\tb c\n1\t\"x\t'y, z'\n");
    assert_eq!(
        rows,
        [json!({ "time": "1970-01-01T00:00:01Z", "ts": 1, "a": "\"x", "b c": "'y, z'" })]
    );
}

#[test]
fn columns_have_distinct_names() {
    let rows = events(Format::Csv, "a, a ,,a.b,a_2\n1,2,3,4,5\n");
    let mut row = rows[0].clone();
    row.as_object_mut()
        .unwrap()
        .retain(|name, _| !name.starts_with("time"));
    assert_eq!(
        row,
        json!({ "a": 1, "a_2": 2, "column_3": 3, "a.b": 4, "a_2_2": 5 })
    );
}

#[test]
fn lines_of_other_lengths_are_quarantined() {
    let format = || "csv:a,b".parse::<Format>().unwrap();
    for (line, expected) in [
        (
            "1",
            "field_count: column 1: the line has 1 fields, and its header names 2",
        ),
        (
            "1,2,3",
            "field_count: column 1: the line has 3 fields, and its header names 2",
        ),
        (
            "1,\"2",
            "open_quote: column 5: a quote is open at the end of the line; a record is one line here",
        ),
    ] {
        assert_eq!(refusal(format(), line), expected);
    }
    // A CR within a line is part of its value.
    let (events, bad) = parsed(options(format()), b"x\ry,\"1\"\r\n");
    assert!(bad.is_empty());
    assert_eq!(
        (&events[0]["a"], &events[0]["b"]),
        (&json!("x\ry"), &json!(1))
    );
}
