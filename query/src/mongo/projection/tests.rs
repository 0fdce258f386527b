//! Tests of projections against MongoDB's manual ("Project Fields to Return from Query").

use bson::doc;

use super::*;

#[test]
fn fields_are_included_or_excluded() {
    let document = doc! {
        "_id": 1, "a": 1, "b": { "c": 2, "d": { "e": 3 } }, "l": [{ "x": 1, "y": 2 }, 5, [{ "x": 3 }]],
        "n": [1, 2, 3, 4],
    };
    for (projection, expected) in [
        (doc! { "a": 1 }, doc! { "_id": 1, "a": 1 }),
        (doc! { "a": true, "_id": 0 }, doc! { "a": 1 }),
        (doc! { "_id": 1 }, doc! { "_id": 1 }),
        (doc! { "b.c": 1, "_id": 0 }, doc! { "b": { "c": 2 } }),
        (
            doc! { "b": { "d": { "e": 1 } }, "_id": 0 },
            doc! { "b": { "d": { "e": 3 } } },
        ),
        (doc! { "a.x": 1, "_id": 0 }, doc! {}),
        (
            doc! { "l.x": 1, "_id": 0 },
            doc! { "l": [{ "x": 1 }, [{ "x": 3 }]] },
        ),
        (doc! { "missing": 1, "_id": 0 }, doc! {}),
        (doc! { "b": 0, "l": 0, "n": 0 }, doc! { "_id": 1, "a": 1 }),
        (
            doc! { "_id": 0, "b.d": 0, "l": 0, "n": 0 },
            doc! { "a": 1, "b": { "c": 2 } },
        ),
        (
            doc! { "l.x": 0, "a": 0, "b": 0, "n": 0 },
            doc! { "_id": 1, "l": [{ "y": 2 }, 5, [{}]] },
        ),
        (
            doc! { "n": { "$slice": 2 }, "l": 0, "b": 0 },
            doc! { "_id": 1, "a": 1, "n": [1, 2] },
        ),
        (
            doc! { "n": { "$slice": -1 }, "a": 1 },
            doc! { "_id": 1, "a": 1, "n": [4] },
        ),
        (
            doc! { "n": { "$slice": [1, 2] }, "a": 1 },
            doc! { "_id": 1, "a": 1, "n": [2, 3] },
        ),
        (
            doc! { "l": { "$elemMatch": { "y": 2 } }, "_id": 0 },
            doc! { "l": [{ "x": 1, "y": 2 }] },
        ),
        (
            doc! { "l": { "$elemMatch": { "y": 9 } }, "_id": 0 },
            doc! {},
        ),
    ] {
        let found = Projection::parse(&projection).unwrap().apply(&document);
        assert_eq!(found, expected, "{projection}");
    }
    // The exclusion of `_id` alone leaves the rest.
    let rest = Projection::parse(&doc! { "_id": 0 })
        .unwrap()
        .apply(&document);
    assert_eq!(rest.len(), 4);
}

#[test]
fn a_projection_that_cannot_be_understood_is_refused() {
    for (projection, code) in [
        (doc! { "a": 1, "b": 0 }, 31254),
        (doc! { "a": 0, "b": 1 }, 31253),
        (doc! { "a": 1, "a.b": 1 }, 31249),
        (doc! { "a.$": 1 }, 115),
        (doc! { "a": "$b" }, 115),
        (doc! { "a": { "$add": [1, 2] } }, 115),
        (doc! { "a": { "$slice": "x" } }, 28667),
        (doc! { "a": { "$slice": [1, 0] } }, 28667),
    ] {
        let error = Projection::parse(&projection).unwrap_err();
        assert_eq!(error.code, code, "{projection}: {error}");
    }
}
