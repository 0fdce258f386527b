//! Tests of projections against MongoDB's manual ("Project Fields to Return from Query", "$slice
//! (projection)", "$elemMatch (projection)") and its codes.

use bson::{Bson, Document, doc};

use super::*;

fn project(projection: &Document, document: &Document) -> Document {
    Projection::parse(projection)
        .unwrap()
        .apply(document)
        .unwrap()
}

/// Checks the result with the order of its fields.
fn check(projection: &Document, document: &Document, expected: &Document) {
    let found = project(projection, document);
    assert_eq!(found.to_string(), expected.to_string(), "{projection}");
}

#[test]
fn fields_are_included() {
    let document = doc! {
        "_id": { "u": 1, "d": 2 }, "a": 1, "b": { "c": 2, "d": { "e": 3 } },
        "l": [{ "x": 1, "y": 2 }, 5, [{ "x": 3 }]],
    };
    let id = doc! { "u": 1, "d": 2 };
    for (projection, expected) in [
        (doc! { "a": 1 }, doc! { "_id": id.clone(), "a": 1 }),
        (
            doc! { "b": 0.5, "a": 1_i64, "_id": false },
            doc! { "a": 1, "b": document.get("b") },
        ),
        (doc! { "_id": 1 }, doc! { "_id": id.clone() }),
        (doc! { "_id.u": 1 }, doc! { "_id": { "u": 1 } }),
        (
            doc! { "_id": { "d": 1 }, "a": 1 },
            doc! { "_id": { "d": 2 }, "a": 1 },
        ),
        (doc! { "b.c": 1, "_id": 0 }, doc! { "b": { "c": 2 } }),
        (
            doc! { "b": { "d": { "e": 1 } }, "_id": 0 },
            doc! { "b": { "d": { "e": 3 } } },
        ),
        (
            doc! { "b": { "d.e": 1 }, "b.c": 1, "_id": 0 },
            doc! { "b": document.get("b") },
        ),
        (doc! { "a.x": 1, "_id": 0 }, doc! {}),
        (doc! { "b.z": 1, "_id": 0 }, doc! { "b": {} }),
        (
            doc! { "l.x": 1, "_id": 0 },
            doc! { "l": [{ "x": 1 }, [{ "x": 3 }]] },
        ),
        (doc! { "l.0": 1, "_id": 0 }, doc! { "l": [{}, [{}]] }),
        (doc! { "missing": 1, "_id": 0 }, doc! {}),
    ] {
        check(&projection, &document, &expected);
    }
}

#[test]
fn fields_are_excluded() {
    let document = doc! {
        "_id": 1, "a": 1, "b": { "c": 2, "d": 3 }, "l": [{ "x": 1, "y": 2 }, 5, [{ "x": 3 }]],
    };
    for (projection, expected) in [
        (doc! {}, document.clone()),
        (doc! { "b": 0, "l": 0 }, doc! { "_id": 1, "a": 1 }),
        (doc! { "b": 0, "l": 0, "_id": 1 }, doc! { "_id": 1, "a": 1 }),
        (
            doc! { "_id": 0, "b.d": 0, "l": 0 },
            doc! { "a": 1, "b": { "c": 2 } },
        ),
        (
            doc! { "_id": 0, "b": { "d": 0 }, "l": 0 },
            doc! { "a": 1, "b": { "c": 2 } },
        ),
        (
            doc! { "l.x": 0, "a.z": 0, "b": 0 },
            doc! { "_id": 1, "a": 1, "l": [{ "y": 2 }, 5, [{}]] },
        ),
    ] {
        check(&projection, &document, &expected);
    }
    assert_eq!(project(&doc! { "_id": 0 }, &document).len(), 3);
}

#[test]
fn a_slice_takes_elements_and_excludes_nothing_by_itself() {
    let document = doc! {
        "_id": 1, "n": [1, 2, 3, 4], "a": { "n": [1, 2] },
        "l": [{ "n": [5, 6] }, [{ "n": [7, 8] }]],
    };
    for (operand, expected) in [
        (Bson::from(2), vec![1, 2]),
        (Bson::from(0), vec![]),
        (Bson::from(9), vec![1, 2, 3, 4]),
        (Bson::from(-1), vec![4]),
        (Bson::from(-9), vec![1, 2, 3, 4]),
        (Bson::from(1.9), vec![1]),
        (Bson::from(1e300), vec![1, 2, 3, 4]),
        (Bson::from(vec![1, 2]), vec![2, 3]),
        (Bson::from(vec![-3, 2]), vec![2, 3]),
        (Bson::from(vec![-9, 2]), vec![1, 2]),
        (Bson::from(vec![9, 2]), vec![]),
    ] {
        let sliced = project(&doc! { "n": { "$slice": operand.clone() } }, &document);
        assert_eq!(sliced.len(), 4, "all other fields stay");
        assert_eq!(sliced.get("n"), Some(&expected.into()), "{operand}");
    }
    for (projection, expected) in [
        (
            doc! { "n": { "$slice": 1 }, "_id": 1 },
            doc! { "_id": 1, "n": [1] },
        ),
        (
            doc! { "_id": 0, "n": { "$slice": 1 }, "l": 0 },
            doc! { "n": [1], "a": { "n": [1, 2] } },
        ),
        (
            doc! { "a.n": { "$slice": 1 }, "_id": 1 },
            doc! { "_id": 1, "a": { "n": [1] } },
        ),
        (
            doc! { "l.n": { "$slice": 1 }, "_id": 1 },
            doc! { "_id": 1, "l": [{ "n": [5] }, [{ "n": [7, 8] }]] },
        ),
    ] {
        check(&projection, &document, &expected);
    }
}

#[test]
fn the_first_matching_element_stands_behind_the_included_fields() {
    let document = doc! { "_id": 1, "l": [{ "x": 1 }, { "x": 2, "y": 3 }], "n": [1, 5, 7], "z": 1 };
    let first = |condition: Document| doc! { "$elemMatch": condition };
    for (projection, expected) in [
        (
            doc! { "l": first(doc! { "x": 2 }) },
            doc! { "_id": 1, "l": [{ "x": 2, "y": 3 }] },
        ),
        (
            doc! { "n": first(doc! { "$gt": 4 }), "_id": 0 },
            doc! { "n": [5] },
        ),
        (doc! { "n": first(doc! { "$gt": 9 }), "_id": 0 }, doc! {}),
        (doc! { "z": first(doc! { "$gt": 0 }), "_id": 0 }, doc! {}),
        (
            doc! { "n": first(doc! { "$gt": 4 }), "z": 1 },
            doc! { "_id": 1, "z": 1, "n": [5] },
        ),
        (
            doc! { "n": first(doc! { "$gt": 4 }), "l": 0 },
            doc! { "_id": 1, "n": [5], "z": 1 },
        ),
        (
            doc! { "l": first(doc! { "x": 9 }), "n": 0 },
            doc! { "_id": 1, "z": 1 },
        ),
    ] {
        check(&projection, &document, &expected);
    }
}

#[test]
fn a_projection_that_cannot_be_understood_is_refused() {
    let deep = (0..200).fold(doc! { "a": 1 }, |inside, _| doc! { "a": inside });
    let long = vec!["a"; 200].join(".");
    for (projection, code) in [
        (doc! { "a": 1, "b": 0 }, 31254),
        (doc! { "a": 0, "b": 1 }, 31253),
        (doc! { "_id.x": 0, "b": 1 }, 31253),
        (doc! { "a": 1, "a.b": 1 }, 31249),
        (doc! { "a.b": 1, "a": 1 }, 31250),
        (doc! { "a.b": 1, "a": { "b": 1 } }, 31250),
        (doc! { "a.$": 1 }, 115),
        (doc! { "a.$.b": 1 }, 115),
        (doc! { "a": { "$meta": "textScore" } }, 115),
        (doc! { "a": "$b" }, 115),
        (doc! { "a": null }, 115),
        (doc! { "a": { "$add": [1, 2] } }, 115),
        (doc! { "a": { "$add": [1, 2], "b": 1 } }, 16410),
        (doc! { "$a": 1 }, 16410),
        (doc! { "": 1 }, 40352),
        (doc! { "a.": 1 }, 40353),
        (doc! { "a..b": 1 }, 15998),
        (doc! { "a": {} }, 51270),
        (doc! { "a": { "$slice": "x" } }, 31273),
        (doc! { "a": { "$slice": [1] } }, 31272),
        (doc! { "a": { "$slice": ["x", 1] } }, 31257),
        (doc! { "a": { "$slice": [1, "x"] } }, 31258),
        (doc! { "a": { "$slice": [1, 0] } }, 31259),
        (doc! { "a": { "$elemMatch": 1 } }, 31274),
        (doc! { "a.b": { "$elemMatch": {} } }, 31275),
        (doc! { "a": { "b": { "$elemMatch": {} } } }, 31275),
        (doc! { "a": { "$elemMatch": { "$expr": true } } }, 2),
        (deep, 2),
        (doc! { long: 1 }, 2),
    ] {
        let error = Projection::parse(&projection).unwrap_err();
        assert_eq!(error.code, code, "{projection}: {error}");
    }
}
