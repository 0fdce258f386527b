//! The values by which documents are sorted.
//!
//! # Invariants
//! * Fields of one array are taken from the same element: the key is the least of the keys that its
//!   elements have. Fields of different arrays are taken each for itself, where MongoDB refuses
//!   them as parallel arrays.

use std::cmp::Ordering;

use bson::{Bson, Document};

use super::SortDirections;
use crate::mongo::path::{DottedPath, PathName};
use crate::mongo::size::value_bytes;
use crate::mongo::value::compare;

/// The values of a document by which it is sorted.
#[derive(Debug, Clone)]
pub(in crate::mongo) struct SortKey {
    values: Box<[Bson]>,
    directions: SortDirections,
}

impl SortKey {
    pub(super) fn of(
        document: &Document,
        paths: &[DottedPath],
        directions: SortDirections,
    ) -> Self {
        let starts: Vec<KeyCursor<'_>> = paths
            .iter()
            .map(|path| KeyCursor::in_document(document, path.names()))
            .collect();
        let mut together = BestKey::new(directions);
        let values = match together.visit(&starts) {
            Ok(()) => together.finish(),
            Err(ParallelArrays) => each_for_itself(&starts, directions),
        };
        Self { values, directions }
    }

    #[cfg(test)]
    /// Returns the value of each field.
    pub(super) fn values(&self) -> &[Bson] {
        &self.values
    }

    /// Returns the bytes of the values in BSON.
    pub(super) fn bytes(&self) -> usize {
        self.values.iter().map(value_bytes).sum()
    }
}

impl Ord for SortKey {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_values(self.values.iter(), other.values.iter(), self.directions)
    }
}

impl PartialOrd for SortKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SortKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SortKey {}

fn compare_values<'a>(
    a: impl Iterator<Item = &'a Bson>,
    b: impl Iterator<Item = &'a Bson>,
    directions: SortDirections,
) -> Ordering {
    let mut orders = a.zip(b).enumerate().map(|(field, (a, b))| {
        let order = compare(a, b);
        match directions.is_descending(field) {
            true => order.reverse(),
            false => order,
        }
    });
    orders
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Takes the best value of each field alone.
fn each_for_itself(starts: &[KeyCursor<'_>], directions: SortDirections) -> Box<[Bson]> {
    let values = starts.iter().enumerate().map(|(field, start)| {
        let direction = u32::from(directions.is_descending(field));
        let mut best = BestKey::new(SortDirections(direction));
        let visited = best.visit(std::slice::from_ref(start));
        debug_assert_eq!(visited, Ok(()), "one field is in one array at a time");
        best.finish().into_iter().next().unwrap_or(Bson::Null)
    });
    values.collect()
}

/// A position on the path of one field.
#[derive(Debug, Clone, Copy)]
enum KeyCursor<'a> {
    /// The value of the field; `None` if it is missing.
    Value(Option<&'a Bson>),
    /// An array whose elements are to be visited, and the names below them.
    Array(&'a [Bson], &'a [PathName]),
}

/// An empty array sorts as this, before null.
const EMPTY: &Bson = &Bson::Undefined;

impl<'a> KeyCursor<'a> {
    fn in_document(document: &'a Document, names: &'a [PathName]) -> Self {
        let Some((name, below)) = names.split_first() else {
            return Self::Value(None);
        };
        match document.get(name.as_str()) {
            None => Self::Value(None),
            Some(value) => Self::in_value(value, below),
        }
    }

    fn in_value(value: &'a Bson, names: &'a [PathName]) -> Self {
        match (value, names.split_first()) {
            (Bson::Array(items), Some((name, below))) => {
                match name.index().and_then(|index| items.get(index)) {
                    Some(item) => Self::in_value(item, below),
                    None => Self::Array(items, names),
                }
            }
            (Bson::Array(items), None) => Self::Array(items, names),
            (value, None) => Self::Value(Some(value)),
            (Bson::Document(inside), Some(_)) => Self::in_document(inside, names),
            _ => Self::Value(None),
        }
    }

    /// Returns the position within one element of the array; `None` stands for an empty array.
    fn in_item(item: Option<&'a Bson>, names: &'a [PathName]) -> Self {
        match (item, names) {
            (None, []) => Self::Value(Some(EMPTY)),
            (Some(item), []) => Self::Value(Some(item)),
            (Some(Bson::Document(inside)), names) => Self::in_document(inside, names),
            _ => Self::Value(None),
        }
    }
}

/// Two fields are in different arrays of a document.
#[derive(Debug, PartialEq, Eq)]
struct ParallelArrays;

/// The best of the keys that were visited.
#[derive(Debug)]
struct BestKey<'a> {
    directions: SortDirections,
    values: Option<Vec<&'a Bson>>,
}

impl<'a> BestKey<'a> {
    fn new(directions: SortDirections) -> Self {
        let values = None;
        Self { directions, values }
    }

    /// Visits the keys of all elements of the array in which fields are.
    fn visit(&mut self, cursors: &[KeyCursor<'a>]) -> Result<(), ParallelArrays> {
        let mut arrays = cursors.iter().filter_map(|cursor| match cursor {
            KeyCursor::Array(items, _) => Some(*items),
            KeyCursor::Value(_) => None,
        });
        let Some(items) = arrays.next() else {
            self.offer(cursors);
            return Ok(());
        };
        if arrays.any(|other| !std::ptr::eq(other, items)) {
            return Err(ParallelArrays);
        }
        let elements = match items.is_empty() {
            true => vec![None],
            false => items.iter().map(Some).collect(),
        };
        let mut inside = cursors.to_vec();
        for element in elements {
            for (inside, outside) in inside.iter_mut().zip(cursors) {
                if let KeyCursor::Array(_, names) = outside {
                    *inside = KeyCursor::in_item(element, names);
                }
            }
            self.visit(&inside)?;
        }
        Ok(())
    }

    fn offer(&mut self, cursors: &[KeyCursor<'a>]) {
        let value = |cursor: &KeyCursor<'a>| match cursor {
            KeyCursor::Value(Some(value)) => *value,
            _ => &Bson::Null,
        };
        let is_better = self.values.as_ref().is_none_or(|best| {
            let offered = cursors.iter().map(value);
            compare_values(offered, best.iter().copied(), self.directions).is_lt()
        });
        if is_better {
            self.values = Some(cursors.iter().map(value).collect());
        }
    }

    fn finish(self) -> Box<[Bson]> {
        let values = self.values.unwrap_or_default();
        values.into_iter().cloned().collect()
    }
}
