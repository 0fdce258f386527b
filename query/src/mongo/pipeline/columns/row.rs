//! The shapes of one row.

use std::borrow::Cow;

use bson::raw::{CStr, RawBsonRef};

use super::function::ColumnFunction;
use super::shapes::ColumnShape;
use super::{FieldPlace, FieldRows};
use crate::mongo::encoding::{begin_inside, end_document, owned, put_bson, put_element, scalar};
use crate::mongo::error::{QueryError, Result};
use crate::mongo::expression::Evaluated;
use crate::mongo::pipeline::PipelineContext;

/// The columns of some rows.
pub(super) struct BoundRows<'a, R> {
    pub(super) rows: &'a R,
    pub(super) places: Vec<FieldPlace>,
}

impl<'a, R: FieldRows> BoundRows<'a, R> {
    fn value(&self, column: usize, row: usize) -> Option<RawBsonRef<'a>> {
        match self.places[column] {
            FieldPlace::Nowhere => None,
            FieldPlace::At(place) => self.rows.value(place, row),
        }
    }
}

/// A row whose shapes are evaluated.
pub(super) struct ShapedRow<'r, 'a, R> {
    pub(super) rows: &'r BoundRows<'r, R>,
    pub(super) row: usize,
    pub(super) functions: &'r mut [ColumnFunction<'a>],
    /// A buffer of the functions.
    pub(super) key: &'r mut Vec<u8>,
    pub(super) context: &'r PipelineContext,
}

impl<R: FieldRows> ShapedRow<'_, '_, R> {
    fn result(&mut self, function: usize) -> Result<Cow<'_, Evaluated>> {
        let function = &mut self.functions[function];
        let value = self.rows.value(function.column, self.row);
        function.result(value, self.key, &self.context.expressions)
    }

    /// Appends a value as an element, nothing where it is missing. Returns false if equal values
    /// have other bytes.
    pub(super) fn put(
        &mut self,
        shape: &ColumnShape,
        name: &CStr,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        match shape {
            ColumnShape::Missing => {}
            ColumnShape::Constant(value) => put_bson(out, name, value).map_err(no_name)?,
            ColumnShape::Column(column) => {
                if let Some(value) = self.rows.value(*column, self.row) {
                    if !has_one_spelling(value) {
                        return Ok(false);
                    }
                    put_element(out, name, value);
                }
            }
            ColumnShape::Function(function) => {
                if let Some(value) = &*self.result(*function)? {
                    let Some(scalar) = scalar(value).filter(|value| has_one_spelling(*value))
                    else {
                        return Ok(false);
                    };
                    put_element(out, name, scalar);
                }
            }
            ColumnShape::Object(fields) => {
                let begin = begin_inside(out, name);
                for (name, shape) in fields {
                    if !self.put(shape, name, out)? {
                        return Ok(false);
                    }
                }
                end_document(out, begin);
            }
        }
        Ok(true)
    }

    pub(super) fn value(&mut self, shape: &ColumnShape) -> Result<Evaluated> {
        Ok(match shape {
            ColumnShape::Missing => None,
            ColumnShape::Constant(value) => Some(value.clone()),
            ColumnShape::Column(column) => self.rows.value(*column, self.row).map(owned),
            ColumnShape::Function(function) => self.result(*function)?.into_owned(),
            ColumnShape::Object(_) => unreachable!("BUG: no accumulator takes an object here"),
        })
    }
}

/// Returns whether no other bytes are an equal value of a column: doubles may be equal to integers,
/// and short integers have 32 bits.
fn has_one_spelling(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Null
        | RawBsonRef::Boolean(_)
        | RawBsonRef::Int32(_)
        | RawBsonRef::String(_)
        | RawBsonRef::DateTime(_) => true,
        RawBsonRef::Int64(number) => i32::try_from(number).is_err(),
        _ => false,
    }
}

pub(super) fn no_name(error: bson::error::Error) -> QueryError {
    QueryError::bad_value(format!("a value cannot be written: {error}"))
}
