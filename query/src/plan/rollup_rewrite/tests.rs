//! Result with the rule = result without it, for random questions over random histories.
//!
//! `LOGMILL_QUESTIONS=2000 cargo test -p logmill-query every_rewritten -- --nocapture` runs that
//! many questions; `LOGMILL_SEED=7` runs the questions of one history.

use std::sync::Arc;

use aggregator::{Cascade, CascadeConfig};
use serde_json::{Value, json};
use storage::{Name, Snapshot, StreamKind};

use crate::RollupUse;
use crate::tests::support::{DAY_US, Event, Fixture, Random, batch};
use crate::{Engine, EngineOptions, NoSystemInfo, QueryStats};

mod forms;
mod windows;

/// 2026-10-22T00:00:00Z, a Thursday; on the 25th Berlin leaves summer time.
const START: i64 = 1_792_627_200_000_000;
const HOUR_US: i64 = 3_600_000_000;
const DAYS: usize = 12;
/// Number of questions per history.
const EACH: usize = 100;

/// Returns five rollups: two like the default ones, one in another zone with few admitted keys, one
/// that lacks levels and measures, and one by expressions.
fn cascade() -> Arc<Cascade> {
    let config: CascadeConfig = serde_json::from_value(json!({"rollups": {
        "stats": {"stream": "access", "by": ["site", "path"], "measures": {
            "hits": "count", "bytes": "sum(response_size)",
            "size": {"histogram": "response_size", "from": "hour"},
            "visitors": {"distinct": "host", "from": "hour"}}},
        "traffic": {"stream": "access", "by": ["site", "status", "method"], "measures": {
            "hits": "count", "size": {"histogram": "response_size"}}},
        "local": {"stream": "access", "by": ["path", "status"], "timezone": "Europe/Berlin",
            "week": "monday", "max_keys": 9, "measures": {"n": "count", "bytes": "sum(response_size)"}},
        "coarse": {"stream": "access", "by": ["host"], "levels": ["hour", "day", "month"], "measures": {
            "n": "count", "least": "min(response_size)", "most": "max(response_size)"}},
        "sections": {"stream": "access", "max_keys": 20, "by": ["site",
            {"name": "section", "expr": "path_prefix(path, 1)"},
            {"name": "bare", "expr": "url_extract_path(path)"},
            {"name": "a", "expr": "url_extract_parameter(path, 'a')"},
            {"name": "program", "expr": "user_agent_family(path)"}],
            "measures": {"n": "count", "bytes": "sum(response_size)"}},
    }, "streams": {}}))
    .expect("a configuration");
    Arc::new(Cascade::new(config).expect("rollups"))
}

fn event(random: &mut Random, day: usize) -> Event {
    const HOSTS: [&str; 6] = ["alpha", "beta", "gamma", "delta", "10.0.0.1", "::1"];
    let within = match random.below(6) {
        // Times at the edges of buckets.
        0 => random.below(24) as i64 * HOUR_US,
        1 => (1 + random.below(24)) as i64 * HOUR_US - 1,
        2 => random.below(1440) as i64 * HOUR_US / 60,
        _ => random.below(DAY_US as usize) as i64,
    };
    Event {
        time: START + day as i64 * DAY_US + within,
        host: HOSTS[random.below(6)],
        method: [Some("GET"), Some("POST"), None][random.below(3)],
        path: path(random),
        status: [Some(200), Some(304), Some(404), Some(500), None][random.below(5)],
        size: (random.below(4) > 0).then(|| random.below(100_000) as i64),
        ..Event::default()
    }
}

fn path(random: &mut Random) -> Option<String> {
    let n = random.below(8);
    match random.below(12) {
        0 => None,
        1 => Some(format!("/s{}/p{n}?a={}", n % 2, n % 3)),
        2 => Some(format!("/s{}/Googlebot", n % 3)),
        _ => Some(format!("/p{n}")),
    }
}

/// Creates a store with events of some days, late ones among them. Some events are sealed; some
/// parts are compacted, some partitions dropped or detached.
fn history(random: &mut Random) -> Fixture {
    let fixture = Fixture::new(cascade());
    let name = Name::new("access").expect("a name");
    let day = |random: &mut Random| {
        let start = START + random.below(DAYS) as i64 * DAY_US;
        (start, start + DAY_US)
    };
    for step in 0..4 + random.below(10) {
        let latest = (step * DAYS / 12 + 1).min(DAYS);
        let events: Vec<Event> = (0..10 + random.below(150))
            .map(|_| {
                let day = match random.below(4) {
                    0 => random.below(latest),
                    _ => latest - 1,
                };
                event(random, day)
            })
            .collect();
        fixture.write("access", StreamKind::Access, batch(&events));
        if random.below(3) > 0 {
            fixture.store.seal().expect("seals");
        }
        let changed = match random.below(8) {
            0 => fixture.store.compact_parts(None, true).map(drop),
            1 => fixture.store.compact_tiles(true).map(drop),
            2 | 3 => {
                let day = day(random);
                fixture.store.drop_partitions(&name, day, false).map(drop)
            }
            4 | 5 => {
                let day = day(random);
                // The call fails where a partition of the range is detached already.
                let _ = fixture.store.detach_partitions(&name, day, false);
                Ok(())
            }
            _ => Ok(()),
        };
        changed.expect("done");
    }
    fixture
}

const TIMES: [&str; 11] = [
    "date_trunc('minute', time)",
    "date_trunc('hour', time)",
    "date_trunc('day', time)",
    "date_trunc('week', time)",
    "date_trunc('month', time)",
    "date_bin('15 minutes', time)",
    "time_bucket('6 hours', time)",
    "time_bucket('1 day', time, 'Europe/Berlin')",
    "time_bucket('1 day', time, 'Asia/Kolkata')",
    "date_part('hour', time)",
    "CAST(date_trunc('day', time) AS DATE)",
];
/// Expressions over keys and filters on keys, grouped so that one rollup has them together; the
/// last theme mixes all keys.
const THEMES: [(&[&str], &[&str]); 5] = [
    (
        &["path", "site", "upper(path)", "coalesce(path, '-')"],
        &[
            "path = '/p3'",
            "path IN ('/p1', '/p2', '/p5')",
            "path IS NULL",
            "path LIKE '/p%'",
            "path > '/p4'",
            "site IS NULL",
        ],
    ),
    (
        &[
            "status",
            "method",
            "status / 100",
            "coalesce(method, '-')",
            "CASE WHEN status >= 500 THEN 'bad' WHEN status IS NULL THEN 'none' ELSE 'good' END",
        ],
        &[
            "status = 200",
            "status >= 400 AND status < 500",
            "(status IS NULL OR status = 304)",
            "NOT (method = 'GET')",
            "method IS NOT NULL",
        ],
    ),
    (
        &["path", "status", "path || '!'", "status + 1"],
        &["path IS NOT NULL", "status IN (200, 500)", "path = '/p1'"],
    ),
    (
        &[
            "path_prefix(path, 1)",
            "url_extract_path(path)",
            "url_extract_parameter(path, 'a')",
            "coalesce(user_agent_family(path), site, '-')",
            "upper(path_prefix(path, 1))",
        ],
        &[
            "path_prefix(path, 1) = '/s1'",
            "path_prefix(path, 1) IN ('/s1', '/p2', '/p5')",
            "url_extract_path(path) > '/p4'",
            "url_extract_parameter(path, 'a') IS NULL",
            "user_agent_family(path) IS NOT NULL",
            "path_prefix(path, 2) LIKE '/s%'",
        ],
    ),
    (
        &["path", "host", "method", "status"],
        &["host = 'beta'", "method = 'POST'", "path = '/p7'"],
    ),
];
/// Aggregates: first the ones that every default rollup has, then the rest.
const AGGREGATES: [&str; 20] = [
    "count(*)",
    "count(*)",
    "count(*)",
    "count(*)",
    "sum(response_size)",
    "sum(response_size)",
    "sum(response_size)",
    "count(response_size)",
    "avg(response_size)",
    "min(response_size)",
    "max(response_size)",
    "count(status)",
    "count(path)",
    "sum(status)",
    "avg(status)",
    "min(path)",
    "max(status)",
    "count(*) FILTER (WHERE status >= 500)",
    "sum(response_size) FILTER (WHERE path = '/p1')",
    "sum(CASE WHEN status = 404 THEN 1 ELSE 0 END)",
];
fn instant(random: &mut Random) -> i64 {
    let minutes = random.below(DAYS * 24 * 60) as i64;
    let minutes = match random.below(4) {
        0 => minutes - minutes % 1440,
        1 => minutes - minutes % 60,
        _ => minutes,
    };
    let mut at_us = START + minutes * HOUR_US / 60;
    if random.below(4) == 0 {
        at_us += random.below(60_000_000) as i64;
    }
    at_us
}

fn stamp(at_us: i64) -> String {
    let at = chrono::DateTime::from_timestamp_micros(at_us).expect("a time");
    at.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

fn question(random: &mut Random) -> String {
    let mut columns: Vec<&str> = Vec::new();
    if random.below(3) > 0 {
        columns.push(TIMES[random.below(TIMES.len())]);
    }
    let (keys, filters) = THEMES[[0, 0, 1, 1, 2, 2, 3, 3, 4][random.below(9)]];
    for _ in 0..random.below(3) {
        columns.push(keys[random.below(keys.len())]);
    }
    let groups: Vec<String> = (1..=columns.len()).map(|n| n.to_string()).collect();
    for _ in 0..1 + random.below(2) {
        columns.push(AGGREGATES[random.below(AGGREGATES.len())]);
    }
    if random.below(12) == 0 {
        columns.push("count(DISTINCT path)");
    }
    let mut terms: Vec<String> = Vec::new();
    let (a, b) = (instant(random), instant(random));
    if random.below(3) > 0 {
        terms.push(format!("time >= '{}'", stamp(a.min(b))));
    }
    if random.below(3) > 0 {
        terms.push(format!("time < '{}'", stamp(a.max(b))));
    }
    for _ in 0..random.below(3) {
        terms.push(filters[random.below(filters.len())].to_owned());
    }
    let columns = columns.iter().enumerate();
    let columns: Vec<String> = columns.map(|(nth, c)| format!("{c} AS c{nth}")).collect();
    let mut sql = format!("SELECT {} FROM access", columns.join(", "));
    if !terms.is_empty() {
        sql += &format!(" WHERE {}", terms.join(" AND "));
    }
    if !groups.is_empty() {
        sql += &format!(" GROUP BY {}", groups.join(", "));
        if random.below(8) == 0 {
            sql += " HAVING count(*) > 2";
        }
    }
    sql
}

async fn ask(engine: &Engine, snapshot: &Arc<Snapshot>, sql: &str) -> (Vec<String>, QueryStats) {
    let answer = engine.sql(Arc::clone(snapshot), Arc::new(NoSystemInfo), sql, None);
    let answer = answer.await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let collected = answer.collect().await;
    let (schema, batches, figures) = collected.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let mut out = Vec::new();
    crate::answer::output::write(
        crate::answer::output::Output::Json,
        &schema,
        &batches,
        &mut out,
    )
    .expect("JSON");
    let Value::Array(rows) = serde_json::from_slice(&out).expect("JSON") else {
        panic!("an array")
    };
    let mut rows: Vec<String> = rows.iter().map(Value::to_string).collect();
    rows.sort_unstable();
    (rows, figures)
}

fn engine(rollup_answers: RollupUse) -> Engine {
    let options = EngineOptions {
        target_partitions: 2,
        rollup_answers,
        ..EngineOptions::default()
    };
    Engine::new(options).expect("an engine")
}

fn is_rewritten(figures: &QueryStats) -> bool {
    figures
        .answered_by
        .iter()
        .any(|by| by.starts_with("rollup "))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_rewritten_question_has_the_answer_of_raw_events() {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let questions = number("LOGMILL_QUESTIONS").unwrap_or(400) as usize;
    let first = number("LOGMILL_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let (with, without) = (engine(RollupUse::Always), engine(RollupUse::Never));
    let (mut asked, mut rewritten, mut mixed, mut empty) = (0, 0, 0, 0);
    for seed in (first..).take(questions.div_ceil(EACH)) {
        let mut random = Random(seed);
        let fixture = history(&mut random);
        let snapshot = fixture.store.snapshot();
        for _ in 0..EACH {
            let sql = question(&mut random);
            let (rows, figures) = ask(&with, &snapshot, &sql).await;
            let (expected, _) = ask(&without, &snapshot, &sql).await;
            assert_eq!(rows, expected, "LOGMILL_SEED={seed}: {sql}\n{figures:?}");
            asked += 1;
            empty += usize::from(rows.is_empty());
            rewritten += usize::from(is_rewritten(&figures));
            let raw = figures
                .answered_by
                .iter()
                .any(|by| !by.starts_with("rollup "));
            mixed += usize::from(is_rewritten(&figures) && raw);
        }
    }
    println!(
        "{asked} questions from seed {first}: {rewritten} rewritten, {mixed} of them with a rest from raw \
         events; {empty} answers without a row"
    );
    // At least half of many questions are rewritten. Among few questions the share may be lower.
    let least = if asked >= 2_000 {
        asked / 2
    } else {
        asked * 2 / 5
    };
    assert!(rewritten >= least, "{rewritten} of {asked}");
    assert!(mixed * 20 >= asked, "{mixed} of {asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_figures_name_the_levels_that_answered() {
    let mut random = Random(3);
    let fixture = Fixture::new(cascade());
    for day in 0..3 {
        let events: Vec<Event> = (0..500).map(|_| event(&mut random, day)).collect();
        fixture.write("access", StreamKind::Access, batch(&events));
        fixture.store.seal().expect("seals");
    }
    let snapshot = fixture.store.snapshot();
    let engine = engine(RollupUse::Auto);
    let by = async |sql: &str| ask(&engine, &snapshot, sql).await.1.answered_by;
    let daily = "SELECT date_trunc('day', time), count(*) FROM access GROUP BY 1";
    // The rollup with the fewest cells per day answers.
    assert_eq!(by(daily).await, ["rollup coarse.daily"]);
    let bytes = "SELECT status, avg(response_size) FROM access WHERE time >= '2026-10-22T12:00:00Z' GROUP BY 1";
    assert_eq!(
        by(bytes).await,
        ["rollup traffic.hourly", "rollup traffic.daily"]
    );
    // A whole store's count is in the manifest.
    assert_eq!(by("SELECT count(*) FROM access").await, ["manifest"]);
    let raw = daily.replace("SELECT", "SELECT /*+ no_rollup */");
    assert_eq!(by(&raw).await, ["parts of access"]);
    // Raw events answer: no rollup has all the keys, the sum is not of integers, or the buckets
    // are too coarse.
    for sql in [
        "SELECT user_agent, count(*) FROM access GROUP BY 1",
        "SELECT sum(response_size * 1.5) FROM access",
        "SELECT date_trunc('second', time), count(*) FROM access GROUP BY 1",
        "SELECT count(*) FROM access WHERE host = 'beta' AND path = '/p1'",
    ] {
        assert_eq!(by(sql).await, ["parts of access"], "{sql}");
    }
    let wrong = "SELECT /*+ no_rolup */ count(*) FROM access";
    let refused = engine.sql(Arc::clone(&snapshot), Arc::new(NoSystemInfo), wrong, None);
    let told = refused.await.expect_err("no such hint").to_string();
    assert!(
        told.contains("no_rolup") && told.contains("no_rollup"),
        "{told}"
    );
}

/// Compares approximate functions with exact ones: the rollup's states have error bounds of their
/// own.
#[tokio::test(flavor = "multi_thread")]
async fn approximations_are_as_near_as_their_states() {
    let mut random = Random(5);
    let fixture = Fixture::new(cascade());
    let mut sizes = Vec::new();
    for day in 0..2 {
        let events: Vec<Event> = (0..3_000).map(|_| event(&mut random, day)).collect();
        sizes.extend(events.iter().filter_map(|e| e.size));
        fixture.write("access", StreamKind::Access, batch(&events));
        fixture.store.seal().expect("seals");
    }
    sizes.sort_unstable();
    let snapshot = fixture.store.snapshot();
    let sql = "SELECT approx_percentile_cont(response_size, 0.95) AS p, approx_distinct(host) AS h FROM access";
    let (rows, figures) = ask(&engine(RollupUse::Auto), &snapshot, sql).await;
    assert_eq!(figures.answered_by, ["rollup stats.yearly"]);
    let row: Value = serde_json::from_str(&rows[0]).expect("JSON");
    let exact = sizes[sizes.len() * 95 / 100] as f64;
    let found = row["p"].as_f64().expect("a number");
    assert!((found - exact).abs() <= exact * 0.01, "{found} {exact}");
    assert_eq!(row["h"], json!(6));
}
