//! Tests of sorts against MongoDB's manual ("Comparison/Sort Order", "Sort in MongoDB").

use std::cmp::Ordering;

use bson::{DateTime, doc};

use super::*;

const BYTES_MAX: usize = 1 << 20;

fn sorted(sort: &Document, limit: Option<usize>, documents: &[Document]) -> Vec<i32> {
    let mut top = TopK::new(Sort::parse(sort).unwrap(), limit, BYTES_MAX);
    for document in documents {
        top.push(document.clone()).unwrap();
    }
    let ids = top.finish().into_iter().map(|d| d.get_i32("_id").unwrap());
    ids.collect()
}

#[test]
fn types_have_an_order() {
    let values = [
        Bson::MaxKey,
        DateTime::from_millis(0).into(),
        Bson::from(true),
        Bson::from(doc! { "a": 1 }),
        Bson::from("a"),
        Bson::from(1),
        Bson::from(f64::NAN),
        Bson::Null,
        Bson::Array(vec![]),
        Bson::MinKey,
    ];
    let ids = (0..)
        .zip(values)
        .map(|(id, value)| doc! { "_id": id, "v": value });
    let documents: Vec<Document> = ids.collect();
    let least_first = sorted(&doc! { "v": 1 }, None, &documents);
    assert_eq!(least_first, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
    let greatest_first = sorted(&doc! { "v": -1 }, None, &documents);
    assert_eq!(greatest_first, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn arrays_sort_by_their_least_or_greatest_element() {
    let documents = [
        doc! { "_id": 0, "a": 3 },
        doc! { "_id": 1, "a": [1, 9] },
        doc! { "_id": 2, "a": [] },
        doc! { "_id": 3 },
        doc! { "_id": 4, "a": null },
        doc! { "_id": 5, "a": "x" },
        doc! { "_id": 6, "a": 3.0 },
        doc! { "_id": 7, "a": [[0]] },
    ];
    let sorted = |sort: Document, limit| sorted(&sort, limit, &documents);
    assert_eq!(sorted(doc! { "a": 1 }, None), [2, 3, 4, 1, 0, 6, 5, 7]);
    assert_eq!(sorted(doc! { "a": -1 }, None), [7, 5, 1, 0, 6, 3, 4, 2]);
    assert_eq!(sorted(doc! { "a": 1, "_id": -1_i64 }, Some(3)), [2, 4, 3]);
    assert_eq!(sorted(doc! {}, Some(2)), [0, 1]);
    assert!(sorted(doc! { "a": 1 }, Some(0)).is_empty());
}

#[test]
fn the_key_of_a_path_comes_from_one_element() {
    for (sort, document, expected) in [
        (
            doc! { "a.b": 1 },
            doc! { "a": { "b": 5 } },
            vec![Bson::from(5)],
        ),
        (doc! { "a.b": 1 }, doc! { "a": 5 }, vec![Bson::Null]),
        (doc! { "a.b": 1 }, doc! { "a": [] }, vec![Bson::Null]),
        (
            doc! { "a.b": 1 },
            doc! { "a": [{ "b": [] }] },
            vec![Bson::Undefined],
        ),
        (
            doc! { "a.b": 1 },
            doc! { "a": [{ "b": 5 }, 7] },
            vec![Bson::Null],
        ),
        (
            doc! { "a.b": -1 },
            doc! { "a": [{ "b": 5 }, 7] },
            vec![5.into()],
        ),
        (doc! { "a.1": 1 }, doc! { "a": [3, 2, 1] }, vec![2.into()]),
        (
            doc! { "a.0.b": 1 },
            doc! { "a": [{ "b": 9 }, { "b": 1 }] },
            vec![9.into()],
        ),
        // The element with the least `b`, and of these the one with the greatest `c`.
        (
            doc! { "a.b": 1, "a.c": -1 },
            doc! { "a": [{ "b": 1, "c": 5 }, { "b": 1, "c": 7 }, { "b": 2, "c": 9 }] },
            vec![1.into(), 7.into()],
        ),
        // Parallel arrays count each for itself.
        (
            doc! { "a": 1, "b": -1 },
            doc! { "a": [3, 1, 2], "b": [4, 6, 5] },
            vec![1.into(), 6.into()],
        ),
    ] {
        let sort = Sort::parse(&sort).unwrap();
        let key = sort.key(&document);
        assert_eq!(key.values(), expected, "{document}");
    }
}

#[test]
fn the_first_of_very_many_are_found_in_little_memory() {
    let document = |n: i32| doc! { "_id": n, "a": n.wrapping_mul(7919) % 10_007 / 2 };
    let documents: Vec<Document> = (0..10_007).map(document).collect();
    let mut expected: Vec<(i32, i32)> = documents
        .iter()
        .map(|d| (d.get_i32("a").unwrap(), d.get_i32("_id").unwrap()))
        .collect();
    expected.sort_unstable();
    let expected: Vec<i32> = expected[..10].iter().map(|(_, id)| *id).collect();
    let mut top = TopK::new(Sort::parse(&doc! { "a": 1 }).unwrap(), Some(10), 4096);
    for document in documents {
        top.push(document).unwrap();
    }
    let found = top.finish().into_iter().map(|d| d.get_i32("_id").unwrap());
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn keys_compare_in_the_directions_of_the_sort() {
    let sort = Sort::parse(&doc! { "a": 1, "b": -1.5 }).unwrap();
    let key = |a: i32, b: i32| sort.key(&doc! { "a": a, "b": b });
    assert_eq!(key(1, 1).cmp(&key(2, 1)), Ordering::Less);
    assert_eq!(key(1, 1).cmp(&key(1, 2)), Ordering::Greater);
    assert_eq!(key(1, 1).cmp(&key(1, 1)), Ordering::Equal);
}

#[test]
fn a_sort_that_cannot_be_understood_is_refused() {
    let many: Document = (0..33).map(|n| (format!("f{n}"), Bson::from(1))).collect();
    for (sort, code) in [
        (doc! { "a": 2 }, 15975),
        (doc! { "a": 0 }, 15975),
        (doc! { "a": f64::NAN }, 15975),
        (doc! { "a": "x" }, 15974),
        (doc! { "a": null }, 15974),
        (doc! { "a": { "$meta": "textScore" } }, 115),
        (doc! { "a": { "b": 1 } }, 115),
        (doc! { "$a": 1 }, 16410),
        (doc! { "a..b": 1 }, 15998),
        (doc! { "": 1 }, 40352),
        (many, 13103),
    ] {
        assert_eq!(Sort::parse(&sort).unwrap_err().code, code, "{sort}");
    }
}

#[test]
fn a_sort_beyond_its_memory_is_refused() {
    let mut top = TopK::new(Sort::parse(&doc! { "a": 1 }).unwrap(), None, 1000);
    let pushed = (0..100).try_for_each(|n| top.push(doc! { "a": n }));
    assert_eq!(pushed.unwrap_err().code, 292);
}
