use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::Format;
use crate::formats::documents::testing::{event as event_of, refusal as refusal_of};
use crate::formats::recognise as recognise_any;

fn event(line: &str) -> Value {
    let mut event = event_of(Format::Logfmt, line);
    let fields = event.as_object_mut().unwrap();
    if fields.remove("time_source").is_some() {
        fields.remove("time");
    }
    event
}

fn refusal(line: &str) -> String {
    refusal_of(Format::Logfmt, line)
}

#[test]
fn values_have_the_types_in_which_they_are_written() {
    for (text, value) in [
        ("200", json!(200)),
        ("-7", json!(-7)),
        ("0", json!(0)),
        ("9223372036854775807", json!(i64::MAX)),
        ("0.25", json!(0.25)),
        ("-12.5", json!(-12.5)),
        ("true", json!(true)),
        ("false", json!(false)),
        // All others are texts, as they stand.
        ("9223372036854775808", json!("9223372036854775808")),
        ("007", json!("007")),
        ("-0", json!("-0")),
        ("1.", json!("1.")),
        (".5", json!(".5")),
        ("1e5", json!("1e5")),
        ("+1", json!("+1")),
        ("1.2.3", json!("1.2.3")),
        ("0.1234567890123456", json!("0.1234567890123456")),
        ("12ms", json!("12ms")),
        ("null", json!("null")),
        ("True", json!("True")),
        ("", json!("")),
        ("a=b", json!("a=b")),
        ("a\"b\"", json!("a\"b\"")),
        ("\"\"", json!("")),
        ("\"200\"", json!("200")),
        ("\"two words\"", json!("two words")),
        (r#""a \"b\" \\ \t \u00e9""#, json!("a \"b\" \\ \t é")),
        // An escape that JSON does not know.
        (r#""C:\dir""#, json!(r"C:\dir")),
    ] {
        assert_eq!(event(&format!("k={text}")), json!({ "k": value }), "{text}");
        assert_eq!(
            event(&format!("k={text} l=1")),
            json!({ "k": value, "l": 1 })
        );
    }
}

#[test]
fn words_without_a_value_are_true_and_names_may_have_points() {
    assert_eq!(
        event("\t a.b=1  cached a.c=x\t"),
        json!({ "a.b": 1, "cached": true, "a.c": "x" })
    );
    assert_eq!(event("k=1 k=2"), json!({ "k": 2 }));
    assert_eq!(
        refusal("no pairs here k=1"),
        "no_pairs: column 1: 3 words without = are more than the 1 pairs of the line"
    );
}

#[test]
fn the_time_is_where_json_has_it() {
    for line in [
        "level=info ts=2026-11-26T09:23:38.5+01:00",
        "ts=1795681418.5 level=info",
        "time=\"2026-11-26 08:23:38.5\" level=info",
    ] {
        assert_eq!(event(line)["time"], "2026-11-26T08:23:38.500000Z", "{line}");
    }
}

#[test]
fn a_bad_pair_is_named_with_its_place() {
    for (line, expected) in [
        ("a=1 =2", "bad_pair: column 5: expected a name, found =2"),
        (
            "a=1 b\"c\"",
            "bad_pair: column 6: expected =, a space or the end, found \\\"c\\\"",
        ),
        (
            "a=\"b c",
            "bad_pair: column 7: expected \" at the end of the value, found the end of the line",
        ),
        (
            "a=\"b\\",
            "bad_pair: column 6: expected \" at the end of the value, found the end of the line",
        ),
        (
            "a=\"b\"c",
            "bad_pair: column 6: expected a space behind the value, found c",
        ),
    ] {
        assert_eq!(refusal(line), expected, "{line}");
    }
}

#[test]
fn lines_of_pairs_are_recognised_and_texts_with_pairs_are_not() {
    for (line, is_logfmt) in [
        ("level=info msg=\"two words\" cached", true),
        ("@timestamp=2026-11-26T09:23:38Z a/b=1", true),
        ("a=1", false),
        ("a=1 b c", false),
        ("retry a=1 b=2", false),
        ("1=2 3=4", false),
        ("a=1 b=\"2", false),
        ("logname= uid=0 euid=0 (really)", false),
    ] {
        let expected = is_logfmt.then_some((Format::Logfmt, Fit::Whole));
        assert_eq!(recognise_any(line.as_bytes()), expected, "{line}");
    }
}

proptest! {
    /// A text written with the escapes of JSON is read as it was.
    #[test]
    fn quoted_texts_are_read_as_they_were(value in "\\PC{0,20}", other in "[a-z\"\\\\ =\t\n]{0,12}") {
        for value in [value, other] {
            let line = format!("k={} l=1", serde_json::to_string(&value).unwrap());
            prop_assert_eq!(event(&line), json!({ "k": value, "l": 1 }));
        }
    }
}
