//! The filter of a reader, and the set of keys that pass it.

use std::collections::HashSet;
use std::ops::Range;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{Int16Type, Int64Type};

use crate::keys::{KeyValue, Keys};

/// The cells that a reader requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// The least start of a bucket, microseconds since 1970.
    pub from_us: i64,
    /// The exclusive upper bound of the starts of buckets, microseconds since 1970.
    pub to_us: i64,
    /// Per key column, in the definition's order: the values that pass, or `None` for all. An empty
    /// outer list lets all keys pass.
    pub keys: Vec<Option<Vec<KeyValue>>>,
}

impl Filter {
    /// All cells.
    pub const ALL: Self = Self {
        from_us: i64::MIN,
        to_us: i64::MAX,
        keys: Vec::new(),
    };

    /// Returns the keys that pass; `None` if the filter does not restrict keys.
    pub(crate) fn passing(&self, keys: &Keys) -> Option<Passing> {
        let mut passing: Option<Vec<bool>> = None;
        for (column, wanted) in self.keys.iter().enumerate() {
            let (Some(wanted), Some(array)) = (wanted, keys.columns.get(column)) else {
                continue;
            };
            let passing = passing.get_or_insert_with(|| vec![true; keys.len]);
            for (pass, hit) in passing.iter_mut().zip(matches(array, wanted)) {
                *pass &= hit;
            }
        }
        passing.map(Passing::new)
    }

    /// Checks whether one key passes.
    pub(crate) fn passes(&self, keys: &Keys, row: usize) -> bool {
        let mut columns = self.keys.iter().take(keys.columns.len()).enumerate();
        columns.all(|(column, wanted)| {
            wanted
                .as_ref()
                .is_none_or(|wanted| wanted.iter().any(|value| keys.equals(column, row, value)))
        })
    }
}

impl Default for Filter {
    fn default() -> Self {
        Self::ALL
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
