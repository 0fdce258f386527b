//! The log volume of Explore: bars of a histogram, counted from rollups.

use serde_json::{Value, json};

use super::{EVENTS, call, served, total};
use crate::support::{Home, PAST_S, Server, run};

/// `logsVolume.ts`, with the header of `pkg/tsdb/loki/api.go`; the range as `step.go` aligns it.
#[test]
fn log_volume_is_the_number_of_events_at_every_step() {
    let home = Home::new();
    let server = served(&home);
    for step_s in [1, 7, 10, 60, 300, 3600, 86_400] {
        let lines = r#"{stream="access"} | drop __error__"#;
        let query =
            format!("sum by (level, detected_level) (count_over_time({lines} [{step_s}s]))");
        let start_s = PAST_S.div_euclid(step_s) * step_s;
        let end_s = (PAST_S + EVENTS * 7).div_euclid(step_s) * step_s + step_s;
        let range = [
            ("query", query.as_str()),
            ("start", &format!("{start_s}000000000")),
            ("end", &format!("{end_s}000000000")),
            ("step", &format!("{step_s}s")),
        ];
        let asked = |headers: &[(&str, &str)]| {
            let path = call("query_range", &range);
            let (path, form) = path.split_once('?').expect("parameters");
            let is_form = ("Content-Type", "application/x-www-form-urlencoded");
            let answer = server.post(path, &[&[is_form], headers].concat(), form.as_bytes());
            answer.status(200).json()
        };
        let answer = asked(&[("X-Query-Tags", "Source=logvolhist")]);
        assert_eq!(answer["data"]["resultType"], "matrix");
        let series = &answer["data"]["result"][0];
        assert_eq!(series["metric"], json!({ "detected_level": "unknown" }));
        let counts = server.sql(&format!(
            "SELECT extract(epoch FROM date_bin(INTERVAL '{step_s} s', time))::bigint + {step_s} AS t, \
             count(*)::text AS n FROM access GROUP BY t ORDER BY t"
        ));
        let counts: Vec<Value> = counts
            .iter()
            .map(|row| json!([row["t"], row["n"]]))
            .collect();
        assert_eq!(series["values"], json!(counts), "at {step_s} s");
        assert_eq!(total(&answer), EVENTS, "at {step_s} s");
        let rows = answer["data"]["stats"]["summary"]["totalLinesProcessed"].as_i64();
        if step_s >= 3600 {
            assert!(
                rows < Some(EVENTS / 4),
                "{rows:?} rows are not those of a rollup"
            );
        }
        // Other queries have Loki's windows, which hold an event at their end.
        let plain = asked(&[("X-Query-Tags", "Source=other")]);
        assert_eq!(total(&plain), EVENTS, "at {step_s} s");
        let first = |answer: &Value| answer["data"]["result"][0]["values"][0][0].as_i64();
        if step_s == 1 {
            assert_eq!(
                (first(&plain), first(&answer)),
                (Some(PAST_S), Some(PAST_S + 1))
            );
        }
    }
}

/// The rollup of `docs/clients/loki.md`.
#[test]
fn a_rollup_by_level_counts_the_log_volume_of_documents() {
    let home = Home::new();
    let config = home.file(
        "logmill.toml",
        "[rollup.levels]\nstream = \"app\"\nby = [\"level\"]\n\
         levels = [\"minute\", \"hour\", \"day\"]\nmeasures = { hits = \"count\" }\n",
    );
    let event = |n: i64| {
        let level = ["info", "warn", "error"][n as usize % 3];
        format!("{{\"time\":{},\"level\":\"{level}\"}}\n", PAST_S + n * 20)
    };
    let lines: String = (0..EVENTS).map(event).collect();
    let import = [
        "import",
        &home.file("app.log", lines),
        "--stream",
        "app",
        "--config",
        &config,
    ];
    run(&[&import[..], &["--data", &home.data]].concat()).code(0);
    let server = Server::start(&home.data);
    let query = r#"sum by (level, detected_level) (count_over_time({stream="app"} [1h]))"#;
    let range = [
        ("query", query),
        ("start", &format!("{PAST_S}000000000")),
        ("end", &format!("{}000000000", PAST_S + EVENTS * 20 + 3600)),
        ("step", "1h"),
    ];
    let headers = [("X-Query-Tags", "Source=logvolhist")];
    let answer = server.get_with(&call("query_range", &range), &headers);
    let answer = answer.status(200).json();
    assert_eq!(answer["data"]["result"].as_array().map(Vec::len), Some(3));
    assert_eq!(total(&answer), EVENTS);
    let rows = answer["data"]["stats"]["summary"]["totalLinesProcessed"].as_i64();
    assert!(
        rows < Some(EVENTS / 4),
        "{rows:?} rows are not those of a rollup"
    );
}
