use super::*;

const COMMON: &str = r#"h - u [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326"#;
const COMBINED: &str = r#"h - u [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326 "r" "a""#;

fn check(lines: &[(&str, usize)], expected: Option<Format>) -> Detection {
    let sample: String = lines
        .iter()
        .map(|(line, times)| format!("{line}\n").repeat(*times))
        .collect();
    let detection = detect(sample.as_bytes(), None);
    assert_eq!(detection.format, expected, "{detection:?}");
    detection
}

#[test]
fn the_most_frequent_format_wins() {
    let vhost = format!("v:80 {COMBINED}");
    check(&[(COMMON, 1)], Some(Format::Common));
    check(&[(COMBINED, 1)], Some(Format::Combined));
    check(&[(&vhost, 1)], Some(Format::VhostCombined));
    check(&[("{\"a\":1}", 1)], Some(Format::Json));
    check(&[(COMMON, 2), (COMBINED, 1)], Some(Format::Common));
    check(&[(COMMON, 1), (COMBINED, 1)], Some(Format::Combined));
    check(
        &[(&vhost, 3), (COMBINED, 1), (COMMON, 1)],
        Some(Format::VhostCombined),
    );
    check(
        &[("{", 2), (COMBINED, 1), (COMMON, 1)],
        Some(Format::Combined),
    );
    check(&[("{", 3), (COMBINED, 1), (COMMON, 1)], Some(Format::Json));
    check(&[("noise", 90), (COMBINED, 1)], Some(Format::Combined));
}

#[test]
fn lines_that_go_on_behind_a_format_count_for_it() {
    let detection = check(
        &[
            (&format!("{COMBINED} x"), 2),
            (&format!("{COMMON} \"cut"), 1),
        ],
        Some(Format::Combined),
    );
    assert_eq!(
        (
            detection.votes[&Format::Combined],
            detection.votes[&Format::Common],
            detection.with_extra
        ),
        (2, 1, 3)
    );
    assert_eq!(
        detection.why,
        "2 of the first 3 lines are combined, 3 lines have extra text after the access-log record"
    );
}

#[test]
fn empty_lines_are_not_looked_at_and_only_the_first_hundred_others_are() {
    let detection = check(
        &[("", 200), ("noise", 99), (COMMON, 1), ("{", 50)],
        Some(Format::Common),
    );
    assert_eq!(detection.lines, SAMPLE_LINES);
    check(&[("noise", 100), (COMMON, 50)], None);
}

#[test]
fn nothing_fits_when_there_is_nothing() {
    assert!(check(&[], None).why.contains("no line"));
    assert!(
        check(&[("noise", 3)], None)
            .why
            .starts_with("none of the first 3 lines")
    );
}

#[test]
fn a_detection_is_written_with_the_votes_of_every_format() {
    let detection = check(&[(COMMON, 2), ("{}", 1)], Some(Format::Common));
    let written = serde_json::to_value(&detection).unwrap();
    let votes = [
        ("common", 2),
        ("combined", 0),
        ("vhost_combined", 0),
        ("json", 1),
        ("logfmt", 0),
        ("syslog", 0),
        ("nginx_error", 0),
        ("apache_error", 0),
        ("alb", 0),
        ("s3_access", 0),
        ("haproxy", 0),
        ("w3c", 0),
        ("with_extra", 0),
    ];
    for (name, number) in votes {
        assert_eq!(written[name], number, "{name}");
    }
    assert_eq!(written["format"], "common");
    assert_eq!(written["fit"], 2);
    let next = serde_json::json!({ "format": "json", "lines": 1 });
    assert_eq!(written["runner_up"], next);
    assert_eq!(written.as_object().unwrap().len(), 5 + votes.len());
}

#[test]
fn lines_in_no_format_are_told_the_nearest() {
    for (line, expected) in [
        (
            r#"h - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 2000 5"#,
            "nearest to common: column 53: expected a status of three digits, then a space, found 2000 5",
        ),
        (
            "2026/11/26 09:23:38 error: x",
            "nearest to nginx_error: column 20: expected a level in brackets and process#thread:, found  error: x",
        ),
        (
            "<13>1 2026-11-26T09:23:38Z web1 app x",
            "nearest to syslog: column 37: expected a process or -, found x",
        ),
    ] {
        let why = detect(line.as_bytes(), None).why;
        assert!(why.ends_with(expected), "{why}");
    }
    let why = detect(b"text of a program", None).why;
    assert_eq!(why, "none of the first 1 lines is in a known format");
}

#[test]
fn the_most_lines_decide_among_documents() {
    let syslog = "Nov  3 09:23:38 web1 app[42]: text";
    let logfmt = "level=info msg=x";
    check(&[(syslog, 3), (logfmt, 2), ("{}", 2)], Some(Format::Syslog));
    check(
        &[(syslog, 2), (logfmt, 3), ("noise", 9)],
        Some(Format::Logfmt),
    );
    check(&[(syslog, 2), (COMMON, 2)], Some(Format::Common));
}

#[test]
fn a_line_of_a_stream_is_in_a_format_of_its_kind() {
    let vhost = format!("v:80 {COMBINED}");
    for (line, of_access) in [
        (COMMON, Format::Common),
        (COMBINED, Format::Combined),
        (&vhost, Format::VhostCombined),
        // Only a whole line speaks against the usual format.
        (&format!("{COMMON} \"cut"), Format::Combined),
        ("{}", Format::Combined),
        ("noise", Format::Combined),
        ("", Format::Combined),
    ] {
        assert_eq!(
            detect_line(line.as_bytes(), StreamKind::Access),
            of_access,
            "{line}"
        );
        assert_eq!(
            detect_line(line.as_bytes(), StreamKind::Documents),
            Format::Json,
            "{line}"
        );
    }
}

#[test]
fn a_decision_says_how_sure_it_is() {
    for (lines, fit, next, sureness) in [
        (
            &[(COMMON, 2), (COMBINED, 3), ("noise", 5)][..],
            5,
            None,
            "5 of 10 lines of the sample fit, and no other format fits one",
        ),
        (
            &[(COMBINED, 9), ("{}", 1)],
            9,
            Some((Format::Json, 1)),
            "9 of 10 lines of the sample fit, and 1 are json",
        ),
        (
            &[("{}", 7), ("a=1 b=2", 2), (COMMON, 1)],
            7,
            Some((Format::Logfmt, 2)),
            "7 of 10 lines of the sample fit, and 2 are logfmt",
        ),
        (
            &[("{}", 4)],
            4,
            None,
            "all 4 lines of the sample fit, and no other format fits one",
        ),
    ] {
        let sample: String = lines
            .iter()
            .map(|(line, times)| format!("{line}\n").repeat(*times))
            .collect();
        let detection = detect(sample.as_bytes(), None);
        let found = detection.runner_up.as_ref();
        let found = found.map(|next| (next.format.clone(), next.lines));
        assert_eq!((detection.fit, found), (fit, next));
        assert_eq!(detection.sureness(), sureness);
    }
}
