//! Queries over a store: windows, labels, and the choice between plans and stages.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int16Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use futures::StreamExt;
use storage::StreamKind;

use super::{log, metric};
use crate::logql::{
    Direction, LogEntry, LogRange, Matrix, MetricValue, SeriesPieces, Steps, label_names,
    label_sets, leaves,
};
use crate::tests::support::Fixture;
use crate::{NoSystemInfo, Parameters, Question, Result, Session, Sources};

/// Events of a test: microseconds, host, level, status, took, line.
type Row = (
    i64,
    &'static str,
    Option<&'static str>,
    Option<i16>,
    f64,
    &'static str,
);

const ROWS: [Row; 6] = [
    (10_000_000, "a", Some("info"), Some(200), 1.0, "n=1 GET"),
    (10_000_001, "a", Some("error"), Some(500), 2.5, "n=2 GET"),
    (20_000_000, "b", None, Some(404), 0.25, "n=3 POST"),
    (20_500_000, "b", Some(""), None, 4.0, "n=4 POST"),
    (30_000_000, "a", Some("info"), Some(204), 8.0, "n=5 GET"),
    (60_000_000, "b", Some("warn"), Some(301), 16.0, "n=6 GET"),
];

fn batch(rows: &[Row]) -> RecordBatch {
    let times = rows.iter().map(|row| row.0).collect::<Vec<_>>();
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "time",
            Arc::new(TimestampMicrosecondArray::from(times).with_timezone("UTC")),
        ),
        (
            "host",
            Arc::new(rows.iter().map(|r| Some(r.1)).collect::<StringArray>()),
        ),
        (
            "level",
            Arc::new(rows.iter().map(|r| r.2).collect::<StringArray>()),
        ),
        (
            "status",
            Arc::new(rows.iter().map(|r| r.3).collect::<Int16Array>()),
        ),
        (
            "took.s",
            Arc::new(rows.iter().map(|r| Some(r.4)).collect::<Float64Array>()),
        ),
        (
            "line",
            Arc::new(rows.iter().map(|r| Some(r.5)).collect::<StringArray>()),
        ),
    ];
    RecordBatch::try_from_iter(columns).expect("a batch")
}

fn filled() -> Fixture {
    let fixture = Fixture::without_rollups();
    fixture.write("app", StreamKind::Documents, batch(&ROWS[..3]));
    fixture.store.seal().expect("sealed");
    fixture.write("app", StreamKind::Documents, batch(&ROWS[3..]));
    fixture
}

async fn rows(fixture: &Fixture, question: Question) -> Result<Vec<RecordBatch>> {
    let sources = Sources::one(fixture.store.snapshot(), Arc::new(NoSystemInfo));
    let session = Session::default();
    let asked = fixture
        .engine
        .ask(sources, &session, question, Parameters::None);
    let mut answer = asked.await?;
    let mut batches = Vec::new();
    while let Some(batch) = answer.stream.next().await {
        batches.push(batch?);
    }
    Ok(batches)
}

async fn lines(fixture: &Fixture, text: &str, range: LogRange) -> Vec<(i64, LogEntry)> {
    let question = log(text).question(range).expect("compiles");
    let batches = rows(fixture, question).await;
    let batches = batches.unwrap_or_else(|e| panic!("{text}: {e}"));
    LogEntry::read(&batches).expect("entries")
}

async fn evaluated(fixture: &Fixture, text: &str, steps: Steps) -> Result<Matrix> {
    let metric = metric(text);
    let mut read = Vec::new();
    for (range, labels) in leaves(&metric) {
        let mut pieces = SeriesPieces::new(range, steps);
        for batch in rows(fixture, range.question(steps, &labels)).await? {
            pieces.add(&batch)?;
        }
        read.push(pieces.finish());
    }
    match metric.evaluate(steps, &mut read.into_iter())? {
        MetricValue::Matrix(matrix) => Ok(matrix),
        MetricValue::Scalar(_) => panic!("{text} is a number"),
    }
}

/// Evaluates a query and writes its series as text: `labels: values`.
async fn shown(fixture: &Fixture, text: &str, steps: Steps) -> Vec<String> {
    let matrix = evaluated(fixture, text, steps).await;
    let matrix = matrix.unwrap_or_else(|e| panic!("{text}: {e}"));
    let series = matrix.into_iter().map(|series| {
        let labels: Vec<String> = series
            .labels
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        let points = series.points.iter();
        let points = points.map(|p| p.map_or("-".to_owned(), |p| p.to_string()));
        format!(
            "{}: {}",
            labels.join(","),
            points.collect::<Vec<_>>().join(" ")
        )
    });
    series.collect()
}

fn all() -> LogRange {
    LogRange {
        start_ns: 0,
        end_ns: i64::MAX,
        limit: 100,
        direction: Direction::Forward,
    }
}

const SECOND: i64 = 1_000_000_000;

fn steps(start_s: i64, end_s: i64, step_s: i64) -> Steps {
    Steps::new(start_s * SECOND, end_s * SECOND, step_s * SECOND).expect("steps")
}

#[tokio::test]
async fn an_event_on_a_boundary_is_in_the_window_that_ends_there() {
    let fixture = filled();
    let count = |range: &str| format!(r#"sum(count_over_time({{stream="app"}}[{range}]))"#);
    // (0,10] (10,20] (20,30] (30,40] (40,50] (50,60]
    let found = shown(&fixture, &count("10s"), steps(10, 60, 10)).await;
    assert_eq!(found, [": 1 2 2 - - 1"]);
    // The same through the stages of a line.
    let staged = r#"sum(count_over_time({stream="app"} |= "n=" [10s]))"#;
    assert_eq!(shown(&fixture, staged, steps(10, 60, 10)).await, found);
    // Windows that overlap, and windows with gaps.
    let found = shown(&fixture, &count("20s"), steps(10, 60, 10)).await;
    assert_eq!(found, [": 1 3 4 2 - 1"]);
    let found = shown(&fixture, &count("1us"), steps(10, 60, 10)).await;
    assert_eq!(found, [": 1 1 1 - - 1"]);
    let offset = r#"sum(count_over_time({stream="app"}[10s] offset 10s))"#;
    let found = shown(&fixture, offset, steps(10, 60, 10)).await;
    assert_eq!(found, [": - 1 2 2 - -"]);
    let instant = shown(&fixture, &count("10s"), Steps::instant(20 * SECOND)).await;
    assert_eq!(instant, [": 2"]);
}

#[tokio::test]
async fn lines_are_those_of_a_half_open_range_in_order() {
    let fixture = filled();
    let range = |start_us: i64, end_us: i64, limit, direction| LogRange {
        start_ns: start_us * 1000,
        end_ns: end_us * 1000,
        limit,
        direction,
    };
    for (range, expected) in [
        (
            range(10_000_000, 10_000_001, 9, Direction::Forward),
            vec![1],
        ),
        (
            range(10_000_000, 30_000_000, 9, Direction::Forward),
            vec![1, 2, 3, 4],
        ),
        (
            range(10_000_000, 30_000_001, 2, Direction::Backward),
            vec![5, 4],
        ),
        (range(0, 90_000_000, 2, Direction::Forward), vec![1, 2]),
        (range(70_000_000, 80_000_000, 2, Direction::Forward), vec![]),
    ] {
        for text in [r#"{stream="app"}"#, r#"{stream="app"} |= "n=""#] {
            let found = lines(&fixture, text, range).await;
            let numbers: Vec<i64> = found
                .iter()
                .map(|(_, e)| e.line[2..3].parse().expect("a number"))
                .collect();
            assert_eq!(numbers, expected, "{text} {range:?}");
        }
    }
}

#[tokio::test]
async fn columns_are_labels_metadata_and_line() {
    let fixture = filled();
    let found = lines(&fixture, r#"{stream="app"}"#, all()).await;
    let (ns, first) = &found[0];
    assert_eq!((*ns, first.line.as_str()), (10 * SECOND, "n=1 GET"));
    let text = |labels: &crate::logql::Labels| {
        let all = labels.iter().map(|(k, v)| format!("{k}={v}"));
        all.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        text(&first.stream),
        "host=a level=info status_class=2xx stream=app"
    );
    assert_eq!(
        text(&first.metadata),
        "detected_level=info status=200 took_s=1.0"
    );
    let (_, fourth) = &found[3];
    assert_eq!(text(&fourth.stream), "host=b stream=app");
    assert_eq!(text(&fourth.metadata), "detected_level=unknown took_s=4.0");
}

#[tokio::test]
async fn a_selector_and_conditions_choose_the_same_in_plans_and_in_stages() {
    let fixture = filled();
    for (condition, expected) in [
        (r#"host="a""#, "1 2 5"),
        (r#"host!="a""#, "3 4 6"),
        (r#"level="""#, "3 4"),
        (r#"level!="""#, "1 2 5 6"),
        (r#"level=~"i.*|warn""#, "1 5 6"),
        (r#"level=~"inf""#, ""),
        (r#"level!~"i.*""#, "2 3 4 6"),
        (r#"status_class="2xx""#, "1 5"),
        (r#"status_class!="2xx""#, "2 3 4 6"),
        (r#"nothing="""#, "1 2 3 4 5 6"),
        (r#"nothing="x""#, ""),
        (r#"nothing=~".*""#, "1 2 3 4 5 6"),
    ] {
        // `|= ""` before the condition makes it one of the stages.
        for query in [
            format!("{{stream=\"app\",{condition}}}"),
            format!("{{stream=\"app\"}} | {condition}"),
            format!("{{stream=\"app\"}} |= \"\" | {condition}"),
        ] {
            let found = lines(&fixture, &query, all()).await;
            let numbers: Vec<&str> = found.iter().map(|(_, e)| &e.line[2..3]).collect();
            assert_eq!(numbers.join(" "), expected, "{query}");
        }
    }
    for (condition, expected) in [
        ("status >= 404", "2 3"),
        ("status = 200", "1"),
        ("status != 200", "2 3 5 6"),
        ("status > 299.5 and status < 405", "3 6"),
        ("took_s > 3.5", "4 5 6"),
        (r#"took_s="2.5""#, "2"),
        (r#"detected_level="unknown""#, "3 4"),
        (r#"detected_level="unknown" or status < 300"#, "1 3 4 5"),
        ("nothing > 1", ""),
        ("host > 1 | __error__=\"\"", ""),
    ] {
        for query in [
            format!("{{stream=\"app\"}} | {condition}"),
            format!("{{stream=\"app\"}} |= \"\" | {condition}"),
        ] {
            let found = lines(&fixture, &query, all()).await;
            let numbers: Vec<&str> = found.iter().map(|(_, e)| &e.line[2..3]).collect();
            assert_eq!(numbers.join(" "), expected, "{query}");
        }
    }
}

#[tokio::test]
async fn a_selector_on_metadata_is_refused() {
    let fixture = filled();
    for (text, named) in [
        (r#"{stream="app", took_s="1"}"#, "took_s of app is no label"),
        (
            r#"{detected_level!="x"}"#,
            "detected_level of app is no label",
        ),
    ] {
        let question = log(text).question(all()).expect("compiles");
        let error = rows(&fixture, question).await.expect_err(text).to_string();
        assert!(error.contains(named), "{error}");
        assert!(error.contains("host, level, site"), "{error}");
    }
}

#[tokio::test]
async fn series_have_the_labels_of_streams_and_stages_and_named_metadata() {
    let fixture = filled();
    let at = Steps::instant(60 * SECOND);
    for (text, expected) in [
        (
            r#"count_over_time({stream="app", host="a"}[1m])"#,
            &[
                "host=a,level=error,status_class=5xx,stream=app: 1",
                "host=a,level=info,status_class=2xx,stream=app: 2",
            ][..],
        ),
        (
            r#"sum by (host, detected_level) (count_over_time({stream="app"}[1m]))"#,
            &[
                "detected_level=error,host=a: 1",
                "detected_level=info,host=a: 2",
                "detected_level=unknown,host=b: 2",
                "detected_level=warn,host=b: 1",
            ],
        ),
        (
            r#"max by (status) (count_over_time({stream="app", host="b"}[1m]))"#,
            &["status=301: 1", "status=404: 1", ": 1"],
        ),
        (
            r#"max by (status) (topk(1, count_over_time({stream="app", host="a"}[1m])))"#,
            &["status=500: 1"],
        ),
        (
            r#"sum without (host, level, status_class) (count_over_time({stream="app"}[1m]))"#,
            &["stream=app: 6"],
        ),
        (
            r#"sum by (n) (count_over_time({stream="app"} | logfmt | n > 4 [1m]))"#,
            &["n=5: 1", "n=6: 1"],
        ),
    ] {
        let mut found = shown(&fixture, text, at).await;
        let mut expected: Vec<&str> = expected.to_vec();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{text}");
    }
}

#[tokio::test]
async fn values_of_windows_are_aggregated() {
    let fixture = filled();
    let at = steps(30, 60, 30);
    for (function, expected) in [
        ("sum_over_time(X)", "15.75 16"),
        ("avg_over_time(X) by ()", "3.15 16"),
        ("min_over_time(X) by ()", "0.25 16"),
        ("max_over_time(X) by ()", "8 16"),
        ("first_over_time(X) by ()", "1 16"),
        ("last_over_time(X) by ()", "8 16"),
        ("quantile_over_time(0.5, X) by ()", "2.5 16"),
        ("quantile_over_time(0.9, X) by ()", "6.4 16"),
        ("rate(X)", "0.525 0.5333333333333333"),
    ] {
        let inside = r#"{stream="app"} | unwrap took_s [30s]"#;
        let text = function.replace('X', inside);
        let text = match function.contains("by ()") {
            true => text,
            false => format!("sum({text})"),
        };
        assert_eq!(
            shown(&fixture, &text, at).await,
            [format!(": {expected}")],
            "{text}"
        );
    }
    let bytes = r#"sum by (host) (bytes_over_time({stream="app"}[30s]))"#;
    assert_eq!(
        shown(&fixture, bytes, at).await,
        ["host=a: 21 -", "host=b: 16 7"]
    );
    let absent = r#"absent_over_time({stream="app"} |= "POST" [10s])"#;
    let found = shown(&fixture, absent, steps(10, 40, 10)).await;
    assert_eq!(found, ["stream=app: 1 - - 1"]);
}

#[tokio::test]
async fn a_line_with_an_error_fails_a_metric_query() {
    let fixture = filled();
    let at = Steps::instant(60 * SECOND);
    let failing = r#"sum(count_over_time({stream="app"} | json [1m]))"#;
    let error = evaluated(&fixture, failing, at)
        .await
        .expect_err("an error")
        .to_string();
    assert!(error.contains("JSONParserErr"), "{error}");
    let dropped = r#"sum(count_over_time({stream="app"} | json | drop __error__ [1m]))"#;
    assert_eq!(shown(&fixture, dropped, at).await, [": 6"]);
    let filtered = r#"sum(count_over_time({stream="app"} | json | __error__="" [1m]))"#;
    assert!(shown(&fixture, filtered, at).await.is_empty());
}

#[tokio::test]
async fn series_of_two_sides_are_matched_by_their_labels() {
    let fixture = filled();
    let at = Steps::instant(60 * SECOND);
    let count =
        |more: &str| format!(r#"sum by (host) (count_over_time({{stream="app"{more}}}[1m]))"#);
    for (text, expected) in [
        (
            format!("{} / {}", count(r#",status_class="2xx""#), count("")),
            vec!["host=a: 0.6666666666666666"],
        ),
        (format!("{} * 2", count("")), vec!["host=a: 6", "host=b: 6"]),
        (format!("{} > 3", count("")), vec![]),
        (format!("2 < {}", count("")), vec!["host=a: 3", "host=b: 3"]),
        (
            format!("{} > bool 3", count("")),
            vec!["host=a: 0", "host=b: 0"],
        ),
        ("vector(1)+vector(1)".to_owned(), vec![": 2"]),
        (format!("topk(1, {})", count("")), vec!["host=a: 3"]),
        (format!("count({})", count("")), vec![": 2"]),
    ] {
        assert_eq!(shown(&fixture, &text, at).await, expected, "{text}");
    }
}

#[tokio::test]
async fn labels_of_a_selector_are_named_with_their_values() {
    let fixture = filled();
    let query = log(r#"{stream="app"}"#);
    let names = rows(&fixture, query.label_names()).await.expect("names");
    assert_eq!(
        label_names(&names),
        ["stream", "host", "level", "status_class"]
    );
    let sets = query.label_sets(&["host", "level"], (0, 30 * SECOND), 100);
    let sets = label_sets(&rows(&fixture, sets).await.expect("sets")).expect("sets");
    let text: Vec<String> = sets
        .iter()
        .map(|(set, count)| format!("{:?} {count}", set.values().collect::<Vec<_>>()))
        .collect();
    // An event without a level and one with an empty one have the same set.
    assert_eq!(
        text,
        [
            r#"["a", "error"] 1"#,
            r#"["a", "info"] 1"#,
            r#"["b"] 1"#,
            r#"["b"] 1"#
        ]
    );
    let none = log("{stream=\"other\"}");
    assert!(label_names(&rows(&fixture, none.label_names()).await.expect("names")).is_empty());
}

#[tokio::test]
async fn an_event_without_a_line_is_shown_as_json() {
    let fixture = Fixture::without_rollups();
    let without = batch(&ROWS[..1]).project(&[0, 1, 3]).expect("columns");
    fixture.write("app", StreamKind::Documents, without);
    let found = lines(&fixture, r#"{host="a"} | json"#, all()).await;
    assert_eq!(found[0].1.line, r#"{"host":"a","status":200}"#);
    assert!(found[0].1.parsed.is_empty(), "{:?}", found[0].1);
}
