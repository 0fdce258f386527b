//! `logmill grafana`: every query of its dashboards and alert rules, expanded as Grafana does and
//! run over real logs and over sample traffic; the files against Grafana's own model.

mod files;
mod frames;
mod macros;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use serde_json::{Value as Json, json};

use crate::support::{Home, Server, line, run, test_data};
use macros::{Scene, Value};

/// A panel of a day or a week takes milliseconds. The bound is for a busy machine and a binary that
/// is not optimised.
const PANEL_TIME: Duration = Duration::from_secs(10);

/// Panels that may be empty: nothing came before or after, no item or job lies in the range, and
/// the server is in no cluster.
const MAY_BE_EMPTY: [&str; 6] = [
    "Before the range",
    "After the range",
    "Quarantined lines by reason",
    "Quarantine",
    "Maintenance",
    "Shards",
];
/// Columns that may be null in every row.
const MAY_BE_NULL: [&str; 9] = [
    "disk_full_days",
    "complete_from",
    "last_error",
    "note",
    "query",
    "client",
    "stream",
    "referrer",
    "user_agent",
];

fn dashboards(folder: &str, more: &[&str]) -> Vec<Json> {
    let mut args = vec!["grafana", "--out", folder];
    args.extend(more);
    run(&args).code(0);
    let names = ["overview", "host", "store"].map(|name| format!("dashboards/{name}.json"));
    let read = |name: String| std::fs::read_to_string(Path::new(folder).join(name));
    let parse = |text: String| serde_json::from_str(&text).expect("JSON");
    names.map(|name| parse(read(name).expect("a file"))).into()
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().expect("a time")
}

struct Asked {
    columns: Vec<(String, String)>,
    rows: Vec<Json>,
    answered_by: String,
}

fn ask(server: &Server, sql: &str) -> Asked {
    let began = Instant::now();
    let answer = server.post("/api/v1/sql", &[], sql.as_bytes());
    assert_eq!(answer.status, 200, "{sql}\n{}", answer.text());
    assert!(began.elapsed() < PANEL_TIME, "{:?}: {sql}", began.elapsed());
    let mut answer = answer.json();
    let columns = answer["columns"].as_array().expect("columns");
    let text = |column: &Json, key: &str| column[key].as_str().unwrap_or_default().to_owned();
    Asked {
        columns: columns
            .iter()
            .map(|c| (text(c, "name"), text(c, "type")))
            .collect(),
        answered_by: answer["stats"]["answered_by"].to_string(),
        rows: match answer["rows"].take() {
            Json::Array(rows) => rows,
            other => panic!("rows are not an array: {other}"),
        },
    }
}

/// Asks for the values of the variables, in their order, and chooses the first or all.
fn choose(server: &Server, dashboard: &Json, scene: &mut Scene) {
    for variable in dashboard["templating"]["list"].as_array().expect("a list") {
        let name = variable["name"].as_str().expect("a name").to_owned();
        let query = variable["query"].as_str().expect("a query");
        let value = if variable["type"] == "textbox" {
            Value::One(String::new())
        } else {
            let found = ask(server, &scene.expand(query));
            assert_eq!(found.columns.len(), 1, "{query}");
            let first = found
                .rows
                .first()
                .unwrap_or_else(|| panic!("no value: {query}"));
            match variable["allValue"].as_str() {
                Some("'*'") => Value::All("'*'"),
                Some(other) => panic!("all values are {other}"),
                None => Value::One(
                    first[&found.columns[0].0]
                        .as_str()
                        .expect("text")
                        .to_owned(),
                ),
            }
        };
        scene.variables.entry(name).or_insert(value);
    }
}

/// Checks the answer to a panel as the panel reads it; returns what answered.
fn check(panel: &Json, asked: &Asked) {
    let title = panel["title"].as_str().expect("a title");
    let rows = &asked.rows;
    assert!(
        !rows.is_empty() || MAY_BE_EMPTY.contains(&title),
        "{title} is empty"
    );
    let is_series = panel["targets"][0]["format"] == "time_series";
    if is_series {
        assert_eq!(asked.columns[0].0, "time", "{title}");
        let times: Vec<String> = rows.iter().map(|row| row["time"].to_string()).collect();
        let of = |time: &String| time.parse::<f64>().ok();
        let ascend = |pair: &[String]| match (of(&pair[0]), of(&pair[1])) {
            (Some(a), Some(b)) => a <= b,
            _ => pair[0] <= pair[1],
        };
        assert!(times.windows(2).all(ascend), "{title}: {times:?}");
    }
    for column in panel["fieldConfig"]["overrides"]
        .as_array()
        .expect("overrides")
    {
        let name = column["matcher"]["options"].as_str().expect("a name");
        let found = asked.columns.iter().find(|(known, _)| known == name);
        let (_, kind) = found.unwrap_or_else(|| panic!("{title} has no column {name}"));
        let known = rows.iter().any(|row| !row[name].is_null());
        let may_be_null = MAY_BE_NULL.contains(&name) || rows.is_empty();
        assert!(known || may_be_null, "{title}: {name} is null in every row");
        if is_series {
            let all = rows
                .iter()
                .all(|row| row[name].is_number() || row[name].is_null());
            assert!(all, "{title}: {name} is {kind}");
        }
        let unit = column["properties"].as_array().expect("properties").iter();
        let unit = unit
            .filter(|p| p["id"] == "unit")
            .find_map(|p| p["value"].as_str());
        let unit = unit.or(panel["fieldConfig"]["defaults"]["unit"].as_str());
        let is_time = kind.to_lowercase().contains("timestamp");
        let shown_as_time = unit.is_some_and(|unit| unit.starts_with("dateTime"));
        assert_eq!(
            is_time, shown_as_time,
            "{title}: {name} is {kind}, shown as {unit:?}"
        );
    }
}

/// Runs every panel, and has Grafana's own code read the answers; returns what answered each.
fn run_panels(server: &Server, dashboards: &[Json], scene: &Scene) -> BTreeMap<String, String> {
    let (mut answered, mut read) = (BTreeMap::new(), Vec::new());
    for dashboard in dashboards {
        let mut scene = scene.clone();
        choose(server, dashboard, &mut scene);
        for panel in dashboard["panels"].as_array().expect("panels") {
            let least_s = match panel["interval"].as_str() {
                Some("1h") => 3_600,
                _ => 60,
            };
            let interval_s = scene.interval_s.max(least_s);
            let scene = Scene {
                interval_s,
                ..scene.clone()
            };
            let Some(sql) = panel["targets"][0]["rawSql"].as_str() else {
                continue;
            };
            let asked = ask(server, &scene.expand(sql));
            check(panel, &asked);
            let name = format!("{}: {}", dashboard["uid"], panel["title"]).replace('"', "");
            answered.insert(name, asked.answered_by);
            let (columns, rows) = (asked.columns, asked.rows);
            let dashboard = &dashboard["title"];
            read.push(
                json!({"dashboard": dashboard, "panel": panel, "columns": columns, "rows": rows}),
            );
        }
    }
    frames::assert_shown(&read);
    answered
}

/// Checks that a level of a rollup answered what rollups count, and nothing else did.
fn assert_from_level(answered: &BTreeMap<String, String>, level: &str, visitors: &str) {
    let of = |title: &str| &answered[&format!("logmill-overview: {title}")];
    for (title, table) in [
        ("Requests and bytes", format!("traffic.{level}")),
        ("Errors", format!("traffic.{level}")),
        ("Requests", format!("traffic.{level}")),
        ("Requests by class of status", format!("traffic.{level}")),
        ("Response size", format!("traffic.{level}")),
        ("Bytes sent", format!("traffic.{level}")),
        ("Visitors", format!("traffic.{visitors}")),
        ("Visitors by interval", format!("traffic.{visitors}")),
        ("Top pages", format!("stats.{level}")),
    ] {
        assert_eq!(of(title), &format!("[\"rollup {table}\"]"), "{title}");
    }
}

fn scene(from: &str, to: &str, interval_s: u64) -> Scene {
    Scene {
        from: at(from),
        to: at(to),
        interval_s,
        timescale: false,
        variables: BTreeMap::new(),
    }
}

/// Returns a server over real logs, if there are any.
fn real() -> Option<(Home, Server)> {
    let log: PathBuf = test_data()?.join("access/elastic_apache_logs.log.zst");
    let home = Home::new();
    home.import(log.to_str()?, &[]);
    let server = Server::start(&home.data);
    Some((home, server))
}

#[test]
fn every_panel_has_rows_over_real_logs_at_every_interval() {
    let Some((home, server)) = real() else { return };
    let dashboards = dashboards(&home.path("grafana"), &[]);
    for (interval_s, level) in [(300, "minutely"), (3_600, "hourly"), (86_400, "daily")] {
        for timescale in [false, true] {
            let scene = Scene {
                timescale,
                ..scene("2015-05-17T00:00:00Z", "2015-05-21T00:00:00Z", interval_s)
            };
            let answered = run_panels(&server, &dashboards, &scene);
            let visitors = if level == "daily" { "daily" } else { "hourly" };
            assert_from_level(&answered, level, visitors);
        }
    }
}

#[test]
fn panels_add_up_to_the_raw_events_for_all_pages_and_for_chosen_ones() {
    let Some((home, server)) = real() else { return };
    let dashboards = dashboards(&home.path("grafana"), &[]);
    let mut scene = scene("2015-05-17T00:00:00Z", "2015-05-21T00:00:00Z", 300);
    let overview = &dashboards[0];
    for chosen in [
        None,
        Some(vec!["/favicon.ico".to_owned(), "/it's".to_owned()]),
    ] {
        let path = chosen.map_or(Value::All("'*'"), Value::Many);
        let condition = match &path {
            Value::Many(_) => "path = '/favicon.ico'",
            _ => "true",
        };
        scene.variables.clear();
        scene.variables.insert("path".to_owned(), path);
        choose(&server, overview, &mut scene);
        let count = |more: &str| {
            let events = "SELECT /*+ no_rollup */ count(*) FROM access WHERE time >= TIMESTAMP '2015-05-17T00:00:00Z'";
            server.number(&format!("{events} AND {condition} {more}"))
        };
        let panels = overview["panels"].as_array().expect("panels");
        let rows_of = |title: &str| {
            let panel = panels
                .iter()
                .find(|panel| panel["title"] == title)
                .expect("a panel");
            let sql = panel["targets"][0]["rawSql"].as_str().expect("a query");
            ask(&server, &scene.expand(sql)).rows
        };
        let sum = |rows: &[Json], column: &str| -> u64 {
            rows.iter().filter_map(|row| row[column].as_u64()).sum()
        };
        assert!(count("") > 100);
        assert_eq!(
            sum(&rows_of("Requests and bytes"), "hits"),
            count(""),
            "{condition}"
        );
        assert_eq!(sum(&rows_of("Requests"), "hits"), count(""), "{condition}");
        let classes = rows_of("Requests by class of status");
        for (column, class) in [("s2", "2"), ("s3", "3"), ("s4", "4"), ("s5", "5")] {
            let more = format!("AND status >= {class}00 AND status < {class}99");
            assert_eq!(sum(&classes, column), count(&more), "{condition} {column}");
        }
    }
}

#[test]
fn a_host_that_a_link_names_is_shown_with_its_network() {
    let Some((home, server)) = real() else { return };
    let dashboards = dashboards(&home.path("grafana"), &[]);
    for (host, network) in [
        ("66.249.73.135", "66.249.73.%"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2:%"),
        ("2001:db8::1", "2001:db8::%"),
        ("proxy.example.org", "%.example.org"),
        ("localhost", "localhost"),
        ("o'neil", "o'neil"),
    ] {
        let mut scene = scene("2015-05-18T00:00:00Z", "2015-05-19T00:00:00Z", 300);
        scene
            .variables
            .insert("host".to_owned(), Value::One(host.to_owned()));
        choose(&server, &dashboards[1], &mut scene);
        let of = |name: &str| match &scene.variables[name] {
            Value::One(value) => value.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            (of("shown"), of("network")),
            (host.to_owned(), network.to_owned())
        );
    }
    let mut scene = scene("2015-05-18T00:00:00Z", "2015-05-19T00:00:00Z", 300);
    let host = Value::One("66.249.73.135".to_owned());
    scene.variables.insert("host".to_owned(), host);
    let answered = run_panels(&server, &dashboards[1..2], &scene);
    assert_eq!(answered.len(), 10);
}

#[test]
fn every_panel_and_rule_answers_over_live_traffic() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let now = Utc::now().timestamp();
    let lines = (0..600).map(|n| {
        let status = if n % 50 == 0 { 500 } else { 200 };
        let host = format!("192.0.2.{}", n % 7);
        line(
            &host,
            now - 600 + n,
            &format!("/p{}", n % 9),
            status,
            100 + n as u64,
        )
    });
    let lines: String = lines.collect::<String>() + "not a line of a log\n";
    server.ingest("access", lines);
    let more = ["--latency", "response_size", "--prometheus"];
    let dashboards = dashboards(&home.path("grafana"), &more);
    let iso = |s: i64| DateTime::from_timestamp(s, 0).expect("a time").to_rfc3339();
    run_panels(
        &server,
        &dashboards,
        &scene(&iso(now - 900), &iso(now + 60), 60),
    );
    let rules = std::fs::read_to_string(home.path("grafana/provisioning/alerting/logmill.yaml"));
    let rules = rules.expect("the rules");
    let queries: Vec<String> = rules
        .split("rawSql: |-\n")
        .skip(1)
        .map(literal_block)
        .collect();
    assert_eq!(queries.len(), 9);
    let numbers: Vec<f64> = queries.iter().map(|sql| number(&server, sql)).collect();
    assert!((numbers[0] - 0.02).abs() < 0.005, "5xx: {numbers:?}");
    assert!(numbers[1] == 600.0, "events: {numbers:?}");
    assert!(numbers[3] == 1.0, "quarantine: {numbers:?}");
    assert!(numbers[6] >= 7.0, "days: {numbers:?}");
}

/// Returns the literal block at the beginning of a YAML text.
fn literal_block(text: &str) -> String {
    let indent = text.len() - text.trim_start().len();
    let lines = text
        .lines()
        .take_while(|l| l.len() > indent && l[..indent].trim().is_empty());
    lines
        .map(|line| &line[indent..])
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the only number of the only row.
fn number(server: &Server, sql: &str) -> f64 {
    let asked = ask(server, sql);
    assert_eq!((asked.columns.len(), asked.rows.len()), (1, 1), "{sql}");
    let value = &asked.rows[0][&asked.columns[0].0];
    value.as_f64().unwrap_or_else(|| panic!("{value}: {sql}"))
}
