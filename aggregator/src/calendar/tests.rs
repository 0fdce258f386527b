use super::*;
use chrono::DateTime;
use proptest::prelude::*;

const ZONES: [&str; 10] = [
    "UTC",
    "Europe/Berlin",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "America/Sao_Paulo",
    "Pacific/Apia",
    "America/St_Johns",
    "America/New_York",
    "Africa/Casablanca",
];

pub(super) fn us(rfc3339: &str) -> i64 {
    DateTime::parse_from_rfc3339(rfc3339)
        .expect("a time")
        .timestamp_micros()
}

fn check(zone: Tz, level: Level, t: &str, start: &str, end: &str) {
    let bucket = Calendar::new(zone, WeekStart::Sunday).bucket(level, us(t));
    assert_eq!(
        bucket,
        Bucket {
            start_us: us(start),
            end_us: us(end)
        },
        "{zone} {level} {t}"
    );
}

/// Checks the module's invariants for the buckets around one instant.
fn check_laws(zone: Tz, week: WeekStart, t_us: i64) {
    for level in Level::ALL {
        check_laws_of_level(Calendar::new(zone, week), level, t_us);
    }
}

/// Checks the module's invariants for the bucket of one level around one instant.
pub(super) fn check_laws_of_level(calendar: Calendar, level: Level, t_us: i64) {
    let bucket = calendar.bucket(level, t_us);
    let case = || format!("{} {level} {t_us}: {bucket:?}", calendar.zone);
    assert!(bucket.contains(t_us), "{}", case());
    for inside in [bucket.start_us, bucket.end_us - 1] {
        assert_eq!(calendar.bucket(level, inside), bucket, "{}", case());
    }
    let next = calendar.bucket(level, bucket.end_us);
    assert_eq!(next.start_us, bucket.end_us, "{}", case());
    let previous = calendar.bucket(level, bucket.start_us - 1);
    assert_eq!(previous.end_us, bucket.start_us, "{}", case());
    for finer in level.chain() {
        let inner = calendar.bucket(*finer, t_us);
        assert!(
            bucket.start_us <= inner.start_us && inner.end_us <= bucket.end_us,
            "{}: {finer} {inner:?} is not inside",
            case()
        );
    }
}

#[test]
fn buckets_of_known_instants() {
    let (berlin, apia, sao) = (
        Tz::named("Europe/Berlin"),
        Tz::named("Pacific/Apia"),
        Tz::named("America/Sao_Paulo"),
    );
    check(
        Tz::UTC,
        Level::Week,
        "2000-10-10T20:55:36Z",
        "2000-10-08T00:00:00Z",
        "2000-10-15T00:00:00Z",
    );
    check(
        Tz::UTC,
        Level::Month,
        "2000-02-29T20:55:36Z",
        "2000-02-01T00:00:00Z",
        "2000-03-01T00:00:00Z",
    );
    check(
        Tz::UTC,
        Level::Year,
        "1969-12-31T23:59:59.999999Z",
        "1969-01-01T00:00:00Z",
        "1970-01-01T00:00:00Z",
    );
    check(
        Tz::UTC,
        Level::Minute,
        "1969-12-31T23:59:59.999999Z",
        "1969-12-31T23:59:00Z",
        "1970-01-01T00:00:00Z",
    );
    check(
        berlin,
        Level::Day,
        "2024-03-31T10:00:00Z",
        "2024-03-30T23:00:00Z",
        "2024-03-31T22:00:00Z",
    );
    check(
        berlin,
        Level::Day,
        "2024-10-27T10:00:00Z",
        "2024-10-26T22:00:00Z",
        "2024-10-27T23:00:00Z",
    );
    // The hour that clocks repeat is two buckets.
    check(
        berlin,
        Level::Hour,
        "2024-10-27T00:59:59Z",
        "2024-10-27T00:00:00Z",
        "2024-10-27T01:00:00Z",
    );
    check(
        berlin,
        Level::Hour,
        "2024-10-27T01:00:00Z",
        "2024-10-27T01:00:00Z",
        "2024-10-27T02:00:00Z",
    );
    check(
        Tz::named("Asia/Kolkata"),
        Level::Hour,
        "2024-01-01T00:00:00Z",
        "2023-12-31T23:30:00Z",
        "2024-01-01T00:30:00Z",
    );
    // Lord Howe moves by half an hour: 24½ hours, and an hour cut in two.
    check(
        Tz::named("Australia/Lord_Howe"),
        Level::Day,
        "2024-04-06T16:00:00Z",
        "2024-04-06T13:00:00Z",
        "2024-04-07T13:30:00Z",
    );
    check(
        Tz::named("Australia/Lord_Howe"),
        Level::Hour,
        "2024-04-06T15:10:00Z",
        "2024-04-06T15:00:00Z",
        "2024-04-06T15:30:00Z",
    );
    // A day without midnight begins at one o'clock.
    check(
        sao,
        Level::Day,
        "2018-11-04T12:00:00Z",
        "2018-11-04T03:00:00Z",
        "2018-11-05T02:00:00Z",
    );
    // 30 December 2011 does not exist in Samoa.
    check(
        apia,
        Level::Day,
        "2011-12-30T09:59:59Z",
        "2011-12-29T10:00:00Z",
        "2011-12-30T10:00:00Z",
    );
    check(
        apia,
        Level::Day,
        "2011-12-30T10:00:00Z",
        "2011-12-30T10:00:00Z",
        "2011-12-31T10:00:00Z",
    );
}

#[test]
fn weeks_begin_on_the_day_asked_for() {
    let monday = Calendar::new(Tz::UTC, WeekStart::Monday);
    assert_eq!(
        monday
            .bucket(Level::Week, us("2000-10-08T12:00:00Z"))
            .start_us,
        us("2000-10-02T00:00:00Z")
    );
    assert_eq!(
        monday
            .bucket(Level::Week, us("2000-10-09T00:00:00Z"))
            .start_us,
        us("2000-10-09T00:00:00Z")
    );
}

#[test]
fn partitions_are_coarser_calendar_intervals() {
    let calendar = Calendar::new(Tz::named("Europe/Berlin"), WeekStart::Sunday);
    let partition = |level, t| {
        let start_us = calendar.bucket(level, us(t)).start_us;
        calendar.partition(level, start_us)
    };
    let june = us("2024-05-31T22:00:00Z");
    for (level, start_us) in [
        (Level::Minute, us("2024-06-14T22:00:00Z")),
        (Level::Hour, june),
        (Level::Day, june),
        (Level::Week, us("2023-12-31T23:00:00Z")),
        (Level::Month, june),
        (Level::Year, us("2023-12-31T23:00:00Z")),
    ] {
        assert_eq!(
            partition(level, "2024-06-15T12:00:00Z"),
            start_us,
            "{level}"
        );
    }
    // The week of New Year's Day 2025 began on 29 December.
    assert_eq!(
        partition(Level::Week, "2025-01-01T12:00:00Z"),
        us("2023-12-31T23:00:00Z")
    );
    assert_eq!(
        partition(Level::Week, "2025-01-05T12:00:00Z"),
        us("2024-12-31T23:00:00Z")
    );
}

#[test]
fn laws_hold_around_every_change_of_offset() {
    for zone in ZONES.map(Tz::named) {
        for (change_s, _) in zone.changes() {
            if !(-2_000_000_000..2_200_000_000).contains(&change_s) {
                continue;
            }
            for around_s in [-1, 0, 1, -60, 60, -3_600, 3_600] {
                let around_us = [around_s * SECOND_US, around_s];
                for by_us in around_us {
                    check_laws(zone, WeekStart::Sunday, change_s * SECOND_US + by_us);
                }
            }
        }
    }
}

#[test]
fn extreme_instants_have_buckets() {
    for zone in ZONES.map(Tz::named) {
        for t in [i64::MIN + 40_000_000_000_000, i64::MAX - 40_000_000_000_000] {
            let bucket = Calendar::new(zone, WeekStart::Sunday).bucket(Level::Day, t);
            assert!(bucket.contains(t), "{zone} {t}");
        }
        for t in [i64::MIN, i64::MAX] {
            for level in Level::ALL {
                let _ = Calendar::new(zone, WeekStart::Sunday).bucket(level, t);
            }
        }
    }
}

#[test]
fn cursor_answers_as_the_calendar() {
    let calendar = Calendar::new(Tz::named("Europe/Berlin"), WeekStart::Sunday);
    let mut cursor = Cursor::new(calendar);
    for step in [1, -7, 13, 86_399, -3_601, 40_000_000] {
        let t = us("2024-10-27T00:30:00Z") + step * SECOND_US;
        for level in Level::ALL {
            assert_eq!(cursor.bucket(level, t), calendar.bucket(level, t));
        }
    }
}

proptest! {
    #[test]
    fn laws_hold_at_any_instant(zone in 0..ZONES.len(), monday: bool, t_us in -4_000_000_000_000_000_i64..7_000_000_000_000_000) {
        check_laws(Tz::named(ZONES[zone]), if monday { WeekStart::Monday } else { WeekStart::Sunday }, t_us);
    }
}
