//! `$dateFromParts`.

use bson::Bson;
use chrono::{Duration, Months, NaiveDate, NaiveDateTime, Weekday};

use super::operands::{date, zone_of};
use super::zone::overflow;
use crate::mongo::error::{QueryError, Result};
use crate::mongo::expression::operands::{NULL, integral_index, misfit, nth};
use crate::mongo::expression::{Evaluated, is_nullish};

/// The names of the parts, in the order of the operands.
pub(super) const FROM_PARTS: &[&str] = &[
    "year",
    "month",
    "day",
    "isoWeekYear",
    "isoWeek",
    "isoDayOfWeek",
    "hour",
    "minute",
    "second",
    "millisecond",
    "timezone",
];
/// The place of the part that tells dates by weeks from others.
const ISO_YEAR: usize = 3;
const HOUR: usize = 6;
const ZONE: usize = 10;
/// The bound of parts but the year; they may be more than their unit has, and less than its first.
const PART_MAX: i64 = 32_767;

/// `$dateFromParts`
pub(super) fn date_from_parts(values: Vec<Evaluated>) -> Result<Evaluated> {
    let is_there = |place: usize| nth(&values, place).is_some();
    let is_iso = is_there(ISO_YEAR);
    if !is_iso && !is_there(0) {
        let message = "$dateFromParts needs 'year' or 'isoWeekYear'";
        return Err(QueryError::located(40516, message));
    }
    if is_iso && (0..ISO_YEAR).any(is_there) {
        let message = "$dateFromParts takes weeks or months, and not both";
        return Err(QueryError::located(40489, message));
    }
    if !is_iso && (ISO_YEAR..HOUR).any(is_there) {
        let message = "$dateFromParts takes weeks with 'isoWeekYear' alone";
        return Err(QueryError::located(40525, message));
    }
    if values
        .iter()
        .any(|value| value.is_some() && is_nullish(value))
    {
        return NULL;
    }
    let zone = zone_of(values.get(ZONE))?;
    let day = match is_iso {
        true => day_of_week(&values)?,
        false => day_of_month(&values)?,
    };
    let [hour, minute, second, millisecond] =
        [0, 1, 2, 3].map(|later| part(&values, HOUR + later, 0));
    let seconds = hour? * 3600 + minute? * 60 + second?;
    let time = Duration::milliseconds(seconds * 1000 + millisecond?);
    let local = day.checked_add_signed(time).ok_or_else(overflow)?;
    match zone {
        Some(zone) => date(zone.to_millis(local)?),
        None => NULL,
    }
}

fn day_of_month(values: &[Evaluated]) -> Result<NaiveDateTime> {
    let year = year(values, 0, 40523)?;
    let (months, days) = (part(values, 1, 1)? - 1, part(values, 2, 1)? - 1);
    let first = NaiveDate::from_ymd_opt(year, 1, 1).ok_or_else(overflow)?;
    let distance = Months::new(months.unsigned_abs() as u32);
    let month = match months < 0 {
        true => first.checked_sub_months(distance),
        false => first.checked_add_months(distance),
    };
    let day = month.and_then(|month| month.checked_add_signed(Duration::days(days)));
    Ok(day.ok_or_else(overflow)?.and_time(chrono::NaiveTime::MIN))
}

fn day_of_week(values: &[Evaluated]) -> Result<NaiveDateTime> {
    let year = year(values, ISO_YEAR, 31095)?;
    let (weeks, days) = (part(values, 4, 1)? - 1, part(values, 5, 1)? - 1);
    let first = NaiveDate::from_isoywd_opt(year, 1, Weekday::Mon).ok_or_else(overflow)?;
    let day = first.checked_add_signed(Duration::days(weeks * 7 + days));
    Ok(day.ok_or_else(overflow)?.and_time(chrono::NaiveTime::MIN))
}

fn year(values: &[Evaluated], place: usize, code: i32) -> Result<i32> {
    let year = integer(values, place, 1970)?;
    match (1..=9999).contains(&year) {
        true => Ok(year as i32),
        false => {
            let name = FROM_PARTS[place];
            let message = format!("the '{name}' of $dateFromParts is {year}; write 1 to 9999");
            Err(QueryError::located(code, message))
        }
    }
}

/// Returns a part but the year.
fn part(values: &[Evaluated], place: usize, without: i64) -> Result<i64> {
    let part = integer(values, place, without)?;
    match (-PART_MAX - 1..=PART_MAX).contains(&part) {
        true => Ok(part),
        false => {
            let name = FROM_PARTS[place];
            let message = format!("the '{name}' of $dateFromParts is {part}, beyond 16 bits");
            Err(QueryError::located(31034, message))
        }
    }
}

fn integer(values: &[Evaluated], place: usize, without: i64) -> Result<i64> {
    match nth(values, place) {
        None => Ok(without),
        Some(Bson::Null | Bson::Undefined) => Ok(without),
        Some(value) => integral_index(value).ok_or_else(|| {
            let operand = format!("the '{}' of $dateFromParts", FROM_PARTS[place]);
            misfit(40515, &operand, "an integer of 32 bits", Some(value))
        }),
    }
}
