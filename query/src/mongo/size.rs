//! Sizes of values: in their encoded form, and in memory.
//!
//! # Invariants
//! * The size of a document is the length that its encoding has, without encoding it.
//! * A value that [`weigh`] accepts has at most [`LEVELS_MAX`] levels, so that comparing, writing
//!   and dropping it need a bounded stack.

use bson::{Bson, Document};

use crate::mongo::error::{QueryError, Result};

/// Maximum bytes in BSON of a value that an aggregation makes.
pub(super) const VALUE_BYTES_MAX: usize = 16 << 20;
/// Maximum bytes of such a value in memory, where numbers need many times their bytes in BSON.
const VALUE_MEMORY_MAX: usize = 128 << 20;
/// Maximum levels of such a value.
const LEVELS_MAX: usize = 200;
/// The bytes of a field in memory beside its name and what its value points to.
const FIELD_MEMORY: usize = size_of::<String>() + size_of::<Bson>() + 3 * size_of::<usize>();

/// Returns the bytes of a document in BSON.
pub fn encoded_bytes(document: &Document) -> usize {
    let fields = document
        .iter()
        .map(|(name, value)| name.len() + 2 + value_bytes(value));
    // The length before the fields and the zero behind them.
    5 + fields.sum::<usize>()
}

/// Returns the bytes of a value in BSON, without its type and its name.
pub(super) fn value_bytes(value: &Bson) -> usize {
    match value {
        Bson::Null | Bson::Undefined | Bson::MinKey | Bson::MaxKey => 0,
        Bson::Boolean(_) => 1,
        Bson::Int32(_) => 4,
        Bson::Double(_) | Bson::Int64(_) | Bson::DateTime(_) | Bson::Timestamp(_) => 8,
        Bson::ObjectId(_) => 12,
        Bson::Decimal128(_) => 16,
        Bson::String(text) | Bson::Symbol(text) | Bson::JavaScriptCode(text) => text.len() + 5,
        Bson::Document(document) => encoded_bytes(document),
        Bson::Array(items) => {
            let bytes = items
                .iter()
                .enumerate()
                .map(|(index, item)| digits(index) + 2 + value_bytes(item));
            5 + bytes.sum::<usize>()
        }
        Bson::Binary(binary) => {
            // The old subtype repeats the length.
            let is_old = binary.subtype == bson::spec::BinarySubtype::BinaryOld;
            binary.bytes.len() + if is_old { 9 } else { 5 }
        }
        Bson::RegularExpression(regex) => {
            regex.pattern.as_str().len() + regex.options.as_str().len() + 2
        }
        Bson::JavaScriptCodeWithScope(code) => code.code.len() + 9 + encoded_bytes(&code.scope),
        // Nobody writes this old type any more, and its parts are not public.
        Bson::DbPointer(pointer) => format!("{pointer:?}").len(),
    }
}

/// Returns the bytes of a value in memory.
///
/// # Errors
/// 17419 if a value of an aggregation has too many bytes, 15 if it has too many levels.
pub(super) fn weigh(value: &Bson) -> Result<usize> {
    let memory = size_of::<Bson>() + memory_of(value, LEVELS_MAX)?;
    check_memory(memory)?;
    check_value_bytes(value_bytes(value))?;
    Ok(memory)
}

/// As [`weigh`], of a document.
///
/// # Errors
/// As those of [`weigh`].
pub(super) fn weigh_document(document: &Document) -> Result<usize> {
    let memory = size_of::<Document>() + memory_of_fields(document, LEVELS_MAX)?;
    check_memory(memory)?;
    check_value_bytes(encoded_bytes(document))?;
    Ok(memory)
}

/// Refuses a value of more bytes in BSON than [`VALUE_BYTES_MAX`].
///
/// # Errors
/// 17419.
pub(super) fn check_value_bytes(bytes: usize) -> Result<()> {
    if bytes <= VALUE_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "the pipeline makes a value of more than {VALUE_BYTES_MAX} bytes; \
         take fewer fields, or fewer documents into one"
    );
    Err(QueryError::located(17419, message))
}

/// Refuses a value of more bytes of memory than [`VALUE_MEMORY_MAX`].
///
/// # Errors
/// 17419.
pub(super) fn check_memory(bytes: usize) -> Result<()> {
    if bytes <= VALUE_MEMORY_MAX {
        return Ok(());
    }
    let message = format!(
        "the pipeline makes a value that needs more than {VALUE_MEMORY_MAX} bytes of memory; \
         make shorter arrays"
    );
    Err(QueryError::located(17419, message))
}

/// Returns the bytes of memory to which a value points.
fn memory_of(value: &Bson, levels: usize) -> Result<usize> {
    Ok(match value {
        Bson::String(text) | Bson::Symbol(text) | Bson::JavaScriptCode(text) => text.len(),
        Bson::Binary(binary) => binary.bytes.len(),
        Bson::RegularExpression(regex) => {
            regex.pattern.as_str().len() + regex.options.as_str().len()
        }
        Bson::Document(document) => memory_of_fields(document, levels)?,
        Bson::JavaScriptCodeWithScope(code) => {
            code.code.len() + memory_of_fields(&code.scope, levels)?
        }
        Bson::Array(items) => {
            let below = below(levels)?;
            let mut memory = items.len() * size_of::<Bson>();
            for item in items {
                memory += memory_of(item, below)?;
            }
            memory
        }
        _ => 0,
    })
}

fn memory_of_fields(document: &Document, levels: usize) -> Result<usize> {
    let below = below(levels)?;
    let mut memory = 0;
    for (name, value) in document {
        memory += FIELD_MEMORY + name.len() + memory_of(value, below)?;
    }
    Ok(memory)
}

fn below(levels: usize) -> Result<usize> {
    levels.checked_sub(1).ok_or_else(|| {
        let message = format!("the pipeline makes a value of more than {LEVELS_MAX} levels");
        QueryError::located(15, message)
    })
}

fn digits(index: usize) -> usize {
    index
        .checked_ilog10()
        .map_or(1, |digits| digits as usize + 1)
}

#[cfg(test)]
mod tests {
    use bson::doc;
    use bson::spec::BinarySubtype::Generic;

    use super::*;

    #[test]
    fn the_size_is_the_length_of_the_encoding() {
        let many: Vec<i32> = (0..123).collect();
        for document in [
            doc! {},
            doc! { "a": 1, "b": 2_i64, "c": 1.5, "d": "äx", "e": null, "f": true },
            doc! { "a": { "b": [1, "x", { "c": [] }] }, "many": many },
            doc! { "i": bson::oid::ObjectId::new(), "t": bson::DateTime::now() },
            doc! { "r": bson::Regex { pattern: cstr("a.b"), options: cstr("i") } },
            doc! { "x": bson::Binary { subtype: Generic, bytes: vec![1, 2] } },
        ] {
            let encoded = document.to_vec().unwrap();
            assert_eq!(encoded_bytes(&document), encoded.len(), "{document}");
        }
    }

    fn cstr(text: &str) -> bson::raw::CString {
        text.to_owned().try_into().unwrap()
    }
}
