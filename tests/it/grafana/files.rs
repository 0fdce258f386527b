//! The command, and its files against Grafana's own model of dashboards.

use std::path::Path;
use std::process::Command;

use super::dashboards;
use crate::support::{Home, finish, run};

#[test]
fn wrong_arguments_are_refused_and_nothing_is_written() {
    let home = Home::new();
    let out = home.path("grafana");
    for wrong in [
        ["--url", "logs.example.org"],
        ["--url", "https://"],
        ["--postgres", "127.0.0.1"],
        ["--stream", "no stream"],
        ["--latency-unit", "s"],
    ] {
        let told = run(&["grafana", "--out", &out, wrong[0], wrong[1]]).code(2);
        assert!(
            told.stderr.contains(wrong[0]) || told.stderr.contains(wrong[1]),
            "{}",
            told.stderr
        );
        assert!(!Path::new(&out).exists());
    }
}

/// Grafana's own classes of dashboards read all that is written, and write the same: no member is
/// unknown to them. `LOGMILL_GRAFANA_PYTHON` is a Python that has `grafana-foundation-sdk`.
#[test]
fn dashboards_are_of_grafanas_model() {
    let Ok(python) = std::env::var("LOGMILL_GRAFANA_PYTHON") else {
        println!("skipped: LOGMILL_GRAFANA_PYTHON names no Python with grafana-foundation-sdk");
        return;
    };
    let home = Home::new();
    let out = home.path("grafana");
    dashboards(&out, &["--latency", "request_time", "--prometheus"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/grafana.py");
    let told = finish(Command::new(python).arg(script).arg(&out), &[]).code(0);
    assert!(told.stdout.contains("3 dashboards"), "{}", told.stdout);
}
