//! Tests of `$expr` ("$expr" in MongoDB's manual).

use bson::Bson;

use super::*;

fn answer(filter: &Document, document: &Document) -> Result<bool> {
    let context = ExpressionContext::new(DateTime::from_millis(1000));
    Filter::parse(filter)?.matches(document, &context)
}

#[test]
fn expressions_compare_fields_with_each_other() {
    let spent = doc! { "$expr": { "$gt": ["$spent", "$budget"] } };
    check(
        &spent,
        &[
            (doc! { "budget": 400, "spent": 450 }, true),
            (doc! { "budget": 100, "spent": 100 }, false),
            (doc! { "budget": 100 }, false),
            (doc! { "spent": 0 }, true),
        ],
    );
    check(
        &doc! { "a": 1, "$or": [{ "$nor": [spent] }, { "$expr": "$t" }] },
        &[
            (doc! { "a": 1, "budget": 1, "spent": 2 }, false),
            (doc! { "a": 1, "budget": 1, "spent": 2, "t": 1 }, true),
            (doc! { "a": 1, "budget": 2, "spent": 2 }, true),
            (doc! { "a": 2, "budget": 2, "spent": 2 }, false),
        ],
    );
    for (value, expected) in [(Bson::Null, false), (0.into(), false), ("".into(), true)] {
        assert_eq!(answer(&doc! { "$expr": value }, &doc! {}), Ok(expected));
    }
}

#[test]
fn a_failure_reaches_the_caller_unless_a_condition_before_decides() {
    let size = doc! { "$expr": { "$gt": [{ "$size": "$a" }, 1] } };
    let code = |filter: &Document| answer(filter, &doc! { "b": 1 }).map_err(|error| error.code);
    assert_eq!(code(&size), Err(17124));
    assert_eq!(code(&doc! { "$nor": [size.clone()] }), Err(17124));
    let either = doc! { "$or": [size.clone(), { "b": 1 }] };
    assert_eq!(code(&either), Err(17124));
    let guarded = doc! { "$and": [{ "a": { "$type": "array" } }, size.clone()] };
    assert_eq!(code(&guarded), Ok(false));
    assert_eq!(code(&doc! { "$or": [{ "b": 1 }, size] }), Ok(true));
}

#[test]
fn variables_of_the_query_are_bound() {
    let mut context = ExpressionContext::new(DateTime::from_millis(1000));
    let scope = context.bind(&doc! { "limit": { "$add": [1, 2] } }).unwrap();
    let filter = doc! { "$expr": { "$and": [{ "$lt": ["$n", "$$limit"] }, "$$NOW"] } };
    let filter = Filter::parse_in(&filter, &scope).unwrap();
    assert_eq!(filter.matches(&doc! { "n": 2 }, &context), Ok(true));
    assert_eq!(filter.matches(&doc! { "n": 3 }, &context), Ok(false));
}

#[test]
fn expressions_are_refused_within_elements_and_give_no_conjuncts() {
    for (filter, code) in [
        (doc! { "a": { "$elemMatch": { "$expr": true } } }, 2),
        (doc! { "a": { "$expr": true } }, 2),
        (doc! { "$expr": { "$foo": 1 } }, 168),
        (doc! { "$expr": "$$limit" }, 17276),
    ] {
        assert_eq!(Filter::parse(&filter).unwrap_err().code, code, "{filter}");
    }
    let filter = doc! { "$expr": { "$eq": ["$a", 1] }, "b": 2 };
    let filter = Filter::parse(&filter).unwrap();
    let conjuncts = filter.conjuncts();
    assert_eq!(conjuncts.len(), 1);
    assert_eq!(conjuncts[0].path, "b");
}

#[test]
fn a_filter_knows_the_fields_that_its_expressions_read() {
    let fields = |filter: Document| Filter::parse(&filter).unwrap().fields();
    let read = fields(doc! { "x.y": 1, "$expr": { "$gt": ["$a.b", { "$year": "$t" }] } }).unwrap();
    assert_eq!(read.into_iter().collect::<Vec<_>>(), ["a", "t", "x"]);
    assert_eq!(fields(doc! { "$expr": { "$eq": ["$$ROOT", "$a"] } }), None);
    assert!(fields(doc! { "$expr": true }).unwrap().is_empty());
}
