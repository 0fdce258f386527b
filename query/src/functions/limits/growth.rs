//! Sizes of results that may be far larger than the arguments, before the call.

use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array};
use arrow::compute::{CastOptions, cast_with_options, kernels::length::length};
use arrow::datatypes::{
    DataType, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;

use super::work;
use crate::functions::sizes::bytes;

/// Size of a function's result for one row, from its arguments as text lengths or integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Growth {
    /// The first argument (a text or an element), repeated as often as the second one requires.
    Times,
    /// A text of as many characters, or a list of as many elements, as the second argument
    /// requires. Each has this many bytes.
    Padded(u64),
    /// The integers, or the instants, from one argument to another.
    Between,
    /// All arguments concatenated. Two equal arguments double the size each time.
    Together,
    /// The first text with the third one in many places: wherever the second one stands, or at
    /// every byte if a pattern may match the empty text.
    Replaced { by_pattern: bool },
    /// List elements with the second text between them.
    Joined,
    /// One element of each list, for each element of the longest list.
    Zipped,
}

pub(super) const GROWING: [(&str, Growth); 18] = [
    ("repeat", Growth::Times),
    ("array_repeat", Growth::Times),
    ("array_resize", Growth::Padded(8)),
    ("lpad", Growth::Padded(1)),
    ("rpad", Growth::Padded(1)),
    ("range", Growth::Between),
    ("generate_series", Growth::Between),
    ("concat", Growth::Together),
    ("concat_ws", Growth::Together),
    ("overlay", Growth::Together),
    ("make_array", Growth::Together),
    ("array_append", Growth::Together),
    ("array_prepend", Growth::Together),
    ("array_concat", Growth::Together),
    ("replace", Growth::Replaced { by_pattern: false }),
    ("regexp_replace", Growth::Replaced { by_pattern: true }),
    ("array_to_string", Growth::Joined),
    ("arrays_zip", Growth::Zipped),
];

impl Growth {
    /// Estimates the bytes of `rows` rows of the result; 0 if the arguments are not numbers.
    pub(super) fn bytes(self, args: &[ColumnarValue], rows: usize) -> Result<u64> {
        match self {
            Self::Times => repeated(args, rows),
            Self::Padded(each) => {
                let length = integers(args, 1, rows)?;
                Ok(sum(rows, |row| {
                    let length = u64::try_from(get(&length, row, 0)).unwrap_or(0);
                    length.saturating_mul(each)
                }))
            }
            Self::Between => between(args, rows),
            Self::Together => {
                let arrays = args.iter().map(|arg| bytes(arg, rows));
                Ok(arrays.fold(0, u64::saturating_add))
            }
            Self::Replaced { by_pattern } => replaced(args, rows, by_pattern),
            Self::Joined => {
                let list = args.first().map_or(0, |arg| bytes(arg, rows));
                let between = sizes(args.get(1), rows)?.unwrap_or_default();
                let longest = between.into_iter().max().unwrap_or(0);
                // An element takes four bytes at least, as an offset or as a value.
                Ok(list.saturating_add((list / 4).saturating_mul(longest)))
            }
            Self::Zipped => {
                let lists = args.iter().map(|arg| work::lengths(arg, rows));
                let lists = lists.collect::<Result<Vec<_>>>()?;
                let longest = |row: usize| lists.iter().map(|list| list[row]).max();
                let each = 8 * lists.len() as u64;
                let row = |row| longest(row).unwrap_or(0).saturating_mul(each);
                Ok(sum(rows, row))
            }
        }
    }
}

fn repeated(args: &[ColumnarValue], rows: usize) -> Result<u64> {
    let (what, times) = (sizes(args.first(), rows)?, integers(args, 1, rows)?);
    let all = args.first().map_or(0, |arg| bytes(arg, rows));
    let each = (all / rows.max(1) as u64).max(8);
    Ok(sum(rows, |row| {
        let times = u64::try_from(get(&times, row, 0)).unwrap_or(0);
        times.saturating_mul(what.as_ref().map_or(each, |w| w[row]))
    }))
}

fn between(args: &[ColumnarValue], rows: usize) -> Result<u64> {
    let at = |nth| integers(args, nth, rows);
    let (first, second, step) = (at(0)?, at(1)?, at(2)?);
    let given = [&first, &second, &step];
    Ok(sum(rows, |row| {
        if given.into_iter().flatten().any(|of| of.is_null(row)) {
            return 0;
        }
        let first = get(&first, row, 0);
        // A single argument is the end of a range from zero.
        let (from, to) = match &second {
            None => (0, first),
            Some(_) => (first, get(&second, row, first)),
        };
        let step = get(&step, row, 1);
        if (step > 0) != (from < to) {
            return 0;
        }
        let count = from.abs_diff(to).div_ceil(step.unsigned_abs().max(1));
        count.saturating_mul(8)
    }))
}

fn replaced(args: &[ColumnarValue], rows: usize, by_pattern: bool) -> Result<u64> {
    let (what, by) = (sizes(args.first(), rows)?, sizes(args.get(2), rows)?);
    let of = sizes(args.get(1), rows)?;
    let everywhere = !by_pattern || args.len() > 3;
    let (Some(what), Some(by), Some(of)) = (what, by, of) else {
        return Ok(0);
    };
    Ok(sum(rows, |row| {
        let places = match (everywhere, by_pattern) {
            (false, _) => 1,
            (true, true) => what[row] + 1,
            (true, false) => what[row] / of[row].max(1) + 1,
        };
        what[row].saturating_add(places.saturating_mul(by[row]))
    }))
}

fn sum(rows: usize, of: impl Fn(usize) -> u64) -> u64 {
    (0..rows).map(of).fold(0, u64::saturating_add)
}

/// Returns the integers of an argument; `None` if there is no such argument.
fn integers(args: &[ColumnarValue], nth: usize, rows: usize) -> Result<Option<Int64Array>> {
    args.get(nth).map(|arg| numbers(arg, rows)).transpose()
}

fn get(of: &Option<Int64Array>, row: usize, otherwise: i64) -> i64 {
    match of {
        Some(of) if of.is_valid(row) => of.value(row),
        _ => otherwise,
    }
}

/// Converts an argument to integers: instants and intervals to microseconds, other types to null.
fn numbers(arg: &ColumnarValue, rows: usize) -> Result<Int64Array> {
    let mut array = arg.to_array(rows)?;
    let options = CastOptions::default();
    array = match array.data_type() {
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => {
            let microseconds = DataType::Timestamp(TimeUnit::Microsecond, None);
            cast_with_options(&array, &microseconds, &options)?
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let spans = array.as_primitive::<IntervalMonthDayNanoType>();
            let days = |v: IntervalMonthDayNano| i64::from(v.months) * 30 + i64::from(v.days);
            let span = |v| days(v) * 86_400_000_000 + v.nanoseconds / 1000;
            return Ok(spans.iter().map(|v| v.map(span)).collect());
        }
        kind if kind.is_integer() => array,
        _ => return Ok(Int64Array::new_null(rows)),
    };
    let cast = cast_with_options(&array, &DataType::Int64, &options)?;
    Ok(cast.as_primitive::<Int64Type>().clone())
}

/// Returns the bytes of a text in each row; `None` for other types.
fn sizes(arg: Option<&ColumnarValue>, rows: usize) -> Result<Option<Vec<u64>>> {
    let Some(arg) = arg else { return Ok(None) };
    // A constant is not expanded to all rows.
    let (array, times) = match arg {
        ColumnarValue::Array(array) => (Arc::clone(array), 1),
        ColumnarValue::Scalar(value) => (value.to_array()?, rows),
    };
    if !array.data_type().is_string() {
        return Ok(None);
    }
    let lengths = length(&*array)?;
    let lengths = cast_with_options(&*lengths, &DataType::Int64, &CastOptions::default())?;
    let lengths = lengths.as_primitive::<Int64Type>();
    let of = |length: Option<i64>| u64::try_from(length.unwrap_or(0)).unwrap_or(0);
    let lengths: Vec<u64> = lengths.iter().map(of).collect();
    Ok(Some(lengths.repeat(times)))
}
