//! Conversions between types ("Type Expression Operators" in MongoDB's manual).

use std::str::FromStr;

use bigdecimal::{BigDecimal, RoundingMode, ToPrimitive};
use bson::oid::ObjectId;
use bson::{Bson, DateTime};

use super::operands::{NULL, nth, shown, type_name};
use super::operator::ExpressionOperator;
use super::{Evaluated, dates};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::number::{decimal, special_decimal, to_decimal};
use crate::mongo::value::{BsonNumber, is_true};

pub(super) const OPERATORS: &[ExpressionOperator] = &[
    ExpressionOperator::list("$type", (1, 1), |values| {
        Ok(Some(Bson::from(type_name(nth(&values, 0)))))
    }),
    ExpressionOperator::list("$isNumber", (1, 1), |values| {
        let is_number = nth(&values, 0).and_then(BsonNumber::of).is_some();
        Ok(Some(Bson::Boolean(is_number)))
    }),
    ExpressionOperator::list("$toString", (1, 1), |values| of_first(values, "string")),
    ExpressionOperator::list("$toInt", (1, 1), |values| of_first(values, "int")),
    ExpressionOperator::list("$toLong", (1, 1), |values| of_first(values, "long")),
    ExpressionOperator::list("$toDouble", (1, 1), |values| of_first(values, "double")),
    ExpressionOperator::list("$toDecimal", (1, 1), |values| of_first(values, "decimal")),
    ExpressionOperator::list("$toDate", (1, 1), |values| of_first(values, "date")),
    ExpressionOperator::list("$toBool", (1, 1), |values| of_first(values, "bool")),
    ExpressionOperator::list("$toObjectId", (1, 1), |values| of_first(values, "objectId")),
    ExpressionOperator::fallback(
        "$convert",
        &["input", "to"],
        &["onError", "onNull"],
        convert,
    ),
];

fn of_first(mut values: Vec<Evaluated>, to: &str) -> Result<Evaluated> {
    let value = values.pop().flatten();
    match value {
        Some(value) if !matches!(value, Bson::Null | Bson::Undefined) => {
            to_type(&value, to).map(Some)
        }
        _ => Ok(Some(Bson::Null)),
    }
}

fn convert(values: Vec<Evaluated>) -> Result<Evaluated> {
    match (nth(&values, 0), nth(&values, 1)) {
        (None | Some(Bson::Null | Bson::Undefined), _)
        | (_, None | Some(Bson::Null | Bson::Undefined)) => NULL,
        (Some(input), Some(to)) => to_type(input, target(to)?).map(Some),
    }
}

/// Returns the name of a type that is given by its name or its number.
fn target(to: &Bson) -> Result<&'static str> {
    const TYPES: [(&str, i64); 8] = [
        ("double", 1),
        ("string", 2),
        ("objectId", 7),
        ("bool", 8),
        ("date", 9),
        ("int", 16),
        ("long", 18),
        ("decimal", 19),
    ];
    let found = TYPES.iter().find(|(name, number)| match to {
        Bson::String(given) => given == name,
        given => BsonNumber::of(given).and_then(|given| given.to_integer()) == Some(*number),
    });
    match found {
        Some((name, _)) => Ok(name),
        None => {
            let message = format!("$convert makes no values of the type {to}");
            Err(QueryError::bad_value(message))
        }
    }
}

/// The code of a conversion that fails, for which an operator may have a value of its own.
pub(super) const CONVERSION_FAILURE: i32 = 241;
/// Maximum bytes of the text of a decimal.
const DECIMAL_TEXT_MAX: usize = 10_000;

fn failure(message: impl Into<String>) -> QueryError {
    QueryError::located(CONVERSION_FAILURE, message)
}

fn unsupported(value: &Bson, to: &str) -> QueryError {
    let from = type_name(Some(value));
    failure(format!(
        "a value of type {from} becomes no {to}; $convert takes an 'onError'"
    ))
}

fn to_type(value: &Bson, to: &str) -> Result<Bson> {
    match (to, value) {
        ("string", value) => text_of(value)?
            .map(Bson::String)
            .ok_or_else(|| unsupported(value, to)),
        ("bool", value) => Ok(Bson::Boolean(is_true(Some(value)))),
        ("int", _) => {
            let long = to_integer(value, to)?;
            let int = i32::try_from(long).map_err(|_| overflow(value))?;
            Ok(Bson::Int32(int))
        }
        ("long", _) => to_integer(value, to).map(Bson::Int64),
        ("double", _) => to_double(value).map(Bson::Double),
        ("decimal", Bson::Decimal128(_)) => Ok(value.clone()),
        ("decimal", _) => to_decimal_of(value),
        ("date", _) => to_date(value),
        ("objectId", Bson::ObjectId(_)) => Ok(value.clone()),
        ("objectId", Bson::String(text)) => match ObjectId::from_str(text) {
            Ok(id) => Ok(Bson::ObjectId(id)),
            Err(_) => Err(failure(format!(
                "the text '{}' is no ObjectId, which has 24 hexadecimal digits",
                shown(text)
            ))),
        },
        _ => Err(unsupported(value, to)),
    }
}

fn overflow(value: &Bson) -> QueryError {
    failure(format!(
        "the number {value} is beyond those of the type that it is to have"
    ))
}

fn parse_failure(text: &str) -> QueryError {
    let text = shown(text);
    failure(format!(
        "the text '{text}' is no number of the type that it is to have"
    ))
}

fn to_integer(value: &Bson, to: &str) -> Result<i64> {
    match value {
        Bson::Boolean(truth) => Ok(i64::from(*truth)),
        Bson::DateTime(date) if to == "long" => Ok(date.timestamp_millis()),
        Bson::String(text) => text.parse().map_err(|_| parse_failure(text)),
        value => match BsonNumber::of(value) {
            None => Err(unsupported(value, to)),
            Some(number) => {
                let cut = match number {
                    BsonNumber::Int(number) => Some(number),
                    BsonNumber::Double(number) => BsonNumber::Double(number.trunc()).to_integer(),
                    BsonNumber::Decimal(number) => {
                        number.with_scale_round(0, RoundingMode::Down).to_i64()
                    }
                };
                cut.ok_or_else(|| overflow(value))
            }
        },
    }
}

fn to_double(value: &Bson) -> Result<f64> {
    match value {
        Bson::Boolean(truth) => Ok(f64::from(u8::from(*truth))),
        Bson::DateTime(date) => Ok(date.timestamp_millis() as f64),
        Bson::String(text) if text.starts_with(char::is_whitespace) => Err(parse_failure(text)),
        Bson::String(text) => text.parse().map_err(|_| parse_failure(text)),
        value => match BsonNumber::of(value) {
            None => Err(unsupported(value, "double")),
            Some(number) => {
                let double = number.to_double();
                let is_beyond = double.is_infinite() && matches!(number, BsonNumber::Decimal(_));
                (!is_beyond)
                    .then_some(double)
                    .ok_or_else(|| overflow(value))
            }
        },
    }
}

fn to_decimal_of(value: &Bson) -> Result<Bson> {
    let number = match value {
        Bson::Boolean(truth) => BsonNumber::Int(i64::from(*truth)),
        Bson::DateTime(date) => BsonNumber::Int(date.timestamp_millis()),
        Bson::String(text) => decimal_number(text).ok_or_else(|| parse_failure(text))?,
        value => BsonNumber::of(value).ok_or_else(|| unsupported(value, "decimal"))?,
    };
    Ok(to_decimal(&number).map_or_else(special_decimal, |number| decimal(&number)))
}

/// Reads a decimal number, or the name of one that is infinite or none.
fn decimal_number(text: &str) -> Option<BsonNumber> {
    let unsigned = text.trim_start_matches(['-', '+']).to_ascii_lowercase();
    match unsigned.as_str() {
        "nan" => Some(BsonNumber::Double(f64::NAN)),
        "inf" | "infinity" if text.starts_with('-') => Some(BsonNumber::Double(f64::NEG_INFINITY)),
        "inf" | "infinity" => Some(BsonNumber::Double(f64::INFINITY)),
        digits if digits.len() > DECIMAL_TEXT_MAX || digits.contains('_') => None,
        _ => BigDecimal::from_str(text).ok().map(BsonNumber::Decimal),
    }
}

fn to_date(value: &Bson) -> Result<Bson> {
    let millis = match value {
        Bson::DateTime(_) => return Ok(value.clone()),
        Bson::ObjectId(id) => id.timestamp().timestamp_millis(),
        Bson::Timestamp(time) => i64::from(time.time) * 1000,
        Bson::String(text) => return dates::parse_text(text).map(Bson::DateTime),
        Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => to_integer(value, "long")?,
        value => return Err(unsupported(value, "date")),
    };
    Ok(Bson::DateTime(DateTime::from_millis(millis)))
}

/// Returns the text of a value; `None` if its type has none.
pub(super) fn text_of(value: &Bson) -> Result<Option<String>> {
    Ok(Some(match value {
        Bson::String(text) | Bson::Symbol(text) | Bson::JavaScriptCode(text) => text.clone(),
        Bson::Int32(number) => number.to_string(),
        Bson::Int64(number) => number.to_string(),
        Bson::Double(number) => text_of_double(*number),
        Bson::Decimal128(number) => number.to_string(),
        Bson::Boolean(truth) => truth.to_string(),
        Bson::ObjectId(id) => id.to_hex(),
        Bson::DateTime(date) => dates::text_of(*date)?,
        _ => return Ok(None),
    }))
}

/// Returns a double with at most 16 digits, as the server writes it.
fn text_of_double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
        .to_owned();
    }
    let scientific = format!("{number:.15e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |digits: &str| match digits.contains('.') {
        true => digits
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
        false => digits.to_owned(),
    };
    if (-4..16).contains(&exponent) {
        let places = usize::try_from(15 - exponent).unwrap_or(0);
        return trimmed(&format!("{number:.places$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
}
