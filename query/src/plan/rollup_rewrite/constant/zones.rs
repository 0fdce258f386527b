//! Spans of time in which a zone's offset from UTC does not change.

use arrow::array::timezone;
use chrono::{NaiveDateTime, Offset, TimeZone};
use chrono_tz::Tz;

use crate::tables::stream::prune::TimeRange;

const SECOND_US: i64 = 1_000_000;

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

    /// Returns the spans that meet a range of the years before 2600, in order.
    pub(super) fn spans(&self, range: TimeRange) -> Vec<OffsetSpan> {
        let zone = match self {
            Self::Ahead(offset_us) => {
                return vec![OffsetSpan {
                    range: TimeRange::ALL,
                    offset_us: *offset_us,
                }];
            }
            Self::Named(zone) => zone,
        };
        let firsts = zone
            .changes()
            .map(|(at_s, _)| at_s.saturating_mul(SECOND_US));
        let lasts = firsts.skip(1).map(|first| first - 1).chain([i64::MAX]);
        let spans = std::iter::zip(zone.changes(), lasts).map(|((at_s, offset_s), last)| {
            let first = at_s.saturating_mul(SECOND_US);
            OffsetSpan {
                range: TimeRange { first, last },
                offset_us: i64::from(offset_s) * SECOND_US,
            }
        });
        spans.filter(|span| span.within(range).is_some()).collect()
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

#[cfg(test)]
mod tests;
