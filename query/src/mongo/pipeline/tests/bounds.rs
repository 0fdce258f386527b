//! The memory of pipelines, and their early end.

use bson::{Bson, DateTime, bson, doc};

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;

fn start(stages: Bson, bytes_max: usize) -> (PipelineRun, KeptBytes) {
    let context = PipelineContext::new(DateTime::from_millis(0), bytes_max);
    let run = parse(stages).unwrap().start(0, &context);
    (run, context.kept)
}

#[test]
fn stages_that_keep_documents_have_a_limit() {
    for stages in [
        bson!([{ "$sort": { "n": 1 } }]),
        bson!([{ "$group": { "_id": "$n" } }]),
        bson!([{ "$group": { "_id": null, "all": { "$push": "$$ROOT" } } }]),
        bson!([{ "$group": { "_id": null, "all": { "$addToSet": "$n" } } }]),
        bson!([{ "$facet": { "a": [{ "$match": {} }] } }]),
        bson!([{ "$facet": { "a": [{ "$sort": { "n": 1 } }] } }]),
    ] {
        let (mut run, budget) = start(stages.clone(), 100_000);
        let mut out = Vec::new();
        let mut push = |n: i32| run.push(doc! { "n": n, "text": "x".repeat(100) }, &mut out);
        let failed = (0..10_000).find_map(|n| push(n).err());
        assert_eq!(failed.map(|error| error.code), Some(292), "{stages}");
        assert!(budget.kept() < 110_000);
    }
}

#[test]
fn a_sort_with_a_limit_keeps_few_documents() {
    let (mut run, budget) = start(bson!([{ "$sort": { "n": 1 } }, { "$limit": 3 }]), 10_000);
    let mut out = Vec::new();
    for n in (0..10_000).rev() {
        run.push(doc! { "n": n }, &mut out).unwrap();
    }
    assert!(out.is_empty());
    run.finish(&mut out).unwrap();
    assert_eq!(out, [doc! { "n": 0 }, doc! { "n": 1 }, doc! { "n": 2 }]);
    assert_eq!(budget.kept(), 0);
}

#[test]
fn groups_let_go_of_their_memory() {
    let stages = bson!([{ "$group": { "_id": "$n", "all": { "$push": "$n" } } }]);
    let (mut run, budget) = start(stages, 1 << 20);
    let mut out = Vec::new();
    for n in 0..100 {
        run.push(doc! { "n": n }, &mut out).unwrap();
    }
    assert!(budget.kept() > 100 * 100);
    run.finish(&mut out).unwrap();
    assert_eq!((out.len(), budget.kept()), (100, 0));
}

#[test]
fn unwinding_many_arrays_has_a_limit() {
    let array = Bson::Array(vec![Bson::Int32(1); 1000]);
    let document = doc! { "a": array.clone(), "b": array.clone(), "c": array };
    let stages = bson!([{ "$unwind": "$a" }, { "$unwind": "$b" }, { "$unwind": "$c" }]);
    let (mut run, _) = start(stages, 1 << 20);
    let error = run.push(document, &mut Vec::new()).unwrap_err();
    assert_eq!(error.code, 292);
}

#[test]
fn a_limit_ends_early() {
    let (mut run, _) = start(bson!([{ "$limit": 2 }, { "$count": "n" }]), 1 << 20);
    let mut out = Vec::new();
    assert_eq!(run.push(doc! {}, &mut out), Ok(StageFlow::More));
    assert_eq!(run.push(doc! {}, &mut out), Ok(StageFlow::Done));
    assert_eq!(run.push(doc! {}, &mut out), Ok(StageFlow::Done));
    run.finish(&mut out).unwrap();
    assert_eq!(out, [doc! { "n": 2 }]);
    let facet = bson!([{ "$facet": { "a": [{ "$limit": 1 }], "b": [{ "$limit": 2 }] } }]);
    let (mut run, _) = start(facet, 1 << 20);
    assert_eq!(run.push(doc! {}, &mut out), Ok(StageFlow::More));
    assert_eq!(run.push(doc! {}, &mut out), Ok(StageFlow::Done));
}

#[test]
fn results_come_on_the_way() {
    let (mut run, _) = start(
        bson!([{ "$unwind": "$a" }, { "$project": { "a": 1 } }]),
        1 << 20,
    );
    let mut out = Vec::new();
    run.push(doc! { "a": [1, 2] }, &mut out).unwrap();
    assert_eq!(out, [doc! { "a": 1 }, doc! { "a": 2 }]);
}

#[test]
fn variables_of_the_caller_are_bound() {
    let scope = ExpressionScope::with_variables(vec!["limit".to_owned()]).unwrap();
    let stages = documents(bson!([{ "$project": { "is": { "$gt": ["$n", "$$limit"] } } }]));
    let pipeline = Pipeline::parse(&stages, &scope).unwrap();
    let mut context = PipelineContext::new(DateTime::from_millis(0), 1 << 20);
    context.expressions.variables = Arc::new(vec![Some(Bson::Int32(5))]);
    let (mut run, mut out) = (pipeline.start(0, &context), Vec::new());
    run.push(doc! { "n": 6 }, &mut out).unwrap();
    assert_eq!(out, [doc! { "is": true }]);
}

#[test]
fn a_pipeline_goes_on_where_a_database_has_stopped() {
    let stages = bson!([{ "$match": { "n": 5 } }, { "$group": { "_id": "$n" } }, { "$limit": 1 }]);
    let context = PipelineContext::new(DateTime::from_millis(0), 1 << 20);
    let mut run = parse(stages).unwrap().start(2, &context);
    let mut out = Vec::new();
    assert_eq!(run.push(doc! { "_id": 7 }, &mut out), Ok(StageFlow::Done));
    assert_eq!(out, [doc! { "_id": 7 }]);
}

#[test]
fn values_that_shrink_and_grow_count_once() {
    let long = "x".repeat(1000);
    for function in ["$last", "$max", "$mergeObjects"] {
        let stages = bson!([{ "$group": { "_id": null, "v": { function: "$v" } } }]);
        let (mut run, budget) = start(stages, 20_000);
        for n in 0..1000 {
            let text = if n % 2 == 0 { long.as_str() } else { "" };
            let value = match function {
                "$mergeObjects" => bson!({ "v": text }),
                _ => Bson::from(text),
            };
            run.push(doc! { "v": value }, &mut Vec::new()).unwrap();
        }
        assert!(budget.kept() < 3000, "{function}: {}", budget.kept());
    }
}

#[test]
fn computed_elements_end_at_the_deadline() {
    let stages = bson!([{ "$addFields": { "a.b": { "$range": [0, 100_000] } } }]);
    let mut context = PipelineContext::new(DateTime::from_millis(0), 1 << 30);
    context.expressions.deadline = Some(Instant::now() + Duration::from_millis(20));
    let mut run = parse(stages).unwrap().start(0, &context);
    let document = doc! { "a": vec![1; 100_000] };
    let error = run.push(document, &mut Vec::new()).unwrap_err();
    assert_eq!(error.code, 50);
}

#[test]
fn a_run_goes_from_thread_to_thread() {
    fn check<T: Send>() {}
    check::<PipelineRun>();
    check::<Pipeline>();
    check::<PipelineContext>();
    fn check_shared<T: Sync>() {}
    check_shared::<Pipeline>();
    check_shared::<PipelineContext>();
}

#[test]
fn the_patterns_of_all_stages_are_bounded() {
    let stage = bson!({ "$match": { "a": { "$in": [
        Bson::RegularExpression(bson::Regex {
            pattern: "a".try_into().unwrap(),
            options: "".try_into().unwrap(),
        }),
    ] } } });
    assert!(parse(Bson::Array(vec![stage.clone(); 256])).is_ok());
    let error = parse(Bson::Array(vec![stage; 257])).unwrap_err();
    assert_eq!(error.code, 9);
}
