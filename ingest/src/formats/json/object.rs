//! Reads the text of JSON objects into rows.
//!
//! Numbers are read exactly: where the JSON parser would lose a digit, a second pass over the line
//! puts the number in its place.

use std::fmt;

use bson::{Bson, Document};
use serde::de::{DeserializeSeed, Deserializer as _, MapAccess, SeqAccess, Visitor};

use super::numbers;
use crate::bad::Bad;
use crate::documents::{DEPTH_MAX, DocumentRow, Value, check_key};

/// Reads one object after the other.
#[derive(Debug, Default)]
pub(super) struct ObjectParser {
    row: DocumentRow,
    depth: usize,
    /// Numbers read so far.
    numbers: usize,
    /// One of them was a float: its last digit may differ, or it stands for a larger integer.
    has_floats: bool,
    /// Numbers that the parser does not read exactly, by their rank in the line; only filled for a
    /// second pass.
    exact: Vec<(usize, Value)>,
    /// The reason for which reading stopped, where it is none of the JSON parser's own.
    problem: Option<Bad>,
}

impl ObjectParser {
    /// Reads a line and returns its fields.
    pub(super) fn read(&mut self, line: &str) -> Result<&mut DocumentRow, Bad> {
        self.exact.clear();
        self.read_once(line)?;
        if self.has_floats {
            self.exact = numbers::find_inexact(line);
            if !self.exact.is_empty() {
                self.read_once(line)?;
            }
        }
        Ok(&mut self.row)
    }

    fn read_once(&mut self, line: &str) -> Result<(), Bad> {
        self.row.clear();
        (self.depth, self.numbers, self.has_floats) = (0, 0, false);
        self.problem = None;
        let mut deserializer = serde_json::Deserializer::from_str(line);
        let result = deserializer.deserialize_any(ObjectVisitor {
            parser: self,
            is_nested: false,
        });
        result
            .and_then(|()| deserializer.end())
            .map_err(|e| self.explain(line, &e))
    }

    fn explain(&mut self, line: &str, error: &serde_json::Error) -> Bad {
        let at = error.column().saturating_sub(1).min(line.len());
        if self.depth > DEPTH_MAX {
            let depth = numbers::depth(line);
            let message = format!("nested {depth} levels deep; the limit is {DEPTH_MAX}");
            return Bad::because("too_deep", at, message);
        }
        if let Some(problem) = self.problem.take() {
            return Bad { at, ..problem };
        }
        let message = error.to_string();
        // The message names the place, which the quarantine has as the column.
        let message = message.split(" at line ").next().unwrap_or_default();
        Bad::because("bad_json", at, format!("not JSON: {message}"))
    }

    /// Stops the JSON parser for a reason of ours.
    #[cold]
    fn stop<E: serde::de::Error>(&mut self, problem: Bad) -> E {
        let error = E::custom(problem.reason);
        self.problem = Some(problem);
        error
    }

    #[inline]
    fn push<E: serde::de::Error>(&mut self, value: Value) -> Result<(), E> {
        self.row.push(value).map_err(|bad| self.stop(bad))
    }

    /// Goes one object or array deeper, never so deep that the stack would end first.
    fn enter<E: serde::de::Error>(&mut self) -> Result<(), E> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(E::custom("too deep"));
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
        self.has_floats = true;
        let exact = self.exact.iter().find(|(r, _)| *r == rank);
        exact.map_or(Value::Float(number), |(_, value)| value.clone())
    }
}

/// Reads an object whose name is the row's path; `is_nested` is false for the line's own object.
struct ObjectVisitor<'r> {
    parser: &'r mut ObjectParser,
    is_nested: bool,
}

impl<'de> Visitor<'de> for ObjectVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let parser = self.parser;
        parser.enter()?;
        let path = parser.row.mark();
        let mut fields = 0;
        while map
            .next_key_seed(KeySeed {
                parser: &mut *parser,
                is_nested: self.is_nested,
            })?
            .is_some()
        {
            map.next_value_seed(FieldSeed(&mut *parser))?;
            parser.row.return_to(path);
            fields += 1;
        }
        parser.depth -= 1;
        if fields == 0 && self.is_nested {
            parser.push(Value::Other(Bson::Document(Document::new())))?;
        }
        Ok(())
    }
}

/// Appends a key to the row's path.
struct KeySeed<'r> {
    parser: &'r mut ObjectParser,
    is_nested: bool,
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

    #[inline]
    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<(), E> {
        let entered = self.parser.row.enter(key, self.is_nested);
        entered.map_err(|bad| self.parser.stop(bad))
    }
}

/// Reads the value of the field whose name is the row's path.
struct FieldSeed<'r>(&'r mut ObjectParser);

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
        let value = Value::Text(self.0.row.store(value));
        self.0.push(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        let array = BsonSeed(&mut *self.0).visit_seq(seq)?;
        self.0.push(Value::Other(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        ObjectVisitor {
            parser: self.0,
            is_nested: true,
        }
        .visit_map(map)
    }
}

/// Reads a value inside an array as BSON.
struct BsonSeed<'r>(&'r mut ObjectParser);

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
            check_key(&key).map_err(|bad| self.0.stop::<A::Error>(bad))?;
            document.insert(key, map.next_value_seed(BsonSeed(&mut *self.0))?);
        }
        self.0.depth -= 1;
        Ok(Bson::Document(document))
    }
}

/// Returns a number as BSON.
fn scalar(value: Value) -> Bson {
    match value {
        Value::Int(number) => Bson::Int64(number),
        Value::Float(number) => Bson::Double(number),
        Value::Other(value) => value,
        Value::Null | Value::Bool(_) | Value::Text(_) | Value::Time(_) => {
            unreachable!("BUG: only numbers come here")
        }
    }
}
