//! Units of time, and arithmetic on dates with them.

use chrono::{Datelike, Duration, Months, NaiveDate, NaiveDateTime, Weekday};

use super::zone::{DateZone, overflow};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::expression::operands::shown;

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CalendarUnit {
    /// So many months.
    Months(i64),
    /// So many days.
    Days(i64),
    /// So many milliseconds.
    Millis(i64),
}

const HOUR_MS: i64 = 3_600_000;

impl CalendarUnit {
    const WEEK: Self = Self::Days(7);

    /// Reads the name of a unit.
    ///
    /// # Errors
    /// 9 if there is no such unit.
    pub(super) fn parse(text: &str) -> Result<Self> {
        Ok(match text {
            "year" => Self::Months(12),
            "quarter" => Self::Months(3),
            "month" => Self::Months(1),
            "week" => Self::WEEK,
            "day" => Self::Days(1),
            "hour" => Self::Millis(HOUR_MS),
            "minute" => Self::Millis(60_000),
            "second" => Self::Millis(1000),
            "millisecond" => Self::Millis(1),
            other => {
                let message = format!(
                    "there is no unit '{}' of time; units go from year to millisecond",
                    shown(other)
                );
                return Err(QueryError::failed_to_parse(message));
            }
        })
    }

    pub(super) fn is_week(self) -> bool {
        self == Self::WEEK
    }

    /// Returns the beginning of the bin of a date. Bins are of so many units, and one of them
    /// begins with the year 2000 of the zone, or with the first week that begins in it.
    pub(super) fn truncate(
        self,
        millis: i64,
        bins: i64,
        zone: DateZone,
        week_start: Weekday,
    ) -> Result<i64> {
        let local = zone.local(millis)?;
        match self {
            Self::Months(months) => {
                let size = bins.checked_mul(months).ok_or_else(overflow)?;
                let month = months_since_2000(&local);
                let begin = month - month.rem_euclid(size);
                zone.to_millis(first_of_month(begin)?)
            }
            Self::Days(days) => {
                let size = bins.checked_mul(days).ok_or_else(overflow)?;
                let reference = match self.is_week() {
                    true => first_week(week_start)?,
                    false => year_2000()?,
                };
                let day = local.date().signed_duration_since(reference).num_days();
                let begin = day - day.rem_euclid(size);
                let begin = Duration::try_days(begin).ok_or_else(overflow)?;
                let begin = reference.checked_add_signed(begin).ok_or_else(overflow)?;
                zone.to_millis(midnight(begin))
            }
            Self::Millis(unit) => {
                let size = bins.checked_mul(unit).ok_or_else(overflow)?;
                let reference = zone.to_millis(midnight(year_2000()?))?;
                let since = millis.checked_sub(reference).ok_or_else(overflow)?;
                Ok(millis - since.rem_euclid(size))
            }
        }
    }

    /// Returns the date so many units later. Months end on their last day, and days and longer
    /// units keep the time that clocks show.
    pub(super) fn add(self, millis: i64, amount: i64, zone: DateZone) -> Result<i64> {
        let size = match self {
            Self::Months(size) | Self::Days(size) | Self::Millis(size) => size,
        };
        let by = amount.checked_mul(size).ok_or_else(overflow)?;
        let moved = match self {
            Self::Millis(_) => return millis.checked_add(by).ok_or_else(overflow),
            Self::Days(_) => {
                let by = Duration::try_days(by).ok_or_else(overflow)?;
                zone.local(millis)?.checked_add_signed(by)
            }
            Self::Months(_) => {
                let months = u32::try_from(by.unsigned_abs()).map_err(|_| overflow())?;
                let local = zone.local(millis)?;
                match by < 0 {
                    true => local.checked_sub_months(Months::new(months)),
                    false => local.checked_add_months(Months::new(months)),
                }
            }
        };
        let moved = moved.ok_or_else(overflow)?;
        if moved == zone.local(millis)? {
            return Ok(millis);
        }
        zone.to_millis(moved)
    }

    /// Returns how many beginnings of a unit lie between two dates.
    pub(super) fn difference(
        self,
        from: i64,
        to: i64,
        zone: DateZone,
        week_start: Weekday,
    ) -> Result<i64> {
        let number = |millis: i64| -> Result<i64> {
            let local = zone.local(millis)?;
            Ok(match self {
                Self::Months(size) => months_since_2000(&local).div_euclid(size),
                Self::Days(size) => {
                    let reference = first_week(week_start)?;
                    let days = local.date().signed_duration_since(reference).num_days();
                    days.div_euclid(size)
                }
                Self::Millis(HOUR_MS) => {
                    // The offset of a zone need not be of whole hours.
                    let past = i64::from(zone.offset(millis)?) * 1000 % HOUR_MS;
                    (millis + past).div_euclid(HOUR_MS)
                }
                Self::Millis(size) => millis.div_euclid(size),
            })
        };
        number(to)?.checked_sub(number(from)?).ok_or_else(overflow)
    }
}

fn months_since_2000(time: &NaiveDateTime) -> i64 {
    (i64::from(time.year()) - 2000) * 12 + i64::from(time.month0())
}

fn year_2000() -> Result<NaiveDate> {
    NaiveDate::from_ymd_opt(2000, 1, 1).ok_or_else(overflow)
}

fn first_of_month(month: i64) -> Result<NaiveDateTime> {
    let year = i32::try_from(2000 + month.div_euclid(12)).map_err(|_| overflow())?;
    let month = month.rem_euclid(12) as u32 + 1;
    let first = NaiveDate::from_ymd_opt(year, month, 1).ok_or_else(overflow)?;
    Ok(midnight(first))
}

/// Returns the first day of 2000 that is a day of the week.
fn first_week(start: Weekday) -> Result<NaiveDate> {
    let first = year_2000()?;
    let days = first.weekday().days_since(start);
    let later = i64::from((7 - days) % 7);
    first
        .checked_add_signed(Duration::days(later))
        .ok_or_else(overflow)
}

fn midnight(date: NaiveDate) -> NaiveDateTime {
    date.and_time(chrono::NaiveTime::MIN)
}

/// Reads a day of the week, in full or by its first three letters.
///
/// # Errors
/// 9 if there is no such day.
pub(super) fn parse_weekday(text: &str) -> Result<Weekday> {
    const DAYS: [(&str, Weekday); 7] = [
        ("monday", Weekday::Mon),
        ("tuesday", Weekday::Tue),
        ("wednesday", Weekday::Wed),
        ("thursday", Weekday::Thu),
        ("friday", Weekday::Fri),
        ("saturday", Weekday::Sat),
        ("sunday", Weekday::Sun),
    ];
    let lower = text.to_ascii_lowercase();
    let found = DAYS
        .iter()
        .find(|(name, _)| lower == *name || lower == name[..3]);
    found.map(|(_, day)| *day).ok_or_else(|| {
        let message = format!(
            "there is no day '{}' of the week; write it in English",
            shown(text)
        );
        QueryError::failed_to_parse(message)
    })
}
