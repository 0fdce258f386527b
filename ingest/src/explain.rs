//! The result of parsing a sample, for people: `logmill parse --explain`.

mod dialect;
mod display;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int16Type, Int64Type, TimestampMicrosecondType, UInt64Type};
use bson::{Bson, Document};
use serde::Serialize;
use serde_json::{Map, Value};
use storage::{ColumnType, REST, StreamKind};

use self::dialect::dialect;
use crate::detect::{Detection, detect};
use crate::error::Result;
use crate::formats::Format;
use crate::formats::access::rebuild_request;
use crate::options::ParseOptions;
use crate::parser::Parser;
use crate::stamp;

/// Bytes of a bad line that are shown around the place where reading stopped.
const SHOWN_BYTES: usize = 160;

/// One field of the events of a sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldExplained {
    /// Its dotted name.
    pub name: String,
    /// The type of its column, or of its first value in `_rest`.
    #[serde(rename = "type")]
    pub field_type: String,
    /// Events that have a value for it.
    pub values: u64,
    /// It has no column and stays in `_rest`.
    pub in_rest: bool,
}

/// The first line that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BadLine {
    /// The line, from 1.
    pub line: u64,
    /// The byte of the source at which the line begins, from 0.
    pub byte: u64,
    /// The byte of the line at which reading stopped, from 1.
    pub column: u64,
    /// The short code of the quarantine.
    pub reason: String,
    /// The text expected there and the text found.
    pub detail: String,
    /// The line, or the part of it around the column, with unprintable bytes escaped.
    pub text: String,
    /// The place in `text`, in characters from 0, that the caret points at.
    pub caret: usize,
}

/// The result of parsing a sample.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The source as the user named it.
    pub name: String,
    /// The format in use; `auto` when none fits.
    pub format: Format,
    /// The program or library that writes JSON so, when its fields tell.
    pub dialect: Option<&'static str>,
    /// The reason for this format.
    pub why: String,
    /// The formats that the first lines are in.
    pub detection: Detection,
    /// Lines in the sample.
    pub lines: u64,
    /// Lines that are events.
    pub events: u64,
    /// Lines that would be quarantined.
    pub quarantined: u64,
    /// Quarantined lines by reason, the most frequent first.
    pub reasons: Vec<(String, u64)>,
    /// Empty lines.
    pub empty: u64,
    /// The fields of the events.
    pub fields: Vec<FieldExplained>,
    /// The first event with its fields in order.
    pub first_event: Option<Map<String, Value>>,
    /// The first line that could not be read.
    pub first_bad: Option<BadLine>,
}

/// Explains a sample, which should end at a line end, of the source called `name`.
///
/// # Errors
/// As [`Parser::parse`].
pub fn explain(name: &str, sample: &[u8], options: ParseOptions) -> Result<Explanation> {
    let named = options.format.clone();
    let detection = detect(sample, options.multiline.as_ref());
    let mut parser = Parser::new(ParseOptions {
        ordered: false,
        ..options
    });
    let parsed = parser.parse(sample)?;
    let why = if named == Format::Auto {
        detection.why.clone()
    } else {
        match &detection.format {
            Some(format) if *format != named => format!(
                "the format was given; auto would choose {format}: {}",
                detection.why
            ),
            _ => "the format was given".to_owned(),
        }
    };
    let mut reasons: Vec<(String, u64)> = Vec::new();
    for item in &parsed.quarantine {
        match reasons.iter_mut().find(|(reason, _)| reason == item.reason) {
            Some((_, count)) => *count += 1,
            None => reasons.push((item.reason.to_owned(), 1)),
        }
    }
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let first_bad = parsed.quarantine.first().map(|item| {
        let column = parser.first_bad_column().unwrap_or(1);
        let (text, caret) = excerpt(&item.raw, column - 1);
        BadLine {
            line: item.line,
            byte: item.byte,
            column: column as u64,
            reason: item.reason.to_owned(),
            detail: item.detail.clone(),
            text,
            caret,
        }
    });
    let fields = fields(&parsed.events, parsed.kind);
    let events = parsed.events.num_rows() as u64;
    let is_json = parsed.format == Format::Json;
    Ok(Explanation {
        dialect: is_json.then(|| dialect(&fields, events)).flatten(),
        name: name.to_owned(),
        format: parsed.format,
        why,
        detection,
        lines: parsed.lines,
        events,
        quarantined: parsed.quarantine.len() as u64,
        reasons,
        empty: parsed.empty,
        fields,
        first_event: first_event(&parsed.events, parsed.kind),
        first_bad,
    })
}

/// Returns the part of a line around a byte, readable on a terminal, and the place of that byte in
/// it, in characters from 0.
pub fn excerpt(line: &[u8], at: usize) -> (String, usize) {
    let at = at.min(line.len());
    let from = if line.len() <= SHOWN_BYTES {
        0
    } else {
        at.saturating_sub(SHOWN_BYTES / 2)
    };
    let to = line.len().min(from + SHOWN_BYTES);
    let mut text = String::from(if from > 0 { "…" } else { "" });
    let readable = |bytes: &[u8]| -> String {
        String::from_utf8_lossy(bytes)
            .chars()
            .flat_map(|c| {
                let escaped: Box<dyn Iterator<Item = char>> = if c.is_control() {
                    Box::new(c.escape_default())
                } else {
                    Box::new(std::iter::once(c))
                };
                escaped
            })
            .collect()
    };
    text += &readable(&line[from..at]);
    let caret = text.chars().count();
    text += &readable(&line[at..to]);
    if to < line.len() {
        text.push('…');
    }
    (text, caret)
}

fn fields(events: &RecordBatch, kind: StreamKind) -> Vec<FieldExplained> {
    if events.num_rows() == 0 {
        return Vec::new();
    }
    let schema = events.schema();
    let mut fields: Vec<FieldExplained> = schema
        .fields()
        .iter()
        .zip(events.columns())
        .filter(|(field, _)| field.name() != REST)
        .map(|(field, array)| FieldExplained {
            name: field.name().clone(),
            field_type: ColumnType::of(field.data_type())
                .map_or_else(|| field.data_type().to_string(), type_name),
            values: (array.len() - array.null_count()) as u64,
            in_rest: false,
        })
        .collect();
    // The request is stored only where the method and the fields behind it do not make it.
    if kind == StreamKind::Access {
        let values = |name: &str| {
            fields
                .iter()
                .find(|f| f.name == name)
                .map_or(0, |f| f.values)
        };
        let methods = events
            .column_by_name("method")
            .zip(events.column_by_name("request"))
            .map_or(0, |(m, r)| {
                (0..events.num_rows())
                    .filter(|&row| m.is_valid(row) && r.is_null(row))
                    .count() as u64
            });
        let requests = values("request") + methods;
        fields
            .iter_mut()
            .filter(|f| f.name == "request")
            .for_each(|f| f.values = requests);
    }
    let columns = fields.len();
    for document in rest_documents(events) {
        for (name, value) in &document {
            match fields[columns..].iter_mut().find(|f| f.name == *name) {
                Some(field) => field.values += 1,
                None => fields.push(FieldExplained {
                    name: name.clone(),
                    field_type: bson_type_name(value).to_owned(),
                    values: 1,
                    in_rest: true,
                }),
            }
        }
    }
    fields
}

fn rest_documents(events: &RecordBatch) -> impl Iterator<Item = Document> {
    let rest = events
        .column_by_name(REST)
        .map(|rest| rest.as_binary::<i32>().clone());
    rest.into_iter().flat_map(|rest| {
        let documents: Vec<Document> = rest
            .iter()
            .flatten()
            .filter_map(|bytes| Document::from_reader(bytes).ok())
            .collect();
        documents
    })
}

fn type_name(column_type: ColumnType) -> String {
    match column_type {
        ColumnType::Bool => "bool",
        ColumnType::Int16 => "int16",
        ColumnType::Int64 => "int64",
        ColumnType::Float64 => "float64",
        ColumnType::Text => "text",
        ColumnType::Binary => "binary",
        ColumnType::Time => "time",
        ColumnType::Uint64 => "uint64",
        _ => "other",
    }
    .to_owned()
}

fn bson_type_name(value: &Bson) -> &'static str {
    match value {
        Bson::Null => "null",
        Bson::Boolean(_) => "bool",
        Bson::Int32(_) | Bson::Int64(_) => "int64",
        Bson::Double(_) => "float64",
        Bson::String(_) => "text",
        Bson::Array(_) => "array",
        Bson::Document(_) => "object",
        Bson::Decimal128(_) => "decimal",
        _ => "other",
    }
}

/// Returns the first event; the request of an access log is made again of its parts.
pub(crate) fn first_event(events: &RecordBatch, kind: StreamKind) -> Option<Map<String, Value>> {
    if events.num_rows() == 0 {
        return None;
    }
    let schema = events.schema();
    let mut event: Map<String, Value> = schema
        .fields()
        .iter()
        .zip(events.columns())
        .filter(|(field, _)| field.name() != REST)
        .map(|(field, array)| (field.name().clone(), first_value(array)))
        .collect();
    if kind == StreamKind::Access && event.get("request") == Some(&Value::Null) {
        let text = |name: &str| event.get(name).and_then(Value::as_str);
        if let Some(method) = text("method") {
            let request = rebuild_request(method, text("path"), text("query"), text("protocol"));
            event.insert("request".to_owned(), request.into());
        }
    }
    if kind == StreamKind::Documents {
        event.retain(|_, value| !value.is_null());
        let has_rest = events
            .column_by_name(REST)
            .is_some_and(|rest| rest.is_valid(0));
        if let Some(rest) = has_rest.then(|| rest_documents(events).next()).flatten() {
            event.insert(REST.to_owned(), to_json(&Bson::Document(rest)));
        }
    }
    Some(event)
}

fn first_value(array: &ArrayRef) -> Value {
    if array.is_null(0) {
        return Value::Null;
    }
    match ColumnType::of(array.data_type()) {
        Some(ColumnType::Bool) => array.as_boolean().value(0).into(),
        Some(ColumnType::Int16) => array.as_primitive::<Int16Type>().value(0).into(),
        Some(ColumnType::Int64) => array.as_primitive::<Int64Type>().value(0).into(),
        Some(ColumnType::Uint64) => array.as_primitive::<UInt64Type>().value(0).into(),
        Some(ColumnType::Float64) => array.as_primitive::<Float64Type>().value(0).into(),
        Some(ColumnType::Text) => array.as_string::<i32>().value(0).into(),
        Some(ColumnType::Time) => {
            stamp::write(array.as_primitive::<TimestampMicrosecondType>().value(0)).into()
        }
        _ => Value::Null,
    }
}

fn to_json(value: &Bson) -> Value {
    match value {
        Bson::Boolean(value) => (*value).into(),
        Bson::Int32(number) => (*number).into(),
        Bson::Int64(number) => (*number).into(),
        Bson::Double(number) => (*number).into(),
        Bson::String(text) => text.as_str().into(),
        Bson::Array(items) => items.iter().map(to_json).collect(),
        Bson::Document(document) => Value::Object(
            document
                .iter()
                .map(|(name, value)| (name.clone(), to_json(value)))
                .collect(),
        ),
        Bson::Null => Value::Null,
        other => other.to_string().into(),
    }
}

#[cfg(test)]
mod tests;
