//! One JSON object as a flat list of dotted names and values.
//!
//! Numbers are read exactly: where the JSON parser would lose a digit, a second pass over the line
//! puts the number in its place.
//!
//! The list and its texts are kept in two buffers that serve line after line, so that a line of
//! scalars allocates nothing. Only values that go into `_rest` anyway (arrays, empty objects,
//! integers beyond 64 bits) are built as BSON here.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use bson::{Bson, Document};
use serde::de::{DeserializeSeed, Deserializer as _, MapAccess, SeqAccess, Visitor};

use super::numbers;
use crate::parser::Bad;

/// The longest dotted name, in bytes. Without a limit one line of many nested fields under a long
/// name would grow with the square of its length.
pub(super) const NAME_BYTES_MAX: usize = 1024;

/// How deep objects and arrays may lie in one another, as in MongoDB. The line's own object is the
/// first level.
const DEPTH_MAX: usize = 100;
/// The most bytes that the dotted names and the texts of one line may take: four times the longest
/// line. Many short fields under a long name take a multiple of what stands in the line.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// A value of one field.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// A place in [`Row::text`].
    Text(Range<usize>),
    /// What no column holds.
    Other(Bson),
}

/// One field: its dotted name, as a place in [`Row::text`], and its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) name: Range<usize>,
    pub(super) value: Value,
    /// Tells where in its name objects begin: `{"a.b":1}` and `{"a":{"b":1}}` are two fields.
    pub(super) path: u64,
}

/// The fields of one object, in its order; a name may occur more than once.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) text: String,
    pub(super) fields: Vec<Field>,
    /// The dotted name of the object or field that is being read.
    path: String,
    /// See [`Field::path`].
    cuts: u64,
    depth: usize,
    /// How many numbers were read.
    numbers: usize,
    /// One of them was a float: its last digit may differ, or it stands for a larger integer.
    floats: bool,
    /// Numbers that the parser does not read exactly, by their rank in the line; only filled on a
    /// second pass.
    exact: Vec<(usize, Value)>,
    problem: Option<(&'static str, Cow<'static, str>)>,
}

impl Row {
    /// Reads a line.
    pub(super) fn read(&mut self, line: &str) -> Result<(), Bad> {
        self.exact.clear();
        self.read_once(line)?;
        if self.floats {
            self.exact = numbers::find_inexact(line);
            if !self.exact.is_empty() {
                self.read_once(line)?;
            }
        }
        Ok(())
    }

    fn read_once(&mut self, line: &str) -> Result<(), Bad> {
        self.text.clear();
        self.fields.clear();
        self.path.clear();
        (self.cuts, self.depth, self.numbers) = (0, 0, 0);
        self.floats = false;
        self.problem = None;
        let mut deserializer = serde_json::Deserializer::from_str(line);
        let result = deserializer.deserialize_any(ObjectVisitor {
            row: self,
            nested: false,
        });
        result
            .and_then(|()| deserializer.end())
            .map_err(|e| self.explain(line, &e))
    }

    fn explain(&mut self, line: &str, error: &serde_json::Error) -> Bad {
        let at = error.column().saturating_sub(1).min(line.len());
        if self.depth > DEPTH_MAX {
            let depth = numbers::depth(line);
            let message = format!("nested {depth} levels deep; at most {DEPTH_MAX} are taken");
            return Bad::because("too_deep", at, message);
        }
        if let Some((reason, message)) = self.problem.take() {
            return Bad::because(reason, at, message);
        }
        let message = error.to_string();
        // The place is said once, as the column.
        let message = message.split(" at line ").next().unwrap_or_default();
        Bad::because("bad_json", at, format!("not JSON: {message}"))
    }

    /// The text at a place.
    pub(super) fn str(&self, place: &Range<usize>) -> &str {
        &self.text[place.clone()]
    }

    /// The last field before this one that has its name.
    pub(super) fn earlier(&self, rank: usize) -> Option<usize> {
        let name = self.str(&self.fields[rank].name);
        let same = |field: &Field| self.str(&field.name) == name;
        self.fields[..rank].iter().rposition(same)
    }

    /// Appends a field of text that was not in the line.
    pub(super) fn push_text(&mut self, name: &str, value: &str) {
        let name = self.store(name);
        let value = Value::Text(self.store(value));
        let path = 0;
        self.fields.push(Field { name, value, path });
    }

    fn store(&mut self, text: &str) -> Range<usize> {
        let begin = self.text.len();
        self.text.push_str(text);
        begin..self.text.len()
    }

    fn push<E: serde::de::Error>(&mut self, value: Value) -> Result<(), E> {
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
            return Err(self.problem("too_large", message));
        }
        Ok(())
    }

    /// Goes one object or array deeper, never so deep that the stack would end first.
    fn enter<E: serde::de::Error>(&mut self) -> Result<(), E> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(E::custom("too deep"));
        }
        Ok(())
    }

    fn problem<E: serde::de::Error>(
        &mut self,
        reason: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> E {
        self.problem = Some((reason, message.into()));
        E::custom(reason)
    }

    fn check_key<E: serde::de::Error>(&mut self, key: &str) -> Result<(), E> {
        // BSON, and with it `_rest` and every MongoDB client, ends a name at a NUL.
        if key.contains('\0') {
            return Err(self.problem("bad_name", "a field name holds a NUL character"));
        }
        Ok(())
    }

    fn integer(&mut self, number: i64) -> Value {
        self.numbers += 1;
        Value::Int(number)
    }

    fn unsigned(&mut self, number: u64) -> Value {
        self.numbers += 1;
        match i64::try_from(number) {
            Ok(number) => Value::Int(number),
            Err(_) => Value::Other(numbers::wide_integer(&number.to_string())),
        }
    }

    fn float(&mut self, number: f64) -> Value {
        let rank = self.numbers;
        self.numbers += 1;
        self.floats = true;
        let exact = self.exact.iter().find(|(r, _)| *r == rank);
        exact.map_or(Value::Float(number), |(_, value)| value.clone())
    }
}

/// Reads an object whose name is the row's path; `nested` is false for the line's own object.
struct ObjectVisitor<'r> {
    row: &'r mut Row,
    nested: bool,
}

impl<'de> Visitor<'de> for ObjectVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let row = self.row;
        row.enter()?;
        let (path, cuts) = (row.path.len(), row.cuts);
        let mut fields = 0;
        while map
            .next_key_seed(KeySeed {
                row: &mut *row,
                dot: self.nested,
            })?
            .is_some()
        {
            map.next_value_seed(FieldSeed(&mut *row))?;
            row.path.truncate(path);
            row.cuts = cuts;
            fields += 1;
        }
        row.depth -= 1;
        if fields == 0 && self.nested {
            row.push(Value::Other(Bson::Document(Document::new())))?;
        }
        Ok(())
    }
}

/// Appends a key to the row's path.
struct KeySeed<'r> {
    row: &'r mut Row,
    dot: bool,
}

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = ();
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<(), E> {
        self.row.check_key(key)?;
        if self.row.path.len() + key.len() + 1 > NAME_BYTES_MAX {
            return Err(self.row.problem(
                "name_too_long",
                format!("a field's dotted name is longer than {NAME_BYTES_MAX} bytes"),
            ));
        }
        if self.dot {
            self.row.path.push('.');
        }
        let row = self.row;
        let begin = row.path.len() as u64;
        row.cuts = row
            .cuts
            .wrapping_mul(2 * NAME_BYTES_MAX as u64)
            .wrapping_add(begin);
        row.path.push_str(key);
        Ok(())
    }
}

/// Reads the value of the field whose name is the row's path.
struct FieldSeed<'r>(&'r mut Row);

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = ();
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FieldSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.0.push(Value::Null)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.0.push(Value::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        let value = self.0.integer(value);
        self.0.push(value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        let value = self.0.unsigned(value);
        self.0.push(value)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        let value = self.0.float(value);
        self.0.push(value)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        let value = Value::Text(self.0.store(value));
        self.0.push(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        let array = BsonSeed(&mut *self.0).visit_seq(seq)?;
        self.0.push(Value::Other(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        ObjectVisitor {
            row: self.0,
            nested: true,
        }
        .visit_map(map)
    }
}

/// Reads a value inside an array as BSON.
struct BsonSeed<'r>(&'r mut Row);

impl<'de> DeserializeSeed<'de> for BsonSeed<'_> {
    type Value = Bson;
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Bson, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for BsonSeed<'_> {
    type Value = Bson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Bson, E> {
        Ok(Bson::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Bson, E> {
        Ok(Bson::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Bson, E> {
        Ok(scalar(self.0.integer(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Bson, E> {
        Ok(scalar(self.0.unsigned(value)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Bson, E> {
        Ok(scalar(self.0.float(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Bson, E> {
        Ok(Bson::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Bson, A::Error> {
        self.0.enter()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(BsonSeed(&mut *self.0))? {
            items.push(item);
        }
        self.0.depth -= 1;
        Ok(Bson::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Bson, A::Error> {
        self.0.enter()?;
        let mut document = Document::new();
        while let Some(key) = map.next_key::<String>()? {
            self.0.check_key::<A::Error>(&key)?;
            document.insert(key, map.next_value_seed(BsonSeed(&mut *self.0))?);
        }
        self.0.depth -= 1;
        Ok(Bson::Document(document))
    }
}

/// A number as BSON.
fn scalar(value: Value) -> Bson {
    match value {
        Value::Int(number) => Bson::Int64(number),
        Value::Float(number) => Bson::Double(number),
        Value::Other(value) => value,
        Value::Null | Value::Bool(_) | Value::Text(_) => {
            unreachable!("BUG: only numbers come here")
        }
    }
}
