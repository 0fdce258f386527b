//! The parts of a date: `$year` and its like, and `$dateToParts`.

use bson::{Bson, doc};
use chrono::{Datelike, NaiveDateTime, Timelike};

use super::operands::{millis_of, zone_of};
use super::zone::DateZone;
use crate::mongo::error::Result;
use crate::mongo::expression::operands::{NULL, misfit};
use crate::mongo::expression::operator::{ArgumentForm, ExpressionOperator};
use crate::mongo::expression::{Evaluated, is_nullish};

/// Operators of a date and, by name, of its time zone.
pub(in crate::mongo::expression) const PART_OPERATORS: &[ExpressionOperator] = &[
    part("$year", |values| int(&values, |time| time.year())),
    part("$month", |values| int(&values, |time| time.month() as i32)),
    part("$dayOfMonth", |values| {
        int(&values, |time| time.day() as i32)
    }),
    part("$dayOfYear", |values| {
        int(&values, |time| time.ordinal() as i32)
    }),
    part("$dayOfWeek", |values| {
        int(&values, |time| time.weekday().number_from_sunday() as i32)
    }),
    part("$week", |values| int(&values, week)),
    part("$isoWeek", |values| {
        int(&values, |time| time.iso_week().week() as i32)
    }),
    part("$isoWeekYear", |values| {
        let year = int(&values, |time| time.iso_week().year())?;
        Ok(year.map(|year| match year {
            Bson::Int32(year) => Bson::Int64(year.into()),
            null => null,
        }))
    }),
    part("$isoDayOfWeek", |values| {
        int(&values, |time| time.weekday().number_from_monday() as i32)
    }),
    part("$hour", |values| int(&values, |time| time.hour() as i32)),
    part("$minute", |values| {
        int(&values, |time| time.minute() as i32)
    }),
    part("$second", |values| {
        int(&values, |time| time.second() as i32)
    }),
    part("$millisecond", |values| int(&values, millisecond)),
];

const fn part(
    name: &'static str,
    apply: fn(Vec<Evaluated>) -> Result<Evaluated>,
) -> ExpressionOperator {
    ExpressionOperator {
        name,
        form: ArgumentForm::DatePart,
        apply,
    }
}

/// Returns the week of the year from 0 on: each but week 0 begins on a Sunday.
pub(super) fn week(time: &NaiveDateTime) -> i32 {
    let from_sunday = time.weekday().num_days_from_sunday();
    ((time.ordinal0() + 7 - from_sunday) / 7) as i32
}

pub(super) fn millisecond(time: &NaiveDateTime) -> i32 {
    (time.nanosecond() / 1_000_000 % 1000) as i32
}

fn int(values: &[Evaluated], part: fn(&NaiveDateTime) -> i32) -> Result<Evaluated> {
    let zone = zone_of(values.get(1))?;
    let Some(Some(date)) = values.first().filter(|date| !is_nullish(date)) else {
        return NULL;
    };
    let Some(zone) = zone else {
        return NULL;
    };
    let local = zone.local(millis_of(Some(date), 16006)?)?;
    Ok(Some(Bson::Int32(part(&local))))
}

/// `$dateToParts`
pub(super) fn date_to_parts(values: Vec<Evaluated>) -> Result<Evaluated> {
    let zone: Option<DateZone> = zone_of(values.get(1))?;
    let is_iso = match values.get(2) {
        None | Some(None) => false,
        Some(Some(Bson::Boolean(is_iso))) => *is_iso,
        Some(value) if is_nullish(value) => return NULL,
        Some(other) => {
            let operand = "the 'iso8601' of $dateToParts";
            return Err(misfit(40521, operand, "true or false", other.as_ref()));
        }
    };
    let (Some(Some(date)), Some(zone)) = (values.first(), zone) else {
        return NULL;
    };
    if matches!(date, Bson::Null | Bson::Undefined) {
        return NULL;
    }
    let time = zone.local(millis_of(Some(date), 16006)?)?;
    let mut parts = match is_iso {
        true => doc! {
            "isoWeekYear": time.iso_week().year(),
            "isoWeek": time.iso_week().week() as i32,
            "isoDayOfWeek": time.weekday().number_from_monday() as i32,
        },
        false => doc! {
            "year": time.year(),
            "month": time.month() as i32,
            "day": time.day() as i32,
        },
    };
    parts.extend(doc! {
        "hour": time.hour() as i32,
        "minute": time.minute() as i32,
        "second": time.second() as i32,
        "millisecond": millisecond(&time),
    });
    Ok(Some(Bson::Document(parts)))
}
