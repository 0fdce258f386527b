//! Tests of the updates that are counters, and of the reasons why others are not.

use super::*;

fn parse(update: &Document) -> Result<CounterUpdate> {
    CounterUpdate::parse(&update.to_vec().unwrap())
}

#[test]
fn an_upsert_by_increments_is_read() {
    let update = doc! {
        "q": { "_id": "20001010/a", "metadata": { "site": "a" }, "n.m": { "$eq": 5 } },
        "u": {
            "$inc": { "hourly.14": 1, "daily": 2_i64, "by": -3.0 },
            "$setOnInsert": { "metadata.page": "/" },
        },
        "upsert": true,
        "multi": false,
    };
    let found = parse(&update);
    assert_eq!(
        found.unwrap(),
        CounterUpdate {
            id: "20001010/a".into(),
            fixed: doc! { "metadata": { "site": "a", "page": "/" }, "n": { "m": 5 } },
            increments: vec![
                ("hourly.14".to_owned(), 1),
                ("daily".to_owned(), 2),
                ("by".to_owned(), -3),
            ],
            is_upsert: true,
        }
    );
}

#[test]
fn another_update_is_refused_with_its_reason() {
    let inc = doc! { "$inc": { "n": 1 } };
    for (q, u, code) in [
        (doc! {}, inc.clone(), 115),
        (doc! { "_id": { "$gt": 1 } }, inc.clone(), 115),
        (doc! { "_id": 1, "$or": [] }, inc, 115),
        (doc! { "_id": 1 }, doc! { "$set": { "n": 1 } }, 115),
        (doc! { "_id": 1 }, doc! { "n": 1 }, 115),
        (doc! { "_id": 1 }, doc! { "$inc": { "n": 0.5 } }, 14),
        (doc! { "_id": 1 }, doc! { "$inc": { "n": "1" } }, 14),
        (doc! { "_id": 1 }, doc! { "$inc": { "n..m": 1 } }, 2),
        (doc! { "_id": 1 }, doc! { "$inc": { "_id": 1 } }, 2),
        (doc! { "_id": 1 }, doc! { "$inc": { "$n": 1 } }, 2),
        (doc! { "_id": [1] }, doc! { "$inc": { "n": 1 } }, 2),
        (doc! { "_id": 1 }, doc! { "$inc": { "n": 1, "n.m": 1 } }, 40),
        (
            doc! { "_id": 1 },
            doc! { "$inc": { "n": 1 }, "$setOnInsert": { "n": 1 } },
            40,
        ),
        (
            doc! { "_id": 1, "text": "x".repeat(70_000) },
            doc! { "$inc": { "n": 1 } },
            2,
        ),
        (
            doc! { "_id": 1, "a": 1 },
            doc! { "$setOnInsert": { "a.b": 1 } },
            40,
        ),
        (
            doc! { "_id": 1, "a": 1 },
            doc! { "$setOnInsert": { "a": 1 } },
            40,
        ),
    ] {
        let update = doc! { "q": q, "u": u };
        assert_eq!(parse(&update).unwrap_err().code, code, "{update}");
    }
    let pipeline = doc! { "q": { "_id": 1 }, "u": [{ "$set": { "n": 1 } }] };
    assert_eq!(parse(&pipeline).unwrap_err().code, 115);
    let option = doc! { "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } }, "arrayFilters": [] };
    assert_eq!(parse(&option).unwrap_err().code, 115);
}
