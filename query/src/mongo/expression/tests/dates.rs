//! Dates.

use super::check;

#[test]
fn parts() {
    // "Date Expression Operators"; the date is a Tuesday.
    check(
        r#"
        {"$year": "$date"} => 2000
        {"$month": "$date"} => 10
        {"$dayOfMonth": "$date"} => 10
        {"$dayOfYear": "$date"} => 284
        {"$dayOfWeek": "$date"} => 3
        {"$week": "$date"} => 41
        {"$week": {"$date": "2000-01-01T00:00:00Z"}} => 0
        {"$week": {"$date": "2000-01-02T00:00:00Z"}} => 1
        {"$week": {"$date": "2000-12-31T00:00:00Z"}} => 53
        {"$isoWeek": "$date"} => 41
        {"$isoWeek": {"$date": "2016-01-01T00:00:00Z"}} => 53
        {"$isoWeekYear": {"$date": "2016-01-01T00:00:00Z"}} => {"$numberLong": "2015"}
        {"$isoDayOfWeek": "$date"} => 2
        {"$isoDayOfWeek": {"$date": "2000-10-15T00:00:00Z"}} => 7
        {"$hour": "$date"} => 20
        {"$minute": "$date"} => 55
        {"$second": "$date"} => 36
        {"$millisecond": "$date"} => 123
        {"$millisecond": {"$date": "1969-12-31T23:59:59.999Z"}} => 999
        {"$year": "$id"} => 2000
        {"$year": "$ts"} => 2000
        {"$year": ["$date"]} => 2000
        {"$hour": {"date": "$date", "timezone": "+05:30"}} => 2
        {"$dayOfMonth": {"date": "$date", "timezone": "+0530"}} => 11
        {"$hour": {"date": "$date", "timezone": "-07"}} => 13
        {"$hour": {"date": "$date", "timezone": "America/Los_Angeles"}} => 13
        {"$hour": {"date": "$date", "timezone": "Nowhere/At_All"}} => error 40485
        {"$hour": {"date": "$date", "timezone": 5}} => error 40517
        {"$hour": {"date": "$date", "timezone": "$n"}} => null
        {"$hour": {"date": "$date", "x": 1}} => error 40535
        {"$hour": {"timezone": "UTC"}} => error 40539
        {"$hour": "$s"} => error 16006
        {"$dateToParts": {"date": {"$date": "2017-01-01T01:29:09.123Z"}}} => {"year": 2017,
            "month": 1, "day": 1, "hour": 1, "minute": 29, "second": 9, "millisecond": 123}
        {"$dateToParts": {"date": {"$date": "2017-01-01T01:29:09.123Z"}, "timezone":
            "America/New_York"}}
            => {"year": 2016, "month": 12, "day": 31, "hour": 20, "minute": 29,
            "second": 9, "millisecond": 123}
        {"$dateToParts": {"date": {"$date": "2017-01-01T01:29:09.123Z"}, "iso8601": true}} =>
            {"isoWeekYear": 2016, "isoWeek": 52, "isoDayOfWeek": 7, "hour": 1, "minute": 29,
            "second": 9, "millisecond": 123}
        "#,
    );
}

#[test]
fn texts() {
    // "$dateToString", "$dateFromString".
    check(
        r#"
        {"$dateToString": {"date": "$date"}} => "2000-10-10T20:55:36.123Z"
        {"$dateToString": {"date": "$date", "timezone": "+05:30"}} => "2000-10-11T02:25:36.123"
        {"$dateToString": {"date": "$date", "format": "%Y-%m-%d"}} => "2000-10-10"
        {"$dateToString": {"date": "$date", "format": "%H:%M:%S:%L%z", "timezone":
            "America/New_York"}} => "16:55:36:123-0400"
        {"$dateToString": {"date": "$date", "format": "%Z %j %w %u %U %V %G %% %b %B", "timezone":
            "+04:30"}} => "+270 285 4 3 41 41 2000 % Oct October"
        {"$dateToString": {"date": "$date", "format": "%q"}} => error 18536
        {"$dateToString": {"date": "$date", "format": "%"}} => error 18535
        {"$dateToString": {"date": "$date", "format": 5}} => error 18533
        {"$dateToString": {"date": "$date", "format": "$n"}} => null
        {"$dateToString": {"date": "$n"}} => null
        {"$dateToString": {"date": "$missing", "onNull": "none"}} => "none"
        {"$dateToString": {"date": "$s"}} => error 16006
        {"$dateToString": {"format": "%Y"}} => error 18628
        {"$dateFromString": {"dateString": "2017-02-08T12:10:40.787"}} => {"$date":
            "2017-02-08T12:10:40.787Z"}
        {"$dateFromString": {"dateString": "2017-02-08T12:10:40.787", "timezone":
            "America/New_York"}} => {"$date": "2017-02-08T17:10:40.787Z"}
        {"$dateFromString": {"dateString": "2017-02-08"}} => {"$date": "2017-02-08T00:00:00Z"}
        {"$dateFromString": {"dateString": "2017-02-08 09:00:00+0200"}} => {"$date":
            "2017-02-08T07:00:00Z"}
        {"$dateFromString": {"dateString": "2017-02-08T09:00:00Z"}} => {"$date":
            "2017-02-08T09:00:00Z"}
        {"$dateFromString": {"dateString": "2017-02-08T09:00:00Z", "timezone": "+01"}} => error 241
        {"$dateFromString": {"dateString": "06-15-2018", "format": "%m-%d-%Y"}} => {"$date":
            "2018-06-15T00:00:00Z"}
        {"$dateFromString": {"dateString": "15 Jun 2018 10:00", "format": "%d %b %Y %H:%M",
            "timezone": "UTC"}} => {"$date": "2018-06-15T10:00:00Z"}
        {"$dateFromString": {"dateString": "2018-24-7", "format": "%G-%V-%u"}} => {"$date":
            "2018-06-17T00:00:00Z"}
        {"$dateFromString": {"dateString": "2018-02-30"}} => error 241
        {"$dateFromString": {"dateString": "x", "onError": "bad"}} => "bad"
        {"$dateFromString": {"dateString": 5, "onError": "bad"}} => "bad"
        {"$dateFromString": {"dateString": 5}} => error 241
        {"$dateFromString": {"dateString": "$n", "onNull": 0}} => 0
        {"$dateFromString": {"dateString": "$n"}} => null
        "#,
    );
}

#[test]
fn truncation() {
    // "$dateTrunc".
    check(
        r#"
        {"$dateTrunc": {"date": "$date", "unit": "hour"}} => {"$date": "2000-10-10T20:00:00Z"}
        {"$dateTrunc": {"date": "$date", "unit": "minute", "binSize": 15}} => {"$date":
            "2000-10-10T20:45:00Z"}
        {"$dateTrunc": {"date": "$date", "unit": "day"}} => {"$date": "2000-10-10T00:00:00Z"}
        {"$dateTrunc": {"date": "$date", "unit": "day", "timezone": "America/Los_Angeles"}} =>
            {"$date": "2000-10-10T07:00:00Z"}
        {"$dateTrunc": {"date": "$date", "unit": "week"}} => {"$date": "2000-10-08T00:00:00Z"}
        {"$dateTrunc": {"date": "$date", "unit": "week", "startOfWeek": "Monday"}} => {"$date":
            "2000-10-09T00:00:00Z"}
        {"$dateTrunc": {"date": {"$date": "2021-03-20T11:30:05Z"}, "unit": "week", "binSize": 2,
            "timezone": "America/Los_Angeles", "startOfWeek": "Monday"}}
            => {"$date": "2021-03-15T07:00:00Z"}
        {"$dateTrunc": {"date": {"$date": "2021-03-20T11:30:05Z"}, "unit": "month", "binSize": 6}}
            => {"$date": "2021-01-01T00:00:00Z"}
        {"$dateTrunc": {"date": "$date", "unit": "quarter"}} => {"$date": "2000-10-01T00:00:00Z"}
        {"$dateTrunc": {"date": "$date", "unit": "year", "binSize": 5}} => {"$date":
            "2000-01-01T00:00:00Z"}
        {"$dateTrunc": {"date": {"$date": "1999-12-31T23:00:00Z"}, "unit": "year", "binSize": 5}}
            => {"$date": "1995-01-01T00:00:00Z"}
        {"$dateTrunc": {"date": "$date", "unit": "hour", "timezone": "+05:30"}} => {"$date":
            "2000-10-10T20:30:00Z"}
        {"$dateTrunc": {"date": "$date", "unit": "second"}} => {"$date": "2000-10-10T20:55:36Z"}
        {"$dateTrunc": {"date": "$date", "unit": "eon"}} => error 9
        {"$dateTrunc": {"date": "$date", "unit": 5}} => error 5439013
        {"$dateTrunc": {"date": "$date", "unit": "hour", "binSize": 0}} => error 5439018
        {"$dateTrunc": {"date": "$date", "unit": "hour", "binSize": 0.5}} => error 5439017
        {"$dateTrunc": {"date": "$date", "unit": "week", "startOfWeek": "x"}} => error 9
        {"$dateTrunc": {"date": "$date", "unit": "hour", "startOfWeek": "x"}} => {"$date":
            "2000-10-10T20:00:00Z"}
        {"$dateTrunc": {"date": "$s", "unit": "hour"}} => error 5439012
        {"$dateTrunc": {"date": "$n", "unit": "hour"}} => null
        {"$dateTrunc": {"date": "$date", "unit": "$n"}} => null
        {"$dateTrunc": {"date": "$date", "unit": "week", "startOfWeek": "$n"}} => null
        {"$dateTrunc": {"date": "$date", "unit": "hour", "startOfWeek": "$n"}} => {"$date":
            "2000-10-10T20:00:00Z"}
        {"$dateTrunc": {"unit": "hour"}} => error 5439009
        "#,
    );
}

#[test]
fn additions_and_differences() {
    // "$dateAdd", "$dateSubtract", "$dateDiff".
    check(
        r#"
        {"$dateAdd": {"startDate": "$date", "unit": "day", "amount": 3}} => {"$date":
            "2000-10-13T20:55:36.123Z"}
        {"$dateAdd": {"startDate": {"$date": "2020-10-31T12:10:05Z"}, "unit": "month", "amount":
            1}} => {"$date": "2020-11-30T12:10:05Z"}
        {"$dateSubtract": {"startDate": {"$date": "2020-03-31T12:10:05Z"}, "unit": "month",
            "amount": 1}} => {"$date": "2020-02-29T12:10:05Z"}
        {"$dateAdd": {"startDate": {"$date": "2020-10-31T10:10:00Z"}, "unit": "day", "amount": 1,
            "timezone": "America/Chicago"}} => {"$date": "2020-11-01T11:10:00Z"}
        {"$dateAdd": {"startDate": {"$date": "2020-10-31T10:10:00Z"}, "unit": "hour", "amount": 24,
            "timezone": "America/Chicago"}} => {"$date": "2020-11-01T10:10:00Z"}
        {"$dateAdd": {"startDate": "$date", "unit": "quarter", "amount": -1}} => {"$date":
            "2000-07-10T20:55:36.123Z"}
        {"$dateAdd": {"startDate": "$date", "unit": "day", "amount": 1.5}} => error 5166405
        {"$dateAdd": {"startDate": "$date", "unit": "year", "amount": {"$numberLong":
            "9000000000000000000"}}} => error 15
        {"$dateAdd": {"startDate": "$n", "unit": "day", "amount": 1}} => null
        {"$dateDiff": {"startDate": {"$date": "2020-12-31T23:59:59Z"}, "endDate": {"$date":
            "2021-01-01T00:00:00Z"}, "unit": "year"}} => {"$numberLong": "1"}
        {"$dateDiff": {"startDate": {"$date": "2020-12-31T23:59:59Z"}, "endDate": {"$date":
            "2021-01-01T00:00:00Z"}, "unit": "hour"}} => {"$numberLong": "1"}
        {"$dateDiff": {"startDate": {"$date": "2021-01-08T00:00:00Z"}, "endDate": {"$date":
            "2021-01-11T00:00:00Z"}, "unit": "week"}} => {"$numberLong": "1"}
        {"$dateDiff": {"startDate": {"$date": "2021-01-10T00:00:00Z"}, "endDate": {"$date":
            "2021-01-11T00:00:00Z"}, "unit": "week"}} => {"$numberLong": "0"}
        {"$dateDiff": {"startDate": {"$date": "2021-01-10T00:00:00Z"}, "endDate": {"$date":
            "2021-01-11T00:00:00Z"}, "unit": "week", "startOfWeek": "mon"}} => {"$numberLong": "1"}
        {"$dateDiff": {"startDate": "$date", "endDate": {"$date": "1999-10-10T00:00:00Z"}, "unit":
            "quarter"}} => {"$numberLong": "-4"}
        {"$dateDiff": {"startDate": "$date", "endDate": "$n", "unit": "day"}} => null
        "#,
    );
}
