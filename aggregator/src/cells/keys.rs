//! The dictionary of keys, and the set of keys that pass a filter.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{Int16Type, Int64Type};

use super::{Filter, KeyValue};
use crate::definition::{Definition, KeyType};
use crate::error::Result;

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

    /// Returns the keys that pass the filter; `None` if it does not restrict keys.
    pub(crate) fn passing(&self, filter: &Filter) -> Option<Passing> {
        let mut passing: Option<Vec<bool>> = None;
        for (column, wanted) in filter.keys.iter().enumerate() {
            let (Some(wanted), Some(array)) = (wanted, self.columns.get(column)) else {
                continue;
            };
            let passing = passing.get_or_insert_with(|| vec![true; self.len]);
            for (pass, hit) in passing.iter_mut().zip(matches(array, wanted)) {
                *pass &= hit;
            }
        }
        passing.map(Passing::new)
    }

    /// Checks whether one key passes the filter.
    pub(crate) fn passes(&self, row: usize, filter: &Filter) -> bool {
        let mut columns = filter.keys.iter().zip(&self.columns);
        columns.all(|(wanted, array)| {
            wanted
                .as_ref()
                .is_none_or(|wanted| wanted.iter().any(|value| equals(array, row, value)))
        })
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

/// The keys that pass a filter.
#[derive(Debug, PartialEq)]
pub(crate) struct Passing {
    /// Per key: true if it passes.
    of: Vec<bool>,
    /// Keys that pass, ascending.
    ids: Vec<u32>,
}

impl Passing {
    fn new(of: Vec<bool>) -> Self {
        let ids = (0..of.len() as u32).filter(|id| of[*id as usize]).collect();
        Self { of, ids }
    }

    /// Creates the set of the keys `ids` out of `len`.
    pub(crate) fn some(len: usize, mut ids: Vec<u32>) -> Self {
        let mut of = vec![false; len];
        ids.iter().for_each(|id| of[*id as usize] = true);
        ids.sort_unstable();
        ids.dedup();
        Self { of, ids }
    }

    /// Checks whether a key passes.
    pub(crate) fn has(&self, key: u32) -> bool {
        self.of[key as usize]
    }

    /// Checks whether any key of a range passes.
    pub(crate) fn any_in(&self, keys: Range<u32>) -> bool {
        let next = self.ids.partition_point(|id| *id < keys.start);
        self.ids.get(next).is_some_and(|id| *id < keys.end)
    }
}

/// Checks whether the value of a key column at `row` equals `value`.
fn equals(array: &ArrayRef, row: usize, value: &KeyValue) -> bool {
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

/// Returns a value of an integer column; `None` for a text column.
fn integer_at(array: &ArrayRef, row: usize) -> Option<i64> {
    let short = array.as_primitive_opt::<Int16Type>();
    let short = short.map(|values| i64::from(values.value(row)));
    short.or_else(|| Some(array.as_primitive_opt::<Int64Type>()?.value(row)))
}

/// Returns, per value of a key column, true if it is one of `wanted`.
fn matches(array: &ArrayRef, wanted: &[KeyValue]) -> Vec<bool> {
    let null = wanted.contains(&KeyValue::Null);
    if let Some(values) = array.as_string_opt::<i32>() {
        let text = |v: &KeyValue| {
            if let KeyValue::Text(t) = v {
                Some(t.clone())
            } else {
                None
            }
        };
        let texts: HashSet<String> = wanted.iter().filter_map(text).collect();
        // Most filters have one value: a comparison is cheaper than a hash.
        return match (texts.len(), texts.iter().next()) {
            (1, Some(one)) => values
                .iter()
                .map(|v| v.map_or(null, |v| v == one))
                .collect(),
            _ => values
                .iter()
                .map(|v| v.map_or(null, |v| texts.contains(v)))
                .collect(),
        };
    }
    let integer = |v: &KeyValue| {
        if let KeyValue::Int(i) = v {
            Some(*i)
        } else {
            None
        }
    };
    let integers: HashSet<i64> = wanted.iter().filter_map(integer).collect();
    if let Some(values) = array.as_primitive_opt::<Int16Type>() {
        return values
            .iter()
            .map(|v| v.map_or(null, |v| integers.contains(&v.into())))
            .collect();
    }
    array
        .as_primitive::<Int64Type>()
        .iter()
        .map(|v| v.map_or(null, |v| integers.contains(&v)))
        .collect()
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
        return Ok(Arc::new(
            arrow::array::PrimitiveArray::<Int16Type>::from_iter(narrow),
        ));
    }
    Ok(Arc::new(values.collect::<Int64Array>()))
}
