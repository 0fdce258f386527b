//! `$group`, `$bucket` and `$sortByCount`.

use bson::bson;

use super::{parse, run};

#[test]
fn groups_come_in_the_order_in_which_they_are_seen() {
    // "$group".
    let input = bson!([
        { "k": 2, "v": 1 }, { "k": 1, "v": 2 }, { "k": 2.0, "v": 3 }, { "k": 2_i64, "v": "x" },
        { "v": 5 }, { "k": null, "v": 6 },
    ]);
    let cases = [
        (
            bson!({ "_id": "$k", "n": { "$sum": 1 }, "v": { "$push": "$v" } }),
            bson!([
               { "_id": 2, "n": 3, "v": [1, 3, "x"] },
               { "_id": 1, "n": 1, "v": [2] },
               { "_id": null, "n": 2, "v": [5, 6] },
            ]),
        ),
        (
            bson!({ "_id": null, "sum": { "$sum": "$v" } }),
            bson!([{ "_id": null, "sum": 17 }]),
        ),
        (
            bson!({ "_id": { "k": "$k" } }),
            bson!([
                { "_id": { "k": 2 } }, { "_id": { "k": 1 } },
                { "_id": {} }, { "_id": { "k": null } },
            ]),
        ),
        (
            bson!({ "_id": { "$gt": ["$v", 2] }, "n": { "$count": {} } }),
            bson!([{ "_id": false, "n": 2 }, { "_id": true, "n": 4 }]),
        ),
        (bson!({ "_id": "constant" }), bson!([{ "_id": "constant" }])),
    ];
    for (spec, expected) in cases {
        let stages = bson!([{ "$group": spec.clone() }]);
        assert_eq!(run(input.clone(), stages), Ok(expected), "{spec}");
    }
    assert_eq!(
        run(bson!([]), bson!([{ "$group": { "_id": null } }])),
        Ok(bson!([]))
    );
}

#[test]
fn buckets() {
    // "$bucket", "$sortByCount".
    let input = bson!([
        { "v": 5 }, { "v": 0 }, { "v": 9 }, { "v": 2 }, { "v": "x" }, {}, { "v": 10 },
    ]);
    let bucket = bson!([{ "$bucket": {
        "groupBy": "$v", "boundaries": [0, 5, 10], "default": "other",
        "output": { "n": { "$sum": 1 }, "v": { "$push": "$v" } },
    } }]);
    let expected = bson!([
        { "_id": 0, "n": 2, "v": [0, 2] },
        { "_id": 5, "n": 2, "v": [5, 9] },
        { "_id": "other", "n": 3, "v": ["x", 10] },
    ]);
    assert_eq!(run(input.clone(), bucket), Ok(expected));
    let without = bson!([{ "$bucket": { "groupBy": "$v", "boundaries": [0, 5, 10] } }]);
    assert_eq!(run(input, without.clone()).unwrap_err().code, 40066);
    let counted = run(bson!([{ "v": 1 }, { "v": 4.9 }]), without);
    assert_eq!(counted, Ok(bson!([{ "_id": 0, "count": 2 }])));
    let input = bson!([{ "t": "a" }, { "t": "b" }, { "t": "b" }, {}]);
    let expected = bson!([
        { "_id": "b", "count": 2 }, { "_id": "a", "count": 1 }, { "_id": null, "count": 1 },
    ]);
    assert_eq!(run(input, bson!([{ "$sortByCount": "$t" }])), Ok(expected));
}

#[test]
fn refusals() {
    let bucket = |field: &str, value: bson::Bson| {
        let mut spec = bson::doc! { "groupBy": "$v", "boundaries": [0, 5] };
        spec.insert(field, value);
        bson!({ "$bucket": spec })
    };
    let cases = [
        (bson!({ "$group": 1 }), 15947),
        (bson!({ "$group": {} }), 15955),
        (bson!({ "$group": { "_id": 1, "x": 1 } }), 40234),
        (bson!({ "$group": { "_id": 1, "x": { "$foo": 1 } } }), 15952),
        (
            bson!({ "$group": { "_id": 1, "x": { "$sum": 1, "$avg": 1 } } }),
            40238,
        ),
        (
            bson!({ "$group": { "_id": 1, "x.y": { "$sum": 1 } } }),
            40235,
        ),
        (
            bson!({ "$group": { "_id": 1, "$x": { "$sum": 1 } } }),
            40236,
        ),
        (bson!({ "$group": { "_id": { "$foo": 1 } } }), 168),
        (bson!({ "$bucket": 1 }), 40201),
        (bson!({ "$bucket": {} }), 40198),
        (bucket("x", bson!(1)), 40197),
        (bucket("groupBy", bson!(1)), 40202),
        (bucket("groupBy", bson!("v")), 40202),
        (bucket("boundaries", bson!(1)), 40200),
        (bucket("boundaries", bson!([1])), 40192),
        (bucket("boundaries", bson!(["$v", 1])), 40191),
        (bucket("boundaries", bson!([1, "a"])), 40193),
        (bucket("boundaries", bson!([2, 1])), 40194),
        (bucket("default", bson!(3)), 40199),
        (bucket("default", bson!("$v")), 40195),
        (bucket("output", bson!(1)), 40196),
        (bson!({ "$sortByCount": {} }), 40147),
        (bson!({ "$sortByCount": "v" }), 40148),
        (bson!({ "$sortByCount": 1 }), 40149),
    ];
    for (stage, code) in cases {
        let error = parse(bson!([stage.clone()])).unwrap_err();
        assert_eq!(error.code, code, "{stage}: {error}");
    }
}
