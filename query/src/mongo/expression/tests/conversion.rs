//! Types and conversions.

use super::check;

#[test]
fn types() {
    // "$type".
    check(
        r#"
        {"$type": "$missing"} => "missing"
        {"$type": "$n"} => "null"
        {"$type": "$i"} => "int"
        {"$type": "$l"} => "long"
        {"$type": "$d"} => "double"
        {"$type": "$dec"} => "decimal"
        {"$type": "$s"} => "string"
        {"$type": "$o"} => "object"
        {"$type": "$a"} => "array"
        {"$type": [[]]} => "array"
        {"$type": "$t"} => "bool"
        {"$type": "$date"} => "date"
        {"$type": "$ts"} => "timestamp"
        {"$type": "$r"} => "regex"
        {"$type": "$id"} => "objectId"
        "#,
    );
}

#[test]
fn conversions() {
    // "$convert" and its short forms.
    check(
        r#"
        {"$toString": "$i"} => "7"
        {"$toString": 2.5} => "2.5"
        {"$toString": 2.0} => "2"
        {"$toString": 1e20} => "1e+20"
        {"$toString": 0.1} => "0.1"
        {"$toString": 0.00001} => "1e-05"
        {"$toString": 123456789012345680.0} => "1.234567890123457e+17"
        {"$toString": "$t"} => "true"
        {"$toString": "$date"} => "2000-10-10T20:55:36.123Z"
        {"$toString": "$id"} => "39e382880000000000000001"
        {"$toString": "$dec"} => "1.5"
        {"$toString": "$a"} => error 241
        {"$toInt": "12"} => 12
        {"$toInt": "-12"} => -12
        {"$toInt": "12.5"} => error 241
        {"$toInt": " 12"} => error 241
        {"$toInt": 5.9} => 5
        {"$toInt": -5.9} => -5
        {"$toInt": "$l"} => error 241
        {"$toInt": "$t"} => 1
        {"$toInt": {"$numberDecimal": "5.9"}} => 5
        {"$toInt": "$date"} => error 241
        {"$toLong": "$date"} => {"$numberLong": "971211336123"}
        {"$toLong": 1e19} => error 241
        {"$toDouble": "-5.5"} => -5.5
        {"$toDouble": "abc"} => error 241
        {"$toDouble": "$date"} => 971211336123.0
        {"$toDecimal": "1.50"} => {"$numberDecimal": "1.50"}
        {"$toDecimal": 0.1} => {"$numberDecimal": "0.100000000000000"}
        {"$toBool": "$s"} => true
        {"$toBool": ""} => true
        {"$toBool": 0.0} => false
        {"$toBool": "$a"} => true
        {"$toDate": {"$numberLong": "971211336123"}} => {"$date": "2000-10-10T20:55:36.123Z"}
        {"$toDate": "2018-03-20"} => {"$date": "2018-03-20T00:00:00Z"}
        {"$toDate": "$id"} => {"$date": "2000-10-10T20:56:40Z"}
        {"$toDate": "$i"} => error 241
        {"$toDate": "Friday"} => error 241
        {"$toObjectId": "39e382880000000000000001"} => {"$oid": "39e382880000000000000001"}
        {"$toObjectId": "x"} => error 241
        {"$convert": {"input": "$s", "to": "int", "onError": "bad"}} => "bad"
        {"$convert": {"input": "$s", "to": "int"}} => error 241
        {"$convert": {"input": "$n", "to": "int", "onNull": "none"}} => "none"
        {"$convert": {"input": "$missing", "to": "int"}} => null
        {"$convert": {"input": "$i", "to": "$n"}} => null
        {"$convert": {"input": "$i", "to": 2}} => "7"
        {"$convert": {"input": "$i", "to": "nothing"}} => error 2
        {"$convert": {"input": "$i"}} => error 9
        "#,
    );
}
