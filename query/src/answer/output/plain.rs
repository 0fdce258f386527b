//! The plain form of columns: the values of their rows, and nothing else.
//!
//! A batch of an answer may hold far more than its rows show. A view array keeps every buffer of
//! the part from which it was read, a dictionary keeps all of its values, a slice keeps the array
//! from which it was cut, and a null may hide a text or a list. Arrow's writer writes most of
//! that, and again for every batch.
//!
//! In the plain form texts and bytes stand one after another with 32-bit offsets, dictionaries
//! and runs are unpacked, every kind of list is a list with 32-bit offsets, and nulls hide
//! nothing.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, ListArray, MapArray, OffsetSizeTrait,
    StringArray, StructArray, UInt32Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, nullif, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;

use crate::functions::sizes::size;

/// Returns the schema of the plain form.
pub(super) fn plain_schema(schema: &SchemaRef) -> SchemaRef {
    let fields: Fields = schema.fields().iter().map(plain_field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn plain_field(field: &FieldRef) -> FieldRef {
    let data_type = plain_type(field.data_type());
    if data_type == *field.data_type() {
        return Arc::clone(field);
    }
    Arc::new(Field::clone(field).with_data_type(data_type))
}

fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary | DataType::FixedSizeBinary(_) => {
            DataType::Binary
        }
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::RunEndEncoded(_, values) => plain_type(values.data_type()),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _) => DataType::List(plain_field(field)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect()),
        DataType::Map(entries, is_sorted) => DataType::Map(plain_field(entries), *is_sorted),
        other => other.clone(),
    }
}

/// Returns the plain form of a column.
///
/// # Errors
/// When a column has more bytes than 32-bit offsets can count.
pub(super) fn plain(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if size(array) > i32::MAX as u64 {
        return Err(ArrowError::OffsetOverflowError(i32::MAX as usize));
    }
    Ok(match array.data_type() {
        DataType::Utf8 => match hides_bytes::<i32>(array) {
            true => Arc::new(array.as_string::<i32>().iter().collect::<StringArray>()),
            false => Arc::clone(array),
        },
        DataType::LargeUtf8 => Arc::new(array.as_string::<i64>().iter().collect::<StringArray>()),
        DataType::Utf8View => Arc::new(array.as_string_view().iter().collect::<StringArray>()),
        DataType::Binary => match hides_bytes::<i32>(array) {
            true => Arc::new(array.as_binary::<i32>().iter().collect::<BinaryArray>()),
            false => Arc::clone(array),
        },
        DataType::LargeBinary => Arc::new(array.as_binary::<i64>().iter().collect::<BinaryArray>()),
        DataType::BinaryView => Arc::new(array.as_binary_view().iter().collect::<BinaryArray>()),
        DataType::FixedSizeBinary(_) => {
            let each = array.as_fixed_size_binary().iter();
            Arc::new(each.collect::<BinaryArray>())
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            plain(&take(dictionary.values(), dictionary.keys(), None)?)?
        }
        DataType::RunEndEncoded(_, values) => plain(&cast(array, values.data_type())?)?,
        DataType::List(_) => plain_list(array.as_list())?,
        DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _) => {
            plain_list(cast(array, &DataType::List(Arc::clone(field)))?.as_list())?
        }
        DataType::Struct(_) => plain_struct(array.as_struct())?,
        DataType::Map(..) => plain_map(array.as_map())?,
        _ => Arc::clone(array),
    })
}

/// Returns whether some nulls hide bytes.
fn hides_bytes<O: OffsetSizeTrait>(array: &ArrayRef) -> bool {
    let data = array.to_data();
    let offsets = &data.buffer::<O>(0)[..=data.len()];
    hides(data.nulls(), offsets)
}

fn hides<O: OffsetSizeTrait>(nulls: Option<&NullBuffer>, offsets: &[O]) -> bool {
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
        return false;
    };
    let mut each = offsets.windows(2).enumerate();
    each.any(|(row, ends)| nulls.is_null(row) && ends[0] != ends[1])
}

/// Copies the rows one by one, without the values that nulls hide.
fn gathered(array: &dyn Array) -> Result<ArrayRef, ArrowError> {
    let rows = u32::try_from(array.len()).map_err(|e| ArrowError::ComputeError(e.to_string()))?;
    take(array, &UInt32Array::from_iter_values(0..rows), None)
}

/// Returns offsets that begin with 0, and the start of the first and the end of the last value
/// before the change.
fn from_zero(offsets: &[i32]) -> (OffsetBuffer<i32>, usize, usize) {
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let offsets = offsets.iter().map(|offset| offset - first).collect();
    (OffsetBuffer::new(offsets), first as usize, last as usize)
}

fn plain_list(list: &ListArray) -> Result<ArrayRef, ArrowError> {
    if hides(list.nulls(), list.value_offsets()) {
        return plain_list(gathered(list)?.as_list());
    }
    let (offsets, first, last) = from_zero(list.value_offsets());
    let values = plain(&list.values().slice(first, last - first))?;
    let field = match list.data_type() {
        DataType::List(field) => plain_field(field),
        other => unreachable!("BUG: a list has the type {other}"),
    };
    let nulls = list.nulls().cloned();
    Ok(Arc::new(ListArray::try_new(field, offsets, values, nulls)?))
}

fn plain_map(map: &MapArray) -> Result<ArrayRef, ArrowError> {
    if hides(map.nulls(), map.value_offsets()) {
        return plain_map(gathered(map)?.as_map());
    }
    let (offsets, first, last) = from_zero(map.value_offsets());
    let entries = plain_struct(&map.entries().slice(first, last - first))?;
    let (field, is_sorted) = match map.data_type() {
        DataType::Map(field, is_sorted) => (plain_field(field), *is_sorted),
        other => unreachable!("BUG: a map has the type {other}"),
    };
    let (entries, nulls) = (entries.as_struct().clone(), map.nulls().cloned());
    let map = MapArray::try_new(field, offsets, entries, nulls, is_sorted)?;
    Ok(Arc::new(map))
}

fn plain_struct(record: &StructArray) -> Result<ArrayRef, ArrowError> {
    let nulls = record.nulls().filter(|nulls| nulls.null_count() > 0);
    let is_null = nulls.map(|nulls| BooleanArray::new(!nulls.inner(), None));
    let columns = record.columns().iter().map(|column| match &is_null {
        // A union has no nulls of its own, so it cannot be set to null here.
        Some(is_null) if !matches!(column.data_type(), DataType::Union(..)) => {
            plain(&nullif(&with_nulls(column)?, is_null)?)
        }
        _ => plain(column),
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let fields: Fields = record.fields().iter().map(plain_field).collect();
    let (nulls, rows) = (record.nulls().cloned(), record.len());
    let record = StructArray::try_new_with_length(fields, columns, nulls, rows)?;
    Ok(Arc::new(record))
}

/// Unpacks runs, which have no nulls of their own.
fn with_nulls(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match column.data_type() {
        DataType::RunEndEncoded(..) => plain(column),
        _ => Ok(Arc::clone(column)),
    }
}
