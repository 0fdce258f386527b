//! Columns of an answer, ready to be written value by value: each is resolved to its type once.

pub(super) mod binary;
mod numeric;
pub(super) mod text;

pub(super) use numeric::read as numeric_text;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Float32Array, Float64Array,
    Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, ListArray, StringArray,
    StringViewArray, Time64MicrosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray,
    UInt32Array, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Field, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, IntervalUnit,
    TimeUnit, TimestampMicrosecondType, UInt64Type,
};
use arrow::error::ArrowError;

/// Seconds from 1970 to 2000, from which PostgreSQL counts.
pub(super) const EPOCH_S: i64 = 946_684_800;

const JSONB: u32 = 3802;
const OID: u32 = 26;

/// The values of a column.
#[derive(Debug)]
pub(super) enum Cells {
    Null,
    Bool(BooleanArray),
    Int2(Int16Array),
    Int4(Int32Array),
    Int8(Int64Array),
    /// Numbers of objects of the catalog.
    Oid(UInt32Array),
    /// An integer that may not fit into `int8`: `numeric`.
    Unsigned(UInt64Array),
    Float4(Float32Array),
    Float8(Float64Array),
    Text(StringArray),
    View(StringViewArray),
    Bytes(BinaryArray),
    /// Documents as JSON.
    Json(StringArray),
    /// Microseconds since 1970; with a zone or without.
    Timestamp(TimestampMicrosecondArray, bool),
    Date(Date32Array),
    Time(Time64MicrosecondArray),
    Interval(IntervalMonthDayNanoArray),
    /// Decimal numbers, as digits.
    Numeric(StringArray),
    /// A list, the values of all its rows, and their type.
    List(ListArray, Box<Cells>, u32),
}

impl Cells {
    /// Prepares a column.
    ///
    /// # Errors
    /// If its values do not fit into their PostgreSQL type: intervals beyond its limits.
    pub(super) fn of(field: &Field, array: &ArrayRef) -> Result<Self, ArrowError> {
        match query::pg_type_of(field).oid {
            JSONB => {
                let texts = query::json_texts(field, array);
                return texts
                    .map(Self::Json)
                    .map_err(|e| ArrowError::ExternalError(e.into()));
            }
            OID if *array.data_type() == DataType::UInt32 => {
                return Ok(Self::Oid(array.as_primitive().clone()));
            }
            _ => {}
        }
        let to = |wanted: &DataType| cast(array, wanted);
        let micros = TimeUnit::Microsecond;
        Ok(match array.data_type() {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Bool(array.as_boolean().clone()),
            DataType::Int8 | DataType::UInt8 | DataType::Int16 => {
                Self::Int2(to(&DataType::Int16)?.as_primitive::<Int16Type>().clone())
            }
            DataType::UInt16 | DataType::Int32 => {
                Self::Int4(to(&DataType::Int32)?.as_primitive::<Int32Type>().clone())
            }
            DataType::UInt32 | DataType::Int64 => {
                Self::Int8(to(&DataType::Int64)?.as_primitive::<Int64Type>().clone())
            }
            DataType::UInt64 => Self::Unsigned(array.as_primitive::<UInt64Type>().clone()),
            DataType::Float16 | DataType::Float32 => Self::Float4(
                to(&DataType::Float32)?
                    .as_primitive::<Float32Type>()
                    .clone(),
            ),
            DataType::Float64 => Self::Float8(array.as_primitive::<Float64Type>().clone()),
            DataType::Utf8 => Self::Text(array.as_string().clone()),
            DataType::LargeUtf8 => Self::Text(to(&DataType::Utf8)?.as_string().clone()),
            DataType::Utf8View => Self::View(array.as_string_view().clone()),
            DataType::Binary => Self::Bytes(array.as_binary().clone()),
            DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Self::Bytes(to(&DataType::Binary)?.as_binary().clone())
            }
            DataType::Timestamp(unit, zone) => {
                let plain = to(&DataType::Timestamp(*unit, None))?;
                Self::Timestamp(in_micros(&plain, *unit)?, zone.is_some())
            }
            DataType::Date32 | DataType::Date64 => {
                Self::Date(to(&DataType::Date32)?.as_primitive().clone())
            }
            DataType::Time32(_) | DataType::Time64(_) => {
                Self::Time(to(&DataType::Time64(micros))?.as_primitive().clone())
            }
            DataType::Interval(_) | DataType::Duration(_) => {
                let wanted = DataType::Interval(IntervalUnit::MonthDayNano);
                Self::Interval(to(&wanted)?.as_primitive().clone())
            }
            DataType::List(_)
            | DataType::LargeList(_)
            | DataType::ListView(_)
            | DataType::LargeListView(_)
            | DataType::FixedSizeList(..) => Self::of_list(array)?,
            DataType::Dictionary(_, values) => {
                Self::of(&Field::new("", (**values).clone(), true), &to(values)?)?
            }
            DataType::RunEndEncoded(_, values) => Self::of(values, &to(values.data_type())?)?,
            other if other.is_decimal() => Self::Numeric(to(&DataType::Utf8)?.as_string().clone()),
            _ => Self::Text(to(&DataType::Utf8)?.as_string().clone()),
        })
    }

    fn of_list(array: &ArrayRef) -> Result<Self, ArrowError> {
        let of = match array.data_type() {
            DataType::List(of)
            | DataType::LargeList(of)
            | DataType::ListView(of)
            | DataType::LargeListView(of)
            | DataType::FixedSizeList(of, _) => of,
            other => unreachable!("BUG: {other} is no list"),
        };
        let list = cast(array, &DataType::List(Arc::clone(of)))?;
        let list = list.as_list::<i32>().clone();
        let values = Self::of(of, list.values())?;
        Ok(Self::List(
            list,
            Box::new(values),
            query::pg_type_of(of).oid,
        ))
    }

    fn array(&self) -> Option<&dyn Array> {
        Some(match self {
            Self::Null => return None,
            Self::Bool(a) => a,
            Self::Int2(a) => a,
            Self::Int4(a) => a,
            Self::Int8(a) => a,
            Self::Oid(a) => a,
            Self::Unsigned(a) => a,
            Self::Float4(a) => a,
            Self::Float8(a) => a,
            Self::Text(a) | Self::Json(a) | Self::Numeric(a) => a,
            Self::View(a) => a,
            Self::Bytes(a) => a,
            Self::Timestamp(a, _) => a,
            Self::Date(a) => a,
            Self::Time(a) => a,
            Self::Interval(a) => a,
            Self::List(a, ..) => a,
        })
    }

    /// Returns whether a value is null.
    pub(super) fn is_null(&self, row: usize) -> bool {
        self.array().is_none_or(|array| array.is_null(row))
    }
}

/// Returns timestamps in microseconds. Finer ones are floored, before 1970 too.
fn in_micros(array: &ArrayRef, unit: TimeUnit) -> Result<TimestampMicrosecondArray, ArrowError> {
    if unit == TimeUnit::Nanosecond {
        let nanos: &TimestampNanosecondArray = array.as_primitive();
        return Ok(nanos.unary(|at| at.div_euclid(1_000)));
    }
    let micros = cast(array, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
    Ok(micros.as_primitive::<TimestampMicrosecondType>().clone())
}

/// Returns the positions of the values of one row of a list.
fn values_of(list: &ListArray, row: usize) -> std::ops::Range<usize> {
    let at = |offset: i32| usize::try_from(offset).expect("BUG: offsets of a list are positive");
    let offsets = list.value_offsets();
    at(offsets[row])..at(offsets[row + 1])
}

#[cfg(test)]
mod tests;
