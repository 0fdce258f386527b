//! Arrays, sets and objects.

use super::check;

#[test]
fn arrays() {
    // "Array Expression Operators".
    check(
        r#"
        {"$size": "$a"} => 3
        {"$size": [[]]} => 0
        {"$size": "$missing"} => error 17124
        {"$size": "$s"} => error 17124
        {"$arrayElemAt": ["$a", 0]} => 1
        {"$arrayElemAt": ["$a", -1]} => 3
        {"$arrayElemAt": ["$a", 3]} => missing
        {"$arrayElemAt": ["$a", -4]} => missing
        {"$arrayElemAt": ["$a", 1.0]} => 2
        {"$arrayElemAt": ["$a", 1.5]} => error 28691
        {"$arrayElemAt": ["$a", "x"]} => error 28690
        {"$arrayElemAt": ["$s", 0]} => error 28689
        {"$first": "$a"} => 1
        {"$last": "$a"} => 3
        {"$first": "$ea"} => missing
        {"$first": "$s"} => error 28689
        {"$slice": ["$a", 2]} => [1, 2]
        {"$slice": ["$a", -2]} => [2, 3]
        {"$slice": ["$a", 9]} => [1, 2, 3]
        {"$slice": ["$a", 0]} => []
        {"$slice": ["$a", 1, 1]} => [2]
        {"$slice": ["$a", -2, 1]} => [2]
        {"$slice": ["$a", -9, 2]} => [1, 2]
        {"$slice": ["$a", 15, 2]} => []
        {"$slice": ["$a", 1, 0]} => error 28729
        {"$slice": ["$s", 1]} => error 28724
        {"$slice": ["$a", "x"]} => error 28725
        {"$slice": ["$a", 0.5]} => error 28726
        {"$slice": ["$a", 1, "x"]} => error 28727
        {"$in": [2, "$a"]} => true
        {"$in": ["abc", ["xyz", "abc"]]} => true
        {"$in": [["a"], ["a"]]} => false
        {"$in": [["a"], [["a"]]]} => true
        {"$in": ["$missing", "$m"]} => false
        {"$in": [1, "$s"]} => error 40081
        {"$concatArrays": ["$a", ["x"]]} => [1, 2, 3, "x"]
        {"$concatArrays": []} => []
        {"$concatArrays": ["$a", "$s"]} => error 28664
        {"$isArray": "$a"} => true
        {"$isArray": [[1]]} => true
        {"$isArray": "$missing"} => false
        {"$range": [0, 10, 2]} => [0, 2, 4, 6, 8]
        {"$range": [10, 0, -2]} => [10, 8, 6, 4, 2]
        {"$range": [0, 10, -2]} => []
        {"$range": [0, 3]} => [0, 1, 2]
        {"$range": [0, 3, 0]} => error 34449
        {"$range": ["a", 3]} => error 34443
        {"$range": [0, 0.5]} => error 34446
        {"$range": [0, 2147483647]} => error 17419
        {"$range": [2147483647, -2147483648, -1]} => error 17419
        "#,
    );
}

#[test]
fn sets() {
    // "Set Expression Operators".
    check(
        r#"
        {"$setEquals": [[1, 2], [2, 1, 1]]} => true
        {"$setEquals": [[1], [1.0], [{"$numberLong": "1"}]]} => true
        {"$setEquals": [[1], [1, 2]]} => false
        {"$setEquals": [[1], null]} => error 17044
        {"$setEquals": [[1]]} => error 28667
        {"$setIntersection": [["a", "b", "a"], ["b", "a"]]} => ["a", "b"]
        {"$setIntersection": [["a"], [["a"]]]} => []
        {"$setIntersection": []} => []
        {"$setIntersection": ["$a", "$s"]} => error 17047
        {"$setUnion": [["b", "a"], ["b", "c"]]} => ["a", "b", "c"]
        {"$setUnion": []} => []
        {"$setUnion": ["$a", "$s"]} => error 17043
        {"$setDifference": [["a", "c", "c", "b"], ["b"]]} => ["a", "c"]
        {"$setDifference": ["$s", "$a"]} => error 17048
        {"$setDifference": ["$a", "$s"]} => error 17049
        {"$setIsSubset": [["a"], ["b", "a"]]} => true
        {"$setIsSubset": [[], []]} => true
        {"$setIsSubset": [["a"], [["a"]]]} => false
        {"$setIsSubset": [null, []]} => error 17046
        {"$setIsSubset": [[], null]} => error 17042
        {"$anyElementTrue": [[0, "a"]]} => true
        {"$anyElementTrue": [[null, 0, false]]} => false
        {"$anyElementTrue": [[]]} => false
        {"$anyElementTrue": ["$n"]} => error 17041
        {"$allElementsTrue": [[1, [], ""]]} => true
        {"$allElementsTrue": [[1, null]]} => false
        {"$allElementsTrue": [[]]} => true
        {"$allElementsTrue": ["$missing"]} => error 17040
        "#,
    );
}

#[test]
fn objects() {
    // "$mergeObjects", "$objectToArray", "$arrayToObject".
    check(
        r#"
        {"$mergeObjects": [{"a": 1}, null, {"a": 2, "b": 3}]} => {"a": 2, "b": 3}
        {"$mergeObjects": "$missing"} => {}
        {"$mergeObjects": []} => {}
        {"$mergeObjects": ["$o", 1]} => error 40400
        {"$objectToArray": {"a": 1, "b": [2]}} => [{"k": "a", "v": 1}, {"k": "b", "v": [2]}]
        {"$objectToArray": "$n"} => null
        {"$objectToArray": "$a"} => error 40390
        {"$arrayToObject": [[["a", 1], ["b", 2]]]} => {"a": 1, "b": 2}
        {"$arrayToObject": [[{"k": "a", "v": 1}, {"k": "a", "v": 2}]]} => {"a": 2}
        {"$arrayToObject": "$ea"} => {}
        {"$arrayToObject": "$n"} => null
        {"$arrayToObject": "$s"} => error 40386
        {"$arrayToObject": [[["a", 1], {"k": "b", "v": 2}]]} => error 40396
        {"$arrayToObject": [[{"k": "b", "v": 2}, ["a", 1]]]} => error 40391
        {"$arrayToObject": [[{"k": "b"}]]} => error 40392
        {"$arrayToObject": [[{"k": "b", "w": 1}]]} => error 40393
        {"$arrayToObject": [[{"k": 1, "v": 2}]]} => error 40394
        {"$arrayToObject": [[[1, 2]]]} => error 40395
        {"$arrayToObject": [[["a"]]]} => error 40397
        "#,
    );
}
