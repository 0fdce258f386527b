//! `$indexOfCP` and `$indexOfBytes`: places of texts in texts.

use bson::Bson;

use super::operands::{NULL, count_of, misfit, nth};
use super::operator::ExpressionOperator;
use super::{Evaluated, is_nullish};
use crate::mongo::error::Result;

pub(super) const OPERATORS: &[ExpressionOperator] = &[
    ExpressionOperator::list("$indexOfCP", (2, 4), |values| {
        place("$indexOfCP", (40093, 40094), &values, of_characters)
    }),
    ExpressionOperator::list("$indexOfBytes", (2, 4), |values| {
        place("$indexOfBytes", (40091, 40092), &values, of_bytes)
    }),
];

/// Returns the place of a text in another between a start and an end.
type PlaceFunction = fn(&str, &str, usize, usize) -> Option<usize>;

fn place(
    name: &str,
    codes: (i32, i32),
    values: &[Evaluated],
    apply: PlaceFunction,
) -> Result<Evaluated> {
    if values.first().is_none_or(is_nullish) {
        return NULL;
    }
    let Some(Bson::String(text)) = nth(values, 0) else {
        let operand = format!("the first operand of {name}");
        return Err(misfit(codes.0, &operand, "a string", nth(values, 0)));
    };
    let Some(Bson::String(wanted)) = nth(values, 1) else {
        let operand = format!("the second operand of {name}");
        return Err(misfit(codes.1, &operand, "a string", nth(values, 1)));
    };
    let bound = |place: usize, operand: &str, without: usize| match values.get(place) {
        None => Ok(without),
        Some(bound) => {
            let operand = format!("the {operand} of {name}");
            count_of(&operand, [40096, 40096, 40097], bound)
        }
    };
    let (start, end) = (bound(2, "start", 0)?, bound(3, "end", usize::MAX)?);
    let place = apply(text, wanted, start, end);
    let place = place.and_then(|place| i32::try_from(place).ok());
    Ok(Some(Bson::Int32(place.unwrap_or(-1))))
}

fn of_characters(text: &str, wanted: &str, start: usize, end: usize) -> Option<usize> {
    let mut starts = text
        .char_indices()
        .map(|(byte, _)| byte)
        .chain([text.len()]);
    let first = starts.clone().nth(start)?;
    let last = starts.nth(end).unwrap_or(text.len());
    let found = text.get(first..last)?.find(wanted)?;
    Some(text[..first + found].chars().count())
}

fn of_bytes(text: &str, wanted: &str, start: usize, end: usize) -> Option<usize> {
    // No text begins or ends within a character.
    let first = (start..=text.len()).find(|place| text.is_char_boundary(*place))?;
    let end = end.min(text.len());
    let last = (0..=end)
        .rev()
        .find(|place| text.is_char_boundary(*place))?;
    Some(first + text.get(first..last)?.find(wanted)?)
}
