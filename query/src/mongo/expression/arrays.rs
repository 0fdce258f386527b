//! Operators of arrays ("Array Expression Operators" in MongoDB's manual).

use bson::{Array, Bson};

use super::operands::{NULL, array_of, index_of, misfit, nth};
use super::operator::ExpressionOperator;
use super::{Evaluated, is_nullish};
use crate::mongo::error::{QueryError, Result};

/// Maximum elements of a range.
const RANGE_MAX: i64 = 1_000_000;

pub(super) const OPERATORS: &[ExpressionOperator] = &[
    ExpressionOperator::list("$size", (1, 1), size),
    ExpressionOperator::list("$arrayElemAt", (2, 2), element_at),
    ExpressionOperator::list("$first", (1, 1), |values| end("$first", values, 0)),
    ExpressionOperator::list("$last", (1, 1), |values| end("$last", values, -1)),
    ExpressionOperator::list("$slice", (2, 3), slice),
    ExpressionOperator::list("$concatArrays", (0, usize::MAX), concat),
    ExpressionOperator::list("$isArray", (1, 1), |values| {
        let is_array = matches!(nth(&values, 0), Some(Bson::Array(_)));
        Ok(Some(Bson::Boolean(is_array)))
    }),
    ExpressionOperator::list("$range", (2, 3), range),
];

fn size(values: Vec<Evaluated>) -> Result<Evaluated> {
    match nth(&values, 0) {
        Some(Bson::Array(items)) => Ok(Some(Bson::Int32(items.len() as i32))),
        other => Err(misfit(17124, "$size", "an array", other)),
    }
}

/// Returns the element of a place, counted from the end if it is negative; `None` beyond the ends.
fn at(mut items: Array, place: i64) -> Evaluated {
    let place = match place < 0 {
        true => items.len() as i64 + place,
        false => place,
    };
    let place = usize::try_from(place).ok()?;
    (place < items.len()).then(|| items.swap_remove(place))
}

fn element_at(mut values: Vec<Evaluated>) -> Result<Evaluated> {
    let place = values.pop().flatten();
    let items = values.pop().flatten();
    if is_nullish(&place) || is_nullish(&items) {
        return NULL;
    }
    let items = array_of("$arrayElemAt", 28689, items)?;
    let place = index_of("the place of $arrayElemAt", (28690, 28691), &place)?;
    Ok(items.zip(place).and_then(|(items, place)| at(items, place)))
}

fn end(name: &str, mut values: Vec<Evaluated>, place: i64) -> Result<Evaluated> {
    match array_of(name, 28689, values.pop().flatten())? {
        None => NULL,
        Some(items) => Ok(at(items, place)),
    }
}

fn slice(values: Vec<Evaluated>) -> Result<Evaluated> {
    if values.iter().any(is_nullish) {
        return NULL;
    }
    let mut values = values.into_iter();
    let items = array_of("$slice", 28724, values.next().flatten())?;
    let place = "the place of $slice";
    let first = index_of(place, (28725, 28726), &values.next().flatten())?;
    let (Some(items), Some(first)) = (items, first) else {
        return NULL;
    };
    let length = items.len() as i64;
    let (start, count) = match values.next() {
        None if first < 0 => (length + first, i64::MAX),
        None => (0, first),
        Some(count) => {
            let operand = "the count of $slice";
            let count = index_of(operand, (28727, 28728), &count)?.unwrap_or(0);
            if count <= 0 {
                let message = format!("{operand} needs a number from 1 on, but got {count}");
                return Err(QueryError::located(28729, message));
            }
            (if first < 0 { length + first } else { first }, count)
        }
    };
    let start = usize::try_from(start).unwrap_or(0);
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let items = items.into_iter().skip(start).take(count);
    Ok(Some(Bson::Array(items.collect())))
}

fn concat(values: Vec<Evaluated>) -> Result<Evaluated> {
    let mut all = Array::new();
    for value in values {
        match array_of("$concatArrays", 28664, value)? {
            None => return NULL,
            Some(items) => all.extend(items),
        }
    }
    Ok(Some(Bson::Array(all)))
}

fn range(values: Vec<Evaluated>) -> Result<Evaluated> {
    let argument = |place: usize, operand: &str, codes: (i32, i32)| {
        let value = values.get(place).cloned().flatten();
        let index = index_of(operand, codes, &value)?;
        index.ok_or_else(|| misfit(codes.0, operand, "a number", value.as_ref()))
    };
    let start = argument(0, "the start of $range", (34443, 34444))?;
    let end = argument(1, "the end of $range", (34445, 34446))?;
    let step = match values.len() {
        3 => argument(2, "the step of $range", (34447, 34448))?,
        _ => 1,
    };
    if step == 0 {
        let message = "the step of $range is 0, which leads nowhere";
        return Err(QueryError::located(34449, message));
    }
    if (end - start) / step > RANGE_MAX {
        let message = format!("$range makes more than {RANGE_MAX} numbers; make fewer");
        return Err(QueryError::located(17419, message));
    }
    let mut numbers = Array::new();
    let mut next = start;
    while (step > 0 && next < end) || (step < 0 && next > end) {
        numbers.push(Bson::Int32(next as i32));
        next += step;
    }
    Ok(Some(Bson::Array(numbers)))
}
