//! Tables of pipelines, after the pages of "Aggregation Stages" in MongoDB's manual.

mod bounds;
mod counted;
mod groups;
mod projections;
mod recipe;

use bson::{Bson, Document, bson, doc};

use super::*;
use crate::mongo::error::QueryError;

fn documents(values: Bson) -> Vec<Document> {
    match values {
        Bson::Array(values) => values.into_iter().map(document).collect(),
        other => panic!("{other}"),
    }
}

fn document(value: Bson) -> Document {
    match value {
        Bson::Document(document) => document,
        other => panic!("{other}"),
    }
}

/// Returns the results of stages over documents.
fn aggregate(documents: Vec<Document>, stages: &[Document]) -> Result<Vec<Document>> {
    let pipeline = Pipeline::parse(stages, &ExpressionScope::default())?;
    let context = PipelineContext::new(DateTime::from_millis(0), 64 << 20);
    let (mut run, mut results) = (pipeline.start(0, &context), Vec::new());
    for document in documents {
        if run.push(document, &mut results)? == StageFlow::Done {
            break;
        }
    }
    run.finish(&mut results)?;
    assert_eq!(context.kept.kept(), 0);
    Ok(results)
}

/// Returns the results of stages over documents, all of them in one value.
fn run(input: Bson, stages: Bson) -> Result<Bson, QueryError> {
    let results = aggregate(documents(input), &documents(stages))?;
    Ok(Bson::Array(
        results.into_iter().map(Bson::Document).collect(),
    ))
}

fn parse(stages: Bson) -> Result<Pipeline> {
    Pipeline::parse(&documents(stages), &ExpressionScope::default())
}

#[test]
fn simple_stages() {
    let input = bson!([{ "_id": 1, "v": 3 }, { "_id": 2, "v": 1 }, { "_id": 3, "v": 2 }]);
    let cases = [
        (bson!([]), input.clone()),
        (
            bson!([{ "$match": { "v": { "$gt": 1 } } }, { "$project": { "v": 1, "_id": 0 } }]),
            bson!([{ "v": 3 }, { "v": 2 }]),
        ),
        (
            bson!([{ "$sort": { "v": 1 } }, { "$limit": 2 }]),
            bson!([{ "_id": 2, "v": 1 }, { "_id": 3, "v": 2 }]),
        ),
        (
            bson!([{ "$sort": { "v": -1 } }, { "$limit": 1_i64 }]),
            bson!([{ "_id": 1, "v": 3 }]),
        ),
        (bson!([{ "$skip": 2 }]), bson!([{ "_id": 3, "v": 2 }])),
        (
            bson!([{ "$skip": 0 }, { "$limit": 1.0 }]),
            bson!([{ "_id": 1, "v": 3 }]),
        ),
        (bson!([{ "$count": "n" }]), bson!([{ "n": 3 }])),
        (
            bson!([{ "$match": { "v": 9 } }, { "$count": "n" }]),
            bson!([]),
        ),
        (
            bson!([{ "$limit": 1 }, { "$replaceRoot": { "newRoot": { "w": "$v" } } }]),
            bson!([{ "w": 3 }]),
        ),
        (
            bson!([{ "$limit": 1 }, { "$replaceWith": "$$ROOT" }]),
            bson!([{ "_id": 1, "v": 3 }]),
        ),
        (
            bson!([{ "$facet": {
            "count": [{ "$count": "n" }],
            "first": [{ "$limit": 1 }, { "$project": { "v": 1, "_id": 0 } }],
            "none": [{ "$match": { "v": 9 } }],
            "all": [{ "$group": { "_id": null, "sum": { "$sum": "$v" } } }],
         } }]),
            bson!([{
               "count": [{ "n": 3 }],
               "first": [{ "v": 3 }],
               "none": [],
               "all": [{ "_id": null, "sum": 6 }],
            }]),
        ),
    ];
    for (stages, expected) in cases {
        assert_eq!(run(input.clone(), stages.clone()), Ok(expected), "{stages}");
    }
}

#[test]
fn unwinding() {
    // "$unwind": "Missing or Non-array Values", "preserveNullAndEmptyArrays", "includeArrayIndex".
    let input = bson!([
        { "_id": 1, "s": ["S", "M"], "z": 1 },
        { "_id": 2, "s": [] },
        { "_id": 3, "s": "M" },
        { "_id": 4 },
        { "_id": 5, "s": null },
    ]);
    let plain = bson!([
        { "_id": 1, "s": "S", "z": 1 }, { "_id": 1, "s": "M", "z": 1 }, { "_id": 3, "s": "M" },
    ]);
    assert_eq!(
        run(input.clone(), bson!([{ "$unwind": "$s" }])),
        Ok(plain.clone())
    );
    assert_eq!(
        run(input.clone(), bson!([{ "$unwind": { "path": "$s" } }])),
        Ok(plain)
    );
    let indexed = bson!([
        { "_id": 1, "s": "S", "z": 1, "i": 0_i64 },
        { "_id": 1, "s": "M", "z": 1, "i": 1_i64 },
        { "_id": 3, "s": "M", "i": null },
    ]);
    let stage = bson!([{ "$unwind": { "path": "$s", "includeArrayIndex": "i" } }]);
    assert_eq!(run(input.clone(), stage), Ok(indexed));
    let kept = bson!([
        { "_id": 1, "s": "S", "z": 1 }, { "_id": 1, "s": "M", "z": 1 }, { "_id": 2 },
        { "_id": 3, "s": "M" }, { "_id": 4 }, { "_id": 5, "s": null },
    ]);
    let stage = bson!([{ "$unwind": { "path": "$s", "preserveNullAndEmptyArrays": true } }]);
    assert_eq!(run(input, stage), Ok(kept));
    let nested = bson!([{ "a": { "b": [1, [2]], "c": 0 } }, { "a": [{ "b": [1] }] }]);
    let stage = bson!([{ "$unwind": { "path": "$a.b", "includeArrayIndex": "a.i" } }]);
    let expected = bson!([
        { "a": { "b": 1, "c": 0, "i": 0_i64 } }, { "a": { "b": [2], "c": 0, "i": 1_i64 } },
    ]);
    assert_eq!(run(nested, stage), Ok(expected));
}

#[test]
fn refusals() {
    let cases = [
        (bson!({}), 40323),
        (bson!({ "$limit": 1, "$skip": 1 }), 40323),
        (bson!({ "$foo": 1 }), 40324),
        (bson!({ "limit": 1 }), 40324),
        (bson!({ "$lookup": {} }), 115),
        (bson!({ "$unionWith": "c" }), 115),
        (bson!({ "$sample": { "size": 1 } }), 115),
        (bson!({ "$match": 1 }), 15959),
        (bson!({ "$sort": 1 }), 15973),
        (bson!({ "$sort": {} }), 15976),
        (bson!({ "$limit": 0 }), 15958),
        (bson!({ "$limit": -1 }), 5_107_201),
        (bson!({ "$limit": 1.5 }), 5_107_201),
        (bson!({ "$limit": "1" }), 5_107_201),
        (bson!({ "$skip": -1 }), 5_107_200),
        (bson!({ "$count": 1 }), 40156),
        (bson!({ "$count": "" }), 40157),
        (bson!({ "$count": "$x" }), 40158),
        (bson!({ "$count": "a.b" }), 40160),
        (bson!({ "$replaceRoot": 1 }), 40229),
        (bson!({ "$replaceRoot": { "x": 1 } }), 40230),
        (bson!({ "$replaceRoot": {} }), 40231),
        (bson!({ "$replaceRoot": { "newRoot": "$_id" } }), 40228),
        (bson!({ "$replaceWith": "$missing" }), 40228),
        (bson!({ "$unwind": 1 }), 15981),
        (bson!({ "$unwind": "a" }), 28818),
        (bson!({ "$unwind": {} }), 28812),
        (bson!({ "$unwind": { "path": 1 } }), 28808),
        (
            bson!({ "$unwind": { "path": "$a", "preserveNullAndEmptyArrays": 1 } }),
            28809,
        ),
        (
            bson!({ "$unwind": { "path": "$a", "includeArrayIndex": "" } }),
            28810,
        ),
        (
            bson!({ "$unwind": { "path": "$a", "includeArrayIndex": "$i" } }),
            28822,
        ),
        (bson!({ "$unwind": { "path": "$a", "x": 1 } }), 28811),
        (bson!({ "$facet": 1 }), 40169),
        (bson!({ "$facet": {} }), 40169),
        (bson!({ "$facet": { "a": 1 } }), 40170),
        (bson!({ "$facet": { "a": [1] } }), 40171),
        (
            bson!({ "$facet": { "a": [{ "$facet": { "b": [] } }] } }),
            40600,
        ),
        (bson!({ "$facet": { "a": [{ "$out": "c" }] } }), 40600),
        (bson!({ "$out": 1 }), 16990),
        (bson!({ "$out": { "db": "d" } }), 16990),
        (bson!({ "$merge": 1 }), 51182),
        (bson!({ "$merge": { "into": 1 } }), 51178),
        (bson!({ "$merge": { "into": "c", "whenMatched": "x" } }), 2),
        (bson!({ "$merge": { "into": "c", "on": [] } }), 51186),
        (bson!({ "$merge": { "into": "c", "x": 1 } }), 40415),
    ];
    for (stage, code) in cases {
        let error = run(bson!([{ "_id": 1 }]), bson!([stage.clone()])).unwrap_err();
        assert_eq!(error.code, code, "{stage}: {error}");
    }
    let error = parse(bson!([{ "$out": "c" }, { "$limit": 1 }])).unwrap_err();
    assert_eq!(error.code, 40601);
}

#[test]
fn sinks() {
    let sink = |stage: Bson| parse(bson!([{ "$limit": 1 }, stage])).unwrap().sink;
    let target = |database: Option<&str>, collection: &str| SinkCollection {
        database: database.map(str::to_owned),
        collection: collection.to_owned(),
    };
    assert_eq!(
        sink(bson!({ "$out": "c" })),
        Some(PipelineSink::Out(target(None, "c")))
    );
    let out = sink(bson!({ "$out": { "db": "d", "coll": "c" } }));
    assert_eq!(out, Some(PipelineSink::Out(target(Some("d"), "c"))));
    let merge = PipelineSink::Merge {
        into: target(None, "c"),
        on: vec!["_id".to_owned()],
        when_matched: WhenMatched::Merge,
        when_not_matched: WhenNotMatched::Insert,
    };
    assert_eq!(sink(bson!({ "$merge": "c" })), Some(merge));
    let merge = sink(bson!({ "$merge": {
        "into": "c", "on": ["a", "b"], "whenMatched": [{ "$set": { "x": 1 } }],
        "whenNotMatched": "discard",
    } }));
    let expected = PipelineSink::Merge {
        into: target(None, "c"),
        on: vec!["a".to_owned(), "b".to_owned()],
        when_matched: WhenMatched::Pipeline {
            stages: vec![doc! { "$set": { "x": 1 } }],
            variables: None,
        },
        when_not_matched: WhenNotMatched::Discard,
    };
    assert_eq!(merge, Some(expected));
    assert_eq!(parse(bson!([{ "$limit": 1 }])).unwrap().sink(), None);
}
