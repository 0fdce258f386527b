//! Projections of `find`: the fields of a document that its client gets ("Project Fields to Return
//! from Query" in MongoDB's manual).
//!
//! # Invariants
//! * A projection includes fields or excludes them, never both, but for `_id`.
//! * Included fields keep the order of the document. The first matching elements of arrays stand
//!   behind them, in the order of the projection.
//! * A projection has at most [`DEPTH_MAX`] levels, so that its use needs a bounded stack.

mod parse;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bson::{Bson, DateTime, Document};

use self::parse::ProjectionReader;
use crate::mongo::error::Result;
use crate::mongo::expression::ExpressionContext;
use crate::mongo::filter::ElementFilter;

/// Maximum levels of a projection.
const DEPTH_MAX: usize = 100;
/// Maximum time of the search for elements in one document.
const ELEMENTS_TIME: Duration = Duration::from_secs(5);

/// A projection.
#[derive(Debug)]
pub struct Projection {
    includes: bool,
    fields: ProjectedFields,
    /// Elements that are added to the included fields, in the order of the projection.
    added: Vec<AddedElement>,
}

type ProjectedFields = HashMap<String, ProjectionNode>;

/// The part of a projection for one field.
#[derive(Debug)]
enum ProjectionNode {
    /// Included, or excluded.
    Leaf,
    Inside(ProjectedFields),
    Slice(ArraySlice),
    /// It is among the added fields.
    Added,
}

/// The first matching element of an array, behind the included fields.
#[derive(Debug)]
struct AddedElement {
    name: String,
    filter: ElementFilter,
}

/// The elements of an array that `$slice` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ArraySlice {
    /// Elements before the first; from the end if negative.
    skip: i32,
    take: usize,
}

impl Projection {
    /// Reads a projection.
    ///
    /// # Errors
    /// The reason for which it cannot be understood, with MongoDB's code.
    pub fn parse(projection: &Document) -> Result<Self> {
        ProjectionReader::default().read(projection)
    }

    /// Returns the document that the client gets.
    ///
    /// # Errors
    /// If a search for an element takes too long: 50, or 51156 for a regular expression.
    pub fn apply(&self, document: &Document) -> Result<Document> {
        let mut kept = match self.includes {
            true => included(document, &self.fields, false),
            false => excluded(document, &self.fields, false),
        };
        if self.added.is_empty() {
            return Ok(kept);
        }
        let mut context = ExpressionContext::new(DateTime::MIN);
        context.deadline = Instant::now().checked_add(ELEMENTS_TIME);
        for AddedElement { name, filter } in &self.added {
            let items = document.get(name).and_then(Bson::as_array);
            let items = items.map_or(&[][..], Vec::as_slice);
            match filter.first(items, &context)? {
                Some(found) => _ = kept.insert(name, vec![found.clone()]),
                None => _ = kept.remove(name),
            }
        }
        Ok(kept)
    }
}

impl ArraySlice {
    fn of(self, value: &Bson) -> Bson {
        let Bson::Array(items) = value else {
            return value.clone();
        };
        let far = usize::try_from(self.skip.unsigned_abs()).unwrap_or(usize::MAX);
        let begin = match self.skip < 0 {
            true => items.len().saturating_sub(far),
            false => far.min(items.len()),
        };
        Bson::Array(items[begin..].iter().take(self.take).cloned().collect())
    }
}

/// Returns the included fields. Arrays directly in arrays are not sliced.
fn included(document: &Document, fields: &ProjectedFields, is_nested: bool) -> Document {
    let mut kept = Document::new();
    for (name, value) in document {
        let value = match fields.get(name) {
            None | Some(ProjectionNode::Added) => continue,
            Some(ProjectionNode::Slice(slice)) if !is_nested => slice.of(value),
            Some(ProjectionNode::Leaf | ProjectionNode::Slice(_)) => value.clone(),
            Some(ProjectionNode::Inside(below)) => match included_value(value, below, is_nested) {
                Some(inside) => inside,
                None => continue,
            },
        };
        kept.insert(name, value);
    }
    kept
}

/// Returns the included part of a value; `None` of one that has no fields.
fn included_value(value: &Bson, fields: &ProjectedFields, is_nested: bool) -> Option<Bson> {
    match value {
        Bson::Document(inside) => Some(included(inside, fields, is_nested).into()),
        Bson::Array(items) => {
            let items = items.iter().filter_map(|item| {
                let is_nested = is_nested || matches!(item, Bson::Array(_));
                included_value(item, fields, is_nested)
            });
            Some(Bson::Array(items.collect()))
        }
        _ => None,
    }
}

fn excluded(document: &Document, fields: &ProjectedFields, is_nested: bool) -> Document {
    let mut kept = Document::new();
    for (name, value) in document {
        let value = match fields.get(name) {
            Some(ProjectionNode::Leaf) => continue,
            Some(ProjectionNode::Slice(slice)) if !is_nested => slice.of(value),
            Some(ProjectionNode::Inside(below)) => excluded_value(value, below, is_nested),
            None | Some(ProjectionNode::Slice(_) | ProjectionNode::Added) => value.clone(),
        };
        kept.insert(name, value);
    }
    kept
}

fn excluded_value(value: &Bson, fields: &ProjectedFields, is_nested: bool) -> Bson {
    match value {
        Bson::Document(inside) => excluded(inside, fields, is_nested).into(),
        Bson::Array(items) => {
            let items = items.iter().map(|item| {
                let is_nested = is_nested || matches!(item, Bson::Array(_));
                excluded_value(item, fields, is_nested)
            });
            Bson::Array(items.collect())
        }
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests;
