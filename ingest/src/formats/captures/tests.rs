use serde_json::{Value, json};

use crate::Format;
use crate::formats::documents::testing::{options, parsed};

#[track_caller]
fn event(regex: &str, line: &str) -> Value {
    let format: Format = regex.parse().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(format.to_string(), regex);
    crate::formats::documents::testing::event(format, line)
}

#[track_caller]
fn refusal(regex: &str, line: &str) -> String {
    crate::formats::documents::testing::refusal(regex.parse().unwrap(), line)
}

#[test]
fn groups_are_fields_of_their_types() {
    let regex = r"regex:(?<time>\S+ \S+) (?P<level>[A-Z]+) \((?<pid:int>\d+)\) (?<took:float>\S+) (?<cached:bool>\S+) (?:(?<user>\w+) )?\[(?<line:text>.*)\]";
    assert_eq!(
        event(
            regex,
            "2026-11-26 09:23:38,250 INFO (42) 0.5 true ann [a b]"
        ),
        json!({
            "time": "2026-11-26T09:23:38.250000Z", "level": "INFO", "pid": 42, "took": 0.5,
            "cached": true, "user": "ann", "line": "a b",
        })
    );
    // A value that is none of its type is kept as a text, beside the column.
    let format: Format = regex.parse().unwrap();
    let lines =
        "2026-11-26 09:23:38 INFO (42) 0.5 true [x]\n2026-11-26 09:23:38 INFO (7) soon - [y]\n";
    let (events, bad) = parsed(options(format), lines.as_bytes());
    assert!(bad.is_empty(), "{bad:?}");
    assert_eq!(events[1]["_rest"], json!({ "took": "soon" }));
    assert_eq!(events[1].get("cached"), None);
    assert_eq!(events[1]["pid"], 7);
}

#[test]
fn times_are_read_as_logs_spell_them() {
    for (group, time, expected) in [
        ("time", "2026-11-26T09:23:38+01:00", "2026-11-26T08:23:38Z"),
        ("ts", "1795681418.25", "2026-11-26T08:23:38.250000Z"),
        ("time", "26/Nov/2026:09:23:38 +0100", "2026-11-26T08:23:38Z"),
        ("time", "Nov 26 08:23:38", "2026-11-26T08:23:38Z"),
        ("time", "2026/11/26 08:23:38", "2026-11-26T08:23:38Z"),
        ("time", "Thu Nov 26 08:23:38 2026", "2026-11-26T08:23:38Z"),
        (
            "time:%y%m%d %H%M%S",
            "261126 082338",
            "2026-11-26T08:23:38Z",
        ),
        (
            "time:%d.%m.%Y %H:%M:%S %z",
            "26.11.2026 09:23:38 +0100",
            "2026-11-26T08:23:38Z",
        ),
    ] {
        let regex = format!(r"regex:(?<{group}>[^|]+)\|(?<line>.*)");
        let expected = json!({ "time": expected, "line": "x" });
        assert_eq!(event(&regex, &format!("{time}|x")), expected, "{group}");
    }
    let event = event(r"regex:'(?<line>.*)'", "x");
    assert_eq!(event["time_source"], "received");
}

#[test]
fn bytes_that_are_no_utf_8_are_read() {
    let format: Format = r"regex:(?<level>\w+) (?<line>.*)".parse().unwrap();
    let (events, bad) = parsed(options(format), b"info a\xff\xfeb\n");
    assert!(bad.is_empty(), "{bad:?}");
    assert_eq!(events[0]["line"], "a\u{fffd}\u{fffd}b");
}

#[test]
fn a_line_that_does_not_match_is_told_so() {
    let regex = r"regex:(?<time>\S+) (?<line>\w+)";
    assert_eq!(
        refusal(regex, "2026-11-26T09:23:38Z two words"),
        "no_match: column 1: the regular expression does not match the whole line"
    );
    assert_eq!(
        refusal(regex, "soon x"),
        "bad_time: column 1: expected a time of RFC 3339, of an access log or of syslog, or seconds since 1970, found soon x"
    );
    assert_eq!(
        refusal(r"regex:(?<line>x) (?<time:%Y>.*)", "x 26"),
        "bad_time: column 3: \"26\" is no time as %Y"
    );
}

#[test]
fn an_expression_that_cannot_be_used_is_refused_with_the_reason() {
    for (regex, why) in [
        ("regex:", "it has no named group"),
        (r"regex:\(?<a>x", "it has no named group"),
        ("regex:(?<a>", "it is no regular expression"),
        ("regex:(?<a", "(?< is not closed"),
        ("regex:(?<a:number>x)", "the type \"number\" is not known"),
        ("regex:(?<time:%Q>x)", "is no format of strftime"),
        (
            "regex:(?<when:%Y>x)",
            "the time of an event is called time, and not when",
        ),
        (r"regex:(?<a>(\w{500}){500})", "it is no regular expression"),
    ] {
        let told = regex.parse::<Format>().unwrap_err().to_string();
        assert!(told.contains(why) && told.contains(regex), "{told}");
    }
    let long = format!("regex:(?<a>{})", "x".repeat(5000));
    let told = long.parse::<Format>().unwrap_err().to_string();
    assert!(told.contains("longer than 4096 bytes"), "{told}");
}
