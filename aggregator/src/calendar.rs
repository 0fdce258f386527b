//! Calendar buckets: the minute, hour, day, week, month and year of an instant.
//!
//! # Invariants
//! * Buckets are half-open intervals of UTC instants, `start <= t < end`. The buckets of one level
//!   cover the time line without gap or overlap.
//! * Each bucket lies inside one bucket of the next coarser level of its chain: minute in hour in
//!   day in week, and day in month in year. So the cascade never has to split a cell.
//!
//! The invariants hold across changes of offset. A minute or an hour is the floor of the local
//! time, cut at the change, so the hour that clocks repeat becomes two buckets. Day `d` begins at
//! the earliest instant whose local date is `d` or later: a day without midnight begins at the
//! change, a day that a zone skipped is empty, and minutes that clocks repeat because they were set
//! back across midnight belong to the day that had begun. Weeks, months and years begin with their
//! first day.

use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

use crate::seeded::{self, Bug};

const SECOND_US: i64 = 1_000_000;
const DAY_S: i64 = 86_400;
/// No local time is further from UTC (the widest of the time zone database is 15 h 14 min).
const OFFSET_MAX_S: i64 = 16 * 3_600;

/// The length of a bucket, from the finest to the coarsest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Sixty seconds, fewer where an offset changes.
    Minute,
    /// Sixty minutes, fewer where an offset changes.
    Hour,
    /// A local calendar day.
    Day,
    /// Seven local days.
    Week,
    /// A local calendar month.
    Month,
    /// A local calendar year.
    Year,
}

impl Level {
    /// Every level, finest first.
    pub const ALL: [Self; 6] = [
        Self::Minute,
        Self::Hour,
        Self::Day,
        Self::Week,
        Self::Month,
        Self::Year,
    ];

    /// Returns the name in definitions and manifest sections: `minute`, `hour`, …
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// Returns the name of the level's SQL table in the rollup's schema: `minutely`, `hourly`, …
    pub fn table(self) -> &'static str {
        match self {
            Self::Minute => "minutely",
            Self::Hour => "hourly",
            Self::Day => "daily",
            Self::Week => "weekly",
            Self::Month => "monthly",
            Self::Year => "yearly",
        }
    }

    /// Returns the level named `name`, as [`Level::as_str`] spells it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }

    /// Returns the level whose SQL table is `table`, as [`Level::table`] spells it.
    pub fn from_table(table: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.table() == table)
    }

    /// Returns the levels that this one can be built from, the nearest first.
    pub(crate) fn chain(self) -> &'static [Self] {
        use Level::{Day, Hour, Minute, Month, Week, Year};
        match self {
            Minute => &[],
            Hour => &[Minute],
            Day => &[Hour, Minute],
            Week | Month => &[Day, Hour, Minute],
            Year => &[Month, Day, Hour, Minute],
        }
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The first day of a week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WeekStart {
    /// The default, as in the United States and in the design that the rollups follow.
    #[default]
    Sunday,
    /// The first day of ISO 8601.
    Monday,
}

/// One calendar interval, microseconds since 1970, half-open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket {
    /// First instant of the bucket, which identifies it.
    pub start_us: i64,
    /// First instant after the bucket.
    pub end_us: i64,
}

impl Bucket {
    /// Checks whether `t_us` lies in the bucket.
    pub fn contains(&self, t_us: i64) -> bool {
        self.start_us <= t_us && t_us < self.end_us
    }
}

/// Returns the level whose buckets are the time partitions of `level`.
fn partitioned_by(level: Level) -> Level {
    match level {
        Level::Minute => Level::Day,
        Level::Hour | Level::Day | Level::Month => Level::Month,
        Level::Week | Level::Year => Level::Year,
    }
}

/// The calendar of one zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calendar {
    zone: Tz,
    week: WeekStart,
}

impl Calendar {
    /// Creates the calendar of a zone whose weeks begin on `week`.
    pub fn new(zone: Tz, week: WeekStart) -> Self {
        Self { zone, week }
    }

    /// Returns the bucket of `level` that holds the instant `t_us`.
    pub fn bucket(&self, level: Level, t_us: i64) -> Bucket {
        let t_s = t_us.div_euclid(SECOND_US);
        let (start_s, end_s) = match level {
            Level::Minute => self.clock(60, t_s),
            Level::Hour => self.clock(3_600, t_s),
            Level::Day | Level::Week | Level::Month | Level::Year => {
                let (first, next) = self.days(level, self.day(t_s));
                (self.day_start(first), self.day_start(next))
            }
        };
        Bucket {
            start_us: start_s.saturating_mul(SECOND_US),
            end_us: end_s.saturating_mul(SECOND_US),
        }
    }

    /// Returns the start of the time partition with the bucket of `level` at `bucket_start_us`:
    /// minutes by local day; hours, days and months by month; weeks by the year in which they
    /// begin, and years by year.
    pub fn partition(&self, level: Level, bucket_start_us: i64) -> i64 {
        self.bucket(partitioned_by(level), bucket_start_us).start_us
    }

    /// Returns the range from the start of a partition's first bucket to the end of its last one.
    pub fn partition_window(&self, level: Level, partition_us: i64) -> Bucket {
        let whole = self.bucket(partitioned_by(level), partition_us);
        // A week may extend past the end of its year.
        let first_from = |t_us: i64| {
            let bucket = self.bucket(level, t_us);
            if bucket.start_us < t_us {
                bucket.end_us
            } else {
                bucket.start_us
            }
        };
        Bucket {
            start_us: first_from(whole.start_us),
            end_us: first_from(whole.end_us),
        }
    }

    /// Returns the zone whose local times make the buckets.
    pub fn zone(&self) -> Tz {
        self.zone
    }

    /// Returns the seconds that local time is ahead of UTC at `t_s`.
    pub fn offset_s(&self, t_s: i64) -> i64 {
        if self.zone == Tz::UTC {
            return 0;
        }
        self.zone.offset_s(t_s)
    }

    /// Returns the microseconds that local time is ahead of UTC at `t_us`.
    pub fn offset_us(&self, t_us: i64) -> i64 {
        self.offset_s(t_us.div_euclid(SECOND_US)) * SECOND_US
    }

    /// Returns the interval of `len_s` local seconds around `t_s`, cut at changes of offset.
    fn clock(&self, len_s: i64, t_s: i64) -> (i64, i64) {
        if self.zone == Tz::UTC {
            let start = t_s.div_euclid(len_s) * len_s;
            return (start, start + len_s);
        }
        let (offset, span) = self.zone.offset_span(t_s);
        let start = (t_s + offset).div_euclid(len_s) * len_s - offset;
        (start.max(span.start), (start + len_s).min(span.end))
    }

    /// Returns the day (since 1970-01-01) whose interval holds `t_s`.
    fn day(&self, t_s: i64) -> i64 {
        let mut day = (t_s + self.offset_s(t_s)).div_euclid(DAY_S);
        // The loop runs only after clocks were set back across midnight: they show the date before.
        while self.zone != Tz::UTC && self.day_start(day + 1) <= t_s {
            day += 1;
        }
        day
    }

    /// Returns the first instant whose local date is `day` or later.
    fn day_start(&self, day: i64) -> i64 {
        let midnight = day * DAY_S;
        if self.zone == Tz::UTC {
            return midnight;
        }
        // Walk the spans of constant offset, beginning before any zone can have this date.
        let mut at = midnight - OFFSET_MAX_S;
        loop {
            let (offset, span) = self.zone.offset_span(at);
            let start = at.max(midnight - offset);
            if start < span.end {
                return start;
            }
            at = span.end;
        }
    }

    /// Returns the first day of the week, month or year of `day`, and of the next one.
    fn days(&self, level: Level, day: i64) -> (i64, i64) {
        match level {
            Level::Week => {
                // 1970-01-01 was a Thursday: the Sunday before it is day -4, the Monday -3.
                let shift = match self.week {
                    WeekStart::Sunday => 4,
                    WeekStart::Monday => 3,
                };
                let first = (day + shift).div_euclid(7) * 7 - shift;
                (first, first + 7)
            }
            Level::Month => {
                let (year, month) = year_month(day + i64::from(seeded::is(Bug::MonthOffByOne)));
                let next = if month == 12 {
                    (year + 1, 1)
                } else {
                    (year, month + 1)
                };
                (first_day(year, month), first_day(next.0, next.1))
            }
            Level::Year => {
                let (year, _) = year_month(day);
                (first_day(year, 1), first_day(year + 1, 1))
            }
            Level::Minute | Level::Hour | Level::Day => (day, day + 1),
        }
    }
}

/// A calendar that caches the last bucket of each level: a sorted instant costs one comparison.
#[derive(Debug, Clone)]
pub struct Cursor {
    calendar: Calendar,
    last: [Bucket; 6],
}

impl Cursor {
    /// Creates a cursor over `calendar`.
    pub fn new(calendar: Calendar) -> Self {
        // An empty bucket contains no instant, so the first call always computes the bucket.
        Self {
            calendar,
            last: [Bucket {
                start_us: 0,
                end_us: 0,
            }; 6],
        }
    }

    /// Returns the bucket of `level` that holds `t_us`, as [`Calendar::bucket`] does.
    pub fn bucket(&mut self, level: Level, t_us: i64) -> Bucket {
        let last = &mut self.last[level as usize];
        if !last.contains(t_us) {
            *last = self.calendar.bucket(level, t_us);
        }
        *last
    }
}

/// Returns year and month (1 to 12) of a day since 1970-01-01, by the proleptic Gregorian calendar.
fn year_month(day: i64) -> (i64, i64) {
    // Years begin in March here, so that the leap day is the last of its year.
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month)
}

/// Returns the day since 1970-01-01 on which a month begins.
fn first_day(year: i64, month: i64) -> i64 {
    let march_year = if month <= 2 { year - 1 } else { year };
    let era = march_year.div_euclid(400);
    let year_of_era = march_year.rem_euclid(400);
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
pub(crate) mod oracle;
#[cfg(test)]
mod places;
#[cfg(test)]
mod sweep;
#[cfg(test)]
mod tests;
pub mod zone;
