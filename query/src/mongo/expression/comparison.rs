//! Operators that compare values ("Comparison Expression Operators" in MongoDB's manual).

use std::cmp::Ordering;

use bson::Bson;

use super::Evaluated;
use super::operands::nth;
use super::operator::ExpressionOperator;
use crate::mongo::error::Result;
use crate::mongo::value::{compare_optional, is_true};

pub(super) const OPERATORS: &[ExpressionOperator] = &[
    ExpressionOperator::list("$cmp", (2, 2), |values| {
        Ok(Some(Bson::Int32(order(&values) as i32)))
    }),
    ExpressionOperator::list("$eq", (2, 2), |values| boolean(order(&values).is_eq())),
    ExpressionOperator::list("$ne", (2, 2), |values| boolean(order(&values).is_ne())),
    ExpressionOperator::list("$gt", (2, 2), |values| boolean(order(&values).is_gt())),
    ExpressionOperator::list("$gte", (2, 2), |values| boolean(order(&values).is_ge())),
    ExpressionOperator::list("$lt", (2, 2), |values| boolean(order(&values).is_lt())),
    ExpressionOperator::list("$lte", (2, 2), |values| boolean(order(&values).is_le())),
    ExpressionOperator::list("$not", (1, 1), |values| boolean(!is_true(nth(&values, 0)))),
];

fn order(values: &[Evaluated]) -> Ordering {
    compare_optional(nth(values, 0), nth(values, 1))
}

fn boolean(truth: bool) -> Result<Evaluated> {
    Ok(Some(Bson::Boolean(truth)))
}
