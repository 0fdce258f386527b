//! Columns of any type as text, and floats as integers.

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, TimestampMicrosecondType};

use crate::error::Result;

/// Casts any column to text. An instant outside the range of `chrono` becomes null: the cast would
/// fail on it, and with the cast every seal that contains the event.
pub(crate) fn as_text(array: &ArrayRef) -> Result<StringArray> {
    if let Some(binary) = array.as_binary_opt::<i32>() {
        return Ok(binary
            .iter()
            .map(|v| v.map(String::from_utf8_lossy))
            .collect());
    }
    if let Some(times) = array.as_primitive_opt::<TimestampMicrosecondType>() {
        let in_range = |us| chrono::DateTime::from_timestamp_micros(us).map(|_| us);
        let times = times.unary_opt::<_, TimestampMicrosecondType>(in_range);
        let times = times.with_data_type(array.data_type().clone());
        return Ok(cast(&times, &DataType::Utf8)?.as_string::<i32>().clone());
    }
    if let Some(floats) = array.as_primitive_opt::<Float64Type>() {
        let texts = cast(array, &DataType::Utf8)?;
        let texts = floats.iter().zip(texts.as_string::<i32>());
        let text = |(float, text): (Option<f64>, Option<&str>)| match float.and_then(whole) {
            Some(integer) => Some(integer.to_string()),
            None => text.map(str::to_owned),
        };
        return Ok(texts.map(text).collect());
    }
    Ok(cast(array, &DataType::Utf8)?.as_string::<i32>().clone())
}

/// Returns the integer that a float equals, up to 2^53: floats hold every integer below. -0 is 0.
pub(crate) fn whole(value: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (value.trunc() == value && value.abs() <= EXACT).then_some(value as i64)
}
