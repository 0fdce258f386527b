//! The values of a field for `distinct`.

use std::collections::HashSet;

use bson::{Bson, Document};

use super::error::{QueryError, Result};
use super::path::FieldPath;
use super::value::put_key;

/// Maximum bytes of all values: an answer is one document.
const BYTES_MAX: usize = 16 << 20;

/// The values of a field, each once, in the order in which they came.
#[derive(Debug)]
pub struct DistinctValues {
    path: FieldPath,
    keys: HashSet<Vec<u8>>,
    values: Vec<Bson>,
    bytes: usize,
}

impl DistinctValues {
    /// Begins with the dotted name of the field.
    pub fn new(field: &str) -> Self {
        Self {
            path: FieldPath::new(field),
            keys: HashSet::new(),
            values: Vec::new(),
            bytes: 0,
        }
    }

    /// Takes the values of a document: of an array its elements.
    ///
    /// # Errors
    /// If the values are too many for an answer.
    pub fn push(&mut self, document: &Document) -> Result<()> {
        let Self {
            path,
            keys,
            values,
            bytes,
        } = self;
        path.any(document, &mut |value, is_element| {
            match value {
                None => {}
                // Its elements follow.
                Some(Bson::Array(_)) if !is_element => {}
                Some(value) => {
                    let mut key = Vec::new();
                    put_key(value, &mut key);
                    let length = key.len();
                    if keys.insert(key) {
                        *bytes += length;
                        values.push(value.clone());
                    }
                }
            }
            false
        });
        match self.bytes > BYTES_MAX {
            true => Err(QueryError::located(17217, "distinct too big, 16mb cap")),
            false => Ok(()),
        }
    }

    /// Returns the values.
    pub fn finish(self) -> Vec<Bson> {
        self.values
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn equal_values_come_once_and_arrays_by_their_elements() {
        let mut values = DistinctValues::new("a.b");
        for document in [
            doc! { "a": { "b": 1 } },
            doc! { "a": { "b": 1.0 } },
            doc! { "a": [{ "b": [2, 3] }, { "b": [[4]] }] },
            doc! { "a": { "b": null } },
            doc! {},
        ] {
            values.push(&document).unwrap();
        }
        let found: Bson = values.finish().into();
        assert_eq!(
            found,
            Bson::from(vec![
                1.into(),
                2.into(),
                3.into(),
                Bson::from(vec![4]),
                Bson::Null
            ])
        );
    }
}
