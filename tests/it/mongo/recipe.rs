//! The calls of the classic designs: `tests/clients/mongo_recipe.py`.

use super::{served, served_with, told_by};
use crate::support::{Home, knob, seed};

const FILE: &str = "mongo_recipe.py";

/// Runs a chapter, which makes so many calls.
#[track_caller]
fn check(chapter: &str, rollup: &str, calls: u32) {
    let home = Home::new();
    let (server, address) = served_with(&home, rollup);
    let Some(line) = told_by(FILE, &address, &[chapter]) else {
        return;
    };
    assert_eq!(line, format!("{calls} calls"));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn events_are_asked_for_and_counted() {
    let home = Home::new();
    let (server, address) = served(&home);
    let Some(line) = told_by(FILE, &address, &["events"]) else {
        return;
    };
    assert_eq!(line, "10 calls");
    server.seal();
    let line = told_by(FILE, &address, &["explained"]);
    assert_eq!(line.as_deref(), Some("6 calls"));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn counters_are_counted_by_upserts() {
    check("counters", "", 25);
}

/// Hits from many threads, over midnight and the end of a month, through broken connections.
#[test]
fn each_acknowledged_hit_is_counted_once() {
    let home = Home::new();
    let (server, address) = served(&home);
    let count = knob("LOGMILL_MONGO_HITS", 400).to_string();
    let Some(line) = told_by(FILE, &address, &["hits", &count, &seed().to_string()]) else {
        return;
    };
    println!("{line}");
    assert!(
        line.starts_with(&format!("counted {count}, broken before ")),
        "{line}"
    );
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn pre_aggregated_reports_are_documents_of_pages() {
    let rollup = r#"
[rollup.stats]
stream = "events"
by = ["site", "path"]
levels = ["minute", "hour", "day", "month"]
[rollup.stats.measures]
hits = "count"
"#;
    check("pages", rollup, 19);
}

#[test]
fn the_levels_of_an_aggregation_are_documents() {
    let rollup = r#"
[rollup.lengths]
stream = "sessions"
by = [{ name = "u", expr = "userid" }]
levels = ["hour", "day", "week", "month", "year"]
[rollup.lengths.measures]
total = "sum(length)"
count = "count"
mean = "mean(length)"
"#;
    check("sessions", rollup, 22);
}
