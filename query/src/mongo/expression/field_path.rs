//! Paths of fields, as expressions read them ("Field Paths" in MongoDB's manual).
//!
//! # Invariants
//! * A path maps over an array: it leaves out the elements without the field, and the elements
//!   that are no documents. Its numeric names are names of fields and no places in arrays.

use bson::{Bson, Document};

use super::Evaluated;
use crate::mongo::error::{QueryError, Result};
use crate::mongo::path::check_field_path;

/// Maximum names of a path.
const NAMES_MAX: usize = 200;

/// The names of a dotted path; none for the value of a variable itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::mongo) struct FieldPath(Vec<String>);

impl FieldPath {
    /// Reads a dotted path without `$`.
    ///
    /// # Errors
    /// 15998 for an empty name, 40353 for a dot at the end, 16410 for a name that begins with `$`.
    pub(in crate::mongo) fn parse(text: &str) -> Result<Self> {
        check_field_path(text)?;
        let names: Vec<String> = text.split('.').map(str::to_owned).collect();
        if names.len() > NAMES_MAX {
            let message = format!("a path has more than {NAMES_MAX} names");
            return Err(QueryError::located(15, message));
        }
        Ok(Self(names))
    }

    /// Returns the names.
    pub(in crate::mongo) fn names(&self) -> &[String] {
        &self.0
    }

    /// Returns the value of a path with a name; `None` if it is missing.
    pub(in crate::mongo) fn in_document(&self, document: &Document) -> Evaluated {
        in_document(document, &self.0)
    }

    pub(super) fn in_value(&self, value: &Bson) -> Evaluated {
        match self.0.is_empty() {
            true => Some(value.clone()),
            false => in_value(value, &self.0),
        }
    }
}

fn in_document(document: &Document, names: &[String]) -> Evaluated {
    let (name, below) = names.split_first()?;
    let value = document.get(name)?;
    match below.is_empty() {
        true => Some(value.clone()),
        false => in_value(value, below),
    }
}

fn in_value(value: &Bson, names: &[String]) -> Evaluated {
    match value {
        Bson::Document(document) => in_document(document, names),
        Bson::Array(items) => {
            let values = items.iter().filter_map(|item| in_item(item, names));
            Some(Bson::Array(values.collect()))
        }
        _ => None,
    }
}

/// Returns the value in an element of an array; an array in it has none.
fn in_item(item: &Bson, names: &[String]) -> Evaluated {
    in_document(item.as_document()?, names)
}
