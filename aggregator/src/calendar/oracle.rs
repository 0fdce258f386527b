//! A second calendar, by definition: civil dates and changes of offset from `jiff`. It shares no
//! code with ours, but our tables are built from its rules: the Python oracle of the tests reads
//! those of zoneinfo.

use super::{Bucket, Level, WeekStart};
use jiff::civil::Date;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan, Unit};
use std::sync::LazyLock;

/// The compiled-in database: the machine's own zone files might be of any release.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// One zone's calendar by definition.
pub(crate) struct ZoneOracle {
    zone: TimeZone,
    /// Every instant from 1960 to 2110 at which the offset changes.
    changes: Vec<Timestamp>,
}

impl ZoneOracle {
    /// Creates the oracle of the zone `name`.
    pub(crate) fn new(name: &str) -> Self {
        let zone = ZONES.get(name).expect("a zone of the bundled database");
        let changes = zone
            .following(instant("1960-01-01T00:00:00Z"))
            .take_while(|change| change.timestamp() < instant("2110-01-01T00:00:00Z"))
            // Some transitions change only the zone's abbreviation.
            .filter(|change| change.offset() != zone.to_offset(just_before(change.timestamp())))
            .map(|change| change.timestamp())
            .collect();
        Self { zone, changes }
    }

    /// Returns the instants from 1960 to 2110 at which the offset changes.
    pub(crate) fn changes(&self) -> &[Timestamp] {
        &self.changes
    }

    /// Returns the bucket of `level` that holds `t_us`.
    pub(crate) fn bucket(&self, week: WeekStart, level: Level, t_us: i64) -> Bucket {
        let t = Timestamp::from_microsecond(t_us).expect("a year that jiff knows");
        let (start, end) = match level {
            Level::Minute => self.clock(Unit::Minute, t),
            Level::Hour => self.clock(Unit::Hour, t),
            Level::Day | Level::Week | Level::Month | Level::Year => {
                let (first, next) = dates(week, level, self.date(t));
                (self.day_start(first), self.day_start(next))
            }
        };
        Bucket {
            start_us: start.as_microsecond(),
            end_us: end.as_microsecond(),
        }
    }

    /// Returns the longest interval around `t` with one offset and one local time down to `unit`.
    fn clock(&self, unit: Unit, t: Timestamp) -> (Timestamp, Timestamp) {
        let offset = self.zone.to_offset(t);
        let local = offset.to_datetime(t);
        let (minute, length) = match unit {
            Unit::Minute => (local.minute(), 1.minute()),
            _ => (0, 1.hour()),
        };
        let floor = local.date().at(local.hour(), minute, 0, 0);
        let start = offset.to_timestamp(floor).expect("a year that jiff knows");
        let next = self.changes.partition_point(|change| *change <= t);
        let started = next.checked_sub(1).map(|last| self.changes[last]);
        let ended = self.changes.get(next).copied();
        (
            started.map_or(start, |change| change.max(start)),
            ended.map_or(start + length, |change| change.min(start + length)),
        )
    }

    /// Returns the latest date that has begun at `t`.
    pub(crate) fn date(&self, t: Timestamp) -> Date {
        let mut date = self.zone.to_datetime(t).date();
        while self.day_start(next_day(date)) <= t {
            date = next_day(date);
        }
        date
    }

    /// Returns the first instant of `date`, or the change of offset that skipped the date.
    pub(crate) fn day_start(&self, date: Date) -> Timestamp {
        let midnight = date.at(0, 0, 0, 0);
        let earliest = match self.zone.to_ambiguous_timestamp(midnight).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(midnight),
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(midnight),
            AmbiguousOffset::Gap { after, .. } => {
                // A skipped local time, read with the later offset, lies before the change.
                let unreached = after
                    .to_timestamp(midnight)
                    .expect("a year that jiff knows");
                let skip = self.changes.partition_point(|change| *change <= unreached);
                return self.changes[skip];
            }
        };
        earliest.expect("a year that jiff knows")
    }
}

/// Returns the first date of the day, week, month or year around `date`, and of the next one.
fn dates(week: WeekStart, level: Level, date: Date) -> (Date, Date) {
    let (first, length) = match level {
        Level::Week => {
            let weekday = date.weekday();
            let past = match week {
                WeekStart::Sunday => weekday.to_sunday_zero_offset(),
                WeekStart::Monday => weekday.to_monday_zero_offset(),
            };
            (date - i64::from(past).days(), 1.week())
        }
        Level::Month => (date.first_of_month(), 1.month()),
        Level::Year => (date.first_of_year(), 1.year()),
        Level::Minute | Level::Hour | Level::Day => (date, 1.day()),
    };
    (first, first + length)
}

fn next_day(date: Date) -> Date {
    date.tomorrow().expect("a year that jiff knows")
}

fn just_before(t: Timestamp) -> Timestamp {
    t - 1.nanosecond()
}

fn instant(rfc3339: &str) -> Timestamp {
    rfc3339.parse().expect("an instant")
}
