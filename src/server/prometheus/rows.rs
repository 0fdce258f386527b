//! Rows of a level as keys, times and values.

use std::collections::BTreeMap;
use std::ops::Range;

use aggregator::state::Histogram;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, TimeUnit, TimestampMicrosecondType};

use super::cells::Result;
use super::statement::EMPTY;
use crate::promql::PromqlError;

/// The values of the distinguished keys.
pub(super) type KeyTexts = Vec<Option<String>>;
/// The cells of each key: end of the bucket in microseconds, value.
pub(super) type FoundCells<V> = BTreeMap<KeyTexts, Vec<(i64, V)>>;
/// The cells of each key, behind the sum of the cells before them.
pub(super) type CellsWithBase<V> = BTreeMap<KeyTexts, (Option<V>, Vec<(i64, V)>)>;

/// A value of a cell.
pub(super) trait CellValue: Sized {
    /// Reads a column; null is no value.
    fn read(column: &dyn Array) -> Result<Vec<Option<Self>>>;
    /// Returns the number of cells that it counts as.
    fn weight(&self) -> usize;
}

impl CellValue for f64 {
    fn read(column: &dyn Array) -> Result<Vec<Option<Self>>> {
        let column = cast(column, &DataType::Float64).map_err(unreadable)?;
        Ok(column.as_primitive::<Float64Type>().iter().collect())
    }

    fn weight(&self) -> usize {
        1
    }
}

impl CellValue for Histogram {
    fn read(column: &dyn Array) -> Result<Vec<Option<Self>>> {
        let column = cast(column, &DataType::Binary).map_err(unreadable)?;
        let states = column.as_binary::<i32>().iter();
        let states = states.map(|bytes| bytes.map(Self::decode).transpose().map_err(unreadable));
        states.collect()
    }

    fn weight(&self) -> usize {
        self.buckets().count() + 1
    }
}

fn unreadable(error: impl std::fmt::Display) -> PromqlError {
    PromqlError::execution(format!("cells cannot be read: {error}"))
}

/// Returns the columns of keys as texts.
pub(super) fn key_columns(
    batch: &RecordBatch,
    columns: Range<usize>,
) -> Result<Vec<Vec<Option<String>>>> {
    let columns = columns.map(|at| {
        let column = cast(batch.column(at), &DataType::Utf8).map_err(unreadable)?;
        let texts = column.as_string::<i32>().iter();
        Ok(texts.map(|text| text.map(str::to_owned)).collect())
    });
    columns.collect()
}

/// Returns a column of times in microseconds since 1970.
pub(super) fn times(column: &dyn Array) -> Result<Vec<i64>> {
    let kind = DataType::Timestamp(TimeUnit::Microsecond, None);
    let column = cast(column, &kind).map_err(unreadable)?;
    let times = column.as_primitive::<TimestampMicrosecondType>();
    Ok(times.values().to_vec())
}

/// Returns the labels of keys: null is no label.
pub(super) fn label_pairs(
    names: &[(String, String)],
    keys: &KeyTexts,
) -> impl Iterator<Item = (String, String)> {
    let pairs = names.iter().zip(keys);
    pairs.filter_map(|((label, _), value)| {
        let value = value.as_ref()?;
        let value = if value.is_empty() { EMPTY } else { value };
        Some((label.clone(), value.to_owned()))
    })
}
