//! Documents that are equal in what a pipeline reads are counted as one.

use std::collections::BTreeMap;

use bson::{Bson, DateTime, Document, bson, doc};
use proptest::prelude::*;

use super::{aggregate, documents, parse};
use crate::mongo::expression::DateGrain;
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
        for (part, times) in parts {
            run.push_times(part, times).unwrap();
        }
        run.finish(&mut results).unwrap();
        prop_assert_eq!(by_id(results), expected);
        prop_assert_eq!(context.kept.kept(), 0);
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
}
