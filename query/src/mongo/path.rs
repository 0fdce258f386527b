//! Dotted paths, as filters read them: through the elements of arrays.
//!
//! # Invariants
//! * The values of a path are visited in the order of the document. An array at the end of a path
//!   is visited as a whole, and then each of its elements.
//! * A path that ends in a document or a scalar too early is visited as missing. An array on the
//!   way has no missing value of its own: only the documents in it have.
//! * An index in a path leads to one element; that element is visited as a whole alone, even if it
//!   is an array.

use bson::{Bson, Document};

use crate::mongo::error::{QueryError, Result};

/// Maximum names of a filter's path that are indexes of arrays.
const INDEXES_MAX: usize = 8;

/// The names of a dotted path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DottedPath {
    text: String,
    names: Vec<PathName>,
}

/// One name of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathName {
    text: String,
    /// The element that the name stands for in an array.
    index: Option<usize>,
}

/// The values in which a path begins. An array is like a document whose fields have the indexes
/// as names.
#[derive(Debug, Clone, Copy)]
pub(super) enum PathRoot<'a> {
    Document(&'a Document),
    Items(&'a [Bson]),
}

/// A test of a value of a path. It gets the value, `None` for a missing one, and whether it is an
/// element of the array at the end.
pub(super) type ValueTest<'t> = dyn FnMut(Option<&Bson>, bool) -> bool + 't;

impl DottedPath {
    /// Splits the path of a filter.
    ///
    /// # Errors
    /// If it has too many indexes: each may double the ways through a document.
    pub(super) fn of_filter(text: &str) -> Result<Self> {
        let path = Self::new(text);
        let indexes = path.names.iter().filter(|name| name.index.is_some());
        match indexes.count() > INDEXES_MAX {
            true => Err(QueryError::bad_value(format!(
                "a path of the filter has more than {INDEXES_MAX} numbers among its names"
            ))),
            false => Ok(path),
        }
    }

    /// Splits a path at its dots.
    pub(super) fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            names: text.split('.').map(PathName::new).collect(),
        }
    }

    /// Returns the path with its dots.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the names between the dots; there is at least one.
    pub(super) fn names(&self) -> &[PathName] {
        &self.names
    }

    /// Returns whether `test` is true for a value of the path; the values after it are not visited.
    pub(super) fn any(&self, root: PathRoot<'_>, test: &mut ValueTest<'_>) -> bool {
        in_root(root, &self.names, test)
    }
}

impl PathName {
    fn new(text: &str) -> Self {
        // An array has no element `01`, only a document may have a field of this name.
        let is_index = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_canonical = is_index && (text == "0" || !text.starts_with('0'));
        Self {
            index: is_canonical.then(|| text.parse().ok()).flatten(),
            text: text.to_owned(),
        }
    }

    /// Returns the name of the field.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the index that the name is in an array.
    pub(super) fn index(&self) -> Option<usize> {
        self.index
    }
}

impl<'a> PathRoot<'a> {
    /// Returns the fields of a value; `None` for a scalar.
    pub(super) fn of(value: &'a Bson) -> Option<Self> {
        match value {
            Bson::Document(document) => Some(Self::Document(document)),
            Bson::Array(items) => Some(Self::Items(items)),
            _ => None,
        }
    }

    fn field(self, name: &PathName) -> Option<&'a Bson> {
        match self {
            Self::Document(document) => document.get(&name.text),
            Self::Items(items) => items.get(name.index?),
        }
    }
}

/// Refuses a path that no projection and no sort has.
///
/// # Errors
/// The reason, with MongoDB's code.
pub(super) fn check_field_path(path: &str) -> Result<()> {
    let (code, reason) = if path.is_empty() {
        (40352, "is empty")
    } else if path.ends_with('.') {
        (40353, "ends with a dot")
    } else if path.split('.').any(str::is_empty) {
        (15998, "has an empty name")
    } else if path.split('.').any(|name| name.starts_with('$')) {
        (16410, "has a name that begins with $")
    } else if path.contains('\0') {
        (16411, "holds a NUL character")
    } else {
        return Ok(());
    };
    Err(QueryError::located(
        code,
        format!("the path '{path}' {reason}"),
    ))
}

fn in_root(root: PathRoot<'_>, names: &[PathName], test: &mut ValueTest<'_>) -> bool {
    let (name, below) = names.split_first().expect("BUG: a path has a name");
    match root.field(name) {
        None => test(None, false),
        Some(value) => in_value(value, below, test),
    }
}

fn in_value(value: &Bson, names: &[PathName], test: &mut ValueTest<'_>) -> bool {
    match value {
        Bson::Array(items) if names.is_empty() => {
            test(Some(value), false) || items.iter().any(|item| test(Some(item), true))
        }
        Bson::Array(items) => in_items(items, names, test),
        value if names.is_empty() => test(Some(value), false),
        Bson::Document(inside) => in_root(PathRoot::Document(inside), names, test),
        _ => test(None, false),
    }
}

/// Follows names through an array: into each document in it, and to the element of an index.
fn in_items(items: &[Bson], names: &[PathName], test: &mut ValueTest<'_>) -> bool {
    let (name, below) = names.split_first().expect("BUG: names are left");
    items.iter().enumerate().any(|(index, item)| {
        let is_indexed = name.index == Some(index);
        let is_in_document = match item {
            Bson::Document(inside) => in_root(PathRoot::Document(inside), names, test),
            _ => false,
        };
        is_in_document || (is_indexed && at_index(item, below, test))
    })
}

fn at_index(item: &Bson, below: &[PathName], test: &mut ValueTest<'_>) -> bool {
    match item {
        item if below.is_empty() => test(Some(item), false),
        Bson::Document(inside) => in_root(PathRoot::Document(inside), below, test),
        Bson::Array(items) => in_items(items, below, test),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
