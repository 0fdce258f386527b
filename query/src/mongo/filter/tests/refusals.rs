//! Tests of filters that are refused, with MongoDB's codes.

use std::time::Instant;

use super::*;
use crate::mongo::error::QueryError;

fn refused(filter: &Document) -> QueryError {
    Filter::parse(filter).unwrap_err()
}

/// Checks the code of the refusal of each filter, and a part of its message.
fn check_refusals(cases: &[(Document, i32, &str)]) {
    for (filter, code, part) in cases {
        let error = refused(filter);
        assert_eq!(error.code, *code, "{filter}: {error}");
        assert!(error.message.contains(part), "{filter}: {error}");
    }
}

#[test]
fn logical_operators_need_lists_of_filters() {
    check_refusals(&[
        (doc! { "$foo": 1 }, 2, "unknown top level operator: $foo"),
        (
            doc! { "$not": { "a": 1 } },
            2,
            "unknown top level operator: $not",
        ),
        (doc! { "$and": [] }, 2, "at least one filter"),
        (doc! { "$and": 1 }, 2, "array of filters"),
        (doc! { "$or": [1] }, 2, "must be a filter"),
    ]);
}

#[test]
fn operators_of_a_field_need_fitting_operands() {
    check_refusals(&[
        (doc! { "a": { "$foo": 1 } }, 2, "unknown operator: $foo"),
        (doc! { "a": { "$gt": 1, "b": 1 } }, 2, "unknown operator: b"),
        (doc! { "a": { "$in": 1 } }, 2, "$in needs an array"),
        (doc! { "a": { "$nin": 1 } }, 2, "$nin needs an array"),
        (doc! { "a": { "$in": [{ "$gt": 1 }] } }, 2, "no operators"),
        (doc! { "a": { "$not": 1 } }, 2, "$not needs"),
        (doc! { "a": { "$not": {} } }, 2, "$not needs a condition"),
        (
            doc! { "a": { "$not": { "b": 1 } } },
            2,
            "unknown operator: b",
        ),
        (doc! { "a": { "$gt": regex("a") } }, 2, "'a' has no order"),
        (doc! { "a": { "$ne": regex("a") } }, 2, "$ne takes no"),
        (doc! { "a": Bson::Undefined }, 2, "undefined"),
        (doc! { "a": { "$all": 1 } }, 2, "$all needs an array"),
        (
            doc! { "a": { "$all": [{ "$gt": 1 }] } },
            2,
            "$elemMatch alone",
        ),
        (
            doc! { "a": { "$all": [{ "$elemMatch": {} }, 1] } },
            2,
            "either values",
        ),
        (doc! { "a": { "$elemMatch": 1 } }, 2, "needs a document"),
    ]);
}

#[test]
fn expressions_must_take_linear_time_and_bounded_memory() {
    check_refusals(&[
        (doc! { "a": { "$options": "i" } }, 2, "no $regex beside"),
        (doc! { "a": { "$regex": 1 } }, 2, "$regex needs"),
        (
            doc! { "a": { "$regex": "a", "$options": 1 } },
            2,
            "$options needs",
        ),
        (doc! { "a": { "$regex": "a\0" } }, 2, "NUL"),
        (doc! { "a": { "$regex": "(?=x)" } }, 51091, "look-around"),
        (
            doc! { "a": { "$regex": r"(a)\1" } },
            51091,
            "back-references",
        ),
        (
            doc! { "a": { "$regex": r"(\w{500}){500}" } },
            51091,
            "more than",
        ),
        (
            doc! { "a": { "$regex": "x", "$options": "q" } },
            51108,
            "unknown option",
        ),
    ]);
}

#[test]
fn types_sizes_and_remainders_are_checked() {
    check_refusals(&[
        (doc! { "a": { "$type": "text" } }, 2, "the type 'text'"),
        (doc! { "a": { "$type": 99 } }, 2, "the type number 99"),
        (doc! { "a": { "$type": [] } }, 9, "needs a type"),
        (doc! { "a": { "$type": true } }, 14, "names and numbers"),
        (doc! { "a": { "$size": -1 } }, 2, "from 0 on"),
        (doc! { "a": { "$size": 1.5 } }, 2, "from 0 on"),
        (doc! { "a": { "$size": "1" } }, 2, "from 0 on"),
        (doc! { "a": { "$mod": 1 } }, 2, "needs an array"),
        (doc! { "a": { "$mod": [1] } }, 2, "needs an array"),
        (doc! { "a": { "$mod": [1, 2, 3] } }, 2, "needs an array"),
        (doc! { "a": { "$mod": [0, 1] } }, 2, "divide by 0"),
        (doc! { "a": { "$mod": ["x", 1] } }, 2, "needs an array"),
        (doc! { "a": { "$mod": [f64::NAN, 1] } }, 2, "needs an array"),
    ]);
}

#[test]
fn an_operator_that_is_not_supported_comes_with_a_hint() {
    check_refusals(&[
        (doc! { "$where": "1" }, 115, "$where"),
        (doc! { "$text": {} }, 115, "$regex"),
        (doc! { "$jsonSchema": {} }, 115, "$exists"),
        (doc! { "a": { "$near": [1, 1] } }, 115, "coordinates"),
    ]);
}

#[test]
fn a_reference_to_a_document_is_a_value() {
    let reference = doc! { "$ref": "c", "$id": 1 };
    let filter = doc! { "a": reference.clone() };
    assert!(matches(&filter, &doc! { "a": reference }));
}

#[test]
fn depth_and_number_of_conditions_are_bounded() {
    let and =
        |levels: usize| (0..levels).fold(doc! { "a": 1 }, |inside, _| doc! { "$and": [inside] });
    let not = |levels: usize| {
        let inside = (0..levels).fold(doc! { "$eq": 1 }, |inside, _| doc! { "$not": inside });
        doc! { "a": inside }
    };
    let element = |levels: usize| {
        let innermost = doc! { "a": 1 };
        (0..levels).fold(
            innermost,
            |inside, _| doc! { "a": { "$elemMatch": inside } },
        )
    };
    let value = |levels: usize| doc! { "a": (0..levels).fold(Bson::Null, |v, _| vec![v].into()) };
    assert!(matches(&and(90), &doc! { "a": 1 }));
    assert!(matches(&not(90), &doc! { "a": 1 }));
    for filter in [and(10_000), not(10_000), element(10_000), value(10_000)] {
        let error = refused(&filter);
        assert!(error.message.contains("100 levels"), "{error}");
        // The drop of so deep a document is the test's own, and would exhaust the stack.
        std::mem::forget(filter);
    }
    let patterns = vec![regex("a"); PATTERNS_MAX + 1];
    let error = refused(&doc! { "a": { "$in": patterns } });
    assert!(error.message.contains("regular expressions"));
    let many = vec![doc! { "a": 1 }; CONDITIONS_MAX];
    assert!(
        refused(&doc! { "$or": many })
            .message
            .contains("conditions")
    );
}

#[test]
fn a_match_that_takes_too_long_ends() {
    let mut context = ExpressionContext::new(DateTime::MIN);
    let text = "a".repeat(16 << 20);
    let document = doc! { "a": [1, 2, 3], "t": &text };
    let regex = doc! { "t": { "$regex": "(a?){900}b" } };
    let matches = |filter: &Document, context: &ExpressionContext| {
        Filter::parse(filter).unwrap().matches(&document, context)
    };
    assert_eq!(matches(&regex, &context).unwrap_err().code, 51156);
    context.deadline = Some(Instant::now());
    for filter in [
        doc! { "a": 1 },
        doc! { "a": { "$not": { "$gt": 0 } } },
        doc! { "a": { "$elemMatch": { "$gt": 5 } } },
        doc! { "$nor": [{ "a": 7 }, { "b": null }] },
    ] {
        assert_eq!(matches(&filter, &context).unwrap_err().code, 50, "{filter}");
    }
}
