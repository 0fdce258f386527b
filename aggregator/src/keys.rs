//! Keys: their values, and dictionaries of them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, PrimitiveArray};
use arrow::datatypes::{Int16Type, Int64Type};

use crate::definition::{Definition, KeyType};

/// The value of text columns in the key of all keys that are not admitted; integers are null.
pub const OTHER: &str = "(other)";

/// The value of one key column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyValue {
    /// Null, a key like any other.
    Null,
    /// A value of an integer column.
    Int(i64),
    /// A value of a text column.
    Text(String),
}

impl std::fmt::Display for KeyValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Text(value) => write!(f, "{value:?}"),
        }
    }
}

/// The dictionary of key tuples: one array per key column, one row per key.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    pub(crate) columns: Vec<ArrayRef>,
    pub(crate) len: usize,
}

impl Keys {
    /// Returns the value of one column of a key.
    pub(crate) fn value(&self, column: usize, row: usize) -> KeyValue {
        let array = &self.columns[column];
        if array.is_null(row) {
            return KeyValue::Null;
        }
        match integer_at(array, row) {
            Some(integer) => KeyValue::Int(integer),
            None => KeyValue::Text(array.as_string::<i32>().value(row).to_owned()),
        }
    }

    /// Returns a key as the values of its columns.
    pub(crate) fn tuple(&self, row: usize) -> Vec<KeyValue> {
        (0..self.columns.len())
            .map(|c| self.value(c, row))
            .collect()
    }

    /// Checks whether the value of one column of a key equals `value`.
    pub(crate) fn equals(&self, column: usize, row: usize, value: &KeyValue) -> bool {
        let array = &self.columns[column];
        if array.is_null(row) {
            return *value == KeyValue::Null;
        }
        match value {
            KeyValue::Null => false,
            KeyValue::Text(text) => array
                .as_string_opt::<i32>()
                .is_some_and(|texts| texts.value(row) == text),
            KeyValue::Int(integer) => integer_at(array, row) == Some(*integer),
        }
    }

    /// Returns an empty dictionary, with columns of the definition's types.
    pub(crate) fn empty(definition: &Definition) -> Self {
        let columns = definition
            .by()
            .iter()
            .map(|k| arrow::array::new_empty_array(&k.key_type.arrow()))
            .collect();
        Self { columns, len: 0 }
    }

    /// Returns the bytes in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.columns.iter().map(|c| c.get_array_memory_size()).sum()
    }
}

/// Returns a value of an integer column; `None` for a text column.
fn integer_at(array: &ArrayRef, row: usize) -> Option<i64> {
    let short = array.as_primitive_opt::<Int16Type>();
    let short = short.map(|values| i64::from(values.value(row)));
    short.or_else(|| Some(array.as_primitive_opt::<Int64Type>()?.value(row)))
}

/// Builds the array of an integer key column; fails with the first value that does not fit.
pub(crate) fn int_column(
    key_type: KeyType,
    values: impl Iterator<Item = Option<i64>>,
) -> Result<ArrayRef, i64> {
    if key_type == KeyType::Int16 {
        let narrow = values
            .map(|v| v.map(|v| i16::try_from(v).map_err(|_| v)).transpose())
            .collect::<Result<Vec<Option<i16>>, i64>>()?;
        return Ok(Arc::new(PrimitiveArray::<Int16Type>::from_iter(narrow)));
    }
    Ok(Arc::new(values.collect::<Int64Array>()))
}
