//! Accumulators as expressions: over their arguments, or over the elements of one array.

use std::cmp::Ordering;

use bson::Bson;

use super::operator::ExpressionOperator;
use super::{Evaluated, is_nullish};
use crate::mongo::error::Result;
use crate::mongo::number::{NumberDeviation, NumberTotal};
use crate::mongo::value::compare;

pub(super) const OPERATORS: &[ExpressionOperator] = &[
    ExpressionOperator::list("$sum", (0, usize::MAX), |values| {
        let mut total = NumberTotal::default();
        for value in operands(values) {
            total.add(&value);
        }
        Ok(Some(total.finish()))
    }),
    ExpressionOperator::list("$avg", (0, usize::MAX), |values| {
        let (mut total, mut count) = (NumberTotal::default(), 0);
        for value in operands(values) {
            count += u64::from(total.add(&value));
        }
        Ok(Some(match count {
            0 => Bson::Null,
            count => total.mean(count),
        }))
    }),
    ExpressionOperator::list("$stdDevPop", (0, usize::MAX), |values| {
        deviation(values, false)
    }),
    ExpressionOperator::list("$stdDevSamp", (0, usize::MAX), |values| {
        deviation(values, true)
    }),
    ExpressionOperator::list("$min", (0, usize::MAX), |values| {
        extreme(values, Ordering::Less)
    }),
    ExpressionOperator::list("$max", (0, usize::MAX), |values| {
        extreme(values, Ordering::Greater)
    }),
];

/// Returns the elements of a single array, or the arguments themselves.
fn operands(mut values: Vec<Evaluated>) -> impl Iterator<Item = Bson> {
    if let [Some(Bson::Array(items))] = values.as_mut_slice() {
        let items = std::mem::take(items);
        values = items.into_iter().map(Some).collect();
    }
    let known = values.into_iter().filter(|value| !is_nullish(value));
    known.flatten()
}

fn deviation(values: Vec<Evaluated>, is_sample: bool) -> Result<Evaluated> {
    let mut deviation = NumberDeviation::default();
    operands(values).for_each(|value| deviation.add(&value));
    Ok(Some(deviation.finish(is_sample)))
}

fn extreme(values: Vec<Evaluated>, wanted: Ordering) -> Result<Evaluated> {
    let better = |best: Bson, next: Bson| match compare(&next, &best) == wanted {
        true => next,
        false => best,
    };
    let extreme = operands(values).reduce(better);
    Ok(Some(extreme.unwrap_or(Bson::Null)))
}
