//! Local times of SQL, of our functions and of `jiff` for the same instants.

use chrono_tz::Tz;
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::support::Fixture;

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
