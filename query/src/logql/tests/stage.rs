//! The stages of a pipeline over one line.

use super::log;
use crate::logql::{LogEntry, Pipeline};

fn entry(line: &str) -> LogEntry {
    LogEntry {
        line: line.to_owned(),
        stream: [("host".to_owned(), "h1".to_owned())].into(),
        metadata: [("status".to_owned(), "503".to_owned())].into(),
        parsed: [].into(),
    }
}

/// Runs stages over a line; returns the line and the labels that stages made.
#[track_caller]
fn run(stages: &str, line: &str) -> Option<(String, String)> {
    let pipeline = Pipeline::new(&log(&format!("{{}} {stages}")), None).expect("compiles");
    let found = pipeline.run(entry(line))?;
    let parsed = found.parsed.iter().map(|(k, v)| format!("{k}={v}"));
    Some((found.line, parsed.collect::<Vec<_>>().join(" ")))
}

#[track_caller]
fn labels(stages: &str, line: &str, expected: &str) {
    let (_, found) = run(stages, line).expect("the line passes");
    assert_eq!(found, expected, "{stages} on {line}");
}

#[track_caller]
fn passes(stages: &str, line: &str, expected: bool) {
    assert_eq!(run(stages, line).is_some(), expected, "{stages} on {line}");
}

#[test]
fn line_filters_keep_and_drop_lines() {
    for (stages, expected) in [
        (r#"|= "GET""#, true),
        (r#"|= "get""#, false),
        (r#"|= """#, true),
        (r#"|= "nothing" or "GET""#, true),
        (r#"!= "GET""#, false),
        (r#"!= "nothing" or "GET""#, false),
        (r#"|~ "G.T /a$""#, true),
        (r#"|~ "^ET""#, false),
        (r#"!~ "^ET""#, true),
        (r#"|~ "(?i)get""#, true),
        (r#"|= "GET" != "/b" |~ "a""#, true),
        (r#"|= "GET" != "/a""#, false),
    ] {
        passes(stages, "GET /a", expected);
    }
}

#[test]
fn json_makes_labels_of_fields() {
    let line = r#"{"a":"x","b":{"c":1,"d":{"e":true}},"f":[1,2],"g":null,"h i":2.5,"0":"z"}"#;
    labels("| json", line, "_0=z a=x b_c=1 b_d_e=true h_i=2.5");
    labels(
        r#"| json q="b.d.e", r="f[1]", s="f""#,
        line,
        "q=true r=2 s=[1,2]",
    );
    labels(r#"| json q="nothing""#, line, "");
    labels(
        "| json",
        r#"{"host":"other","status":"503"}"#,
        "host_extracted=other",
    );
    let (line, found) = run("| json", "no object").expect("passes");
    assert_eq!(line, "no object");
    assert!(found.starts_with("__error__=JSONParserErr"), "{found}");
    let (_, found) = run("| json | drop __error__", "[1]").expect("passes");
    assert_eq!(found, "");
}

#[test]
fn logfmt_pattern_and_regexp_make_labels() {
    let line = r#"a=1 b="x \"y\"" flag c= d-e=2 "#;
    labels("| logfmt", line, r#"a=1 b=x "y" d_e=2"#);
    labels(r#"| logfmt q="a""#, line, "q=1");
    let line = "10.0.0.1 - ann \"GET /a HTTP/1.1\" 200";
    labels(
        r#"| pattern "<ip> - <user> \"<method> <path> <_>\" <code>""#,
        line,
        "code=200 ip=10.0.0.1 method=GET path=/a user=ann",
    );
    labels(r#"| pattern "<a> nothing <b>""#, line, &format!("a={line}"));
    labels(r#"| pattern "\"<method> ""#, line, "method=GET");
    labels(
        r#"| regexp "\"(?P<m>\\w+) (?P<p>\\S+)""#,
        line,
        "m=GET p=/a",
    );
    labels(r#"| regexp "(?P<m>nothing)""#, line, "");
}

#[test]
fn conditions_compare_labels() {
    for (stages, expected) in [
        (r#"| host="h1""#, true),
        (r#"| host!="h1""#, false),
        (r#"| host=~"h.""#, true),
        (r#"| host=~"h""#, false),
        (r#"| host!~"h""#, true),
        (r#"| nothing="""#, true),
        (r#"| nothing!="""#, false),
        ("| status >= 500", true),
        ("| status > 503", false),
        ("| status = 503", true),
        ("| status == 503.0", true),
        ("| status != 503", false),
        ("| status < 1e3 and status > 5e2", true),
        ("| status < 500 or host=\"h1\"", true),
        ("| status < 500, host=\"h1\"", false),
        ("| status < 500 host=\"h1\"", false),
        ("| (status < 500 or host=\"h1\") and status = 503", true),
        ("| nothing > 1", false),
        ("| logfmt | took > 1s", true),
        ("| logfmt | took >= 1500ms and took <= 1.5s", true),
        ("| logfmt | took > 2s", false),
        ("| logfmt | size > 1KB and size < 2KiB", true),
        ("| logfmt | size > 2KB", false),
        // As in Loki, a label that is no number passes with an error.
        ("| logfmt | word > 1", true),
        ("| logfmt | word > 1 | __error__=\"\"", false),
    ] {
        passes(stages, "took=1.5s size=1.5kB word=abc", expected);
    }
}

#[test]
fn formats_change_the_line_and_labels() {
    let shown = |stages: &str| run(stages, "a=1 b=2").expect("passes");
    let (line, _) = shown(r#"| logfmt | line_format "{{.a}}-{{.host}}{{.nothing}} {{__line__}}""#);
    assert_eq!(line, "1-h1 a=1 b=2");
    let (line, _) = shown(r#"| line_format "x {{- .host -}} y""#);
    assert_eq!(line, "xh1y");
    labels(
        r#"| logfmt | label_format c=a, d="{{.b}}{{.c}}""#,
        "a=1 b=2",
        "b=2 c=1 d=21",
    );
    labels(r#"| logfmt | label_format c=nothing"#, "a=1 b=2", "a=1 b=2");
    labels("| logfmt | drop a", "a=1 b=2", "b=2");
    labels(r#"| logfmt | drop a="2", b="2""#, "a=1 b=2", "a=1");
    labels("| logfmt | keep a", "a=1 b=2", "a=1");
    passes("| drop host | host=\"\"", "", true);
    passes("| keep status | host=\"\" and status=503", "", true);
}
