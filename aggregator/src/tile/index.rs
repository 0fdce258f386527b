//! Finds the keys of an open file that have one of a few values, without comparing all of them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use xxhash_rust::xxh3::xxh3_64;

use crate::cells::{Filter, Passing};
use crate::keys::{KeyValue, Keys};

/// All keys are compared when a column may have more values than this, or when more than one in
/// this many keys is a candidate.
const FEW: usize = 16;

/// The indexes of the key columns, each built when a filter first needs it.
#[derive(Debug)]
pub(super) struct KeyIndex {
    columns: Vec<OnceLock<ColumnIndex>>,
    /// Set by the first filter. A file that is filtered only once is not worth an index.
    filtered_before: AtomicBool,
}

/// The keys by the hash of their value in one column.
#[derive(Debug)]
struct ColumnIndex {
    /// Entries, rising: half a hash in the upper 32 bits, the id of the key in the lower ones.
    entries: Vec<u64>,
}

impl KeyIndex {
    pub(super) fn new(columns: usize) -> Self {
        Self {
            columns: (0..columns).map(|_| OnceLock::new()).collect(),
            filtered_before: AtomicBool::new(false),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let indexes = self.columns.iter().filter_map(OnceLock::get);
        indexes.map(|index| index.entries.len() * 8).sum()
    }

    /// As [`Filter::passing`].
    pub(super) fn passing(&self, keys: &Keys, filter: &Filter) -> Option<Passing> {
        let wanted = filter.keys.iter().take(keys.columns.len()).enumerate();
        let wanted: Vec<(usize, &Vec<KeyValue>)> = wanted
            .filter_map(|(column, values)| Some((column, values.as_ref()?)))
            .collect();
        let few = wanted.iter().all(|(_, values)| values.len() <= FEW);
        if wanted.is_empty() || !few || !self.filtered_before.swap(true, Ordering::Relaxed) {
            return filter.passing(keys);
        }
        let candidates = wanted.iter().map(|(column, values)| {
            let index =
                self.columns[*column].get_or_init(|| ColumnIndex::of(&keys.columns[*column]));
            index.candidates(values)
        });
        let fewest = candidates.min_by_key(|entries| count(entries))?;
        if count(&fewest) > keys.len / FEW {
            return filter.passing(keys);
        }
        let ids = fewest.into_iter().flatten().map(|entry| *entry as u32);
        let ids = ids.filter(|id| filter.passes(keys, *id as usize)).collect();
        Some(Passing::some(keys.len, ids))
    }
}

fn count(entries: &[&[u64]]) -> usize {
    entries.iter().map(|some| some.len()).sum()
}

impl ColumnIndex {
    fn of(array: &ArrayRef) -> Self {
        let hashes: Vec<u32> = if let Some(texts) = array.as_string_opt::<i32>() {
            let hash = |text: Option<&str>| text.map_or(NULL, hash_of_text);
            texts.iter().map(hash).collect()
        } else {
            let integers = cast(array, &DataType::Int64).expect("BUG: keys are text or integers");
            let integers = integers.as_primitive::<Int64Type>();
            let hash = |integer: Option<i64>| integer.map_or(NULL, hash_of_integer);
            integers.iter().map(hash).collect()
        };
        let entry = |(id, hash): (usize, u32)| u64::from(hash) << 32 | id as u64;
        let mut entries: Vec<u64> = hashes.into_iter().enumerate().map(entry).collect();
        entries.sort_unstable();
        Self { entries }
    }

    /// Returns the entries of the keys that may have one of the values: those of equal hash.
    fn candidates(&self, values: &[KeyValue]) -> Vec<&[u64]> {
        let of_value = |value: &KeyValue| {
            let hash = u64::from(match value {
                KeyValue::Null => NULL,
                KeyValue::Int(integer) => hash_of_integer(*integer),
                KeyValue::Text(text) => hash_of_text(text),
            });
            let from = self.entries.partition_point(|entry| entry >> 32 < hash);
            let same = self.entries[from..].partition_point(|entry| entry >> 32 == hash);
            &self.entries[from..from + same]
        };
        values.iter().map(of_value).collect()
    }
}

/// The hash of null.
const NULL: u32 = 0;

fn hash_of_text(text: &str) -> u32 {
    xxh3_64(text.as_bytes()) as u32
}

fn hash_of_integer(integer: i64) -> u32 {
    xxh3_64(&integer.to_le_bytes()) as u32
}

#[cfg(test)]
mod tests;
