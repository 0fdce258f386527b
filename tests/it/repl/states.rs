//! States of levels and the overflow column as JSON, whatever a query calls them.

use serde_json::{Value, json};

use super::filled;
use crate::support::{Home, Server, run};

/// Returns the output of a query in a form.
fn told(place: [&str; 2], form: &str, sql: &str) -> String {
    let args = [&["sql", sql, "--output", form][..], &place].concat();
    run(&args).code(0).stdout
}

/// Checks the one value of a query in all forms.
#[track_caller]
fn check(place: [&str; 2], sql: &str, name: &str, expected: &Value) {
    let text = expected.to_string();
    let json = told(place, "json", sql);
    assert_eq!(json, format!("[\n{{\"{name}\":{text}}}\n]\n"), "{sql}");
    let ndjson = told(place, "ndjson", sql);
    assert_eq!(ndjson, format!("{{\"{name}\":{text}}}\n"), "{sql}");
    let quoted = text.replace('"', "\"\"");
    let csv = told(place, "csv", sql);
    assert_eq!(csv, format!("{name}\n\"{quoted}\"\n"), "{sql}");
    let table = told(place, "table", sql);
    assert_eq!(table.lines().nth(2), Some(&*text), "{sql}\n{table}");
}

#[test]
fn states_and_documents_are_json_in_every_form() {
    let home = Home::new();
    filled(&home);
    let documents = "{\"time\":\"2024-03-01T00:00:00Z\",\"name\":\"one\",\"n\":1}\n{\"time\":\"2024-03-01T00:00:01Z\",\"name\":\"two\",\"list\":[1,\"x\"]}\n";
    let file = home.file("docs.json", documents);
    let import = ["import", &file, "--stream", "docs", "--data", &home.data];
    run(&import).code(0);

    let histogram = json!({ "histogram": { "count": 1, "sum": 10, "min": 10, "max": 10, "p50": 10, "p90": 10, "p95": 10, "p99": 10, "overflow": 0 } });
    let merged = json!({ "histogram": { "count": 3, "sum": 60, "min": 10, "max": 30, "p50": 20, "p90": 30, "p95": 30, "p99": 30, "overflow": 0 } });
    let rest = json!({ "list": [1, "x"] });
    let all = |place: [&str; 2]| {
        let of_a = "FROM stats.daily WHERE path = '/a'";
        for (sql, name, expected) in [
            (format!("SELECT size {of_a}"), "size", &histogram),
            (format!("SELECT size AS s {of_a}"), "s", &histogram),
            (
                format!("SELECT s FROM (SELECT size AS s {of_a}) AS t"),
                "s",
                &histogram,
            ),
            (
                "SELECT hist_merge(size) AS m FROM stats.daily".to_owned(),
                "m",
                &merged,
            ),
            (
                format!("SELECT visitors_state {of_a}"),
                "visitors_state",
                &json!({ "distinct": 1 }),
            ),
            (
                "SELECT distinct_merge(visitors_state) AS v FROM traffic.monthly".to_owned(),
                "v",
                &json!({ "distinct": 3 }),
            ),
        ] {
            check(place, &sql, name, expected);
        }
        let of_two = "FROM docs WHERE name = 'two'";
        for (sql, name) in [
            (format!("SELECT _rest {of_two}"), "_rest"),
            (format!("SELECT _rest AS r {of_two}"), "r"),
            (
                String::from(
                    "SELECT r FROM (SELECT name, _rest AS r FROM docs) AS d WHERE name = 'two'",
                ),
                "r",
            ),
            (format!("SELECT DISTINCT _rest AS r {of_two}"), "r"),
            (
                format!("WITH d AS (SELECT _rest AS r {of_two}) SELECT r FROM d GROUP BY r"),
                "r",
            ),
            (
                format!("SELECT _rest AS r {of_two} ORDER BY time DESC LIMIT 1"),
                "r",
            ),
            (
                String::from(
                    "SELECT d._rest AS r FROM docs AS d JOIN docs AS e ON d.name = e.name WHERE e.name = 'two'",
                ),
                "r",
            ),
        ] {
            check(place, &sql, name, &rest);
        }
    };
    all(["--data", &home.data]);
    let server = Server::start(&home.data);
    all(["--server", &server.url]);
    assert_eq!(
        server.sql("SELECT _rest AS r FROM docs WHERE name = 'two'"),
        [json!({ "r": rest })]
    );
    let bytes = told(
        ["--server", &server.url],
        "ndjson",
        "SELECT CAST('ab' AS BYTEA) AS _b",
    );
    assert_eq!(bytes, "{\"_b\":\"YWI=\"}\n");
}
