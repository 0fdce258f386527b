//! Content of an answer, the same from every engine: equal rows in any order, or numbers that lie
//! close together.
//!
//! Types are reduced to three: whole numbers (times are microseconds since 1970), fractions and
//! text. Each row becomes one text, of which a digest is the sum of the hashes.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit};
use xxhash_rust::xxh3::xxh3_128;

/// Separator of the values of a row: no text of a log line holds it.
const UNIT_SEPARATOR: char = '\u{1f}';

/// A digest that is equal for equal rows in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest {
    rows: u64,
    sum: u128,
}

/// A column of one of three types.
enum Values {
    Whole(Int64Array),
    Real(Float64Array),
    Text(StringArray),
}

impl Values {
    fn of(column: &ArrayRef) -> Self {
        use DataType::{
            Binary, BinaryView, Date32, Date64, Dictionary, Float16, Float32, Float64, LargeBinary,
            LargeUtf8, Timestamp, Utf8, Utf8View,
        };
        match column.data_type() {
            Timestamp(_, zone) => {
                let us = Timestamp(TimeUnit::Microsecond, zone.clone());
                Self::whole(&converted(column, &us))
            }
            Date32 | Date64 => {
                Self::whole(&converted(column, &Timestamp(TimeUnit::Microsecond, None)))
            }
            Float16 | Float32 | Float64 => {
                let real = converted(column, &Float64);
                Self::Real(real.as_primitive::<Float64Type>().clone())
            }
            Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | Dictionary(..) => {
                let text = converted(column, &Utf8);
                Self::Text(text.as_string::<i32>().clone())
            }
            _ => Self::whole(column),
        }
    }

    fn whole(column: &ArrayRef) -> Self {
        let whole = converted(column, &DataType::Int64);
        Self::Whole(whole.as_primitive::<Int64Type>().clone())
    }

    fn put(&self, row: usize, out: &mut String) {
        use std::fmt::Write as _;

        let written = match self {
            Self::Whole(values) if values.is_valid(row) => write!(out, "{}", values.value(row)),
            // Means of whole numbers may differ in their last digit.
            Self::Real(values) if values.is_valid(row) => write!(out, "{:.12e}", values.value(row)),
            Self::Text(values) if values.is_valid(row) => write!(out, "'{}'", values.value(row)),
            _ => write!(out, "NULL"),
        };
        written.expect("BUG: a String takes all text");
    }
}

/// Converts a column. A value that does not fit is an error, not null.
fn converted(column: &ArrayRef, to: &DataType) -> ArrayRef {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(column, to, &options)
        .unwrap_or_else(|e| panic!("{} as {to}: {e}", column.data_type()))
}

/// Passes each row to `take` as a text; with `only`, one column of it.
fn each_row(batches: &[RecordBatch], only: Option<&str>, mut take: impl FnMut(&str)) {
    let mut line = String::new();
    for batch in batches {
        let columns: Vec<Values> = match only {
            Some(name) => {
                let column = batch.column_by_name(name);
                vec![Values::of(column.expect("BUG: the question names it"))]
            }
            None => batch.columns().iter().map(Values::of).collect(),
        };
        for row in 0..batch.num_rows() {
            line.clear();
            for column in &columns {
                column.put(row, &mut line);
                line.push(UNIT_SEPARATOR);
            }
            take(&line);
        }
    }
}

pub(crate) fn digest(batches: &[RecordBatch], only: Option<&str>) -> Digest {
    let mut digest = Digest { rows: 0, sum: 0 };
    each_row(batches, only, |row| {
        digest.rows += 1;
        digest.sum = digest.sum.wrapping_add(xxh3_128(row.as_bytes()));
    });
    digest
}

/// Returns the first rows, in order, that one answer has more often than the other: `+` the first
/// one, `-` the second.
pub(crate) fn difference(
    first: &[RecordBatch],
    second: &[RecordBatch],
    only: Option<&str>,
    most: usize,
) -> Vec<String> {
    let mut times: HashMap<String, i64> = HashMap::new();
    each_row(first, only, |row| {
        *times.entry(row.to_owned()).or_default() += 1;
    });
    each_row(second, only, |row| {
        *times.entry(row.to_owned()).or_default() -= 1;
    });
    let mut found: Vec<(String, i64)> = times.into_iter().filter(|(_, n)| *n != 0).collect();
    found.sort();
    found.truncate(most);
    let told = |(row, n): (String, i64)| {
        let sign = if n > 0 { '+' } else { '-' };
        format!("{sign} {}", row.replace(UNIT_SEPARATOR, " | "))
    };
    found.into_iter().map(told).collect()
}

/// Returns the greatest deviation of an answer from the allowed range, as a share. Each row of
/// `exact` has the key, then for each value the least and the greatest. The result is infinite
/// when rows differ.
pub(crate) fn worst(answer: &[RecordBatch], exact: &[RecordBatch]) -> f64 {
    let (found, allowed) = (by_key(answer), by_key(exact));
    if found.len() != allowed.len() {
        return f64::INFINITY;
    }
    let off = |value: Option<f64>, bounds: &[Option<f64>]| match (value, bounds) {
        (Some(value), [Some(least), Some(greatest)]) => {
            let beyond = (least - value).max(value - greatest).max(0.0);
            if beyond > 0.0 {
                beyond / value.abs().max(least.abs())
            } else {
                0.0
            }
        }
        (None, [None, None]) => 0.0,
        _ => f64::INFINITY,
    };
    let mut worst: f64 = 0.0;
    for (key, values) in found {
        let Some(bounds) = allowed.get(&key).filter(|b| b.len() == 2 * values.len()) else {
            return f64::INFINITY;
        };
        for (value, bounds) in values.into_iter().zip(bounds.chunks_exact(2)) {
            worst = worst.max(off(value, bounds));
        }
    }
    worst
}

/// Returns the numbers after the first column, by the value of that column.
fn by_key(batches: &[RecordBatch]) -> HashMap<String, Vec<Option<f64>>> {
    let mut rows = HashMap::new();
    for batch in batches {
        let (key, values) = batch.columns().split_first().expect("a key");
        let key = Values::of(key);
        let values: Vec<ArrayRef> = values
            .iter()
            .map(|v| converted(v, &DataType::Float64))
            .collect();
        for row in 0..batch.num_rows() {
            let mut text = String::new();
            key.put(row, &mut text);
            let value = |column: &ArrayRef| {
                let column = column.as_primitive::<Float64Type>();
                column.is_valid(row).then(|| column.value(row))
            };
            rows.insert(text, values.iter().map(value).collect());
        }
    }
    rows
}
