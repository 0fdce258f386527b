//! Tests of conditions on arrays ("Query an Array", "Query an Array of Embedded Documents",
//! "$elemMatch", "$all", "$size") and of expressions ("$regex").

use super::*;

#[test]
fn a_condition_on_an_array_is_one_on_its_elements() {
    let document =
        doc! { "a": [1, 5, "x"], "n": [[1, 2], 3], "d": [{ "b": 1, "c": 1 }, { "b": 2, "c": 2 }] };
    for (filter, expected) in [
        (doc! { "a": 5 }, true),
        (doc! { "a": [1, 5, "x"] }, true),
        (doc! { "a": [5, 1, "x"] }, false),
        (doc! { "a": { "$gt": 4 } }, true),
        (doc! { "a": { "$gt": 1, "$lt": 5 } }, true),
        (doc! { "a": { "$gt": [1, 4] } }, true),
        (doc! { "a": { "$ne": 5 } }, false),
        (doc! { "a": { "$nin": [7] } }, true),
        (doc! { "a": { "$nin": [7, "x"] } }, false),
        (doc! { "a": { "$not": { "$gt": 5 } } }, true),
        (doc! { "a": { "$type": "array" } }, true),
        (doc! { "a": { "$type": ["string", "date"] } }, true),
        (doc! { "a": { "$type": 9 } }, false),
        (doc! { "a.1": 5 }, true),
        (doc! { "a.1": { "$exists": true } }, true),
        (doc! { "a.3": { "$exists": true } }, false),
        (doc! { "n": [1, 2] }, true),
        (doc! { "n": 1 }, false),
        (doc! { "n.0": [1, 2] }, true),
        (doc! { "n.0.1": 2 }, true),
        (doc! { "d.b": 1, "d.c": 2 }, true),
        (doc! { "d.1.b": 2 }, true),
        (doc! { "d.b": { "$ne": 1 } }, false),
        (doc! { "d": { "b": 2, "c": 2 } }, true),
        (doc! { "d": { "b": 2 } }, false),
    ] {
        assert_eq!(matches(&filter, &document), expected, "{filter}");
    }
}

#[test]
fn one_element_must_meet_all_conditions_of_an_element() {
    let document = doc! {
        "a": [1, 5, "x"], "n": [[1, 2], { "0": 7 }],
        "d": [{ "b": 1, "c": 1 }, { "b": 2, "c": 2 }], "s": 5,
    };
    let element = |condition: Document| doc! { "$elemMatch": condition };
    for (filter, expected) in [
        (doc! { "a": element(doc! { "$gt": 1, "$lt": 5 }) }, false),
        (doc! { "a": element(doc! { "$gt": 1, "$lt": 6 }) }, true),
        (doc! { "a": element(doc! { "$ne": 1 }) }, true),
        (
            doc! { "a": element(doc! { "$not": { "$type": "int" } }) },
            true,
        ),
        (doc! { "a": element(doc! { "$nin": [1, 5, "x"] }) }, false),
        (doc! { "a": element(doc! { "$exists": true }) }, true),
        (doc! { "d": element(doc! { "b": 1, "c": 2 }) }, false),
        (doc! { "d": element(doc! { "b": 2, "c": 2 }) }, true),
        (
            doc! { "d": element(doc! { "$or": [{ "b": 7 }, { "c": 2 }] }) },
            true,
        ),
        (
            doc! { "d": element(doc! { "$nor": [{ "b": 1 }, { "c": 2 }] }) },
            false,
        ),
        (doc! { "d": element(doc! { "z": null }) }, true),
        (doc! { "d": element(doc! {}) }, true),
        (doc! { "a": element(doc! {}) }, false),
        // An array in the array has its indexes as names.
        (doc! { "n": element(doc! { "0": 1 }) }, true),
        (doc! { "n": element(doc! { "0": 7 }) }, true),
        (doc! { "n": element(doc! { "$size": 2 }) }, true),
        (doc! { "n": element(element(doc! { "$gt": 1 })) }, true),
        (doc! { "n.0": element(doc! { "$gt": 1 }) }, true),
        (doc! { "s": element(doc! { "$gt": 1 }) }, false),
        (doc! { "d": { "$not": element(doc! { "b": 1 }) } }, false),
    ] {
        assert_eq!(matches(&filter, &document), expected, "{filter}");
    }
}

#[test]
fn all_values_must_be_found_and_sizes_count_elements() {
    let document = doc! { "a": [1, 5, "x"], "n": [[1, 2]], "d": [{ "b": 1 }, { "b": 2 }], "s": 5 };
    for (filter, expected) in [
        (doc! { "a": { "$all": [1, "x"] } }, true),
        (doc! { "a": { "$all": [1, 7] } }, false),
        (doc! { "a": { "$all": [] } }, false),
        (doc! { "a": { "$all": [[1, 5, "x"]] } }, true),
        (doc! { "n": { "$all": [[1, 2]] } }, true),
        (doc! { "s": { "$all": [5] } }, true),
        (doc! { "z": { "$all": [null] } }, true),
        (doc! { "a": { "$all": [regex("^x")] } }, true),
        (doc! { "d.b": { "$all": [1, 2] } }, true),
        (
            doc! { "d": { "$all": [{ "$elemMatch": { "b": 1 } }, { "$elemMatch": { "b": 2 } }] } },
            true,
        ),
        (
            doc! { "d": { "$all": [{ "$elemMatch": { "b": 1 } }, { "$elemMatch": { "b": 3 } }] } },
            false,
        ),
        (doc! { "a": { "$size": 3 } }, true),
        (doc! { "a": { "$size": 3.0 } }, true),
        (doc! { "a": { "$size": 2 } }, false),
        // The array in the array is not counted.
        (doc! { "n": { "$size": 2 } }, false),
        (doc! { "n.0": { "$size": 2 } }, true),
        (doc! { "s": { "$size": 1 } }, false),
    ] {
        assert_eq!(matches(&filter, &document), expected, "{filter}");
    }
}

#[test]
fn one_of_very_many_values_is_found() {
    let values: Vec<i32> = (0..50_000).rev().collect();
    let filter = Filter::parse(&doc! { "a": { "$in": values } }).unwrap();
    assert!(met(&filter, &doc! { "a": 49_999.0 }));
    assert!(met(&filter, &doc! { "a": ["x", 0_i64] }));
    assert!(!met(&filter, &doc! { "a": 50_000 }));
}

#[test]
fn expressions_match_texts_and_are_equal_to_themselves() {
    let with = |pattern: &str, options: &str| doc! { "$regex": pattern, "$options": options };
    for (condition, stored, expected) in [
        (with("^X", "i").into(), Bson::from("xy"), true),
        (with("^X", "").into(), Bson::from("xy"), false),
        (with("^b", "m").into(), Bson::from("a\nb"), true),
        (with("^b", "").into(), Bson::from("a\nb"), false),
        (with("a.b", "s").into(), Bson::from("a\nb"), true),
        (with("a b # c", "x").into(), Bson::from("ab"), true),
        (with("a", "imsxu").into(), Bson::from("A"), true),
        (regex("b"), Bson::from("abc"), true),
        (regex("b"), Bson::Symbol("abc".to_owned()), true),
        (regex("b"), Bson::from(1), false),
        (regex("b"), regex("b"), true),
        (regex("b"), regex("c"), false),
        (doc! { "$eq": regex("b") }.into(), Bson::from("abc"), false),
        (doc! { "$eq": regex("b") }.into(), regex("b"), true),
        (
            doc! { "$in": [1, regex("^a")] }.into(),
            Bson::from("abc"),
            true,
        ),
        (
            doc! { "$nin": [1, regex("^a")] }.into(),
            Bson::from("abc"),
            false,
        ),
        (
            doc! { "$not": regex("^a") }.into(),
            Bson::from("abc"),
            false,
        ),
        (
            doc! { "$not": { "$regex": "^a" } }.into(),
            Bson::from("b"),
            true,
        ),
        (
            doc! { "$regex": regex("^A"), "$options": "i" }.into(),
            Bson::from("a"),
            true,
        ),
        (
            doc! { "$options": "i", "$regex": "^A" }.into(),
            Bson::from("a"),
            true,
        ),
        (with("^x", "").into(), Bson::from(vec!["a", "xb"]), true),
    ] {
        let filter = doc! { "a": Bson::clone(&condition) };
        let found = matches(&filter, &doc! { "a": stored.clone() });
        assert_eq!(found, expected, "{filter} on {stored}");
    }
}
