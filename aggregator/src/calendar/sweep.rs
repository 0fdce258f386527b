//! Compares every zone's local years 1970 to 2099 with the oracle: around each change of offset, at
//! each first of a month and 29 February, and at random instants.
//!
//! A run compares every 13th of these instants of each zone, `LOGMILL_FULL=1` all of them.

use super::oracle::{self, ZoneOracle};
use super::tests::check_laws_of_level;
use super::*;
use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::TZ_VARIANTS;
use jiff::civil::{Date, date};
use jiff::{SignedDuration, Timestamp};
use std::sync::atomic::{AtomicUsize, Ordering};

const FIRST_YEAR: i16 = 1970;
const LAST_YEAR: i16 = 2099;
/// Instants drawn at random in each zone.
const RANDOM: u64 = 2_000;
/// The releases of the time zone database that `CHANGED` compares: chrono-tz's, which SQL's
/// `AT TIME ZONE` follows, and the one of buckets and the oracle.
const RELEASES: (&str, &str) = ("2025b", "2026e");
/// Zones whose rules differ between both, with the first and last year in which they do.
const CHANGED: [(Tz, i16, i16); 20] = [
    // Since 20 September 2026 on +00 all the year, no longer on +01 with a break in Ramadan.
    (Tz::Africa__Casablanca, 2026, 2099),
    (Tz::Africa__El_Aaiun, 2026, 2099),
    // Summer time began on 2 May 1992, not on the 3rd.
    (Tz::America__Bogota, 1992, 1992),
    // Clocks of western Canada were not set back in November 2026: summer time all the year.
    (Tz::America__Edmonton, 2026, 2099),
    // No summer time in Baja California from 1970 to 1975.
    (Tz::America__Ensenada, 1970, 1975),
    (Tz::America__Inuvik, 2026, 2099),
    (Tz::America__Rainy_River, 2026, 2099),
    (Tz::America__Santa_Isabel, 1970, 1975),
    (Tz::America__Tijuana, 1970, 1975),
    (Tz::America__Vancouver, 2026, 2099),
    (Tz::America__Winnipeg, 2026, 2099),
    (Tz::America__Yellowknife, 2026, 2099),
    // Summer time began on 26 May 1979, not on the 27th.
    (Tz::Asia__Tehran, 1979, 1979),
    (Tz::Canada__Central, 2026, 2099),
    (Tz::Canada__Mountain, 2026, 2099),
    (Tz::Canada__Pacific, 2026, 2099),
    // Moldova changes at 01:00 UTC with its neighbours since 2022, not an hour before.
    (Tz::Europe__Chisinau, 2022, 2099),
    (Tz::Europe__Tiraspol, 2022, 2099),
    (Tz::Iran, 1979, 1979),
    (Tz::Mexico__BajaNorte, 1970, 1975),
];

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

/// Returns the first and last year in which chrono-tz and the oracle have different offsets. The
/// oracle has the rules of our buckets, chrono-tz rules of another source.
fn years_that_differ(zone: Tz, oracle: &ZoneOracle) -> Option<(i16, i16)> {
    let theirs = |t: Timestamp| {
        let utc = DateTime::from_timestamp(t.as_second(), 0).expect("a year that chrono knows");
        zone.offset_from_utc_datetime(&utc.naive_utc())
            .fix()
            .local_minus_utc()
    };
    // One sample a day finds changes that only chrono-tz has: the shortest offset lasts a week.
    let day = SignedDuration::from_hours(24);
    let days = std::iter::successors(Some(year_start(FIRST_YEAR)), |t| Some(*t + day));
    let changes = oracle.changes().iter().copied();
    let differing = days
        .take_while(|t| *t < year_start(LAST_YEAR + 1))
        .chain(changes.flat_map(|t| [t - SignedDuration::from_secs(1), t]))
        .filter(|t| within(FIRST_YEAR, LAST_YEAR, *t) && theirs(*t) != oracle.offset_s(*t));
    let years: Vec<i16> = differing.map(|t| oracle.date(t).year()).collect();
    Some((*years.iter().min()?, *years.iter().max()?))
}

/// Returns the start of a year in UTC.
fn year_start(year: i16) -> Timestamp {
    let start = jiff::tz::Offset::UTC.to_timestamp(date(year, 1, 1).at(0, 0, 0, 0));
    start.expect("a year that jiff knows")
}

/// Checks whether `t` lies in the years `first` to `last` of UTC.
fn within(first: i16, last: i16, t: Timestamp) -> bool {
    year_start(first) <= t && t < year_start(last + 1)
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
fn zones_differ_only_where_the_releases_do() {
    let found: Vec<(Tz, i16, i16)> = TZ_VARIANTS
        .into_iter()
        .filter_map(|zone| {
            let (first, last) = years_that_differ(zone, &ZoneOracle::new(zone.name()))?;
            Some((zone, first, last))
        })
        .collect();
    assert_eq!(found, CHANGED, "left is found, right is written here");
    let releases = (chrono_tz::IANA_TZDB_VERSION, oracle::release());
    assert_eq!(releases, RELEASES);
}

#[test]
fn changes_of_offset_are_further_apart_than_a_probe() {
    for zone in TZ_VARIANTS {
        let oracle = ZoneOracle::new(zone.name());
        for pair in oracle.changes().windows(2) {
            let apart = pair[1].duration_since(pair[0]);
            assert!(apart.as_secs() > PROBE_S, "{zone} {}", pair[0]);
        }
    }
}

#[test]
fn buckets_of_every_zone_are_the_oracles() {
    let full = std::env::var("LOGMILL_FULL").is_ok_and(|v| v == "1");
    let stride = if full { 1 } else { 13 };
    let (next, compared) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let worker = || {
        while let Some(zone) = TZ_VARIANTS.get(next.fetch_add(1, Ordering::Relaxed)) {
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
        TZ_VARIANTS.len()
    );
}
