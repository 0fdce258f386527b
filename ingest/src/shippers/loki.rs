//! The body of Loki's push: streams of labels with entries, as protobuf or as JSON.
//!
//! Source: Loki's `pkg/push/push.proto` and its HTTP API, "Ingest logs". An entry becomes `time`,
//! `line`, its labels and its structured metadata under their own names. A label that is named as
//! one of the mapping's own fields is `labels.NAME`, such metadata are `metadata.NAME`, and so are
//! metadata that are named as a label of their stream.

mod labels;

use std::borrow::Cow;
use std::collections::BTreeMap;

use prost::Message;
use serde::Deserialize;
use serde_json::Value;

use self::labels::{PushedLabels, read_labels};
use super::object::ObjectWriter;
use super::{RecordsByStream, StreamRecords, is_own, stream_name};

/// The stream of entries whose labels name none.
const STREAM: &str = "loki";
/// PushedLabels that name the stream, the first of them that is there.
const STREAM_LABELS: [&str; 4] = ["stream", "service_name", "job", "app"];
/// Values of the label `stream` that name a file descriptor: Docker's driver and others set it.
const DESCRIPTORS: [&str; 2] = ["stdout", "stderr"];

/// Fields of the mapping's own.
const OWN: [&str; 5] = ["time", "time_nanos", "line", "labels", "metadata"];

/// `PushRequest`
#[derive(Clone, PartialEq, Message)]
struct PushRequest {
    #[prost(message, repeated, tag = "1")]
    streams: Vec<PushedStream>,
}

/// `StreamAdapter`
#[derive(Clone, PartialEq, Message)]
struct PushedStream {
    #[prost(bytes = "vec", tag = "1")]
    labels: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    entries: Vec<PushedEntry>,
}

/// `EntryAdapter`. Its texts are bytes: senders in Go do not check that they are UTF-8.
#[derive(Clone, PartialEq, Message)]
struct PushedEntry {
    #[prost(message, optional, tag = "1")]
    timestamp: Option<Timestamp>,
    #[prost(bytes = "vec", tag = "2")]
    line: Vec<u8>,
    #[prost(message, repeated, tag = "3")]
    metadata: Vec<Pair>,
}

/// `google.protobuf.Timestamp`
#[derive(Clone, PartialEq, Message)]
struct Timestamp {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

/// `LabelPairAdapter`
#[derive(Clone, PartialEq, Message)]
struct Pair {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Deserialize)]
struct JsonRequest {
    streams: Vec<JsonStream>,
}

#[derive(Deserialize)]
struct JsonStream {
    #[serde(default)]
    stream: BTreeMap<String, String>,
    /// Each a time in nanoseconds, a line and, perhaps, metadata.
    values: Vec<Value>,
}

/// Decodes a body of protobuf, decompressed. `fixed` is a stream that the request names for all
/// entries.
///
/// # Errors
/// The reason for which the body as a whole is refused.
pub fn decode_protobuf(body: &[u8], fixed: Option<&str>) -> Result<Vec<StreamRecords>, String> {
    let request = PushRequest::decode(body).map_err(|e| e.to_string())?;
    let mut streams = RecordsByStream::default();
    for pushed in &request.streams {
        let labels = String::from_utf8_lossy(&pushed.labels);
        let labels = read_labels(&labels)?;
        let stream = stream_of(&labels, fixed);
        let (_, records) = streams.of(&stream);
        for entry in &pushed.entries {
            let time = entry.timestamp.as_ref();
            let ns = time.and_then(|time| {
                let whole = time.seconds.checked_mul(1_000_000_000)?;
                whole.checked_add(i64::from(time.nanos))
            });
            let metadata = entry.metadata.iter();
            let metadata = metadata.map(|pair| (text(&pair.name), text(&pair.value)));
            records.push_with(|out| {
                write(out, ns, &text(&entry.line), &labels, metadata);
            });
        }
    }
    Ok(streams.into_streams())
}

/// Decodes a body of JSON. An entry that is none is a record as it stands, which no format takes:
/// it goes to quarantine, and the others of the body do not.
///
/// # Errors
/// The reason for which the body as a whole is refused.
pub fn decode_json(body: &[u8], fixed: Option<&str>) -> Result<Vec<StreamRecords>, String> {
    let request: JsonRequest = serde_json::from_slice(body).map_err(|e| e.to_string())?;
    let mut streams = RecordsByStream::default();
    for pushed in &request.streams {
        let labels: PushedLabels = pushed.stream.clone().into_iter().collect();
        let stream = stream_of(&labels, fixed);
        let (_, records) = streams.of(&stream);
        for entry in &pushed.values {
            records.push_with(|out| match JsonEntry::of(entry) {
                Some(JsonEntry { ns, line, metadata }) => {
                    let metadata = metadata.iter().map(|(k, v)| ((*k).into(), (*v).into()));
                    write(out, Some(ns), line, &labels, metadata);
                }
                None => out.extend_from_slice(entry.to_string().as_bytes()),
            });
        }
    }
    Ok(streams.into_streams())
}

struct JsonEntry<'a> {
    ns: i64,
    line: &'a str,
    metadata: Vec<(&'a str, &'a str)>,
}

impl<'a> JsonEntry<'a> {
    fn of(entry: &'a Value) -> Option<Self> {
        let (time, line, metadata) = match entry.as_array()?.as_slice() {
            [time, line] => (time, line, None),
            [time, line, metadata] => (time, line, Some(metadata.as_object()?)),
            _ => return None,
        };
        let ns = match time {
            Value::String(text) => text.parse().ok()?,
            number => number.as_i64()?,
        };
        let pairs = metadata.into_iter().flatten();
        let pairs = pairs.map(|(name, value)| Some((name.as_str(), value.as_str()?)));
        Some(Self {
            ns,
            line: line.as_str()?,
            metadata: pairs.collect::<Option<_>>()?,
        })
    }
}

/// Returns the stream of entries with these labels.
fn stream_of(labels: &PushedLabels, fixed: Option<&str>) -> String {
    if let Some(fixed) = fixed {
        return fixed.to_owned();
    }
    let value = |name: &str| {
        let label = labels.iter().find(|(label, _)| label == name);
        let value = label.map(|(_, value)| value.as_str());
        value.filter(|value| name != "stream" || !DESCRIPTORS.contains(value))
    };
    let mut named = STREAM_LABELS.iter().filter_map(|name| value(name));
    let stream = named.find_map(stream_name);
    stream.unwrap_or_else(|| STREAM.to_owned())
}

fn write<'a>(
    out: &mut Vec<u8>,
    ns: Option<i64>,
    line: &str,
    labels: &PushedLabels,
    metadata: impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)>,
) {
    let mut object = ObjectWriter::new(out);
    if let Some(ns) = ns {
        object.time(ns);
    }
    object.field("line", line);
    for (name, value) in labels {
        match is_own(&OWN, name) {
            true => object.field(&format!("labels.{name}"), value),
            false => object.field(name, value),
        }
    }
    for (name, value) in metadata {
        match is_own(&OWN, &name) || labels.iter().any(|(label, _)| *label == name) {
            true => object.field(&format!("metadata.{name}"), &value),
            false => object.field(&name, &value),
        }
    }
    object.end();
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests;
