//! Reads the operands of `$type`, `$size` and `$mod`.

use bson::Bson;

use super::predicate::{Predicate, truncated};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::value::BsonNumber;

/// Names of types with their numbers in BSON.
const TYPES: [(&str, i32); 21] = [
    ("double", 1),
    ("string", 2),
    ("object", 3),
    ("array", 4),
    ("binData", 5),
    ("undefined", 6),
    ("objectId", 7),
    ("bool", 8),
    ("date", 9),
    ("null", 10),
    ("regex", 11),
    ("dbPointer", 12),
    ("javascript", 13),
    ("symbol", 14),
    ("javascriptWithScope", 15),
    ("int", 16),
    ("timestamp", 17),
    ("long", 18),
    ("decimal", 19),
    ("minKey", -1),
    ("maxKey", 127),
];
/// The types that `number` stands for.
const NUMBERS: [i32; 4] = [1, 16, 18, 19];

/// Returns the numbers of the types that `$type` names.
pub(super) fn types(operand: &Bson) -> Result<Vec<i32>> {
    let items = match operand {
        Bson::Array(items) => items.as_slice(),
        single => std::slice::from_ref(single),
    };
    if items.is_empty() {
        let message = "$type needs a type";
        return Err(QueryError::failed_to_parse(message));
    }
    let mut numbers = Vec::new();
    for item in items {
        match item {
            Bson::String(name) if name == "number" => numbers.extend(NUMBERS),
            Bson::String(name) => numbers.push(type_of_name(name)?),
            item => numbers.push(type_of_number(item)?),
        }
    }
    Ok(numbers)
}

fn type_of_name(name: &str) -> Result<i32> {
    let known = TYPES.iter().find(|(known, _)| *known == name);
    known
        .map(|(_, number)| *number)
        .ok_or_else(|| QueryError::bad_value(format!("$type does not know the type '{name}'")))
}

fn type_of_number(value: &Bson) -> Result<i32> {
    let Some(number) = BsonNumber::of(value) else {
        let message = "$type takes names and numbers of types";
        return Err(QueryError::type_mismatch(message));
    };
    let known = TYPES
        .iter()
        .find(|(_, known)| number.to_integer() == Some(i64::from(*known)));
    known.map(|(_, number)| *number).ok_or_else(|| {
        QueryError::bad_value(format!("$type does not know the type number {value}"))
    })
}

/// Returns the number of elements that `$size` asks for.
pub(super) fn size(operand: &Bson) -> Result<usize> {
    let number = BsonNumber::of(operand).and_then(|number| number.to_integer());
    let size = number.and_then(|number| usize::try_from(number).ok());
    size.ok_or_else(|| {
        let message = format!("$size needs a whole number from 0 on, and not {operand}");
        QueryError::bad_value(message)
    })
}

/// Reads the divisor and the remainder of `$mod`; fractions are cut.
pub(super) fn modulo(operand: &Bson) -> Result<Predicate> {
    let wrong = || {
        let message =
            format!("$mod needs an array of a divisor and a remainder, and not {operand}");
        QueryError::bad_value(message)
    };
    let Some([divisor, remainder]) = operand.as_array().map(Vec::as_slice) else {
        return Err(wrong());
    };
    let whole = |value: &Bson| {
        let number = BsonNumber::of(value).and_then(|number| truncated(&number));
        number.ok_or_else(wrong)
    };
    let (divisor, remainder) = (whole(divisor)?, whole(remainder)?);
    match divisor {
        0 => Err(QueryError::bad_value("$mod cannot divide by 0")),
        divisor => Ok(Predicate::Modulo { divisor, remainder }),
    }
}
