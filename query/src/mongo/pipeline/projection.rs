//! `$project`, `$addFields`, `$set` and `$unset`.
//!
//! # Invariants
//! * Included fields keep the order of the document, `_id` first; computed fields come after them
//!   in the order of the specification.
//! * A nested field is projected in each document of an array.

mod fields;
mod parse;

use bson::{Bson, Document};

pub(super) use self::fields::{FieldNode, FieldTree};
use crate::mongo::error::Result;
use crate::mongo::expression::ExpressionContext;
use crate::mongo::size::{check_memory, weigh, weigh_document};

/// A stage that changes the fields of each document.
#[derive(Debug)]
pub(in crate::mongo) struct FieldsProjection {
    pub(super) mode: ProjectionMode,
    pub(super) fields: FieldTree,
}

/// The fields of the document that a projection keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mongo) enum ProjectionMode {
    /// The fields that it names.
    Inclusion,
    /// The fields that it does not name.
    Exclusion,
    /// All: `$addFields`.
    Addition,
}

impl FieldsProjection {
    pub(super) fn apply(
        &self,
        document: Document,
        context: &ExpressionContext,
    ) -> Result<Document> {
        match self.mode {
            ProjectionMode::Exclusion => Ok(exclude(document, &self.fields)),
            ProjectionMode::Inclusion => {
                let mut kept = include(&document, &self.fields);
                if kept.contains_key("_id") && kept.keys().next().is_some_and(|k| k != "_id") {
                    kept = id_first(kept);
                }
                self.compute(&mut kept, &document, context)?;
                Ok(kept)
            }
            ProjectionMode::Addition => {
                let mut result = document.clone();
                self.compute(&mut result, &document, context)?;
                Ok(result)
            }
        }
    }

    fn compute(
        &self,
        into: &mut Document,
        root: &Document,
        context: &ExpressionContext,
    ) -> Result<()> {
        if self.fields.has_computed() {
            let mut computing = FieldsComputing {
                root,
                context,
                bytes: 0,
            };
            computing.set(into, &self.fields)?;
            weigh_document(into)?;
        }
        Ok(())
    }
}

fn id_first(mut document: Document) -> Document {
    let mut result = Document::new();
    result.extend(document.remove("_id").map(|id| ("_id".to_owned(), id)));
    result.extend(document);
    result
}

fn include(document: &Document, fields: &FieldTree) -> Document {
    let mut kept = Document::new();
    for (name, value) in document {
        match fields.get(name) {
            Some(FieldNode::Named) => _ = kept.insert(name, value.clone()),
            Some(FieldNode::Inside(inside)) => {
                if let Some(value) = include_in(value, inside) {
                    kept.insert(name, value);
                }
            }
            Some(FieldNode::Compute(_)) | None => {}
        }
    }
    kept
}

/// Returns the included parts of a value; `None` if it is neither a document nor an array.
fn include_in(value: &Bson, fields: &FieldTree) -> Option<Bson> {
    match value {
        Bson::Document(document) => Some(Bson::Document(include(document, fields))),
        Bson::Array(items) => {
            let items = items.iter().filter_map(|item| include_in(item, fields));
            Some(Bson::Array(items.collect()))
        }
        _ => None,
    }
}

fn exclude(document: Document, fields: &FieldTree) -> Document {
    let mut kept = Document::new();
    for (name, value) in document {
        match fields.get(&name) {
            None => _ = kept.insert(name, value),
            Some(FieldNode::Inside(inside)) => _ = kept.insert(name, exclude_in(value, inside)),
            Some(FieldNode::Named | FieldNode::Compute(_)) => {}
        }
    }
    kept
}

fn exclude_in(value: Bson, fields: &FieldTree) -> Bson {
    match value {
        Bson::Document(document) => Bson::Document(exclude(document, fields)),
        Bson::Array(items) => {
            let items = items.into_iter().map(|item| exclude_in(item, fields));
            Bson::Array(items.collect())
        }
        other => other,
    }
}

/// Computes the fields of one document.
struct FieldsComputing<'a> {
    root: &'a Document,
    context: &'a ExpressionContext,
    /// The bytes of memory of the values so far.
    bytes: usize,
}

impl FieldsComputing<'_> {
    /// Sets the computed fields of a document; one whose value is missing is removed.
    fn set(&mut self, into: &mut Document, fields: &FieldTree) -> Result<()> {
        for (name, node) in fields.iter() {
            match node {
                FieldNode::Compute(expression) => {
                    match self.context.evaluate(expression, self.root)? {
                        Some(value) => {
                            self.bytes += weigh(&value)?;
                            check_memory(self.bytes)?;
                            into.insert(name, value);
                        }
                        None => _ = into.remove(name),
                    }
                }
                FieldNode::Inside(inside) if inside.has_computed() => {
                    let before = into
                        .get_mut(name)
                        .map(|value| std::mem::replace(value, Bson::Null));
                    let after = self.set_in(before, inside)?;
                    into.insert(name, after);
                }
                FieldNode::Inside(_) | FieldNode::Named => {}
            }
        }
        Ok(())
    }

    /// Sets computed fields in a document, in each element of an array, or in a new document that
    /// takes the place of another value.
    fn set_in(&mut self, value: Option<Bson>, fields: &FieldTree) -> Result<Bson> {
        match value {
            Some(Bson::Array(items)) => {
                let items = items
                    .into_iter()
                    .map(|item| self.set_in(Some(item), fields));
                Ok(Bson::Array(items.collect::<Result<_>>()?))
            }
            value => {
                let mut inside = match value {
                    Some(Bson::Document(document)) => document,
                    _ => Document::new(),
                };
                self.set(&mut inside, fields)?;
                Ok(Bson::Document(inside))
            }
        }
    }
}
