//! Random times of events: now, late, early, and where calendars easily go wrong.

use jiff::Timestamp;
use jiff::civil::date;
use storage::sim::Random;

use super::calendar::Calendar;
use super::rollups::Rollup;
use crate::calendar::Level;

const SECOND_US: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * SECOND_US;
const HOUR_US: i64 = 60 * MINUTE_US;
const DAY_US: i64 = 24 * HOUR_US;

fn up_to(random: &mut Random, us: i64) -> i64 {
    random.below(us.cast_unsigned()).cast_signed()
}

fn any<'a, T>(random: &mut Random, of: &'a [T]) -> &'a T {
    &of[random.below(of.len() as u64) as usize]
}

/// Returns `t_us`, or the microsecond before or after it.
fn edge(random: &mut Random, t_us: i64) -> i64 {
    t_us + random.below(3) as i64 - 1
}

/// Returns the time at which a history begins: any time of some twenty years, or a notable one.
pub(super) fn beginning(random: &mut Random, rollups: &[Rollup]) -> i64 {
    let anytime = at(date(2004, 1, 1)) + up_to(random, 21 * 365 * DAY_US);
    let near = match random.below(4) {
        0 => anytime,
        1 => change(random, rollups, anytime).unwrap_or(anytime),
        2 => leap_day(random, rollups, anytime),
        _ => year_end(random, rollups, anytime),
    };
    near + up_to(random, 2 * DAY_US)
}

/// Returns the time of an event.
pub(super) fn instant(random: &mut Random, rollups: &[Rollup], now_us: i64) -> i64 {
    match random.below(16) {
        0..4 => now_us - up_to(random, HOUR_US),
        4..8 => boundary(random, rollups, now_us),
        8 => now_us + up_to(random, 10 * MINUTE_US),
        9 => now_us - (25 + up_to(random, 10)) * DAY_US - up_to(random, HOUR_US),
        10 => now_us - (360 + up_to(random, 10)) * DAY_US - up_to(random, HOUR_US),
        11..14 => change(random, rollups, now_us).unwrap_or(now_us),
        14 => leap_day(random, rollups, now_us),
        _ => year_end(random, rollups, now_us),
    }
}

/// Returns an instant at the start of a bucket of one of the rollups' levels.
fn boundary(random: &mut Random, rollups: &[Rollup], now_us: i64) -> i64 {
    let rollup = any(random, rollups);
    let level = *any(random, &rollup.levels);
    let back = match random.below(3) {
        0 => up_to(random, 40 * DAY_US),
        _ => up_to(random, 2 * HOUR_US),
    };
    let bucket = rollup.calendar.bucket(level, now_us - back);
    edge(random, bucket.start_us)
}

/// Returns an instant around the last change of offset of one rollup's zone, if it has one: the
/// hour that the change skips or repeats.
fn change(random: &mut Random, rollups: &[Rollup], now_us: i64) -> Option<i64> {
    let changes = any(random, rollups).calendar.oracle().changes();
    let before = changes.partition_point(|c| c.as_microsecond() <= now_us);
    let change = changes[..before].last()?.as_microsecond();
    Some(match random.below(3) {
        0 => edge(random, change),
        1 => {
            let half_hours = random.below(5) as i64 - 2;
            edge(random, change + half_hours * HOUR_US / 2)
        }
        _ => change + up_to(random, 4 * HOUR_US) - 2 * HOUR_US,
    })
}

/// Returns an instant in the last 29 February of a rollup's zone, or at either of its ends.
fn leap_day(random: &mut Random, rollups: &[Rollup], now_us: i64) -> i64 {
    let calendar = any(random, rollups).calendar;
    let today = calendar.oracle().date(timestamp(now_us));
    let is_past = |year: &i16| date(*year, 2, 28).in_leap_year() && date(*year, 2, 29) <= today;
    let year = (0..9).map(|n| today.year() - n).find(is_past);
    let start = at_local(calendar, date(year.expect("a leap year"), 2, 29));
    within(random, calendar, Level::Day, start)
}

/// Returns an instant around the last turn of a year in a rollup's zone.
fn year_end(random: &mut Random, rollups: &[Rollup], now_us: i64) -> i64 {
    let calendar = any(random, rollups).calendar;
    let start = calendar.bucket(Level::Year, now_us).start_us;
    match random.below(2) {
        0 => edge(random, start),
        _ => start + up_to(random, 8 * HOUR_US) - 4 * HOUR_US,
    }
}

fn within(random: &mut Random, calendar: Calendar, level: Level, t_us: i64) -> i64 {
    let bucket = calendar.bucket(level, t_us);
    match random.below(3) {
        0 => edge(random, bucket.start_us),
        1 => edge(random, bucket.end_us),
        _ => bucket.start_us + up_to(random, bucket.end_us - bucket.start_us),
    }
}

fn at_local(calendar: Calendar, date: jiff::civil::Date) -> i64 {
    calendar.oracle().day_start(date).as_microsecond()
}

fn at(date: jiff::civil::Date) -> i64 {
    at_local(Calendar::UTC, date)
}

fn timestamp(t_us: i64) -> Timestamp {
    Timestamp::from_microsecond(t_us).expect("a year that jiff knows")
}
