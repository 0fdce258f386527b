//! Tests of filters against the rules of MongoDB's manual ("Comparison Query Operators", "Query for
//! Null or Missing Fields", "Query an Array").

use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{Binary, DateTime, Decimal128, Regex, Timestamp, doc};

use super::*;
use crate::mongo::error::QueryError;

fn matches(filter: &Document, document: &Document) -> bool {
    Filter::parse(filter).unwrap().matches(document)
}

fn error(filter: &Document) -> QueryError {
    Filter::parse(filter).unwrap_err()
}

/// A value of each class of types, the least first, in the order of the manual's "Comparison/Sort
/// Order".
fn classes() -> Vec<Bson> {
    let regex = Regex {
        pattern: "a".to_owned().try_into().unwrap(),
        options: String::new().try_into().unwrap(),
    };
    let binary = Binary {
        subtype: BinarySubtype::Generic,
        bytes: vec![1],
    };
    let at = Timestamp {
        time: 1,
        increment: 1,
    };
    vec![
        Bson::Null,
        Bson::Int32(1),
        Bson::from("a"),
        Bson::from(doc! { "a": 1 }),
        binary.into(),
        ObjectId::from_bytes([1; 12]).into(),
        Bson::from(true),
        DateTime::from_millis(1).into(),
        at.into(),
        regex.into(),
    ]
}

#[test]
fn values_compare_within_their_class_of_types() {
    for (i, stored) in classes().into_iter().enumerate() {
        for (k, wanted) in classes().into_iter().enumerate() {
            let document = doc! { "v": stored.clone() };
            let pair = format!("{stored} and {wanted}");
            for operator in ["$eq", "$gte", "$lte"] {
                let filter = doc! { "v": { operator: wanted.clone() } };
                assert_eq!(matches(&filter, &document), i == k, "{operator} {pair}");
            }
            for operator in ["$gt", "$lt"] {
                let filter = doc! { "v": { operator: wanted.clone() } };
                assert!(!matches(&filter, &document), "{operator} {pair}");
            }
            let filter = doc! { "v": { "$ne": wanted } };
            assert_eq!(matches(&filter, &document), i != k, "$ne {pair}");
        }
        let document = doc! { "v": stored.clone() };
        for (operator, bound, expected) in [
            ("$gt", Bson::MinKey, true),
            ("$lt", Bson::MaxKey, true),
            ("$lte", Bson::MinKey, false),
            ("$gte", Bson::MaxKey, false),
        ] {
            let filter = doc! { "v": { operator: bound } };
            assert_eq!(matches(&filter, &document), expected, "{operator} {stored}");
        }
    }
}

#[test]
fn numbers_of_all_types_compare_by_their_exact_values() {
    let decimal = |text: &str| Bson::Decimal128(text.parse::<Decimal128>().unwrap());
    let two_53 = 9_007_199_254_740_992_i64;
    for (a, b, order) in [
        (Bson::Int32(1), Bson::Double(1.0), "="),
        (Bson::Int32(1), Bson::Int64(1), "="),
        (Bson::Int32(1), decimal("1.00"), "="),
        (Bson::Double(0.0), Bson::Double(-0.0), "="),
        (Bson::Int64(two_53 + 1), Bson::Double(two_53 as f64), ">"),
        (Bson::Int64(i64::MAX), Bson::Double(9.3e18), "<"),
        (Bson::Double(0.1), decimal("0.1"), ">"),
        (Bson::Double(f64::INFINITY), decimal("1E+6000"), ">"),
        (Bson::Double(f64::NAN), Bson::Double(f64::NAN), "="),
        (Bson::Double(f64::NAN), decimal("NaN"), "="),
        (Bson::Double(f64::NAN), Bson::Int32(0), "none"),
    ] {
        for (operator, orders) in [
            ("$eq", &["="][..]),
            ("$gt", &[">"]),
            ("$gte", &[">", "="]),
            ("$lt", &["<"]),
            ("$lte", &["<", "="]),
        ] {
            let found = matches(
                &doc! { "v": { operator: b.clone() } },
                &doc! { "v": a.clone() },
            );
            assert_eq!(found, orders.contains(&order), "{a} {operator} {b}");
        }
    }
}

#[test]
fn null_is_equal_to_a_missing_field() {
    let missing = doc! {};
    let null = doc! { "a": null };
    let one = doc! { "a": 1 };
    for (filter, expected) in [
        (doc! { "a": null }, [true, true, false]),
        (doc! { "a": { "$ne": null } }, [false, false, true]),
        (doc! { "a": { "$exists": true } }, [false, true, true]),
        (doc! { "a": { "$exists": 0 } }, [true, false, false]),
        (doc! { "a": { "$type": "null" } }, [false, true, false]),
        (doc! { "a": { "$in": [null, 5] } }, [true, true, false]),
        (doc! { "a": { "$nin": [null, 5] } }, [false, false, true]),
        (doc! { "a": { "$gte": null } }, [true, true, false]),
        (doc! { "a": { "$gt": null } }, [false, false, false]),
        (doc! { "a": { "$not": { "$gt": 0 } } }, [true, true, false]),
        (doc! { "a": { "$mod": [2, 1] } }, [false, false, true]),
    ] {
        let found = [&missing, &null, &one].map(|document| matches(&filter, document));
        assert_eq!(found, expected, "{filter}");
    }
    for (document, expected) in [
        (doc! {}, true),
        (doc! { "a": 1 }, true),
        (doc! { "a": { "b": null } }, true),
        (doc! { "a": [{ "b": 1 }, {}] }, true),
        (doc! { "a": [] }, false),
        (doc! { "a": [{ "b": 1 }] }, false),
    ] {
        assert_eq!(
            matches(&doc! { "a.b": null }, &document),
            expected,
            "{document}"
        );
    }
}

#[test]
fn a_condition_on_an_array_is_one_on_its_elements() {
    let document = doc! { "a": [1, 5, "x"], "d": [{ "b": 1, "c": 1 }, { "b": 2, "c": 2 }] };
    for (filter, expected) in [
        (doc! { "a": 5 }, true),
        (doc! { "a": [1, 5, "x"] }, true),
        (doc! { "a": [5, 1, "x"] }, false),
        (doc! { "a": { "$gt": 4 } }, true),
        (doc! { "a": { "$gt": 1, "$lt": 5 } }, true),
        (
            doc! { "a": { "$elemMatch": { "$gt": 1, "$lt": 5 } } },
            false,
        ),
        (doc! { "a": { "$ne": 5 } }, false),
        (doc! { "a": { "$nin": [7] } }, true),
        (doc! { "a": { "$all": [1, "x"] } }, true),
        (doc! { "a": { "$all": [1, 7] } }, false),
        (doc! { "a": { "$all": [] } }, false),
        (doc! { "a": { "$size": 3 } }, true),
        (doc! { "a": { "$size": 2 } }, false),
        (doc! { "a": { "$type": "array" } }, true),
        (doc! { "a": { "$type": ["string", "date"] } }, true),
        (doc! { "a": { "$type": "number" } }, true),
        (doc! { "a": { "$type": 9 } }, false),
        (doc! { "a.1": 5 }, true),
        (doc! { "a": { "$regex": "^X", "$options": "i" } }, true),
        (doc! { "d.b": 1, "d.c": 2 }, true),
        (doc! { "d": { "$elemMatch": { "b": 1, "c": 2 } } }, false),
        (doc! { "d": { "$elemMatch": { "b": 2, "c": 2 } } }, true),
        (
            doc! { "d": { "$elemMatch": { "$or": [{ "b": 7 }, { "c": 2 }] } } },
            true,
        ),
        (
            doc! { "d": { "$all": [{ "$elemMatch": { "b": 1 } }, { "$elemMatch": { "b": 2 } }] } },
            true,
        ),
        (doc! { "d": { "c": 2, "b": 2 } }, true),
        (doc! { "d": { "b": 2 } }, false),
    ] {
        assert_eq!(matches(&filter, &document), expected, "{filter}");
    }
}

#[test]
fn logical_operators_join_filters() {
    let document = doc! { "a": 1, "b": 2 };
    for (filter, expected) in [
        (doc! {}, true),
        (doc! { "a": 1, "b": 3 }, false),
        (doc! { "$and": [{ "a": 1 }, { "b": 2 }] }, true),
        (doc! { "$or": [{ "a": 7 }, { "b": 2 }] }, true),
        (doc! { "$nor": [{ "a": 7 }, { "b": 3 }] }, true),
        (doc! { "$nor": [{ "a": 7 }, { "b": 2 }] }, false),
        (doc! { "a": { "$not": { "$gte": 1, "$lt": 1 } } }, true),
        (doc! { "a": 1, "$comment": "x" }, true),
    ] {
        assert_eq!(matches(&filter, &document), expected, "{filter}");
    }
}

#[test]
fn the_conjuncts_hold_for_each_match() {
    let filter = doc! {
        "host": "a", "time": { "$gte": 1, "$lt": 2 }, "$and": [{ "n": { "$in": [1, 2] } }],
        "$or": [{ "x": 1 }], "y": { "$ne": 1 },
    };
    let filter = Filter::parse(&filter).unwrap();
    let found = filter.conjuncts();
    let paths: Vec<&str> = found.iter().map(|conjunct| conjunct.path).collect();
    assert_eq!(paths, ["host", "time", "time", "n"]);
    assert_eq!(found[0].test, ConjunctTest::Eq(&Bson::from("a")));
    assert_eq!(found[2].test, ConjunctTest::Lt(&Bson::from(2)));
}

#[test]
fn a_filter_that_cannot_be_understood_is_refused() {
    for (filter, code, part) in [
        (doc! { "a": { "$foo": 1 } }, 2, "unknown operator: $foo"),
        (doc! { "$foo": 1 }, 2, "unknown top level operator: $foo"),
        (doc! { "$and": [] }, 2, "nonempty array"),
        (doc! { "$or": [1] }, 2, "full objects"),
        (doc! { "a": { "$in": 1 } }, 2, "$in needs an array"),
        (doc! { "a": { "$not": 1 } }, 2, "$not needs"),
        (doc! { "a": { "$regex": "(?=x)" } }, 51091, "look-around"),
        (
            doc! { "a": { "$regex": "x", "$options": "q" } },
            51108,
            "flag",
        ),
        (doc! { "a": { "$type": "text" } }, 2, "text"),
        (doc! { "a": { "$size": -1 } }, 2, "non-negative"),
        (doc! { "a": { "$mod": [0, 1] } }, 2, "divisor"),
        (doc! { "$where": "1" }, 115, "$where"),
    ] {
        let error = error(&filter);
        assert_eq!(error.code, code, "{filter}: {error}");
        assert!(error.message.contains(part), "{filter}: {error}");
    }
}

#[test]
fn depth_and_number_of_conditions_are_bounded() {
    let nested =
        |levels: usize| (0..levels).fold(doc! { "a": 1 }, |inside, _| doc! { "$and": [inside] });
    assert!(matches(&nested(90), &doc! { "a": 1 }));
    assert!(error(&nested(120)).message.contains("levels"));
    let many = vec![doc! { "a": 1 }; NODES_MAX];
    assert!(error(&doc! { "$or": many }).message.contains("conditions"));
}
