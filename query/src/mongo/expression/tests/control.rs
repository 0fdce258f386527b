//! Conditions, variables and operators that walk through arrays.

use super::check;

#[test]
fn conditions() {
    // "$cond", "$ifNull", "$switch", "$and", "$or", "$not".
    check(
        r#"
        {"$cond": [{"$gt": ["$i", 5]}, "yes", "no"]} => "yes"
        {"$cond": {"if": "$n", "then": 1, "else": 2}} => 2
        {"$cond": ["$missing", 1, 2]} => 2
        {"$cond": ["$e", 1, 2]} => 1
        {"$cond": ["$ea", 1, 2]} => 1
        {"$cond": ["$zero", 1, 2]} => 2
        {"$cond": [true, 1, {"$divide": [1, 0]}]} => 1
        {"$cond": [true, "$missing", 1]} => missing
        {"$cond": [1, 2]} => error 16020
        {"$cond": {"if": 1, "then": 2}} => error 17082
        {"$cond": {"if": 1, "then": 2, "else": 3, "x": 1}} => error 17083
        {"$ifNull": ["$n", "$missing", "$i"]} => 7
        {"$ifNull": ["$n", "default"]} => "default"
        {"$ifNull": ["$f", "default"]} => false
        {"$ifNull": ["$n", "$missing"]} => missing
        {"$switch": {"branches": [{"case": false, "then": 1}, {"case": "$i", "then": 2}]}} => 2
        {"$switch": {"branches": [{"case": 0, "then": 1}], "default": "$s"}} => "Hello"
        {"$switch": {"branches": [{"case": 0, "then": 1}]}} => error 40066
        {"$switch": {"branches": []}} => error 40068
        {"$switch": {"branches": 1}} => error 40061
        {"$switch": 1} => error 40060
        {"$and": []} => true
        {"$and": [1, "green"]} => true
        {"$and": ["$n", {"$divide": [1, 0]}]} => false
        {"$and": [[null], [false], [0]]} => true
        {"$or": []} => false
        {"$or": [1, {"$divide": [1, 0]}]} => true
        {"$or": [null, "$missing", 0.0]} => false
        {"$not": [true]} => false
        {"$not": [[false]]} => false
        {"$not": ["$missing"]} => true
        {"$not": "$zero"} => true
        "#,
    );
}

#[test]
fn variables() {
    // "$let".
    check(
        r#"
        {"$let": {"vars": {"x": "$i", "y": 3}, "in": {"$add": ["$$x", "$$y"]}}} => 10
        {"$let": {"vars": {"x": "$o"}, "in": "$$x.p.q"}} => "deep"
        {"$let": {"vars": {"x": "$docs"}, "in": "$$x.x"}} => [1, [2]]
        {"$let": {"vars": {"x": "$missing"}, "in": "$$x"}} => missing
        {"$let": {"vars": {"x": 1}, "in": {"$let": {"vars": {"x": 2, "y": "$$x"}, "in": ["$$x",
            "$$y"]}}}} => [2, 1]
        {"$let": {"vars": {"CURRENT": "$o"}, "in": "$p.q"}} => "deep"
        {"$let": {"vars": {"CURRENT": "$o"}, "in": "$$ROOT.i"}} => 7
        {"$let": {"vars": {"x": 1, "y": "$$x"}, "in": 1}} => error 17276
        {"$let": {"vars": {"X": 1}, "in": 1}} => error 9
        {"$let": {"vars": {"x": 1}}} => error 16877
        {"$let": {"vars": 1, "in": 1}} => error 10065
        {"$let": 1} => error 16874
        "#,
    );
}

#[test]
fn walks() {
    // "$map", "$filter", "$reduce".
    check(
        r#"
        {"$map": {"input": "$a", "as": "e", "in": {"$multiply": ["$$e", "$i"]}}} => [7, 14, 21]
        {"$map": {"input": "$a", "in": {"$add": ["$$this", 1]}}} => [2, 3, 4]
        {"$map": {"input": "$a", "in": "$missing"}} => [null, null, null]
        {"$map": {"input": "$a", "as": "x", "in": {"$map": {"input": "$a", "as": "y", "in":
            {"$subtract": ["$$x", "$$y"]}}}}} => [[0, -1, -2], [1, 0, -1], [2, 1, 0]]
        {"$map": {"input": "$n", "in": 1}} => null
        {"$map": {"input": "$s", "in": 1}} => error 16883
        {"$map": {"in": 1}} => error 16880
        {"$map": {"input": 1, "in": 1, "x": 1}} => error 16879
        {"$map": 1} => error 16878
        {"$filter": {"input": "$a", "as": "e", "cond": {"$gte": ["$$e", 2]}}} => [2, 3]
        {"$filter": {"input": "$a", "cond": true, "limit": 2}} => [1, 2]
        {"$filter": {"input": "$a", "cond": true, "limit": "$n"}} => [1, 2, 3]
        {"$filter": {"input": "$a", "cond": true, "limit": 0}} => error 327392
        {"$filter": {"input": "$missing", "cond": true}} => null
        {"$filter": {"input": "$s", "cond": true}} => error 28651
        {"$filter": {"input": "$a"}} => error 28650
        {"$filter": {"input": "$a", "cond": 1, "x": 1}} => error 28647
        {"$filter": 1} => error 28646
        {"$reduce": {"input": "$a", "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}} => 6
        {"$reduce": {"input": ["a", "b"], "initialValue": "", "in": {"$concat": ["$$value",
            "$$this"]}}} => "ab"
        {"$reduce": {"input": "$ea", "initialValue": "start", "in": 1}} => "start"
        {"$reduce": {"input": "$n", "initialValue": 0, "in": 1}} => null
        {"$reduce": {"input": "$s", "initialValue": 0, "in": 1}} => error 40080
        {"$reduce": {"input": "$a", "in": 1}} => error 40078
        {"$reduce": {"input": "$a", "initialValue": 0, "in": 1, "x": 1}} => error 40076
        {"$reduce": 1} => error 40075
        "#,
    );
}
