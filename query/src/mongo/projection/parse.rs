//! Reads projections.
//!
//! # Invariants
//! * No two parts of a projection speak of the same field, nor one of a field inside another's.

use bson::{Bson, Document};

use super::{AddedElement, ArraySlice, DEPTH_MAX, ProjectedFields, Projection, ProjectionNode};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::filter::ElementFilter;
use crate::mongo::path::check_field_path;
use crate::mongo::value::{BsonNumber, is_true};

/// Reads the parts of one projection.
#[derive(Debug, Default)]
pub(super) struct ProjectionReader {
    fields: ProjectedFields,
    added: Vec<AddedElement>,
    /// True if fields other than `_id` are included; `None` before the first.
    includes: Option<bool>,
    /// True if all of `_id` is included.
    id: Option<bool>,
    has_slice: bool,
    has_element: bool,
}

impl ProjectionReader {
    pub(super) fn read(mut self, projection: &Document) -> Result<Projection> {
        self.document(projection, &[], 1)?;
        // Without a word about other fields, `$slice`, `$elemMatch` and `_id` decide, in this
        // order.
        let includes = self.includes.unwrap_or(match self.id {
            Some(true) => true,
            _ => self.has_element && !self.has_slice,
        });
        if !self.fields.contains_key("_id") {
            match (includes, self.id) {
                (true, None | Some(true)) | (false, Some(false)) => {
                    self.fields.insert("_id".to_owned(), ProjectionNode::Leaf);
                }
                (true, Some(false)) | (false, None | Some(true)) => {}
            }
        }
        Ok(Projection {
            includes,
            fields: self.fields,
            added: self.added,
        })
    }

    fn document(&mut self, part: &Document, above: &[String], depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            let message = format!("the projection is nested more than {DEPTH_MAX} levels deep");
            return Err(QueryError::bad_value(message));
        }
        for (name, value) in part {
            let mut names = above.to_vec();
            names.extend(checked_names(name)?);
            if names.len() > DEPTH_MAX {
                let message = format!("a path of the projection has more than {DEPTH_MAX} names");
                return Err(QueryError::bad_value(message));
            }
            match value {
                Bson::Document(inside) => self.inside(inside, &names, depth)?,
                Bson::Boolean(_)
                | Bson::Int32(_)
                | Bson::Int64(_)
                | Bson::Double(_)
                | Bson::Decimal128(_) => self.flag(&names, is_true(Some(value)))?,
                _ => return Err(expression(&names)),
            }
        }
        Ok(())
    }

    /// Reads a field that is included or excluded.
    fn flag(&mut self, names: &[String], is_included: bool) -> Result<()> {
        if names == ["_id"] {
            self.id = Some(is_included);
            return Ok(());
        }
        self.put(names, ProjectionNode::Leaf)?;
        let path = names.join(".");
        match self.includes.replace(is_included) {
            Some(false) if is_included => Err(QueryError::located(
                31253,
                format!("'{path}' cannot be included where other fields are excluded"),
            )),
            Some(true) if !is_included => Err(QueryError::located(
                31254,
                format!("'{path}' cannot be excluded where other fields are included"),
            )),
            _ => Ok(()),
        }
    }

    /// Reads the value of a field that is a document: an operator, or the fields below it.
    fn inside(&mut self, inside: &Document, names: &[String], depth: usize) -> Result<()> {
        let Some((operator, operand)) = inside.iter().next() else {
            let message = format!(
                "the projection of '{}' is an empty document",
                names.join(".")
            );
            return Err(QueryError::located(51270, message));
        };
        match operator.as_str() {
            operator if !operator.starts_with('$') || inside.len() > 1 => {
                self.document(inside, names, depth + 1)
            }
            "$slice" => {
                let slice = slice(operand, &names.join("."))?;
                self.has_slice = true;
                self.put(names, ProjectionNode::Slice(slice))
            }
            "$elemMatch" => self.element(names, operand),
            _ => Err(expression(names)),
        }
    }

    fn element(&mut self, names: &[String], operand: &Bson) -> Result<()> {
        let [name] = names else {
            let message = format!(
                "$elemMatch takes a field of the document itself, and not '{}'",
                names.join(".")
            );
            return Err(QueryError::located(31275, message));
        };
        if !matches!(operand, Bson::Document(_)) {
            let message = format!("$elemMatch of '{name}' needs a document");
            return Err(QueryError::located(31274, message));
        }
        let (name, filter) = (name.clone(), ElementFilter::parse(operand)?);
        self.has_element = true;
        self.put(names, ProjectionNode::Added)?;
        self.added.push(AddedElement { name, filter });
        Ok(())
    }

    /// Puts the part of one field into the tree.
    fn put(&mut self, names: &[String], node: ProjectionNode) -> Result<()> {
        let (last, parents) = names.split_last().expect("BUG: a path has a name");
        let path = || names.join(".");
        let mut fields = &mut self.fields;
        for name in parents {
            let inside = fields
                .entry(name.clone())
                .or_insert_with(|| ProjectionNode::Inside(ProjectedFields::new()));
            let ProjectionNode::Inside(below) = inside else {
                let message = format!("the projection has a field and '{}' within it", path());
                return Err(QueryError::located(31249, message));
            };
            fields = below;
        }
        match fields.insert(last.clone(), node) {
            None => Ok(()),
            Some(_) => {
                let message = format!("the projection has '{}' twice, or fields within it", path());
                Err(QueryError::located(31250, message))
            }
        }
    }
}

/// Returns the error of a value that is computed.
fn expression(names: &[String]) -> QueryError {
    let path = names.join(".");
    let message = format!("the projection of '{path}' is an expression, which find does not take");
    QueryError::not_supported(message)
}

/// Splits the path of a field, and refuses one that no field can have.
fn checked_names(path: &str) -> Result<Vec<String>> {
    let names: Vec<String> = path.split('.').map(str::to_owned).collect();
    if names.iter().any(|name| name == "$") {
        let message = format!(
            "the positional operator of '{path}' is not supported; use $elemMatch or $slice"
        );
        return Err(QueryError::not_supported(message));
    }
    check_field_path(path)?;
    Ok(names)
}

fn slice(operand: &Bson, path: &str) -> Result<ArraySlice> {
    let wrong = |code: i32| {
        let message = format!(
            "$slice of '{path}' needs a number, or an array of a number to skip and a positive one to take"
        );
        QueryError::located(code, message)
    };
    let number = |value: &Bson| BsonNumber::of(value).map(|number| integer(&number));
    let Bson::Array(pair) = operand else {
        let count = number(operand).ok_or_else(|| wrong(31273))?;
        let (skip, take) = match usize::try_from(count) {
            Ok(take) => (0, take),
            // A negative number takes the last elements.
            Err(_) => (count, usize::MAX),
        };
        return Ok(ArraySlice { skip, take });
    };
    let [skip, take] = pair.as_slice() else {
        return Err(wrong(31272));
    };
    let skip = number(skip).ok_or_else(|| wrong(31257))?;
    let take = number(take).ok_or_else(|| wrong(31258))?;
    match usize::try_from(take) {
        Ok(take) if take > 0 => Ok(ArraySlice { skip, take }),
        _ => Err(wrong(31259)),
    }
}

/// Returns a number as an integer of 32 bits: its fraction is cut, and it ends at their bounds.
fn integer(number: &BsonNumber) -> i32 {
    // A cast from a double does both.
    number.to_double() as i32
}
