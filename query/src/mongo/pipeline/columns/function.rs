//! Functions of one column.

use std::borrow::Cow;

use bson::raw::{RawBsonRef, cstr};
use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;

use crate::mongo::encoding::{owned, put_element};
use crate::mongo::error::Result;
use crate::mongo::expression::{Evaluated, ExpressionContext, ShapeFunction};
use crate::mongo::size::weigh;

/// Maximum bytes of the results that all functions of a group remember, about.
pub(super) const REMEMBERED_BYTES_MAX: usize = 4 << 20;
/// The bytes of a remembered result beside it and its value.
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
    bytes_max: usize,
}

impl<'a> ColumnFunction<'a> {
    /// Creates the function of a column, which remembers so many bytes.
    pub(super) fn new(function: ShapeFunction<'a>, column: usize, bytes_max: usize) -> Self {
        Self {
            column,
            function,
            results: HashMap::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// Returns the result for a value. `key` is a buffer.
    ///
    /// # Errors
    /// As those of [`ShapeFunction::evaluate`].
    pub(super) fn result(
        &mut self,
        value: Option<RawBsonRef<'_>>,
        key: &mut Vec<u8>,
        context: &ExpressionContext,
    ) -> Result<Cow<'_, Evaluated>> {
        key.clear();
        if let Some(value) = value {
            put_element(key, cstr!(""), value);
        }
        if self.bytes > self.bytes_max {
            self.results.clear();
            self.bytes = 0;
        }
        match self.results.entry_ref(key.as_slice()) {
            EntryRef::Occupied(known) => Ok(Cow::Borrowed(known.into_mut())),
            EntryRef::Vacant(place) => {
                let result = self.function.evaluate(value.map(owned), context)?;
                let result_bytes = result.as_ref().map(weigh).transpose()?.unwrap_or(0);
                let bytes = key.len() + result_bytes + ENTRY_BYTES;
                if bytes > self.bytes_max {
                    return Ok(Cow::Owned(result));
                }
                self.bytes += bytes;
                Ok(Cow::Borrowed(place.insert(result)))
            }
        }
    }

    #[cfg(test)]
    pub(super) fn remembered_bytes(&self) -> usize {
        self.bytes
    }
}
