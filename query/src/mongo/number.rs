//! Arithmetic on the four types of numbers ("Arithmetic Expression Operators" in MongoDB's manual).
//!
//! # Invariants
//! * The result has the widest type of the operands: int, long, double, decimal.
//! * An int that overflows becomes a long, and a long that overflows a double.
//! * Decimals have 34 digits; a result in between is rounded to even.

mod deviation;
mod total;

use std::num::NonZeroU64;
use std::str::FromStr;

use bigdecimal::num_bigint::Sign;
use bigdecimal::{BigDecimal, RoundingMode, Zero};
use bson::{Bson, Decimal128};

pub(in crate::mongo) use self::deviation::NumberDeviation;
pub(in crate::mongo) use self::total::NumberTotal;
use crate::mongo::value::BsonNumber;

/// The type of a number, from the narrowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::mongo) enum NumberType {
    Int32,
    Int64,
    Double,
    Decimal,
}

/// Digits of a decimal.
const DIGITS_MAX: u64 = 34;
/// The largest exponent of a decimal whose digits are an integer.
const EXPONENT_MAX: i64 = 6111;
/// The smallest exponent.
const EXPONENT_MIN: i64 = -6176;
/// The largest number of digits before the point.
const MAGNITUDE_MAX: i128 = 6145;

impl NumberType {
    /// Returns the type of a value; `None` if it is no number.
    pub(in crate::mongo) fn of(value: &Bson) -> Option<Self> {
        Some(match value {
            Bson::Int32(_) => Self::Int32,
            Bson::Int64(_) => Self::Int64,
            Bson::Double(_) => Self::Double,
            Bson::Decimal128(_) => Self::Decimal,
            _ => return None,
        })
    }
}

/// Returns an integer in the narrowest of the types from `at_least` on that holds it.
pub(in crate::mongo) fn integer(value: i128, at_least: NumberType) -> Bson {
    match (i32::try_from(value), i64::try_from(value)) {
        (Ok(int), _) if at_least == NumberType::Int32 => Bson::Int32(int),
        (_, Ok(long)) => Bson::Int64(long),
        (_, Err(_)) => Bson::Double(value as f64),
    }
}

/// Returns the number of 34 digits that is nearest, or an infinite one.
pub(in crate::mongo) fn decimal(value: &BigDecimal) -> Bson {
    let is_negative = value.sign() == Sign::Minus;
    let (_, scale) = value.as_bigint_and_exponent();
    if value.is_zero() {
        let exponent = scale.saturating_neg().clamp(EXPONENT_MIN, EXPONENT_MAX);
        return Bson::Decimal128(parse_decimal(&format!("0E{exponent}")));
    }
    // Beyond these bounds the digits below would be as many as the exponent says.
    let magnitude = i128::from(value.digits()) - i128::from(scale);
    if magnitude > MAGNITUDE_MAX {
        return special_decimal(match is_negative {
            true => f64::NEG_INFINITY,
            false => f64::INFINITY,
        });
    }
    if magnitude < i128::from(EXPONENT_MIN) {
        return Bson::Decimal128(parse_decimal(&format!("0E{EXPONENT_MIN}")));
    }
    let rounded = to_34_digits(value);
    let (_, scale) = rounded.as_bigint_and_exponent();
    let rounded = if -scale < EXPONENT_MIN {
        rounded.with_scale_round(-EXPONENT_MIN, RoundingMode::HalfEven)
    } else if -scale > EXPONENT_MAX {
        rounded.with_scale(-EXPONENT_MAX)
    } else {
        rounded
    };
    let (digits, scale) = rounded.into_bigint_and_exponent();
    match Decimal128::from_str(&format!("{digits}E{}", -scale)) {
        Ok(number) => Bson::Decimal128(number),
        // The digits have been rounded up to one more than fits.
        Err(_) => special_decimal(match is_negative {
            true => f64::NEG_INFINITY,
            false => f64::INFINITY,
        }),
    }
}

/// Rounds a number to 34 digits; one of fewer stays as it is.
pub(in crate::mongo) fn to_34_digits(value: &BigDecimal) -> BigDecimal {
    if value.digits() <= DIGITS_MAX {
        return value.clone();
    }
    let digits = NonZeroU64::new(DIGITS_MAX).expect("BUG: 34 is not zero");
    value.with_precision_round(digits, RoundingMode::HalfEven)
}

fn parse_decimal(text: &str) -> Decimal128 {
    Decimal128::from_str(text).expect("BUG: the text of a decimal is not one")
}

/// Returns the decimal of a double that is infinite or no number.
pub(in crate::mongo) fn special_decimal(value: f64) -> Bson {
    Bson::Decimal128(parse_decimal(if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }))
}

/// Returns a number as a decimal, a double with 15 digits as the server does; the double itself if
/// it is infinite or no number.
pub(in crate::mongo) fn to_decimal(number: &BsonNumber) -> Result<BigDecimal, f64> {
    match number {
        BsonNumber::Int(int) => Ok(BigDecimal::from(*int)),
        BsonNumber::Decimal(decimal) => Ok(decimal.clone()),
        BsonNumber::Double(double) if double.is_finite() => {
            if *double == 0.0 {
                return Ok(BigDecimal::zero());
            }
            let text = format!("{double:.14e}");
            Ok(BigDecimal::from_str(&text).expect("BUG: a finite double has digits"))
        }
        BsonNumber::Double(double) => Err(*double),
    }
}

/// A number of the widest type of two, or of one and a decimal.
#[derive(Debug)]
pub(in crate::mongo) enum NumberPair {
    /// Two integers, and the wider type.
    Integers(i64, i64, NumberType),
    Doubles(f64, f64),
    Decimals(BigDecimal, BigDecimal),
    /// Decimals of which one is infinite or no number.
    Special(f64, f64),
}

impl NumberPair {
    /// Returns two numbers in the wider type; `None` if one is no number.
    pub(in crate::mongo) fn of(a: &Bson, b: &Bson) -> Option<Self> {
        let width = NumberType::of(a)?.max(NumberType::of(b)?);
        let (a, b) = (BsonNumber::of(a)?, BsonNumber::of(b)?);
        Some(match (width, &a, &b) {
            (NumberType::Decimal, ..) => match (to_decimal(&a), to_decimal(&b)) {
                (Ok(a), Ok(b)) => Self::Decimals(a, b),
                _ => Self::Special(a.to_double(), b.to_double()),
            },
            (_, BsonNumber::Int(a), BsonNumber::Int(b)) => Self::Integers(*a, *b, width),
            _ => Self::Doubles(a.to_double(), b.to_double()),
        })
    }
}

/// A product of numbers.
#[derive(Debug)]
pub(in crate::mongo) struct NumberProduct {
    width: NumberType,
    /// The product while all are integers; `None` once it is none of 64 bits.
    integers: Option<i64>,
    doubles: f64,
    decimals: BigDecimal,
    /// True if a factor is infinite or no number.
    is_special: bool,
}

impl Default for NumberProduct {
    fn default() -> Self {
        Self {
            width: NumberType::Int32,
            integers: Some(1),
            doubles: 1.0,
            decimals: BigDecimal::from(1),
            is_special: false,
        }
    }
}

impl NumberProduct {
    /// Multiplies by a value; returns false if it is no number.
    pub(in crate::mongo) fn multiply(&mut self, by: &Bson) -> bool {
        let (Some(width), Some(by)) = (NumberType::of(by), BsonNumber::of(by)) else {
            return false;
        };
        if width == NumberType::Decimal && self.width != NumberType::Decimal {
            let before = match self.integers {
                Some(product) => BsonNumber::Int(product),
                None => BsonNumber::Double(self.doubles),
            };
            self.decimals = to_decimal(&before).unwrap_or_else(|_| BigDecimal::zero());
        }
        self.width = self.width.max(width);
        self.is_special |= matches!(by, BsonNumber::Double(by) if !by.is_finite());
        self.doubles *= by.to_double();
        self.integers = match (&by, self.integers) {
            (BsonNumber::Int(by), Some(product)) => product.checked_mul(*by),
            _ => None,
        };
        if self.width == NumberType::Decimal
            && let Ok(by) = to_decimal(&by)
        {
            self.decimals = to_34_digits(&(&self.decimals * by));
        }
        true
    }

    /// Returns the product.
    pub(in crate::mongo) fn finish(self) -> Bson {
        match (self.width, self.integers) {
            (NumberType::Decimal, _) if self.is_special => special_decimal(self.doubles),
            (NumberType::Decimal, _) => decimal(&self.decimals),
            (_, Some(product)) => integer(product.into(), self.width),
            (_, None) => Bson::Double(self.doubles),
        }
    }
}
