//! Objects of JSON, beside another parser.

use std::collections::BTreeMap;
use std::fmt;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use bson::{Bson, Document};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use storage::{ID, REST, TIME, TIME_SOURCE};

use super::received;
use crate::formats::Format;
use crate::options::ParseOptions;
use crate::parser::Parser;

/// Parses one line. It is an event exactly if another parser reads an object there, unless it is
/// refused for a limit; and the event has every value of that object.
pub fn json(bytes: &[u8]) {
    let options = ParseOptions {
        format: Format::Json,
        values: Some(false),
        ..received()
    };
    let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    let parsed = Parser::new(options)
        .parse(line)
        .expect("lines are never an error");
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = String::from_utf8_lossy(line);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let read = serde_json::from_str::<Tree>(text);
    match (parsed.quarantine.first(), &read) {
        (None, _) if parsed.events.num_rows() == 0 => assert!(line.is_empty()),
        (None, Ok(Tree::Object(fields))) => compare(fields, &parsed.events),
        (Some(bad), Ok(Tree::Object(_))) => {
            assert!(
                !["bad_json", "not_an_object"].contains(&bad.reason),
                "{bad:?}"
            );
        }
        (Some(bad), Ok(_)) => assert_ne!(bad.reason, "bad_json", "{bad:?}"),
        // A value that is skipped may be nested deeper than one that is read.
        (Some(bad), Err(_)) => {
            let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
            assert!(bad.reason != "not_an_object" || is_json, "{bad:?}");
        }
        (None, _) => panic!("an event of what is no object"),
    }
}

/// A value with all fields of its objects, also those of equal names.
enum Tree {
    Object(Vec<(String, Self)>),
    Array(Vec<Self>),
    Scalar(Value),
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Tree::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Tree::Object(fields))
    }
}

/// Compares an event with the object that it came from. Names that occur more than once, and those
/// of time and `_id`, follow rules of their own.
fn compare(fields: &[(String, Tree)], events: &RecordBatch) {
    let mut expected = BTreeMap::new();
    flatten("", fields, &mut expected);
    let rest = events.column_by_name(REST).map(|rest| {
        let bytes = rest.as_binary::<i32>().value(0);
        Document::from_reader(bytes).expect("a document")
    });
    for (name, values) in &expected {
        let is_own = [TIME, ID, "_id.$oid", TIME_SOURCE, REST].contains(&name.as_str());
        let ([value], false) = (&values[..], is_own) else {
            continue;
        };
        let column = events.column_by_name(name).filter(|c| c.is_valid(0));
        let found = rest.as_ref().and_then(|rest| rest.get(name));
        match (column, found) {
            _ if matches!(value, Tree::Scalar(Value::Null)) => {
                assert!(found.is_none() && column.is_none(), "{name}");
            }
            (Some(column), None) => assert!(is_in_column(value, column), "{name}: {column:?}"),
            (None, Some(bson)) => assert!(is_bson(value, bson), "{name}: {bson:?}"),
            both => panic!("{name}: {both:?}"),
        }
    }
}

fn flatten<'a>(
    path: &str,
    fields: &'a [(String, Tree)],
    into: &mut BTreeMap<String, Vec<&'a Tree>>,
) {
    for (key, value) in fields {
        let name = match path {
            "" => key.clone(),
            path => format!("{path}.{key}"),
        };
        match value {
            // The fields below an empty name are told apart from those of the top level by a dot,
            // which this path does not have.
            Tree::Object(inner) if !inner.is_empty() && !name.is_empty() => {
                flatten(&name, inner, into);
            }
            Tree::Object(inner) if !inner.is_empty() => {}
            value => into.entry(name).or_default().push(value),
        }
    }
}

fn is_in_column(value: &Tree, column: &dyn Array) -> bool {
    let Tree::Scalar(value) = value else {
        return false;
    };
    match (value, column.data_type()) {
        (Value::Bool(value), DataType::Boolean) => column.as_boolean().value(0) == *value,
        (Value::String(text), DataType::Utf8) => column.as_string::<i32>().value(0) == text,
        (Value::Number(number), DataType::Int64) => {
            number.as_i64() == Some(column.as_primitive::<Int64Type>().value(0))
        }
        (Value::Number(number), DataType::Float64) => {
            let float = column.as_primitive::<Float64Type>().value(0);
            number.is_f64() && number.as_f64().map(f64::to_bits) == Some(float.to_bits())
        }
        _ => false,
    }
}

fn is_bson(value: &Tree, bson: &Bson) -> bool {
    match (value, bson) {
        (Tree::Array(items), Bson::Array(found)) => {
            items.len() == found.len() && items.iter().zip(found).all(|(a, b)| is_bson(a, b))
        }
        // Of equal names the last one counts.
        (Tree::Object(fields), Bson::Document(found)) => {
            let last: BTreeMap<_, _> = fields.iter().map(|(key, value)| (key, value)).collect();
            let has = |(key, value): (&&String, &&Tree)| {
                found.get(key.as_str()).is_some_and(|b| is_bson(value, b))
            };
            last.len() == found.len() && last.iter().all(has)
        }
        (Tree::Scalar(Value::Null), Bson::Null) => true,
        (Tree::Scalar(Value::Bool(value)), Bson::Boolean(found)) => value == found,
        (Tree::Scalar(Value::String(value)), Bson::String(found)) => value == found,
        (Tree::Scalar(Value::Number(number)), Bson::Int64(found)) => {
            number.as_i64() == Some(*found)
        }
        (Tree::Scalar(Value::Number(number)), Bson::Double(found)) => {
            number.as_f64().map(f64::to_bits) == Some(found.to_bits())
        }
        // An integer beyond 64 bits, as a decimal or as its digits.
        (Tree::Scalar(Value::Number(number)), Bson::Decimal128(_) | Bson::String(_)) => {
            number.is_u64() || number.is_f64()
        }
        _ => false,
    }
}
