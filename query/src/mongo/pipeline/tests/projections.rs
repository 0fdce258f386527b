//! `$project`, `$addFields` and `$unset`.

use bson::{Bson, bson};

use super::{parse, run};

/// Returns the document that is projected.
fn input() -> Bson {
    bson!([{
        "b": 1, "_id": 9, "a": { "x": 1, "y": 2 }, "l": [{ "x": 1, "y": 2 }, 3, [{ "x": 4 }]],
    }])
}

/// Checks stages with the one document that each makes of the input.
fn check<const N: usize>(cases: [(Bson, Bson); N]) {
    for (stage, expected) in cases {
        // Texts, for documents are equal whatever the order of their fields.
        let result = run(input(), bson!([stage.clone()])).map(|result| result.to_string());
        assert_eq!(result, Ok(bson!([expected]).to_string()), "{stage}");
    }
}

#[test]
fn included_and_excluded_fields() {
    // "$project".
    check([
        (
            bson!({ "$project": { "a": 1, "b": true } }),
            bson!({ "_id": 9, "b": 1, "a": { "x": 1, "y": 2 } }),
        ),
        (bson!({ "$project": { "_id": 1 } }), bson!({ "_id": 9 })),
        (
            bson!({ "$project": { "_id": 0, "b": 1 } }),
            bson!({ "b": 1 }),
        ),
        (
            bson!({ "$project": { "_id": 0, "c": "$b" } }),
            bson!({ "c": 1 }),
        ),
        (bson!({ "$project": { "_id": "$b" } }), bson!({ "_id": 1 })),
        (
            bson!({ "$project": { "z": "$b", "a": 1 } }),
            bson!({ "_id": 9, "a": { "x": 1, "y": 2 }, "z": 1 }),
        ),
        (
            bson!({ "$project": { "a.x": 1 } }),
            bson!({ "_id": 9, "a": { "x": 1 } }),
        ),
        (
            bson!({ "$project": { "a": { "y": 1 } } }),
            bson!({ "_id": 9, "a": { "y": 2 } }),
        ),
        (bson!({ "$project": { "b.x": 1 } }), bson!({ "_id": 9 })),
        (
            bson!({ "$project": { "l.x": 1, "_id": 0 } }),
            bson!({ "l": [{ "x": 1 }, [{ "x": 4 }]] }),
        ),
        (
            bson!({ "$project": { "l.x": 0, "a": 0, "_id": 0 } }),
            bson!({ "b": 1, "l": [{ "y": 2 }, 3, [{}]] }),
        ),
        (
            bson!({ "$project": { "_id": 0, "l": 0 } }),
            bson!({ "b": 1, "a": { "x": 1, "y": 2 } }),
        ),
        (
            bson!({ "$project": { "_id": 1, "l": 0, "a": 0 } }),
            bson!({ "b": 1, "_id": 9 }),
        ),
    ]);
}

#[test]
fn computed_fields() {
    // "$project", "$addFields", "$unset".
    let list = bson!([{ "x": 1, "y": 2 }, 3, [{ "x": 4 }]]);
    check([
        (
            bson!({ "$project": { "n": "text", "m": ["$b", "$no"], "k": "$no" } }),
            bson!({ "_id": 9, "n": "text", "m": [1, null] }),
        ),
        (
            bson!({ "$project": { "a": { "x": 1, "s": { "$add": ["$a.x", "$a.y"] } } } }),
            bson!({ "_id": 9, "a": { "x": 1, "s": 3 } }),
        ),
        (
            bson!({ "$project": { "b": { "$literal": 1 } } }),
            bson!({ "_id": 9, "b": 1 }),
        ),
        (
            bson!({ "$project": { "b": { "$cond": [false, 1, "$$REMOVE"] } } }),
            bson!({ "_id": 9 }),
        ),
        (
            bson!({ "$project": { "l.n": "$b", "_id": 0 } }),
            bson!({ "l": [{ "n": 1 }, [{ "n": 1 }]] }),
        ),
        (
            bson!({ "$unset": "a" }),
            bson!({ "b": 1, "_id": 9, "l": list }),
        ),
        (
            bson!({ "$unset": ["a.x", "l", "_id"] }),
            bson!({ "b": 1, "a": { "y": 2 } }),
        ),
        (
            bson!({ "$set": { "b": 2, "a.z": "$b", "l": 0, "n": { "m": 1 } } }),
            bson!({ "b": 2, "_id": 9, "a": { "x": 1, "y": 2, "z": 1 }, "l": 0, "n": { "m": 1 } }),
        ),
        (
            bson!({ "$addFields": { "b.x": 1, "l": "$$REMOVE", "a": "$no" } }),
            bson!({ "b": { "x": 1 }, "_id": 9 }),
        ),
        (
            bson!({ "$addFields": { "a": {}, "l.n": 1 } }),
            bson!({ "b": 1, "_id": 9, "a": {},
            "l": [{ "x": 1, "y": 2, "n": 1 }, { "n": 1 }, [{ "x": 4, "n": 1 }]] }),
        ),
    ]);
}

#[test]
fn refusals() {
    let cases = [
        (bson!({ "$project": 1 }), 15969),
        (bson!({ "$project": {} }), 51272),
        (bson!({ "$project": { "a": 1, "b": 0 } }), 31254),
        (bson!({ "$project": { "a": 0, "b": 1 } }), 31253),
        (bson!({ "$project": { "a": 0, "b": "$c" } }), 31252),
        (bson!({ "$project": { "a": {} } }), 51270),
        (bson!({ "$project": { "a": 1, "a.b": 1 } }), 31249),
        (bson!({ "$project": { "a.b": 1, "a": 1 } }), 31250),
        (bson!({ "$project": { "a": { "b": 1 }, "a.b": 1 } }), 31250),
        (bson!({ "$project": { "a..b": 1 } }), 15998),
        (bson!({ "$project": { "$a": 1 } }), 16410),
        (bson!({ "$project": { "a": { "$foo": 1 } } }), 168),
        (bson!({ "$addFields": 1 }), 40272),
        (bson!({ "$addFields": {} }), 40177),
        (bson!({ "$set": { "a": 1, "a.b": 1 } }), 31249),
        (bson!({ "$unset": 1 }), 31002),
        (bson!({ "$unset": [] }), 31119),
        (bson!({ "$unset": [1] }), 31120),
    ];
    for (stage, code) in cases {
        let error = parse(bson!([stage.clone()])).unwrap_err();
        assert_eq!(error.code, code, "{stage}: {error}");
    }
}
