//! Null and missing operands of every operator.

use super::{check, document, evaluate, json};

/// Operators that return null if an operand is null or missing, with an operand in place of `?`.
const NULL_IN_NULL_OUT: &str = r#"
    {"$add": [1, ?]}
    {"$multiply": [?, 2]}
    {"$subtract": [?, 2]}
    {"$subtract": [2, ?]}
    {"$divide": [?, 2]}
    {"$divide": [2, ?]}
    {"$mod": [?, 2]}
    {"$mod": [2, ?]}
    {"$abs": ?}
    {"$ceil": ?}
    {"$floor": ?}
    {"$round": ?}
    {"$round": [1.5, ?]}
    {"$trunc": ?}
    {"$concat": ["a", ?]}
    {"$split": [?, "a"]}
    {"$split": ["a", ?]}
    {"$indexOfCP": [?, "a"]}
    {"$trim": {"input": ?}}
    {"$trim": {"input": "a", "chars": ?}}
    {"$ltrim": {"input": ?}}
    {"$rtrim": {"input": ?}}
    {"$arrayElemAt": [?, 0]}
    {"$arrayElemAt": [[1], ?]}
    {"$first": ?}
    {"$last": ?}
    {"$slice": [?, 1]}
    {"$slice": [[1], ?]}
    {"$slice": [[1], 0, ?]}
    {"$concatArrays": [[1], ?]}
    {"$setUnion": [[1], ?]}
    {"$setIntersection": [[1], ?]}
    {"$setDifference": [[1], ?]}
    {"$setDifference": [?, [1]]}
    {"$objectToArray": ?}
    {"$arrayToObject": ?}
    {"$map": {"input": ?, "in": 1}}
    {"$filter": {"input": ?, "cond": 1}}
    {"$reduce": {"input": ?, "initialValue": 1, "in": 1}}
    {"$min": ?}
    {"$max": ?}
    {"$avg": ?}
    {"$toString": ?}
    {"$toInt": ?}
    {"$toLong": ?}
    {"$toDouble": ?}
    {"$toDecimal": ?}
    {"$toDate": ?}
    {"$toBool": ?}
    {"$toObjectId": ?}
    {"$convert": {"input": ?, "to": "int"}}
    {"$convert": {"input": 1, "to": ?}}
    {"$year": ?}
    {"$month": ?}
    {"$dayOfMonth": ?}
    {"$dayOfYear": ?}
    {"$dayOfWeek": ?}
    {"$week": ?}
    {"$isoWeek": ?}
    {"$isoWeekYear": ?}
    {"$isoDayOfWeek": ?}
    {"$hour": ?}
    {"$minute": ?}
    {"$second": ?}
    {"$millisecond": ?}
    {"$hour": {"date": "$date", "timezone": ?}}
    {"$dateToString": {"date": ?}}
    {"$dateToString": {"date": "$date", "format": ?}}
    {"$dateToString": {"date": "$date", "timezone": ?}}
    {"$dateFromString": {"dateString": ?}}
    {"$dateFromString": {"dateString": "2000-01-01", "format": ?}}
    {"$dateFromString": {"dateString": "2000-01-01", "timezone": ?}}
    {"$dateToParts": {"date": ?}}
    {"$dateToParts": {"date": "$date", "timezone": ?}}
    {"$dateToParts": {"date": "$date", "iso8601": ?}}
    {"$dateTrunc": {"date": ?, "unit": "day"}}
    {"$dateTrunc": {"date": "$date", "unit": ?}}
    {"$dateTrunc": {"date": "$date", "unit": "day", "binSize": ?}}
    {"$dateTrunc": {"date": "$date", "unit": "day", "timezone": ?}}
    {"$dateAdd": {"startDate": ?, "unit": "day", "amount": 1}}
    {"$dateAdd": {"startDate": "$date", "unit": ?, "amount": 1}}
    {"$dateAdd": {"startDate": "$date", "unit": "day", "amount": ?}}
    {"$dateSubtract": {"startDate": "$date", "unit": "day", "amount": 1, "timezone": ?}}
    {"$dateDiff": {"startDate": ?, "endDate": "$date", "unit": "day"}}
    {"$dateDiff": {"startDate": "$date", "endDate": ?, "unit": "day"}}
    {"$dateDiff": {"startDate": "$date", "endDate": "$date", "unit": ?}}
"#;

#[test]
fn most_operators_make_null_of_null_and_missing() {
    let document = document();
    for line in NULL_IN_NULL_OUT
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        for operand in ["\"$n\"", "\"$missing\"", "null"] {
            let expression = line.replace('?', operand);
            let value = evaluate(&json(&expression), &document);
            assert_eq!(value, Ok(Some(bson::Bson::Null)), "{expression}");
        }
    }
}

#[test]
fn other_operators_have_rules_of_their_own() {
    check(
        r#"
        {"$sum": "$n"} => 0
        {"$sum": ["$missing", 2]} => 2
        {"$avg": ["$n", 4]} => 4.0
        {"$min": ["$n", 4]} => 4
        {"$max": ["$missing", 4]} => 4
        {"$toLower": "$n"} => ""
        {"$toUpper": "$missing"} => ""
        {"$substr": ["$n", 0, 1]} => ""
        {"$substrCP": ["$missing", 0, 1]} => ""
        {"$strcasecmp": ["$n", "$missing"]} => 0
        {"$strLenCP": "$n"} => error 34471
        {"$strLenCP": "$missing"} => error 34471
        {"$strLenBytes": "$missing"} => error 34473
        {"$size": "$n"} => error 17124
        {"$in": [1, "$n"]} => error 40081
        {"$in": ["$n", [null]]} => true
        {"$range": ["$n", 1]} => error 34443
        {"$isArray": "$n"} => false
        {"$setEquals": ["$missing", []]} => error 17044
        {"$setIsSubset": ["$missing", []]} => error 17046
        {"$anyElementTrue": ["$missing"]} => error 17041
        {"$allElementsTrue": ["$n"]} => error 17040
        {"$mergeObjects": ["$n", "$missing"]} => {}
        {"$regexMatch": {"input": "$missing", "regex": "a"}} => false
        {"$regexMatch": {"input": "a", "regex": "$missing"}} => false
        {"$and": ["$missing"]} => false
        {"$or": ["$missing"]} => false
        {"$not": ["$n"]} => true
        {"$cmp": ["$n", "$n"]} => 0
        {"$ifNull": ["$missing", null]} => null
        {"$literal": null} => null
        "#,
    );
}
