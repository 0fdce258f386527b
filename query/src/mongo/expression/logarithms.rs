//! Powers, roots and logarithms ("Arithmetic Expression Operators" in MongoDB's manual).
//!
//! The result of a decimal is a decimal. A root and a whole power of one have 34 digits, and the
//! others 15, which is where we differ from MongoDB.

use bigdecimal::{BigDecimal, Signed};
use bson::Bson;

use super::operands::{NULL, misfit, nth};
use super::operator::ExpressionOperator;
use super::{Evaluated, is_nullish};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::number::{
    NumberType, decimal, integer, special_decimal, to_34_digits, to_decimal,
};
use crate::mongo::value::BsonNumber;

pub(super) const OPERATORS: &[ExpressionOperator] = &[
    ExpressionOperator::list("$exp", (1, 1), |values| {
        let operand = one("$exp", 28765, &values)?;
        Ok(Some(operand.map_or(Bson::Null, |(number, width)| {
            of_double(number.to_double().exp(), width)
        })))
    }),
    ExpressionOperator::list("$sqrt", (1, 1), square_root),
    ExpressionOperator::list("$ln", (1, 1), |values| {
        logarithm_of_one("$ln", 28766, &values, f64::ln)
    }),
    ExpressionOperator::list("$log10", (1, 1), |values| {
        logarithm_of_one("$log10", 28761, &values, f64::log10)
    }),
    ExpressionOperator::list("$log", (2, 2), logarithm),
    ExpressionOperator::list("$pow", (2, 2), power),
];

/// The largest exponent with which a decimal is multiplied digit by digit.
const DECIMAL_EXPONENT_MAX: i64 = 1000;

/// Returns the only operand with its type; `None` if it is null or missing.
fn one(
    operator: &str,
    code: i32,
    values: &[Evaluated],
) -> Result<Option<(BsonNumber, NumberType)>> {
    match values.first() {
        Some(value) if !is_nullish(value) => number(operator, code, value.as_ref()).map(Some),
        _ => Ok(None),
    }
}

fn number(operand: &str, code: i32, value: Option<&Bson>) -> Result<(BsonNumber, NumberType)> {
    let number = value.and_then(|value| BsonNumber::of(value).zip(NumberType::of(value)));
    number.ok_or_else(|| misfit(code, operand, "a number", value))
}

/// Returns a result in the type that an operand of this type has.
fn of_double(result: f64, width: NumberType) -> Bson {
    match width {
        NumberType::Decimal => to_decimal(&BsonNumber::Double(result))
            .map_or_else(special_decimal, |number| decimal(&number)),
        _ => Bson::Double(result),
    }
}

fn is_negative(number: &BsonNumber) -> bool {
    match number {
        BsonNumber::Int(number) => *number < 0,
        BsonNumber::Double(number) => *number < 0.0,
        BsonNumber::Decimal(number) => number.is_negative(),
    }
}

fn is_positive_or_nan(number: &BsonNumber) -> bool {
    number.is_nan() || !(is_negative(number) || number.is_zero())
}

fn square_root(values: Vec<Evaluated>) -> Result<Evaluated> {
    let Some((number, width)) = one("$sqrt", 28765, &values)? else {
        return NULL;
    };
    if is_negative(&number) {
        let message = "$sqrt needs a number from 0 on, but got a negative one";
        return Err(QueryError::located(28714, message));
    }
    Ok(Some(match &number {
        BsonNumber::Decimal(number) => decimal(&number.sqrt().unwrap_or_default().normalized()),
        number => of_double(number.to_double().sqrt(), width),
    }))
}

fn logarithm_of_one(
    operator: &str,
    code: i32,
    values: &[Evaluated],
    apply: fn(f64) -> f64,
) -> Result<Evaluated> {
    let Some((number, width)) = one(operator, 28765, values)? else {
        return NULL;
    };
    if !is_positive_or_nan(&number) {
        let message = format!("{operator} needs a number above 0");
        return Err(QueryError::located(code, message));
    }
    Ok(Some(of_double(apply(number.to_double()), width)))
}

fn logarithm(values: Vec<Evaluated>) -> Result<Evaluated> {
    if values.iter().any(is_nullish) {
        return NULL;
    }
    let (argument, width) = number("the number of $log", 28756, nth(&values, 0))?;
    let (base, base_width) = number("the base of $log", 28757, nth(&values, 1))?;
    if !is_positive_or_nan(&argument) {
        let message = "$log needs a number above 0";
        return Err(QueryError::located(28758, message));
    }
    if !is_positive_or_nan(&base) || base.compare(&BsonNumber::Int(1)).is_eq() {
        let message = "the base of $log needs a number above 0 that is not 1";
        return Err(QueryError::located(28759, message));
    }
    let result = argument.to_double().ln() / base.to_double().ln();
    Ok(Some(of_double(result, width.max(base_width))))
}

fn power(values: Vec<Evaluated>) -> Result<Evaluated> {
    if values.iter().any(is_nullish) {
        return NULL;
    }
    let (base, width) = number("the base of $pow", 28762, nth(&values, 0))?;
    let (exponent, exponent_width) = number("the exponent of $pow", 28763, nth(&values, 1))?;
    if base.is_zero() && is_negative(&exponent) {
        let message = "the base of $pow is 0 and its exponent is negative";
        return Err(QueryError::located(28764, message));
    }
    let width = width.max(exponent_width);
    let double = base.to_double().powf(exponent.to_double());
    Ok(Some(match (&base, exponent.to_integer(), width) {
        (BsonNumber::Int(base), Some(exponent), NumberType::Int32 | NumberType::Int64) => {
            match integer_power(*base, exponent) {
                Some(power) => integer(power.into(), width),
                None => Bson::Double(double),
            }
        }
        (base, Some(exponent), NumberType::Decimal)
            if (0..=DECIMAL_EXPONENT_MAX).contains(&exponent) =>
        {
            match to_decimal(base) {
                Ok(base) => decimal(&decimal_power(&base, exponent)),
                Err(special) => special_decimal(special.powf(exponent as f64)),
            }
        }
        _ => of_double(double, width),
    }))
}

/// Returns a power that is an integer of 64 bits.
fn integer_power(base: i64, exponent: i64) -> Option<i64> {
    match (base, exponent) {
        (1, _) => Some(1),
        (-1, exponent) => Some(if exponent % 2 == 0 { 1 } else { -1 }),
        (base, exponent) => base.checked_pow(u32::try_from(exponent).ok()?),
    }
}

fn decimal_power(base: &BigDecimal, exponent: i64) -> BigDecimal {
    let (mut power, mut square, mut left) = (BigDecimal::from(1), base.clone(), exponent);
    while left > 0 {
        if left % 2 == 1 {
            power = to_34_digits(&(&power * &square));
        }
        square = to_34_digits(&(&square * &square));
        left /= 2;
    }
    power
}
