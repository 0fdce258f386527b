//! Requirements on the files as a whole. `tests/it/grafana.rs` runs the queries.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{BOARDS, File, LOKI, Latency, Options, POSTGRES, PROMETHEUS, files};
use crate::panels::{HOST, LATENCY, OVERVIEW, Panel, PanelKind, STATEMENTS, STORE};

/// Units of Grafana that panels use.
const UNITS: [&str; 12] = [
    "short",
    "none",
    "bytes",
    "percentunit",
    "dateTimeAsIso",
    "dateTimeFromNow",
    "d",
    "s",
    "ms",
    "µs",
    "ns",
    "",
];

fn options() -> Options {
    Options {
        url: "https://logs.example.org".to_owned(),
        postgres: "logs.example.org:5433".to_owned(),
        stream: "web".to_owned(),
        prometheus: true,
        latency: Some(Latency {
            field: "request\"time".to_owned(),
            unit: "ms".to_owned(),
        }),
    }
}

fn dashboards() -> Vec<Value> {
    let files = files(&options()).into_iter();
    let boards = files.filter(|file| file.path.starts_with("dashboards/"));
    let parsed = boards.map(|file| serde_json::from_str(&file.content).expect("JSON"));
    parsed.collect()
}

fn panels() -> impl Iterator<Item = &'static Panel> {
    let all = [OVERVIEW, HOST, STORE].into_iter().flatten();
    all.chain(std::iter::once(&LATENCY))
}

fn of(files: &[File], path: &str) -> String {
    let found = files.iter().find(|file| file.path == path);
    found.expect("the file").content.clone()
}

/// Returns the names of the variables that a text refers to, without Grafana's own.
fn variables_in(text: &str) -> BTreeSet<&str> {
    let after = text
        .split('$')
        .skip(1)
        .map(|rest| rest.trim_start_matches('{'));
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names = after.map(|rest| rest.split(|c| !is_word(c)).next().unwrap_or_default());
    names
        .filter(|name| !name.is_empty() && !name.starts_with("__"))
        .collect()
}

fn texts<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(members) => members.values().for_each(|member| texts(member, found)),
        _ => {}
    }
}

#[test]
fn every_panel_says_what_it_shows_and_in_which_unit() {
    let mut names = BTreeSet::new();
    for panel in panels() {
        let name = panel.name;
        assert!(names.insert(name), "{name} twice");
        assert!(
            !panel.title.is_empty() && panel.description.ends_with('.'),
            "{name}"
        );
        assert!(!panel.unit.is_empty(), "{name}");
        for column in panel.columns {
            assert!(UNITS.contains(&column.unit), "{name}: {}", column.unit);
            assert!(!column.title.is_empty(), "{name}");
            let pairs = column.title.chars().zip(column.title.chars().skip(1));
            let mut humps = pairs.filter(|(a, b)| a.is_lowercase() && b.is_uppercase());
            assert!(
                humps.next().is_none(),
                "{name}: {} is a name of code",
                column.title
            );
        }
        assert!(UNITS.contains(&panel.unit), "{name}: {}", panel.unit);
        let is_shown = !panel.columns.is_empty() || panel.kind == PanelKind::Logs;
        assert!(is_shown, "{name} shows no column");
    }
}

#[test]
fn panels_do_not_overlap_and_stay_on_the_grid() {
    for board in &BOARDS {
        let mut taken = BTreeSet::new();
        for panel in board.panels(&options()) {
            let (x, y, w, h) = panel.at;
            assert!(w > 0 && h > 0 && x + w <= 24, "{}", panel.name);
            for row in y..y + h {
                for place in x..x + w {
                    assert!(taken.insert((row, place)), "{} lies on another", panel.name);
                }
            }
        }
    }
}

#[test]
fn every_data_source_is_provisioned() {
    let files = files(&options());
    let sources = of(&files, "provisioning/datasources/logmill.yaml");
    let alerts = of(&files, "provisioning/alerting/logmill.yaml");
    for uid in [POSTGRES, LOKI, PROMETHEUS] {
        assert!(sources.contains(&format!("uid: {uid}\n")), "{uid}");
    }
    for dashboard in dashboards() {
        for panel in dashboard["panels"].as_array().expect("panels") {
            let uid = panel["datasource"]["uid"].as_str().expect("a uid");
            assert!([POSTGRES, LOKI].contains(&uid), "{uid}");
            assert_eq!(panel["targets"][0]["datasource"]["uid"], uid);
        }
    }
    for uid in alerts.split("datasourceUid: \"").skip(1) {
        let uid = uid.split('"').next().unwrap_or_default();
        assert!([POSTGRES, "__expr__"].contains(&uid), "{uid}");
    }
}

#[test]
fn variables_are_defined_before_they_are_used() {
    for dashboard in dashboards() {
        let mut defined = BTreeSet::new();
        for variable in dashboard["templating"]["list"].as_array().expect("a list") {
            let query = variable["query"].as_str().expect("a query");
            for used in variables_in(query) {
                assert!(defined.contains(used), "{used} in {query}");
            }
            defined.insert(variable["name"].as_str().expect("a name"));
        }
        let mut found = Vec::new();
        texts(&dashboard["panels"], &mut found);
        texts(&dashboard["links"], &mut found);
        for text in found {
            for used in variables_in(text) {
                assert!(defined.contains(used), "{used} in {text}");
            }
        }
    }
}

#[test]
fn links_lead_to_dashboards_and_variables_that_exist() {
    let dashboards = dashboards();
    let mut count = 0;
    for dashboard in &dashboards {
        let mut found = Vec::new();
        texts(dashboard, &mut found);
        for url in found
            .into_iter()
            .filter_map(|text| text.strip_prefix("/d/"))
        {
            let (uid, parameters) = url.split_once('?').expect("parameters");
            let target = dashboards.iter().find(|other| other["uid"] == uid);
            let target = target.unwrap_or_else(|| panic!("no dashboard {uid}"));
            let variables = target["templating"]["list"].as_array().expect("a list");
            for parameter in parameters.split('&').filter_map(|p| p.strip_prefix("var-")) {
                let name = parameter.split('=').next();
                let is_there = variables.iter().any(|v| v["name"].as_str() == name);
                assert!(is_there, "{uid} has no variable {parameter}");
            }
            count += 1;
        }
    }
    assert!(count >= 10, "{count} links");
}

#[test]
fn alert_rules_name_panels_that_exist() {
    let alerts = of(&files(&options()), "provisioning/alerting/logmill.yaml");
    let after = |text: &str, key: &str| -> Vec<String> {
        let found = text.split(key).skip(1);
        found
            .map(|rest| rest.split('"').next().unwrap_or_default().to_owned())
            .collect()
    };
    let boards = after(&alerts, "__dashboardUid__: \"");
    let panels = after(&alerts, "__panelId__: \"");
    assert_eq!((boards.len(), panels.len()), (9, 9));
    let dashboards = dashboards();
    for (uid, id) in boards.iter().zip(&panels) {
        let board = dashboards
            .iter()
            .find(|d| d["uid"] == uid.as_str())
            .expect("a dashboard");
        let id: u64 = id.parse().expect("a number");
        let all = board["panels"].as_array().expect("panels");
        assert!(
            all.iter().any(|panel| panel["id"] == id),
            "{uid} has no panel {id}"
        );
    }
    // Grafana would replace what follows a dollar by a variable of its environment.
    assert!(!alerts.contains('$'));
}

#[test]
fn no_file_holds_a_secret_or_a_word_that_was_not_replaced() {
    for file in files(&options()) {
        for secret in file
            .content
            .lines()
            .filter(|l| l.to_lowercase().contains("password:"))
        {
            assert!(secret.ends_with("$LOGMILL_PASSWORD"), "{secret}");
        }
    }
    let words = [
        "t", "bucket", "hits", "bytes", "visitors", "events", "counts", "raw", "latency",
    ];
    for board in &BOARDS {
        for panel in board.panels(&options()) {
            let query = super::sql::query(&panel, &options());
            for word in words {
                let left = query.replace("${", "").contains(&format!("{{{word}"));
                assert!(!left || panel.kind == PanelKind::Logs, "{word} in {query}");
            }
        }
    }
}

#[test]
fn the_page_and_grafana_read_the_same_templates() {
    // A script cannot hold these within its quotes.
    assert!(!STATEMENTS.contains("${") && !STATEMENTS.contains('\\'));
    let shared = STATEMENTS.matches("`,\n").count();
    let of_panels = panels().filter(|panel| STATEMENTS.contains(panel.sql));
    let of_panels: BTreeSet<&str> = of_panels.map(|panel| panel.sql).collect();
    assert_eq!(shared, of_panels.len());
    assert_eq!(shared, 10);
}

#[test]
fn several_lines_and_marks_of_a_text_survive_in_yaml() {
    let value = serde_json::json!({ "a": [{ "b": "x\n  y: #z" }, 1, []], "c": "q\"'$:" });
    let expected = "a:\n  - b: |-\n      x\n        y: #z\n  - 1\n  - []\nc: \"q\\\"'$:\"\n";
    assert_eq!(super::yaml::document(&value), expected);
}
