//! One JSON object as a flat list of dotted names and values.
//!
//! The list and its texts are kept in two buffers that serve line after line, so that a line of
//! scalars allocates nothing. Only values that go into `_rest` anyway (arrays, empty objects,
//! integers beyond 64 bits) are built as BSON here.

use std::fmt;
use std::ops::Range;

use bson::{Bson, Decimal128, Document};
use serde::de::{DeserializeSeed, Deserializer as _, MapAccess, SeqAccess, Visitor};

use crate::parser::Bad;

/// The longest dotted name, in bytes. Without a limit one line of many nested fields under a long
/// name would grow with the square of its length.
pub(super) const NAME_BYTES_MAX: usize = 1024;

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
}

/// The fields of one object, in its order; a name may occur more than once.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) text: String,
    pub(super) fields: Vec<Field>,
    /// The dotted name of the object or field that is being read.
    path: String,
    /// How many numbers were read.
    numbers: usize,
    /// A float was read that may stand for an integer of more than 64 bits.
    wide: bool,
    /// Such integers, by the rank of the number in the line; only filled on a second pass.
    wide_integers: Vec<(usize, Bson)>,
    problem: Option<(&'static str, &'static str)>,
}

impl Row {
    /// Reads a line.
    pub(super) fn read(&mut self, line: &str) -> Result<(), Bad> {
        self.wide_integers.clear();
        self.read_once(line)?;
        if self.wide {
            self.wide_integers = find_wide_integers(line);
            if !self.wide_integers.is_empty() {
                self.read_once(line)?;
            }
        }
        Ok(())
    }

    fn read_once(&mut self, line: &str) -> Result<(), Bad> {
        self.text.clear();
        self.fields.clear();
        self.path.clear();
        self.numbers = 0;
        self.wide = false;
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

    fn explain(&self, line: &str, error: &serde_json::Error) -> Bad {
        let at = error.column().saturating_sub(1).min(line.len());
        if let Some((reason, message)) = self.problem {
            return Bad::because(reason, at, message);
        }
        let message = error.to_string();
        // The place is said once, as the column.
        let message = message.split(" at line ").next().unwrap_or_default();
        let reason = if message.starts_with("recursion limit") {
            "too_deep"
        } else {
            "bad_json"
        };
        Bad::because(reason, at, format!("not JSON: {message}"))
    }

    /// The text at a place.
    pub(super) fn str(&self, place: &Range<usize>) -> &str {
        &self.text[place.clone()]
    }

    /// Appends a field of text that was not in the line.
    pub(super) fn push_text(&mut self, name: &str, value: &str) {
        let name = self.store(name);
        let value = Value::Text(self.store(value));
        self.fields.push(Field { name, value });
    }

    fn store(&mut self, text: &str) -> Range<usize> {
        let begin = self.text.len();
        self.text.push_str(text);
        begin..self.text.len()
    }

    fn push(&mut self, value: Value) {
        let begin = self.text.len();
        self.text.push_str(&self.path);
        self.fields.push(Field {
            name: begin..self.text.len(),
            value,
        });
    }

    fn problem<E: serde::de::Error>(&mut self, reason: &'static str, message: &'static str) -> E {
        self.problem = Some((reason, message));
        E::custom(message)
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
            Err(_) => Value::Other(wide_integer(&number.to_string())),
        }
    }

    fn float(&mut self, number: f64) -> Value {
        let rank = self.numbers;
        self.numbers += 1;
        // The parser gives integers beyond 64 bits as floats, which would lose digits.
        if number.abs() >= 9.2e18 {
            self.wide = true;
            if let Some((_, integer)) = self.wide_integers.iter().find(|(r, _)| *r == rank) {
                return Value::Other(integer.clone());
            }
        }
        Value::Float(number)
    }
}

/// An integer of more than 64 bits: a decimal of up to 34 digits, else its text.
fn wide_integer(digits: &str) -> Bson {
    let significant = digits.trim_start_matches('-').trim_end_matches('0').len();
    match digits.parse::<Decimal128>() {
        Ok(decimal) if significant <= 34 => Bson::Decimal128(decimal),
        _ => Bson::String(digits.to_owned()),
    }
}

/// The integers of a line that do not fit 64 bits, by their rank among its numbers.
fn find_wide_integers(line: &str) -> Vec<(usize, Bson)> {
    let bytes = line.as_bytes();
    let (mut at, mut rank, mut found) = (0, 0, Vec::new());
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += 1 + usize::from(bytes[at] == b'\\');
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let begin = at;
                while at < bytes.len()
                    && matches!(bytes[at], b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')
                {
                    at += 1;
                }
                let number = &line[begin..at];
                if number.len() >= 19
                    && !number.contains(['.', 'e', 'E'])
                    && number.parse::<i64>().is_err()
                {
                    found.push((rank, wide_integer(number)));
                }
                rank += 1;
            }
            _ => at += 1,
        }
    }
    found
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
        let depth = row.path.len();
        let mut fields = 0;
        while map
            .next_key_seed(KeySeed {
                row: &mut *row,
                dot: self.nested,
            })?
            .is_some()
        {
            map.next_value_seed(FieldSeed(&mut *row))?;
            row.path.truncate(depth);
            fields += 1;
        }
        if fields == 0 && self.nested {
            row.push(Value::Other(Bson::Document(Document::new())));
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
                "a field's dotted name is longer than 1,024 bytes",
            ));
        }
        if self.dot {
            self.row.path.push('.');
        }
        self.row.path.push_str(key);
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

    fn visit_unit<E>(self) -> Result<(), E> {
        self.0.push(Value::Null);
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.0.push(Value::Bool(value));
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        let value = self.0.integer(value);
        self.0.push(value);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        let value = self.0.unsigned(value);
        self.0.push(value);
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        let value = self.0.float(value);
        self.0.push(value);
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        let value = Value::Text(self.0.store(value));
        self.0.push(value);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        let array = BsonSeed(&mut *self.0).visit_seq(seq)?;
        self.0.push(Value::Other(array));
        Ok(())
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
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(BsonSeed(&mut *self.0))? {
            items.push(item);
        }
        Ok(Bson::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Bson, A::Error> {
        let mut document = Document::new();
        while let Some(key) = map.next_key::<String>()? {
            self.0.check_key::<A::Error>(&key)?;
            document.insert(key, map.next_value_seed(BsonSeed(&mut *self.0))?);
        }
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
