//! Key columns as ids, and the dictionary of keys.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Int64Type};
use hashbrown::{HashMap, HashTable};
use xxhash_rust::xxh3::xxh3_64;

use super::by_frequency;
use crate::definition::KeyType;
use crate::error::Result;
use crate::expression::{Expression, as_text};
use crate::keys::{Keys, OTHER, int_column};

/// The values of one key column: an id per event, and the value (or null) of each id.
#[derive(Debug)]
pub(crate) struct KeyValues {
    ids: Vec<u32>,
    values: ArrayRef,
    /// Rank of each value, null first.
    ranks: Vec<u32>,
    /// Id of this column's value in the key `(other)`: that text, or null in an integer column.
    other: u32,
}

impl KeyValues {
    pub(crate) fn of(
        batches: &[RecordBatch],
        rows: usize,
        value: &Expression,
        key_type: KeyType,
    ) -> Result<Self> {
        match key_type {
            KeyType::Text => Self::texts(batches, rows, value),
            KeyType::Int16 | KeyType::Int64 => Self::integers(batches, rows, value, key_type),
        }
    }

    fn texts(batches: &[RecordBatch], rows: usize, value: &Expression) -> Result<Self> {
        let arrays: Vec<Option<StringArray>> = batches
            .iter()
            .map(|b| value.of(b)?.as_ref().map(as_text).transpose())
            .collect::<Result<_>>()?;
        let mut ids = Vec::with_capacity(rows);
        let mut values: Vec<Option<&str>> = Vec::new();
        let mut null = None;
        // The hash is stored beside the id: a slot of another value is rejected without reading it.
        let mut table: HashTable<(u64, u32)> = HashTable::new();
        let mut last: Option<(&str, u32)> = None;
        for (batch, array) in batches.iter().zip(&arrays) {
            let mut null_id = |values: &mut Vec<Option<&str>>| {
                *null.get_or_insert_with(|| {
                    values.push(None);
                    values.len() as u32 - 1
                })
            };
            let Some(array) = array else {
                if batch.num_rows() > 0 {
                    ids.resize(ids.len() + batch.num_rows(), null_id(&mut values));
                }
                continue;
            };
            for row in 0..array.len() {
                if array.is_null(row) {
                    ids.push(null_id(&mut values));
                    continue;
                }
                let value = array.value(row);
                if let Some((text, id)) = last
                    && text == value
                {
                    ids.push(id);
                    continue;
                }
                let hash = xxh3_64(value.as_bytes());
                let entry = table
                    .entry(
                        hash,
                        |(h, id)| *h == hash && values[*id as usize] == Some(value),
                        |(h, _)| *h,
                    )
                    .or_insert_with(|| {
                        values.push(Some(value));
                        (hash, values.len() as u32 - 1)
                    });
                let id = entry.get().1;
                last = Some((value, id));
                ids.push(id);
            }
        }
        let other = table.find(xxh3_64(OTHER.as_bytes()), |(_, id)| {
            values[*id as usize] == Some(OTHER)
        });
        let other = other.map_or(values.len() as u32, |(_, id)| *id);
        if other as usize == values.len() {
            values.push(Some(OTHER));
        }
        let ranks = ranks(&values);
        Ok(Self {
            ids,
            values: Arc::new(StringArray::from(values)),
            ranks,
            other,
        })
    }

    fn integers(
        batches: &[RecordBatch],
        rows: usize,
        value: &Expression,
        key_type: KeyType,
    ) -> Result<Self> {
        let mut ids = Vec::with_capacity(rows);
        let mut values: Vec<Option<i64>> = Vec::new();
        let mut table: HashMap<Option<i64>, u32> = HashMap::new();
        let mut last: Option<(Option<i64>, u32)> = None;
        let mut id_of = |value: Option<i64>| {
            if let Some((last_value, id)) = last
                && last_value == value
            {
                return id;
            }
            let id = *table.entry(value).or_insert_with(|| {
                values.push(value);
                values.len() as u32 - 1
            });
            last = Some((value, id));
            id
        };
        for batch in batches {
            let Some(array) = value.of(batch)? else {
                ids.extend((0..batch.num_rows()).map(|_| id_of(None)));
                continue;
            };
            // The cast makes a value that is no integer of this size null.
            let array = cast(&cast(&array, &key_type.arrow())?, &DataType::Int64)?;
            ids.extend(array.as_primitive::<Int64Type>().iter().map(&mut id_of));
        }
        let other = id_of(None);
        let ranks = ranks(&values);
        let values = int_column(key_type, values.into_iter()).expect("BUG: the cast made them fit");
        Ok(Self {
            ids,
            values,
            ranks,
            other,
        })
    }
}

/// Returns the rank of each value among all of them.
fn ranks<T: Ord>(values: &[T]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..values.len() as u32).collect();
    order.sort_unstable_by(|a, b| values[*a as usize].cmp(&values[*b as usize]));
    let mut ranks = vec![0; values.len()];
    for (rank, id) in order.iter().enumerate() {
        ranks[*id as usize] = rank as u32;
    }
    ranks
}

/// The key of each event as an id, and the value of every column for each id.
#[derive(Debug)]
pub(crate) struct Tuples<'a> {
    columns: Vec<&'a KeyValues>,
    /// Key id of each event.
    pub(crate) ids: Vec<u32>,
    /// Per column, the value id of each key.
    values: Vec<Vec<u32>>,
    len: usize,
}

impl<'a> Tuples<'a> {
    pub(crate) fn of(columns: Vec<&'a KeyValues>, rows: usize) -> Self {
        let mut ids = vec![0_u32; rows];
        let mut len = usize::from(rows > 0);
        let mut values: Vec<Vec<u32>> = Vec::new();
        for column in &columns {
            let (pairs, next) = combine(ids, &column.ids, len, column.ranks.len());
            for earlier in &mut values {
                *earlier = pairs
                    .iter()
                    .map(|(key, _)| earlier[*key as usize])
                    .collect();
            }
            values.push(pairs.iter().map(|(_, value)| *value).collect());
            (ids, len) = (next, pairs.len());
        }
        Self {
            columns,
            ids,
            values,
            len,
        }
    }

    /// Returns the number of keys.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the id of `(other)`, which is added to the keys if no event has it.
    pub(crate) fn other(&mut self) -> u32 {
        let others: Vec<u32> = self.columns.iter().map(|c| c.other).collect();
        let is_other = |id: &usize| others.iter().zip(&self.values).all(|(o, v)| v[*id] == *o);
        let id = (0..self.len).find(is_other);
        let id = id.unwrap_or_else(|| {
            for (values, other) in self.values.iter_mut().zip(&others) {
                values.push(*other);
            }
            self.len += 1;
            self.len - 1
        });
        id as u32
    }

    /// Returns the key columns of the keys `ids`.
    pub(crate) fn arrays(&self, ids: &[u32]) -> Result<Vec<ArrayRef>> {
        let columns = self.columns.iter().zip(&self.values);
        let arrays = columns.map(|(column, values)| {
            let indices: UInt32Array = ids.iter().map(|id| Some(values[*id as usize])).collect();
            Ok(take(&column.values, &indices, None)?)
        });
        arrays.collect()
    }

    /// Returns the key id of each event, and the dictionary of the keys that events have.
    pub(crate) fn dictionary(mut self) -> Result<(Vec<u32>, Keys)> {
        let mut counts = vec![0_u64; self.len];
        self.ids.iter().for_each(|id| counts[*id as usize] += 1);
        let order = by_frequency(&counts, |a, b| {
            let (a, b) = (a as usize, b as usize);
            let columns = self.columns.iter().zip(&self.values);
            let ranks = columns.map(|(c, v)| c.ranks[v[a] as usize].cmp(&c.ranks[v[b] as usize]));
            ranks.fold(Ordering::Equal, Ordering::then)
        });
        let mut place = vec![0_u32; self.len];
        for (rank, id) in order.iter().enumerate() {
            place[*id as usize] = rank as u32;
        }
        self.ids.iter_mut().for_each(|id| *id = place[*id as usize]);
        let keys = Keys {
            columns: self.arrays(&order)?,
            len: order.len(),
        };
        Ok((self.ids, keys))
    }
}

/// Numbers the pairs that occur; returns the pairs, and the number of each event's pair.
fn combine(
    mut left: Vec<u32>,
    right: &[u32],
    lefts: usize,
    rights: usize,
) -> (Vec<(u32, u32)>, Vec<u32>) {
    let mut pairs = Vec::new();
    // A table of all pairs is faster than hashing while it fits the caches.
    if lefts.saturating_mul(rights) <= (1 << 20).max(4 * right.len()) {
        let mut table = vec![u32::MAX; lefts * rights];
        for (a, b) in left.iter_mut().zip(right) {
            let slot = &mut table[*a as usize * rights + *b as usize];
            if *slot == u32::MAX {
                *slot = pairs.len() as u32;
                pairs.push((*a, *b));
            }
            *a = *slot;
        }
        return (pairs, left);
    }
    let mut table: HashMap<(u32, u32), u32> = HashMap::new();
    for (a, b) in left.iter_mut().zip(right) {
        *a = *table.entry((*a, *b)).or_insert_with(|| {
            pairs.push((*a, *b));
            pairs.len() as u32 - 1
        });
    }
    (pairs, left)
}
