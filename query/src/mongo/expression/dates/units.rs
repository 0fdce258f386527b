//! `$dateTrunc`, `$dateAdd`, `$dateSubtract` and `$dateDiff`.

use bson::Bson;
use chrono::Weekday;

use super::operands::{date, millis_of, zone_of};
use super::unit::{CalendarUnit, parse_weekday};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::expression::operands::{NULL, misfit, nth};
use crate::mongo::expression::{Evaluated, is_nullish};
use crate::mongo::value::BsonNumber;

fn unit_of(value: &Evaluated) -> Result<CalendarUnit> {
    match value {
        Some(Bson::String(name)) => CalendarUnit::parse(name),
        other => Err(misfit(
            5439013,
            "the 'unit' of a date",
            "a string",
            other.as_ref(),
        )),
    }
}

fn week_start_of(value: &Evaluated) -> Result<Weekday> {
    match value {
        None => Ok(Weekday::Sun),
        Some(Bson::String(name)) => parse_weekday(name),
        other => Err(misfit(
            5439015,
            "a 'startOfWeek'",
            "a string",
            other.as_ref(),
        )),
    }
}

/// Returns whether one of the arguments is there and null. The beginning of the week counts for
/// weeks alone.
fn has_null(values: &[Evaluated], week_start: usize) -> bool {
    let is_week = values.iter().any(|value| {
        let text = value.as_ref().and_then(Bson::as_str);
        text.is_some_and(|text| CalendarUnit::parse(text).is_ok_and(CalendarUnit::is_week))
    });
    let mut places = values.iter().enumerate();
    places
        .any(|(nth, value)| value.is_some() && is_nullish(value) && (nth != week_start || is_week))
}

/// `$dateTrunc`
pub(super) fn date_truncate(values: Vec<Evaluated>) -> Result<Evaluated> {
    if has_null(&values, 4) {
        return NULL;
    }
    let millis = millis_of(nth(&values, 0), 5439012)?;
    let unit = unit_of(&values[1])?;
    let bins = match &values[2] {
        None => 1,
        Some(size) => {
            let operand = "the 'binSize' of $dateTrunc";
            let whole = BsonNumber::of(size).and_then(|size| size.to_integer());
            let whole = whole
                .ok_or_else(|| misfit(5439017, operand, "an integer of 64 bits", Some(size)))?;
            if whole < 1 {
                let message = format!("{operand} needs a number from 1 on, but got {whole}");
                return Err(QueryError::located(5439018, message));
            }
            whole
        }
    };
    let zone = zone_of(values.get(3))?;
    let week_start = match unit.is_week() {
        true => week_start_of(&values[4])?,
        false => Weekday::Sun,
    };
    let Some(zone) = zone else {
        return NULL;
    };
    date(unit.truncate(millis, bins, zone, week_start)?)
}

/// `$dateAdd`, and with the sign -1 `$dateSubtract`
pub(super) fn date_add(values: Vec<Evaluated>, sign: i64) -> Result<Evaluated> {
    if has_null(&values, usize::MAX) {
        return NULL;
    }
    let millis = millis_of(nth(&values, 0), 5166403)?;
    let unit = unit_of(&values[1])?;
    let given = nth(&values, 2);
    let amount = given.and_then(BsonNumber::of);
    let amount = amount.and_then(|amount| amount.to_integer());
    let operand = "the 'amount' of a date";
    let amount = amount.ok_or_else(|| misfit(5166405, operand, "an integer of 64 bits", given))?;
    let Some(zone) = zone_of(values.get(3))? else {
        return NULL;
    };
    let message = "the 'amount' of $dateSubtract is the least long, which has no opposite";
    let amount = amount.checked_mul(sign);
    let amount = amount.ok_or_else(|| QueryError::located(5976500, message))?;
    date(unit.add(millis, amount, zone)?)
}

/// `$dateDiff`
pub(super) fn date_diff(values: Vec<Evaluated>) -> Result<Evaluated> {
    if has_null(&values, 4) {
        return NULL;
    }
    let from = millis_of(nth(&values, 0), 5166307)?;
    let to = millis_of(nth(&values, 1), 5166307)?;
    let unit = unit_of(&values[2])?;
    let week_start = match unit.is_week() {
        true => week_start_of(&values[4])?,
        false => Weekday::Sun,
    };
    let Some(zone) = zone_of(values.get(3))? else {
        return NULL;
    };
    let units = unit.difference(from, to, zone, week_start)?;
    Ok(Some(Bson::Int64(units)))
}
