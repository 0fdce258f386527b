//! Life of tiles: compaction, the retention of levels, ranges that are made again, the scrub.

mod shifted;

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Home, LEVEL_TABLES, PAST_S, Server, line, run};

const DAY_S: i64 = 86_400;

/// Runs a command on the home's store.
#[track_caller]
fn ask(home: &Home, args: &[&str], code: i32) -> Value {
    let place = ["--output", "json", "--data", &home.data];
    run(&[args, &place].concat()).code(code).json()
}

#[track_caller]
fn differences(home: &Home) -> u64 {
    let args = ["rollup", "verify", "--output", "json", "--data", &home.data];
    let found = run(&args);
    let found = found.json();
    let rollups = found.as_array().expect("rollups");
    let levels = rollups
        .iter()
        .flat_map(|r| r["levels"].as_array().expect("levels"));
    levels
        .map(|l| l["differences"].as_u64().expect("a number"))
        .sum()
}

/// Imports `days` of four events each, one file and one seal for each of `pieces`.
fn in_pieces(home: &Home, days: i64, pieces: usize) {
    let mut log = vec![String::new(); pieces];
    for day in 0..days {
        for i in 0..4 {
            let at = PAST_S + day * DAY_S + i * 3607;
            let nth = (day * 4 + i) as usize % pieces;
            log[nth] += &line("203.0.113.9", at, &format!("/{}", i % 3), 200, 10);
        }
    }
    for (nth, log) in log.iter().enumerate() {
        let file = home.file(&format!("{nth}.log"), log);
        home.import(&file, &[]);
    }
}

#[test]
fn compaction_leaves_few_sections_and_every_figure() {
    let home = Home::new();
    in_pieces(&home, 3, 9);
    let figures = || -> Vec<Vec<Value>> {
        let all = |table: &str| {
            let key = if table.starts_with("stats") {
                "path"
            } else {
                "status"
            };
            home.sql(&format!("SELECT * FROM {table} ORDER BY bucket, {key}"))
        };
        LEVEL_TABLES.map(all).into()
    };
    let sections = || home.number("SELECT count(*) FROM system.tiles");
    let (before, many) = (figures(), sections());
    let report = ask(&home, &["rollup", "compact"], 0);
    assert!(
        report["merged"].as_u64() > report["into"].as_u64(),
        "{report}"
    );
    // The store may have begun to merge by itself while it was open.
    assert!(sections() * 2 < many, "{} of {many}", sections());
    assert_eq!(figures(), before);
    assert_eq!(differences(&home), 0);
    let again = ask(&home, &["rollup", "compact"], 0);
    assert_eq!(again["edits"], 0, "nothing is left to merge");
}

#[test]
fn a_level_gives_up_what_its_retention_says_and_late_events_reach_the_others() {
    let home = Home::new();
    let config = home.file(
        "logmill.toml",
        r#"
[rollup.pages]
stream = "access"
by = ["path"]
retention = { minute = "2d" }
[rollup.pages.measures]
hits = "count"
"#,
    );
    let import = |name: &str, log: &str| {
        let file = home.file(name, log);
        let import = ["import", &file, "--stream", "access", "--config", &config];
        ask(&home, &import, 0);
        run(&["rollup", "run", "--data", &home.data, "--config", &config]).code(0);
    };
    let hits = |level: &str| home.number(&format!("SELECT sum(hits) FROM pages.{level}"));
    let at = |day: i64| line("203.0.113.9", PAST_S + day * DAY_S, "/a", 200, 10);
    import("first.log", &(0..6).map(at).collect::<String>());
    // The newest stamp may be wrong, since one event is all that a day holds here: the age counts
    // back from the event before it, four days after the first. Minutes of the two whole days
    // before that event, and everything later, stay.
    assert_eq!((hits("minutely"), hits("hourly")), (4, 6));
    import("late.log", &at(1));
    assert_eq!(
        (hits("minutely"), hits("hourly"), hits("yearly")),
        (4, 7, 7)
    );
    let status = home.sql("SELECT * FROM system.rollups WHERE name = 'pages' ORDER BY rows");
    let minute = status
        .iter()
        .find(|r| r["level"] == "minute")
        .expect("a row");
    assert_eq!(minute["late"], 1, "{minute}");
    assert_eq!(minute["floor"], "2024-03-03T00:00:00Z");
    assert_eq!(differences(&home), 0);
    // The late event is not in the minutes of the memtable either, before a seal.
    let server = Server::start(&home.data);
    server.ingest("access?format=combined", at(0));
    let now = |level: &str| {
        let rows = server.sql(&format!("SELECT sum(hits) AS n FROM pages.{level}"));
        rows[0]["n"].as_u64()
    };
    assert_eq!((now("minutely"), now("hourly")), (Some(4), Some(8)));
    let metrics = server.get("/metrics").text();
    assert!(
        metrics.contains("logmill_rollup_late_total{rollup=\"pages\",level=\"minute\"} 1"),
        "{metrics}"
    );
}

#[test]
fn a_range_is_made_again_where_all_raw_events_are_there() {
    let home = Home::new();
    in_pieces(&home, 4, 2);
    let file =
        home.sql("SELECT path FROM system.tiles WHERE rollup = 'stats' LIMIT 1")[0]["path"].clone();
    let path = format!("{}/{}", home.data, file.as_str().expect("a path"));
    let mut bytes = std::fs::read(&path).expect("a tile");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::write(&path, bytes).expect("damaged");
    let ask_days = [
        "sql",
        "SELECT sum(hits) FROM stats.daily",
        "--data",
        &home.data,
    ];
    run(&ask_days).code(65);
    let all = [
        "rollup", "rebuild", "stats", "--from", "2024-01", "--to", "2025-01",
    ];
    let rebuilt = ask(&home, &all, 0);
    let levels = rebuilt.as_array().expect("partitions");
    assert_eq!(
        levels.len(),
        4 + 5,
        "a minute partition for each day: {rebuilt}"
    );
    assert_eq!(home.number("SELECT sum(hits) FROM stats.daily"), 16);
    assert_eq!(differences(&home), 0);
    // A range with missing raw events is left alone and reported.
    run(&[
        "partition",
        "drop",
        "access",
        "2024-03-02",
        "--data",
        &home.data,
    ])
    .code(0);
    let rebuilt = ask(&home, &all, 1);
    let left: Vec<&Value> = rebuilt
        .as_array()
        .expect("partitions")
        .iter()
        .filter(|r| !r["left"].is_null())
        .collect();
    assert_eq!(left.len(), 1 + 5, "{rebuilt}");
    assert_eq!(
        left[0]["left"], "only 12 of its 16 raw events are left",
        "{rebuilt}"
    );
    assert_eq!(home.number("SELECT sum(hits) FROM stats.minutely"), 16);
    let nothing = [
        "rollup", "rebuild", "nothing", "--from", "2024-01", "--to", "2025-01",
    ];
    let wrong = run(&[&nothing[..], &["--data", &home.data]].concat());
    assert!(wrong.code(1).stderr.contains("there is no rollup nothing"));
}

fn metric(server: &Server, name: &str) -> u64 {
    let text = server.get("/metrics").text();
    let line = text.lines().find(|l| l.starts_with(&format!("{name} ")));
    let value = line.and_then(|l| l.split(' ').next_back());
    value.and_then(|v| v.parse().ok()).expect("a metric")
}

/// Waits until a metric has risen to a value.
#[track_caller]
fn until(server: &Server, name: &str, least: u64) {
    let give_up = Instant::now() + Duration::from_secs(60);
    while metric(server, name) < least {
        assert!(Instant::now() < give_up, "{name} stays below {least}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_scrub_finds_what_only_the_raw_events_can_tell_and_a_rebuild_mends_it() {
    let home = Home::new();
    let log: String = (0..8)
        .map(|i| line("203.0.113.9", PAST_S + i * 7200, "/a", 200, 10))
        .collect();
    shifted::store(&home.data, &log);
    let check = run(&["check", &home.data]).code(1);
    assert!(check.stdout.contains("differences"), "{}", check.stdout);
    let often = [
        ("LOGMILL_STORAGE__SCRUB_INTERVAL", "50ms"),
        ("LOGMILL_STORAGE__SCRUB_SHARE", "1.0"),
    ];
    let server = Server::start_with(&home.data, &often);
    until(&server, "logmill_rollup_mismatch_total", 1);
    let error = server.sql("SELECT DISTINCT last_error FROM system.rollups");
    let error = error[0]["last_error"].as_str().expect("an error");
    assert!(error.contains("differ from the raw events"), "{error}");
    for rollup in ["stats", "traffic"] {
        let path = format!("/api/v1/rollups/{rollup}/rebuild?from=2024-01&to=2025-01");
        let rebuilt = server.post(&path, &[], &[]).status(200).json();
        let partitions = rebuilt.as_array().expect("partitions");
        assert!(partitions.iter().all(|p| p["left"].is_null()), "{rebuilt}");
    }
    // The cheapest of all rollups answers a question, so that both are rebuilt first.
    for rollup in ["stats", "traffic"] {
        let path = format!("/api/v1/rollups/{rollup}/verify");
        let found = server.post(&path, &[], &[]).status(200).json();
        let levels = found["levels"].as_array().expect("levels").clone();
        assert!(levels.iter().all(|l| l["differences"] == 0), "{found}");
        let questions = &found["questions"];
        assert_eq!(questions["differences"], 0, "{found}");
        // On a busy machine a question may take more time than it has.
        let number = |name: &str| questions[name].as_u64().expect("a number");
        assert_eq!(number("asked") + number("unanswered"), 100, "{found}");
        assert!(number("asked") > 0, "{found}");
    }
}

#[test]
fn answers_of_rollups_that_differ_from_raw_events_are_told() {
    let home = Home::new();
    let log: String = (0..40)
        .map(|i| line("203.0.113.9", PAST_S + i * 3600, "/a", 200, 10))
        .collect();
    // Levels that count each event an hour late.
    shifted::store(&home.data, &log);
    let place = [
        "--questions",
        "60",
        "--output",
        "json",
        "--data",
        &home.data,
    ];
    let found = ask_verify(&place);
    let differences: u64 = found
        .iter()
        .filter_map(|rollup| rollup["questions"]["differences"].as_u64())
        .sum();
    assert!(differences > 0, "{found:?}");
    let shown = found
        .iter()
        .flat_map(|r| r["questions"]["shown"].as_array());
    let shown: Vec<&str> = shown.flatten().filter_map(Value::as_str).collect();
    assert!(
        shown.iter().all(|told| told.starts_with("SELECT ")),
        "{shown:?}"
    );
    assert!(!shown.is_empty());
    // No questions are run when none are requested.
    let none = ask_verify(&["--questions", "0", "--output", "json", "--data", &home.data]);
    assert!(
        none.iter().all(|r| r["questions"]["asked"] == 0),
        "{none:?}"
    );
}

#[track_caller]
fn ask_verify(more: &[&str]) -> Vec<Value> {
    let found = run(&[&["rollup", "verify"][..], more].concat())
        .code(1)
        .json();
    found.as_array().expect("rollups").clone()
}

#[test]
fn the_scrub_verifies_in_turns_and_counts_what_it_cannot_read() {
    let home = Home::new();
    in_pieces(&home, 4, 2);
    let often = [
        ("LOGMILL_STORAGE__SCRUB_INTERVAL", "50ms"),
        ("LOGMILL_STORAGE__SCRUB_SHARE", "0.5"),
    ];
    let server = Server::start_with(&home.data, &often);
    // Two turns cover the four days of both rollups.
    until(&server, "logmill_scrub_windows_total", 16);
    assert_eq!(metric(&server, "logmill_rollup_mismatch_total"), 0);
    assert_eq!(metric(&server, "logmill_scrub_failures_total"), 0);
    let path =
        server.sql("SELECT path FROM system.tiles WHERE rollup = 'stats' LIMIT 1")[0]["path"]
            .clone();
    let path = format!("{}/{}", home.data, path.as_str().expect("a path"));
    let mut bytes = std::fs::read(&path).expect("a tile");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::write(&path, bytes).expect("damaged");
    until(&server, "logmill_scrub_failures_total", 1);
    let error = server.sql("SELECT DISTINCT last_error FROM system.rollups");
    let error = error[0]["last_error"].as_str().expect("an error");
    assert!(
        error.contains("scrub of stats") && error.contains(".tile"),
        "{error}"
    );
}
