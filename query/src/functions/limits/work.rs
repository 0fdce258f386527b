//! Functions that compare all of one argument with all of another. The steps of a call are
//! estimated before it begins, because nothing stops a call.

use arrow::array::{Array, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

use super::patterns::weight;
use crate::functions::sizes::bytes;
use crate::regex_steps::{STATES_AT_ONCE, TEXT_STEPS_MAX};

/// Largest number of steps of a call for all rows of a batch. Operators take fewer rows at a time
/// if these take long.
const CALL_STEPS_MAX: u64 = 1 << 33;
/// Steps to compile a regular expression: for each of its states, and once for the whole.
const COMPILE_STATE_STEPS: u64 = 1000;
const COMPILE_STEPS: u64 = 100_000;

/// Operands that a function compares with one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Work {
    /// Each byte of the first text against each of the second.
    Texts,
    /// As [`Self::Texts`], unless the second text is a constant: then one pass finds it.
    Find,
    /// Each element of the first list against each of the second.
    Lists,
    /// Each byte of the first text against each state of the second, a regular expression.
    Pattern,
}

/// Functions that compare their operands.
pub(super) const COMPARING: [(&str, Work); 12] = [
    ("levenshtein", Work::Texts),
    ("strpos", Work::Find),
    ("btrim", Work::Texts),
    ("ltrim", Work::Texts),
    ("rtrim", Work::Texts),
    ("array_has_all", Work::Lists),
    ("array_has_any", Work::Lists),
    ("regexp_count", Work::Pattern),
    ("regexp_instr", Work::Pattern),
    ("regexp_like", Work::Pattern),
    ("regexp_match", Work::Pattern),
    ("regexp_replace", Work::Pattern),
];

impl Work {
    /// Refuses a call that would take too long.
    ///
    /// # Errors
    /// The error names the function and the number of its steps.
    pub(super) fn check(self, name: &str, args: &ScalarFunctionArgs) -> Result<()> {
        let [first, second, ..] = args.args.as_slice() else {
            return Ok(());
        };
        let rows = match (first, second) {
            (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)) => 1,
            (ColumnarValue::Array(_), ColumnarValue::Scalar(_)) if self == Self::Find => {
                return Ok(());
            }
            _ => args.number_rows,
        };
        // The product over all rows together is never less than the sum over single rows.
        let all = match self {
            Self::Texts | Self::Find | Self::Lists => {
                bytes(first, rows).saturating_mul(bytes(second, rows))
            }
            Self::Pattern => match constant(second) {
                Some(pattern) => self.pattern_steps(bytes(first, rows), weight(pattern)?),
                None => u64::MAX,
            },
        };
        if all <= TEXT_STEPS_MAX {
            return Ok(());
        }
        let mut sum = 0_u64;
        for steps in self.steps(first, second, rows)? {
            if steps > TEXT_STEPS_MAX {
                return exec_err!(
                    "{name} would take {steps} steps for one row; the limit is {TEXT_STEPS_MAX}; \
                     make its arguments shorter"
                );
            }
            sum = sum.saturating_add(steps);
        }
        if sum > CALL_STEPS_MAX {
            return exec_err!(
                "{name} would take {sum} steps for {rows} rows; the limit is {CALL_STEPS_MAX}; \
                 make its arguments shorter"
            );
        }
        Ok(())
    }

    fn pattern_steps(self, text: u64, weight: u64) -> u64 {
        text.saturating_mul(weight) / STATES_AT_ONCE
    }

    /// Returns the steps of each row.
    fn steps(self, first: &ColumnarValue, second: &ColumnarValue, rows: usize) -> Result<Vec<u64>> {
        let a = lengths(first, rows)?;
        if self == Self::Pattern {
            return self.steps_of_patterns(&a, second, rows);
        }
        let b = lengths(second, rows)?;
        // Two texts of a list take longer to compare than two numbers.
        let each = match self {
            Self::Lists => 1 + bytes(second, rows) / b.iter().sum::<u64>().max(1) / 16,
            _ => 1,
        };
        let both = a.into_iter().zip(b);
        Ok(both
            .map(|(a, b)| a.saturating_mul(b).saturating_mul(each))
            .collect())
    }

    fn steps_of_patterns(
        self,
        texts: &[u64],
        patterns: &ColumnarValue,
        rows: usize,
    ) -> Result<Vec<u64>> {
        if let ColumnarValue::Scalar(_) = patterns {
            let weight = constant(patterns).map_or(Ok(1), weight)?;
            let of = |text: &u64| self.pattern_steps(*text, weight);
            return Ok(texts.iter().map(of).collect());
        }
        let patterns = cast(&patterns.to_array(rows)?, &DataType::Utf8View)?;
        let patterns = patterns.as_string_view().iter();
        let both = texts.iter().zip(patterns);
        both.map(|(text, pattern)| {
            let weight = pattern.map_or(Ok(1), weight)?;
            let compile = weight.saturating_mul(COMPILE_STATE_STEPS) + COMPILE_STEPS;
            Ok(self.pattern_steps(*text, weight).saturating_add(compile))
        })
        .collect()
    }
}

/// Returns the text of a constant.
fn constant(arg: &ColumnarValue) -> Option<&str> {
    match arg {
        ColumnarValue::Scalar(
            ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text),
        ) => Some(text.as_deref().unwrap_or_default()),
        _ => None,
    }
}

/// Returns the bytes of a text, or the elements of a list, in each row; 0 for null and for other
/// types.
pub(super) fn lengths(arg: &ColumnarValue, rows: usize) -> Result<Vec<u64>> {
    // A constant is not expanded to all rows.
    let (array, times) = match arg {
        ColumnarValue::Array(array) => (array.clone(), 1),
        ColumnarValue::Scalar(value) => (value.to_array()?, rows),
    };
    let has_length = matches!(
        array.data_type(),
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)
    ) || array.data_type().is_string();
    if !has_length {
        return Ok(vec![0; rows]);
    }
    let lengths = cast(&length(&*array)?, &DataType::Int64)?;
    let lengths: &Int64Array = lengths.as_primitive::<Int64Type>();
    let of = |length: Option<i64>| u64::try_from(length.unwrap_or(0)).unwrap_or(0);
    let lengths: Vec<u64> = lengths.iter().map(of).collect();
    Ok(lengths.repeat(times))
}
