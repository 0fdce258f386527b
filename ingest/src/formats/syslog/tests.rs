use proptest::prelude::*;
use serde_json::{Value, json};

use crate::Format;
use crate::formats::documents::testing::{event as event_of, options, parsed, refusal};
use crate::formats::recognise;
use crate::reader::Fit;

fn event(line: &str) -> Value {
    event_of(Format::Syslog, line)
}

#[test]
fn rfc_5424_has_all_its_fields() {
    let line = r#"<165>1 2026-11-26T09:23:38.003+01:00 web1 evnt 42 ID47 [a@1 k="v" l="x\]\"\\\y"][b@2 c="d"] text  behind"#;
    let expected = json!({
        "time": "2026-11-26T08:23:38.003000Z", "facility": "local4", "level": "notice",
        "host": "web1", "app": "evnt", "pid": 42, "msgid": "ID47",
        "structured_data.a@1.k": "v", "structured_data.a@1.l": r#"x]"\\y"#,
        "structured_data.b@2.c": "d", "line": "text  behind",
    });
    assert_eq!(event(line), expected);
    assert_eq!(
        recognise(line.as_bytes()),
        Some((Format::Syslog, Fit::Whole))
    );
    // The fields of a file without the priority are the same.
    let (_, file) = line.split_at("<165>1 ".len());
    let mut of_file = expected;
    let fields = of_file.as_object_mut().unwrap();
    fields.remove("facility");
    fields.remove("level");
    assert_eq!(event(file), of_file);
}

#[test]
fn nothing_of_rfc_5424_is_needed() {
    assert_eq!(
        event("<0>1 - - - - - -"),
        json!({
            "time": "2026-11-26T12:00:00Z", "time_source": "received",
            "facility": "kern", "level": "emerg",
        })
    );
    assert_eq!(
        event("<14>1 2026-11-26T09:23:38Z - - worker-7 - - \u{feff}text"),
        json!({
            "time": "2026-11-26T09:23:38Z", "facility": "user", "level": "info",
            "process": "worker-7", "line": "text",
        })
    );
}

#[test]
fn parameters_of_one_name_become_an_array() {
    assert_eq!(
        event(r#"<14>1 - - - - - [o ip="192.0.2.7" ip="192.0.2.8"][e]"#),
        json!({
            "time": "2026-11-26T12:00:00Z", "time_source": "received",
            "facility": "user", "level": "info",
            "_rest": {
                "structured_data.o.ip": ["192.0.2.7", "192.0.2.8"], "structured_data.e": {},
            },
        })
    );
}

#[test]
fn rfc_3164_has_a_host_a_tag_and_a_text() {
    let time = "2026-11-03T09:23:38Z";
    for (line, expected) in [
        (
            "<13>Nov  3 09:23:38 web1 app[42]: text",
            json!({ "facility": "user", "level": "notice", "host": "web1", "app": "app", "pid": 42, "line": "text" }),
        ),
        (
            "Nov  3 09:23:38 web1 sshd(pam)[007]: a: b",
            json!({ "host": "web1", "app": "sshd(pam)", "process": "007", "line": "a: b" }),
        ),
        (
            "Nov 3 09:23:38 web1 kernel: [1.5] text",
            json!({ "host": "web1", "app": "kernel", "line": "[1.5] text" }),
        ),
        (
            "Nov  3 09:23:38 web1 lookup failed",
            json!({ "host": "web1", "line": "lookup failed" }),
        ),
        (
            "Nov  3 09:23:38 app[1]: text",
            json!({ "app": "app", "pid": 1, "line": "text" }),
        ),
        (
            "Nov  3 09:23:38 web1 app:",
            json!({ "host": "web1", "app": "app" }),
        ),
        (
            "Nov  3 2026 09:23:38 web1 app: x",
            json!({ "host": "web1", "app": "app", "line": "x" }),
        ),
        (
            "2026-11-03T10:23:38+01:00 web1 app[42]: text [a b=\"c\"]",
            json!({ "host": "web1", "app": "app", "pid": 42, "line": "text [a b=\"c\"]" }),
        ),
    ] {
        let mut expected = expected;
        expected["time"] = time.into();
        assert_eq!(event(line), expected, "{line}");
        assert_eq!(
            recognise(line.as_bytes()),
            Some((Format::Syslog, Fit::Whole)),
            "{line}"
        );
    }
}

#[test]
fn a_text_with_a_priority_alone_has_the_time_of_its_receipt() {
    assert_eq!(
        event("<13>text of a program"),
        json!({
            "time": "2026-11-26T12:00:00Z", "time_source": "received",
            "facility": "user", "level": "notice", "line": "text of a program",
        })
    );
    assert_eq!(recognise(b"<13>text of a program"), None);
}

#[test]
fn the_year_is_that_of_the_last_such_day() {
    let time = |stamp: &str| event(&format!("{stamp} web1 a: b"))["time"].clone();
    // Received on 2026-11-26 at noon.
    assert_eq!(time("Nov 26 11:59:59"), "2026-11-26T11:59:59Z");
    assert_eq!(time("Nov 27 12:00:01"), "2025-11-27T12:00:01Z");
    assert_eq!(time("Dec 31 23:59:59"), "2025-12-31T23:59:59Z");
    assert_eq!(time("Feb 29 00:00:00"), "2024-02-29T00:00:00Z");
    // A clock that is fast by hours is told, and not read as one of the year before.
    let refused = refusal(Format::Syslog, "Nov 27 11:00:00 web1 a: b");
    assert!(refused.starts_with("future: "), "{refused}");
    // Just after New Year, in a zone that still has the old one.
    let mut options = options(Format::Syslog);
    options.received_us = 1_798_763_400_000_000; // 2027-01-01T00:30:00Z
    options.tz = crate::zone("America/New_York");
    let (events, _) = parsed(options, b"Dec 31 19:29:00 web1 a: b\n");
    assert_eq!(events[0]["time"], "2027-01-01T00:29:00Z");
}

#[test]
fn a_year_can_be_given() {
    let mut options = options(Format::Syslog);
    options.year = Some(2005);
    let lines = b"Dec 31 23:59:59 web1 a: b\nFeb 29 00:00:00 web1 a: b\n";
    let (events, bad) = parsed(options, lines);
    assert_eq!(events[0]["time"], "2005-12-31T23:59:59Z");
    assert!(bad[0].starts_with("bad_time"), "{bad:?}");
}

#[test]
fn logs_with_a_level_where_syslog_has_its_host_are_none() {
    for line in [
        "2026-11-26T09:23:38Z INFO app: text",
        "2026-11-26T09:23:38Z  INFO app: text",
        "2026-11-26 09:23:38 web1 app: text",
        "2026-11-26T09:23:38Z web1",
        "Nov 26 09:23:38",
        "Nov 26 text",
    ] {
        assert_eq!(recognise(line.as_bytes()), None, "{line}");
    }
}

#[test]
fn a_bad_line_is_named_with_its_place() {
    for (line, expected) in [
        (
            "text",
            "bad_time: column 1: expected a time as Nov 26 09:23:38 or 2026-11-26T09:23:38Z, found text",
        ),
        (
            "<13>1 2026-13-26T09:23:38Z - - - - -",
            "bad_time: column 7: expected a time of RFC 3339 or -, found 2026-13-26T09:23:38Z - - - - -",
        ),
        (
            "<13>1 - web1 app",
            "bad_header: column 14: expected an application or -, found app",
        ),
        (
            "<13>1 - - - - - text",
            "bad_data: column 17: expected structured data in brackets or -, found text",
        ),
        (
            "<13>1 - - - - - [a b=\"c]",
            "bad_data: column 25: expected \\\" at the end of a value, found the end of the line",
        ),
        (
            "<13>1 - - - - - [a b=c]",
            "bad_data: column 21: expected =\\\" behind the name of a parameter, found =c]",
        ),
        (
            "<13>1 - - - - - -text",
            "bad_data: column 18: expected a space before the text, found text",
        ),
    ] {
        assert_eq!(
            refusal(Format::Syslog, line).replace("\\\"", "\""),
            expected.replace("\\\"", "\"")
        );
    }
    for line in [
        "<192>Nov 3 09:23:38 h x",
        "<>Nov 3 09:23:38 h x",
        "<1234>x",
        "<13",
    ] {
        assert!(
            refusal(Format::Syslog, line).starts_with("bad_time"),
            "{line}"
        );
    }
}

proptest! {
    /// A message written by RFC 5424 is read with the parts that it was made of.
    #[test]
    fn what_is_written_by_rfc_5424_is_read(
        priority in 0usize..192,
        header in prop::array::uniform3(prop_oneof![Just("-".to_owned()), "[!-,.-~]{1,9}"]),
        elements in prop::collection::btree_map(
            "[a-z@0-9]{1,5}",
            prop::collection::btree_map("[a-zA-Z]{1,4}", "[ -~é\\\\\"\\]]{0,9}", 0..3),
            0..3,
        ),
        text in prop::option::of("[ -~é]{0,20}"),
    ) {
        let mut line = format!("<{priority}>1 2026-11-26T09:23:38Z {} {} - {} ", header[0], header[1], header[2]);
        let mut expected = json!({ "time": "2026-11-26T09:23:38Z" });
        expected["facility"] = json!(super::FACILITIES[priority / 8]);
        expected["level"] = json!(super::LEVELS[priority % 8]);
        for (name, word) in ["host", "app", "msgid"].into_iter().zip(&header) {
            if word != "-" {
                expected[name] = json!(word);
            }
        }
        let mut empty = json!({});
        for (id, parameters) in &elements {
            line += &format!("[{id}");
            for (name, value) in parameters {
                let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace(']', "\\]");
                line += &format!(" {name}=\"{escaped}\"");
                expected[format!("structured_data.{id}.{name}")] = json!(value);
            }
            line += "]";
            if parameters.is_empty() {
                empty[format!("structured_data.{id}")] = json!({});
            }
        }
        if elements.is_empty() {
            line += "-";
        }
        if empty != json!({}) {
            expected["_rest"] = empty;
        }
        if let Some(text) = &text {
            line += &format!(" {text}");
            if !text.is_empty() {
                expected["line"] = json!(text);
            }
        }
        prop_assert_eq!(event(&line), expected, "{}", line);
    }
}

#[test]
fn the_sender_is_the_host_of_lines_without_one() {
    let sender: std::sync::Arc<str> = "192.0.2.7".into();
    let mut records = crate::Records::default();
    for line in [
        "<13>text of a program",
        "<13>Nov  3 09:23:38 app[1]: text",
        "<13>Nov  3 09:23:38 web1 app[1]: text",
        "<14>1 2026-11-26T09:23:38Z - app - - - text",
        "<14>1 2026-11-26T09:23:38Z web2 app - - [a@1 host=\"x\"] text",
    ] {
        records.push_from(&sender, line.as_bytes());
    }
    records.push(b"<13>text from nowhere");
    let mut parser = crate::Parser::new(options(Format::Syslog));
    let received_us = options(Format::Syslog).received_us;
    let parsed = parser.parse_items(records.items(received_us)).unwrap();
    let column = parsed.events.column_by_name("host").unwrap();
    let hosts = arrow::compute::cast(column, &arrow::datatypes::DataType::Utf8).unwrap();
    let hosts: &arrow::array::StringArray = arrow::array::AsArray::as_string(&hosts);
    let hosts: Vec<Option<&str>> = hosts.iter().collect();
    let own = Some("192.0.2.7");
    assert_eq!(hosts, [own, own, Some("web1"), own, Some("web2"), None]);
}
