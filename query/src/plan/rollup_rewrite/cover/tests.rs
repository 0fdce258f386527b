//! The pieces are the range: no instant twice, none left out.

use aggregator::{Calendar, Level, WeekStart};
use chrono_tz::Tz;

use super::*;
use crate::tests::support::Random;

const HOUR_US: i64 = 3_600_000_000;
/// 2026-10-01T00:00:00Z; Berlin leaves summer time in the two months after it.
const START: i64 = 1_790_812_800_000_000;

fn range(first: i64, last: i64) -> TimeRange {
    TimeRange { first, last }
}

/// Returns a random range as a query may have it, sometimes without a bound.
fn asked(random: &mut Random) -> TimeRange {
    let at = |random: &mut Random| {
        let hours = START + random.below(60 * 24) as i64 * HOUR_US;
        match random.below(3) {
            0 => hours,
            1 => hours + random.below(HOUR_US as usize) as i64,
            _ => hours - hours.rem_euclid(24 * HOUR_US),
        }
    };
    let (a, b) = (at(random), at(random));
    let mut range = range(a.min(b), a.max(b));
    if random.below(5) == 0 {
        range.first = i64::MIN;
    }
    if random.below(5) == 0 {
        range.last = i64::MAX;
    }
    range
}

#[test]
fn pieces_are_the_range_in_whole_buckets() {
    let mut random = Random(7);
    for round in 0..3_000 {
        let zone = [
            Tz::UTC,
            Tz::named("Europe/Berlin"),
            Tz::named("Asia/Kolkata"),
        ][random.below(3)];
        let calendar = Calendar::new(zone, WeekStart::Monday);
        let all = Level::ALL.iter().rev();
        let levels: Vec<Usable> = all
            .filter(|_| random.below(3) > 0)
            .map(|level| Usable {
                level: *level,
                floor_us: i64::MIN,
            })
            .collect();
        let levels: Vec<Usable> = levels
            .into_iter()
            .map(|usable| {
                let at = START + random.below(60 * 24) as i64 * HOUR_US;
                let floor_us = calendar.bucket(Level::Month, at).start_us;
                match random.below(4) {
                    0 => Usable { floor_us, ..usable },
                    _ => usable,
                }
            })
            .collect();
        let mut raw: Vec<TimeRange> = Vec::new();
        let mut at = START;
        for _ in 0..random.below(4) {
            at += 24 * HOUR_US * (1 + random.below(20) as i64);
            raw.push(range(at, at + 24 * HOUR_US - 1));
            at += 24 * HOUR_US;
        }
        let asked = asked(&mut random);
        let mut cuts: Vec<i64> = (0..random.below(4))
            .map(|_| {
                let minutes = random.below(60 * 24 * 60) as i64;
                let minutes = minutes - [0, minutes % 60, minutes % 1440][random.below(3)];
                START + minutes * HOUR_US / 60 + [0, 0, 1][random.below(3)]
            })
            .collect();
        cuts.sort_unstable();
        let pieces = cover(calendar, asked, &levels, (&raw, &cuts));
        let told = format!("round {round}: {asked:?} {levels:?} {raw:?} {cuts:?} {pieces:?}");
        let ends = (pieces[0].range.first, pieces[pieces.len() - 1].range.last);
        assert_eq!(ends, (asked.first, asked.last), "{told}");
        for pair in pieces.windows(2) {
            assert_eq!(pair[0].range.last + 1, pair[1].range.first, "{told}");
            assert_ne!(pair[0].level, pair[1].level, "{told}");
        }
        for piece in pieces {
            let TimeRange { first, last } = piece.range;
            assert!(first <= last, "{told}");
            let Some(level) = piece.level else { continue };
            assert!(!raw.iter().any(|r| r.meets((first, last))), "{told}");
            let usable = levels.iter().find(|u| u.level == level).expect("usable");
            assert!(usable.floor_us <= first, "{told}");
            let bucket = |at| calendar.bucket(level, at);
            for cut in cuts.iter().filter(|cut| first < **cut && **cut <= last) {
                assert_eq!(bucket(*cut).start_us, *cut, "{told}");
            }
            assert!(
                first == i64::MIN || bucket(first).start_us == first,
                "{told}"
            );
            assert!(
                last == i64::MAX || bucket(last).end_us == last + 1,
                "{told}"
            );
        }
    }
}

#[test]
fn the_coarsest_level_takes_what_it_can() {
    let calendar = Calendar::new(Tz::UTC, WeekStart::Monday);
    let levels = [Level::Day, Level::Hour].map(|level| Usable {
        level,
        floor_us: i64::MIN,
    });
    // Range from 22:30 of a day to 01:15 of the second day after it.
    let asked = range(
        START + 22 * HOUR_US + HOUR_US / 2,
        START + 49 * HOUR_US + HOUR_US / 4 - 1,
    );
    let pieces = cover(calendar, asked, &levels, (&[], &[]));
    let found: Vec<_> = pieces
        .iter()
        .map(|p| (p.level, (p.range.last - p.range.first + 1) / (HOUR_US / 4)))
        .collect();
    let expected = [
        (None, 2),
        (Some(Level::Hour), 4),
        (Some(Level::Day), 96),
        (Some(Level::Hour), 4),
        (None, 1),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_cut_within_a_bucket_leaves_that_bucket_to_finer_levels() {
    let calendar = Calendar::new(Tz::UTC, WeekStart::Monday);
    let levels = [Level::Day, Level::Hour].map(|level| Usable {
        level,
        floor_us: i64::MIN,
    });
    let asked = range(START, START + 72 * HOUR_US - 1);
    // Cuts at 06:00 of the second day and at 06:15 of the third.
    let cuts = [START + 30 * HOUR_US, START + 54 * HOUR_US + HOUR_US / 4];
    let pieces = cover(calendar, asked, &levels, (&[], &cuts));
    let found: Vec<_> = pieces
        .iter()
        .map(|p| (p.level, (p.range.last - p.range.first + 1) / HOUR_US))
        .collect();
    let expected = [
        (Some(Level::Day), 24),
        (Some(Level::Hour), 30),
        (None, 1),
        (Some(Level::Hour), 17),
    ];
    assert_eq!(found, expected);
}
