//! Exact sums of squares, and the variance computed from them.
//!
//! 256 bits hold every possible sum: no value exceeds 2^84 (64 bits in millionths), so the squares
//! of 2^64 of them sum up to less than 2^233. Adding integers is associative and commutative, so
//! any order of merges produces the same bytes.

use arrow::datatypes::i256;

use super::numeric::Numeric;
use super::vectors::gather;
use crate::group::Grouping;
use crate::intern::Numbers;

/// The sum of the squares of each cell's values.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Squares {
    pub(crate) sums: Vec<i256>,
}

/// Returns the square of an integer. Every square of 128 bits fits 256 bits.
pub(crate) fn square(value: i128) -> i256 {
    match value.checked_mul(value) {
        Some(square) => i256::from_i128(square),
        None => i256::from_i128(value).wrapping_mul(i256::from_i128(value)),
    }
}

impl Squares {
    pub(super) fn of_events(numbers: &Numbers, groups: &Grouping) -> Self {
        let sum = |events: &[u32]| {
            let values = events.iter().map(|event| numbers.get(*event as usize));
            values.fold(i256::ZERO, |sum, value| match value {
                Some(Ok(value)) => sum.wrapping_add(square(value)),
                _ => sum,
            })
        };
        Self {
            sums: groups.iter().map(sum).collect(),
        }
    }

    pub(super) fn reduce(&self, groups: &Grouping) -> Self {
        let add = |sum: i256, cell: &u32| sum.wrapping_add(self.sums[*cell as usize]);
        let sum = |cells: &[u32]| cells.iter().fold(i256::ZERO, add);
        Self {
            sums: groups.iter().map(sum).collect(),
        }
    }

    pub(super) fn take(&self, cells: &[u32]) -> Self {
        Self {
            sums: gather(&self.sums, cells),
        }
    }

    pub(super) fn append(&mut self, other: &Self) {
        self.sums.extend_from_slice(&other.sums);
    }

    /// Returns the sample variance of a cell's values: (n Q - S^2) / (n (n - 1)), where n is their
    /// number, S their sum and Q the sum of their squares, exact up to the one division. `None` for
    /// fewer than two values.
    ///
    /// The difference fits 256 bits for any number of 64-bit integers, and for up to 2^43 values of
    /// any kind, the number up to which sums are exact.
    pub(crate) fn variance(&self, numeric: &Numeric, cell: usize) -> Option<f64> {
        let n = i128::from(numeric.n[cell]);
        if n < 2 {
            return None;
        }
        let scaled = self.sums[cell].wrapping_mul(i256::from_i128(n));
        let difference = scaled.wrapping_sub(square(numeric.sum[cell]));
        let pairs = i256::from_i128(n).wrapping_mul(i256::from_i128(n - 1));
        Some(double(difference) / double(pairs))
    }
}

/// Returns the double nearest to a non-negative integer; above 128 bits it may be the adjacent one.
fn double(value: i256) -> f64 {
    const HIGH: f64 = 340_282_366_920_938_463_463_374_607_431_768_211_456.0;
    let (low, high) = value.to_parts();
    high as f64 * HIGH + low as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the variance of a cell that holds each of `values` `times` times.
    fn variance(values: &[i128], times: u64) -> Option<f64> {
        let times_wide = i256::from_i128(times.into());
        let squares = values.iter().fold(i256::ZERO, |sum, v| {
            sum.wrapping_add(square(*v).wrapping_mul(times_wide))
        });
        let numeric = Numeric {
            n: vec![values.len() as u64 * times],
            sum: vec![values.iter().sum::<i128>() * i128::from(times)],
            ..Numeric::default()
        };
        let column = Squares {
            sums: vec![squares],
        };
        column.variance(&numeric, 0)
    }

    #[test]
    fn the_variance_is_that_of_a_sample() {
        assert_eq!(variance(&[], 1), None);
        assert_eq!(variance(&[7], 1), None);
        assert_eq!(variance(&[7, 7], 1), Some(0.0));
        assert_eq!(variance(&[2, 4, 4, 4, 5, 5, 7, 9], 1), Some(32.0 / 7.0));
        assert_eq!(variance(&[-1, 1], 1), Some(2.0));
    }

    #[test]
    fn the_ends_of_64_bits_do_not_overflow() {
        let (min, max) = (i128::from(i64::MIN), i128::from(i64::MAX));
        // The distance of the ends is 2^64 - 1; the variance is half its square.
        let half = 2_f64.powi(127);
        assert_eq!(variance(&[min, max], 1), Some(half));
        assert_eq!(variance(&[min, min, min], 1), Some(0.0));
        assert_eq!(variance(&[max, max - 1], 1), Some(0.5));
        // The more values, the nearer the variance to a quarter of that square.
        let many = variance(&[min, max], 1 << 62).expect("many values");
        assert!((many / 2_f64.powi(126) - 1.0).abs() < 1e-15, "{many}");
        assert_eq!(variance(&[max], u64::MAX), Some(0.0));
    }

    #[test]
    fn the_largest_decimals_do_not_overflow() {
        let most = 10_i128.pow(25);
        let many = variance(&[-most, most], 1 << 42).expect("many values");
        assert!((many / 1e50 - 1.0).abs() < 1e-12, "{many}");
        assert_eq!(variance(&[most, most - 3], 1), Some(4.5));
    }

    #[test]
    fn doubles_are_those_of_the_integers() {
        for (value, expected) in [
            (i256::ZERO, 0.0),
            (i256::from_i128(i128::MAX), 2_f64.powi(127)),
            (i256::from_parts(0, 1), 2_f64.powi(128)),
            (i256::MAX, 2_f64.powi(255)),
        ] {
            assert_eq!(double(value), expected, "{value}");
        }
    }
}
