//! One document as a flat list of dotted names and values.
//!
//! The list and its texts are kept in two buffers that serve document after document, so that a
//! document of scalars allocates nothing. Only values that go into `_rest` anyway (arrays, empty
//! objects, integers beyond 64 bits) are built as BSON.

use std::ops::Range;

use bson::{Bson, DateTime};

use crate::bad::Bad;

/// The longest dotted name, in bytes. Without a limit one document of many nested fields under a
/// long name would grow with the square of its length.
pub(crate) const NAME_BYTES_MAX: usize = 1024;
/// The most levels of objects and arrays in one another, as in MongoDB. The document's own object
/// is the first.
pub(crate) const DEPTH_MAX: usize = 100;
/// The most bytes that the dotted names and the texts of one document may take: four times the
/// longest line. Many short fields under a long name take a multiple of the document's own bytes.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// A value of one field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// Text, as a place in the row's buffer.
    Text(Range<usize>),
    /// A date of whole milliseconds, in microseconds since 1970.
    Time(i64),
    /// A value that no column holds.
    Other(Bson),
}

/// One field: its dotted name, as a place in the row's buffer, and its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: Range<usize>,
    pub(crate) value: Value,
    /// Places in the name where objects begin: `{"a.b":1}` and `{"a":{"b":1}}` are two fields.
    pub(crate) path: u64,
}

/// The fields of one document, in its order; a name may occur more than once.
#[derive(Debug, Default)]
pub(crate) struct DocumentRow {
    text: String,
    pub(crate) fields: Vec<Field>,
    /// The event's time, microseconds since 1970, where its format has a place for it. Otherwise a
    /// field has it.
    pub(crate) time_us: Option<i64>,
    /// Its values have types: a number or a text is no date, though it may hold one.
    pub(crate) is_typed: bool,
    /// The dotted name of the object or field that is being read.
    path: String,
    /// See [`Field::path`].
    cuts: u64,
}

/// A path of a row, to return to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathMark {
    bytes: usize,
    cuts: u64,
}

impl DocumentRow {
    /// Begins another document.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.fields.clear();
        self.time_us = None;
        self.is_typed = false;
        self.path.clear();
        self.cuts = 0;
    }

    /// Returns the text at a place.
    #[inline]
    pub(crate) fn str(&self, place: &Range<usize>) -> &str {
        &self.text[place.clone()]
    }

    /// Returns the last field before this one that has its name.
    pub(crate) fn earlier(&self, rank: usize) -> Option<usize> {
        let name = self.str(&self.fields[rank].name);
        let same = |field: &Field| self.str(&field.name) == name;
        self.fields[..rank].iter().rposition(same)
    }

    /// Appends a field of text that the document does not have.
    pub(crate) fn push_text(&mut self, name: &str, value: &str) {
        let value = Value::Text(self.store(value));
        self.push_value(name, value);
    }

    /// Appends a field that the document does not have.
    pub(crate) fn push_value(&mut self, name: &str, value: Value) {
        let name = self.store(name);
        let path = 0;
        self.fields.push(Field { name, value, path });
    }

    /// Keeps a text and returns its place.
    #[inline]
    pub(crate) fn store(&mut self, text: &str) -> Range<usize> {
        let begin = self.text.len();
        self.text.push_str(text);
        begin..self.text.len()
    }

    /// Appends the field whose name is the path.
    #[inline]
    pub(crate) fn push(&mut self, value: Value) -> Result<(), Bad> {
        let begin = self.text.len();
        self.text.push_str(&self.path);
        self.fields.push(Field {
            name: begin..self.text.len(),
            value,
            path: self.cuts,
        });
        if self.text.len() > TEXT_BYTES_MAX {
            let mib = TEXT_BYTES_MAX >> 20;
            let message = format!("its dotted names and texts take more than {mib} MiB");
            return Err(Bad::because("too_large", 0, message));
        }
        Ok(())
    }

    /// Returns the path as it is, for [`DocumentRow::return_to`].
    #[inline]
    pub(crate) fn mark(&self) -> PathMark {
        PathMark {
            bytes: self.path.len(),
            cuts: self.cuts,
        }
    }

    /// Appends the key of a field to the path; `is_nested` is false for fields of the document's
    /// own object.
    #[inline]
    pub(crate) fn enter(&mut self, key: &str, is_nested: bool) -> Result<(), Bad> {
        check_key(key)?;
        if self.path.len() + key.len() + 1 > NAME_BYTES_MAX {
            let message = format!("a field's dotted name is longer than {NAME_BYTES_MAX} bytes");
            return Err(Bad::because("name_too_long", 0, message));
        }
        if is_nested {
            self.path.push('.');
        }
        let begin = self.path.len() as u64;
        self.cuts = self
            .cuts
            .wrapping_mul(2 * NAME_BYTES_MAX as u64)
            .wrapping_add(begin);
        self.path.push_str(key);
        Ok(())
    }

    /// Returns to a path from one below it.
    #[inline]
    pub(crate) fn return_to(&mut self, mark: PathMark) {
        self.path.truncate(mark.bytes);
        self.cuts = mark.cuts;
    }

    /// Returns a value as BSON.
    pub(crate) fn to_bson(&self, value: &Value) -> Bson {
        match value {
            Value::Null => Bson::Null,
            Value::Bool(value) => Bson::Boolean(*value),
            Value::Int(number) => Bson::Int64(*number),
            Value::Float(number) => Bson::Double(*number),
            Value::Text(place) => Bson::String(self.str(place).to_owned()),
            Value::Time(us) => DateTime::from_millis(us.div_euclid(1000)).into(),
            Value::Other(value) => value.clone(),
        }
    }
}

/// Checks a field's own name. BSON, and with it `_rest` and every MongoDB client, ends a name at a
/// NUL.
#[inline]
pub(crate) fn check_key(key: &str) -> Result<(), Bad> {
    match key.contains('\0') {
        true => Err(Bad::because(
            "bad_name",
            0,
            "a field name holds a NUL character",
        )),
        false => Ok(()),
    }
}
