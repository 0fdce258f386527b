//! Arithmetic operators ("Arithmetic Expression Operators" in MongoDB's manual).

use bigdecimal::{BigDecimal, RoundingMode};
use bson::{Bson, DateTime};

use super::operands::{NULL, index_of, misfit};
use super::operator::ExpressionOperator;
use super::{Evaluated, is_nullish};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::number::{
    NumberPair, NumberProduct, NumberTotal, NumberType, decimal, integer, special_decimal,
    to_34_digits, to_decimal,
};
use crate::mongo::value::BsonNumber;

pub(super) const OPERATORS: &[ExpressionOperator] = &[
    ExpressionOperator::list("$add", (0, usize::MAX), add),
    ExpressionOperator::list("$multiply", (0, usize::MAX), multiply),
    ExpressionOperator::list("$subtract", (2, 2), subtract),
    ExpressionOperator::list("$divide", (2, 2), divide),
    ExpressionOperator::list("$mod", (2, 2), modulo),
    ExpressionOperator::list("$abs", (1, 1), abs),
    ExpressionOperator::list("$ceil", (1, 1), |values| {
        whole("$ceil", &values, f64::ceil, RoundingMode::Ceiling)
    }),
    ExpressionOperator::list("$floor", (1, 1), |values| {
        whole("$floor", &values, f64::floor, RoundingMode::Floor)
    }),
    ExpressionOperator::list("$round", (1, 2), |values| {
        to_place("$round", &values, RoundingMode::HalfEven)
    }),
    ExpressionOperator::list("$trunc", (1, 2), |values| {
        to_place("$trunc", &values, RoundingMode::Down)
    }),
];

const DATE_OVERFLOW: &str = "a date lies beyond those of 64 bits of milliseconds";

/// Adds numbers, and milliseconds to at most one date.
fn add(values: Vec<Evaluated>) -> Result<Evaluated> {
    let (mut total, mut date) = (NumberTotal::default(), None);
    for value in values {
        match value {
            Some(Bson::DateTime(_)) if date.is_some() => {
                let message = "$add has two dates; only numbers can be added to a date";
                return Err(QueryError::located(16612, message));
            }
            Some(Bson::DateTime(first)) => date = Some(first),
            Some(number) if total.add(&number) => {}
            value if is_nullish(&value) => return NULL,
            other => return Err(misfit(14, "$add", "numbers or a date", other.as_ref())),
        }
    }
    let sum = total.finish();
    match date {
        None => Ok(Some(sum)),
        Some(date) => move_date(date, &sum, 1),
    }
}

/// Returns the date so many milliseconds later, or earlier. A fraction of one is rounded for a sum
/// and cut for a difference, as the server does.
fn move_date(date: DateTime, by: &Bson, sign: i64) -> Result<Evaluated> {
    let by = match BsonNumber::of(by) {
        Some(BsonNumber::Double(by)) if sign > 0 => BsonNumber::Double(by.round()).to_integer(),
        Some(BsonNumber::Double(by)) => BsonNumber::Double(by.trunc()).to_integer(),
        Some(BsonNumber::Decimal(by)) => {
            let whole = by.with_scale_round(0, RoundingMode::HalfEven);
            BsonNumber::Decimal(whole).to_integer()
        }
        by => by.and_then(|by| by.to_integer()),
    };
    let by = by.and_then(|by| by.checked_mul(sign));
    let moved = by.and_then(|by| date.timestamp_millis().checked_add(by));
    let moved = moved.ok_or_else(|| QueryError::located(15, DATE_OVERFLOW))?;
    Ok(Some(Bson::DateTime(DateTime::from_millis(moved))))
}

fn multiply(values: Vec<Evaluated>) -> Result<Evaluated> {
    let mut product = NumberProduct::default();
    for value in values {
        match value {
            Some(number) if product.multiply(&number) => {}
            value if is_nullish(&value) => return NULL,
            other => return Err(misfit(14, "$multiply", "numbers", other.as_ref())),
        }
    }
    Ok(Some(product.finish()))
}

/// Returns two operands; `None` if one is null or missing.
fn two(values: Vec<Evaluated>) -> Option<(Bson, Bson)> {
    let mut values = values.into_iter();
    let (left, right) = (values.next()?, values.next()?);
    if is_nullish(&left) || is_nullish(&right) {
        return None;
    }
    left.zip(right)
}

fn subtract(values: Vec<Evaluated>) -> Result<Evaluated> {
    let Some((left, right)) = two(values) else {
        return NULL;
    };
    if let Bson::DateTime(date) = left {
        return match right {
            Bson::DateTime(earlier) => {
                let (late, early) = (date.timestamp_millis(), earlier.timestamp_millis());
                let between = late.checked_sub(early);
                let between = between.ok_or_else(|| QueryError::located(15, DATE_OVERFLOW));
                Ok(Some(Bson::Int64(between?)))
            }
            number if NumberType::of(&number).is_some() => move_date(date, &number, -1),
            other => Err(misfit(
                14,
                "$subtract from a date",
                "a number or a date",
                Some(&other),
            )),
        };
    }
    Ok(Some(match NumberPair::of(&left, &right) {
        None => return Err(misfit_of_two(14, "$subtract", &left, &right)),
        Some(NumberPair::Integers(left, right, width)) => {
            integer(i128::from(left) - i128::from(right), width)
        }
        Some(NumberPair::Doubles(left, right)) => Bson::Double(left - right),
        Some(NumberPair::Decimals(left, right)) => decimal(&(left - right)),
        Some(NumberPair::Special(left, right)) => special_decimal(left - right),
    }))
}

/// Returns the error of two operands of which one is no number.
fn misfit_of_two(code: i32, operator: &str, left: &Bson, right: &Bson) -> QueryError {
    let wrong = match NumberType::of(left) {
        None => left,
        Some(_) => right,
    };
    misfit(code, operator, "two numbers", Some(wrong))
}

fn divide(values: Vec<Evaluated>) -> Result<Evaluated> {
    let Some((left, right)) = two(values) else {
        return NULL;
    };
    let Some(pair) = NumberPair::of(&left, &right) else {
        return Err(misfit_of_two(14, "$divide", &left, &right));
    };
    if BsonNumber::of(&right).is_some_and(|right| right.is_zero()) {
        return Err(QueryError::bad_value("the divisor of $divide is 0"));
    }
    Ok(Some(match pair {
        NumberPair::Integers(left, right, _) => Bson::Double(left as f64 / right as f64),
        NumberPair::Doubles(left, right) => Bson::Double(left / right),
        NumberPair::Decimals(left, right) => decimal(&(left / right)),
        NumberPair::Special(left, right) => match left / right {
            0.0 => decimal(&BigDecimal::from(0)),
            quotient => special_decimal(quotient),
        },
    }))
}

fn modulo(values: Vec<Evaluated>) -> Result<Evaluated> {
    let Some((left, right)) = two(values) else {
        return NULL;
    };
    let Some(pair) = NumberPair::of(&left, &right) else {
        return Err(misfit_of_two(16611, "$mod", &left, &right));
    };
    if BsonNumber::of(&right).is_some_and(|right| right.is_zero()) {
        return Err(QueryError::located(16610, "the divisor of $mod is 0"));
    }
    Ok(Some(match pair {
        NumberPair::Integers(left, right, width) => {
            integer(i128::from(left) % i128::from(right), width)
        }
        NumberPair::Doubles(left, right) => Bson::Double(left % right),
        NumberPair::Decimals(left, right) => decimal(&(left % right)),
        NumberPair::Special(left, right) if left.is_finite() && !right.is_nan() => {
            // A number leaves itself when it is divided by an infinite one.
            let left = to_decimal(&BsonNumber::Double(left));
            left.map_or_else(special_decimal, |left| decimal(&left))
        }
        NumberPair::Special(..) => special_decimal(f64::NAN),
    }))
}

/// Returns the number of an operand; `None` if it is null or missing.
fn one(name: &str, code: i32, value: Option<&Evaluated>) -> Result<Option<Bson>> {
    match value.and_then(Option::as_ref) {
        None | Some(Bson::Null | Bson::Undefined) => Ok(None),
        Some(number) if NumberType::of(number).is_some() => Ok(Some(number.clone())),
        other => Err(misfit(code, name, "a number", other)),
    }
}

fn abs(values: Vec<Evaluated>) -> Result<Evaluated> {
    let Some(number) = one("$abs", 28765, values.first())? else {
        return NULL;
    };
    Ok(Some(match number {
        Bson::Int32(int) => integer(i128::from(int).abs(), NumberType::Int32),
        Bson::Int64(i64::MIN) => {
            let message = "the $abs of the least long is none; convert it to a double or decimal";
            return Err(QueryError::located(28680, message));
        }
        Bson::Int64(long) => Bson::Int64(long.abs()),
        Bson::Double(double) => Bson::Double(double.abs()),
        other => match BsonNumber::of(&other) {
            Some(BsonNumber::Decimal(number)) => decimal(&number.abs()),
            Some(number) => special_decimal(number.to_double().abs()),
            None => Bson::Null,
        },
    }))
}

fn whole(
    name: &str,
    values: &[Evaluated],
    of_double: fn(f64) -> f64,
    mode: RoundingMode,
) -> Result<Evaluated> {
    let Some(number) = one(name, 28765, values.first())? else {
        return NULL;
    };
    Ok(Some(match number {
        Bson::Double(double) => Bson::Double(of_double(double)),
        Bson::Decimal128(_) => match BsonNumber::of(&number) {
            Some(BsonNumber::Decimal(finite)) => decimal(&finite.with_scale_round(0, mode)),
            _ => number,
        },
        int => int,
    }))
}

/// Rounds a number to a place after the decimal point, or before it if the place is negative.
fn to_place(name: &str, values: &[Evaluated], mode: RoundingMode) -> Result<Evaluated> {
    let number = one(name, 51081, values.first())?;
    let place = match values.get(1) {
        None => 0,
        Some(place) if is_nullish(place) => return NULL,
        Some(place) => {
            let operand = format!("the place of {name}");
            index_of(&operand, (51082, 51082), place)?.unwrap_or(0)
        }
    };
    if !(-20..=100).contains(&place) {
        let message = format!("the place {place} of {name} is not between -20 and 100");
        return Err(QueryError::located(51083, message));
    }
    let Some(number) = number else {
        return NULL;
    };
    Ok(Some(match number {
        Bson::Double(double) if place == 0 && mode == RoundingMode::Down => {
            Bson::Double(double.trunc())
        }
        Bson::Double(double) if place == 0 => Bson::Double(double.round_ties_even()),
        // With all of its digits: a place does not change the digits before it.
        Bson::Double(double) => match BigDecimal::try_from(double) {
            Ok(exact) => {
                let rounded = to_34_digits(&exact).with_scale_round(place, mode);
                Bson::Double(BsonNumber::Decimal(rounded).to_double())
            }
            Err(_) => Bson::Double(double),
        },
        Bson::Decimal128(_) => match BsonNumber::of(&number) {
            Some(BsonNumber::Decimal(exact)) => decimal(&exact.with_scale_round(place, mode)),
            _ => number,
        },
        int if place >= 0 => int,
        int => {
            let exact = BsonNumber::of(&int).and_then(|number| to_decimal(&number).ok());
            let rounded = exact.unwrap_or_default().with_scale_round(place, mode);
            let Some(long) = BsonNumber::Decimal(rounded).to_integer() else {
                let message = format!("the result of {name} is no long; convert to a double first");
                return Err(QueryError::located(51080, message));
            };
            let width = NumberType::of(&int).unwrap_or(NumberType::Int64);
            integer(long.into(), width)
        }
    }))
}
