//! The body of Splunk's HTTP Event Collector: JSON objects one after the other, each an event with
//! its metadata.
//!
//! Source: Splunk's "Format events for HTTP Event Collector". `host`, `source` and `sourcetype`
//! keep their names, and so do the fields of `fields`. An `event` that is a text becomes `line`,
//! the fields of one that is an object keep their names. A field that is named as one of the
//! mapping's own is `event.NAME` or `fields.NAME`.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::object::ObjectWriter;
use super::{RecordsByStream, StreamRecords, is_own, stream_name};
use crate::source::{JsonValues, Records};

/// The stream of events without an index.
const STREAM: &str = "splunk";
/// Fields of the mapping's own.
const OWN: [&str; 8] = [
    "time",
    "time_nanos",
    "line",
    "host",
    "source",
    "sourcetype",
    "event",
    "fields",
];

/// A body that is refused as a whole, by the codes of the collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidHec {
    /// The collector's code: 5 without data, 6 for data that are no event, 12 without `event`, 13
    /// for one that is empty.
    pub code: u8,
    /// The reason.
    pub reason: String,
    /// The rank of the event that is invalid, from 0.
    pub event: Option<u64>,
}

/// Metadata that a request has for events which bring none of their own.
#[derive(Debug, Clone, Copy, Default)]
pub struct HecDefaults<'a> {
    /// The stream for all events, whatever their index.
    pub stream: Option<&'a str>,
    /// The index.
    pub index: Option<&'a str>,
    /// The host.
    pub host: Option<&'a str>,
    /// The source.
    pub source: Option<&'a str>,
    /// The source type.
    pub sourcetype: Option<&'a str>,
}

/// The members of an object, in its order, with their JSON.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            members.push((name, map.next_value()?));
        }
        Ok(Members(members))
    }
}

impl<'a> Members<'a> {
    /// Returns the last member of a name, unless it is null.
    fn get(&self, name: &str) -> Option<&'a RawValue> {
        let found = self.0.iter().rfind(|(member, _)| member == name);
        found.map(|(_, value)| *value).filter(|v| v.get() != "null")
    }
}

/// Decodes a body of events.
///
/// # Errors
/// [`InvalidHec`]: the body as a whole is refused, as Splunk does.
pub fn decode_events(
    body: &[u8],
    defaults: HecDefaults<'_>,
) -> Result<Vec<StreamRecords>, InvalidHec> {
    let mut streams = RecordsByStream::default();
    for ((_, item), rank) in JsonValues::new(body, 0).zip(0..) {
        let invalid = |code, reason: String| InvalidHec {
            code,
            reason,
            event: Some(rank),
        };
        let members: Members<'_> =
            serde_json::from_slice(item).map_err(|e| invalid(6, e.to_string()))?;
        let event = members
            .get("event")
            .ok_or_else(|| invalid(12, "it has no member event".into()))?;
        if event.get() == "\"\"" {
            return Err(invalid(13, "its member event is an empty text".into()));
        }
        let index = members.get("index").and_then(text);
        let index = index.as_deref().or(defaults.index);
        let stream = stream_of(index, defaults);
        let (_, records) = streams.of(&stream);
        records.push_with(|out| write(out, &members, event, defaults));
    }
    let streams = streams.into_streams();
    match streams.is_empty() {
        true => Err(no_data()),
        false => Ok(streams),
    }
}

/// Decodes a body of lines, each of which becomes an event.
///
/// # Errors
/// [`InvalidHec`] for a body without a line.
pub fn decode_lines(body: &[u8], defaults: HecDefaults<'_>) -> Result<StreamRecords, InvalidHec> {
    let mut records = Records::default();
    for line in body.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        records.push_with(|out| {
            let mut object = ObjectWriter::new(out);
            object.field("line", &String::from_utf8_lossy(line));
            write_defaults(&mut object, defaults, |_| false);
            object.end();
        });
    }
    match records.is_empty() {
        true => Err(no_data()),
        false => Ok(StreamRecords {
            stream: stream_of(defaults.index, defaults),
            records,
        }),
    }
}

fn no_data() -> InvalidHec {
    InvalidHec {
        code: 5,
        reason: "No data".into(),
        event: None,
    }
}

fn stream_of(index: Option<&str>, defaults: HecDefaults<'_>) -> String {
    let fixed = defaults.stream.map(str::to_owned);
    let stream = fixed.or_else(|| stream_name(index?));
    stream.unwrap_or_else(|| STREAM.to_owned())
}

fn write(out: &mut Vec<u8>, members: &Members<'_>, event: &RawValue, defaults: HecDefaults<'_>) {
    let mut object = ObjectWriter::new(out);
    for (name, value) in &members.0 {
        match &**name {
            "event" | "fields" | "index" => {}
            _ => object.field(name, value),
        }
    }
    write_defaults(&mut object, defaults, |name| members.get(name).is_some());
    match (text(event), serde_json::from_str(event.get())) {
        (Some(line), _) => object.field("line", &line),
        (None, Ok(fields)) => write_members(&mut object, "event", &fields),
        (None, Err(_)) => object.field("event", event),
    }
    if let Some(fields) = members.get("fields") {
        match serde_json::from_str(fields.get()) {
            Ok(fields) => write_members(&mut object, "fields", &fields),
            Err(_) => object.field("fields", fields),
        }
    }
    object.end();
}

fn write_members(object: &mut ObjectWriter<'_>, place: &str, members: &Members<'_>) {
    for (name, value) in &members.0 {
        match is_own(&OWN, name) {
            true => object.field(&format!("{place}.{name}"), value),
            false => object.field(name, value),
        }
    }
}

/// Writes the metadata of the request that the event has not.
fn write_defaults(
    object: &mut ObjectWriter<'_>,
    defaults: HecDefaults<'_>,
    has: impl Fn(&str) -> bool,
) {
    for (name, value) in [
        ("host", defaults.host),
        ("source", defaults.source),
        ("sourcetype", defaults.sourcetype),
    ] {
        if let Some(value) = value.filter(|_| !has(name)) {
            object.field(name, value);
        }
    }
}

fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

#[cfg(test)]
mod tests;
