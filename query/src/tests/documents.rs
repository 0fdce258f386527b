//! Levels as documents: their content. `reads.rs` has the data read for them, and the refusals.

mod reads;

use std::collections::BTreeMap;
use std::sync::Arc;

use aggregator::{Cascade, CascadeConfig, RollupTable};
use chrono::{DateTime, Datelike, NaiveDate, Timelike};
use chrono_tz::Tz;
use serde_json::{Map, Value, json};
use storage::StreamKind;

use super::support::{DAY_US, Event, Fixture, Random, batch, example, mixture};
use crate::NoSystemInfo;

const MINUTE_US: i64 = 60_000_000;

/// Makes a rollup `pages` of the stream `access`.
fn pages(rollup: Value) -> Fixture {
    let mut table =
        json!({ "stream": "access", "by": ["host", "path"], "measures": { "hits": "count" } });
    for (member, value) in rollup.as_object().expect("members") {
        table[member] = value.clone();
    }
    let table: RollupTable = serde_json::from_value(table).expect("a rollup");
    let config = CascadeConfig {
        rollups: BTreeMap::from([("pages".to_owned(), table)]),
        ..CascadeConfig::default()
    };
    Fixture::new(Arc::new(Cascade::new(config).expect("a cascade")))
}

fn in_zone(zone: &str) -> Fixture {
    pages(json!({ "timezone": zone }))
}

fn write(fixture: &Fixture, events: &[Event]) {
    fixture.write("access", StreamKind::Access, batch(events));
}

/// Returns one event of one page at each of these times.
fn at(times: impl IntoIterator<Item = i64>) -> Vec<Event> {
    times
        .into_iter()
        .map(|time| Event {
            time,
            host: "site-1",
            path: Some("/a".into()),
            ..Event::default()
        })
        .collect()
}

fn utc(text: &str) -> i64 {
    let at: DateTime<chrono::Utc> = text.parse().expect("a time");
    at.timestamp_micros()
}

/// Returns the answer as `--output json` writes it.
async fn text(fixture: &Fixture, sql: &str) -> String {
    let system = Arc::new(NoSystemInfo);
    let snapshot = fixture.store.snapshot();
    let answer = fixture.engine.sql(snapshot, system, sql, None).await;
    let (schema, batches, _) = answer.expect("planned").collect().await.expect("an answer");
    let mut out = Vec::new();
    crate::answer::output::write(
        crate::answer::output::Output::Json,
        &schema,
        &batches,
        &mut out,
    )
    .expect("written");
    String::from_utf8(out).expect("text")
}

/// Returns `{"0":0,"1":3,…}`.
fn members(names: impl IntoIterator<Item = usize>, value: impl Fn(usize) -> String) -> String {
    let members: Vec<String> = names
        .into_iter()
        .map(|name| format!("\"{name}\":{}", value(name)))
        .collect();
    format!("{{{}}}", members.join(","))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_of_the_specification_to_the_byte() {
    let fixture = Fixture::with_defaults();
    // 20:55:36Z, once more in the same minute, and once in the first minute of the day.
    let mut events = vec![example(), example(), example()];
    events[1].time += 10_000_000;
    events[2].time = utc("2000-10-10T00:00:00Z");
    write(&fixture, &events);
    let hourly = members(0..24, |h| match h {
        0 => "1".to_owned(),
        20 => "2".to_owned(),
        _ => "0".to_owned(),
    });
    let minute = members(0..24, |h| {
        members(0..60, |m| match (h, m) {
            (0, 0) => "1".to_owned(),
            (20, 55) => "2".to_owned(),
            _ => "0".to_owned(),
        })
    });
    let keys = r#""site":null,"path":"/apache_pb.gif""#;
    let expected = format!(
        "[\n{{\"_id\":\"20001010/-//apache_pb.gif\",\"metadata\":{{\"date\":\"2000-10-10T00:00:00Z\",{keys}}},\
         \"daily\":3,\"hourly\":{hourly},\"minute\":{minute}}}\n]\n"
    );
    let daily = members(1..=31, |d| if d == 10 { "3" } else { "0" }.to_owned());
    let month = format!(
        "[\n{{\"_id\":\"200010/-//apache_pb.gif\",\"metadata\":{{\"date\":\"2000-10-01T00:00:00Z\",{keys}}},\
         \"monthly\":3,\"daily\":{daily}}}\n]\n"
    );
    for _ in 0..2 {
        assert_eq!(
            text(&fixture, "SELECT * FROM stats.daily_documents").await,
            expected
        );
        assert_eq!(
            text(&fixture, "SELECT * FROM stats.monthly_documents").await,
            month
        );
        fixture.store.seal().expect("seals");
    }
    let sql = "SELECT hourly['20'] AS h, minute['20']['55'] AS m FROM stats.daily_documents \
               WHERE metadata['path'] = '/apache_pb.gif'";
    assert_eq!(fixture.rows(sql).await, [json!({"h": 2, "m": 2})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_hour_that_clocks_show_twice_is_added_up_and_one_they_skip_is_zero() {
    let fixture = in_zone("Europe/Berlin");
    // An event every ten minutes of three days around each change.
    for from in ["2013-03-30T00:00:00Z", "2013-10-26T00:00:00Z"] {
        let from = utc(from);
        write(
            &fixture,
            &at((0..3 * 144).map(|n| from + n * 10 * MINUTE_US)),
        );
        fixture.store.seal().expect("seals");
    }
    let document = |date: &str| {
        let sql = format!("SELECT * FROM pages.daily_documents WHERE metadata['date'] = '{date}'");
        let fixture = &fixture;
        async move { fixture.rows(&sql).await.remove(0) }
    };
    let spring = document("2013-03-30T23:00:00Z").await;
    assert_eq!(spring["_id"], json!("20130331/site-1//a"));
    assert_eq!(spring["daily"], json!(23 * 6));
    let autumn = document("2013-10-26T22:00:00Z").await;
    assert_eq!(autumn["_id"], json!("20131027/site-1//a"));
    assert_eq!(autumn["daily"], json!(25 * 6));
    for hour in 0..24 {
        let name = hour.to_string();
        let (in_spring, in_autumn) = if hour == 2 { (0, 12) } else { (6, 6) };
        assert_eq!(
            spring["hourly"][&name],
            json!(in_spring),
            "hour {hour} of spring"
        );
        assert_eq!(
            autumn["hourly"][&name],
            json!(in_autumn),
            "hour {hour} of autumn"
        );
        for minute in 0..60 {
            let one = i64::from(minute % 10 == 0);
            let minute = minute.to_string();
            assert_eq!(spring["minute"][&name][&minute], json!(one * in_spring / 6));
            assert_eq!(autumn["minute"][&name][&minute], json!(one * in_autumn / 6));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn half_an_hour_that_clocks_show_twice_is_added_up() {
    // On 7 April 2013 at 02:00 clocks went back to 01:30; on 6 October from 02:00 to 02:30.
    let fixture = in_zone("Australia/Lord_Howe");
    let back = utc("2013-04-06T13:00:00Z");
    write(
        &fixture,
        &at((0..3 * 1_440).map(|n| back - DAY_US + n * MINUTE_US)),
    );
    let forth = utc("2013-10-05T13:30:00Z");
    write(
        &fixture,
        &at((0..3 * 1_440).map(|n| forth - DAY_US + n * MINUTE_US)),
    );
    let sql = "SELECT * FROM pages.daily_documents WHERE _id LIKE '20130407/%' OR _id LIKE '20131006/%' ORDER BY _id";
    let rows = fixture.rows(sql).await;
    let [autumn, spring] = rows.as_slice() else {
        panic!("two days: {rows:?}")
    };
    assert_eq!(
        (&autumn["daily"], &spring["daily"]),
        (&json!(1_470), &json!(1_410))
    );
    assert_eq!(
        (&autumn["hourly"]["1"], &autumn["hourly"]["2"]),
        (&json!(90), &json!(60))
    );
    assert_eq!(
        (&spring["hourly"]["1"], &spring["hourly"]["2"]),
        (&json!(60), &json!(30))
    );
    for minute in 0..60 {
        let name = minute.to_string();
        let late = minute >= 30;
        assert_eq!(
            autumn["minute"]["1"][&name],
            json!(1 + i64::from(late)),
            "01:{name}"
        );
        assert_eq!(
            spring["minute"]["2"][&name],
            json!(i64::from(late)),
            "02:{name}"
        );
    }
}

type Counts = BTreeMap<(NaiveDate, &'static str, Option<String>), BTreeMap<(u32, u32), i64>>;

/// Returns the expected content of documents, from the events alone.
fn naive(events: &[Event], zone: Tz) -> Counts {
    let mut counts = Counts::new();
    for event in events {
        let at = DateTime::from_timestamp_micros(event.time).expect("a time");
        let local = at.with_timezone(&zone);
        let key = (local.date_naive(), event.host, event.path.clone());
        let member = (local.hour(), local.minute());
        *counts.entry(key).or_default().entry(member).or_default() += 1;
    }
    counts
}

fn daily_document(
    (date, host, path): &(NaiveDate, &str, Option<String>),
    hits: &BTreeMap<(u32, u32), i64>,
    date_us: i64,
) -> Value {
    let hour_of = |hour: u32| -> i64 {
        let of = hits.iter().filter(|((h, _), _)| *h == hour);
        of.map(|(_, n)| n).sum()
    };
    let minutes_of = |hour: u32| -> Map<String, Value> {
        (0..60)
            .map(|m| (m.to_string(), json!(hits.get(&(hour, m)).unwrap_or(&0))))
            .collect()
    };
    let date_text = DateTime::from_timestamp_micros(date_us)
        .expect("a date")
        .format("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    let hourly: Map<String, Value> = (0..24)
        .map(|h| (h.to_string(), json!(hour_of(h))))
        .collect();
    let minute: Map<String, Value> = (0..24)
        .map(|h| (h.to_string(), json!(minutes_of(h))))
        .collect();
    json!({
        "_id": format!("{}/{host}/{}", date.format("%Y%m%d"), path.as_deref().unwrap_or("-")),
        "metadata": { "date": date_text, "host": host, "path": path },
        "daily": hits.values().sum::<i64>(),
        "hourly": hourly,
        "minute": minute,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_hold_what_the_events_say_before_and_after_a_seal() {
    for (nth, name) in ["Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe"]
        .iter()
        .enumerate()
    {
        let zone: Tz = name.parse().expect("a zone");
        let fixture = in_zone(name);
        let mut random = Random(nth as u64);
        let from = utc("2013-03-01T00:00:00Z");
        let mut all = Vec::new();
        for _ in 0..3 {
            let mut events = mixture(60, 0, 0);
            for event in &mut events {
                // Both changes of the clock lie in these nine months.
                event.time = from + random.below(270 * 86_400) as i64 * 1_000_000;
            }
            write(&fixture, &events);
            all.extend(events);
            let expected = naive(&all, zone);
            for sealed in [false, true] {
                let rows = fixture.rows("SELECT * FROM pages.daily_documents").await;
                assert_eq!(rows.len(), expected.len(), "{name}");
                // Both are ordered by date, host and path, null first.
                for (row, (key, hits)) in rows.iter().zip(&expected) {
                    let midnight = key.0.and_hms_opt(0, 0, 0).expect("midnight");
                    let date_us = midnight
                        .and_local_timezone(zone)
                        .unwrap()
                        .timestamp_micros();
                    assert_eq!(*row, daily_document(key, hits, date_us), "{name}");
                }
                assert_months(&fixture, &expected).await;
                if !sealed {
                    fixture.store.seal().expect("seals");
                }
            }
        }
    }
}

/// Compares the months with the same counts, and all with the levels.
async fn assert_months(fixture: &Fixture, expected: &Counts) {
    let rows = fixture.rows("SELECT * FROM pages.monthly_documents").await;
    let mut months: BTreeMap<(String, &str, Option<String>), BTreeMap<u32, i64>> = BTreeMap::new();
    for ((date, host, path), hits) in expected {
        let key = (date.format("%Y%m").to_string(), *host, path.clone());
        *months
            .entry(key)
            .or_default()
            .entry(date.day())
            .or_default() += hits.values().sum::<i64>();
    }
    assert_eq!(rows.len(), months.len());
    for (row, ((month, host, path), days)) in rows.iter().zip(&months) {
        let daily: Map<String, Value> = (1..=31)
            .map(|d| (d.to_string(), json!(days.get(&d).unwrap_or(&0))))
            .collect();
        assert_eq!(
            row["_id"],
            json!(format!("{month}/{host}/{}", path.as_deref().unwrap_or("-")))
        );
        assert_eq!(row["monthly"], json!(days.values().sum::<i64>()));
        assert_eq!(row["daily"], Value::Object(daily));
    }
    let pairs = [
        ("daily", "daily_documents", "daily"),
        ("monthly", "monthly_documents", "monthly"),
    ];
    for (level, documents, total) in pairs {
        let of_level = format!(
            "SELECT bucket AS d, host, path, hits AS n FROM pages.{level} ORDER BY 1, 2, 3"
        );
        let of_documents = format!(
            "SELECT metadata['date'] AS d, metadata['host'] AS host, metadata['path'] AS path, {total} AS n \
             FROM pages.{documents} ORDER BY 1, 2, 3"
        );
        assert_eq!(
            fixture.rows(&of_documents).await,
            fixture.rows(&of_level).await
        );
        let of_level = format!(
            "SELECT date_trunc('month', bucket) AS m, bucket AS d, sum(length(path)) AS n \
             FROM pages.{level} GROUP BY 1, 2 ORDER BY 1, 2"
        );
        let of_documents = format!(
            "SELECT date_trunc('month', a.metadata['date']) AS m, a.metadata['date'] AS d, \
             sum(length(a.metadata['path'])) AS n FROM pages.{documents} a GROUP BY 1, 2 ORDER BY 1, 2"
        );
        assert_eq!(
            fixture.rows(&of_documents).await,
            fixture.rows(&of_level).await
        );
    }
}
