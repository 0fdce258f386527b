//! Tests of comparisons across types ("Comparison/Sort Order", "Comparison Query Operators").

use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{Binary, DateTime, Decimal128, JavaScriptCodeWithScope, Timestamp};

use super::*;

/// A value of each class of types, in the order of the manual.
fn classes() -> Vec<Bson> {
    let binary = Binary {
        subtype: BinarySubtype::Generic,
        bytes: vec![1],
    };
    let at = Timestamp {
        time: 1,
        increment: 1,
    };
    let code = JavaScriptCodeWithScope {
        code: "a".to_owned(),
        scope: doc! {},
    };
    vec![
        Bson::MinKey,
        Bson::Null,
        Bson::Int32(1),
        Bson::from("a"),
        Bson::from(doc! { "a": 1 }),
        Bson::Array(vec![]),
        binary.into(),
        ObjectId::from_bytes([1; 12]).into(),
        Bson::from(true),
        DateTime::from_millis(1).into(),
        at.into(),
        Bson::JavaScriptCode("a".to_owned()),
        Bson::JavaScriptCodeWithScope(code),
        Bson::MaxKey,
    ]
}

#[test]
fn each_pair_of_classes_compares_within_its_class_alone() {
    for (i, stored) in classes().into_iter().enumerate() {
        for (k, wanted) in classes().into_iter().enumerate() {
            let document = doc! { "v": stored.clone() };
            let same = i == k;
            // The least and the greatest key of a filter bound the values of all types.
            let above_least = wanted == Bson::MinKey && !same;
            let below_greatest = wanted == Bson::MaxKey && !same;
            for (operator, expected) in [
                ("$eq", same),
                ("$ne", !same),
                ("$gt", above_least),
                ("$gte", above_least || same),
                ("$lt", below_greatest),
                ("$lte", below_greatest || same),
            ] {
                let filter = doc! { "v": { operator: wanted.clone() } };
                let found = matches(&filter, &document);
                assert_eq!(found, expected, "{stored} {operator} {wanted}");
            }
            let any = doc! { "v": { "$in": [wanted.clone()] } };
            assert_eq!(matches(&any, &document), same, "{stored} in {wanted}");
        }
    }
}

#[test]
fn values_of_one_class_are_in_an_order() {
    let at = |time, increment| Bson::from(Timestamp { time, increment });
    let binary = |bytes: &[u8]| {
        Bson::from(Binary {
            subtype: BinarySubtype::Generic,
            bytes: bytes.to_vec(),
        })
    };
    for (less, more) in [
        (Bson::from("a"), Bson::from("ab")),
        (Bson::from("Z"), Bson::from("a")),
        (Bson::from("z"), Bson::from("ä")),
        (Bson::from("a"), Bson::Symbol("b".to_owned())),
        (Bson::from(false), Bson::from(true)),
        (
            DateTime::from_millis(-1).into(),
            DateTime::from_millis(0).into(),
        ),
        (at(1, 9), at(2, 0)),
        (binary(&[9]), binary(&[1, 1])),
        (Bson::from(doc! {}), Bson::from(doc! { "a": 1 })),
        (Bson::from(doc! { "z": 1 }), Bson::from(doc! { "a": "x" })),
        (Bson::from(doc! { "a": 1 }), Bson::from(doc! { "b": 0 })),
        (
            ObjectId::from_bytes([1; 12]).into(),
            ObjectId::from_bytes([2; 12]).into(),
        ),
    ] {
        for (operator, expected) in [
            ("$eq", false),
            ("$gt", false),
            ("$gte", false),
            ("$lt", true),
            ("$lte", true),
        ] {
            let filter = doc! { "v": { operator: more.clone() } };
            let found = matches(&filter, &doc! { "v": less.clone() });
            assert_eq!(found, expected, "{less} {operator} {more}");
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
        (Bson::Int64(i64::MIN), Bson::Double(f64::NEG_INFINITY), ">"),
        (Bson::Double(0.1), decimal("0.1"), ">"),
        (Bson::Double(f64::INFINITY), decimal("1E+6000"), ">"),
        (Bson::Double(f64::NAN), Bson::Double(f64::NAN), "="),
        (Bson::Double(f64::NAN), decimal("NaN"), "="),
        (Bson::Double(f64::NAN), Bson::Int32(0), "none"),
        (Bson::Int32(0), Bson::Double(f64::NAN), "none"),
        (Bson::Double(f64::NEG_INFINITY), decimal("NaN"), "none"),
        (Bson::Boolean(true), Bson::Int32(1), "none"),
    ] {
        for (operator, orders) in [
            ("$eq", &["="][..]),
            ("$gt", &[">"]),
            ("$gte", &[">", "="]),
            ("$lt", &["<"]),
            ("$lte", &["<", "="]),
        ] {
            let filter = doc! { "v": { operator: b.clone() } };
            let found = matches(&filter, &doc! { "v": a.clone() });
            assert_eq!(found, orders.contains(&order), "{a} {operator} {b}");
        }
    }
}

/// "$type"
#[test]
fn types_have_names_and_numbers() {
    for (value, name, number) in [
        (Bson::Double(1.0), "double", 1),
        (Bson::from("a"), "string", 2),
        (Bson::from(doc! {}), "object", 3),
        (Bson::Array(vec![]), "array", 4),
        (Bson::from(true), "bool", 8),
        (DateTime::from_millis(0).into(), "date", 9),
        (Bson::Null, "null", 10),
        (regex("a"), "regex", 11),
        (Bson::Int32(1), "int", 16),
        (Bson::Int64(1), "long", 18),
        (Bson::MinKey, "minKey", -1),
        (Bson::MaxKey, "maxKey", 127),
    ] {
        let document = doc! { "v": value.clone() };
        let is_number = ["double", "int", "long"].contains(&name);
        for (operand, expected) in [
            (Bson::from(name), true),
            (Bson::from(number), true),
            (Bson::from(f64::from(number)), true),
            (Bson::from(vec!["timestamp", name]), true),
            (Bson::from("number"), is_number),
            (Bson::from("timestamp"), false),
        ] {
            let filter = doc! { "v": { "$type": operand } };
            assert_eq!(matches(&filter, &document), expected, "{filter} on {value}");
        }
    }
}

/// "$mod"
#[test]
fn remainders_have_the_sign_of_the_dividend_and_fractions_are_cut() {
    let decimal = |text: &str| Bson::Decimal128(text.parse::<Decimal128>().unwrap());
    for (value, divisor, remainder, expected) in [
        (Bson::Int32(7), 4.0, 3.0, true),
        (Bson::Int32(-7), 4.0, -3.0, true),
        (Bson::Int32(-7), 4.0, 1.0, false),
        (Bson::Double(7.9), 4.0, 3.0, true),
        (Bson::Double(-7.9), 4.0, -3.0, true),
        (Bson::Int32(7), 4.9, 3.2, true),
        (decimal("7.5"), 4.0, 3.0, true),
        (decimal("-7.9"), 4.0, -3.0, true),
        (decimal("1E+6000"), 4.0, 0.0, false),
        (Bson::Double(f64::NAN), 4.0, 0.0, false),
        (Bson::Double(1e300), 4.0, 0.0, false),
        (Bson::Int64(i64::MIN), -1.0, 0.0, true),
        (Bson::from("8"), 4.0, 0.0, false),
    ] {
        let filter = doc! { "v": { "$mod": [divisor, remainder] } };
        let found = matches(&filter, &doc! { "v": value.clone() });
        assert_eq!(found, expected, "{filter} on {value}");
    }
}
