//! `attr(_rest, 'a.b')`: a field of the overflow column, as text.
//!
//! The field may be stored under its dotted name or nested; the longest name that fits is taken.
//! Text comes as it is, numbers and truth values as written in JSON, times in RFC 3339, documents and
//! arrays as relaxed extended JSON. What is null or not there is null.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::datatypes::DataType;
use bson::{RawBsonRef, RawDocument};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use crate::stream::derive::over_arrays;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Attr {
    signature: Signature,
}

impl Attr {
    pub(crate) fn new() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Attr {
    fn name(&self) -> &str {
        "attr"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [
                DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::Null,
                name,
            ] if name.is_string() || name.is_null() => Ok(vec![DataType::Binary, DataType::Utf8]),
            _ => plan_err!("attr takes the overflow column and a name: attr(_rest, 'a.b')"),
        }
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }
    fn is_strict(&self) -> bool {
        true
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        over_arrays(args, |columns| Ok(attrs(&columns[0], &columns[1])))
    }
}

fn attrs(documents: &ArrayRef, names: &ArrayRef) -> ArrayRef {
    let (documents, names) = (documents.as_binary::<i32>(), names.as_string::<i32>());
    let mut found = StringViewBuilder::with_capacity(documents.len());
    for i in 0..documents.len() {
        if documents.is_null(i) || names.is_null(i) {
            found.append_null();
            continue;
        }
        // What is not a document has no fields.
        let document = RawDocument::from_bytes(documents.value(i)).ok();
        found.append_option(
            document
                .and_then(|d| lookup(d, names.value(i)))
                .and_then(|v| shown(&v)),
        );
    }
    Arc::new(found.finish())
}

/// The field of a dotted name.
pub(crate) fn lookup<'a>(document: &'a RawDocument, name: &str) -> Option<RawBsonRef<'a>> {
    if let Ok(Some(value)) = document.get(name) {
        return Some(value);
    }
    // From the longest head to the shortest, so that `a.b` as a name goes before `b` in `a`.
    name.rmatch_indices('.').find_map(|(at, _)| {
        let inner = document.get(&name[..at]).ok()??;
        match inner {
            RawBsonRef::Document(inner) => lookup(inner, &name[at + 1..]),
            RawBsonRef::Array(items) => {
                let (index, rest) = name[at + 1..]
                    .split_once('.')
                    .map_or((&name[at + 1..], None), |(i, r)| (i, Some(r)));
                let item = items.get(index.parse().ok()?).ok()??;
                match (rest, item) {
                    (None, item) => Some(item),
                    (Some(rest), RawBsonRef::Document(inner)) => lookup(inner, rest),
                    _ => None,
                }
            }
            _ => None,
        }
    })
}

fn shown(value: &RawBsonRef<'_>) -> Option<String> {
    Some(match value {
        RawBsonRef::Null | RawBsonRef::Undefined => return None,
        RawBsonRef::String(s) => (*s).to_owned(),
        RawBsonRef::Boolean(b) => b.to_string(),
        RawBsonRef::Int32(i) => i.to_string(),
        RawBsonRef::Int64(i) => i.to_string(),
        RawBsonRef::Double(d) => d.to_string(),
        RawBsonRef::ObjectId(id) => id.to_hex(),
        RawBsonRef::DateTime(t) => t.try_to_rfc3339_string().ok()?,
        RawBsonRef::Decimal128(d) => d.to_string(),
        other => {
            let owned: bson::Bson = (*other).try_into().ok()?;
            owned.into_relaxed_extjson().to_string()
        }
    })
}
