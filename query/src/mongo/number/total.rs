//! Sums of numbers that lose nothing on the way.

use bigdecimal::{BigDecimal, Zero};
use bson::Bson;

use super::{NumberType, decimal, integer, special_decimal, to_34_digits};
use crate::mongo::value::BsonNumber;

/// A sum of numbers of any types.
///
/// Integers are added up exactly, decimals to 34 digits, and doubles with a second double for the
/// bits that the first loses, so that the order of the numbers matters little.
#[derive(Debug, Clone)]
pub(in crate::mongo) struct NumberTotal {
    width: NumberType,
    integers: i128,
    high: f64,
    low: f64,
    decimals: BigDecimal,
    /// The sum of the numbers that are infinite or none.
    special: f64,
}

impl Default for NumberTotal {
    fn default() -> Self {
        Self {
            width: NumberType::Int32,
            integers: 0,
            high: 0.0,
            low: 0.0,
            decimals: BigDecimal::zero(),
            special: 0.0,
        }
    }
}

impl NumberTotal {
    /// Adds a value; returns false if it is no number.
    pub(in crate::mongo) fn add(&mut self, value: &Bson) -> bool {
        self.add_times(value, 1)
    }

    /// Adds a value so many times, at least once; returns false if it is no number.
    pub(in crate::mongo) fn add_times(&mut self, value: &Bson, times: u64) -> bool {
        let (Some(width), Some(number)) = (NumberType::of(value), BsonNumber::of(value)) else {
            return false;
        };
        self.width = self.width.max(width);
        match number {
            BsonNumber::Int(number) => self.integers += i128::from(number) * i128::from(times),
            BsonNumber::Double(number) => {
                let product = number * times as f64;
                self.add_double(product);
                if product.is_finite() {
                    // The bits that the product has lost.
                    self.low += number.mul_add(times as f64, -product);
                }
            }
            // As in MongoDB; exact digits could be twelve thousand.
            BsonNumber::Decimal(number) => {
                let product = number * BigDecimal::from(times);
                self.decimals = to_34_digits(&(&self.decimals + product));
            }
        }
        true
    }

    fn add_double(&mut self, number: f64) {
        let sum = self.high + number;
        if !sum.is_finite() {
            self.special += sum;
            return;
        }
        let part = sum - self.high;
        self.low += (self.high - (sum - part)) + (number - part);
        self.high = sum;
    }

    /// Returns the sum.
    pub(in crate::mongo) fn finish(&self) -> Bson {
        match self.width {
            NumberType::Int32 | NumberType::Int64 => integer(self.integers, self.width),
            NumberType::Double => Bson::Double(self.to_double()),
            NumberType::Decimal => self
                .to_decimal()
                .map_or_else(special_decimal, |d| decimal(&d)),
        }
    }

    /// Returns the sum divided by a number of values above zero: a double, or a decimal.
    pub(in crate::mongo) fn mean(&self, count: u64) -> Bson {
        match self.width {
            NumberType::Int32 | NumberType::Int64 | NumberType::Double => {
                Bson::Double(self.to_double() / count as f64)
            }
            NumberType::Decimal => {
                let mean = self.to_decimal().map(|sum| sum / BigDecimal::from(count));
                mean.map_or_else(special_decimal, |mean| decimal(&mean))
            }
        }
    }

    /// Returns the integers and the doubles as the nearest double.
    fn to_double(&self) -> f64 {
        if self.special != 0.0 {
            return self.special;
        }
        let mut total = self.clone();
        let nearest = self.integers as f64;
        total.add_double(nearest);
        total.add_double((self.integers - nearest as i128) as f64);
        match total.special == 0.0 {
            true => total.high + total.low,
            false => total.special,
        }
    }

    fn to_decimal(&self) -> Result<BigDecimal, f64> {
        if self.special != 0.0 {
            return Err(self.special);
        }
        let exact = |double: f64| BigDecimal::try_from(double).unwrap_or_default();
        let doubles = exact(self.high) + exact(self.low);
        Ok(&self.decimals + doubles + BigDecimal::from(self.integers))
    }
}
