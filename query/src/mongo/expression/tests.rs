//! Tables of expressions. The expectations are those of the pages of MongoDB's manual that are
//! named above each table: "Aggregation Operators", one page per operator.

mod arithmetic;
mod arrays;
mod bounds;
mod control;
mod conversion;
mod dates;
mod manual;
mod nulls;
mod random;
mod strings;

use bson::{Bson, DateTime, Document, oid::ObjectId};

use super::{DateGrain, Evaluated, Expression, ExpressionContext, ExpressionScope, FieldUses};
use crate::mongo::error::Result;

/// Returns the value of extended JSON.
fn json(text: &str) -> Bson {
    let json: serde_json::Value = serde_json::from_str(text).expect(text);
    Bson::try_from(json).expect(text)
}

/// Returns the document that the tables are evaluated with.
fn document() -> Document {
    let mut document = json(
        r#"{
            "i": 7, "zero": 0, "neg": -3, "d": 2.5, "l": {"$numberLong": "5000000000"},
            "dec": {"$numberDecimal": "1.5"}, "t": true, "f": false, "n": null,
            "s": "Hello", "e": "", "u": "é日本", "a": [1, 2, 3], "ea": [], "m": [1, "a", null],
            "docs": [{"x": 1}, {"x": [2]}, {"y": 3}, 4, [{"x": 5}]],
            "o": {"x": 1, "p": {"q": "deep"}}, "0": "zero",
            "date": {"$date": "2000-10-10T20:55:36.123Z"},
            "ts": {"$timestamp": {"t": 971211336, "i": 1}},
            "r": {"$regularExpression": {"pattern": "^h", "options": "i"}}
        }"#,
    );
    let document = document.as_document_mut().unwrap();
    let id = ObjectId::from_bytes([0x39, 0xe3, 0x82, 0x88, 0, 0, 0, 0, 0, 0, 0, 1]);
    document.insert("id", id);
    document.clone()
}

fn evaluate(expression: &Bson, document: &Document) -> Result<Evaluated> {
    let now = DateTime::from_millis(1_000);
    let expression = Expression::parse(expression, &ExpressionScope::default())?;
    ExpressionContext::new(now).evaluate(&expression, document)
}

/// Checks lines of `expression => expected`. The expected is a value of the same type, `missing`,
/// or `error` with its code. A line goes on in the lines that are indented more than the first.
fn check(table: &str) {
    let document = document();
    let mut lines: Vec<String> = Vec::new();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let base = table
        .lines()
        .find(|line| !line.trim().is_empty())
        .map(indent);
    for line in table.lines().filter(|line| !line.trim().is_empty()) {
        match lines.last_mut() {
            Some(before) if Some(indent(line)) > base => {
                before.push(' ');
                before.push_str(line.trim());
            }
            _ => lines.push(line.trim().to_owned()),
        }
    }
    for line in &lines {
        let (expression, expected) = line.split_once(" => ").expect(line);
        let value = evaluate(&json(expression), &document);
        match (value, expected) {
            (Ok(None), "missing") => {}
            (Err(error), expected) if expected.starts_with("error ") => {
                assert_eq!(format!("error {}", error.code), expected, "{line}: {error}");
            }
            (Ok(Some(value)), expected) if !expected.starts_with("error ") => {
                // NaN is not equal to itself.
                assert_eq!(
                    format!("{value:?}"),
                    format!("{:?}", json(expected)),
                    "{line}"
                );
            }
            (other, _) => panic!("{line}: {other:?}"),
        }
    }
}

#[test]
fn paths_and_variables() {
    // "Field Paths", "ExpressionVariables in Aggregation Expressions".
    check(
        r#"
        "$i" => 7
        "$missing" => missing
        "$o.x" => 1
        "$o.p.q" => "deep"
        "$o.p.q.r" => missing
        "$i.x" => missing
        "$docs.x" => [1, [2]]
        "$docs.y" => [3]
        "$a.x" => []
        "$a.0" => []
        "$0" => "zero"
        "$ea.x" => []
        "$$ROOT.o.x" => 1
        "$$CURRENT.i" => 7
        "$$NOW" => {"$date": {"$numberLong": "1000"}}
        "$$REMOVE" => missing
        "text" => "text"
        {"$literal": "$i"} => "$i"
        {"$literal": {"$add": [1]}} => {"$add": [1]}
        {"$const": 1} => 1
        {"v": "$i", "w": "$missing", "x": {"y": ["$s", "$missing"]}} => {"v": 7, "x": {"y":
            ["Hello", null]}}
        {} => {}
        [] => []
        "$" => error 16872
        "$$" => error 9
        "$a..b" => error 15998
        "$a." => error 40353
        "$a.$b" => error 16410
        "$$unknown" => error 17276
        "$$Unknown.x" => error 17276
        {"$foo": 1} => error 168
        {"$add": [1], "x": 1} => error 15983
        {"x": 1, "$add": [1]} => error 16410
        {"a.b": 1} => error 16412
        {"$subtract": [1]} => error 16020
        {"$subtract": [1, 2, 3]} => error 16020
        {"$round": []} => error 28667
        {"$ifNull": [1]} => error 28667
        "#,
    );
}

#[test]
fn comparisons() {
    // "$cmp", "$eq", …, "Comparison/Sort Order".
    check(
        r#"
        {"$cmp": [1, 2]} => -1
        {"$cmp": [2, 1.5]} => 1
        {"$cmp": [2, {"$numberDecimal": "2.0"}]} => 0
        {"$cmp": ["$missing", null]} => -1
        {"$cmp": ["$missing", "$missing"]} => 0
        {"$cmp": ["$s", 10]} => 1
        {"$eq": ["$n", "$missing"]} => false
        {"$eq": [1, {"$numberLong": "1"}]} => true
        {"$ne": ["$n", "$missing"]} => true
        {"$gt": ["$n", "$missing"]} => true
        {"$gte": [[1, 2], [1, 2]]} => true
        {"$lt": [[1, 2], [1, 3]]} => true
        {"$lte": ["$s", "Hello"]} => true
        {"$gt": ["$missing", null]} => false
        {"$lt": ["$missing", null]} => true
        {"$gt": ["$date", "$i"]} => true
        "#,
    );
}

#[test]
fn fields_are_read_no_more_exactly_than_needed() {
    let uses = |text: &str| {
        let mut uses = FieldUses::default();
        let expression = Expression::parse(&json(text), &ExpressionScope::default()).unwrap();
        expression.add_uses(&mut uses);
        let fields = uses.fields()?.iter();
        Some(
            fields
                .map(|(path, grain)| (path.clone(), *grain))
                .collect::<Vec<_>>(),
        )
    };
    for (text, path, grain) in [
        (r#""$a.b""#, "a.b", DateGrain::Exact),
        (r#"{"$add": [1, "$t"]}"#, "t", DateGrain::Exact),
        (
            r#"{"y": {"$year": "$t"}, "h": {"$hour": "$t"}}"#,
            "t",
            DateGrain::Hour,
        ),
        (
            r#"[{"$dayOfYear": "$t"}, {"$isoWeek": {"date": "$t"}}]"#,
            "t",
            DateGrain::Day,
        ),
        (r#"[{"$dayOfYear": "$t"}, "$t"]"#, "t", DateGrain::Exact),
        (
            r#"{"$year": {"date": "$t", "timezone": "Europe/Berlin"}}"#,
            "t",
            DateGrain::Exact,
        ),
        (
            r#"{"$dateTrunc": {"date": "$t", "unit": "week"}}"#,
            "t",
            DateGrain::Day,
        ),
        (
            r#"{"$dateTrunc": {"date": "$t", "unit": "minute", "binSize": 5}}"#,
            "t",
            DateGrain::Minute,
        ),
        (
            r#"{"$dateTrunc": {"date": "$t", "unit": "day", "timezone": "Asia/Tokyo"}}"#,
            "t",
            DateGrain::Exact,
        ),
    ] {
        assert_eq!(uses(text), Some(vec![(path.to_owned(), grain)]), "{text}");
    }
    assert_eq!(uses("5"), Some(Vec::new()));
    assert_eq!(uses(r#""$$ROOT""#), None);
    let map = r#"{"$map": {"input": "$a", "in": {"$cond": [{"$year": "$t"}, "$$this", "$b"]}}}"#;
    let [a, b, t] = ["a", "b", "t"].map(str::to_owned);
    let expected = [
        (a, DateGrain::Exact),
        (b, DateGrain::Exact),
        (t, DateGrain::Day),
    ];
    assert_eq!(uses(map), Some(expected.to_vec()));
    assert_eq!(uses(r#"{"$cond": [true, "$$ROOT", 1]}"#), None);
}
