//! Formats of dates, and `$dateToString`.

use std::fmt::Write;

use bson::Bson;
use chrono::{Datelike, NaiveDateTime, Timelike};

use super::operands::{millis_of, zone_of};
use super::parts::{millisecond, week};
use super::zone::DateZone;
use crate::mongo::error::{QueryError, Result};
use crate::mongo::expression::operands::{NULL, misfit, nth};
use crate::mongo::expression::{Evaluated, is_nullish};

/// The format of a date in UTC without one.
pub(super) const WITH_ZONE: &str = "%Y-%m-%dT%H:%M:%S.%LZ";
/// The format of a date in another zone.
const WITHOUT_ZONE: &str = "%Y-%m-%dT%H:%M:%S.%L";

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A format.
#[derive(Debug)]
pub(super) struct DateFormat(pub(super) Vec<DateFormatPart>);

/// A part of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DateFormatPart {
    Text(char),
    /// A part of the date, as the letter after `%` names it.
    Date(char),
}

impl DateFormat {
    /// Reads a format.
    ///
    /// # Errors
    /// 18535 for a `%` at the end, 18536 for an unknown letter.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut parts = Vec::new();
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            parts.push(match (character, character == '%') {
                (text, false) => DateFormatPart::Text(text),
                (_, true) => match characters.next() {
                    Some('%') => DateFormatPart::Text('%'),
                    Some(letter) if "dGHjLmMSuUVwYzZbB".contains(letter) => {
                        DateFormatPart::Date(letter)
                    }
                    Some(letter) => {
                        let message = format!("a format of dates has no '%{letter}'");
                        return Err(QueryError::located(18536, message));
                    }
                    None => {
                        let message =
                            "a format of dates ends with '%'; write '%%' for a percent sign";
                        return Err(QueryError::located(18535, message));
                    }
                },
            });
        }
        Ok(Self(parts))
    }

    /// Writes a local time that is so many seconds east of UTC.
    pub(super) fn write(&self, time: &NaiveDateTime, offset: i32) -> Result<String> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                DateFormatPart::Text(character) => text.push(*character),
                DateFormatPart::Date(letter) => write_part(*letter, time, offset, &mut text)?,
            }
        }
        Ok(text)
    }
}

fn write_part(letter: char, time: &NaiveDateTime, offset: i32, into: &mut String) -> Result<()> {
    let month = MONTHS[time.month0() as usize];
    let minutes = offset / 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    let minutes = minutes.abs();
    let written = match letter {
        'Y' => write!(into, "{:04}", four_digits(time.year())?),
        'G' => write!(into, "{:04}", four_digits(time.iso_week().year())?),
        'm' => write!(into, "{:02}", time.month()),
        'b' => write!(into, "{}", &month[..3]),
        'B' => write!(into, "{month}"),
        'd' => write!(into, "{:02}", time.day()),
        'H' => write!(into, "{:02}", time.hour()),
        'M' => write!(into, "{:02}", time.minute()),
        'S' => write!(into, "{:02}", time.second()),
        'L' => write!(into, "{:03}", millisecond(time)),
        'j' => write!(into, "{:03}", time.ordinal()),
        'w' => write!(into, "{}", time.weekday().number_from_sunday()),
        'u' => write!(into, "{}", time.weekday().number_from_monday()),
        'U' => write!(into, "{:02}", week(time)),
        'V' => write!(into, "{:02}", time.iso_week().week()),
        'z' => write!(into, "{sign}{:02}{:02}", minutes / 60, minutes % 60),
        'Z' => write!(into, "{sign}{minutes:03}"),
        _ => Ok(()),
    };
    written.expect("BUG: a String takes all text");
    Ok(())
}

fn four_digits(year: i32) -> Result<i32> {
    if (0..=9999).contains(&year) {
        return Ok(year);
    }
    let message = format!("the year {year} has no text; only years 0 to 9999 have");
    Err(QueryError::located(18537, message))
}

/// `$dateToString`
pub(super) fn date_to_string(values: Vec<Evaluated>) -> Result<Evaluated> {
    let zone = zone_of(values.get(2))?;
    let format = match values.get(1) {
        None | Some(None) => Some(match zone {
            Some(DateZone::UTC) => WITH_ZONE,
            _ => WITHOUT_ZONE,
        }),
        Some(Some(Bson::String(format))) => Some(format.as_str()),
        Some(value) if is_nullish(value) => None,
        Some(other) => {
            let operand = "the 'format' of $dateToString";
            return Err(misfit(18533, operand, "a string", other.as_ref()));
        }
    };
    let format = format.map(DateFormat::parse).transpose()?;
    let date = nth(&values, 0).filter(|date| !matches!(date, Bson::Null | Bson::Undefined));
    let (Some(date), Some(zone), Some(format)) = (date, zone, format) else {
        return NULL;
    };
    let millis = millis_of(Some(date), 16006)?;
    let text = format.write(&zone.local(millis)?, zone.offset(millis)?)?;
    Ok(Some(Bson::String(text)))
}
