//! Local times of SQL, of our functions and of `jiff` for the same instants.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono_tz::Tz;
use jiff::Timestamp;
use jiff::civil::{DateTime, Time};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde_json::Value;
use storage::StreamKind;

use super::support::{Event, Fixture, Random, batch, example};
use crate::answer::output::{Output, write};
use crate::{NoSystemInfo, Parameters, Session, Sources};

/// 2026-01-01T00:00:00Z and 2029-01-01T00:00:00Z, seconds since 1970: years whose rules differ
/// between releases of the time zone database.
const YEARS_S: std::ops::Range<i64> = 1_767_225_600..1_861_920_000;

/// Returns the instants around the changes of offset in these years, and one of each winter.
fn instants(zone: Tz) -> Vec<i64> {
    let changes = zone.changes().map(|(start_s, _)| start_s);
    let changes = changes.filter(|start_s| YEARS_S.contains(start_s));
    let around = changes.flat_map(|start_s| [-1, 0, 86_400].map(|by_s| start_s + by_s));
    let winters = YEARS_S.step_by(366 * 86_400).map(|year_s| year_s + 7_200);
    around.chain(winters).collect()
}

/// Returns the row that SQL should return for an instant: the local time in words, its hour, and
/// the instant at which its day began.
fn expected(zone: &TimeZone, at: Timestamp) -> [String; 3] {
    let local = at.to_zoned(zone.clone());
    let day = local.start_of_day().expect("a day that begins");
    [
        local.strftime("%Y-%m-%d %H:%M:%S %:z").to_string(),
        local.hour().to_string(),
        day.timestamp().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_follows_the_release_that_buckets_follow() {
    let fixture = Fixture::with_defaults();
    let database = TimeZoneDatabase::bundled();
    let changing = chrono_tz::zones().filter(|zone| instants(*zone).len() > 3);
    let also = ["UTC", "America/Vancouver", "Asia/Kolkata"].map(Tz::named);
    for zone in changing.chain(also) {
        let name = zone.name();
        let theirs = database.get(name).expect("a zone of the database");
        let times: Vec<Timestamp> = instants(zone)
            .into_iter()
            .map(|t_s| Timestamp::from_second(t_s).expect("a year that jiff knows"))
            .collect();
        let values: Vec<String> = times
            .iter()
            .enumerate()
            .map(|(nth, at)| {
                let stamp = "Timestamp(Microsecond, Some(\"UTC\"))";
                format!("({nth}, arrow_cast('{at}', '{stamp}'))")
            })
            .collect();
        let sql = format!(
            "SELECT to_char(t AT TIME ZONE '{name}', '%Y-%m-%d %H:%M:%S %:z') AS local, \
             CAST(extract(hour FROM t AT TIME ZONE '{name}') AS text) AS hour, \
             to_char(time_bucket('1 day', t, '{name}'), '%Y-%m-%dT%H:%M:%SZ') AS day \
             FROM (VALUES {}) AS at(nth, t) ORDER BY nth",
            values.join(", ")
        );
        let rows = fixture.rows(&sql).await;
        assert_eq!(rows.len(), times.len());
        for (row, at) in rows.iter().zip(times) {
            let row = ["local", "hour", "day"].map(|column| row[column].as_str());
            let expected = expected(&theirs, at);
            assert_eq!(
                row,
                expected.each_ref().map(|text| Some(text.as_str())),
                "{name} {at}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn days_of_vancouver_do_not_change_with_the_function_that_makes_them() {
    let fixture = Fixture::with_defaults();
    let time = "arrow_cast('2027-01-20T07:30:00Z', 'Timestamp(Microsecond, Some(\"UTC\"))')";
    let zone = "America/Vancouver";
    for day in [
        format!("time_bucket('1 day', {time}, '{zone}')"),
        format!("date_trunc('day', {time} AT TIME ZONE '{zone}') AT TIME ZONE 'UTC'"),
    ] {
        let sql = format!("SELECT to_char({day}, '%Y-%m-%dT%H:%M:%S')");
        assert_eq!(fixture.value(&sql).await, "2027-01-20T07:00:00", "{day}");
    }
}

/// A store with an event at each instant around the clock changes of a zone, asked by a session in
/// that zone.
struct Zoned {
    fixture: Fixture,
    zone: TimeZone,
    session: Session,
    times: Vec<Timestamp>,
}

impl Zoned {
    fn new(name: &str) -> Self {
        let fixture = Fixture::with_defaults();
        let around = instants(Tz::named(name)).into_iter();
        let seconds = around.flat_map(|s| (-30..30).map(move |n| s + n * 1_201));
        let times: Vec<Timestamp> = seconds
            .map(|s| Timestamp::from_second(s).expect("a year that jiff knows"))
            .collect();
        let events: Vec<Event> = times
            .iter()
            .map(|at| Event {
                time: at.as_microsecond(),
                ..example()
            })
            .collect();
        fixture.write("access", StreamKind::Access, batch(&events));
        Self {
            fixture,
            zone: TimeZoneDatabase::bundled().get(name).expect("a zone"),
            session: Session {
                time_zone: Some(name.to_owned()),
                ..Session::default()
            },
            times,
        }
    }

    /// Returns the rows of a statement as JSON.
    async fn try_rows(&self, sql: &str) -> crate::Result<Vec<Value>> {
        let sources = Sources::one(self.fixture.store.snapshot(), Arc::new(NoSystemInfo));
        let engine = &self.fixture.engine;
        let prepared = engine.prepare(sources, &self.session, sql.into()).await?;
        let answer = prepared.start(Parameters::None).await?;
        let (schema, batches, _) = answer.collect().await?;
        let mut text = Vec::new();
        write(Output::Json, &schema, &batches, &mut text)?;
        Ok(serde_json::from_slice(&text).expect("JSON"))
    }

    async fn rows(&self, sql: &str) -> Vec<Value> {
        let rows = self.try_rows(sql).await;
        rows.unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    /// Returns local times that exist once, with their instants.
    fn local_times(&self) -> Vec<(DateTime, Timestamp)> {
        let locals = self.times.iter().step_by(7);
        let locals = locals.map(|at| at.to_zoned(self.zone.clone()).datetime());
        let with_instant = locals.filter_map(|local| {
            let at = self.zone.to_ambiguous_timestamp(local);
            Some((local, at.unambiguous().ok()?))
        });
        with_instant.collect()
    }

    /// Checks how many events a condition admits.
    async fn check(&self, condition: &str, admits: impl Fn(Timestamp) -> bool) {
        let expected = self.times.iter().filter(|at| admits(**at)).count();
        let sql = format!("SELECT count(*) AS n FROM access WHERE {condition}");
        let rows = self.rows(&sql).await;
        assert_eq!(rows[0]["n"], expected, "{condition} in {:?}", self.zone);
    }
}

const SESSION_ZONES: [&str; 5] = [
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/Havana",
];

type Compares = fn(&Timestamp, &Timestamp) -> bool;

#[tokio::test(flavor = "multi_thread")]
async fn times_without_a_zone_are_those_of_the_session() {
    let comparisons: [(&str, Compares); 6] = [
        ("<", |a, b| a < b),
        ("<=", |a, b| a <= b),
        (">", |a, b| a > b),
        (">=", |a, b| a >= b),
        ("=", |a, b| a == b),
        ("IS DISTINCT FROM", |a, b| a != b),
    ];
    let mut random = Random(u64::from(std::process::id()));
    println!("seed {}", random.0);
    for zone in SESSION_ZONES {
        let zoned = Zoned::new(zone);
        let locals = zoned.local_times();
        for _ in 0..12 {
            let (local, at) = locals[random.below(locals.len())];
            let (op, compares) = comparisons[random.below(comparisons.len())];
            let forms = [
                format!("'{local}'"),
                format!("TIMESTAMP '{local}'"),
                format!("CAST('{local}' AS TIMESTAMP)"),
                format!("'{local}'::timestamptz"),
                format!("'{at}'"),
                format!("(SELECT max('{local}'::timestamp) FROM access)"),
                format!("(TIMESTAMP '{local}' + INTERVAL '0 days')"),
            ];
            for form in &forms {
                zoned
                    .check(&format!("time {op} {form}"), |t| compares(&t, &at))
                    .await;
            }
            let form = &forms[random.below(forms.len())];
            zoned.check(&format!("{form} < time"), |t| at < t).await;
            let between = format!("time BETWEEN {form} AND '2030-01-01'");
            zoned.check(&between, |t| at <= t).await;
            zoned
                .check(&format!("time IN ('2030-01-01', {form})"), |t| t == at)
                .await;
            zoned
                .check(
                    &format!("coalesce(time, TIMESTAMP '{local}') < {form}"),
                    |t| t < at,
                )
                .await;
            // An explicit zone counts, and not that of the session.
            let utc = at.to_zoned(TimeZone::UTC).datetime();
            let named = format!("time {op} TIMESTAMP '{utc}' AT TIME ZONE 'UTC'");
            zoned.check(&named, |t| compares(&t, &at)).await;
            let date = local.date();
            let midnight = zoned
                .zone
                .to_ambiguous_timestamp(date.to_datetime(Time::midnight()));
            if let Ok(midnight) = midnight.unambiguous() {
                for form in [format!("DATE '{date}'"), format!("'{date}'")] {
                    let condition = format!("time {op} {form}");
                    zoned.check(&condition, |t| compares(&t, &midnight)).await;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn days_and_hours_are_those_of_the_session() {
    for zone in SESSION_ZONES {
        let zoned = Zoned::new(zone);
        let counted = |key: &dyn Fn(Timestamp) -> String| {
            let mut counts = BTreeMap::<String, u64>::new();
            for at in &zoned.times {
                *counts.entry(key(*at)).or_default() += 1;
            }
            counts
        };
        let local = |at: Timestamp| at.to_zoned(zoned.zone.clone());
        let of_day = |at: Timestamp| {
            let day = local(at).start_of_day().expect("a day that begins");
            day.timestamp().to_string()
        };
        let utc_day = |at: Timestamp| {
            let day = at.to_zoned(TimeZone::UTC).start_of_day();
            day.expect("a day that begins").timestamp().to_string()
        };
        let stamp = "'%Y-%m-%dT%H:%M:%SZ'";
        let cases: [(String, &dyn Fn(Timestamp) -> String); 10] = [
            (
                format!("to_char(date_trunc('day', time) AT TIME ZONE 'UTC', {stamp})"),
                &of_day,
            ),
            (
                format!("to_char(date_trunc('day', time AT TIME ZONE 'UTC'), {stamp})"),
                &utc_day,
            ),
            ("extract(hour FROM time)".into(), &|at| {
                local(at).hour().to_string()
            }),
            ("date_part('day', time)".into(), &|at| {
                local(at).day().to_string()
            }),
            ("extract(epoch FROM time)::bigint".into(), &|at| {
                at.as_second().to_string()
            }),
            ("to_char(time, 'YYYY-MM-DD HH24')".into(), &|at| {
                local(at).strftime("%Y-%m-%d %H").to_string()
            }),
            (format!("to_char(timezone('UTC', time), {stamp})"), &|at| {
                at.to_string()
            }),
            ("time::date".into(), &|at| local(at).date().to_string()),
            (format!("to_char(time::timestamp, {stamp})"), &|at| {
                format!("{}Z", local(at).datetime())
            }),
            ("(date_trunc('day', time))::date".into(), &|at| {
                local(at).date().to_string()
            }),
        ];
        for (key, of) in cases {
            let sql =
                format!("SELECT CAST({key} AS text) AS k, count(*) AS n FROM access GROUP BY 1");
            let rows = zoned.rows(&sql).await;
            let found = rows.iter().map(|row| {
                let key = row["k"].as_str().expect("a key").to_owned();
                (key, row["n"].as_u64().expect("a count"))
            });
            assert_eq!(
                found.collect::<BTreeMap<_, _>>(),
                counted(of),
                "{key} in {zone}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_time_that_does_not_exist_once_is_an_error_with_a_way_out() {
    let zoned = Zoned::new("Europe/Berlin");
    for local in ["2026-03-29 02:30:00", "2026-10-25 02:30:00"] {
        for form in [format!("'{local}'"), format!("TIMESTAMP '{local}'")] {
            let sql = format!("SELECT count(*) AS n FROM access WHERE time < {form}");
            let error = zoned.try_rows(&sql).await.expect_err("ambiguous");
            let hint = error.hint().unwrap_or_default();
            assert!(hint.contains("offset"), "{sql}: {error} {hint}");
        }
        let sql = format!("SELECT count(*) AS n FROM access WHERE time < '{local}+02:00'");
        assert_eq!(zoned.rows(&sql).await.len(), 1);
    }
}
