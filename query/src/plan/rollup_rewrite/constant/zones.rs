//! Spans of time in which a zone's offset from UTC does not change.

use arrow::array::timezone;
use chrono::{NaiveDateTime, Offset, TimeZone};
use chrono_tz::Tz;

use crate::tables::stream::prune::TimeRange;

const SECOND_US: i64 = 1_000_000;
/// Interval of the search for changes of offset. Two changes of one zone are further apart than
/// this; `aggregator`'s calendar assumes the same.
const PROBE_S: i64 = 6 * 3_600;

/// A zone, as rollups, our functions and those of DataFusion compute with it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Zone {
    /// Constant offset: microseconds ahead of UTC.
    Ahead(i64),
    /// Zone of the time zone database.
    Named(Tz),
}

impl Zone {
    pub(super) const UTC: Self = Self::Ahead(0);

    /// Returns the zone of a timestamp type; `None` when there is no such zone.
    pub(super) fn of_arrow(name: &str) -> Option<Self> {
        if let Ok(zone) = name.parse::<Tz>() {
            return Some(Self::of(zone));
        }
        // Every other zone of Arrow is an offset, the same one at all instants.
        let zone: timezone::Tz = name.parse().ok()?;
        let offset = zone.offset_from_utc_datetime(&NaiveDateTime::default());
        let ahead_s = i64::from(offset.fix().local_minus_utc());
        Some(Self::Ahead(ahead_s * SECOND_US))
    }

    pub(super) fn of(zone: Tz) -> Self {
        if zone == Tz::UTC {
            Self::UTC
        } else {
            Self::Named(zone)
        }
    }

    /// Returns the seconds by which local time is ahead of UTC.
    fn offset_s(&self, at_s: i64) -> i64 {
        match self {
            Self::Ahead(us) => us / SECOND_US,
            Self::Named(zone) => zone.offset_s(at_s),
        }
    }

    /// Returns the spans that make up a range, in order.
    pub(super) fn spans(&self, range: TimeRange) -> Vec<OffsetSpan> {
        if let Self::Ahead(offset_us) = *self {
            return vec![OffsetSpan {
                range: TimeRange::ALL,
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
            spans.push(OffsetSpan {
                range: TimeRange {
                    first: from_s * SECOND_US,
                    last: end_s * SECOND_US - 1,
                },
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

/// A span of constant offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OffsetSpan {
    pub(super) range: TimeRange,
    /// Offset of local time from UTC, microseconds.
    pub(super) offset_us: i64,
}

impl OffsetSpan {
    /// Returns the part of the span that lies in a range.
    pub(super) fn within(self, range: TimeRange) -> Option<TimeRange> {
        let within = range.intersect(self.range);
        (within.first <= within.last).then_some(within)
    }
}
