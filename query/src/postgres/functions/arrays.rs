//! Bounds of arrays, and their elements with places.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int32Array, ListArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, ScalarValue, exec_err};

use super::calls::Call;
use super::{Definition, Returns, strict};

pub(super) const TABLE: &[Definition] = &[
    strict("array_lower", (2, 2), Returns::Int4, lower),
    strict("array_upper", (2, 2), Returns::Int4, upper),
    strict("_pg_expandarray", (1, 1), Returns::Places, places),
];

/// Returns the type of the elements of an array with their places.
pub(super) fn places_type(element: &DataType) -> DataType {
    let row = DataType::Struct(places_fields(element));
    DataType::List(Arc::new(Field::new_list_field(row, true)))
}

fn places_fields(element: &DataType) -> Fields {
    let field = |name: &str, of_type| Field::new(name, of_type, true);
    vec![field("x", element.clone()), field("n", DataType::Int32)].into()
}

/// Returns the elements of the first argument.
fn elements(call: &Call<'_>) -> Result<ArrayRef> {
    match call.values.first() {
        Some(ScalarValue::List(list)) if list.len() == 1 => Ok(list.value(0)),
        Some(ScalarValue::LargeList(list)) if list.len() == 1 => Ok(list.value(0)),
        _ => exec_err!("{} takes an array", call.name),
    }
}

/// Returns the length of the first dimension. An empty array and other dimensions have none.
fn length(call: &Call<'_>) -> Result<Option<i32>> {
    let elements = elements(call)?;
    let is_first = call.integer(1)? == 1;
    let length = i32::try_from(elements.len()).unwrap_or(i32::MAX);
    Ok((is_first && length > 0).then_some(length))
}

fn lower(call: &Call<'_>) -> Result<ScalarValue> {
    Ok(ScalarValue::Int32(length(call)?.map(|_| 1)))
}

fn upper(call: &Call<'_>) -> Result<ScalarValue> {
    Ok(ScalarValue::Int32(length(call)?))
}

fn places(call: &Call<'_>) -> Result<ScalarValue> {
    let elements = elements(call)?;
    let fields = places_fields(elements.data_type());
    let count = i32::try_from(elements.len()).unwrap_or(i32::MAX);
    let places = Arc::new(Int32Array::from_iter_values(1..=count));
    let rows = StructArray::try_new(fields.clone(), vec![elements, places], None)?;
    let field = Arc::new(Field::new_list_field(DataType::Struct(fields), true));
    let offsets = OffsetBuffer::from_lengths([rows.len()]);
    let list = ListArray::try_new(field, offsets, Arc::new(rows), None)?;
    Ok(ScalarValue::List(Arc::new(list)))
}
