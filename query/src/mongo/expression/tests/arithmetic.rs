//! Arithmetic.

use super::check;

#[test]
fn sums_and_products_have_the_widest_type() {
    // "$add", "$subtract", "$multiply".
    check(
        r#"
        {"$add": []} => 0
        {"$add": [1, 2]} => 3
        {"$add": 5} => 5
        {"$add": [1, {"$numberLong": "2"}]} => {"$numberLong": "3"}
        {"$add": [1, 2.5]} => 3.5
        {"$add": [0.1, 0.2]} => 0.30000000000000004
        {"$add": [1, {"$numberDecimal": "2.50"}]} => {"$numberDecimal": "3.50"}
        {"$add": [2147483647, 1]} => {"$numberLong": "2147483648"}
        {"$add": [{"$numberLong": "9223372036854775807"}, 1]} => 9223372036854775808.0
        {"$add": ["$date", 1000]} => {"$date": "2000-10-10T20:55:37.123Z"}
        {"$add": [1, "$date", 1.6]} => {"$date": "2000-10-10T20:55:36.126Z"}
        {"$add": ["$date", "$date"]} => error 16612
        {"$add": ["$s", 1]} => error 14
        {"$add": [1, "$n", "$s"]} => null
        {"$multiply": []} => 1
        {"$multiply": [2, 3]} => 6
        {"$multiply": [65536, 65536]} => {"$numberLong": "4294967296"}
        {"$multiply": [65536, 65536, 0]} => 0
        {"$multiply": [{"$numberLong": "4611686018427387904"}, 4]} => 18446744073709551616.0
        {"$multiply": [2, 1.5]} => 3.0
        {"$multiply": [2, {"$numberDecimal": "1.5"}]} => {"$numberDecimal": "3.0"}
        {"$multiply": ["$s"]} => error 14
        {"$subtract": [5, 3]} => 2
        {"$subtract": [-2147483648, 1]} => {"$numberLong": "-2147483649"}
        {"$subtract": [{"$numberLong": "-9223372036854775808"}, 1]} => -9223372036854775808.0
        {"$subtract": [2.5, 1]} => 1.5
        {"$subtract": ["$date", "$date"]} => {"$numberLong": "0"}
        {"$subtract": ["$date", 123]} => {"$date": "2000-10-10T20:55:36Z"}
        {"$subtract": ["$date", {"$date": "2000-10-10T20:55:35.123Z"}]} => {"$numberLong": "1000"}
        {"$subtract": ["$date", -2.5]} => {"$date": "2000-10-10T20:55:36.125Z"}
        {"$subtract": ["$date", {"$numberDecimal": "3.0"}]} => {"$date": "2000-10-10T20:55:36.120Z"}
        {"$subtract": [1, "$date"]} => error 14
        {"$subtract": ["$s", 1]} => error 14
        {"$subtract": ["$date", "$s"]} => error 14
        "#,
    );
}

#[test]
fn quotients_and_remainders() {
    // "$divide", "$mod".
    check(
        r#"
        {"$divide": [7, 2]} => 3.5
        {"$divide": [6, 2]} => 3.0
        {"$divide": [1, {"$numberDecimal": "3"}]} => {"$numberDecimal":
            "0.3333333333333333333333333333333333"}
        {"$divide": [1, 0]} => error 2
        {"$divide": [1, 0.0]} => error 2
        {"$divide": ["$n", 0]} => null
        {"$divide": ["$s", 1]} => error 14
        {"$mod": [7, 3]} => 1
        {"$mod": [-7, 3]} => -1
        {"$mod": [7, {"$numberLong": "4"}]} => {"$numberLong": "3"}
        {"$mod": [7.5, 2]} => 1.5
        {"$mod": [{"$numberDecimal": "7.5"}, 2]} => {"$numberDecimal": "1.5"}
        {"$mod": [7, 0]} => error 16610
        {"$mod": ["$s", 2]} => error 16611
        {"$mod": [-2147483648, -1]} => 0
        {"$mod": [{"$numberLong": "-9223372036854775808"}, -1]} => {"$numberLong": "0"}
        "#,
    );
}

#[test]
fn rounding() {
    // "$abs", "$ceil", "$floor", "$round", "$trunc".
    check(
        r#"
        {"$abs": -1} => 1
        {"$abs": -1.5} => 1.5
        {"$abs": -2147483648} => {"$numberLong": "2147483648"}
        {"$abs": {"$numberLong": "-9223372036854775808"}} => error 28680
        {"$abs": {"$numberDecimal": "-1.5"}} => {"$numberDecimal": "1.5"}
        {"$abs": "$s"} => error 28765
        {"$ceil": 7.8} => 8.0
        {"$ceil": -2.8} => -2.0
        {"$ceil": 5} => 5
        {"$ceil": {"$numberDecimal": "1.2"}} => {"$numberDecimal": "2"}
        {"$floor": -2.8} => -3.0
        {"$floor": {"$numberDecimal": "-1.2"}} => {"$numberDecimal": "-2"}
        {"$floor": "$t"} => error 28765
        {"$round": [19.25, 1]} => 19.2
        {"$round": [28.73, 1]} => 28.7
        {"$round": [34.32, 1]} => 34.3
        {"$round": [1234.5678, 2]} => 1234.57
        {"$round": [1234567890123456.0, 1]} => 1234567890123456.0
        {"$round": [0.1234567890123456, 16]} => 0.1234567890123456
        {"$trunc": [9007199254740992.0, 5]} => 9007199254740992.0
        {"$round": 10.5} => 10.0
        {"$round": 11.5} => 12.0
        {"$round": [25, -1]} => 20
        {"$round": [35, -1]} => 40
        {"$round": [12345, -2]} => 12300
        {"$round": [2147483647, -1]} => {"$numberLong": "2147483650"}
        {"$round": [{"$numberDecimal": "2.345"}, 2]} => {"$numberDecimal": "2.34"}
        {"$round": [1.5, 101]} => error 51083
        {"$round": [1.5, -21]} => error 51083
        {"$round": [1.5, 0.5]} => error 51082
        {"$round": "$s"} => error 51081
        {"$round": [1.5, "$n"]} => null
        {"$trunc": [19.25, 1]} => 19.2
        {"$trunc": [-19.99, 0]} => -19.0
        {"$trunc": [1999, -2]} => 1900
        {"$trunc": {"$numberDecimal": "-1.9"}} => {"$numberDecimal": "-1"}
        "#,
    );
}

#[test]
fn accumulators_as_expressions() {
    // "$sum", "$avg", "$min", "$max": "Behavior, Array Operand".
    check(
        r#"
        {"$sum": "$a"} => 6
        {"$sum": ["$i", "$d", "$s", "$missing"]} => 9.5
        {"$sum": ["$a", 1]} => 1
        {"$sum": "$s"} => 0
        {"$sum": "$missing"} => 0
        {"$avg": "$a"} => 2.0
        {"$avg": "$m"} => 1.0
        {"$avg": ["$s"]} => null
        {"$avg": "$n"} => null
        {"$min": "$a"} => 1
        {"$min": "$m"} => 1
        {"$max": "$m"} => "a"
        {"$max": ["$i", "$l", "$n"]} => {"$numberLong": "5000000000"}
        {"$max": "$ea"} => null
        {"$min": "$missing"} => null
        {"$max": ["$a", 5]} => [1, 2, 3]
        "#,
    );
}
