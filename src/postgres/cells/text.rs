//! Values as text, as PostgreSQL writes them with `DateStyle = ISO`, `IntervalStyle = postgres` and
//! `bytea_output = hex`.

use std::io::Write;

use bytes::{BufMut, BytesMut};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Offset, TimeZone, Timelike};
use chrono_tz::Tz;

use super::{Cells, values_of};

const NANOS_PER_MICRO: i64 = 1_000;
const MICROS_PER_SECOND: i64 = 1_000_000;
/// Days from 0001-01-01, where chrono counts from, to 1970.
const DAYS_BEFORE_1970: i32 = 719_163;

impl Cells {
    /// Appends a value that is not null. Timestamps are in the zone of the session.
    pub(in crate::postgres) fn text(&self, row: usize, zone: Tz, out: &mut BytesMut) {
        match self {
            Self::Null => {}
            Self::Bool(a) => out.put_u8(if a.value(row) { b't' } else { b'f' }),
            Self::Int2(a) => put(out, format_args!("{}", a.value(row))),
            Self::Int4(a) => put(out, format_args!("{}", a.value(row))),
            Self::Int8(a) => put(out, format_args!("{}", a.value(row))),
            Self::Oid(a) => put(out, format_args!("{}", a.value(row))),
            Self::Unsigned(a) => put(out, format_args!("{}", a.value(row))),
            Self::Float4(a) => {
                let value = a.value(row);
                float(&format!("{value:e}"), f64::from(value), 6, out);
            }
            Self::Float8(a) => float(&format!("{:e}", a.value(row)), a.value(row), 15, out),
            Self::Text(a) | Self::Json(a) | Self::Numeric(a) => plain(a.value(row), out),
            Self::View(a) => plain(a.value(row), out),
            Self::Bytes(a) => {
                out.put_slice(b"\\x");
                for byte in a.value(row) {
                    put(out, format_args!("{byte:02x}"));
                }
            }
            Self::Timestamp(a, true) => zoned(a.value(row), zone, out),
            Self::Timestamp(a, false) => match DateTime::from_timestamp_micros(a.value(row)) {
                Some(at) => timestamp(at.naive_utc(), "", out),
                None => beyond(a.value(row), out),
            },
            Self::Date(a) => {
                let days = a.value(row).checked_add(DAYS_BEFORE_1970);
                match days.and_then(NaiveDate::from_num_days_from_ce_opt) {
                    Some(day) => {
                        date(day, out);
                        put(out, format_args!("{}", era(day)));
                    }
                    None => beyond(a.value(row).into(), out),
                }
            }
            Self::Time(a) => time_of_day(a.value(row), out),
            Self::Interval(a) => {
                let value = a.value(row);
                interval(value.months, value.days, value.nanoseconds, out);
            }
            Self::List(a, values, _) => list(values, values_of(a, row), zone, out),
        }
    }
}

fn put(out: &mut BytesMut, text: std::fmt::Arguments<'_>) {
    let written = out.writer().write_fmt(text);
    written.expect("BUG: memory takes what is written");
}

/// Appends a text. PostgreSQL's text has no NUL, and clients would end it there.
fn plain(text: &str, out: &mut BytesMut) {
    let from = out.len();
    out.put_slice(text.as_bytes());
    if memchr::memchr(0, &out[from..]).is_some() {
        for byte in &mut out[from..] {
            if *byte == 0 {
                *byte = b' ';
            }
        }
    }
}

/// Appends a float by its shortest digits: as a power of ten beyond `digits` digits before the
/// point, or four zeros after it.
fn float(shortest: &str, value: f64, digits: i32, out: &mut BytesMut) {
    if !value.is_finite() {
        return out.put_slice(match value {
            v if v.is_nan() => b"NaN",
            v if v > 0.0 => b"Infinity",
            _ => b"-Infinity",
        });
    }
    let (mantissa, exponent) = shortest.split_once('e').expect("BUG: it has an exponent");
    let exponent: i32 = exponent.parse().expect("BUG: an exponent is a number");
    if (-4..digits).contains(&exponent) {
        // Display writes the same digits without an exponent.
        return match digits {
            6 => put(out, format_args!("{}", value as f32)),
            _ => put(out, format_args!("{value}")),
        };
    }
    put(
        out,
        format_args!(
            "{mantissa}e{}{:02}",
            if exponent < 0 { '-' } else { '+' },
            exponent.abs()
        ),
    );
}

/// Appends an instant in a zone, with its offset.
fn zoned(micros: i64, zone: Tz, out: &mut BytesMut) {
    let Some(at) = DateTime::from_timestamp_micros(micros) else {
        return beyond(micros, out);
    };
    if zone == Tz::UTC {
        return timestamp(at.naive_utc(), "+00", out);
    }
    let offset = zone.offset_from_utc_datetime(&at.naive_utc()).fix();
    let seconds = offset.local_minus_utc();
    let sign = if seconds < 0 { '-' } else { '+' };
    let (hours, rest) = (seconds.abs() / 3600, seconds.abs() % 3600);
    let mut text = format!("{sign}{hours:02}");
    if rest != 0 {
        text += &format!(":{:02}", rest / 60);
    }
    if rest % 60 != 0 {
        text += &format!(":{:02}", rest % 60);
    }
    match at.naive_utc().checked_add_offset(offset) {
        Some(local) => timestamp(local, &text, out),
        None => beyond(micros, out),
    }
}

/// Appends an instant beyond the calendar, which no event can have.
fn beyond(value: i64, out: &mut BytesMut) {
    out.put_slice(if value < 0 { b"-infinity" } else { b"infinity" });
}

fn timestamp(at: NaiveDateTime, zone: &str, out: &mut BytesMut) {
    date(at.date(), out);
    out.put_u8(b' ');
    two_each([at.hour(), at.minute(), at.second()], out);
    fraction(at.nanosecond() % 1_000_000_000 / 1_000, out);
    out.put_slice(zone.as_bytes());
    out.put_slice(era(at.date()).as_bytes());
}

/// Appends a year, a month and a day. Years before 1 count backwards, with [`era`] at the end.
fn date(day: NaiveDate, out: &mut BytesMut) {
    let year = match day.year() {
        year if year > 0 => year,
        before => 1 - before,
    };
    if let (Ok(century), true) = (u8::try_from(year / 100), year < 10_000) {
        out.put_slice(&two(century.into()));
        out.put_slice(&two((year % 100).unsigned_abs()));
    } else {
        put(out, format_args!("{year}"));
    }
    for part in [day.month(), day.day()] {
        out.put_u8(b'-');
        out.put_slice(&two(part));
    }
}

fn era(day: NaiveDate) -> &'static str {
    if day.year() > 0 { "" } else { " BC" }
}

/// Returns the two digits of a number below 100.
fn two(number: u32) -> [u8; 2] {
    let digit = |n: u32| b'0' + u8::try_from(n % 10).expect("BUG: a digit");
    [digit(number / 10), digit(number)]
}

fn two_each(parts: [u32; 3], out: &mut BytesMut) {
    for (n, part) in parts.into_iter().enumerate() {
        if n > 0 {
            out.put_u8(b':');
        }
        out.put_slice(&two(part));
    }
}

/// Appends microseconds of a second without the zeros at the end.
fn fraction(micros: u32, out: &mut BytesMut) {
    if micros > 0 {
        put(out, format_args!(".{micros:06}"));
        while out.last() == Some(&b'0') {
            out.truncate(out.len() - 1);
        }
    }
}

fn time_of_day(micros: i64, out: &mut BytesMut) {
    let seconds = u32::try_from(micros / MICROS_PER_SECOND).unwrap_or_default();
    two_each([seconds / 3600, seconds / 60 % 60, seconds % 60], out);
    fraction(
        u32::try_from(micros % MICROS_PER_SECOND).unwrap_or_default(),
        out,
    );
}

/// Appends an interval: `1 year 2 mons 3 days 04:05:06.7`.
fn interval(months: i32, days: i32, nanos: i64, out: &mut BytesMut) {
    let from = out.len();
    let mut is_negative = false;
    for (count, unit) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if count != 0 {
            let space = if out.len() > from { " " } else { "" };
            // After a negative part, a positive one has its sign.
            let sign = if is_negative && count > 0 { "+" } else { "" };
            let plural = if count == 1 { "" } else { "s" };
            put(out, format_args!("{space}{sign}{count} {unit}{plural}"));
            is_negative = count < 0;
        }
    }
    let micros = nanos / NANOS_PER_MICRO;
    if micros == 0 && out.len() > from {
        return;
    }
    if out.len() > from {
        out.put_u8(b' ');
    }
    match micros {
        negative if negative < 0 => out.put_u8(b'-'),
        _ if is_negative => out.put_u8(b'+'),
        _ => {}
    }
    let micros = micros.unsigned_abs();
    let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    put(
        out,
        format_args!("{hours:02}:{minutes:02}:{:02}", seconds % 60),
    );
    fraction(u32::try_from(rest).expect("BUG: below a million"), out);
}

/// Appends a list as PostgreSQL's array: `{1,NULL,"a b"}`.
fn list(values: &Cells, rows: std::ops::Range<usize>, zone: Tz, out: &mut BytesMut) {
    out.put_u8(b'{');
    let mut one = BytesMut::new();
    for (n, row) in rows.enumerate() {
        if n > 0 {
            out.put_u8(b',');
        }
        if values.is_null(row) {
            out.put_slice(b"NULL");
            continue;
        }
        one.clear();
        values.text(row, zone, &mut one);
        if matches!(values, Cells::List(..)) || !needs_quotes(&one) {
            out.put_slice(&one);
            continue;
        }
        out.put_u8(b'"');
        for byte in &one {
            if matches!(byte, b'"' | b'\\') {
                out.put_u8(b'\\');
            }
            out.put_u8(*byte);
        }
        out.put_u8(b'"');
    }
    out.put_u8(b'}');
}

fn needs_quotes(value: &[u8]) -> bool {
    let is_special =
        |b: &u8| matches!(b, b'{' | b'}' | b',' | b'"' | b'\\') || b.is_ascii_whitespace();
    value.is_empty() || value.eq_ignore_ascii_case(b"null") || value.iter().any(is_special)
}
