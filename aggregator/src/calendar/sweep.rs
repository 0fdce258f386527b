//! Compares every zone's local years 1970 to 2099 with the oracle: around each change of offset, at
//! each first of a month and 29 February, and at random instants.
//!
//! A run compares every 13th of these instants of each zone, `LOGMILL_FULL=1` all of them.

use super::oracle::ZoneOracle;
use super::tests::check_laws_of_level;
use super::*;
use crate::testing::is_full;
use jiff::civil::{Date, date};
use jiff::{SignedDuration, Timestamp};
use std::sync::atomic::{AtomicUsize, Ordering};

const FIRST_YEAR: i16 = 1970;
const LAST_YEAR: i16 = 2099;
/// Instants drawn at random in each zone.
const RANDOM: u64 = 2_000;
/// Returns the distances from a change of offset of the instants that are compared.
fn around() -> [SignedDuration; 9] {
    let (hour, half) = (SignedDuration::from_hours(1), SignedDuration::from_mins(30));
    let (second, micro) = (SignedDuration::from_secs(1), SignedDuration::from_micros(1));
    [
        -hour,
        -half,
        -second,
        -micro,
        SignedDuration::ZERO,
        micro,
        second,
        half,
        hour,
    ]
}

/// Returns the start of a year in UTC.
fn year_start(year: i16) -> Timestamp {
    let start = jiff::tz::Offset::UTC.to_timestamp(date(year, 1, 1).at(0, 0, 0, 0));
    start.expect("a year that jiff knows")
}

/// Returns all instants that are compared in a zone, sorted.
fn instants(zone: Tz, oracle: &ZoneOracle) -> Vec<Timestamp> {
    let micro = SignedDuration::from_micros(1);
    let mut all: Vec<Timestamp> = random(zone).collect();
    for change in oracle.changes() {
        all.extend(around().map(|distance| *change + distance));
        let mut date = oracle.date(*change).yesterday().expect("a date");
        for _ in 0..4 {
            let midnight = oracle.day_start(date);
            all.extend([midnight - micro, midnight]);
            date = date.tomorrow().expect("a date");
        }
    }
    for date in (FIRST_YEAR..=LAST_YEAR).flat_map(notable_dates) {
        let midnight = oracle.day_start(date);
        all.extend([midnight - micro, midnight]);
    }
    let first = oracle.day_start(date(FIRST_YEAR, 1, 1));
    let end = oracle.day_start(date(LAST_YEAR + 1, 1, 1));
    all.retain(|t| first <= *t && *t < end);
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the first days of a year's months, and its leap day.
fn notable_dates(year: i16) -> impl Iterator<Item = Date> {
    let firsts = (1..=12).map(move |month| date(year, month, 1));
    firsts.chain(Date::new(year, 2, 29))
}

/// Returns pseudorandom instants: the same ones in every run, different ones for each zone.
fn random(zone: Tz) -> impl Iterator<Item = Timestamp> {
    let first_us = year_start(FIRST_YEAR).as_microsecond();
    let span_us = year_start(LAST_YEAR + 1).as_microsecond() - first_us;
    (0..RANDOM).map(move |n| {
        let hash = xxhash_rust::xxh3::xxh3_64_with_seed(zone.name().as_bytes(), n);
        let t_us = first_us + (hash % span_us.unsigned_abs()).cast_signed();
        Timestamp::from_microsecond(t_us).expect("a year that jiff knows")
    })
}

/// Compares every `stride`-th instant of a zone and returns their number.
fn check_zone(zone: Tz, stride: usize) -> usize {
    let oracle = ZoneOracle::new(zone.name());
    let instants = instants(zone, &oracle);
    for week in [WeekStart::Sunday, WeekStart::Monday] {
        let mut cursor = Cursor::new(Calendar::new(zone, week));
        for t in instants.iter().step_by(stride) {
            check_instant(&oracle, &mut cursor, t.as_microsecond());
        }
    }
    instants.len().div_ceil(stride)
}

/// Checks that every level's bucket at `t_us` equals the oracle's and keeps the laws.
fn check_instant(oracle: &ZoneOracle, cursor: &mut Cursor, t_us: i64) {
    let calendar = cursor.calendar;
    for level in Level::ALL {
        // Only weeks depend on the day on which weeks begin.
        if calendar.week == WeekStart::Monday && level != Level::Week {
            continue;
        }
        let expected = oracle.bucket(calendar.week, level, t_us);
        let case = || format!("{calendar:?} {level} {t_us}: left is ours");
        assert_eq!(calendar.bucket(level, t_us), expected, "{}", case());
        assert_eq!(cursor.bucket(level, t_us), expected, "cursor: {}", case());
        check_laws_of_level(calendar, level, t_us);
    }
}

#[test]
fn buckets_of_every_zone_are_the_oracles() {
    let stride = if is_full() { 1 } else { 13 };
    let zones: Vec<Tz> = chrono_tz::zones().collect();
    let (next, compared) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let worker = || {
        while let Some(zone) = zones.get(next.fetch_add(1, Ordering::Relaxed)) {
            let count = check_zone(*zone, stride);
            assert!(count > 0, "{zone}: nothing was compared");
            compared.fetch_add(count, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(worker);
        }
    });
    println!(
        "{} instants in {} zones",
        compared.into_inner(),
        zones.len()
    );
}
