//! Operators of the elements of arrays ("Array Expression Operators" in MongoDB's manual).

use bson::{Array, Bson};

use super::operands::{NULL, array_of, count_of, misfit, nth};
use super::operator::ExpressionOperator;
use super::{Evaluated, is_nullish};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::value::compare;

/// Maximum elements of all arrays that `$zip` makes.
const ZIPPED_MAX: usize = 1_000_000;

pub(super) const OPERATORS: &[ExpressionOperator] = &[
    ExpressionOperator::list("$in", (2, 2), is_in),
    ExpressionOperator::list("$indexOfArray", (2, 4), index),
    ExpressionOperator::list("$reverseArray", (1, 1), |mut values| {
        let items = array_of("$reverseArray", 34435, values.pop().flatten())?;
        Ok(Some(items.map_or(Bson::Null, |mut items| {
            items.reverse();
            Bson::Array(items)
        })))
    }),
    ExpressionOperator::names("$zip", &["inputs"], &["useLongestLength", "defaults"], zip),
];

fn is_in(values: Vec<Evaluated>) -> Result<Evaluated> {
    let [wanted, Some(Bson::Array(items))] = values.as_slice() else {
        let operand = "the second operand of $in";
        return Err(misfit(40081, operand, "an array", nth(&values, 1)));
    };
    let found = wanted.as_ref().is_some_and(|wanted| {
        let mut items = items.iter();
        items.any(|item| compare(item, wanted).is_eq())
    });
    Ok(Some(Bson::Boolean(found)))
}

fn index(values: Vec<Evaluated>) -> Result<Evaluated> {
    if values.first().is_none_or(is_nullish) {
        return NULL;
    }
    let Some(Bson::Array(items)) = nth(&values, 0) else {
        let operand = "the first operand of $indexOfArray";
        return Err(misfit(40090, operand, "an array", nth(&values, 0)));
    };
    let codes = [40096, 40096, 40097];
    let start = match values.get(2) {
        None => 0,
        Some(start) => count_of("the start of $indexOfArray", codes, start)?,
    };
    let end = match values.get(3) {
        None => items.len(),
        Some(end) => count_of("the end of $indexOfArray", codes, end)?.min(items.len()),
    };
    let found = nth(&values, 1).and_then(|wanted| {
        let mut within = items.get(start..end)?.iter();
        let place = within.position(|item| compare(item, wanted).is_eq())?;
        i32::try_from(start + place).ok()
    });
    Ok(Some(Bson::Int32(found.unwrap_or(-1))))
}

/// Makes an array of the first elements of arrays, one of the second, and so on.
fn zip(values: Vec<Evaluated>) -> Result<Evaluated> {
    let Some(Bson::Array(inputs)) = nth(&values, 0) else {
        let operand = "the 'inputs' of $zip";
        return Err(misfit(
            34461,
            operand,
            "an array of arrays",
            nth(&values, 0),
        ));
    };
    let is_longest = match nth(&values, 1) {
        None => false,
        Some(Bson::Boolean(is_longest)) => *is_longest,
        other => {
            let operand = "the 'useLongestLength' of $zip";
            return Err(misfit(34463, operand, "true or false", other));
        }
    };
    let defaults = match nth(&values, 2) {
        None => None,
        Some(Bson::Array(defaults)) => Some(defaults),
        other => return Err(misfit(34462, "the 'defaults' of $zip", "an array", other)),
    };
    check_zip(inputs.len(), is_longest, defaults)?;
    let mut columns: Vec<&Array> = Vec::with_capacity(inputs.len());
    for input in inputs {
        match input {
            Bson::Array(items) => columns.push(items),
            Bson::Null | Bson::Undefined => return NULL,
            other => {
                let operand = "each of the 'inputs' of $zip";
                return Err(misfit(34468, operand, "an array", Some(other)));
            }
        }
    }
    let lengths = columns.iter().map(|items| items.len());
    let length = match is_longest {
        true => lengths.max(),
        false => lengths.min(),
    };
    let length = length.unwrap_or(0);
    if length.saturating_mul(columns.len()) > ZIPPED_MAX {
        let message = format!("$zip makes more than {ZIPPED_MAX} elements; make fewer");
        return Err(QueryError::located(17419, message));
    }
    let row = |place: usize| {
        let cells = columns.iter().enumerate().map(|(column, items)| {
            let default = || defaults.and_then(|defaults| defaults.get(column));
            let cell = items.get(place).or_else(default);
            cell.cloned().unwrap_or(Bson::Null)
        });
        Bson::Array(cells.collect())
    };
    Ok(Some(Bson::Array((0..length).map(row).collect())))
}

fn check_zip(inputs: usize, is_longest: bool, defaults: Option<&Array>) -> Result<()> {
    if inputs == 0 {
        let message = "the 'inputs' of $zip have no array; give at least one";
        return Err(QueryError::located(34465, message));
    }
    if defaults.is_some() && !is_longest {
        let message = "the 'defaults' of $zip need 'useLongestLength: true' beside them";
        return Err(QueryError::located(34466, message));
    }
    if let Some(defaults) = defaults
        && defaults.len() != inputs
    {
        let count = defaults.len();
        let message = format!("$zip has {count} 'defaults' for {inputs} 'inputs'");
        return Err(QueryError::located(34467, message));
    }
    Ok(())
}
