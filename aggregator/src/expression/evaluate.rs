//! Evaluation of expressions over columns of events.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Datum, Float64Array, Int64Array, RecordBatch,
    StringArray,
};
use arrow::compute::{self, cast, kernels::cmp};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use arrow::error::ArrowError;
use storage::fits_float;

use super::cast::as_text;
use super::{Condition, Expression, Literal, Operator};
use crate::error::Result;
use crate::text_function::{path_prefix, url_parameter};

type TextFunction<'f> = dyn for<'a> Fn(&'a str) -> Option<Cow<'a, str>> + 'f;

impl Expression {
    /// Returns the value for each event; `None` if no event has the field.
    pub(crate) fn of(&self, events: &RecordBatch) -> Result<Option<ArrayRef>> {
        let texts = |of: &Self, f: &dyn Fn(&StringArray) -> StringArray| {
            let Some(array) = of.of(events)? else {
                return Ok(None);
            };
            Ok(Some(Arc::new(f(&as_text(&array)?)) as ArrayRef))
        };
        let text = |of: &Self, f: &TextFunction| {
            texts(of, &|texts| texts.iter().map(|t| t.and_then(f)).collect())
        };
        let integer = |of: &Self, f: &dyn Fn(i64) -> Option<i64>| -> Result<Option<ArrayRef>> {
            let Some(array) = of.of(events)? else {
                return Ok(None);
            };
            // A value that is no integer becomes null, as in an integer key.
            let integers = as_type(&array, &DataType::Int64)?;
            let integers = integers.as_primitive::<Int64Type>();
            let out: Int64Array = integers.iter().map(|v| v.and_then(f)).collect();
            Ok(Some(Arc::new(out) as ArrayRef))
        };
        match self {
            Self::Field(name) => Ok(events.column_by_name(name).cloned()),
            Self::PathPrefix(of, n) => text(of, &|t| Some(path_prefix(t, (*n).into()).into())),
            Self::Capture(of, pattern, group) => text(of, &|t| {
                let captures = pattern.regex.captures(t)?;
                Some(captures.get((*group).into())?.as_str().into())
            }),
            Self::UrlParameter(of, name) => text(of, &|t| url_parameter(t, name)),
            Self::Text(function, of) => texts(of, &|texts| function.of_column(texts)),
            Self::Quotient(of, by) => integer(of, &|v| v.checked_div(*by)),
            Self::Remainder(of, by) => integer(of, &|v| v.checked_rem(*by)),
        }
    }
}

/// An operation of Kleene's logic: with a null side it is null unless the other side decides it.
type Kernel = fn(&BooleanArray, &BooleanArray) -> Result<BooleanArray, ArrowError>;

impl Condition {
    /// Returns, for each event of all batches, true if the condition is true.
    pub(crate) fn passing(&self, batches: &[RecordBatch], rows: usize) -> Result<Vec<bool>> {
        let mut passing = Vec::with_capacity(rows);
        for batch in batches {
            let answers = self.of(batch)?;
            passing.extend(answers.iter().map(|answer| answer == Some(true)));
        }
        Ok(passing)
    }

    /// Returns true, false or null for each event.
    pub(super) fn of(&self, events: &RecordBatch) -> Result<BooleanArray> {
        let value = |of: &Expression| -> Result<ArrayRef> {
            let column = of.of(events)?;
            Ok(column.unwrap_or_else(|| {
                arrow::array::new_null_array(&DataType::Null, events.num_rows())
            }))
        };
        let join = |all: &[Self], kernel: Kernel| {
            let mut answers = all.iter().map(|c| c.of(events));
            let first = answers
                .next()
                .expect("BUG: and, or have at least two sides")?;
            answers.try_fold(first, |left, right| Ok(kernel(&left, &right?)?))
        };
        match self {
            Self::Compare(of, operator, literal) => compare(&value(of)?, *operator, literal),
            Self::In(of, literals) => {
                let value = value(of)?;
                let mut answers = literals.iter().map(|l| compare(&value, Operator::Equal, l));
                let first = answers.next().expect("BUG: a list has an item")?;
                answers.try_fold(first, |left, right| Ok(compute::or_kleene(&left, &right?)?))
            }
            Self::Like(of, pattern) => {
                let text = as_text(&value(of)?)?;
                Ok(compute::like(&text, &StringArray::new_scalar(pattern))?)
            }
            Self::IsNull(of) => Ok(compute::is_null(&value(of)?)?),
            Self::Not(condition) => Ok(compute::not(&condition.of(events)?)?),
            Self::And(all) => join(all, compute::and_kleene),
            Self::Or(all) => join(all, compute::or_kleene),
        }
    }
}

fn compare(value: &ArrayRef, operator: Operator, literal: &Literal) -> Result<BooleanArray> {
    match literal {
        Literal::Text(text) => apply(operator, &as_text(value)?, &StringArray::new_scalar(text)),
        Literal::Integer(integer) => match as_number(value)?.as_primitive_opt::<Int64Type>() {
            Some(integers) => apply(operator, integers, &Int64Array::new_scalar(*integer)),
            None => compare_floats(value, operator, *integer),
        },
        Literal::Decimal(bits) => compare_double(value, operator, f64::from_bits(*bits)),
    }
}

fn compare_double(value: &ArrayRef, operator: Operator, double: f64) -> Result<BooleanArray> {
    let doubles = cast(&as_number(value)?, &DataType::Float64)?;
    let doubles = doubles.as_primitive::<Float64Type>();
    apply(operator, doubles, &Float64Array::new_scalar(double))
}

/// Compares floats with an integer that may have no equal float.
fn compare_floats(value: &ArrayRef, operator: Operator, integer: i64) -> Result<BooleanArray> {
    if fits_float(integer) {
        return compare_double(value, operator, integer as f64);
    }
    // The integer is beyond 2^53, where every float is an integer: truncation changes no order.
    let sign = |float: f64| (float as i128).cmp(&i128::from(integer)) as i64;
    let floats = as_number(value)?;
    let floats = floats.as_primitive::<Float64Type>().iter();
    let signs: Int64Array = floats.map(|float| float.map(sign)).collect();
    apply(operator, &signs, &Int64Array::new_scalar(0))
}

/// Casts a column to 64-bit integers, or to doubles if it holds floats or text.
fn as_number(array: &ArrayRef) -> Result<ArrayRef> {
    let wide = match array.data_type() {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => DataType::Float64,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Binary => {
            DataType::Float64
        }
        _ => DataType::Int64,
    };
    as_type(array, &wide)
}

/// Casts a column to a number type; a value that is no number becomes null. No column may fail, or
/// every seal of it would fail: bytes, which have no cast to numbers, are read as text.
fn as_type(array: &ArrayRef, number_type: &DataType) -> Result<ArrayRef> {
    if array.data_type() == &DataType::Binary {
        return Ok(cast(&as_text(array)?, number_type)?);
    }
    Ok(cast(array, number_type)?)
}

fn apply(operator: Operator, left: &dyn Datum, right: &dyn Datum) -> Result<BooleanArray> {
    let kernel = match operator {
        Operator::Equal => cmp::eq,
        Operator::Unequal => cmp::neq,
        Operator::Less => cmp::lt,
        Operator::LessOrEqual => cmp::lt_eq,
        Operator::Greater => cmp::gt,
        Operator::GreaterOrEqual => cmp::gt_eq,
    };
    Ok(kernel(left, right)?)
}
