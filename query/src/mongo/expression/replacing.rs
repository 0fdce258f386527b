//! `$replaceOne` and `$replaceAll`.

use bson::Bson;

use super::operands::{NULL, misfit};
use super::operator::ExpressionOperator;
use super::{Evaluated, is_nullish};
use crate::mongo::error::Result;
use crate::mongo::size::check_value_bytes;

const NAMES: &[&str] = &["input", "find", "replacement"];

pub(super) const OPERATORS: &[ExpressionOperator] = &[
    ExpressionOperator::names("$replaceOne", NAMES, &[], |values| {
        replace("$replaceOne", &values, 1)
    }),
    ExpressionOperator::names("$replaceAll", NAMES, &[], |values| {
        replace("$replaceAll", &values, usize::MAX)
    }),
];

/// Replaces the first matches of a text, so many at most.
fn replace(name: &str, values: &[Evaluated], at_most: usize) -> Result<Evaluated> {
    let mut texts = Vec::with_capacity(values.len());
    for ((value, operand), code) in values.iter().zip(NAMES).zip([51746, 51745, 51744]) {
        match value {
            Some(Bson::String(text)) => texts.push(Some(text.as_str())),
            value if is_nullish(value) => texts.push(None),
            other => {
                let operand = format!("the '{operand}' of {name}");
                return Err(misfit(code, &operand, "a string", other.as_ref()));
            }
        }
    }
    let [Some(input), Some(find), Some(replacement)] = texts.as_slice() else {
        return NULL;
    };
    let count = input.matches(find).take(at_most).count();
    let kept = input.len() - count * find.len();
    check_value_bytes(kept.saturating_add(count.saturating_mul(replacement.len())))?;
    Ok(Some(Bson::String(input.replacen(find, replacement, count))))
}
