//! The sizes of columns.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericByteViewArray, OffsetSizeTrait};
use arrow::datatypes::{ByteViewType, DataType};
use datafusion::logical_expr::ColumnarValue;

/// Returns the bytes of a column in its plain form, without validity: of its values alone,
/// however much more the column holds. Reads each row, and copies none.
pub(crate) fn size(array: &ArrayRef) -> u64 {
    let rows = array.len() as u64;
    match array.data_type() {
        DataType::Null => 0,
        DataType::Boolean => rows.div_ceil(8),
        DataType::Utf8 => 4 * rows + span(array.as_string::<i32>().value_offsets()),
        DataType::Binary => 4 * rows + span(array.as_binary::<i32>().value_offsets()),
        DataType::LargeUtf8 => 4 * rows + span(array.as_string::<i64>().value_offsets()),
        DataType::LargeBinary => 4 * rows + span(array.as_binary::<i64>().value_offsets()),
        DataType::Utf8View => 4 * rows + lengths(array.as_string_view()),
        DataType::BinaryView => 4 * rows + lengths(array.as_binary_view()),
        DataType::FixedSizeBinary(width) => rows * (4 + u64::from(width.unsigned_abs())),
        DataType::Dictionary(..) => unpacked(array),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            4 * rows + ranged(list.values(), list.value_offsets())
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            4 * rows + ranged(list.values(), list.value_offsets())
        }
        DataType::FixedSizeList(..) => 4 * rows + size(array.as_fixed_size_list().values()),
        DataType::Struct(_) => array.as_struct().columns().iter().map(size).sum(),
        DataType::Map(..) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            4 * rows + ranged(&entries, map.value_offsets())
        }
        other => match other.primitive_width() {
            Some(width) => rows * width as u64,
            None => array.get_array_memory_size() as u64,
        },
    }
}

fn span<O: OffsetSizeTrait>(offsets: &[O]) -> u64 {
    (offsets[offsets.len() - 1] - offsets[0]).as_usize() as u64
}

fn ranged<O: OffsetSizeTrait>(values: &ArrayRef, offsets: &[O]) -> u64 {
    let length = span(offsets) as usize;
    size(&values.slice(offsets[0].as_usize(), length))
}

fn lengths<T: ByteViewType>(array: &GenericByteViewArray<T>) -> u64 {
    let all = array.lengths();
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => all.map(u64::from).sum(),
        Some(nulls) => {
            let valid = all.zip(nulls.iter()).filter(|(_, is_valid)| *is_valid);
            valid.map(|(length, _)| u64::from(length)).sum()
        }
    }
}

/// Returns the bytes of a dictionary's rows. Does not read all of the dictionary's values: there
/// may be a hundred thousand of them behind ten rows.
fn unpacked(array: &ArrayRef) -> u64 {
    let dictionary = array.as_any_dictionary();
    let values = dictionary.values();
    if values.is_empty() {
        return 4 * array.len() as u64;
    }
    let each: Box<dyn Fn(usize) -> u64> = match values.data_type() {
        DataType::Utf8 => of_offsets(values.as_string::<i32>().value_offsets()),
        DataType::Binary => of_offsets(values.as_binary::<i32>().value_offsets()),
        DataType::LargeUtf8 => of_offsets(values.as_string::<i64>().value_offsets()),
        DataType::LargeBinary => of_offsets(values.as_binary::<i64>().value_offsets()),
        DataType::Utf8View => of_views(values.as_string_view().views()),
        DataType::BinaryView => of_views(values.as_binary_view().views()),
        other => match other.primitive_width() {
            Some(width) => return (array.len() * width) as u64,
            None => Box::new(|key| size(&values.slice(key, 1))),
        },
    };
    let keys = dictionary.normalized_keys().into_iter().enumerate();
    keys.filter(|(row, _)| array.is_valid(*row))
        .map(|(_, key)| each(key))
        .sum()
}

fn of_offsets<'a, O: OffsetSizeTrait>(offsets: &'a [O]) -> Box<dyn Fn(usize) -> u64 + 'a> {
    Box::new(|key| 4 + (offsets[key + 1] - offsets[key]).as_usize() as u64)
}

/// Returns the bytes of each view, which begins with its length.
fn of_views(views: &[u128]) -> Box<dyn Fn(usize) -> u64 + '_> {
    Box::new(|key| 4 + u64::from(views[key] as u32))
}

/// Returns the bytes of an argument, of all rows together.
pub(super) fn bytes(arg: &ColumnarValue, rows: usize) -> u64 {
    match arg {
        ColumnarValue::Array(array) => size(array),
        ColumnarValue::Scalar(value) => (value.size() as u64).saturating_mul(rows as u64),
    }
}
