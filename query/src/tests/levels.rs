//! Levels as tables.

use serde_json::{Value, json};
use storage::StreamKind;

use super::support::{DAY_US, Fixture, batch, mixture};
use crate::Kind;

/// 2000-10-09T00:00:00Z, a Monday.
const START: i64 = 971_049_600_000_000;
const LEVELS: [&str; 6] = ["minutely", "hourly", "daily", "weekly", "monthly", "yearly"];

fn write(fixture: &Fixture, day: i64) {
    let events = mixture(1_000, START + day * DAY_US, DAY_US / 1_000 + 1_234_567);
    fixture.write("access", StreamKind::Access, batch(&events));
}

async fn levels(fixture: &Fixture) -> Vec<Vec<Value>> {
    let mut all = Vec::new();
    for rollup in ["stats", "traffic"] {
        for level in LEVELS {
            all.push(
                fixture
                    .rows(&format!("SELECT * FROM {rollup}.{level}"))
                    .await,
            );
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn every_level_reads_the_same_before_and_after_a_seal() {
    let fixture = Fixture::with_defaults();
    for day in 0..3 {
        write(&fixture, day);
        // An event of day 0 again: late.
        write(&fixture, 0);
        let before = levels(&fixture).await;
        fixture.store.seal().expect("seals");
        assert_eq!(levels(&fixture).await, before, "day {day}");
    }
    let hits = fixture.value("SELECT sum(hits) FROM traffic.yearly").await;
    assert_eq!(hits, json!(6_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_count_what_the_events_say() {
    let fixture = Fixture::with_defaults();
    for day in 0..3 {
        write(&fixture, day);
        if day < 2 {
            fixture.store.seal().expect("seals");
        }
    }
    for (level, unit) in LEVELS
        .iter()
        .zip(["minute", "hour", "day", "week", "month", "year"])
        .filter(|(l, _)| **l != "weekly")
    {
        let counted = fixture
            .rows(&format!(
                "SELECT bucket, path, hits, bytes FROM stats.{level} ORDER BY bucket, path"
            ))
            .await;
        let expected = fixture
            .rows(&format!(
                "SELECT date_trunc('{unit}', time) AS bucket, path, count(*) AS hits, sum(response_size) AS bytes \
                 FROM access GROUP BY 1, 2 ORDER BY 1, 2"
            ))
            .await;
        assert_eq!(counted, expected, "{level}");
    }
    let weekly = fixture
        .rows("SELECT bucket, sum(hits) AS n FROM traffic.weekly GROUP BY 1 ORDER BY 1")
        .await;
    assert_eq!(
        weekly,
        [json!({"bucket": "2000-10-08T00:00:00Z", "n": 3_000})],
        "weeks begin on Sunday"
    );
    let visitors = fixture
        .rows(
            "SELECT sum(hits) AS n, distinct_count(distinct_merge(visitors_state)) AS v, \
                                 hist_count(hist_merge(size)) AS c FROM stats.daily",
        )
        .await;
    let sizes = fixture
        .value("SELECT count(response_size) FROM access")
        .await;
    assert_eq!(visitors, [json!({"n": 3_000, "v": 7, "c": sizes})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_on_buckets_and_keys_change_what_is_read_and_not_what_is_found() {
    let fixture = Fixture::with_defaults();
    for day in [0, 1, 40] {
        write(&fixture, day);
        if day < 40 {
            fixture.store.seal().expect("seals");
        }
    }
    let filters = [
        "bucket >= '2000-10-10' AND bucket < '2000-10-11'",
        "bucket = '2000-10-10T05:00:00Z'",
        "path = '/p3'",
        "path IN ('/p1', '/p2') AND bucket > '2000-10-09T12:00:00Z'",
        "path IS NULL",
        "path = '/p3' OR path IS NULL",
        "path = '/p3' AND path = '/p4'",
        "site IS NULL AND path <> '/p3'",
        "bucket_end <= '2000-10-10'",
        "hits > 3",
    ];
    for level in LEVELS {
        for filter in filters {
            let pushed = fixture
                .rows(&format!(
                    "SELECT path, hits FROM stats.{level} WHERE {filter} ORDER BY bucket, path"
                ))
                .await;
            let unpushed = format!(
                "SELECT path, hits FROM (SELECT * FROM stats.{level} ORDER BY bucket OFFSET 0) WHERE {filter} ORDER BY bucket, path"
            );
            assert_eq!(pushed, fixture.rows(&unpushed).await, "{level}: {filter}");
        }
    }
    let figures = fixture
        .figures(
            "SELECT hits FROM stats.hourly WHERE bucket >= '2000-10-10' AND bucket < '2000-10-11'",
        )
        .await;
    assert_eq!(figures.answered_by, ["rollup stats.hourly"]);
    assert!(
        figures.parts.examined <= figures.parts.total
            && figures.parts.examined > 0
            && figures.bytes_read > 0
    );
    let status = fixture
        .rows("SELECT status, sum(hits) AS n FROM traffic.daily WHERE status = 404 GROUP BY 1")
        .await;
    assert_eq!(status, [json!({"status": 404, "n": 750})]);
    assert_eq!(
        fixture.value("SELECT count(*) FROM stats.yearly").await,
        json!(14)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_measure_that_enters_later_is_named_with_its_level() {
    let fixture = Fixture::with_defaults();
    write(&fixture, 0);
    for round in 0..2 {
        let error = fixture
            .try_query("SELECT size_p99 FROM stats.minutely")
            .await
            .expect_err("it enters at the hour");
        assert_eq!(error.kind(), Kind::Invalid);
        assert!(
            error.to_string().contains("stats.hourly"),
            "round {round}: {error}"
        );
        assert!(
            !fixture
                .rows("SELECT size_p50, size_p99, visitors FROM stats.hourly")
                .await
                .is_empty()
        );
        fixture.store.seal().expect("seals");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_of_rollups_says_what_waits() {
    let fixture = Fixture::with_defaults();
    write(&fixture, 0);
    let sql = "SELECT last_run, waiting, rows FROM system.rollups WHERE name = 'traffic' AND level = 'day'";
    assert_eq!(
        fixture.rows(sql).await,
        [json!({"last_run": 0, "waiting": 1_000, "rows": 0})]
    );
    fixture.store.seal().expect("seals");
    let after = fixture.rows(sql).await;
    assert_eq!(
        (&after[0]["last_run"], &after[0]["waiting"]),
        (&json!(1_000), &json!(0))
    );
    assert!(after[0]["rows"].as_i64() > Some(0));
    assert_eq!(
        fixture.value("SELECT count(*) FROM system.rollups").await,
        json!(12)
    );
}

/// When Lord Howe's clocks go back from 2:00 to 1:30 an hour has two buckets, of 60 and of 30
/// minutes; when they go on from 2:00 to 2:30 the hour from 2:30 begins a bucket.
#[tokio::test(flavor = "multi_thread")]
async fn an_hour_is_cut_where_the_offset_changes_by_sql_and_by_levels_alike() {
    for zone in ["Australia/Lord_Howe", "Europe/Berlin", "Asia/Kolkata"] {
        let config = serde_json::from_value(
            json!({"rollups": {"local": {"stream": "access", "by": [],
            "levels": ["hour", "day"], "timezone": zone, "measures": {"n": "count"}}}, "streams": {}}),
        );
        let cascade = aggregator::Cascade::new(config.expect("a configuration"));
        let fixture = Fixture::new(std::sync::Arc::new(cascade.expect("rollups")));
        // 2026-04-04T10:00:00Z, 2026-10-03T10:00:00Z and 2026-10-24T20:00:00Z: before changes of
        // these zones.
        for from in [1_775_296_800, 1_791_021_600, 1_792_872_000] {
            let events = mixture(600, from * 1_000_000, 60_000_000);
            fixture.write("access", StreamKind::Access, batch(&events));
            fixture.store.seal().expect("seals");
        }
        for (level, unit) in [("hourly", "hour"), ("daily", "day")] {
            let by = async |bucket: &str| {
                let sql = format!(
                    "SELECT {bucket} AS b, count(*) AS n FROM access GROUP BY 1 ORDER BY 1"
                );
                let rows = fixture
                    .rows(&sql.replace("SELECT", "SELECT /*+ no_rollup */"))
                    .await;
                assert_eq!(fixture.rows(&sql).await, rows, "{sql}");
                rows
            };
            let expected = fixture
                .rows(&format!(
                    "SELECT bucket AS b, n FROM local.{level} ORDER BY 1"
                ))
                .await;
            assert_eq!(
                by(&format!("time_bucket('1 {unit}', time, '{zone}')")).await,
                expected
            );
            let truncated = by(&format!(
                "date_trunc('{unit}', time AT TIME ZONE '{zone}') AT TIME ZONE 'UTC'"
            ))
            .await;
            assert_eq!(truncated, expected, "{zone} {unit}");
            if level == "hourly" && zone == "Australia/Lord_Howe" {
                // Beside the two buckets that clock changes cut, those in which the events begin
                // or end are short.
                let halves = expected.iter().filter(|row| row["n"] == 30);
                let halves: Vec<Value> = halves.map(|row| row["b"].clone()).collect();
                let cut = ["04-04T15:00", "04-04T19:30", "10-03T09:30", "10-03T15:30"];
                assert_eq!(
                    halves,
                    cut.map(|at| json!(format!("2026-{at}:00Z"))),
                    "{expected:?}"
                );
            }
        }
    }
}
