//! Tables of accumulators, after their pages in MongoDB's manual.

use bson::{Bson, DateTime, Document, bson, doc};

use super::*;
use crate::mongo::expression::ExpressionContext;

/// Returns the result of an accumulator over the field `v` of documents; `?` is a missing one.
fn accumulate(spec: &Bson, values: &[Bson]) -> Result<Bson> {
    let accumulator = GroupAccumulator::parse("field", spec, &ExpressionScope::default())?;
    let mut state = accumulator.start();
    for value in values {
        let document = match value {
            Bson::String(text) if text == "?" => Document::new(),
            value => doc! { "v": value.clone() },
        };
        let context = ExpressionContext::new(DateTime::from_millis(0));
        state.add(context.evaluate(accumulator.argument(), &document)?)?;
    }
    Ok(state.finish())
}

fn of(name: &str) -> Bson {
    bson!({ name: "$v" })
}

fn array(values: Bson) -> Vec<Bson> {
    match values {
        Bson::Array(values) => values,
        other => panic!("{other}"),
    }
}

#[test]
fn results_of_values_nulls_and_nothing() {
    let cases = [
        // "$sum": other than numbers is ignored, and the type is the widest.
        ("$sum", bson!([1, 2]), bson!(3)),
        ("$sum", bson!([1, 2_i64]), bson!(3_i64)),
        ("$sum", bson!([1, 2.5]), bson!(3.5)),
        ("$sum", bson!([i32::MAX, 1]), bson!(2_147_483_648_i64)),
        (
            "$sum",
            bson!([i64::MAX, 1]),
            bson!(9_223_372_036_854_775_808.0),
        ),
        ("$sum", bson!([1, "a", null, "?", [5], true]), bson!(1)),
        ("$sum", bson!([null]), bson!(0)),
        ("$sum", bson!([]), bson!(0)),
        ("$sum", bson!([1e100, 1.0, -1e100]), bson!(1.0)),
        // "$avg": null if there is no number.
        ("$avg", bson!([1, 2]), bson!(1.5)),
        ("$avg", bson!([1, "a", null, "?"]), bson!(1.0)),
        ("$avg", bson!(["a", null]), Bson::Null),
        ("$avg", bson!([]), Bson::Null),
        // "$min", "$max": null and missing are ignored, types are in the order of BSON.
        ("$min", bson!([3, null, 1, "?", "a"]), bson!(1)),
        ("$max", bson!([3, null, 1, "?", "a"]), bson!("a")),
        ("$min", bson!([null, "?"]), Bson::Null),
        ("$max", bson!([]), Bson::Null),
        ("$max", bson!([1, 1.0]), bson!(1)),
        ("$max", bson!([[1, 2], 5]), bson!([1, 2])),
        // "$first", "$last": a missing value is null.
        ("$first", bson!([null, 1]), Bson::Null),
        ("$first", bson!(["?", 1]), Bson::Null),
        ("$first", bson!([2, 1]), bson!(2)),
        ("$last", bson!([2, 1]), bson!(1)),
        ("$last", bson!([2, "?"]), Bson::Null),
        // "$push", "$addToSet": null stays, missing does not.
        ("$push", bson!([1, null, "?", 1]), bson!([1, null, 1])),
        ("$push", bson!([]), bson!([])),
        (
            "$addToSet",
            bson!([2, 1, 2.0, null, "?", [1], [1]]),
            bson!([2, 1, null, [1]]),
        ),
        // "$stdDevPop", "$stdDevSamp".
        ("$stdDevPop", bson!([1, 2, 3, 4]), bson!(1.25_f64.sqrt())),
        ("$stdDevPop", bson!([5, "a"]), bson!(0.0)),
        ("$stdDevPop", bson!(["a", null]), Bson::Null),
        ("$stdDevSamp", bson!([2, 4]), bson!(2.0_f64.sqrt())),
        ("$stdDevSamp", bson!([5]), Bson::Null),
        ("$stdDevSamp", bson!([]), Bson::Null),
        // "$mergeObjects".
        (
            "$mergeObjects",
            bson!([{ "a": 1 }, null, "?", { "a": 2, "b": 3 }]),
            bson!({ "a": 2, "b": 3 }),
        ),
        ("$mergeObjects", bson!([]), bson!({})),
    ];
    for (name, values, expected) in cases {
        let values = array(values);
        let result = accumulate(&of(name), &values);
        assert_eq!(result, Ok(expected), "{name} of {values:?}");
    }
}

#[test]
fn counts() {
    // "$count (aggregation accumulator)".
    let values = array(bson!([1, null, "?"]));
    assert_eq!(accumulate(&bson!({ "$count": {} }), &values), Ok(bson!(3)));
    assert_eq!(
        accumulate(&bson!({ "$count": 1 }), &values)
            .unwrap_err()
            .code,
        14
    );
}

#[test]
fn percentiles() {
    // "$percentile", "$median": "Type of Operation, GroupAccumulator".
    let percentile = bson!({ "$percentile": {
        "input": "$v", "p": [0.5, 0.75, 0.9, 0.95, 0.0, 1], "method": "approximate"
    } });
    let scores = array(bson!([62, 81, 80, 82, "a", null, "?", 83]));
    let expected = bson!([81.0, 82.0, 83.0, 83.0, 62.0, 83.0]);
    assert_eq!(accumulate(&percentile, &scores), Ok(expected));
    let median = bson!({ "$median": { "input": "$v", "method": "approximate" } });
    assert_eq!(accumulate(&median, &scores), Ok(bson!(81.0)));
    assert_eq!(accumulate(&median, &[Bson::Null]), Ok(Bson::Null));
    let none = bson!([null, null, null, null, null, null]);
    assert_eq!(accumulate(&percentile, &[]), Ok(none));
}

#[test]
fn refusals() {
    let cases = [
        (bson!(1), 40234),
        (bson!("$v"), 40234),
        (bson!({}), 40238),
        (bson!({ "$sum": 1, "$avg": 1 }), 40238),
        (bson!({ "x": 1 }), 40234),
        (bson!({ "$foo": 1 }), 15952),
        (bson!({ "$sum": [1, 2] }), 40237),
        (bson!({ "$sum": { "$foo": 1 } }), 168),
        (bson!({ "$percentile": 1 }), 7_429_703),
        (
            bson!({ "$percentile": { "p": [0.5], "method": "approximate" } }),
            40414,
        ),
        (
            bson!({ "$percentile": { "input": 1, "p": [1.5], "method": "approximate" } }),
            7_750_301,
        ),
        (
            bson!({ "$percentile": { "input": 1, "p": [], "method": "approximate" } }),
            7_750_301,
        ),
        (
            bson!({ "$percentile": { "input": 1, "p": 0.5, "method": "approximate" } }),
            7_750_301,
        ),
        (
            bson!({ "$percentile": { "input": 1, "p": [0.5], "method": "x" } }),
            2,
        ),
        (
            bson!({ "$median": { "input": 1, "p": [0.5], "method": "approximate" } }),
            40415,
        ),
        (bson!({ "$mergeObjects": { "$literal": 1 } }), 40400),
    ];
    for (spec, code) in cases {
        let error = accumulate(&spec, &[Bson::Int32(1)]).unwrap_err();
        assert_eq!(error.code, code, "{spec}: {error}");
    }
}

#[test]
fn a_state_says_how_it_grows() {
    let grows = |name: &str, values: &[Bson]| {
        let accumulator =
            GroupAccumulator::parse("f", &of(name), &ExpressionScope::default()).unwrap();
        let mut state = accumulator.start();
        let mut bytes = 0;
        for value in values {
            bytes += state.add(Some(value.clone())).unwrap();
        }
        bytes
    };
    let text = Bson::from("x".repeat(1000));
    assert_eq!(grows("$sum", &[Bson::Int32(1), Bson::Int32(2)]), 0);
    assert!(grows("$push", &[text.clone(), text.clone()]) > 2000);
    let once = grows("$addToSet", std::slice::from_ref(&text));
    assert!(once > 2000);
    assert_eq!(grows("$addToSet", &[text.clone(), text.clone()]), once);
    assert!((1000..1200).contains(&grows("$max", &[text.clone(), text])));
}
