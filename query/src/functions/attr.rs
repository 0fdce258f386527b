//! Functions over the overflow column:
//!
//! * `attr(_rest, 'a.b')`: a field as text. Text is returned as it is, numbers and booleans as
//!   written in JSON, times in RFC 3339, objects and arrays as JSON.
//! * `attr_json(_rest, 'a.b')`: the field as JSON, with every digit; `attr_json(_rest)`: all of
//!   it.
//! * `attr_type(_rest, 'a.b')`: its type: `null bool int64 float64 decimal text time binary array
//!   object`.
//! * `attr_fields(_rest)`: the dotted names of the present fields, arrays as a whole.
//! * `attr_names(_rest)`: the dotted names of all present values, down to elements of arrays
//!   (`a.0.b`), empty objects and empty arrays.
//!
//! The field may be stored under its dotted name or nested; the longest name that fits is taken.
//! A missing field is null. A null in an array is null too, and has the type `null`.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, ListBuilder, StringBuilder, StringViewBuilder,
};
use arrow::datatypes::{DataType, Field};
use bson::{RawBsonRef, RawDocument};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::functions::arrays::over_arrays;

/// Result that a function returns for a field or for the whole column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum AttrResult {
    Text,
    Json,
    Type,
    Fields,
    Names,
}

/// Returns the functions of this module.
pub(super) fn scalars() -> impl Iterator<Item = ScalarUDF> {
    let all = [
        AttrResult::Text,
        AttrResult::Json,
        AttrResult::Type,
        AttrResult::Fields,
        AttrResult::Names,
    ];
    all.into_iter().map(|result| {
        ScalarUDF::new_from_impl(Attr {
            result,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Attr {
    result: AttrResult,
    signature: Signature,
}

impl ScalarUDFImpl for Attr {
    fn name(&self) -> &str {
        match self.result {
            AttrResult::Text => "attr",
            AttrResult::Json => "attr_json",
            AttrResult::Type => "attr_type",
            AttrResult::Fields => "attr_fields",
            AttrResult::Names => "attr_names",
        }
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (one, two) = match self.result {
            AttrResult::Text | AttrResult::Type => (false, true),
            AttrResult::Json => (true, true),
            AttrResult::Fields | AttrResult::Names => (true, false),
        };
        match types {
            [rest, name] if two && is_bytes(rest) && (name.is_string() || name.is_null()) => {
                Ok(vec![DataType::Binary, DataType::Utf8])
            }
            [rest] if one && is_bytes(rest) => Ok(vec![DataType::Binary]),
            _ if two => {
                let function = self.name();
                plan_err!(
                    "{function} takes the overflow column and a name: {function}(_rest, 'a.b')"
                )
            }
            _ => {
                let function = self.name();
                plan_err!("{function} takes the overflow column: {function}(_rest)")
            }
        }
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.result {
            AttrResult::Fields | AttrResult::Names => {
                DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))
            }
            _ => DataType::Utf8View,
        })
    }
    fn is_strict(&self) -> bool {
        true
    }
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let answer: fn(RawBsonRef<'_>) -> Option<String> = match self.result {
            AttrResult::Text => text_of,
            AttrResult::Json => |value| Some(json_of(value)),
            AttrResult::Type => |value| Some(type_of(value).to_owned()),
            AttrResult::Fields | AttrResult::Names => {
                let deep = self.result == AttrResult::Names;
                return over_arrays(args, |columns| Ok(all_names(&columns[0], deep)));
            }
        };
        over_arrays(args, |columns| {
            Ok(answers(&columns[0], columns.get(1), answer))
        })
    }
}

fn is_bytes(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary, Null};
    matches!(data_type, Binary | LargeBinary | BinaryView | Null)
}

/// Returns the document of a row; `None` for null and for bytes that are no document.
fn document(documents: &BinaryArray, row: usize) -> Option<&RawDocument> {
    let bytes = documents.is_valid(row).then(|| documents.value(row))?;
    RawDocument::from_bytes(bytes).ok()
}

fn answers(
    documents: &ArrayRef,
    names: Option<&ArrayRef>,
    answer: fn(RawBsonRef<'_>) -> Option<String>,
) -> ArrayRef {
    let documents = documents.as_binary::<i32>();
    let names = names.map(|names| names.as_string::<i32>());
    let mut found = StringViewBuilder::with_capacity(documents.len());
    for row in 0..documents.len() {
        let value = document(documents, row).and_then(|document| match names {
            Some(names) if names.is_null(row) => None,
            Some(names) => lookup(document, names.value(row)),
            None => Some(RawBsonRef::Document(document)),
        });
        found.append_option(value.and_then(answer));
    }
    Arc::new(found.finish())
}

fn all_names(documents: &ArrayRef, deep: bool) -> ArrayRef {
    let documents = documents.as_binary::<i32>();
    let mut names = ListBuilder::new(StringBuilder::new());
    for row in 0..documents.len() {
        let document = document(documents, row);
        let mut add = |name: &str, _: RawBsonRef<'_>| names.values().append_value(name);
        match document {
            Some(document) if deep => each_leaf(RawBsonRef::Document(document), None, &mut add),
            Some(document) => {
                for (name, value) in document.iter().flatten() {
                    add(name.as_ref(), value);
                }
            }
            None => {}
        }
        names.append(document.is_some());
    }
    Arc::new(names.finish())
}

/// Calls `leaf` with the dotted name and the value of everything that has nothing below it.
pub(crate) fn each_leaf<'a>(
    value: RawBsonRef<'a>,
    name: Option<&str>,
    leaf: &mut dyn FnMut(&str, RawBsonRef<'a>),
) {
    let mut is_empty = true;
    let mut below = |key: &str, value| {
        is_empty = false;
        let name = name.map_or_else(|| key.to_owned(), |name| format!("{name}.{key}"));
        each_leaf(value, Some(&name), leaf);
    };
    match value {
        RawBsonRef::Document(fields) => {
            for (key, value) in fields.iter().flatten() {
                below(key.as_ref(), value);
            }
        }
        RawBsonRef::Array(items) => {
            for (nth, value) in items.into_iter().flatten().enumerate() {
                below(&nth.to_string(), value);
            }
        }
        _ => {}
    }
    if let (true, Some(name)) = (is_empty, name) {
        leaf(name, value);
    }
}

/// Returns the field of a dotted name.
pub(crate) fn lookup<'a>(document: &'a RawDocument, name: &str) -> Option<RawBsonRef<'a>> {
    if let Ok(Some(value)) = document.get(name) {
        return Some(value);
    }
    // Prefixes are tried from the longest to the shortest: a field named `a.b` takes precedence
    // over `b` in `a`.
    name.rmatch_indices('.')
        .find_map(|(at, _)| inside(document.get(&name[..at]).ok()??, &name[at + 1..]))
}

/// Returns the field or element of a dotted name below a value.
fn inside<'a>(value: RawBsonRef<'a>, name: &str) -> Option<RawBsonRef<'a>> {
    match value {
        RawBsonRef::Document(fields) => lookup(fields, name),
        RawBsonRef::Array(items) => {
            let (index, below) = match name.split_once('.') {
                Some((index, below)) => (index, Some(below)),
                None => (name, None),
            };
            let item = items.get(index.parse().ok()?).ok()??;
            below.map_or(Some(item), |below| inside(item, below))
        }
        _ => None,
    }
}

/// Returns the name of a value's type.
pub(crate) fn type_of(value: RawBsonRef<'_>) -> &'static str {
    match value {
        RawBsonRef::Null | RawBsonRef::Undefined => "null",
        RawBsonRef::Boolean(_) => "bool",
        RawBsonRef::Int32(_) | RawBsonRef::Int64(_) => "int64",
        RawBsonRef::Double(_) => "float64",
        RawBsonRef::Decimal128(_) => "decimal",
        RawBsonRef::String(_) => "text",
        RawBsonRef::DateTime(_) => "time",
        RawBsonRef::Binary(_) => "binary",
        RawBsonRef::Array(_) => "array",
        RawBsonRef::Document(_) => "object",
        _ => "other",
    }
}

fn text_of(value: RawBsonRef<'_>) -> Option<String> {
    Some(match value {
        RawBsonRef::Null | RawBsonRef::Undefined => return None,
        RawBsonRef::String(text) => text.to_owned(),
        RawBsonRef::Double(number) => number.to_string(),
        RawBsonRef::ObjectId(id) => id.to_hex(),
        RawBsonRef::DateTime(time) => time.try_to_rfc3339_string().ok()?,
        other => json_of(other),
    })
}

/// Returns a value as JSON, with every digit.
pub(crate) fn json_of(value: RawBsonRef<'_>) -> String {
    let mut out = String::new();
    write_json(value, &mut out);
    out
}

fn write_json(value: RawBsonRef<'_>, out: &mut String) {
    const FITS: &str = "BUG: a string takes whatever is written";
    match value {
        RawBsonRef::Null | RawBsonRef::Undefined => out.push_str("null"),
        RawBsonRef::Boolean(truth) => write!(out, "{truth}").expect(FITS),
        RawBsonRef::Int32(number) => write!(out, "{number}").expect(FITS),
        RawBsonRef::Int64(number) => write!(out, "{number}").expect(FITS),
        RawBsonRef::Double(number) => out.push_str(&serde_json::Value::from(number).to_string()),
        RawBsonRef::Decimal128(number) => out.push_str(&digits(&number.to_string())),
        RawBsonRef::String(text) => write_text(text, out),
        RawBsonRef::DateTime(time) => {
            write_text(&time.try_to_rfc3339_string().unwrap_or_default(), out);
        }
        RawBsonRef::Array(items) => {
            out.push('[');
            for (nth, item) in items.into_iter().flatten().enumerate() {
                out.push_str(if nth > 0 { "," } else { "" });
                write_json(item, out);
            }
            out.push(']');
        }
        RawBsonRef::Document(fields) => {
            out.push('{');
            for (nth, (name, value)) in fields.iter().flatten().enumerate() {
                out.push_str(if nth > 0 { "," } else { "" });
                write_text(name.as_ref(), out);
                out.push(':');
                write_json(value, out);
            }
            out.push('}');
        }
        other => {
            let owned: Result<bson::Bson, _> = other.try_into();
            let json = owned.map(|b| b.into_relaxed_extjson().to_string());
            out.push_str(&json.unwrap_or_else(|_| "null".to_owned()));
        }
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

/// Returns all digits of an integer. A decimal that ends in zeros is formatted with a power of
/// ten.
fn digits(decimal: &str) -> String {
    let Some((head, power)) = decimal.split_once("E+") else {
        return decimal.to_owned();
    };
    let (whole, fraction) = head.split_once('.').unwrap_or((head, ""));
    let zeros = power
        .parse::<usize>()
        .unwrap_or(0)
        .checked_sub(fraction.len());
    match zeros {
        Some(zeros) => format!("{whole}{fraction}{}", "0".repeat(zeros)),
        None => decimal.to_owned(),
    }
}

#[cfg(test)]
mod tests;
