//! Tests of filters against the rules of MongoDB's manual, whose pages the tests name.

mod arrays;
mod expressions;
mod properties;
mod refusals;
mod types;

use bson::{Bson, DateTime, Document, doc};

use super::*;

fn matches(filter: &Document, document: &Document) -> bool {
    met(&Filter::parse(filter).unwrap(), document)
}

/// Returns whether a filter that cannot fail matches.
fn met(filter: &Filter, document: &Document) -> bool {
    let context = ExpressionContext::new(DateTime::from_millis(0));
    filter.matches(document, &context).unwrap()
}

/// Checks a filter against documents, each with whether it matches.
fn check(filter: &Document, cases: &[(Document, bool)]) {
    let parsed = Filter::parse(filter).unwrap();
    for (document, expected) in cases {
        let found = met(&parsed, document);
        assert_eq!(found, *expected, "{filter} on {document}");
    }
}

/// "Query for Null or Missing Fields"
#[test]
fn null_is_equal_to_a_missing_field() {
    let documents = [
        doc! {},
        doc! { "a": null },
        doc! { "a": 1 },
        doc! { "a": [] },
    ];
    for (condition, expected) in [
        (doc! { "$eq": null }, [true, true, false, false]),
        (doc! { "$ne": null }, [false, false, true, true]),
        (doc! { "$gte": null }, [true, true, false, false]),
        (doc! { "$lte": null }, [true, true, false, false]),
        (doc! { "$gt": null }, [false; 4]),
        (doc! { "$lt": null }, [false; 4]),
        (doc! { "$in": [null, 5] }, [true, true, false, false]),
        (doc! { "$nin": [null, 5] }, [false, false, true, true]),
        (doc! { "$exists": true }, [false, true, true, true]),
        (doc! { "$exists": 0 }, [true, false, false, false]),
        (doc! { "$exists": null }, [true, false, false, false]),
        (doc! { "$type": "null" }, [false, true, false, false]),
        (doc! { "$all": [null] }, [true, true, false, false]),
        (doc! { "$not": { "$gt": 0 } }, [true, true, false, true]),
        (doc! { "$not": { "$eq": null } }, [false, false, true, true]),
        (doc! { "$mod": [2, 1] }, [false, false, true, false]),
        (doc! { "$size": 0 }, [false, false, false, true]),
        (doc! { "$gt": Bson::MinKey }, [true; 4]),
        (doc! { "$lte": Bson::MaxKey }, [true; 4]),
        (doc! { "$lt": Bson::MinKey }, [false; 4]),
        (doc! { "$eq": Bson::MaxKey }, [false; 4]),
    ] {
        let filter = doc! { "a": condition };
        let found = documents.each_ref().map(|d| matches(&filter, d));
        assert_eq!(found, expected, "{filter}");
    }
}

/// "Query for Null or Missing Fields", with paths as in "Query on Embedded/Nested Documents"
#[test]
fn null_is_equal_to_a_missing_field_at_the_end_of_a_path() {
    let cases = [
        (doc! {}, true),
        (doc! { "a": 1 }, true),
        (doc! { "a": null }, true),
        (doc! { "a": {} }, true),
        (doc! { "a": { "b": null } }, true),
        (doc! { "a": { "b": 1 } }, false),
        (doc! { "a": [] }, false),
        (doc! { "a": [1] }, false),
        (doc! { "a": [[{}]] }, false),
        (doc! { "a": [{ "b": 1 }] }, false),
        (doc! { "a": [{ "b": 1 }, {}] }, true),
        (doc! { "a": [{ "b": [1, null] }] }, true),
        (doc! { "a": { "b": [] } }, false),
    ];
    check(&doc! { "a.b": null }, &cases);
    let negated = cases.map(|(document, expected)| (document, !expected));
    check(&doc! { "a.b": { "$ne": null } }, &negated);
    check(&doc! { "$nor": [{ "a.b": null }] }, &negated);
}

/// "Logical Query Operators"
#[test]
fn logical_operators_join_filters() {
    let document = doc! { "a": 1, "b": 2 };
    for (filter, expected) in [
        (doc! {}, true),
        (doc! { "a": 1, "b": 3 }, false),
        (doc! { "$and": [{ "a": 1 }, { "b": 2 }] }, true),
        (doc! { "$or": [{ "a": 7 }, { "b": 2 }] }, true),
        (doc! { "$or": [{}] }, true),
        (doc! { "$nor": [{ "a": 7 }, { "b": 3 }] }, true),
        (doc! { "$nor": [{ "a": 7 }, { "b": 2 }] }, false),
        (doc! { "a": { "$not": { "$gte": 1, "$lt": 1 } } }, true),
        (doc! { "a": { "$not": { "$gte": 1, "$lt": 2 } } }, false),
        (doc! { "a": 1, "$comment": "x" }, true),
        (doc! { "a": { "$eq": 1, "$comment": "x" } }, true),
    ] {
        assert_eq!(matches(&filter, &document), expected, "{filter}");
    }
}

/// Our own rule; "Query on Embedded/Nested Documents" wants the same order.
#[test]
fn documents_outside_arrays_are_equal_in_any_order_of_their_fields() {
    let wanted = doc! { "a": { "x": 1, "y": { "p": 1, "q": 2 } } };
    let turned = doc! { "a": { "y": { "q": 2, "p": 1.0 }, "x": 1 } };
    let in_array = doc! { "a": [{ "y": { "p": 1, "q": 2 }, "x": 1 }] };
    let same_in_array = doc! { "a": [{ "x": 1, "y": { "p": 1, "q": 2 } }] };
    let more = doc! { "a": { "x": 1, "y": { "p": 1, "q": 2 }, "z": 1 } };
    let cases = [
        (wanted.clone(), true),
        (turned.clone(), true),
        (in_array, false),
        (same_in_array, true),
        (more, false),
        (doc! { "a": {} }, false),
    ];
    check(&wanted, &cases);
    let value = wanted.get("a").unwrap();
    check(&doc! { "a": { "$in": [1, value] } }, &cases);
    check(&doc! { "a": { "$gte": value, "$lte": value } }, &cases[..2]);
    let list = doc! { "a": [{ "x": 1, "y": 2 }] };
    check(&list, &[(doc! { "a": [{ "y": 2, "x": 1 }] }, false)]);
}

#[test]
fn the_conjuncts_hold_for_each_match() {
    let filter = doc! {
        "host": "a", "time": { "$gte": 1, "$lt": 2 }, "$and": [{ "n": { "$in": [2, 1] } }],
        "$or": [{ "x": 1 }], "y": { "$ne": 1 }, "e": { "$exists": true },
        "m": { "$exists": false }, "t": { "$all": ["p", "q"] }, "r": { "$in": [1, regex("a")] },
    };
    let filter = Filter::parse(&filter).unwrap();
    let (one, two) = (Bson::from(1), Bson::from(2));
    let (p, q, a) = (Bson::from("p"), Bson::from("q"), Bson::from("a"));
    let sorted = [one.clone(), two.clone()];
    let expected = [
        ("host", ConjunctTest::Eq(&a)),
        ("time", ConjunctTest::Gte(&one)),
        ("time", ConjunctTest::Lt(&two)),
        ("n", ConjunctTest::In(&sorted)),
        ("t", ConjunctTest::Eq(&p)),
        ("t", ConjunctTest::Eq(&q)),
    ];
    let found = filter.conjuncts();
    let found: Vec<_> = found.iter().map(|c| (c.path, c.test)).collect();
    assert_eq!(found, expected);
    // One branch of an `$or`, and a negation, say nothing of each match.
    let none = Filter::parse(&doc! { "$or": [{ "x": 1 }], "$nor": [{ "y": 1 }] }).unwrap();
    assert!(none.conjuncts().is_empty());
}

fn regex(pattern: &str) -> Bson {
    Bson::RegularExpression(bson::Regex {
        pattern: pattern.to_owned().try_into().unwrap(),
        options: String::new().try_into().unwrap(),
    })
}
