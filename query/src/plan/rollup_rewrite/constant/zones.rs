//! Spans of time in which a zone's offset from UTC does not change.

use std::str::FromStr;

use aggregator::{Calendar, WeekStart};
use arrow::array::timezone::Tz;
use chrono::{DateTime, Offset, TimeZone};

use crate::tables::stream::prune::TimeRange;

const SECOND_US: i64 = 1_000_000;
/// Interval of the search for changes of offset. Two changes of one zone are further apart than
/// this; `aggregator`'s calendar assumes the same.
const PROBE_S: i64 = 6 * 3_600;

/// A zone, with the data of the functions that compute with it.
#[derive(Debug, Clone)]
pub(super) enum Zone {
    /// Constant offset: microseconds ahead of UTC.
    Ahead(i64),
    /// Zone of rollups and of `time_bucket`.
    Calendar(Calendar),
    /// Zone of DataFusion's and Arrow's functions, by the name that they parse: a zone or an
    /// offset.
    Arrow(String, Tz),
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ahead(a), Self::Ahead(b)) => a == b,
            (Self::Calendar(a), Self::Calendar(b)) => a == b,
            (Self::Arrow(a, _), Self::Arrow(b, _)) => a == b,
            _ => false,
        }
    }
}

impl Zone {
    pub(super) const UTC: Self = Self::Ahead(0);

    /// Returns the zone of a timestamp type; `None` when there is no such zone.
    pub(super) fn of_arrow(name: &str) -> Option<Self> {
        match name {
            "UTC" | "+00:00" => Some(Self::UTC),
            name => Some(Self::Arrow(name.to_owned(), Tz::from_str(name).ok()?)),
        }
    }

    pub(super) fn of_calendar(calendar: Calendar) -> Self {
        let in_utc = |week| Calendar::new(chrono_tz::UTC, week);
        let is_utc = [WeekStart::Sunday, WeekStart::Monday]
            .map(in_utc)
            .contains(&calendar);
        if is_utc {
            Self::UTC
        } else {
            Self::Calendar(calendar)
        }
    }

    /// Returns the seconds by which local time is ahead of UTC.
    fn offset_s(&self, at_s: i64) -> i64 {
        match self {
            Self::Ahead(us) => us / SECOND_US,
            Self::Calendar(calendar) => calendar.offset_s(at_s),
            Self::Arrow(_, zone) => {
                let at = DateTime::from_timestamp(at_s, 0).map(|at| at.naive_utc());
                let offset = at.map(|at| zone.offset_from_utc_datetime(&at));
                offset.map_or(0, |offset| i64::from(offset.fix().local_minus_utc()))
            }
        }
    }

    /// Returns the spans that make up a range, in order.
    pub(super) fn spans(&self, range: TimeRange) -> Vec<Span> {
        if let Self::Ahead(offset_us) = *self {
            return vec![Span {
                first_us: i64::MIN,
                last_us: i64::MAX,
                offset_us,
            }];
        }
        let (first_s, end_s) = (
            range.first.div_euclid(SECOND_US),
            range.last.div_euclid(SECOND_US) + 1,
        );
        let mut spans = Vec::new();
        let (mut from_s, mut offset_s) = (first_s, self.offset_s(first_s));
        let mut push = |from_s: i64, end_s: i64, offset_s: i64| {
            spans.push(Span {
                first_us: from_s * SECOND_US,
                last_us: end_s * SECOND_US - 1,
                offset_us: offset_s * SECOND_US,
            });
        };
        let mut at_s = first_s;
        while at_s < end_s {
            let next_s = (at_s + PROBE_S).min(end_s);
            if self.offset_s(next_s) != offset_s {
                let change_s = self.change_s(at_s, next_s);
                push(from_s, change_s, offset_s);
                (from_s, offset_s) = (change_s, self.offset_s(change_s));
            }
            at_s = next_s;
        }
        push(from_s, end_s, offset_s);
        spans
    }

    /// Returns the first second of the offset at `high`, which is not the offset at `low`.
    fn change_s(&self, mut low: i64, mut high: i64) -> i64 {
        let before = self.offset_s(low);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.offset_s(middle) == before {
                true => low = middle,
                false => high = middle,
            }
        }
        high
    }
}

/// A span of constant offset, both ends included, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first_us: i64,
    pub(super) last_us: i64,
    /// Offset of local time from UTC.
    pub(super) offset_us: i64,
}

impl Span {
    /// Returns the part of the span that lies in a range.
    pub(super) fn within(self, range: TimeRange) -> Option<TimeRange> {
        let within = range.intersect(TimeRange {
            first: self.first_us,
            last: self.last_us,
        });
        (within.first <= within.last).then_some(within)
    }
}
