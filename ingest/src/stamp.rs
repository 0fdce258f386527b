//! Points in time as logs spell them, to microseconds since 1970, UTC.
//!
//! Here are three spellings: the access log's `10/Oct/2000:13:55:36 -0700`, RFC 3339 (also with a
//! space for the `T`, a comma for the point, and without zone), and epoch numbers whose unit
//! follows from their magnitude; `local.rs` has those without zone or year. Digits beyond the
//! microsecond are cut off (floored), never rounded, so that an event never moves into the next
//! bucket. Points outside the years 1 to 9999 do not parse, and an event can only have a point that
//! every function of time can hold ([`is_held`]).

mod local;

use std::sync::LazyLock;

use chrono::DateTime;
use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};

pub(crate) use self::local::{Written, read_any, read_bsd, read_ctime, read_format, read_slashes};

/// 0001-01-01T00:00:00Z in microseconds.
const YEAR_1_US: i64 = -62_135_596_800_000_000;
/// 10000-01-01T00:00:00Z in microseconds, the first point that is out of range.
const YEAR_10000_US: i64 = 253_402_300_800_000_000;

/// 1678-01-01T00:00:00Z and 2262-01-01T00:00:00Z in microseconds. Functions of time count
/// nanoseconds in 64 bits, from 1677-09-21 to 2262-04-11: in these whole years the start of a
/// bucket of any width and the local time of any zone lie within that too.
const HELD_US: std::ops::Range<i64> = -9_214_560_000_000_000..9_214_646_400_000_000;

/// Below this magnitude an epoch number counts seconds (to the year 5138) …
const SECONDS_BELOW: i128 = 100_000_000_000;
/// … below this one milliseconds …
const MILLIS_BELOW: i128 = 100_000_000_000_000;
/// … below this one microseconds, and from it on nanoseconds.
const MICROS_BELOW: i128 = 100_000_000_000_000_000;

/// Returns the days from 1970-01-01 to a date of the proleptic Gregorian calendar, years 0 to 9999.
///
/// The year is taken to begin in March, so that the leap day is its last; 400 years are 146,097
/// days and 719,468 days lie between 0000-03-01 and 1970-01-01.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9).rem_euclid(12)) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Returns the days since 1970 of a date, when there is such a date.
fn date(year: i64, month: i64, day: i64) -> Option<i64> {
    let exists = (1..=12).contains(&month) && day >= 1 && day <= days_in_month(year, month);
    exists.then(|| days_from_civil(year, month, day))
}

/// Returns whether every function of time can hold a point.
pub(crate) fn is_held(us: i64) -> bool {
    HELD_US.contains(&us)
}

fn in_range(us: i64) -> Option<i64> {
    (YEAR_1_US..YEAR_10000_US).contains(&us).then_some(us)
}

#[inline]
fn two(bytes: &[u8], at: usize) -> Option<i64> {
    let (a, b) = (
        bytes[at].wrapping_sub(b'0'),
        bytes[at + 1].wrapping_sub(b'0'),
    );
    (a <= 9 && b <= 9).then(|| i64::from(a) * 10 + i64::from(b))
}

fn month_of(name: &[u8]) -> Option<i64> {
    Some(match name {
        b"Jan" => 1,
        b"Feb" => 2,
        b"Mar" => 3,
        b"Apr" => 4,
        b"May" => 5,
        b"Jun" => 6,
        b"Jul" => 7,
        b"Aug" => 8,
        b"Sep" => 9,
        b"Oct" => 10,
        b"Nov" => 11,
        b"Dec" => 12,
        _ => return None,
    })
}

/// Place where a stamp stops being one: the offset of the offending byte in it, and the text that
/// belongs there.
pub(crate) type Misfit = (usize, &'static str);

/// Reader of access-log stamps. Neighbouring lines share date and zone, so the last of each is
/// kept.
#[derive(Debug, Clone)]
pub(crate) struct AccessStamps {
    date_text: [u8; 11],
    date_us: i64,
    zone_text: [u8; 5],
    zone_us: i64,
}

impl AccessStamps {
    /// `dd/Mon/yyyy:HH:MM:SS +hhmm`, in bytes.
    pub(crate) const LEN: usize = 26;

    pub(crate) fn new() -> Self {
        // A true stamp: what the cache begins with is read as one.
        Self {
            date_text: *b"01/Jan/1970",
            date_us: 0,
            zone_text: *b"+0000",
            zone_us: 0,
        }
    }

    /// Reads a stamp, which must be the whole of `text`.
    #[inline]
    pub(crate) fn read(&mut self, text: &[u8; Self::LEN]) -> Result<i64, Misfit> {
        if text[..11] != self.date_text {
            self.read_date(text)?;
        }
        if text[11] != b':' || text[14] != b':' || text[17] != b':' || text[20] != b' ' {
            let at = [11, 14, 17, 20]
                .into_iter()
                .find(|&at| text[at] != if at == 20 { b' ' } else { b':' });
            return Err((
                at.unwrap_or(11),
                "a time as HH:MM:SS after a colon, then a space",
            ));
        }
        let hour = two(text, 12)
            .filter(|&h| h < 24)
            .ok_or((12, "an hour from 00 to 23"))?;
        let minute = two(text, 15)
            .filter(|&m| m < 60)
            .ok_or((15, "a minute from 00 to 59"))?;
        let second = two(text, 18)
            .filter(|&s| s < 60)
            .ok_or((18, "a second from 00 to 59"))?;
        if text[21..] != self.zone_text {
            self.read_zone(text)?;
        }
        let us = self.date_us + (hour * 3600 + minute * 60 + second) * 1_000_000 - self.zone_us;
        in_range(us).ok_or((7, "a year from 0001 to 9999"))
    }

    #[cold]
    fn read_date(&mut self, text: &[u8; Self::LEN]) -> Result<(), Misfit> {
        let day = two(text, 0).ok_or((0, "a day of two digits"))?;
        if text[2] != b'/' {
            return Err((2, "a slash"));
        }
        let month = month_of(&text[3..6]).ok_or((3, "an English month name such as Jan"))?;
        if text[6] != b'/' {
            return Err((6, "a slash"));
        }
        let (century, rest) = two(text, 7)
            .zip(two(text, 9))
            .ok_or((7, "a year of four digits"))?;
        let days = date(century * 100 + rest, month, day).ok_or((0, "a day of that month"))?;
        self.date_text.copy_from_slice(&text[..11]);
        self.date_us = days * 86_400_000_000;
        Ok(())
    }

    #[cold]
    fn read_zone(&mut self, text: &[u8; Self::LEN]) -> Result<(), Misfit> {
        let sign = match text[21] {
            b'+' => 1,
            b'-' => -1,
            _ => return Err((21, "a zone as +hhmm or -hhmm")),
        };
        let hours = two(text, 22)
            .filter(|&h| h < 24)
            .ok_or((22, "hours of an offset from 00 to 23"))?;
        let minutes = two(text, 24)
            .filter(|&m| m < 60)
            .ok_or((24, "minutes of an offset from 00 to 59"))?;
        self.zone_text.copy_from_slice(&text[21..]);
        self.zone_us = sign * (hours * 60 + minutes) * 60_000_000;
        Ok(())
    }
}

/// Returns the point of a local time in a zone. A time that a change of offset skips is read with
/// the offset before the change; one that occurs twice is the first.
fn local(us: i64, zone: Option<&TimeZone>) -> Option<i64> {
    let Some(zone) = zone else { return Some(us) };
    let at = Offset::UTC.to_datetime(Timestamp::from_microsecond(us).ok()?);
    let (AmbiguousOffset::Unambiguous { offset }
    | AmbiguousOffset::Gap { before: offset, .. }
    | AmbiguousOffset::Fold { before: offset, .. }) = zone.to_ambiguous_timestamp(at).offset();
    Some(us - i64::from(offset.seconds()) * 1_000_000)
}

/// Returns the zone of an IANA name, by the rules that rollups follow; `None` when there is none.
pub fn zone(name: &str) -> Option<TimeZone> {
    static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
    ZONES.get(name).ok()
}

/// Reads RFC 3339, or an epoch number in text. A stamp without zone is in `zone`, or UTC.
pub(crate) fn read_text(text: &str, zone: Option<&TimeZone>) -> Option<i64> {
    let text = text.trim_matches(' ');
    read_rfc3339(text.as_bytes(), zone).or_else(|| read_epoch(text.as_bytes()))
}

fn read_rfc3339(text: &[u8], zone: Option<&TimeZone>) -> Option<i64> {
    if text.len() < 19 || text[4] != b'-' || text[7] != b'-' || text[13] != b':' || text[16] != b':'
    {
        return None;
    }
    if !matches!(text[10], b'T' | b't' | b' ') {
        return None;
    }
    let days = date(
        two(text, 0)? * 100 + two(text, 2)?,
        two(text, 5)?,
        two(text, 8)?,
    )?;
    // RFC 3339 allows a leap second, which is the first second of the next minute here.
    let (hour, minute, second) = (two(text, 11)?, two(text, 14)?, two(text, 17)?);
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut us = days * 86_400_000_000 + (hour * 3600 + minute * 60 + second) * 1_000_000;
    let mut rest = &text[19..];
    if let [b'.' | b',', fraction @ ..] = rest {
        let digits = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        us += first_digits(&fraction[..digits], 6);
        rest = &fraction[digits..];
    }
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    match rest {
        [] => in_range(local(us, zone)?),
        [b'Z' | b'z'] => in_range(us),
        b"UTC" | b"GMT" => in_range(us),
        [sign @ (b'+' | b'-'), offset @ ..] => {
            let minutes = match offset.len() {
                2 => two(offset, 0).filter(|&h| h < 24)? * 60,
                4 => {
                    two(offset, 0).filter(|&h| h < 24)? * 60 + two(offset, 2).filter(|&m| m < 60)?
                }
                5 if offset[2] == b':' => {
                    two(offset, 0).filter(|&h| h < 24)? * 60 + two(offset, 3).filter(|&m| m < 60)?
                }
                _ => return None,
            };
            let offset_us = minutes * 60_000_000;
            in_range(if *sign == b'+' {
                us - offset_us
            } else {
                us + offset_us
            })
        }
        _ => None,
    }
}

/// Returns the first `n` of some digits as a number, as if zeros followed them.
fn first_digits(digits: &[u8], n: usize) -> i64 {
    (0..n).fold(0, |sum, i| {
        sum * 10 + i64::from(digits.get(i).map_or(0, |d| d - b'0'))
    })
}

/// Reads a whole epoch number; its magnitude decides between s, ms, µs and ns.
pub(crate) fn read_integer(number: i128) -> Option<i64> {
    scale(number.unsigned_abs().try_into().ok()?, &[], number < 0)
}

/// Reads an epoch number with a fraction, by the shortest decimal that means this float.
pub(crate) fn read_float(number: f64) -> Option<i64> {
    if !number.is_finite() || number.abs() >= 1e20 {
        return None;
    }
    // `Display` of a float never writes an exponent; 1e20 bounds its length.
    read_epoch(number.to_string().as_bytes())
}

/// Reads `[-]digits[.digits]`.
fn read_epoch(text: &[u8]) -> Option<i64> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let whole_digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    if whole_digits == 0 || whole_digits > 20 {
        return None;
    }
    let whole = text[..whole_digits]
        .iter()
        .fold(0_i128, |sum, d| sum * 10 + i128::from(d - b'0'));
    let fraction = match &text[whole_digits..] {
        [] => &[],
        [b'.', fraction @ ..]
            if !fraction.is_empty() && fraction.iter().all(u8::is_ascii_digit) =>
        {
            fraction
        }
        _ => return None,
    };
    scale(whole, fraction, negative)
}

fn scale(whole: i128, fraction: &[u8], negative: bool) -> Option<i64> {
    // Digits of the fraction down to the microsecond.
    let (factor, digits) = if whole < SECONDS_BELOW {
        (1_000_000, 6)
    } else if whole < MILLIS_BELOW {
        (1_000, 3)
    } else {
        (1, 0)
    };
    let (mut us, mut cut) = (whole * factor, false);
    if whole >= MICROS_BELOW {
        cut = whole % 1_000 != 0;
        us = whole / 1_000;
    }
    us += i128::from(first_digits(fraction, digits));
    cut |= fraction.iter().skip(digits).any(|&d| d != b'0');
    let us = if negative { -us - i128::from(cut) } else { us };
    in_range(us.try_into().ok()?)
}

/// Returns the time inside an ObjectId of 24 hexadecimal digits: its first four bytes are seconds.
pub(crate) fn read_object_id(hex: &str) -> Option<i64> {
    if hex.len() != 24 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(&hex[..8], 16)
        .ok()
        .map(|seconds| i64::from(seconds) * 1_000_000)
}

/// Writes RFC 3339 in UTC with `Z`, a fraction only when it is not zero.
pub(crate) fn write(us: i64) -> String {
    match DateTime::from_timestamp_micros(us) {
        Some(t) if us % 1_000_000 == 0 => t.format("%Y-%m-%dT%H:%M:%SZ").to_string(),
        Some(t) => t.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
        None => format!("{us} µs"),
    }
}

#[cfg(test)]
mod tests;
