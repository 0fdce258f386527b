//! Stamps without a zone, some of them without a year.
//!
//! * RFC 3164, section 4.1.2: `Nov  3 09:23:38`. A year behind the day and a fraction of a second
//!   occur, too.
//! * nginx's error log: `2026/11/26 09:23:38`.
//! * Apache's error log: `Sun Dec 04 04:47:44.902022 2005`, the fraction since 2.4.

use chrono::{DateTime, NaiveDateTime};
use jiff::tz::TimeZone;

use super::{AccessStamps, date, first_digits, in_range, local, month_of, read_text, two};

const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;
/// The most years that lie between two days of the same date: those around 1900.
const LEAP_YEARS_APART: i64 = 8;

/// The place and time at which stamps were written, as far as they do not say so themselves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written<'a> {
    /// The zone; UTC when absent.
    pub(crate) zone: Option<&'a TimeZone>,
    /// The year of stamps without one; when absent, that of the last such day before the receipt.
    pub(crate) year: Option<i16>,
    /// Time of receipt, microseconds since 1970.
    pub(crate) received_us: i64,
    /// The address of the sender, where its protocol has one: the host of lines that name none.
    pub(crate) sender: Option<&'a str>,
}

impl Written<'_> {
    /// Makes the place and time of stamps of which only the form matters.
    pub(crate) fn unknown() -> Self {
        Self {
            zone: None,
            year: None,
            received_us: 0,
            sender: None,
        }
    }
}

/// Reads `Mmm dd [yyyy ]hh:mm:ss[.fraction]`. Returns the time in microseconds since 1970 and the
/// bytes of the stamp.
pub(crate) fn read_bsd(text: &[u8], written: Written<'_>) -> Option<(i64, usize)> {
    let month = month_of(text.get(..3)?)?;
    let (day, mut at) = match text.get(3..)? {
        [b' ', b' ', d @ b'1'..=b'9', b' ', ..] => (i64::from(d - b'0'), 7),
        [b' ', d @ b'1'..=b'9', b' ', ..] => (i64::from(d - b'0'), 6),
        [b' ', _, _, b' ', ..] => (two(text, 4)?, 7),
        _ => return None,
    };
    let named = match text.get(at..at + 5)? {
        [year @ .., b' '] if year.iter().all(u8::is_ascii_digit) => {
            at += 5;
            Some(two(year, 0)? * 100 + two(year, 2)?)
        }
        _ => None,
    };
    let (of_day_us, bytes) = clock(&text[at..])?;
    let of_year = |year: i64| {
        let us = date(year, month, day)? * DAY_US + of_day_us;
        in_range(local(us, written.zone)?)
    };
    let us = match named.or(written.year.map(i64::from)) {
        Some(year) => of_year(year)?,
        // A clock that is fast by less than a day does not set events back by a year.
        None => last_before(written.received_us.saturating_add(DAY_US), of_year)?,
    };
    Some((us, at + bytes))
}

/// Returns the latest time that is not after another; `of_year` returns that of a year.
fn last_before(latest_us: i64, of_year: impl Fn(i64) -> Option<i64>) -> Option<i64> {
    let latest = jiff::Timestamp::from_microsecond(latest_us).ok()?;
    // In a zone west of Greenwich the year may still be the one before.
    let newest = i64::from(latest.to_zoned(TimeZone::UTC).year()) + 1;
    let mut years = (0..=LEAP_YEARS_APART + 1).map(|ago| newest - ago);
    years.find_map(|year| of_year(year).filter(|us| *us <= latest_us))
}

/// Reads `yyyy/mm/dd hh:mm:ss`.
pub(crate) fn read_slashes(text: &[u8], written: Written<'_>) -> Option<i64> {
    let text: &[u8; 19] = text.try_into().ok()?;
    if text[4] != b'/' || text[7] != b'/' || text[10] != b' ' {
        return None;
    }
    let year = two(text, 0)? * 100 + two(text, 2)?;
    let days = date(year, two(text, 5)?, two(text, 8)?)?;
    let (of_day_us, _) = clock(&text[11..])?;
    in_range(local(days * DAY_US + of_day_us, written.zone)?)
}

/// Reads `Day Mmm dd hh:mm:ss[.fraction] yyyy`.
pub(crate) fn read_ctime(text: &[u8], written: Written<'_>) -> Option<i64> {
    let [_, _, _, b' ', rest @ ..] = text else {
        return None;
    };
    let month = month_of(rest.get(..3)?)?;
    let day = match rest.get(3..7)? {
        [b' ', b' ', d @ b'1'..=b'9', b' '] => i64::from(d - b'0'),
        [b' ', _, _, b' '] => two(rest, 4)?,
        _ => return None,
    };
    let (of_day_us, bytes) = clock(&rest[7..])?;
    let year: &[u8; 5] = rest[7 + bytes..].try_into().ok()?;
    let year = match year[0] {
        b' ' => two(year, 1)? * 100 + two(year, 3)?,
        _ => return None,
    };
    let us = date(year, month, day)? * DAY_US + of_day_us;
    in_range(local(us, written.zone)?)
}

/// Reads a whole text in any spelling that logs have: those of this file and of `stamp.rs`.
pub(crate) fn read_any(text: &str, written: Written<'_>) -> Option<i64> {
    let bytes = text.trim_matches(' ').as_bytes();
    let access = || {
        let stamp = bytes.try_into().ok()?;
        AccessStamps::new().read(stamp).ok()
    };
    let bsd = || {
        let (us, length) = read_bsd(bytes, written)?;
        (length == bytes.len()).then_some(us)
    };
    read_text(text, written.zone)
        .or_else(access)
        .or_else(bsd)
        .or_else(|| read_slashes(bytes, written))
        .or_else(|| read_ctime(bytes, written))
}

/// Reads a whole text in a format of `strftime`, in a zone (or UTC) where it has none itself.
pub(crate) fn read_format(text: &str, format: &str, zone: Option<&TimeZone>) -> Option<i64> {
    if let Ok(time) = DateTime::parse_from_str(text, format) {
        return in_range(time.timestamp_micros());
    }
    let time = NaiveDateTime::parse_from_str(text, format).ok()?;
    in_range(local(time.and_utc().timestamp_micros(), zone)?)
}

/// Reads `hh:mm:ss[.fraction]`. Returns the microseconds of the day and the bytes of the time.
fn clock(text: &[u8]) -> Option<(i64, usize)> {
    if text.len() < 8 || text[2] != b':' || text[5] != b':' {
        return None;
    }
    let (hour, minute, second) = (two(text, 0)?, two(text, 3)?, two(text, 6)?);
    // A leap second is the first second of the next minute, as in RFC 3339 stamps here.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut us = (hour * 3600 + minute * 60 + second) * SECOND_US;
    let mut bytes = 8;
    if let [b'.', fraction @ ..] = &text[8..] {
        let digits = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits > 0 {
            us += first_digits(&fraction[..digits], 6);
            bytes += 1 + digits;
        }
    }
    Some((us, bytes))
}

#[cfg(test)]
mod tests;
