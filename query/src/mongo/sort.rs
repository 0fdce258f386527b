//! Sorts of documents ("sort()" and "Comparison/Sort Order" in MongoDB's manual).
//!
//! # Invariants
//! * A missing value sorts as null. An array sorts by its least element, or by its greatest in a
//!   descending sort; an empty one sorts before null.
//! * Documents with equal keys keep their order.

mod key;
mod top;

use bson::{Bson, Document};

pub(in crate::mongo) use self::key::SortKey;
pub use self::top::TopK;
use crate::mongo::error::{QueryError, Result};
use crate::mongo::path::{DottedPath, check_field_path};
use crate::mongo::value::BsonNumber;

/// Maximum fields of a sort, as in MongoDB.
const FIELDS_MAX: usize = 32;

/// A sort by fields; without any, documents keep their order.
#[derive(Debug)]
pub struct Sort {
    paths: Vec<DottedPath>,
    directions: SortDirections,
}

/// The directions of a sort: a bit for each field that is descending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SortDirections(u32);

impl SortDirections {
    fn is_descending(self, field: usize) -> bool {
        self.0 >> field & 1 == 1
    }
}

impl Sort {
    /// Reads a sort.
    ///
    /// # Errors
    /// The reason for which it cannot be understood, with MongoDB's code.
    pub fn parse(sort: &Document) -> Result<Self> {
        if sort.len() > FIELDS_MAX {
            let message = format!("a sort has at most {FIELDS_MAX} fields");
            return Err(QueryError::located(13103, message));
        }
        let mut paths = Vec::with_capacity(sort.len());
        let mut directions = 0;
        for (field, (name, direction)) in sort.iter().enumerate() {
            check_field_path(name)?;
            if is_descending(name, direction)? {
                directions |= 1 << field;
            }
            paths.push(DottedPath::new(name));
        }
        let directions = SortDirections(directions);
        Ok(Self { paths, directions })
    }

    /// Returns the values by which a document is sorted.
    pub(super) fn key(&self, document: &Document) -> SortKey {
        SortKey::of(document, &self.paths, self.directions)
    }
}

pub(super) fn is_descending(name: &str, direction: &Bson) -> Result<bool> {
    if matches!(direction, Bson::Document(_)) {
        let message = format!("the sort by '{name}' is an expression; sort by fields");
        return Err(QueryError::not_supported(message));
    }
    let Some(number) = BsonNumber::of(direction) else {
        let message = format!("the direction of '{name}' is {direction}; write 1 or -1");
        return Err(QueryError::located(15974, message));
    };
    // As in MongoDB, a fraction is cut.
    match number.to_double().trunc() {
        1.0 => Ok(false),
        -1.0 => Ok(true),
        _ => {
            let message = format!("the direction of '{name}' is {direction}; write 1 or -1");
            Err(QueryError::located(15975, message))
        }
    }
}

#[cfg(test)]
mod tests;
