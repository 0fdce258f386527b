//! Buckets of time.

use chrono::DateTime;
use chrono_tz::Tz;

use super::{Bucketer, Width};

fn micros(text: &str) -> i64 {
    DateTime::parse_from_rfc3339(text)
        .expect("a time")
        .timestamp_micros()
}

fn start(width: &str, zone: &str, time: &str) -> String {
    let zone: Tz = zone.parse().expect("a zone");
    let start = Bucketer::new(Width::parse(width).expect("a width"), zone).start(micros(time));
    DateTime::from_timestamp_micros(start)
        .expect("a time")
        .format("%Y-%m-%dT%H:%M:%S%.fZ")
        .to_string()
}

#[test]
fn buckets_of_fixed_length_are_floored_also_before_1970() {
    assert_eq!(
        start("5 minutes", "UTC", "2000-10-10T20:59:59.999999Z"),
        "2000-10-10T20:55:00Z"
    );
    assert_eq!(
        start("5 minutes", "UTC", "2000-10-10T20:55:00Z"),
        "2000-10-10T20:55:00Z"
    );
    assert_eq!(
        start("1 hour", "UTC", "1969-12-31T23:59:59Z"),
        "1969-12-31T23:00:00Z"
    );
    assert_eq!(
        start("90 minutes", "UTC", "1970-01-01T02:00:00Z"),
        "1970-01-01T01:30:00Z"
    );
    assert_eq!(
        start("100 milliseconds", "UTC", "1970-01-01T00:00:00.250Z"),
        "1970-01-01T00:00:00.200Z"
    );
}

#[test]
fn days_weeks_months_and_years_are_local() {
    assert_eq!(
        start("1 day", "Europe/Berlin", "2024-07-01T22:30:00Z"),
        "2024-07-01T22:00:00Z"
    );
    assert_eq!(
        start("1 week", "UTC", "2000-10-10T20:55:36Z"),
        "2000-10-09T00:00:00Z"
    );
    assert_eq!(
        start("2 weeks", "UTC", "1970-01-20T00:00:00Z"),
        "1970-01-19T00:00:00Z"
    );
    assert_eq!(
        start("1 month", "America/New_York", "2024-03-31T12:00:00Z"),
        "2024-03-01T05:00:00Z"
    );
    assert_eq!(
        start("3 months", "UTC", "2000-11-30T00:00:00Z"),
        "2000-10-01T00:00:00Z"
    );
    assert_eq!(
        start("1 year", "UTC", "2000-10-10T00:00:00Z"),
        "2000-01-01T00:00:00Z"
    );
    assert_eq!(
        start("10 years", "UTC", "1999-10-10T00:00:00Z"),
        "1990-01-01T00:00:00Z"
    );
    assert_eq!(
        start("2 days", "Europe/Berlin", "1970-01-03T22:30:00Z"),
        "1970-01-02T23:00:00Z"
    );
    assert_eq!(
        start("48 hours", "UTC", "1970-01-04T22:30:00Z"),
        "1970-01-03T00:00:00Z"
    );
}

#[test]
fn hours_are_cut_where_the_offset_changes() {
    // Lord Howe's clocks go back half an hour at 2024-04-06T15:00Z, from +11:00 to +10:30.
    assert_eq!(
        start("1 hour", "Australia/Lord_Howe", "2024-04-06T14:59:00Z"),
        "2024-04-06T14:00:00Z"
    );
    assert_eq!(
        start("1 hour", "Australia/Lord_Howe", "2024-04-06T15:10:00Z"),
        "2024-04-06T15:00:00Z"
    );
    assert_eq!(
        start("1 hour", "Australia/Lord_Howe", "2024-04-06T15:40:00Z"),
        "2024-04-06T15:30:00Z"
    );
    assert_eq!(
        start("1 hour", "Asia/Kolkata", "2024-04-06T15:40:00Z"),
        "2024-04-06T15:30:00Z"
    );
    assert_eq!(
        start("6 hours", "Europe/Berlin", "2024-03-31T04:30:00Z"),
        "2024-03-31T04:00:00Z"
    );
}

#[test]
fn a_remembered_bucket_changes_nothing() {
    for (width, zone) in [
        ("1 day", "Europe/Berlin"),
        ("7 minutes", "UTC"),
        ("3 months", "Pacific/Apia"),
        ("5 days", "UTC"),
        ("6 hours", "Africa/Cairo"),
    ] {
        let (parsed, tz) = (
            Width::parse(width).expect("a width"),
            zone.parse::<Tz>().expect("a zone"),
        );
        let mut kept = Bucketer::new(parsed, tz);
        let from = micros("2011-10-01T00:00:00Z");
        for i in 0..4_000_i64 {
            // Instants go forwards and back again.
            let t = from + (i * 7_919 % 4_001) * 3_600_000_000;
            let start = kept.start(t);
            assert_eq!(
                start,
                Bucketer::new(parsed, tz).start(t),
                "{width} {zone} {t}"
            );
            assert!(start <= t);
            assert_eq!(
                kept.start(start),
                start,
                "a start is its own bucket's: {width} {zone} {t}"
            );
        }
    }
}

#[test]
fn widths_that_make_no_sense_are_refused() {
    for wrong in [
        "",
        "5 parsecs",
        "0 minutes",
        "-1 hour",
        "1 month 2 days",
        "1 nanosecond",
    ] {
        assert!(Width::parse(wrong).is_err(), "{wrong}");
    }
    assert_eq!(
        Width::parse("1 day 12 hours").expect("a width"),
        Width::Micros(36 * 3_600_000_000)
    );
    assert_eq!(Width::parse("1 week").expect("a width"), Width::Days(7));
    assert_eq!(Width::parse("1 year").expect("a width"), Width::Months(12));
}

#[test]
fn a_bucket_of_days_does_not_depend_on_the_order_of_rows() {
    // In 2006 clocks of St. John's went back at one minute past midnight, so the date did too.
    let zone: Tz = "America/St_Johns".parse().expect("a zone");
    let change = micros("2006-10-29T02:31:00Z");
    let times: Vec<i64> = (-200..200).map(|n| change + n * 60_000_000).collect();
    let alone = |t: &i64| Bucketer::new(Width::Days(2), zone).start(*t);
    let expected: Vec<i64> = times.iter().map(alone).collect();
    let mut bucketer = Bucketer::new(Width::Days(2), zone);
    let forwards: Vec<i64> = times.iter().map(|t| bucketer.start(*t)).collect();
    let mut backwards: Vec<i64> = times.iter().rev().map(|t| bucketer.start(*t)).collect();
    backwards.reverse();
    assert_eq!(forwards, expected);
    assert_eq!(backwards, expected);
    assert!(expected.is_sorted());
}
