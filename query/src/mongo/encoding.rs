//! BSON that is written value by value, into one buffer for many documents.
//!
//! The types are those of columns; `bson` writes all others. The format is that of bsonspec.org: a
//! document is its length, its elements (type, name, zero, value) and a zero.

use bson::Bson;
use bson::raw::{CStr, RawBson, RawBsonRef, RawDocumentBuf};
use bson::spec::ElementType;

/// Begins a document, and returns the place of its length.
pub(super) fn begin_document(out: &mut Vec<u8>) -> usize {
    let begin = out.len();
    out.extend([0; 4]);
    begin
}

/// Ends the document that begins at a place.
pub(super) fn end_document(out: &mut Vec<u8>, begin: usize) {
    out.push(0);
    let length = u32::try_from(out.len() - begin).expect("BUG: documents have a bound");
    out[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
}

/// Begins a document that is the value of an element, and returns the place of its length.
pub(super) fn begin_inside(out: &mut Vec<u8>, name: &CStr) -> usize {
    put_name(out, ElementType::EmbeddedDocument, name);
    begin_document(out)
}

/// Appends an element.
pub(super) fn put_element(out: &mut Vec<u8>, name: &CStr, value: RawBsonRef<'_>) {
    let begin = out.len();
    put_name(out, value.element_type(), name);
    match value {
        RawBsonRef::Null => {}
        RawBsonRef::Boolean(truth) => out.push(u8::from(truth)),
        RawBsonRef::Int32(number) => out.extend(number.to_le_bytes()),
        RawBsonRef::Int64(number) => out.extend(number.to_le_bytes()),
        RawBsonRef::Double(number) => out.extend(number.to_le_bytes()),
        RawBsonRef::DateTime(time) => out.extend(time.timestamp_millis().to_le_bytes()),
        RawBsonRef::ObjectId(id) => out.extend(id.bytes()),
        RawBsonRef::String(text) => {
            let length = u32::try_from(text.len() + 1).expect("BUG: documents have a bound");
            out.extend(length.to_le_bytes());
            out.extend(text.as_bytes());
            out.push(0);
        }
        value => {
            out.truncate(begin);
            let mut document = RawDocumentBuf::new();
            document.append(name, value);
            let bytes = document.as_bytes();
            out.extend(&bytes[4..bytes.len() - 1]);
        }
    }
}

/// Appends an element of any type.
///
/// # Errors
/// If a name in it has a zero.
pub(super) fn put_bson(
    out: &mut Vec<u8>,
    name: &CStr,
    value: &Bson,
) -> Result<(), bson::error::Error> {
    match scalar(value) {
        Some(scalar) => put_element(out, name, scalar),
        None => {
            let raw = RawBson::try_from(value.clone())?;
            put_element(out, name, raw.as_raw_bson_ref());
        }
    }
    Ok(())
}

/// Returns a value of a type that columns have.
pub(super) fn scalar(value: &Bson) -> Option<RawBsonRef<'_>> {
    Some(match value {
        Bson::Null => RawBsonRef::Null,
        Bson::Boolean(truth) => RawBsonRef::Boolean(*truth),
        Bson::Int32(number) => RawBsonRef::Int32(*number),
        Bson::Int64(number) => RawBsonRef::Int64(*number),
        Bson::Double(number) => RawBsonRef::Double(*number),
        Bson::String(text) => RawBsonRef::String(text),
        Bson::DateTime(time) => RawBsonRef::DateTime(*time),
        _ => return None,
    })
}

/// Returns a value of a column.
pub(super) fn owned(value: RawBsonRef<'_>) -> Bson {
    Bson::try_from(value).expect("BUG: a column has no values that cannot be read")
}

fn put_name(out: &mut Vec<u8>, element: ElementType, name: &CStr) {
    out.push(element as u8);
    out.extend(name.as_str().as_bytes());
    out.push(0);
}

#[cfg(test)]
mod tests {
    use bson::oid::ObjectId;
    use bson::{Binary, DateTime, Decimal128, Document, Timestamp, doc};

    use super::*;

    #[test]
    fn documents_have_the_bytes_that_bson_gives_them() {
        let document = doc! {
            "": null,
            "b": true,
            "i": -5,
            "l": i64::MAX,
            "d": -0.0,
            "s": "a\0ö",
            "t": DateTime::from_millis(-1),
            "o": ObjectId::from_bytes([7; 12]),
            "n": Decimal128::from_bytes([3; 16]),
            "x": Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: vec![1, 2] },
            "c": Timestamp { time: 1, increment: 2 },
            "a": [1, { "b": "c" }],
            "in": { "side": { "n": 1.5 }, "none": {} },
            "min": Bson::MinKey,
        };
        let mut out = b"before".to_vec();
        put(&mut out, &document, None);
        assert_eq!(out[6..], document.to_vec().unwrap());
        let name: &CStr = "n".try_into().unwrap();
        let zero = doc! { "a\0": 1 };
        assert!(put_bson(&mut out, name, &Bson::Document(zero)).is_err());
    }

    fn put(out: &mut Vec<u8>, document: &Document, name: Option<&CStr>) {
        let begin = match name {
            Some(name) => begin_inside(out, name),
            None => begin_document(out),
        };
        for (name, value) in document {
            let name: &CStr = name.as_str().try_into().unwrap();
            match value {
                Bson::Document(inside) => put(out, inside, Some(name)),
                value => put_bson(out, name, value).unwrap(),
            }
        }
        end_document(out, begin);
    }
}
