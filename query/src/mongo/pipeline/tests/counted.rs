//! Documents that are equal in what a pipeline reads are counted as one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use bson::{Bson, DateTime, Document, bson, doc};
use proptest::prelude::*;

use super::{aggregate, documents, parse};
use crate::mongo::expression::DateGrain;
use crate::mongo::pipeline::columns::documents::{DocumentRows, group_documents};
use crate::mongo::pipeline::{Pipeline, PipelineContext};

fn scalar() -> impl Strategy<Value = Option<Bson>> {
    prop_oneof![
        Just(None),
        (-2..3_i32).prop_map(|n| Some(n.into())),
        (0..2_i64).prop_map(|n| Some((n << 40).into())),
        (0..3_i32).prop_map(|n| Some((f64::from(n) / 2.0).into())),
        "[ab]?".prop_map(|text| Some(text.into())),
        Just(Some(true.into())),
        Just(Some(Bson::Null)),
    ]
}

/// Documents without arrays, whose times are some hours.
fn events() -> impl Strategy<Value = Vec<Document>> {
    let time = prop_oneof![Just(None), (-50..50_i64).prop_map(Some)];
    let event = (scalar(), scalar(), scalar(), time).prop_map(|(a, b, c, hours)| {
        let mut event = Document::new();
        let hours = hours.map(|hours| DateTime::from_millis(hours * 3_600_000 + 1234).into());
        for (name, value) in [("a", a), ("b", b), ("t", hours)] {
            event.extend(value.map(|value| (name.to_owned(), value)));
        }
        event.extend(c.map(|c| ("n".to_owned(), doc! { "c": c }.into())));
        event
    });
    proptest::collection::vec(event, 0..40)
}

fn pipelines() -> impl Strategy<Value = Vec<Document>> {
    let project = prop_oneof![
        Just(None),
        Just(Some(
            bson!({ "$project": { "a": 1, "x": "$b", "d": { "y": { "$year": "$t" } } } })
        )),
        Just(Some(
            bson!({ "$addFields": { "x": { "$hour": "$t" }, "d.y": "$n.c" } })
        )),
        Just(Some(
            bson!({ "$addFields": { "a.y": { "$hour": "$t" }, "d.x.y": "$b" } })
        )),
        Just(Some(
            bson!({ "$project": { "b.c": 1, "d": { "x": { "y": { "$ifNull": ["$a", 0] } } } } })
        )),
        Just(Some(bson!({ "$project": { "a.c": 0, "n": 0 } }))),
        Just(Some(bson!({ "$addFields": { "n.x": "$b", "d": "$n" } }))),
        Just(Some(bson!({ "$project": { "n.c": 0 } }))),
        Just(Some(bson!({ "$project": { "b": 0, "n.c": 0 } }))),
        Just(Some(
            bson!({ "$project": { "n": 1, "a": { "$ifNull": ["$a", "none"] } } })
        )),
    ];
    let by = prop_oneof![
        Just(bson!("$a")),
        Just(bson!(null)),
        Just(bson!({ "a": "$a", "x": "$x" })),
        Just(bson!({ "y": "$d.y", "d": "$d" })),
        Just(bson!({ "$dateTrunc": { "date": "$t", "unit": "day" } })),
        Just(bson!({ "n": "$n.c", "w": { "$dayOfWeek": "$t" } })),
        Just(bson!({ "in": { "h": { "$hour": "$t" }, "none": "$none" }, "c": 0.5 })),
        Just(bson!({ "$ifNull": ["$x", "none"] })),
        Just(bson!({ "x": "$d.x.y", "s": { "$type": "$d.y" } })),
        Just(bson!({ "t": { "$type": "$b" }, "x": "$x" })),
    ];
    let value = prop_oneof![
        Just(bson!(1)),
        Just(bson!("$b")),
        Just(bson!("$n.c")),
        Just(bson!({ "$year": "$t" })),
        Just(bson!({ "$cond": [{ "$gt": ["$a", 0] }, 1, { "$ifNull": ["$b", 0.1] }] })),
        Just(bson!(0.1)),
    ];
    let function = prop_oneof![
        Just("$sum"),
        Just("$avg"),
        Just("$min"),
        Just("$max"),
        Just("$addToSet")
    ];
    (project, by, value, function).prop_map(|(project, by, value, function)| {
        let group = bson!({ "$group": {
            "_id": by, "n": { "$count": {} }, "value": { function: value },
        } });
        documents(Bson::Array(project.into_iter().chain([group]).collect()))
    })
}

/// Returns the part of a document that is read, dates cut to their grain.
fn read_part(event: &Document, pipeline: &Pipeline) -> Option<Document> {
    let uses = pipeline.counted_inputs(0)?;
    let mut part = Document::new();
    for (path, grain) in uses.fields()? {
        let name = path.split('.').next().unwrap_or(path);
        let Some(value) = event.get(name) else {
            continue;
        };
        let unit_ms = match grain {
            DateGrain::Day => 86_400_000,
            DateGrain::Hour => 3_600_000,
            _ => 1,
        };
        part.insert(
            name,
            match value {
                Bson::DateTime(time) => {
                    let ms = time.timestamp_millis();
                    Bson::DateTime(DateTime::from_millis(ms - ms.rem_euclid(unit_ms)))
                }
                value => value.clone(),
            },
        );
    }
    Some(part)
}

/// Returns the results by their `_id`s, in any order; sets as sorted texts.
fn by_id(results: Vec<Document>) -> BTreeMap<String, String> {
    let results = results.into_iter().map(|mut result| {
        if let Some(Bson::Array(items)) = result.get_mut("value") {
            items.sort_by_key(ToString::to_string);
        }
        let id = result.remove("_id").map(|id| id.to_string());
        (id.unwrap_or_default(), result.to_string())
    });
    results.collect()
}

proptest! {
    #[test]
    fn equal_documents_are_counted_as_one(events in events(), stages in pipelines()) {
        let pipeline = parse(Bson::Array(stages.iter().cloned().map(Bson::Document).collect()));
        let pipeline = pipeline.unwrap();
        let expected = by_id(aggregate(events.clone(), &stages).unwrap());
        let mut parts: Vec<(Document, u64)> = Vec::new();
        for event in &events {
            let part = read_part(event, &pipeline).expect("a pipeline that counts");
            match parts.iter_mut().find(|(known, _)| *known == part) {
                Some((_, times)) => *times += 1,
                None => parts.push((part, 1)),
            }
        }
        let context = PipelineContext::new(DateTime::from_millis(0), 64 << 20);
        let (mut run, mut results) = (pipeline.start(0, &context), Vec::new());
        for (part, times) in &parts {
            run.push_times(part.clone(), *times).unwrap();
        }
        run.finish(&mut results).unwrap();
        let (parts, times): (Vec<Document>, Vec<u64>) = parts.into_iter().unzip();
        if let Some(groups) = pipeline.start_columns(0, &context) {
            let (of_columns, taken) = group_documents(groups, &parts, &times).unwrap();
            TAKEN.fetch_add(taken, Ordering::Relaxed);
            prop_assert_eq!(&of_columns, &results, "{} taken", taken);
            prop_assert_eq!(context.kept.kept(), 0);
        }
        prop_assert_eq!(by_id(results), expected);
        prop_assert_eq!(context.kept.kept(), 0);
    }
}

/// Documents that were grouped as columns.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

#[test]
fn groups_of_columns_are_those_of_documents() {
    equal_documents_are_counted_as_one();
    assert!(TAKEN.load(Ordering::Relaxed) > 500);
}

/// Returns the groups of documents as columns, and the number of those that were taken as such.
fn of_columns(stages: Bson, documents: &[Document]) -> (Vec<Document>, usize) {
    let pipeline = parse(stages).unwrap();
    let context = PipelineContext::new(DateTime::from_millis(0), 64 << 20);
    let groups = pipeline.start_columns(0, &context).expect("shapes");
    let grouped = group_documents(groups, documents, &vec![2; documents.len()]).unwrap();
    assert_eq!(context.kept.kept(), 0);
    grouped
}

#[test]
fn hits_by_page_and_day_are_grouped_as_columns() {
    let day = |ms: i64| DateTime::from_millis(ms);
    let stages = bson!([
        { "$project": { "path": 1, "date": { "y": { "$year": "$t" }, "d": { "$dayOfMonth": "$t" } } } },
        { "$group": { "_id": { "p": "$path", "y": "$date.y", "d": "$date.d" }, "hits": { "$sum": 1 } } },
        { "$sort": { "_id.p": 1 } },
    ]);
    let events = [
        doc! { "path": "/b", "t": day(0) },
        doc! { "t": day(0) },
        doc! { "path": "/b", "t": day(1) },
    ];
    let expected = [
        doc! { "_id": { "y": 1970, "d": 1 }, "hits": 2 },
        doc! { "_id": { "p": "/b", "y": 1970, "d": 1 }, "hits": 4 },
    ];
    let (results, taken) = of_columns(stages, &events);
    assert_eq!((results, taken), (expected.to_vec(), 3));
}

#[test]
fn numbers_that_are_equal_are_one_group_of_columns_and_documents() {
    let stages = bson!([{ "$group": { "_id": "$a", "n": { "$sum": 1 }, "m": { "$min": "$b" } } }]);
    let events = [
        doc! { "a": 1, "b": "x" },
        doc! { "a": "1", "b": 7 },
        doc! { "a": 1.0, "b": "a" },
        doc! { "a": 1_i64 },
        doc! { "a": null },
        doc! {},
    ];
    let expected = [
        doc! { "_id": 1, "n": 6, "m": "a" },
        doc! { "_id": "1", "n": 2, "m": 7 },
        doc! { "_id": null, "n": 4, "m": null },
    ];
    let (results, taken) = of_columns(stages, &events);
    assert_eq!((results, taken), (expected.to_vec(), 2));
}

#[test]
fn groups_that_become_those_of_documents_keep_their_bytes() {
    let stages = bson!([{ "$group": { "_id": "$a", "s": { "$addToSet": "$b" } } }]);
    let pipeline = parse(stages).unwrap();
    let context = PipelineContext::new(DateTime::from_millis(0), 64 << 20);
    let mut groups = pipeline.start_columns(0, &context).expect("shapes");
    let texts = (0..100).map(|n| doc! { "a": 1, "b": format!("{n:1000}") });
    let documents: Vec<Document> = texts.collect();
    let rows = DocumentRows::new(&documents);
    assert_eq!(groups.push(&rows, 0..100, &[1; 100]), Ok(100));
    let kept = context.kept.kept();
    assert!(kept > 100_000);
    let mut run = groups.into_run().unwrap();
    assert!(context.kept.kept() >= kept);
    let mut results = Vec::new();
    run.finish(&mut results).unwrap();
    assert_eq!(results[0].get_array("s").unwrap().len(), 100);
    assert_eq!(context.kept.kept(), 0);
}

#[test]
fn functions_together_remember_bounded_bytes() {
    let mut fields = doc! { "_id": null };
    for nth in 0..20 {
        let text = doc! { "$concat": [format!("{nth}"), "$a"] };
        fields.insert(format!("v{nth}"), doc! { "$max": text });
    }
    let pipeline = parse(bson!([{ "$group": fields }])).unwrap();
    let context = PipelineContext::new(DateTime::from_millis(0), 64 << 20);
    let mut groups = pipeline.start_columns(0, &context).expect("shapes");
    let mut documents: Vec<Document> = (0..3000)
        .map(|n| doc! { "a": format!("{n:300}") })
        .collect();
    documents.push(doc! { "a": "z".repeat(400_000) });
    let rows = DocumentRows::new(&documents);
    assert_eq!(groups.push(&rows, 0..3001, &[1; 3001]), Ok(3001));
    let remembered = groups.remembered_bytes();
    assert!((1..6 << 20).contains(&remembered), "{remembered}");
    let mut run = groups.into_run().unwrap();
    let mut results = Vec::new();
    run.finish(&mut results).unwrap();
    assert_eq!(results[0].get_str("v7").unwrap().len(), 400_001);
}

#[test]
fn a_projection_whose_values_nobody_reads_is_not_of_columns() {
    for stages in [
        bson!([{ "$project": { "x": { "$year": "$a" } } }, { "$group": { "_id": "$b" } }]),
        bson!([{ "$addFields": { "n": { "$literal": {} } } }, { "$addFields": { "n.x": 1 } }, { "$group": { "_id": "$b" } }]),
        bson!([{ "$group": { "_id": { "$add": ["$a", "$b"] } } }]),
        bson!([{ "$group": { "_id": "$a.b" } }]),
        bson!([{ "$group": { "_id": "$$NOW" } }]),
        bson!([{ "$bucket": { "groupBy": "$a", "boundaries": [0, 1] } }]),
        bson!([{ "$count": "n" }]),
    ] {
        let pipeline = parse(stages.clone()).unwrap();
        let context = PipelineContext::new(DateTime::from_millis(0), 64 << 20);
        assert!(pipeline.start_columns(0, &context).is_none(), "{stages}");
    }
}

#[test]
fn a_pipeline_that_minds_single_documents_is_not_counted() {
    for stages in [
        bson!([{ "$group": { "_id": null, "f": { "$first": "$a" } } }]),
        bson!([{ "$group": { "_id": null, "f": { "$push": "$a" } } }]),
        bson!([{ "$group": { "_id": "$$ROOT" } }]),
        bson!([{ "$limit": 5 }, { "$group": { "_id": null } }]),
        bson!([{ "$unwind": "$a" }, { "$count": "n" }]),
        bson!([{ "$project": { "a": 1 } }]),
        bson!([]),
    ] {
        assert!(
            parse(stages.clone()).unwrap().counted_inputs(0).is_none(),
            "{stages}"
        );
    }
    let counts = parse(bson!([{ "$match": { "a": 1 } }, { "$count": "n" }])).unwrap();
    let uses = counts.counted_inputs(1).unwrap();
    assert!(uses.fields().unwrap().is_empty());
    // A year of a text is refused, whether it is read or not.
    let unread = bson!([{ "$project": { "a": 1, "d.y": { "$year": "$b" } } }, { "$count": "n" }]);
    let uses = parse(unread).unwrap().counted_inputs(0).unwrap();
    let read: Vec<&String> = uses.fields().unwrap().keys().collect();
    assert_eq!(read, ["b"]);
}
