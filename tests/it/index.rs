//! `index create`, `list`, `drop`: less is read, and every answer stays the same.

use std::fmt::Write;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Home, Output, PAST_S, Server, import, line, only_number, run};

/// More rows than a part must have to be indexed.
const LINES: i64 = 110_000;
const RARE: &str = "SELECT count(*) AS n FROM access WHERE path = '/page/777'";
const EVENTS: &str = "SELECT * FROM access WHERE path = '/page/777'";
/// Limit of the wait for background work: half of the interval at which it runs without a wake-up.
const PATIENCE: Duration = Duration::from_secs(30);

fn log(lines: i64) -> String {
    let mut log = String::new();
    for i in 0..lines {
        let path = format!("/page/{}", i * 7 % 5000);
        write!(
            log,
            "{}",
            line("203.0.113.9", PAST_S + i % 80_000, &path, 200, 10)
        )
        .expect("grows");
    }
    log
}

fn explain(place: &[&str], query: &str) -> Value {
    let args = ["sql", query, "--explain", "--output", "json"];
    run(&[&args[..], place].concat()).code(0).json()
}

fn uses_index(place: &[&str]) -> bool {
    let figures = explain(place, EVENTS);
    let by = figures["answered_by"].as_array().expect("a list");
    let uses = by.contains(&"index path of access".into());
    let (looked, rows) = (&figures["rows_examined"], &figures["rows_returned"]);
    assert!(!uses || looked == rows, "{figures}");
    uses
}

fn index(place: &[&str], args: &[&str]) -> Output {
    run(&[&["index"], args, place].concat())
}

/// Returns the row of the index in `index list`.
fn listed(place: &[&str]) -> Option<Value> {
    let listed = index(place, &["list", "access", "--output", "json"])
        .code(0)
        .json();
    let rows = listed.as_array().expect("rows").iter();
    rows.clone().find(|row| row["kind"] == "inverted").cloned()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_index_is_made_used_followed_and_dropped_while_the_server_runs() {
    let home = Home::new();
    home.import(&home.file("access.log", log(LINES)), &[]);
    let server = Server::start(&home.data);
    let place = ["--server", &*server.url];
    let count = || only_number(&crate::support::sql(&place, RARE));
    assert_eq!(count(), 22);
    assert!(!uses_index(&place));
    let said = index(&place, &["create", "access", "path"]).code(0).stdout;
    assert!(said.contains("in the background"), "{said}");
    let is_done = || listed(&place).is_some_and(|row| row["parts_waiting"] == 0);
    wait_until("the index", is_done);
    assert!(uses_index(&place));
    assert_eq!(count(), 22);
    let row = listed(&place).expect("listed");
    assert!(row["disk_bytes"].as_u64() > Some(100_000), "{row}");
    assert!(row["memory_bytes"].as_u64() > Some(0), "{row}");
    assert!(row["last_used"].is_string(), "{row}");
    let told = server.sql("SELECT what, state FROM system.maintenance WHERE job = 'build_index'");
    assert_eq!(told[0]["state"], "done");
    // Late events come, are sealed and merged: they are found before the index knows them, and
    // after.
    let late = home.file("late.log", log(40_000));
    import(&place, &late, &["--again"]);
    run(&["rollup", "run", "--server", &server.url]).code(0);
    assert_eq!(count(), 30);
    run(&["partition", "compact", "access", "--server", &server.url]).code(0);
    assert_eq!(count(), 30);
    wait_until("the index of the merged part", is_done);
    assert!(uses_index(&place));
    assert_eq!(count(), 30);
    index(&place, &["drop", "access", "path"]).code(0);
    assert!(listed(&place).is_none());
    assert!(!uses_index(&place));
    assert_eq!(count(), 30);
}

#[test]
fn an_index_is_made_in_a_directory_and_wrong_ones_are_refused() {
    let home = Home::new();
    home.import(&home.file("access.log", log(LINES)), &[]);
    let place = ["--data", &*home.data];
    let said = index(&place, &["create", "access", "path", "user"])
        .code(0)
        .stdout;
    assert!(said.starts_with("indexed 2 parts: 220,000 rows"), "{said}");
    assert!(uses_index(&place));
    run(&["check", &home.data]).code(0);
    for (args, why) in [
        (["create", "nobody", "path"], "there is no stream nobody"),
        (
            ["create", "access", "nothing"],
            "the stream has no such column",
        ),
        (
            ["create", "access", "host"],
            "parts are already sorted by this column",
        ),
        (
            ["create", "access", "time"],
            "its stored form differs from the values that queries read",
        ),
        (
            ["drop", "access", "referrer"],
            "there is no index on \"referrer\" of access",
        ),
    ] {
        let refused = index(&place, &args).code(1).stderr;
        assert!(refused.contains(why), "{args:?}: {refused}");
    }
    index(&place, &["drop", "access", "user", "path"]).code(0);
    assert!(!uses_index(&place));
}

#[test]
fn a_covering_index_is_made_and_read_in_the_place_of_its_part() {
    let home = Home::new();
    home.import(&home.file("access.log", log(LINES)), &[]);
    let place = ["--data", &*home.data];
    let rows = || run(&[&["sql", EVENTS, "--output", "ndjson"], &place[..]].concat());
    let sorted = |output: Output| {
        let mut lines: Vec<String> = output.code(0).stdout.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let expected = sorted(rows());
    assert_eq!(expected.len(), 22);
    let create = ["create", "access", "path", "--covering"];
    let said = index(&place, &create).code(0).stdout;
    assert!(said.starts_with("indexed 1 parts: 110,000 rows"), "{said}");
    let figures = explain(&place, EVENTS);
    let by = figures["answered_by"].as_array().expect("a list");
    assert!(by.contains(&"index path of access".into()), "{figures}");
    assert!(
        figures["rows_examined"].as_u64() < Some(20_000),
        "{figures}"
    );
    assert_eq!(sorted(rows()), expected);
    run(&["check", &home.data]).code(0);
    let refused = index(&place, &["create", "access", "path"]).code(1).stderr;
    assert!(
        refused.contains("already exists and is covering; drop it first"),
        "{refused}"
    );
    let server = Server::start(&home.data);
    let listed = server.sql("SELECT kind, parts_indexed FROM system.indexes WHERE field = 'path'");
    assert_eq!(listed[0]["kind"], "covering");
    let path = "/api/v1/indexes/access/user?covering";
    let refused = server.post(&format!("{path}=perhaps"), &[], b"");
    assert_eq!(refused.status, 400);
    assert!(
        refused.text().contains("covering is true or false"),
        "{}",
        refused.text()
    );
    assert_eq!(server.post(&format!("{path}=true"), &[], b"").status, 202);
    index(
        &["--server", &*server.url],
        &["drop", "access", "user", "path"],
    )
    .code(0);
    assert_eq!(
        server
            .sql("SELECT kind FROM system.indexes WHERE kind = 'covering'")
            .len(),
        0
    );
}
