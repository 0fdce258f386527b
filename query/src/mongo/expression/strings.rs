//! Operators of strings ("String Expression Operators" in MongoDB's manual).
//!
//! Upper and lower case are those of ASCII, as the server has them.

use std::cmp::Ordering;

use bson::Bson;

use super::conversion::text_of;
use super::operands::{NULL, count_of, misfit, nth};
use super::operator::ExpressionOperator;
use super::{Evaluated, is_nullish};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::size::check_value_bytes;
use crate::mongo::value::BsonNumber;

/// Maximum parts of a text that is split.
const PARTS_MAX: usize = 1_000_000;

pub(super) const OPERATORS: &[ExpressionOperator] = &[
    ExpressionOperator::list("$concat", (0, usize::MAX), concat),
    ExpressionOperator::list("$substr", (3, 3), substring_of_bytes),
    ExpressionOperator::list("$substrBytes", (3, 3), substring_of_bytes),
    ExpressionOperator::list("$substrCP", (3, 3), substring_of_characters),
    ExpressionOperator::list("$toLower", (1, 1), |values| {
        string(coerced(values.first())?.to_ascii_lowercase())
    }),
    ExpressionOperator::list("$toUpper", (1, 1), |values| {
        string(coerced(values.first())?.to_ascii_uppercase())
    }),
    ExpressionOperator::list("$strcasecmp", (2, 2), |values| {
        let folded = |nth| coerced(values.get(nth)).map(|text| text.to_ascii_uppercase());
        let order: Ordering = folded(0)?.cmp(&folded(1)?);
        Ok(Some(Bson::Int32(order as i32)))
    }),
    ExpressionOperator::list("$split", (2, 2), split),
    ExpressionOperator::list("$strLenCP", (1, 1), |values| {
        let text = text_for_length("$strLenCP", 34471, &values)?;
        Ok(Some(Bson::Int32(text.chars().count() as i32)))
    }),
    ExpressionOperator::list("$strLenBytes", (1, 1), |values| {
        let text = text_for_length("$strLenBytes", 34473, &values)?;
        Ok(Some(Bson::Int32(text.len() as i32)))
    }),
];

fn string(text: String) -> Result<Evaluated> {
    Ok(Some(Bson::String(text)))
}

fn concat(values: Vec<Evaluated>) -> Result<Evaluated> {
    let mut all = String::new();
    for value in values {
        match value {
            Some(Bson::String(text) | Bson::Symbol(text)) => {
                check_value_bytes(all.len() + text.len())?;
                all.push_str(&text);
            }
            value if is_nullish(&value) => return NULL,
            other => return Err(misfit(16702, "$concat", "strings", other.as_ref())),
        }
    }
    string(all)
}

/// Returns the text of a value that is a string, a number or a date; the empty one of null.
fn coerced(value: Option<&Evaluated>) -> Result<String> {
    let needs = "a string, a number or a date";
    let refused = |value| misfit(16007, "an operator of strings", needs, value);
    match value.and_then(Option::as_ref) {
        None | Some(Bson::Null | Bson::Undefined) => Ok(String::new()),
        value @ Some(Bson::Boolean(_) | Bson::ObjectId(_)) => Err(refused(value)),
        Some(value) => text_of(value)?.ok_or_else(|| refused(Some(value))),
    }
}

/// Returns a number cut to an integer.
fn cut(operand: &str, code: i32, value: Option<&Bson>) -> Result<i64> {
    let number = value.and_then(BsonNumber::of);
    let number = number.ok_or_else(|| misfit(code, operand, "a number", value))?;
    // The cast ends at the bounds of 64 bits.
    Ok(number.to_double() as i64)
}

fn substring_of_bytes(values: Vec<Evaluated>) -> Result<Evaluated> {
    let text = coerced(values.first())?;
    let start = cut("the start of $substrBytes", 16034, nth(&values, 1))?;
    let length = cut("the length of $substrBytes", 16035, nth(&values, 2))?;
    let Ok(start) = usize::try_from(start) else {
        let message = "the start of $substrBytes is negative; count from 0";
        return Err(QueryError::located(50752, message));
    };
    let start = start.min(text.len());
    let rest = text.len() - start;
    // A negative length stands for the rest of the text.
    let length = usize::try_from(length).unwrap_or(rest).min(rest);
    if !text.is_char_boundary(start) {
        let message = "the start of $substrBytes is within a character; use $substrCP";
        return Err(QueryError::located(28656, message));
    }
    match text.get(start..start + length) {
        Some(part) => string(part.to_owned()),
        None => {
            let message = "the end of $substrBytes is within a character; use $substrCP";
            Err(QueryError::located(28657, message))
        }
    }
}

fn substring_of_characters(values: Vec<Evaluated>) -> Result<Evaluated> {
    let text = coerced(values.first())?;
    let bound = |place: usize| values.get(place).unwrap_or(&None);
    let start = count_of("the start of $substrCP", [34450, 34451, 34455], bound(1))?;
    let length = count_of("the length of $substrCP", [34452, 34453, 34454], bound(2))?;
    string(text.chars().skip(start).take(length).collect())
}

fn split(values: Vec<Evaluated>) -> Result<Evaluated> {
    if values.iter().any(is_nullish) {
        return NULL;
    }
    match values.as_slice() {
        [Some(Bson::String(_)), Some(Bson::String(by))] if by.is_empty() => {
            let message = "the separator of $split is empty; use $substrCP for characters";
            Err(QueryError::located(40087, message))
        }
        [Some(Bson::String(text)), Some(Bson::String(by))] => {
            if text.matches(by.as_str()).take(PARTS_MAX).count() == PARTS_MAX {
                let message = format!("$split makes more than {PARTS_MAX} parts; make fewer");
                return Err(QueryError::located(17419, message));
            }
            let parts = text.split(by.as_str());
            let parts = parts.map(|part| Bson::String(part.to_owned()));
            Ok(Some(Bson::Array(parts.collect())))
        }
        [Some(Bson::String(_)), by] => {
            let operand = "the separator of $split";
            Err(misfit(40086, operand, "a string", by.as_ref()))
        }
        [text, ..] => Err(misfit(40085, "$split", "a string", text.as_ref())),
        [] => NULL,
    }
}

fn text_for_length<'a>(name: &str, code: i32, values: &'a [Evaluated]) -> Result<&'a str> {
    match nth(values, 0) {
        Some(Bson::String(text)) => Ok(text),
        other => Err(misfit(code, name, "a string", other)),
    }
}
