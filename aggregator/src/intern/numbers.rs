//! Number columns as exact integers.

use arrow::array::{Array, AsArray, Float64Array, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};

use crate::definition::Number;
use crate::error::Result;
use crate::expression::whole;
use crate::state::{Layout, SCALE};

/// An event's value has no bucket.
pub(crate) const NO_BUCKET: u32 = u32::MAX;
/// An event's value lies above the histogram's max.
pub(crate) const OVERFLOWS: u32 = u32::MAX - 1;

/// The largest magnitude that fits. Every 64-bit integer fits, and sums of 2^43 values are exact.
const NUMBER_MAX: f64 = 1e19;

/// A number column: an exact integer per event.
#[derive(Debug)]
pub(crate) struct Numbers {
    values: Vec<i128>,
    /// Per event: 0 for null, 1 if the value fits, 2 if it does not or is no number.
    marks: Vec<u8>,
}

impl Numbers {
    /// Returns the value of an event: `None` for null, `Err` if it does not fit or is no number.
    pub(crate) fn get(&self, event: usize) -> Option<Result<i128, ()>> {
        match self.marks[event] {
            0 => None,
            1 => Some(Ok(self.values[event])),
            _ => Some(Err(())),
        }
    }

    pub(crate) fn of(batches: &[RecordBatch], rows: usize, number: &Number) -> Result<Self> {
        let mut out = Self {
            values: Vec::with_capacity(rows),
            marks: Vec::with_capacity(rows),
        };
        let unit = if number.scaled { SCALE } else { 1 };
        for batch in batches {
            let Some(array) = batch.column_by_name(&number.field) else {
                out.skip(batch.num_rows(), 0);
                continue;
            };
            match array.data_type() {
                DataType::Null => out.skip(array.len(), 0),
                DataType::Float16 | DataType::Float32 | DataType::Float64 => {
                    let array = cast(array, &DataType::Float64)?;
                    out.floats(array.as_primitive(), unit);
                }
                DataType::Int64 => out.integers(array.as_primitive(), unit),
                DataType::Int8
                | DataType::Int16
                | DataType::Int32
                | DataType::UInt8
                | DataType::UInt16
                | DataType::UInt32
                | DataType::Timestamp(TimeUnit::Microsecond, _) => {
                    let array = cast(array, &DataType::Int64)?;
                    out.integers(array.as_primitive::<Int64Type>(), unit);
                }
                DataType::UInt64 => {
                    for value in array.as_primitive::<arrow::datatypes::UInt64Type>() {
                        out.push(value.map(|v| i128::from(v) * unit));
                    }
                }
                _ => {
                    for row in 0..array.len() {
                        out.skip(1, if array.is_null(row) { 0 } else { 2 });
                    }
                }
            }
        }
        Ok(out)
    }

    fn skip(&mut self, rows: usize, mark: u8) {
        self.values.resize(self.values.len() + rows, 0);
        self.marks.resize(self.marks.len() + rows, mark);
    }

    fn push(&mut self, value: Option<i128>) {
        self.values.push(value.unwrap_or(0));
        self.marks.push(u8::from(value.is_some()));
    }

    fn integers(&mut self, array: &Int64Array, unit: i128) {
        if array.null_count() == 0 {
            self.values
                .extend(array.values().iter().map(|v| i128::from(*v) * unit));
            self.marks.resize(self.values.len(), 1);
            return;
        }
        for value in array {
            self.push(value.map(|v| i128::from(v) * unit));
        }
    }

    fn floats(&mut self, array: &Float64Array, unit: i128) {
        for value in array {
            match value {
                None => self.push(None),
                Some(v) if let Some(integer) = whole(v) => {
                    self.push(Some(i128::from(integer) * unit))
                }
                // Rounding is half to even, so that equal decimals become equal integers.
                Some(v) if v.abs() <= NUMBER_MAX => {
                    self.push(Some((v * unit as f64).round_ties_even() as i128))
                }
                Some(_) => self.skip(1, 2),
            }
        }
    }

    /// Returns the histogram bucket of each event, [`NO_BUCKET`] or [`OVERFLOWS`].
    pub(crate) fn buckets(&self, layout: Layout, scaled: bool) -> Vec<u32> {
        let bucket = |(value, mark): (&i128, &u8)| match (mark, layout.index_of(*value, scaled)) {
            (1, Some(index)) => index,
            (1, None) if layout.overflows(*value, scaled) => OVERFLOWS,
            _ => NO_BUCKET,
        };
        self.values.iter().zip(&self.marks).map(bucket).collect()
    }
}
