//! The parser and the printer.

use proptest::prelude::*;

use crate::logql::{Expr, Metric, fuzzing, parse};

/// Queries as Grafana and people write them; each is understood.
const UNDERSTOOD: [&str; 40] = [
    r#"{stream="web"}"#,
    r#"{stream="web", host!="a", level=~"warn|error", site!~"x.*"} |= "GET" != "bot" |~ "a+" !~ "b$""#,
    r#"{stream="web"} |= `raw \d` or "b" | json"#,
    r#"{stream="web"} | json method="request.method", first="list[0]""#,
    r#"{stream="web"} | logfmt | logfmt took="duration""#,
    r#"{stream="web"} | pattern "<ip> - <_> <rest>""#,
    r#"{stream="web"} | regexp "(?P<a>\\w+) (?P<b>\\d+)""#,
    r#"{stream="web"} | status >= 500 and method="GET" or took > 1.5s, size < 10KB"#,
    r#"{stream="web"} | (a="1" or b="2") and c!="3" d=~"4""#,
    r#"{stream="web"} | line_format "{{.method}} {{ .path }} {{__line__}}""#,
    r#"{stream="web"} | label_format a=b, c="{{.d}}-x" | drop a, b="x" | keep c, d=~"y.*""#,
    r#"{stream="web"} | drop __error__"#,
    r#"{stream="web"} # a comment
        |= "x""#,
    r#"({stream="web"} |= "x")"#,
    "{}",
    r#"rate({stream="web"}[5m])"#,
    r#"count_over_time({stream="web"} |= "x" [1h30m])"#,
    r#"count_over_time({stream="web"}[5m] |= "x")"#,
    r#"count_over_time({stream="web"}[5m] offset 1h)"#,
    r#"count_over_time({stream="web"}[5m] offset -90s)"#,
    r#"sum by (level, detected_level) (count_over_time({stream="web"} | drop __error__ [1m]))"#,
    r#"sum(count_over_time({stream="web"}[1m])) by (level)"#,
    r#"sum without (host) (rate({stream="web"}[1m]))"#,
    r#"topk(5, sum by (path) (rate({stream="web"}[1m])))"#,
    r#"bottomk by (host) (2, bytes_rate({stream="web"}[1m]))"#,
    r#"quantile_over_time(0.99, {stream="web"} | unwrap response_size [5m]) by (host)"#,
    r#"avg_over_time({stream="web"} | json | unwrap duration(took) | __error__="" [5m])"#,
    r#"sum_over_time({stream="web"} | unwrap bytes(size) [5m]) without (path)"#,
    r#"min_over_time({stream="web"} | unwrap x [5m]) / max_over_time({stream="web"} | unwrap x [5m])"#,
    r#"first_over_time({stream="web"} | unwrap x [5m]) - last_over_time({stream="web"} | unwrap x [5m])"#,
    r#"rate({stream="web"} | unwrap x [5m]) > 0.5"#,
    r#"absent_over_time({stream="web"}[5m])"#,
    "vector(1)+vector(1)",
    "vector(-1.5)",
    "1 + 2 * 3 ^ 2 ^ 2 % 5",
    r#"100 * sum(rate({stream="web"} | status >= 500 [5m])) / sum(rate({stream="web"}[5m]))"#,
    r#"sum(rate({stream="web"}[5m])) >= bool 1e-3"#,
    r#"count(rate({stream="web"}[5m])) != 2 == bool 1"#,
    r#"avg(bytes_over_time({stream="web"}[1d])) < -5"#,
    r#"max(min(rate({stream="web"}[1w])))"#,
];

#[test]
fn a_query_prints_as_text_that_parses_to_the_same_tree() {
    for text in UNDERSTOOD {
        let query = parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let printed = query.to_string();
        let again = parse(&printed).unwrap_or_else(|e| panic!("{printed}: {e}"));
        assert_eq!(again, query, "{text} printed as {printed}");
    }
}

#[test]
fn a_query_outside_the_subset_is_refused_with_its_operator_and_position() {
    for (text, position, named) in [
        ("{a=\"b\"", "column 7", "expected"),
        ("{a=\"b\"} | decolorize", "column 11", "decolorize"),
        ("{a=\"b\"} | unpack", "column 11", "unpack"),
        ("{a=\"b\"}\n  | distinct x", "line 2, column 5", "distinct"),
        ("{a=\"b\"} |> \"<_> x\"", "column 9", "|>"),
        ("{a=\"b\"} |= ip(\"10.0.0.0/8\")", "column 12", "ip()"),
        ("{a=\"b\"} | nonsense", "column 11", "nonsense"),
        ("{a=\"b\"} | addr = ip(\"10.0.0.1\")", "column 18", "ip()"),
        ("{a=~\"(\"}", "column 5", "regular expression"),
        ("{a=\"b\"} |~ \"[\"", "column 12", "regular expression"),
        (
            "{a=\"b\"} | line_format \"{{.a | upper}}\"",
            "column 23",
            "upper",
        ),
        ("{a=\"b\"} | pattern \"<a><b>\"", "column 19", "captures"),
        ("{a=\"b\"} | regexp \"x\"", "column 18", "named group"),
        (
            "stddev_over_time({a=\"b\"} | unwrap x [1m])",
            "column 1",
            "stddev_over_time",
        ),
        ("sort(rate({a=\"b\"}[1m]))", "column 1", "sort"),
        (
            "label_replace(rate({a=\"b\"}[1m]),\"a\",\"b\",\"c\",\"d\")",
            "column 1",
            "label_replace",
        ),
        (
            "rate({a=\"b\"}[1m]) and rate({a=\"b\"}[1m])",
            "column 19",
            "and",
        ),
        (
            "rate({a=\"b\"}[1m]) * on(x) rate({a=\"b\"}[1m])",
            "column 21",
            "on",
        ),
        ("rate({a=\"b\"}[1m:5s])", "column 16", "subqueries"),
        ("rate({a=\"b\"}[1m] @ 5)", "column 18", "@"),
        ("rate({a=\"b\"})", "column 13", "range"),
        ("rate({a=\"b\"}[0s])", "column 14", "longer than 0"),
        ("avg_over_time({a=\"b\"}[1m])", "column 1", "unwrap"),
        (
            "count_over_time({a=\"b\"} | unwrap x [1m])",
            "column 1",
            "unwrap",
        ),
        ("rate({a=\"b\"}[1m]) by (x)", "column 1", "grouping"),
        ("topk(0, rate({a=\"b\"}[1m]))", "column 6", "topk"),
        (
            "sum_over_time({a=\"b\"} | unwrap ms(x) [1m])",
            "column 32",
            "ms()",
        ),
        ("nonsense({a=\"b\"}[1m])", "column 1", "nonsense"),
        ("{a=\"b\"} ~ \"x\"", "column 9", "~"),
        ("{a=\"b\"} |= \"\\q\"", "column 13", "escape"),
        ("", "column 1", "expected"),
    ] {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains(position), "{text}: {error}");
        assert!(error.contains(named), "{text}: {error}");
    }
}

#[test]
fn the_size_and_the_depth_of_a_query_are_bounded() {
    let deep = format!("{}1{}", "(".repeat(100), ")".repeat(100));
    assert!(
        parse(&deep)
            .expect_err("deep")
            .to_string()
            .contains("nests")
    );
    let wide = format!("{{}}{}", " |= \"x\"".repeat(2000));
    assert!(
        parse(&wide)
            .expect_err("wide")
            .to_string()
            .contains("operators")
    );
    let long = format!("{{}} |= \"{}\"", "x".repeat(70_000));
    assert!(
        parse(&long)
            .expect_err("long")
            .to_string()
            .contains("bytes")
    );
    let open = "count_over_time(".to_owned() + &"(".repeat(60_000);
    parse(&open).expect_err("brackets that never close");
}

#[test]
fn operators_bind_as_in_prometheus() {
    for (text, printed) in [
        ("1 + 2 * 3", "(1) + ((2) * (3))"),
        ("1 - 2 - 3", "((1) - (2)) - (3)"),
        ("2 ^ 3 ^ 2", "(2) ^ ((3) ^ (2))"),
        ("1 > bool 2 + 1", "(1) > bool ((2) + (1))"),
    ] {
        let Ok(Expr::Metric(metric)) = parse(text) else {
            panic!("{text}");
        };
        assert_eq!(metric.to_string(), printed);
    }
    assert!(matches!(
        parse("vector(1)"),
        Ok(Expr::Metric(Metric::Vector(_)))
    ));
}

/// SeriesPieces of queries, of which random texts are made that go far into the parser.
const PIECES: [&str; 44] = [
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "5m",
    "1h30m",
    "10KB",
    "1.5",
    "a",
    "stream",
    "=",
    "!=",
    "=~",
    "!~",
    "|=",
    "|~",
    "|",
    ",",
    "\"x\"",
    "`y`",
    "\"(?P<z>.)\"",
    "json",
    "logfmt",
    "pattern",
    "\"<a> <_>\"",
    "regexp",
    "line_format",
    "\"{{.a}}\"",
    "label_format",
    "drop",
    "keep",
    "unwrap",
    "rate",
    "sum_over_time",
    "quantile_over_time",
    "sum",
    "by",
    "topk",
    "offset",
    "or",
    "+",
    ">",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC{0,60}") {
        fuzzing::logql(text.as_bytes());
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        fuzzing::logql(&bytes);
    }

    #[test]
    fn any_sequence_of_words_is_parsed_or_refused(
        words in proptest::collection::vec(0..PIECES.len(), 0..24)
    ) {
        let words: Vec<&str> = words.into_iter().map(|word| PIECES[word]).collect();
        fuzzing::logql(words.join(" ").as_bytes());
    }

    #[test]
    fn a_query_with_one_other_piece_is_parsed_or_refused(
        query in 0..UNDERSTOOD.len(), at in 0.0..1.0, piece in 0..PIECES.len(), cut in 0_usize..4
    ) {
        let text = UNDERSTOOD[query];
        let at = (text.len() as f64 * at) as usize;
        let at = (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let rest: String = text[at..].chars().skip(cut).collect();
        fuzzing::logql(format!("{}{}{rest}", &text[..at], PIECES[piece]).as_bytes());
    }
}
