//! Columns that are not stored because they can be computed: `_id` and `request`.
//!
//! `_id` is an ObjectId of 12 bytes: the store's prefix (6 bytes) and the sequence number (6
//! bytes, big endian), written as 24 hex digits. `request` is stored only if it cannot be rebuilt
//! from `method`, `path`, `query` and `protocol`.

use std::sync::Arc;

use arrow::array::{Array, StringViewArray, StringViewBuilder, UInt64Array};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::cast::{as_string_view_array, as_uint64_array};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use storage::object_id;

use crate::functions::arrays::over_arrays;

/// Hex digits of an ObjectId.
const ID_DIGITS: usize = 24;

/// Returns the sequence number in an ObjectId that [`object_id`] made with the same prefix.
pub(crate) fn seq_of(prefix: [u8; 6], id: &str) -> Option<u64> {
    if id.len() != ID_DIGITS || !id.is_ascii() {
        return None;
    }
    let seq = u64::from_str_radix(&id[12..], 16).ok()?;
    (object_id(prefix, seq) == *id.as_bytes()).then_some(seq)
}

/// SQL function: `_seq` → `_id`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ObjectIdOf {
    pub(crate) prefix: [u8; 6],
    signature: Signature,
}

impl ObjectIdOf {
    pub(crate) fn new(prefix: [u8; 6]) -> Self {
        Self {
            prefix,
            signature: Signature::exact(vec![DataType::UInt64], Volatility::Immutable),
        }
    }

    pub(crate) fn compute(&self, seqs: &UInt64Array) -> StringViewArray {
        let mut ids = StringViewBuilder::with_capacity(seqs.len());
        for seq in seqs {
            match seq {
                Some(seq) => {
                    let id = object_id(self.prefix, seq);
                    ids.append_value(std::str::from_utf8(&id).expect("BUG: hex digits are text"));
                }
                None => ids.append_null(),
            }
        }
        ids.finish()
    }
}

impl ScalarUDFImpl for ObjectIdOf {
    fn name(&self) -> &str {
        "object_id"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }
    fn is_strict(&self) -> bool {
        true
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        over_arrays(args, |columns| {
            Ok(Arc::new(self.compute(as_uint64_array(&columns[0])?)))
        })
    }
}

/// SQL function: `request`, `method`, `path`, `query`, `protocol` → the request line.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct RequestLine {
    signature: Signature,
}

impl RequestLine {
    pub(crate) fn new() -> Self {
        Self {
            signature: Signature::exact(vec![DataType::Utf8View; 5], Volatility::Immutable),
        }
    }
}

/// Rebuilds the request line of rows that do not store it and have a method.
pub(crate) fn request_lines(
    stored: &StringViewArray,
    method: &StringViewArray,
    path: &StringViewArray,
    query: &StringViewArray,
    protocol: &StringViewArray,
) -> StringViewArray {
    let mut lines = StringViewBuilder::with_capacity(stored.len());
    let mut line = String::new();
    for i in 0..stored.len() {
        if stored.is_valid(i) {
            lines.append_value(stored.value(i));
        } else if method.is_valid(i) {
            line.clear();
            line.push_str(method.value(i));
            line.push(' ');
            if path.is_valid(i) {
                line.push_str(path.value(i));
            }
            if query.is_valid(i) {
                line.push('?');
                line.push_str(query.value(i));
            }
            if protocol.is_valid(i) {
                line.push(' ');
                line.push_str(protocol.value(i));
            }
            lines.append_value(&line);
        } else {
            lines.append_null();
        }
    }
    lines.finish()
}

impl ScalarUDFImpl for RequestLine {
    fn name(&self) -> &str {
        "request_line"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        over_arrays(args, |columns| {
            Ok(Arc::new(request_lines(
                as_string_view_array(&columns[0])?,
                as_string_view_array(&columns[1])?,
                as_string_view_array(&columns[2])?,
                as_string_view_array(&columns[3])?,
                as_string_view_array(&columns[4])?,
            )))
        })
    }
}
