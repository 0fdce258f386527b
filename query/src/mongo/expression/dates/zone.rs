//! Time zones: names of the IANA database, and offsets like `+05:30`.

use std::str::FromStr;

use chrono::{DateTime, Duration, NaiveDateTime, Offset, TimeZone, Utc};
use chrono_tz::Tz;

use crate::mongo::error::{QueryError, Result};
use crate::mongo::expression::operands::shown;

/// A time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DateZone {
    /// Seconds east of UTC.
    Offset(i32),
    Named(Tz),
}

impl DateZone {
    pub(super) const UTC: Self = Self::Offset(0);

    /// Reads a zone.
    ///
    /// # Errors
    /// 40485 if there is no such zone.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let of_sign = |sign: i32| offset_seconds(&text[1..]).map(|s| Self::Offset(sign * s));
        let zone = match text.as_bytes().first() {
            _ if matches!(text, "Z" | "UTC" | "GMT") => Some(Self::UTC),
            Some(b'+') => of_sign(1),
            Some(b'-') => of_sign(-1),
            _ => Tz::from_str(text).ok().map(Self::Named),
        };
        zone.ok_or_else(|| {
            let message = format!(
                "there is no time zone '{}'; write a name of the IANA database, or +hh:mm",
                shown(text)
            );
            QueryError::located(40485, message)
        })
    }

    /// Returns the seconds east of UTC at a time in milliseconds since 1970.
    pub(super) fn offset(&self, millis: i64) -> Result<i32> {
        match self {
            Self::Offset(seconds) => Ok(*seconds),
            Self::Named(zone) => {
                let utc = utc(millis)?.naive_utc();
                Ok(zone.offset_from_utc_datetime(&utc).fix().local_minus_utc())
            }
        }
    }

    /// Returns the time that clocks show.
    pub(super) fn local(&self, millis: i64) -> Result<NaiveDateTime> {
        let offset = i64::from(self.offset(millis)?) * 1000;
        let local = millis.checked_add(offset).ok_or_else(overflow)?;
        Ok(utc(local)?.naive_utc())
    }

    /// Returns the milliseconds since 1970 at which clocks show a time: the first such time, and
    /// the time so much after a change of the clocks if they skip it.
    pub(super) fn to_millis(self, local: NaiveDateTime) -> Result<i64> {
        match self {
            Self::Offset(seconds) => {
                Ok(local.and_utc().timestamp_millis() - i64::from(seconds) * 1000)
            }
            Self::Named(zone) => {
                if let Some(time) = zone.from_local_datetime(&local).earliest() {
                    return Ok(time.timestamp_millis());
                }
                // No zone skips more than a day, and the offset before is right in the gap.
                let before = local
                    .checked_sub_signed(Duration::days(1))
                    .ok_or_else(overflow)?;
                let offset = self.offset(before.and_utc().timestamp_millis())?;
                Ok(local.and_utc().timestamp_millis() - i64::from(offset) * 1000)
            }
        }
    }
}

/// Returns the error of a date that is out of the range of dates.
pub(super) fn overflow() -> QueryError {
    QueryError::located(15, "a date lies beyond those that the calendar has here")
}

fn utc(millis: i64) -> Result<DateTime<Utc>> {
    DateTime::from_timestamp_millis(millis).ok_or_else(overflow)
}

/// Reads the hours and the minutes of an offset: `05`, `0530` or `05:30`.
fn offset_seconds(text: &str) -> Option<i32> {
    let digits = match text.len() {
        2 | 4 => text.to_owned(),
        5 if text.as_bytes()[2] == b':' => text.replacen(':', "", 1),
        _ => return None,
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let hours: i32 = digits.get(..2)?.parse().ok()?;
    let minutes: i32 = match digits.get(2..) {
        Some("") | None => 0,
        Some(minutes) => minutes.parse().ok()?,
    };
    Some(hours * 3600 + minutes * 60)
}
