//! Names, types and JSON of the fields of a document.

use bson::{Bson, Document, doc};

use super::*;

fn document() -> Document {
    doc! {
        "a.b": 1_i64, "a": { "b": "nested" }, "": true, "list": [1_i64, [2_i64, { "x.y": 3_i64 }], {}, []],
        "none": {}, "null": [Bson::Null], "half": 0.5, "whole": 5.0, "minus": -0.0, "large": 1e300,
        "wide": "18446744073709551616".parse::<bson::Decimal128>().expect("a decimal"),
        "zeros": "1e39".parse::<bson::Decimal128>().expect("a decimal"),
        "when": bson::DateTime::from_millis(1_500), "text": "q\"\\\n\0\u{e9}",
    }
}

/// Returns the name, the type and the JSON of every leaf.
fn leaves() -> Vec<(String, &'static str, String)> {
    let raw = bson::RawDocumentBuf::try_from(&document()).expect("a document");
    let mut leaves = Vec::new();
    each_leaf(RawBsonRef::Document(&raw), None, &mut |name, value| {
        leaves.push((name.to_owned(), type_of(value), json_of(value)));
    });
    leaves
}

#[test]
fn everything_is_listed_with_its_type_and_every_digit() {
    let wanted = [
        ("a.b", "int64", "1"),
        ("a.b", "text", "\"nested\""),
        ("", "bool", "true"),
        ("list.0", "int64", "1"),
        ("list.1.0", "int64", "2"),
        ("list.1.1.x.y", "int64", "3"),
        ("list.2", "object", "{}"),
        ("list.3", "array", "[]"),
        ("none", "object", "{}"),
        ("null.0", "null", "null"),
        ("half", "float64", "0.5"),
        ("whole", "float64", "5.0"),
        ("minus", "float64", "-0.0"),
        ("large", "float64", "1e+300"),
        ("wide", "decimal", "18446744073709551616"),
        (
            "zeros",
            "decimal",
            "1000000000000000000000000000000000000000",
        ),
        ("when", "time", "\"1970-01-01T00:00:01.5Z\""),
        ("text", "text", "\"q\\\"\\\\\\n\\u0000\u{e9}\""),
    ];
    let found = leaves();
    for (found, (name, kind, json)) in found.iter().zip(wanted) {
        assert_eq!((found.0.as_str(), found.1), (name, kind));
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(parse(&found.2), parse(json), "{name}: {}", found.2);
        if kind == "decimal" {
            assert_eq!(found.2, json);
        }
    }
    assert_eq!(found.len(), wanted.len());
}

#[test]
fn every_listed_name_finds_its_value() {
    let raw = bson::RawDocumentBuf::try_from(&document()).expect("a document");
    for (name, kind, json) in leaves() {
        // The longest name takes precedence.
        let wanted = match (name.as_str(), kind) {
            ("a.b", "text") => "1".to_owned(),
            _ => json,
        };
        let found = lookup(&raw, &name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(json_of(found), wanted, "{name}");
    }
    for name in ["list.4", "list.x", "a.c", "list.1.1.x", "none.x", "half.x"] {
        assert!(lookup(&raw, name).is_none(), "{name}");
    }
}
