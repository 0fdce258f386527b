//! Operators with the examples of their pages in MongoDB's manual.

use super::check;

#[test]
fn elements_of_arrays() {
    // "$reverseArray", "$indexOfArray", "$zip", "$sortArray".
    check(
        r#"
        {"$reverseArray": [[1, 2, 3]]} => [3, 2, 1]
        {"$reverseArray": [[[1, 2, 3], [4, 5, 6]]]} => [[4, 5, 6], [1, 2, 3]]
        {"$reverseArray": "$ea"} => []
        {"$reverseArray": "$missing"} => null
        {"$reverseArray": "$s"} => error 34435
        {"$indexOfArray": [["a", "abc"], "a"]} => 0
        {"$indexOfArray": [["a", "abc", "de", ["de"]], ["de"]]} => 3
        {"$indexOfArray": [[1, 2], 5]} => -1
        {"$indexOfArray": [[1, 2, 3], [1, 2]]} => -1
        {"$indexOfArray": [[10, 9, 9, 8, 9], 9, 3]} => 4
        {"$indexOfArray": [["a", "abc", "b"], "b", 0, 1]} => -1
        {"$indexOfArray": [["a", "abc", "b"], "b", 1, 0]} => -1
        {"$indexOfArray": [["a", "abc", "b"], "b", 20]} => -1
        {"$indexOfArray": [[null, null, 1.0], {"$numberLong": "1"}]} => 2
        {"$indexOfArray": ["$n", "foo"]} => null
        {"$indexOfArray": ["$s", "foo"]} => error 40090
        {"$indexOfArray": ["$a", 1, -1]} => error 40097
        {"$indexOfArray": ["$a", 1, "x"]} => error 40096
        {"$zip": {"inputs": [["a"], ["b"], ["c"]]}} => [["a", "b", "c"]]
        {"$zip": {"inputs": [[1, 2, 3], ["a", "b"]]}} => [[1, "a"], [2, "b"]]
        {"$zip": {"inputs": [["a"], ["b", "c"]], "useLongestLength": true}} => [["a", "b"],
            [null, "c"]]
        {"$zip": {"inputs": [[1], [2, 3]], "useLongestLength": true, "defaults": ["x", "y"]}} =>
            [[1, 2], ["x", 3]]
        {"$zip": {"inputs": [[1], "$n"]}} => null
        {"$zip": {"inputs": [[1], "$s"]}} => error 34468
        {"$zip": {"inputs": []}} => error 34465
        {"$zip": {"inputs": [[1]], "defaults": [1]}} => error 34466
        {"$zip": {"inputs": [[1]], "useLongestLength": true, "defaults": [1, 2]}} => error 34467
        {"$sortArray": {"input": [1, 4, 1, 6, 12, 5], "sortBy": 1}} => [1, 1, 4, 5, 6, 12]
        {"$sortArray": {"input": [20, 4, {"a": "Free"}, 6, 21, 5, "Gratis", {"a": null},
            {"a": {"sale": true, "price": 19}}, 10.23, {"a": "On sale"}], "sortBy": 1}} =>
            [4, 5, 6, 10.23, 20, 21, "Gratis", {"a": null}, {"a": "Free"}, {"a": "On sale"},
            {"a": {"sale": true, "price": 19}}]
        {"$sortArray": {"input": [{"n": "b", "x": 1}, {"n": "a", "x": 1}, {"n": "c", "x": 0}, 7],
            "sortBy": {"x": -1, "n": 1}}} => [{"n": "a", "x": 1}, {"n": "b", "x": 1},
            {"n": "c", "x": 0}, 7]
        {"$sortArray": {"input": "$n", "sortBy": 1}} => null
        {"$sortArray": {"input": "$s", "sortBy": 1}} => error 2942504
        {"$sortArray": {"input": "$a", "sortBy": {}}} => error 2942503
        {"$sortArray": {"input": "$a", "sortBy": 2}} => error 2942504
        "#,
    );
}

#[test]
fn texts_and_patterns() {
    // "$regexFind", "$regexFindAll", "$replaceOne", "$replaceAll", "$indexOfBytes".
    check(
        r#"
        {"$regexFind": {"input": "Cafe", "regex": "a(f)?(x)?"}} => {"match": "af", "idx": 1,
            "captures": ["f", null]}
        {"$regexFind": {"input": "$u", "regex": "本"}} => {"match": "本", "idx": 2, "captures": []}
        {"$regexFind": {"input": "$s", "regex": "z"}} => null
        {"$regexFind": {"input": "$n", "regex": "z"}} => null
        {"$regexFind": {"input": "$s", "regex": "$r"}} => {"match": "H", "idx": 0, "captures": []}
        {"$regexFind": {"input": 1, "regex": "z"}} => error 51104
        {"$regexFind": {"input": "a", "regex": "("}} => error 51111
        {"$regexFind": {"input": "a", "regex": "a", "options": "q"}} => error 51108
        {"$regexFindAll": {"input": "baac", "regex": "a*"}} => [{"match": "", "idx": 0,
            "captures": []}, {"match": "aa", "idx": 1, "captures": []}, {"match": "", "idx": 3,
            "captures": []}]
        {"$regexFindAll": {"input": "日a日a", "regex": "a"}} => [{"match": "a", "idx": 1,
            "captures": []}, {"match": "a", "idx": 3, "captures": []}]
        {"$regexFindAll": {"input": "aaa", "regex": "^a"}} => [{"match": "a", "idx": 0,
            "captures": []}]
        {"$regexFindAll": {"input": "", "regex": ""}} => [{"match": "", "idx": 0, "captures": []}]
        {"$regexFindAll": {"input": "$missing", "regex": "a"}} => []
        {"$replaceOne": {"input": "abcabc", "find": "b", "replacement": "x"}} => "axcabc"
        {"$replaceAll": {"input": "abcabc", "find": "b", "replacement": ""}} => "acac"
        {"$replaceAll": {"input": "abc", "find": "", "replacement": "-"}} => "-a-b-c-"
        {"$replaceOne": {"input": "abc", "find": "", "replacement": "-"}} => "-abc"
        {"$replaceOne": {"input": "abc", "find": "z", "replacement": "-"}} => "abc"
        {"$replaceOne": {"input": "$n", "find": "z", "replacement": "-"}} => null
        {"$replaceOne": {"input": "a", "find": "$missing", "replacement": "-"}} => null
        {"$replaceOne": {"input": 1, "find": "z", "replacement": "-"}} => error 51746
        {"$replaceOne": {"input": "a", "find": 1, "replacement": "-"}} => error 51745
        {"$replaceAll": {"input": "a", "find": "a", "replacement": 1}} => error 51744
        {"$replaceAll": {"input": "a", "find": "a"}} => error 51749
        {"$indexOfBytes": ["cafeteria", "e"]} => 3
        {"$indexOfBytes": ["cafétéria", "é"]} => 3
        {"$indexOfBytes": ["cafétéria", "e"]} => -1
        {"$indexOfBytes": ["$u", "日", 1]} => 2
        {"$indexOfBytes": ["foo.bar.fi", ".", 5]} => 7
        {"$indexOfBytes": ["vanilla", "ll", 0, 2]} => -1
        {"$indexOfBytes": ["vanilla", "ll", 12]} => -1
        {"$indexOfBytes": ["vanilla", "ll", -1]} => error 40097
        {"$indexOfBytes": ["$n", "foo"]} => null
        {"$indexOfBytes": [1, "foo"]} => error 40091
        "#,
    );
}

#[test]
fn powers_and_logarithms() {
    // "$exp", "$ln", "$log", "$log10", "$pow", "$sqrt".
    check(
        r#"
        {"$exp": 0} => 1.0
        {"$exp": "$n"} => null
        {"$exp": {"$numberDecimal": "0"}} => {"$numberDecimal": "1.00000000000000"}
        {"$sqrt": 25} => 5.0
        {"$sqrt": {"$numberDecimal": "2.25"}} => {"$numberDecimal": "1.5"}
        {"$sqrt": -1} => error 28714
        {"$sqrt": "x"} => error 28765
        {"$ln": 1} => 0.0
        {"$ln": 0} => error 28766
        {"$ln": {"$numberDouble": "NaN"}} => {"$numberDouble": "NaN"}
        {"$log10": 100} => 2.0
        {"$log10": -1} => error 28761
        {"$log": [100, 10]} => 2.0
        {"$log": [100, 1]} => error 28759
        {"$log": [0, 2]} => error 28758
        {"$log": ["$n", 2]} => null
        {"$log": ["x", 2]} => error 28756
        {"$log": [2, "x"]} => error 28757
        {"$pow": [5, 0]} => 1
        {"$pow": [5, 2]} => 25
        {"$pow": [5, -2]} => 0.04
        {"$pow": [-5, 0.5]} => {"$numberDouble": "NaN"}
        {"$pow": [2, 31]} => {"$numberLong": "2147483648"}
        {"$pow": [2, 63]} => 9223372036854775808.0
        {"$pow": [{"$numberLong": "2"}, 3]} => {"$numberLong": "8"}
        {"$pow": [-1, 3]} => -1
        {"$pow": [0, -1]} => error 28764
        {"$pow": [{"$numberDecimal": "1.1"}, 2]} => {"$numberDecimal": "1.21"}
        {"$pow": ["$n", 2]} => null
        {"$pow": ["x", 2]} => error 28762
        {"$pow": [2, "x"]} => error 28763
        {"$stdDevPop": [[1, 2, 3, 4, "x"]]} => 1.118033988749895
        {"$stdDevSamp": [1, 3]} => 1.4142135623730951
        {"$stdDevSamp": [1]} => null
        "#,
    );
}

#[test]
fn dates_of_parts() {
    // "$dateFromParts".
    check(
        r#"
        {"$dateFromParts": {"year": 2017, "month": 2, "day": 8, "hour": 12}} =>
            {"$date": "2017-02-08T12:00:00Z"}
        {"$dateFromParts": {"isoWeekYear": 2017, "isoWeek": 6, "isoDayOfWeek": 3, "hour": 12}} =>
            {"$date": "2017-02-08T12:00:00Z"}
        {"$dateFromParts": {"year": 2016, "month": 12, "day": 31, "hour": 23, "minute": 46,
            "second": 12, "timezone": "America/New_York"}} => {"$date": "2017-01-01T04:46:12Z"}
        {"$dateFromParts": {"year": 2017, "month": 14, "day": 1}} => {"$date": "2018-02-01T00:00:00Z"}
        {"$dateFromParts": {"year": 2017, "month": 0, "day": 1}} => {"$date": "2016-12-01T00:00:00Z"}
        {"$dateFromParts": {"year": 2017, "day": 0, "millisecond": -1}} =>
            {"$date": "2016-12-30T23:59:59.999Z"}
        {"$dateFromParts": {"year": 2017, "month": "$n"}} => null
        {"$dateFromParts": {"year": "$missing"}} => null
        {"$dateFromParts": {"month": 1}} => error 40516
        {"$dateFromParts": {"year": 2017, "isoWeekYear": 2017}} => error 40489
        {"$dateFromParts": {"year": 2017, "isoWeek": 1}} => error 40525
        {"$dateFromParts": {"year": 2017.5}} => error 40515
        {"$dateFromParts": {"year": 0}} => error 40523
        {"$dateFromParts": {"year": 2017, "day": 40000}} => error 31034
        {"$dateFromParts": {"year": 2017, "x": 1}} => error 40518
        "#,
    );
}

#[test]
fn clocks_that_are_changed() {
    // Clocks of New York skipped 2 to 3 o'clock on 2021-03-14, and repeated 1 to 2 on 2021-11-07.
    check(
        r#"
        {"$dateTrunc": {"date": {"$date": "2021-03-14T12:00:00Z"}, "unit": "day",
            "timezone": "America/New_York"}} => {"$date": "2021-03-14T05:00:00Z"}
        {"$dateTrunc": {"date": {"$date": "2021-11-08T04:30:00Z"}, "unit": "day",
            "timezone": "America/New_York"}} => {"$date": "2021-11-07T04:00:00Z"}
        {"$dateTrunc": {"date": {"$date": "2018-11-04T12:00:00Z"}, "unit": "day",
            "timezone": "America/Sao_Paulo"}} => {"$date": "2018-11-04T03:00:00Z"}
        {"$dateTrunc": {"date": {"$date": "2021-11-07T06:30:00Z"}, "unit": "hour",
            "timezone": "America/New_York"}} => {"$date": "2021-11-07T06:00:00Z"}
        {"$dateTrunc": {"date": {"$date": "2021-03-17T12:00:00Z"}, "unit": "week",
            "startOfWeek": "monday", "timezone": "America/New_York"}} =>
            {"$date": "2021-03-15T04:00:00Z"}
        {"$dateTrunc": {"date": {"$date": "2021-03-20T11:30:05Z"}, "unit": "hour", "binSize": 2}} =>
            {"$date": "2021-03-20T10:00:00Z"}
        {"$dateAdd": {"startDate": {"$date": "2021-03-13T07:30:00Z"}, "unit": "day", "amount": 1,
            "timezone": "America/New_York"}} => {"$date": "2021-03-14T07:30:00Z"}
        {"$dateAdd": {"startDate": {"$date": "2021-03-13T17:00:00Z"}, "unit": "day", "amount": 1,
            "timezone": "America/New_York"}} => {"$date": "2021-03-14T16:00:00Z"}
        {"$dateAdd": {"startDate": {"$date": "2021-03-13T17:00:00Z"}, "unit": "hour", "amount": 24,
            "timezone": "America/New_York"}} => {"$date": "2021-03-14T17:00:00Z"}
        {"$dateAdd": {"startDate": {"$date": "2021-01-31T00:00:00Z"}, "unit": "month",
            "amount": 1}} => {"$date": "2021-02-28T00:00:00Z"}
        {"$dateDiff": {"startDate": {"$date": "2021-03-14T04:59:00Z"},
            "endDate": {"$date": "2021-03-15T04:01:00Z"}, "unit": "day",
            "timezone": "America/New_York"}} => {"$numberLong": "2"}
        {"$dateDiff": {"startDate": {"$date": "2021-03-14T05:00:00Z"},
            "endDate": {"$date": "2021-03-15T04:00:00Z"}, "unit": "hour",
            "timezone": "America/New_York"}} => {"$numberLong": "23"}
        {"$dateDiff": {"startDate": {"$date": "2021-01-30T12:00:00Z"},
            "endDate": {"$date": "2021-01-31T12:00:00Z"}, "unit": "week"}} => {"$numberLong": "1"}
        {"$dateDiff": {"startDate": {"$date": "2021-01-30T12:00:00Z"},
            "endDate": {"$date": "2021-01-31T12:00:00Z"}, "unit": "week",
            "startOfWeek": "monday"}} => {"$numberLong": "0"}
        {"$dateToString": {"date": {"$date": "2021-11-07T06:30:00Z"},
            "timezone": "America/New_York"}} => "2021-11-07T01:30:00.000"
        {"$dateToString": {"date": {"$date": "2021-01-03T06:30:00Z"},
            "format": "%G %V %u %U %w %j %z %Z %%"}} => "2020 53 7 01 1 003 +0000 +000 %"
        {"$dateToString": {"date": {"$date": "2021-01-03T06:30:00Z"}, "timezone": "UTC"}} =>
            "2021-01-03T06:30:00.000Z"
        {"$dateFromString": {"dateString": "2021-03-14 02:30 +285", "format": "%Y-%m-%d %H:%M %Z"}} =>
            {"$date": "2021-03-13T21:45:00Z"}
        "#,
    );
}

#[test]
fn values_for_failures_are_computed_only_then() {
    // "$convert", "$dateFromString", "$dateToString".
    check(
        r#"
        {"$convert": {"input": "1", "to": "int", "onError": {"$divide": [1, 0]},
            "onNull": {"$divide": [1, 0]}}} => 1
        {"$convert": {"input": "x", "to": "int", "onError": {"$concat": ["a", "b"]}}} => "ab"
        {"$convert": {"input": "x", "to": "int", "onError": {"$divide": [1, 0]}}} => error 2
        {"$convert": {"input": "$n", "to": "int", "onError": 1, "onNull": 2}} => 2
        {"$convert": {"input": "x", "to": "foo", "onError": 1}} => error 2
        {"$convert": {"input": "$n", "to": "foo"}} => null
        {"$dateFromString": {"dateString": "x", "onError": "$i"}} => 7
        {"$dateFromString": {"dateString": 1, "onError": "$i"}} => 7
        {"$dateFromString": {"dateString": "x", "format": "%q", "onError": 1}} => error 18536
        {"$dateToString": {"date": "$n", "onNull": {"$add": [1, 2]}}} => 3
        {"$dateToString": {"date": "$missing", "onNull": "$$REMOVE"}} => missing
        {"$toDecimal": "1E-999999999999"} => {"$numberDecimal": "0E-6176"}
        {"$toDecimal": "-1E999999999999"} => {"$numberDecimal": "-Infinity"}
        {"$toDecimal": "1_000"} => error 241
        {"$toDecimal": "NaN"} => {"$numberDecimal": "NaN"}
        {"$multiply": [{"$numberDecimal": "1E400"}, 2]} => {"$numberDecimal": "2E+400"}
        {"$multiply": [{"$numberDecimal": "0.00"}, 2]} => {"$numberDecimal": "0.00"}
        {"$substrBytes": ["$s", 1, 1e300]} => "ello"
        "#,
    );
}

#[test]
fn fields_by_name() {
    // "$getField", "$isNumber", "$bsonSize".
    check(
        r#"
        {"$getField": "i"} => 7
        {"$getField": {"field": "x", "input": "$o"}} => 1
        {"$getField": {"field": "x.y", "input": {"$literal": {"x.y": 5}}}} => 5
        {"$getField": {"field": {"$literal": "$p"}, "input": {"$literal": {"$p": 5}}}} => 5
        {"$getField": {"$concat": ["i", ""]}} => 7
        {"$getField": {"field": "x", "input": "$n"}} => null
        {"$getField": {"field": "x", "input": "$missing"}} => missing
        {"$getField": {"field": "x", "input": "$s"}} => missing
        {"$getField": "missing"} => missing
        {"$getField": "$i"} => error 5654600
        {"$getField": 1} => error 3041704
        {"$getField": {"field": "x"}} => error 3041703
        {"$isNumber": "$dec"} => true
        {"$isNumber": "$s"} => false
        {"$bsonSize": {"$literal": {"a": 1}}} => 12
        {"$bsonSize": "$n"} => null
        {"$bsonSize": 1} => error 31393
        {"$rand": {}} => error 115
        {"$sin": 1} => error 115
        {"$function": {}} => error 115
        "#,
    );
}
