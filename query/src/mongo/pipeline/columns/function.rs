//! Functions of one column.

use std::collections::HashMap;

use bson::raw::{RawBsonRef, cstr};

use super::row::owned;
use crate::mongo::encoding::put_element;
use crate::mongo::error::Result;
use crate::mongo::expression::{Evaluated, ExpressionContext, ShapeFunction};
use crate::mongo::size::value_bytes;

/// Maximum bytes of the values whose results are remembered.
const REMEMBERED_BYTES_MAX: usize = 1 << 20;
/// The bytes of a remembered value beside its own and those of its result.
const ENTRY_BYTES: usize = 100;

/// A function that remembers its results: columns repeat values, above all dates of a day.
#[derive(Debug)]
pub(super) struct ColumnFunction<'a> {
    /// The index of the column.
    pub(super) column: usize,
    function: ShapeFunction<'a>,
    /// Results by the values in BSON, empty for a missing one.
    results: HashMap<Vec<u8>, Evaluated>,
    bytes: usize,
    /// The value that is looked for.
    key: Vec<u8>,
}

impl<'a> ColumnFunction<'a> {
    pub(super) fn new(function: ShapeFunction<'a>, column: usize) -> Self {
        Self {
            column,
            function,
            results: HashMap::new(),
            bytes: 0,
            key: Vec::new(),
        }
    }

    /// Returns the result for a value.
    ///
    /// # Errors
    /// As those of [`ShapeFunction::evaluate`].
    pub(super) fn result(
        &mut self,
        value: Option<RawBsonRef<'_>>,
        context: &ExpressionContext,
    ) -> Result<&Evaluated> {
        self.key.clear();
        if let Some(value) = value {
            put_element(&mut self.key, cstr!(""), value);
        }
        if !self.results.contains_key(&self.key) {
            let result = self.function.evaluate(value.map(owned), context)?;
            let result_bytes = result.as_ref().map_or(0, value_bytes);
            self.bytes += self.key.len() + result_bytes + ENTRY_BYTES;
            if self.bytes > REMEMBERED_BYTES_MAX {
                self.results.clear();
                self.bytes = self.key.len() + result_bytes + ENTRY_BYTES;
            }
            self.results.insert(self.key.clone(), result);
        }
        Ok(&self.results[&self.key])
    }
}
