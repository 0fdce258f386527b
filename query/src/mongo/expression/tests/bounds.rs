//! Bounds on expressions and on their values.

use std::time::{Duration, Instant};

use bson::{Bson, DateTime, Document, bson, doc};

use super::{document, evaluate, json};
use crate::mongo::expression::{Expression, ExpressionContext, ExpressionScope};
use crate::mongo::size::VALUE_BYTES_MAX as BYTES_MAX;

/// Returns `{op: [{op: [… inside …]}]}` of so many levels.
fn nested(operator: &str, inside: Bson, levels: usize) -> Bson {
    (0..levels).fold(inside, |inside, _| bson!({ operator: [inside] }))
}

#[test]
fn an_expression_has_few_levels() {
    let document = Document::new();
    assert!(evaluate(&nested("$not", true.into(), 49), &document).is_ok());
    let error = evaluate(&nested("$not", true.into(), 5_000), &document).unwrap_err();
    assert_eq!(error.code, 9);
}

#[test]
fn an_expression_has_few_nodes() {
    let many = Bson::Array(vec![Bson::Int32(1); 100_001]);
    let error = evaluate(&many, &Document::new()).unwrap_err();
    assert_eq!(error.code, 9);
}

#[test]
fn a_value_has_few_bytes() {
    let long = "x".repeat(BYTES_MAX / 2);
    let document = doc! { "long": &long };
    for expression in [
        r#"{"$concat": ["$long", "$long", "$long"]}"#,
        r#"["$long", "$long", "$long"]"#,
        r#"{"a": "$long", "b": "$long", "c": "$long"}"#,
        r#"{"$map": {"input": {"$range": [0, 1000]}, "in": "$long"}}"#,
        r#"{"$concatArrays": [["$long"], ["$long"], ["$long"]]}"#,
        r#"{"$reduce": {"input": [1, 2, 3], "initialValue": "x",
            "in": {"$concat": ["$$value", "$long"]}}}"#,
    ] {
        let error = evaluate(&json(expression), &document).unwrap_err();
        assert_eq!(error.code, 17419, "{expression}");
    }
}

#[test]
fn arrays_cannot_double_without_end() {
    let double = |inside: Bson| {
        bson!({ "$let": {
            "vars": { "v": { "$concatArrays": ["$$v", "$$v"] } },
            "in": inside,
        } })
    };
    let mut inside = Bson::from("$$v");
    for _ in 0..40 {
        inside = double(inside);
    }
    let expression = bson!({ "$let": { "vars": { "v": [1, 2] }, "in": inside } });
    let error = evaluate(&expression, &Document::new()).unwrap_err();
    assert_eq!(error.code, 17419);
}

#[test]
fn a_value_has_few_levels() {
    let deep =
        r#"{"$reduce": {"input": {"$range": [0, 1000]}, "initialValue": [], "in": ["$$value"]}}"#;
    assert_eq!(evaluate(&json(deep), &document()).unwrap_err().code, 15);
}

#[test]
fn loops_end_at_the_deadline() {
    let mut inside = Bson::from(1);
    for _ in 0..8 {
        inside = bson!({ "$map": { "input": { "$range": [0, 100_000] }, "in": inside } });
    }
    let expression = Expression::parse(&inside, &ExpressionScope::default()).unwrap();
    let document = Document::new();
    let mut context = ExpressionContext::new(DateTime::from_millis(0));
    context.deadline = Some(Instant::now() + Duration::from_millis(20));
    let error = context.evaluate(&expression, &document);
    assert_eq!(error.unwrap_err().code, 50);
}

#[test]
fn values_of_all_levels_are_bounded_together() {
    let mut inside = Bson::from(1);
    for level in 0..40 {
        let name = format!("v{level}");
        inside = bson!({ "$let": { "vars": { name: { "$range": [0, 900_000] } }, "in": inside } });
    }
    let error = evaluate(&inside, &Document::new()).unwrap_err();
    assert_eq!(error.code, 17419);
}

#[test]
fn an_expression_has_few_patterns() {
    let pattern = bson!({ "$regexMatch": { "input": "a", "regex": "a" } });
    let error = evaluate(&Bson::Array(vec![pattern; 257]), &Document::new()).unwrap_err();
    assert_eq!(error.code, 9);
}

#[test]
fn searches_in_a_text_end_at_the_deadline() {
    let find = json(r#"{"$regexFindAll": {"input": "$s", "regex": "a.*b|a"}}"#);
    let find = Expression::parse(&find, &ExpressionScope::default()).unwrap();
    let mut context = ExpressionContext::new(DateTime::from_millis(0));
    context.deadline = Some(Instant::now() + Duration::from_millis(20));
    let error = context.evaluate(&find, &doc! { "s": "a".repeat(100_000) });
    assert_eq!(error.unwrap_err().code, 50);
    assert!(Instant::now() < context.deadline.unwrap() + Duration::from_secs(5));
}
