use super::*;

const COMBINED: &str = r#"h - u [10/Oct/2000:13:55:36 -0700] "GET /a?b HTTP/1.0" 200 2326 "r" "a""#;

fn run(sample: &str) -> Explanation {
    let options = ParseOptions {
        received_us: 1_798_761_600_000_000,
        ..ParseOptions::default()
    };
    explain("a.log", sample.as_bytes(), options).unwrap()
}

#[test]
fn the_caret_stands_under_the_column_where_parsing_stopped() {
    let bad = COMBINED
        .replace("10/Oct", "32/Oct")
        .replace("h - u", "h\u{e9}\t - u");
    let explanation = run(&format!("{COMBINED}\n\n{bad}\n"));
    let shown = explanation.to_string();
    let lines: Vec<&str> = shown.lines().collect();
    let caret = lines
        .iter()
        .position(|line| line.trim() == "^")
        .expect("a caret");
    let column = lines[caret].chars().count() - 1;
    assert_eq!(
        lines[caret - 1]
            .chars()
            .skip(column)
            .collect::<String>()
            .split(':')
            .next(),
        Some("32/Oct/2000")
    );
    let first_bad = explanation.first_bad.unwrap();
    // The column counts bytes: é has two.
    assert_eq!(
        (first_bad.line, first_bad.byte, first_bad.column),
        (3, COMBINED.len() as u64 + 2, 11)
    );
    assert_eq!(first_bad.reason, "bad_time");
    assert!(shown.contains("line 3, byte 73, column 11"), "{shown}");
}

#[test]
fn an_access_log_is_explained_with_its_fields_and_first_event() {
    let explanation = run(&format!("{COMBINED}\n{COMBINED}\nbad\n\n"));
    assert_eq!(explanation.format, Format::Combined);
    assert_eq!(
        (
            explanation.lines,
            explanation.events,
            explanation.quarantined,
            explanation.empty
        ),
        (4, 2, 1, 1)
    );
    assert_eq!(explanation.reasons, [("not_combined".to_owned(), 1)]);
    let event = explanation.first_event.clone().unwrap();
    assert_eq!(event["time"], "2000-10-10T20:55:36Z");
    assert_eq!(event["request"], "GET /a?b HTTP/1.0");
    let request = explanation
        .fields
        .iter()
        .find(|f| f.name == "request")
        .unwrap();
    assert_eq!(request.values, 2);
    assert_eq!(event["status"], 200);
    assert_eq!(event["site"], Value::Null);
    let shown = explanation.to_string();
    for part in [
        "a.log: combined",
        "2 of the first 3 lines are combined",
        "4 = 2 events + 1 quarantined + 1 empty (not_combined 1)",
        "int16",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert_eq!(
        serde_json::to_value(&explanation).unwrap()["format"],
        "combined"
    );
}

#[test]
fn a_json_log_is_explained_with_every_dotted_field_and_its_type() {
    let explanation = run(
        "{\"a\":{\"b\":1,\"c\":[1,\"x\"]},\"ts\":5}\n{\"a\":{\"b\":\"text\",\"d\":{}}}\n{\"a\":\n",
    );
    assert_eq!(explanation.format, Format::Json);
    let fields: Vec<_> = explanation
        .fields
        .iter()
        .map(|f| (f.name.as_str(), f.field_type.as_str(), f.values, f.in_rest))
        .collect();
    assert_eq!(
        fields,
        [
            ("time", "time", 2, false),
            ("a.b", "int64", 1, false),
            ("ts", "int64", 1, false),
            ("time_source", "text", 1, false),
            ("a.c", "array", 1, true),
            ("a.d", "object", 1, true),
            ("a.b", "text", 1, true),
        ]
    );
    let event = explanation.first_event.clone().unwrap();
    assert_eq!(event["_rest"]["a.c"], serde_json::json!([1, "x"]));
    assert_eq!(explanation.first_bad.clone().unwrap().reason, "bad_json");
    assert!(explanation.to_string().contains("in _rest"));
}

#[test]
fn a_source_without_format_names_plain() {
    let explanation = run("one\ntwo\n");
    assert_eq!(
        (explanation.format.clone(), explanation.quarantined),
        (Format::Auto, 2)
    );
    assert!(explanation.to_string().contains("--format plain"));
}

#[test]
fn a_format_that_was_asked_for_is_compared_with_what_auto_takes() {
    let options = ParseOptions {
        format: Format::Json,
        ..ParseOptions::default()
    };
    let explanation = explain("x", COMBINED.as_bytes(), options).unwrap();
    assert!(
        explanation.why.contains("auto would choose combined"),
        "{}",
        explanation.why
    );
}

#[test]
fn only_the_part_of_a_long_line_around_the_column_is_shown() {
    let line = [b"a".repeat(1000), b"!".to_vec(), b"b".repeat(1000)].concat();
    let (text, caret) = excerpt(&line, 1000);
    assert_eq!(text.chars().nth(caret), Some('!'));
    assert!(
        text.starts_with('…') && text.ends_with('…') && text.chars().count() == SHOWN_BYTES + 2
    );
    assert_eq!(excerpt(b"\x00a\xff", 2), ("\\u{0}a\u{fffd}".to_owned(), 6));
    assert_eq!(excerpt(b"ab", 9), ("ab".to_owned(), 2));
}

#[test]
fn the_text_says_how_sure_auto_is_and_which_program_wrote_json() {
    let shown = run(&format!("{COMBINED}\n{COMBINED}\n{{}}\n")).to_string();
    assert!(
        shown.contains("  auto: 2 of 3 lines of the sample fit, and 1 are json\n"),
        "{shown}"
    );
    let shown = run("{\"log\":\"a\",\"stream\":\"stdout\",\"time\":\"2026-05-01T09:00:00Z\"}\n")
        .to_string();
    assert!(shown.contains("  dialect: Docker (json-file)\n"), "{shown}");
}
