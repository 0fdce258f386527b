//! Operators of dates ("Date Expression Operators" in MongoDB's manual).
//!
//! A date is an operand as such, as a timestamp, or as the time of an ObjectId.

mod building;
mod format;
mod operands;
mod parts;
mod reading;
mod unit;
mod units;
mod zone;

use bson::DateTime;

use self::building::{FROM_PARTS, date_from_parts};
use self::format::{DateFormat, WITH_ZONE, date_to_string};
pub(super) use self::parts::PART_OPERATORS;
use self::parts::date_to_parts;
use self::reading::{date_from_string, read_default};
use self::units::{date_add, date_diff, date_truncate};
use self::zone::DateZone;
use super::operator::ExpressionOperator;
use crate::mongo::error::Result;

pub(super) const OPERATORS: &[ExpressionOperator] = &[
    ExpressionOperator::fallback(
        "$dateToString",
        &["date"],
        &["format", "timezone", "onNull"],
        date_to_string,
    ),
    ExpressionOperator::fallback(
        "$dateFromString",
        &["dateString"],
        &["format", "timezone", "onError", "onNull"],
        date_from_string,
    ),
    ExpressionOperator::names("$dateFromParts", &[], FROM_PARTS, date_from_parts),
    ExpressionOperator::names(
        "$dateToParts",
        &["date"],
        &["timezone", "iso8601"],
        date_to_parts,
    ),
    ExpressionOperator::names(
        "$dateTrunc",
        &["date", "unit"],
        &["binSize", "timezone", "startOfWeek"],
        date_truncate,
    ),
    ExpressionOperator::names(
        "$dateAdd",
        &["startDate", "unit", "amount"],
        &["timezone"],
        |values| date_add(values, 1),
    ),
    ExpressionOperator::names(
        "$dateSubtract",
        &["startDate", "unit", "amount"],
        &["timezone"],
        |values| date_add(values, -1),
    ),
    ExpressionOperator::names(
        "$dateDiff",
        &["startDate", "endDate", "unit"],
        &["timezone", "startOfWeek"],
        date_diff,
    ),
];

/// Returns the date of a text without a format.
pub(super) fn parse_text(text: &str) -> Result<DateTime> {
    read_default(text, None).map(DateTime::from_millis)
}

/// Returns a date as the server writes it.
///
/// # Errors
/// If its year does not have four digits.
pub(super) fn text_of(date: DateTime) -> Result<String> {
    let local = DateZone::UTC.local(date.timestamp_millis())?;
    DateFormat::parse(WITH_ZONE)?.write(&local, 0)
}
