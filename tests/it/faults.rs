//! Faults of the document designs that the rollups follow. Each is a history of events and runs,
//! replayed on the real program, with the expected content of every level after each step. A run
//! is a seal.
//!
//! The stream is the one of the session-length example: documents `{userid, ts, length, page}`.

mod calendar;
mod crash;

use std::time::{Duration, Instant};

use chrono::{DateTime, Datelike, Days, SecondsFormat, TimeDelta, Utc};
use serde_json::json;

use crate::support::{Home, PATIENCE, Server, command, run};

const LEVELS: [&str; 6] = ["minutely", "hourly", "daily", "weekly", "monthly", "yearly"];
const MINUTES_A_DAY: u64 = 1440;

/// Returns a rollup of the sessions whose days begin in `zone`.
fn rollup(name: &str, zone: &str) -> String {
    format!(
        r#"
[rollup.{name}]
stream = "visits"
by = ["userid"]
levels = ["minute", "hour", "day", "week", "month", "year"]
timezone = "{zone}"
[rollup.{name}.measures]
hits = "count"
total = "sum(length)"
mean = "mean(length)"
length = {{ histogram = "length" }}
pages = {{ distinct = "page" }}
long = {{ of = "count", filter = "length >= 60" }}
"#
    )
}

/// Serves a store with these definitions.
fn serve(home: &Home, definitions: &str, environment: &[(&str, &str)]) -> Server {
    let config = home.file("logmill.toml", definitions);
    let mut program = command();
    program.args(["--config", &config]);
    Server::try_start(program, &home.data, environment).expect("a server")
}

fn serve_sessions(home: &Home) -> Server {
    serve(home, &rollup("sessions", "UTC"), &[])
}

fn event(user: &str, at: &str, length: u64, page: &str) -> String {
    let event = json!({ "userid": user, "ts": at, "length": length, "page": page });
    format!("{event}\n")
}

/// Sends events as one request and checks that all are accepted.
#[track_caller]
fn add(server: &Server, events: &[String]) {
    let answer = server.ingest("visits?format=json", events.concat());
    assert_eq!(answer["accepted"], events.len(), "{answer}");
}

/// Sends one event of ten seconds.
#[track_caller]
fn add_at(server: &Server, user: &str, at: &str) {
    add(server, &[event(user, at, 10, "/")]);
}

/// Completes an instant whose end may be left out: `2024-03-06T14` is 14:00:00 UTC.
fn stamp(short: &str) -> String {
    format!("{short}{}", &"0000-00-00T00:00:00Z"[short.len()..])
}

fn micros(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// Checks that a level has these buckets of a user, with so many hits, and no other.
#[track_caller]
fn assert_hits(server: &Server, level: &str, user: &str, expected: &[(&str, u64)]) {
    let rows = server.sql(&format!(
        "SELECT bucket, hits, total FROM {level} WHERE userid = '{user}' ORDER BY bucket"
    ));
    let expected = expected
        .iter()
        .map(|(bucket, n)| json!({ "bucket": stamp(bucket), "hits": n, "total": (10 * n) as f64 }));
    assert_eq!(rows, expected.collect::<Vec<_>>(), "{level} of {user}");
}

/// Checks that all events of a user lie in one bucket of each of the levels from hour to year.
#[track_caller]
fn assert_everywhere(server: &Server, user: &str, buckets: [&str; 5], hits: u64) {
    for (level, bucket) in LEVELS[1..].iter().zip(buckets) {
        assert_hits(
            server,
            &format!("sessions.{level}"),
            user,
            &[(bucket, hits)],
        );
    }
}

/// Checks that the store finds no difference when it recomputes everything from its raw events.
#[track_caller]
fn assert_verified(server: &Server) {
    let verify = [
        "rollup",
        "verify",
        "--questions",
        "10",
        "--server",
        &server.url,
    ];
    run(&verify).code(0);
}

/// Hour, day, week, month and year of 6 March 2024, 14 h.
const MARCH: [&str; 5] = [
    "2024-03-06T14",
    "2024-03-06",
    "2024-03-03",
    "2024-03-01",
    "2024-01-01",
];

#[test]
fn an_hour_that_grew_from_10_to_15_makes_a_day_of_15_and_not_of_25() {
    let home = Home::new();
    let server = serve_sessions(&home);
    let some = |minutes: std::ops::Range<u32>| {
        let event = |minute| event("a", &format!("2024-03-06T14:{minute:02}:00Z"), 10, "/");
        add(&server, &minutes.map(event).collect::<Vec<_>>());
    };
    some(0..10);
    assert_everywhere(&server, "a", MARCH, 10);
    for _ in 0..2 {
        server.seal();
        assert_everywhere(&server, "a", MARCH, 10);
    }
    some(10..15);
    assert_everywhere(&server, "a", MARCH, 15);
    for _ in 0..2 {
        server.seal();
        assert_everywhere(&server, "a", MARCH, 15);
    }
    assert_verified(&server);
}

/// The runs come every five minutes, as in the study of the source design. There two such events
/// became 2 in their hour, 3 in their day, 4 in week and month and 5 in the year.
#[test]
fn two_events_of_one_hour_are_two_at_every_level_however_often_it_runs() {
    let home = Home::new();
    let server = serve_sessions(&home);
    let mut hits = 0;
    for (i, minute) in (5..60).step_by(5).enumerate() {
        if [5, 40].contains(&minute) {
            add_at(&server, "a", &format!("2024-03-06T14:{minute:02}:00Z"));
            hits += 1;
        }
        // The event of another user makes each run do something and touch the same buckets.
        add_at(&server, "b", &format!("2024-03-06T14:{minute:02}:01Z"));
        let last_run = server.seal()["last_run"].as_u64();
        assert_eq!(last_run, Some(i as u64 + 1 + hits));
        assert_everywhere(&server, "a", MARCH, hits);
        assert_everywhere(&server, "b", MARCH, i as u64 + 1);
    }
    assert_eq!(hits, 2);
    assert_verified(&server);
}

/// Returns the buckets from hour to year that hold an instant, by another library's calendar.
fn buckets(at: DateTime<Utc>) -> [String; 5] {
    let day = at.date_naive();
    let sunday = day - Days::new(day.weekday().num_days_from_sunday().into());
    [
        at.format("%Y-%m-%dT%H").to_string(),
        day.to_string(),
        sunday.to_string(),
        day.format("%Y-%m-01").to_string(),
        day.format("%Y-01-01").to_string(),
    ]
}

/// Waits until the lag has sealed everything; returns the time of the last run.
fn wait_until_sealed(server: &Server) -> DateTime<Utc> {
    let until = Instant::now() + PATIENCE;
    while server.number("SELECT max(waiting) FROM system.rollups") > 0 {
        assert!(Instant::now() < until, "the lag seals nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
    let rows = server.sql("SELECT max(last_run_at) AS at FROM system.rollups");
    let at = rows[0]["at"].as_str().expect("the time of the run");
    DateTime::parse_from_rfc3339(at)
        .expect("an instant")
        .to_utc()
}

#[test]
fn events_later_than_the_lag_reach_every_level() {
    let home = Home::new();
    let lag = [("LOGMILL_STORAGE__LAG", "100ms")];
    let server = serve(&home, &rollup("sessions", "UTC"), &lag);
    let now = Utc::now();
    add_at(&server, "on time", &micros(now));
    let last_run = wait_until_sealed(&server);
    assert!(last_run > now);
    // All are older than the events that are rolled up already.
    let late = [
        ("by a second", now - TimeDelta::seconds(1)),
        ("by a month", now - TimeDelta::days(31)),
        ("by a year", now - TimeDelta::days(366)),
        (
            "by half a century",
            DateTime::from_timestamp_nanos(1_234_567_890_000),
        ),
    ];
    for (user, at) in late {
        add_at(&server, user, &micros(at));
        assert_everywhere(&server, user, buckets(at).each_ref().map(|b| &**b), 1);
        wait_until_sealed(&server);
        add_at(&server, user, &micros(at));
    }
    for round in 0..2 {
        for (user, at) in late {
            assert_everywhere(&server, user, buckets(at).each_ref().map(|b| &**b), 2);
        }
        if round == 0 {
            assert!(wait_until_sealed(&server) > last_run);
        }
    }
    assert_verified(&server);
}

#[test]
fn an_event_stamped_exactly_at_last_run_is_counted() {
    let home = Home::new();
    let server = serve_sessions(&home);
    add_at(&server, "a", "2024-03-06T14:00:00Z");
    server.seal();
    let last_run = wait_until_sealed(&server);
    for (beside, counted) in [(0, 1), (-1, 2), (1, 3)] {
        let at = last_run + TimeDelta::microseconds(beside);
        add_at(&server, "at last_run", &micros(at));
        for sealed in [false, true] {
            for level in LEVELS {
                let hits = server.number(&format!(
                    "SELECT sum(hits) FROM sessions.{level} WHERE userid = 'at last_run'"
                ));
                assert_eq!(hits, counted, "{level}, {beside} µs, sealed: {sealed}");
            }
            server.seal();
        }
    }
    assert_verified(&server);
}

#[test]
fn means_percentiles_shares_and_distinct_counts_of_a_day_are_those_of_its_events() {
    let home = Home::new();
    let server = serve_sessions(&home);
    let hour = |hour: u32, count: u32, length: u64| {
        let event = |i| {
            let at = format!("2024-03-06T{hour:02}:{:02}:00Z", i % 60);
            event("a", &at, length, &format!("/{}", i % 5))
        };
        add(&server, &(0..count).map(event).collect::<Vec<_>>());
    };
    // The ten long sessions of a thousand have an hour of their own. Averages of the figures of
    // the two hours would be 5005 (mean and p99) and a half (share), their sum ten pages.
    let steps = [(9, 10, 10_000), (10, 500, 10), (10, 250, 10), (10, 240, 10)];
    for (i, (h, count, length)) in steps.into_iter().enumerate() {
        hour(h, count, length);
        // The last ones stay in the memtable: the figures combine tiles and memtable.
        if i < 3 {
            server.seal();
        }
    }
    for level in &LEVELS[2..] {
        let rows = server.sql(&format!(
            "SELECT hits, mean, long * 1.0 / hits AS share, pages, length_p50, length_p99, length_max \
             FROM sessions.{level}"
        ));
        let expected = json!({
            "hits": 1000, "mean": 109.9, "share": 0.01, "pages": 5,
            "length_p50": 10.0, "length_p99": 10.0, "length_max": 10_000.0,
        });
        assert_eq!(rows, [expected], "{level}");
    }
    assert_verified(&server);
}

#[test]
fn a_bulk_request_names_each_item_that_failed_and_counts_the_others() {
    let home = Home::new();
    let server = serve_sessions(&home);
    let future = micros(Utc::now() + TimeDelta::hours(1));
    let items: Vec<String> = (0..200)
        .map(|i| match i {
            0 => "{\"userid\":\"a\",\"ts\":\n".to_owned(),
            57 => "[\"no\", \"object\"]\n".to_owned(),
            58 => event("a", &future, 10, "/"),
            199 => "not even JSON\n".to_owned(),
            _ => event("a", "2024-03-06T14:00:00Z", 10, "/"),
        })
        .collect();
    let answer = server.ingest("visits?format=json&ordered=false", items.concat());
    assert_eq!(
        (&answer["accepted"], &answer["quarantined"]),
        (&json!(196), &json!(4))
    );
    let errors = answer["errors"].as_array().expect("errors");
    let failed: Vec<_> = errors.iter().map(|e| e["index"].as_u64()).collect();
    assert_eq!(failed, [0, 57, 58, 199].map(Some));
    for error in errors {
        let reason = error["reason"].as_str();
        assert!(reason.is_some_and(|r| !r.is_empty()), "{error}");
    }
    for _ in 0..2 {
        assert_everywhere(&server, "a", MARCH, 196);
        assert_eq!(server.number("SELECT count(*) FROM system.quarantine"), 4);
        server.seal();
    }
    assert_verified(&server);
}

/// Growth by one recorded minute: cells, bytes of sections, bytes of the tile's file and of the
/// part.
#[derive(Debug, Clone, Copy)]
struct Cost {
    cells: u64,
    bytes: [u64; 3],
}

/// Returns the size of what the seal of the events from `first_seq` on has written.
fn cost(home: &Home, server: &Server, first_seq: u64) -> Cost {
    let of = |what: &str| {
        let rows = server.sql(&format!(
            "SELECT {what} AS found FROM system.tiles WHERE first_seq = {first_seq}"
        ));
        rows[0]["found"].clone()
    };
    let file = of("min(path)");
    let file = format!("{}/{}", home.data, file.as_str().expect("a path"));
    let part = format!("SELECT bytes FROM system.parts WHERE first_seq = {first_seq}");
    Cost {
        cells: of("sum(cells)").as_u64().expect("cells"),
        bytes: [
            of("sum(bytes)").as_u64().expect("bytes"),
            std::fs::metadata(file).expect("a tile's file").len(),
            server.number(&part),
        ],
    }
}

#[test]
fn the_last_minute_of_a_day_costs_what_the_first_one_did() {
    let home = Home::new();
    // Maintenance is off, so that a tile stays as its seal wrote it.
    let alone = [("LOGMILL_STORAGE__TENDS", "false")];
    let server = serve(&home, &rollup("sessions", "UTC"), &alone);
    let full = std::env::var_os("LOGMILL_FULL").is_some();
    let mut costs = Vec::new();
    let mut first_seq = 0;
    for minute in 0..MINUTES_A_DAY {
        let at = format!("2024-03-06T{:02}:{:02}", minute / 60, minute % 60);
        let load = (0..60).map(|s| {
            let (user, page) = (format!("user {}", s % 20), format!("/{}", s % 7));
            event(&user, &format!("{at}:{s:02}Z"), 10 * s, &page)
        });
        let measured = full || minute % 180 == 0 || minute + 1 == MINUTES_A_DAY;
        if measured {
            // The tile of the next seal holds this minute and no other.
            first_seq = server.seal()["last_run"].as_u64().expect("a number");
        }
        add(&server, &load.collect::<Vec<_>>());
        if measured {
            server.seal();
            costs.push(cost(&home, &server, first_seq));
        }
    }
    println!("first {:?}, last {:?}", costs[0], costs[costs.len() - 1]);
    for (i, cost) in costs.iter().enumerate() {
        assert_eq!(
            cost.cells, costs[0].cells,
            "cells of the measured minute {i}"
        );
        for (now, first) in cost.bytes.into_iter().zip(costs[0].bytes) {
            assert!(
                now.abs_diff(first) * 50 <= first,
                "the measured minute {i} costs {cost:?}, the first one {:?}",
                costs[0]
            );
        }
    }
    assert!(costs.len() >= 9 && first_seq == 60 * (MINUTES_A_DAY - 1));
}
