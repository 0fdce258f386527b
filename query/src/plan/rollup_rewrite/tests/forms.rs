//! Common forms of conditions and groups over time: each with and without the rewrite, over
//! rollups of several zones.

use std::sync::Arc;

use aggregator::{Cascade, CascadeConfig};
use serde_json::json;
use storage::{Snapshot, StreamKind};

use super::{HOUR_US, ask, engine, is_rewritten};
use crate::tables::level::RollupUse;
use crate::tests::support::{DAY_US, Event, Fixture, Random, batch};

/// 2024-03-28T00:00:00Z: Berlin begins summer time on the 31st, Lord Howe ends it on April 6th
/// (UTC).
const START: i64 = 1_711_584_000_000_000;

/// Conditions, each used in a `WHERE`, a `FILTER`, a `CASE` and as a group.
const CONDITIONS: [&str; 46] = [
    "time::date = '2024-03-31'",
    "time::date <> '2024-03-31'",
    "time::date IN ('2024-03-31', '2024-04-02')",
    "time::date NOT IN ('2024-03-31', '2024-04-02')",
    "time::date BETWEEN '2024-03-30' AND '2024-04-01'",
    "NOT (time::date < '2024-04-01')",
    "to_date(time) = '2024-04-06'",
    "date_trunc('minute', time) = '2024-03-31T14:07:00Z'",
    "date_trunc('hour', time) = '2024-03-31T14:00:00Z'",
    "date_trunc('hour', time) IN ('2024-03-31T14:00:00Z', '2024-04-06T15:00:00Z')",
    "date_trunc('day', time) = '2024-03-31'",
    "date_trunc('day', time) <> '2024-03-31'",
    "date_trunc('week', time) = '2024-04-01'",
    "date_trunc('month', time) = '2024-04-01'",
    "date_trunc('month', time) > '2024-03-01'",
    "date_trunc('hour', time) = time",
    "extract(hour FROM time) = 14",
    "extract(hour FROM time) BETWEEN 9 AND 17",
    "extract(hour FROM time) IN (0, 23)",
    "extract(minute FROM time) < 30",
    "extract(second FROM time) = 0",
    "extract(dow FROM time) IN (0, 6)",
    "extract(isodow FROM time) = 7",
    "extract(doy FROM time) = 92",
    "extract(week FROM time) = 14",
    "extract(day FROM time) = 31",
    "extract(month FROM time) = 4",
    "extract(quarter FROM time) = 2",
    "extract(year FROM time) = 2024",
    "extract(epoch FROM time) > 1711900000",
    "to_char(time, '%Y-%m-%d') = '2024-03-31'",
    "to_char(time, '%H:%M') >= '23:30'",
    "to_char(time, '%a') = 'Sun'",
    "time_bucket('15 minutes', time) = '2024-03-31T14:00:00Z'",
    "time_bucket('1 day', time, 'Europe/Berlin') = '2024-03-30T23:00:00Z'",
    "date_bin('1 hour', time) = '2024-03-31T14:00:00Z'",
    "date_bin('1 day', time, '2024-01-01T06:00:00') > '2024-03-31'",
    "time = '2024-03-31T14:00:00Z'",
    "time <> '2024-03-31T14:00:00Z'",
    "time IN ('2024-03-31T14:00:00Z', '2024-04-06T15:30:00Z')",
    "(time >= '2024-03-29' AND time < '2024-03-30T06:00:00Z') OR (time >= '2024-04-05' AND time < '2024-04-06T13:30:00Z')",
    "time < '2024-03-29T10:00:00Z' OR time >= '2024-04-06T12:34:56Z'",
    "NOT (time BETWEEN '2024-03-29T10:00:00Z' AND '2024-04-06T12:00:00Z')",
    "extract(hour FROM time AT TIME ZONE 'Europe/Berlin') = 2",
    "CAST(time AT TIME ZONE 'Australia/Lord_Howe' AS DATE) = '2024-04-07'",
    "date_trunc('hour', time + INTERVAL '90 minutes') > '2024-03-31T14:00:00Z'",
];

/// Common group expressions.
const GROUPS: [&str; 16] = [
    "date_trunc('hour', time)",
    "date_trunc('day', time)",
    "date_trunc('week', time)",
    "date_trunc('month', time)",
    "time::date",
    "extract(hour FROM time)",
    "extract(dow FROM time)",
    "extract(week FROM time)",
    "to_char(time, '%Y-%m-%d %H')",
    "time_bucket('30 minutes', time)",
    "time_bucket('1 day', time, 'Australia/Lord_Howe')",
    "time_bucket('2 days', time, 'Europe/Berlin')",
    "date_bin('6 hours', time)",
    "date_trunc('day', time AT TIME ZONE 'Europe/Berlin')",
    "date_trunc('hour', time AT TIME ZONE 'Asia/Kolkata')",
    "date_trunc('day', to_local_time(time AT TIME ZONE 'Australia/Lord_Howe'))",
];

fn store(zone: &str) -> Fixture {
    let config: CascadeConfig = serde_json::from_value(json!({"rollups": {
        "by_path": {"stream": "access", "by": ["path", "status"], "timezone": zone, "measures": {
            "hits": "count", "bytes": "sum(response_size)"}},
    }, "streams": {}}))
    .expect("a configuration");
    let fixture = Fixture::new(Arc::new(Cascade::new(config).expect("rollups")));
    let mut random = Random(11);
    for _ in 0..3 {
        let events: Vec<Event> = (0..700).map(|_| event(&mut random)).collect();
        fixture.write("access", StreamKind::Access, batch(&events));
        fixture.store.seal().expect("seals");
    }
    fixture
}

/// Returns an event on one of some days, often near the edge of an hour or half hour.
fn event(random: &mut Random) -> Event {
    let time = START + random.below(11) as i64 * DAY_US + random.below(48) as i64 * HOUR_US / 2;
    let within = match random.below(4) {
        0 => 0,
        1 => -1,
        _ => random.below(HOUR_US as usize / 2) as i64,
    };
    Event {
        time: time + within,
        host: "alpha",
        path: (random.below(9) > 0).then(|| format!("/p{}", random.below(3))),
        status: [Some(200), Some(404), None][random.below(3)],
        size: Some(random.below(1_000) as i64),
        ..Event::default()
    }
}

/// Returns the queries for a condition.
fn queries(condition: &str) -> [String; 5] {
    [
        format!("SELECT count(*) AS n FROM access WHERE {condition}"),
        format!(
            "SELECT path, sum(response_size) AS s FROM access WHERE path = '/p1' AND ({condition}) GROUP BY 1"
        ),
        format!(
            "SELECT count(*) FILTER (WHERE {condition}) AS n, count(*) AS all_n FROM access WHERE status = 200"
        ),
        format!(
            "SELECT path, sum(CASE WHEN {condition} THEN 1 ELSE 0 END) AS n FROM access GROUP BY 1"
        ),
        format!(
            "SELECT {condition} AS c, status, count(*) AS n FROM access GROUP BY 1, 2 HAVING count(*) > 1"
        ),
    ]
}

/// Runs one query of each condition; the process id chooses which one. With `LOGMILL_FULL` it
/// runs all of them.
async fn check(zone: &str) {
    let fixture = store(zone);
    let snapshot = fixture.store.snapshot();
    let (with, without) = (engine(RollupUse::Always), engine(RollupUse::Never));
    let groups = GROUPS.iter().flat_map(|group| {
        [
            format!("SELECT {group} AS g, count(*) AS n, sum(response_size) AS s FROM access GROUP BY 1"),
            format!(
                "SELECT {group} AS g, path, count(*) AS n FROM access WHERE time >= '2024-03-30T10:30:00Z' \
                 AND time < '2024-04-07T15:30:00Z' AND status <> 404 GROUP BY 1, 2"
            ),
        ]
    });
    let turn = std::process::id() as usize + zone.len();
    let is_full = std::env::var("LOGMILL_FULL").is_ok();
    let is_asked = |nth: usize, of: usize| is_full || (nth / of + turn) % of == nth % of;
    let conditions = CONDITIONS.iter().flat_map(|condition| queries(condition));
    let conditions = conditions.enumerate().filter(|(nth, _)| is_asked(*nth, 5));
    let groups = groups.enumerate().filter(|(nth, _)| is_asked(*nth, 2));
    let (mut asked, mut rewritten) = (0, 0);
    for (_, sql) in conditions.chain(groups) {
        let (rows, figures) = ask(&with, &snapshot, &sql).await;
        let (expected, _) = ask(&without, &snapshot, &sql).await;
        assert_eq!(rows, expected, "{zone}: {sql}\n{figures:?}");
        asked += 1;
        rewritten += usize::from(is_rewritten(&figures));
    }
    println!("{zone}: {asked} asked, {rewritten} rewritten");
    assert!(rewritten * 4 >= asked * 3, "{zone}: {rewritten} of {asked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_over_a_rollup_in_utc() {
    check("UTC").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_over_a_rollup_in_berlin() {
    check("Europe/Berlin").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_over_a_rollup_whose_hours_begin_at_the_half_hour() {
    check("Asia/Kolkata").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_over_a_rollup_whose_clocks_change_by_half_an_hour() {
    check("Australia/Lord_Howe").await;
}

async fn levels(snapshot: &Arc<Snapshot>, sql: &str) -> Vec<String> {
    let (_, figures) = ask(&engine(RollupUse::Always), snapshot, sql).await;
    figures.answered_by
}

/// Checks the queries of a dashboard, which must not read events.
#[tokio::test(flavor = "multi_thread")]
async fn charts_are_answered_by_rollups() {
    let utc = store("UTC");
    let berlin = store("Europe/Berlin");
    let (utc, berlin) = (utc.store.snapshot(), berlin.store.snapshot());
    for (snapshot, select, level) in [
        (&utc, "date_trunc('day', time)", "daily"),
        (&utc, "date_trunc('hour', time)", "hourly"),
        (&utc, "date_trunc('month', time)", "monthly"),
        (&utc, "time::date", "daily"),
        (&utc, "extract(hour FROM time)", "hourly"),
        (&utc, "extract(dow FROM time)", "daily"),
        (&utc, "time_bucket('5 minutes', time)", "minutely"),
        (&utc, "time_bucket('6 hours', time)", "hourly"),
        (&utc, "date_bin('15 minutes', time)", "minutely"),
        (&utc, "to_char(time, '%Y-%m-%d')", "daily"),
        (
            &berlin,
            "time_bucket('1 day', time, 'Europe/Berlin')",
            "daily",
        ),
        (
            &berlin,
            "date_trunc('day', time AT TIME ZONE 'Europe/Berlin')",
            "daily",
        ),
        (
            &berlin,
            "CAST(time AT TIME ZONE 'Europe/Berlin' AS DATE)",
            "daily",
        ),
        (
            &berlin,
            "time_bucket('1 hour', time, 'Europe/Berlin')",
            "hourly",
        ),
    ] {
        let sql = format!("SELECT {select} AS g, count(*) AS n FROM access GROUP BY 1");
        assert_eq!(
            levels(snapshot, &sql).await,
            [format!("rollup by_path.{level}")],
            "{sql}"
        );
    }
    // Rollups alone answer each of these conditions.
    for condition in [
        "time::date = '2024-03-31'",
        "extract(hour FROM time) = 14",
        "date_trunc('hour', time) = '2024-03-31T14:00:00Z'",
        "time < '2024-03-30' OR time >= '2024-04-02'",
        "time < '2024-03-30' OR time >= '2024-04-02T07:31:00Z'",
    ] {
        let sql = format!("SELECT count(*) FROM access WHERE path = '/p1' AND ({condition})");
        let by = levels(&utc, &sql).await;
        assert!(
            by.iter().all(|by| by.starts_with("rollup ")),
            "{sql}: {by:?}"
        );
    }
    // Raw events answer the minute that holds the cut.
    let cut = "SELECT count(*) FILTER (WHERE time < '2024-04-02T07:31:02Z'), count(*) FROM access WHERE path = '/p1'";
    let by = levels(&utc, cut).await;
    assert!(by.contains(&"rollup by_path.daily".to_owned()), "{by:?}");
    for condition in [
        "extract(second FROM time) = 0",
        "date_trunc('hour', time) = time",
        "CAST(time AS VARCHAR) LIKE '2024-03%'",
    ] {
        let sql = format!("SELECT count(*) FROM access WHERE path = '/p1' AND ({condition})");
        assert_eq!(levels(&utc, &sql).await, ["parts of access"], "{sql}");
    }
}
