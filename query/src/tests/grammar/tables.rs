//! The model's events as columns of tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int16Array, Int64Array, RecordBatch, StringArray,
    StringViewArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use storage::object_id;

use super::super::support::{DAY_US, Event};
use super::stores::Line;
use super::values::HOUR_US;

fn utc() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

pub(super) fn lines(lines: &[Line]) -> RecordBatch {
    let field = |name: &str, kind: DataType| Field::new(name, kind, name != "time");
    let schema = Schema::new(vec![
        field("time", utc()),
        field("service", DataType::Utf8),
        field("level", DataType::Utf8),
        field("note", DataType::Utf8),
        field("ms", DataType::Float64),
        field("ok", DataType::Boolean),
        field("n", DataType::Int64),
    ]);
    let schema = Arc::new(schema);
    let columns = schema.fields().iter();
    let columns = columns.map(|f| column_of_lines(f, &|| lines.iter()));
    RecordBatch::try_new(Arc::clone(&schema), columns.collect()).expect("columns fit")
}

fn times(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from_iter_values(values).with_timezone("UTC"))
}

fn texts<'a>(field: &Field, values: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    match field.data_type() {
        DataType::Utf8View => Arc::new(values.collect::<StringViewArray>()),
        _ => Arc::new(values.collect::<StringArray>()),
    }
}

pub(super) fn column_of_lines<'a, I: Iterator<Item = &'a Line> + 'a>(
    field: &Field,
    all: &impl Fn() -> I,
) -> ArrayRef {
    match field.name().as_str() {
        "time" => times(all().map(|l| l.time)),
        "service" => texts(field, all().map(|l| Some(l.service))),
        "level" => texts(field, all().map(|l| l.level)),
        "note" => texts(field, all().map(|l| l.note.as_deref())),
        "ms" => Arc::new(all().map(|l| l.ms).collect::<Float64Array>()),
        "ok" => Arc::new(all().map(|l| l.ok).collect::<BooleanArray>()),
        "n" => Arc::new(all().map(|l| l.n).collect::<Int64Array>()),
        other => panic!("app has a column {other} that the model does not know"),
    }
}

/// Returns the request line, as access logs have it.
fn request(event: &Event) -> Option<String> {
    if let Some(request) = event.request {
        return Some(request.to_owned());
    }
    let mut line = format!("{} ", event.method?);
    line += event.path.as_deref().unwrap_or_default();
    if let Some(query) = event.query {
        line = line + "?" + query;
    }
    if let Some(protocol) = event.protocol {
        line = line + " " + protocol;
    }
    Some(line)
}

pub(super) fn column_of_events<'a, I: Iterator<Item = &'a Event> + 'a>(
    field: &Field,
    all: &impl Fn() -> I,
) -> ArrayRef {
    match field.name().as_str() {
        "time" => times(all().map(|e| e.time)),
        "host" => texts(field, all().map(|e| Some(e.host))),
        "user" => texts(field, all().map(|e| e.user)),
        "method" => texts(field, all().map(|e| e.method)),
        "path" => texts(field, all().map(|e| e.path.as_deref())),
        "query" => texts(field, all().map(|e| e.query)),
        "protocol" => texts(field, all().map(|e| e.protocol)),
        "request" => {
            let lines: Vec<Option<String>> = all().map(request).collect();
            texts(field, lines.iter().map(Option::as_deref))
        }
        "status" => Arc::new(all().map(|e| e.status).collect::<Int16Array>()),
        "response_size" => Arc::new(all().map(|e| e.size).collect::<Int64Array>()),
        "referrer" => texts(field, all().map(|e| e.referrer)),
        "user_agent" => texts(field, all().map(|e| e.agent)),
        "logname" | "site" | "extra" => texts(field, all().map(|_| None)),
        other => panic!("access has a column {other} that the model does not know"),
    }
}

/// Levels that queries join: name, width, keys, and what is counted.
pub(super) const LEVELS: &[(&str, i64, &[&str], &[&str])] = &[
    (
        "stats.hourly",
        HOUR_US,
        &["site", "path"],
        &["hits", "bytes"],
    ),
    ("stats.daily", DAY_US, &["site", "path"], &["hits", "bytes"]),
    ("coarse.daily", DAY_US, &["host"], &["n", "least", "most"]),
    (
        "traffic.minutely",
        HOUR_US / 60,
        &["site", "status", "method"],
        &["hits"],
    ),
];

pub(super) fn level_columns(table: &str, keys: &[&str], measures: &[&str]) -> String {
    let columns = [keys, measures].concat().join(", ");
    format!("SELECT bucket, bucket_end, {columns} FROM {table} LIMIT 0")
}

/// Returns the rows of a stream. `ids` has the prefix of each row's store, and its sequence number.
pub(super) fn rows(
    schema: &SchemaRef,
    ids: &[([u8; 6], u64)],
    column: &dyn Fn(&Field) -> ArrayRef,
) -> RecordBatch {
    let columns = schema.fields().iter().map(|field| -> ArrayRef {
        match field.name().as_str() {
            "_seq" => Arc::new(ids.iter().map(|(_, seq)| *seq).collect::<UInt64Array>()),
            "_id" => {
                let ids = ids.iter().map(|(prefix, seq)| object_id(*prefix, *seq));
                let ids: Vec<_> = ids.collect();
                texts(field, ids.iter().map(|id| std::str::from_utf8(id).ok()))
            }
            _ => column(field),
        }
    });
    // A column without nulls here may be nullable by its type.
    let columns: Vec<ArrayRef> = columns.collect();
    RecordBatch::try_new(Arc::clone(schema), columns).expect("columns fit")
}

/// The hits and the sizes of a cell, by start of the bucket and keys.
type Cells = BTreeMap<(i64, Vec<Option<String>>), (i64, Vec<i64>)>;

/// Returns a level of a rollup in UTC.
pub(super) fn level(
    ever: &[Event],
    schema: SchemaRef,
    width_us: i64,
    keys: &[&str],
) -> RecordBatch {
    let mut cells = Cells::new();
    for event in ever {
        let key = keys.iter().map(|key| match *key {
            "path" => event.path.clone(),
            "host" => Some(event.host.to_owned()),
            "status" => event.status.map(|s| s.to_string()),
            "method" => event.method.map(str::to_owned),
            _ => None,
        });
        let bucket = event.time.div_euclid(width_us) * width_us;
        let cell = cells.entry((bucket, key.collect())).or_default();
        cell.0 += 1;
        cell.1.extend(event.size);
    }
    let columns = schema.fields().iter().map(|field| -> ArrayRef {
        let sizes = cells.values().map(|(_, sizes)| sizes);
        let number = |of: &dyn Fn(&Vec<i64>) -> Option<i64>| -> ArrayRef {
            Arc::new(sizes.clone().map(of).collect::<Int64Array>())
        };
        match field.name().as_str() {
            "bucket" => times(cells.keys().map(|(at, _)| *at)),
            "bucket_end" => times(cells.keys().map(|(at, _)| at + width_us)),
            "hits" | "n" => Arc::new(
                cells
                    .values()
                    .map(|(n, _)| Some(*n))
                    .collect::<Int64Array>(),
            ),
            "bytes" => number(&|s| (!s.is_empty()).then(|| s.iter().sum())),
            "least" => number(&|s| s.iter().min().copied()),
            "most" => number(&|s| s.iter().max().copied()),
            key => {
                let nth = keys.iter().position(|k| *k == key).expect("a key");
                let values = cells.keys().map(|(_, key)| key[nth].as_deref());
                match field.data_type() {
                    DataType::Int16 => Arc::new(
                        values
                            .map(|v| v.map(|v| v.parse::<i16>().expect("a status")))
                            .collect::<Int16Array>(),
                    ),
                    _ => texts(field, values),
                }
            }
        }
    });
    let columns = columns.collect();
    RecordBatch::try_new(schema, columns).expect("columns fit")
}
