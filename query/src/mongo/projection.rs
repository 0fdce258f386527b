//! Projections of `find`: the fields of a document that its client gets.
//!
//! # Invariants
//! * A projection includes fields or excludes them, never both, but for `_id`.
//! * Fields keep the order of the document.

use std::collections::BTreeMap;

use bson::{Bson, Document};

use super::error::{QueryError, Result};
use super::filter::Filter;
use super::value::{BsonNumber, is_true};

/// Maximum levels of a projection.
const DEPTH_MAX: usize = 100;

/// A projection.
#[derive(Debug)]
pub struct Projection {
    includes: bool,
    fields: Fields,
}

type Fields = BTreeMap<String, Node>;

/// The part of a projection for one field.
#[derive(Debug)]
enum Node {
    /// Included, or excluded.
    Leaf,
    Inside(Fields),
    /// Skips so many elements of an array, from the end if negative, and takes so many.
    Slice {
        skip: i64,
        take: Option<usize>,
    },
    /// The first element that matches.
    Element(Filter),
}

impl Projection {
    /// Reads a projection.
    ///
    /// # Errors
    /// The reason for which it cannot be understood, with MongoDB's code.
    pub fn parse(projection: &Document) -> Result<Self> {
        let mut reader = ProjectionReader::default();
        let mut fields = Fields::new();
        reader.read(projection, "", 1, &mut fields)?;
        // Without a word about other fields, `_id` alone decides.
        let id_alone = reader.id.unwrap_or(false);
        let includes = reader.includes.unwrap_or(id_alone);
        match (includes, reader.id) {
            (true, None | Some(true)) => _ = fields.insert("_id".to_owned(), Node::Leaf),
            (false, Some(false)) => _ = fields.insert("_id".to_owned(), Node::Leaf),
            (true, Some(false)) | (false, None | Some(true)) => {}
        }
        Ok(Self { includes, fields })
    }

    /// Returns the document that the client gets.
    pub fn apply(&self, document: &Document) -> Document {
        match self.includes {
            true => included(document, &self.fields),
            false => excluded(document, &self.fields),
        }
    }
}

#[derive(Debug, Default)]
struct ProjectionReader {
    /// True if fields other than `_id` are included; `None` before the first.
    includes: Option<bool>,
    /// True if `_id` is included.
    id: Option<bool>,
}

impl ProjectionReader {
    fn read(
        &mut self,
        projection: &Document,
        above: &str,
        depth: usize,
        into: &mut Fields,
    ) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(QueryError::bad_value("the projection is nested too deep"));
        }
        for (name, value) in projection {
            let path = match above {
                "" => name.clone(),
                above => format!("{above}.{name}"),
            };
            if name.split('.').any(|part| part.starts_with('$')) {
                let message = format!(
                    "the projection of '{path}' is not supported: positional operators need an update of arrays, expressions are in aggregate"
                );
                return Err(QueryError::not_supported(message));
            }
            let node = match value {
                Bson::Document(inside) => self.inside(inside, &path, depth)?,
                Bson::String(_) | Bson::Array(_) => {
                    let message = format!(
                        "the value of '{path}' is an expression, which is not supported in a projection of find; use aggregate"
                    );
                    return Err(QueryError::not_supported(message));
                }
                value => {
                    let is_included = is_true(Some(value));
                    if path == "_id" {
                        self.id = Some(is_included);
                        continue;
                    }
                    self.note(is_included, &path)?;
                    Node::Leaf
                }
            };
            put(into, name, node, &path)?;
        }
        Ok(())
    }

    /// Reads the value of a field that is a document: an operator, or the fields below it.
    fn inside(&mut self, inside: &Document, path: &str, depth: usize) -> Result<Node> {
        Ok(match inside.keys().next().map(String::as_str) {
            Some("$slice") => slice(inside.get("$slice"), path)?,
            Some("$elemMatch") => match inside.get("$elemMatch") {
                Some(Bson::Document(filter)) => {
                    self.note(true, path)?;
                    Node::Element(Filter::parse(filter)?)
                }
                _ => {
                    return Err(QueryError::bad_value(
                        "elemMatch: Invalid argument, object required",
                    ));
                }
            },
            Some(operator) if operator.starts_with('$') => {
                let message = format!(
                    "the operator {operator} of '{path}' is not supported in a projection of find; use aggregate"
                );
                return Err(QueryError::not_supported(message));
            }
            None => {
                let message =
                    "An empty sub-projection is not a valid value. Found empty object at path";
                return Err(QueryError::located(51270, message));
            }
            Some(_) => {
                let mut fields = Fields::new();
                self.read(inside, path, depth + 1, &mut fields)?;
                Node::Inside(fields)
            }
        })
    }

    /// Notes that a field is included or excluded.
    fn note(&mut self, is_included: bool, path: &str) -> Result<()> {
        match self.includes.replace(is_included) {
            Some(before) if before != is_included => Err(match is_included {
                true => QueryError::located(
                    31253,
                    format!("Cannot do inclusion on field {path} in exclusion projection"),
                ),
                false => QueryError::located(
                    31254,
                    format!("Cannot do exclusion on field {path} in inclusion projection"),
                ),
            }),
            _ => Ok(()),
        }
    }
}

/// Puts a node at a dotted name.
fn put(into: &mut Fields, name: &str, node: Node, path: &str) -> Result<()> {
    let collision = || QueryError::located(31249, format!("Path collision at {path}"));
    let Some((first, below)) = name.split_once('.') else {
        return match into.insert(name.to_owned(), node) {
            None => Ok(()),
            Some(_) => Err(collision()),
        };
    };
    let inside = into
        .entry(first.to_owned())
        .or_insert_with(|| Node::Inside(Fields::new()));
    match inside {
        Node::Inside(fields) => put(fields, below, node, path),
        _ => Err(collision()),
    }
}

fn slice(value: Option<&Bson>, path: &str) -> Result<Node> {
    let integer = |value: &Bson| BsonNumber::of(value).and_then(|number| number.to_integer());
    let wrong = || {
        let message = format!(
            "$slice of '{path}' needs a number, or an array of a number to skip and a positive one to take"
        );
        QueryError::located(28667, message)
    };
    match value {
        Some(Bson::Array(pair)) => {
            let [skip, take] = pair.as_slice() else {
                return Err(wrong());
            };
            let skip = integer(skip).ok_or_else(wrong)?;
            let take = integer(take).and_then(|take| usize::try_from(take).ok());
            let take = take.filter(|take| *take > 0).ok_or_else(wrong)?;
            let take = Some(take);
            Ok(Node::Slice { skip, take })
        }
        Some(value) => {
            let count = integer(value).ok_or_else(wrong)?;
            Ok(match usize::try_from(count) {
                Ok(take) => Node::Slice {
                    skip: 0,
                    take: Some(take),
                },
                Err(_) => Node::Slice {
                    skip: count,
                    take: None,
                },
            })
        }
        None => Err(wrong()),
    }
}

fn sliced(value: &Bson, skip: i64, take: Option<usize>) -> Bson {
    let Bson::Array(items) = value else {
        return value.clone();
    };
    let far = usize::try_from(skip.unsigned_abs()).unwrap_or(usize::MAX);
    let begin = match skip < 0 {
        true => items.len().saturating_sub(far),
        false => far.min(items.len()),
    };
    let taken = items[begin..].iter().take(take.unwrap_or(usize::MAX));
    Bson::Array(taken.cloned().collect())
}

fn first_match(value: &Bson, filter: &Filter) -> Option<Bson> {
    let items = value.as_array()?;
    let matches = |item: &&Bson| {
        item.as_document()
            .is_some_and(|inside| filter.matches(inside))
    };
    let found = items.iter().find(matches)?;
    Some(Bson::Array(vec![found.clone()]))
}

fn included(document: &Document, fields: &Fields) -> Document {
    let mut kept = Document::new();
    for (name, value) in document {
        let value = match fields.get(name) {
            None => continue,
            Some(Node::Leaf) => value.clone(),
            Some(Node::Slice { skip, take }) => sliced(value, *skip, *take),
            Some(Node::Element(filter)) => match first_match(value, filter) {
                Some(found) => found,
                None => continue,
            },
            Some(Node::Inside(below)) => match included_value(value, below) {
                Some(inside) => inside,
                None => continue,
            },
        };
        kept.insert(name, value);
    }
    kept
}

/// Returns the included part of a value; `None` of one that has no fields.
fn included_value(value: &Bson, fields: &Fields) -> Option<Bson> {
    match value {
        Bson::Document(inside) => Some(included(inside, fields).into()),
        Bson::Array(items) => {
            let items = items.iter().filter_map(|item| included_value(item, fields));
            Some(Bson::Array(items.collect()))
        }
        _ => None,
    }
}

fn excluded(document: &Document, fields: &Fields) -> Document {
    let mut kept = Document::new();
    for (name, value) in document {
        let value = match fields.get(name) {
            None => value.clone(),
            Some(Node::Leaf) => continue,
            Some(Node::Slice { skip, take }) => sliced(value, *skip, *take),
            Some(Node::Element(_)) => unreachable!("BUG: it includes"),
            Some(Node::Inside(below)) => excluded_value(value, below),
        };
        kept.insert(name, value);
    }
    kept
}

fn excluded_value(value: &Bson, fields: &Fields) -> Bson {
    match value {
        Bson::Document(inside) => excluded(inside, fields).into(),
        Bson::Array(items) => {
            let items = items.iter().map(|item| excluded_value(item, fields));
            Bson::Array(items.collect())
        }
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests;
