//! The object of `$mergeObjects`, and the bytes of values that change.

use bson::{Bson, Document};

use crate::mongo::error::{QueryError, Result};
use crate::mongo::expression::type_name;
use crate::mongo::size::{check_value_bytes, value_bytes, weigh};

/// The bytes of a value that may grow and shrink. Only more than ever before counts, so that the
/// counts of many values do not add up.
#[derive(Debug, Default)]
pub(in crate::mongo) struct PeakBytes(usize);

impl PeakBytes {
    /// Takes the bytes of now, and returns by how many they exceed all before.
    pub(super) fn grow_to(&mut self, bytes: usize) -> usize {
        let grown = bytes.saturating_sub(self.0);
        self.0 += grown;
        grown
    }
}

/// The object of `$mergeObjects`.
#[derive(Debug, Default)]
pub(in crate::mongo) struct MergedObjects {
    merged: Document,
    /// The bytes in memory, and the bytes in BSON.
    memory: usize,
    encoded: usize,
    peak: PeakBytes,
}

impl MergedObjects {
    /// Takes the fields of an object, and returns by how many bytes the object has grown.
    pub(super) fn add(&mut self, value: Bson) -> Result<usize> {
        match value {
            Bson::Document(document) => {
                for (name, value) in document {
                    self.insert(name, value)?;
                }
                check_value_bytes(self.encoded)?;
                Ok(self.peak.grow_to(self.memory))
            }
            Bson::Null | Bson::Undefined => Ok(0),
            other => {
                let given = type_name(Some(&other));
                let message =
                    format!("the accumulator $mergeObjects needs objects, but got {given}");
                Err(QueryError::located(40400, message))
            }
        }
    }

    fn insert(&mut self, name: String, value: Bson) -> Result<()> {
        let name_bytes = name.len();
        self.memory += weigh(&value)?;
        self.encoded += value_bytes(&value);
        match self.merged.insert(name, value) {
            Some(before) => {
                self.memory -= weigh(&before)?;
                self.encoded -= value_bytes(&before);
            }
            None => {
                self.memory += name_bytes + size_of::<Document>();
                self.encoded += name_bytes + 2;
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Bson {
        Bson::Document(self.merged)
    }
}
