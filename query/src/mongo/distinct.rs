//! The values of a field for `distinct` ("db.collection.distinct()" in MongoDB's manual).
//!
//! # Invariants
//! * Equal values come once, in the order in which the first of them came. Numbers of different
//!   types are equal if their values are.
//! * Of an array at the end of the path come the elements; arrays in it stay whole.

use std::collections::HashSet;

use bson::{Bson, Document};

use crate::mongo::error::{QueryError, Result};
use crate::mongo::path::{DottedPath, PathName};
use crate::mongo::size::value_bytes;
use crate::mongo::value::put_key;

/// Maximum bytes of all values in BSON: an answer is one document.
const BYTES_MAX: usize = 16 << 20;

/// The values of a field, each once.
#[derive(Debug)]
pub struct DistinctValues {
    path: DottedPath,
    bytes_max: usize,
    found: FoundValues,
}

#[derive(Debug, Default)]
struct FoundValues {
    keys: HashSet<Vec<u8>>,
    values: Vec<Bson>,
    bytes: usize,
    /// The key of the value at hand, so that a repeated value allocates nothing.
    key: Vec<u8>,
}

impl DistinctValues {
    /// Begins with the dotted name of the field.
    pub fn new(field: &str) -> Self {
        Self {
            path: DottedPath::new(field),
            bytes_max: BYTES_MAX,
            found: FoundValues::default(),
        }
    }

    /// Takes the values of a document.
    ///
    /// # Errors
    /// If the values are too many for an answer.
    pub fn push(&mut self, document: &Document) -> Result<()> {
        self.found.add_of_document(document, self.path.names());
        match self.found.bytes > self.bytes_max {
            true => Err(QueryError::located(
                17217,
                "the values of the field have more than 16 MiB; narrow the query",
            )),
            false => Ok(()),
        }
    }

    /// Returns the values.
    pub fn finish(self) -> Vec<Bson> {
        self.found.values
    }
}

impl FoundValues {
    fn add_of_document(&mut self, document: &Document, names: &[PathName]) {
        let (name, below) = names.split_first().expect("BUG: a path has a name");
        if let Some(value) = document.get(name.as_str()) {
            self.add_of_value(value, below);
        }
    }

    fn add_of_value(&mut self, value: &Bson, names: &[PathName]) {
        match (value, names.split_first()) {
            (Bson::Array(items), None) => items.iter().for_each(|item| self.add(item)),
            (value, None) => self.add(value),
            (Bson::Document(inside), Some(_)) => self.add_of_document(inside, names),
            (Bson::Array(items), Some((name, below))) => {
                // An index is never the name of a field here, unlike in filters.
                let indexed = name.index().map(|index| items.get(index));
                match indexed {
                    Some(Some(item)) => self.add_of_value(item, below),
                    Some(None) => {}
                    None => {
                        let documents = items.iter().filter_map(Bson::as_document);
                        documents.for_each(|inside| self.add_of_document(inside, names));
                    }
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, value: &Bson) {
        self.key.clear();
        put_key(value, &mut self.key);
        if !self.keys.contains(&self.key) {
            self.keys.insert(self.key.clone());
            self.bytes += value_bytes(value);
            self.values.push(value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn distinct(path: &str, documents: &[Document]) -> Bson {
        let mut values = DistinctValues::new(path);
        documents
            .iter()
            .for_each(|document| values.push(document).unwrap());
        values.finish().into()
    }

    #[test]
    fn equal_values_come_once_and_arrays_by_their_elements() {
        let documents = [
            doc! { "a": { "b": 1 } },
            doc! { "a": { "b": 1.0 } },
            doc! { "a": [{ "b": [2, 3] }, { "b": [[4]] }, [{ "b": 9 }], 7] },
            doc! { "a": { "b": null } },
            doc! { "a": { "b": [] } },
            doc! { "a": 5 },
            doc! {},
        ];
        let expected = bson::bson!([1, 2, 3, [4], null]);
        assert_eq!(distinct("a.b", &documents), expected);
    }

    #[test]
    fn an_index_in_the_path_leads_into_an_array() {
        let documents = [
            doc! { "a": [5, 6] },
            doc! { "a": [[7, 8], 6] },
            doc! { "a": { "0": 9 } },
            doc! { "a": [{ "0": 10 }] },
        ];
        let expected = bson::bson!([5, 7, 8, 9, { "0": 10 }]);
        assert_eq!(distinct("a.0", &documents), expected);
        assert_eq!(distinct("a.1", &documents), bson::bson!([6]));
    }

    #[test]
    fn too_many_values_are_refused() {
        let mut values = DistinctValues::new("a");
        let text = "x".repeat(1 << 20);
        let push = |n: i32| values.push(&doc! { "a": format!("{n}{text}") });
        assert_eq!((0..20).try_for_each(push).unwrap_err().code, 17217);
    }
}
