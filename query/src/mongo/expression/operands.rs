//! Operands of operators, and the errors of those that do not fit.

use bson::{Array, Bson};

use super::{Evaluated, is_nullish};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::value::BsonNumber;

/// The result of most operators for a null or missing operand.
pub(super) const NULL: Result<Evaluated> = Ok(Some(Bson::Null));

/// Returns the name of a value's type, as `$type` has it.
pub(in crate::mongo) fn type_name(value: Option<&Bson>) -> &'static str {
    match value {
        None => "missing",
        Some(Bson::Double(_)) => "double",
        Some(Bson::String(_)) => "string",
        Some(Bson::Document(_)) => "object",
        Some(Bson::Array(_)) => "array",
        Some(Bson::Binary(_)) => "binData",
        Some(Bson::Undefined) => "undefined",
        Some(Bson::ObjectId(_)) => "objectId",
        Some(Bson::Boolean(_)) => "bool",
        Some(Bson::DateTime(_)) => "date",
        Some(Bson::Null) => "null",
        Some(Bson::RegularExpression(_)) => "regex",
        Some(Bson::DbPointer(_)) => "dbPointer",
        Some(Bson::JavaScriptCode(_)) => "javascript",
        Some(Bson::Symbol(_)) => "symbol",
        Some(Bson::JavaScriptCodeWithScope(_)) => "javascriptWithScope",
        Some(Bson::Int32(_)) => "int",
        Some(Bson::Timestamp(_)) => "timestamp",
        Some(Bson::Int64(_)) => "long",
        Some(Bson::Decimal128(_)) => "decimal",
        Some(Bson::MinKey) => "minKey",
        Some(Bson::MaxKey) => "maxKey",
    }
}

/// Returns the error of an operand of a wrong type: `operand` says whose it is, and `needs` what
/// fits in its place.
pub(super) fn misfit(code: i32, operand: &str, needs: &str, given: Option<&Bson>) -> QueryError {
    let given = type_name(given);
    QueryError::located(code, format!("{operand} needs {needs}, but got {given}"))
}

/// The characters of a text that an error shows.
const TEXT_SHOWN: usize = 100;

/// Returns the beginning of a text, for an error.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(TEXT_SHOWN).collect()
}

/// Returns the integer of 32 bits that a number of any type is.
pub(super) fn integral_index(value: &Bson) -> Option<i64> {
    let integer = BsonNumber::of(value)?.to_integer()?;
    i32::try_from(integer).ok().map(i64::from)
}

/// Returns the array of an operand; `None` if it is null or missing.
pub(super) fn array_of(operand: &str, code: i32, value: Evaluated) -> Result<Option<Array>> {
    match value {
        Some(Bson::Array(items)) => Ok(Some(items)),
        value if is_nullish(&value) => Ok(None),
        other => Err(misfit(code, operand, "an array", other.as_ref())),
    }
}

/// Returns an operand that must be an integer of 32 bits, with the codes of a value that is no
/// number and of one that is no integer; `None` if it is null or missing.
pub(super) fn index_of(operand: &str, codes: (i32, i32), value: &Evaluated) -> Result<Option<i64>> {
    if is_nullish(value) {
        return Ok(None);
    }
    let number = value
        .as_ref()
        .filter(|value| BsonNumber::of(value).is_some());
    let Some(number) = number else {
        return Err(misfit(codes.0, operand, "a number", value.as_ref()));
    };
    match integral_index(number) {
        Some(index) => Ok(Some(index)),
        None => {
            let message = format!("{operand} needs an integer of 32 bits, but got {number}");
            Err(QueryError::located(codes.1, message))
        }
    }
}

/// Returns an operand that must be an integer of 32 bits from 0 on, with the codes of a value that
/// is no number, of one that is no integer and of a negative one.
pub(super) fn count_of(operand: &str, codes: [i32; 3], value: &Evaluated) -> Result<usize> {
    let index = index_of(operand, (codes[0], codes[1]), value)?;
    let index = index.ok_or_else(|| misfit(codes[0], operand, "a number", value.as_ref()))?;
    usize::try_from(index).map_err(|_| {
        let message = format!("{operand} needs a number from 0 on, but got {index}");
        QueryError::located(codes[2], message)
    })
}

/// Returns the value of an operand of a list; missing if there is none at this place.
pub(super) fn nth(values: &[Evaluated], nth: usize) -> Option<&Bson> {
    values.get(nth).and_then(Option::as_ref)
}
