//! The body of an OTLP export of logs, as protobuf or as JSON.
//!
//! Source: `opentelemetry-proto`, `logs/v1/logs.proto`, and the data model of logs. A record
//! becomes:
//!
//! | of the record | field |
//! |---|---|
//! | `time_unix_nano`, else `observed_time_unix_nano`, else the receipt | `time`, `time_nanos` |
//! | `observed_time_unix_nano` | `observed_time_unix_nano` |
//! | `severity_text`, `severity_number` | `level`, `severity_number` |
//! | `body` | `line` if it is a text, else `body` |
//! | `attributes` | their own names; `attributes.NAME` for one of this table |
//! | `trace_id`, `span_id` | the same, hexadecimal |
//! | `flags`, `event_name` | the same, if they are not empty |
//! | attributes of the resource, and of the scope | `resource.NAME`, `scope.attributes.NAME` |
//! | the scope's `name` and `version` | `scope.name`, `scope.version` |
//! | counts of dropped attributes, URLs of schemas | `dropped_attributes.…`, `schema_url.…` |
//!
//! Bytes are base 64. A number that is no JSON is a text, as in protobuf's JSON.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Serialize, Serializer};

use super::object::ObjectWriter;
use super::{RecordsByStream, StreamRecords, is_own, stream_name};

/// The stream of resources without the attribute [`SERVICE`].
const STREAM: &str = "otlp";
/// The attribute of a resource that names the stream.
const SERVICE: &str = "service.name";
/// Fields of the mapping's own.
const OWN: [&str; 16] = [
    "time",
    "time_nanos",
    "observed_time_unix_nano",
    "level",
    "severity_number",
    "line",
    "body",
    "attributes",
    "trace_id",
    "span_id",
    "flags",
    "event_name",
    "resource",
    "scope",
    "dropped_attributes",
    "schema_url",
];

/// Decodes a body of protobuf. `fixed` is a stream that the request names for all records.
///
/// # Errors
/// The reason for which the body as a whole is refused.
pub fn decode_protobuf(body: &[u8], fixed: Option<&str>) -> Result<Vec<StreamRecords>, String> {
    let request = ExportLogsServiceRequest::decode(body).map_err(|e| e.to_string())?;
    Ok(records(&request, fixed))
}

/// Decodes a body of JSON.
///
/// # Errors
/// As [`decode_protobuf`].
pub fn decode_json(body: &[u8], fixed: Option<&str>) -> Result<Vec<StreamRecords>, String> {
    let export: JsonExport = serde_json::from_slice(body).map_err(|e| e.to_string())?;
    let resource_logs = export.resource_logs;
    Ok(records(&ExportLogsServiceRequest { resource_logs }, fixed))
}

/// A body of JSON. The crate's own type takes one without `resourceLogs` for one of no records, and
/// a sender that spells it otherwise would lose all of them.
#[derive(Deserialize)]
struct JsonExport {
    #[serde(rename = "resourceLogs")]
    resource_logs: Vec<ResourceLogs>,
}

/// Returns the records of a request by stream.
pub fn records(request: &ExportLogsServiceRequest, fixed: Option<&str>) -> Vec<StreamRecords> {
    let mut streams = RecordsByStream::default();
    for of_resource in &request.resource_logs {
        let stream = stream_of(of_resource.resource.as_ref(), fixed);
        let (_, records) = streams.of(&stream);
        for of_scope in &of_resource.scope_logs {
            let origin = RecordOrigin {
                resource: of_resource.resource.as_ref(),
                resource_schema: &of_resource.schema_url,
                scope: of_scope.scope.as_ref(),
                scope_schema: &of_scope.schema_url,
            };
            for record in &of_scope.log_records {
                records.push_with(|out| write(out, record, &origin));
            }
        }
    }
    streams.into_streams()
}

fn stream_of(resource: Option<&Resource>, fixed: Option<&str>) -> String {
    if let Some(fixed) = fixed {
        return fixed.to_owned();
    }
    let mut attributes = resource.iter().flat_map(|resource| &resource.attributes);
    let service = attributes.find_map(|attribute| {
        let value = attribute.value.as_ref()?.value.as_ref()?;
        match value {
            Value::StringValue(name) if attribute.key == SERVICE => stream_name(name),
            _ => None,
        }
    });
    service.unwrap_or_else(|| STREAM.to_owned())
}

/// The resource and the scope of a record.
struct RecordOrigin<'a> {
    resource: Option<&'a Resource>,
    resource_schema: &'a str,
    scope: Option<&'a InstrumentationScope>,
    scope_schema: &'a str,
}

fn write(out: &mut Vec<u8>, record: &LogRecord, origin: &RecordOrigin<'_>) {
    let mut object = ObjectWriter::new(out);
    let times = [record.time_unix_nano, record.observed_time_unix_nano];
    if let Some(ns) = times.into_iter().find(|ns| *ns != 0) {
        object.time_unsigned(ns);
    }
    let observed = record.observed_time_unix_nano;
    object.field_unless_default("observed_time_unix_nano", &observed);
    object.field_unless_default("level", &record.severity_text);
    object.field_unless_default("severity_number", &record.severity_number);
    match record.body.as_ref().and_then(|body| body.value.as_ref()) {
        None => {}
        Some(Value::StringValue(line)) => object.field("line", line),
        Some(value) => object.field("body", &AsJson(value)),
    }
    let dropped = record.dropped_attributes_count;
    object.field_unless_default("dropped_attributes.record", &dropped);
    object.field_unless_default("flags", &record.flags);
    object.field_unless_default("trace_id", &hex(&record.trace_id));
    object.field_unless_default("span_id", &hex(&record.span_id));
    object.field_unless_default("event_name", &record.event_name);
    for attribute in &record.attributes {
        match is_own(&OWN, &attribute.key) {
            true => write_attribute(&mut object, "attributes.", attribute),
            false => write_attribute(&mut object, "", attribute),
        }
    }
    origin.write(&mut object);
    object.end();
}

impl RecordOrigin<'_> {
    fn write(&self, object: &mut ObjectWriter<'_>) {
        if let Some(resource) = self.resource {
            for attribute in &resource.attributes {
                write_attribute(object, "resource.", attribute);
            }
            let dropped = resource.dropped_attributes_count;
            object.field_unless_default("dropped_attributes.resource", &dropped);
        }
        object.field_unless_default("schema_url.resource", self.resource_schema);
        if let Some(scope) = self.scope {
            object.field_unless_default("scope.name", &scope.name);
            object.field_unless_default("scope.version", &scope.version);
            for attribute in &scope.attributes {
                write_attribute(object, "scope.attributes.", attribute);
            }
            let dropped = scope.dropped_attributes_count;
            object.field_unless_default("dropped_attributes.scope", &dropped);
        }
        object.field_unless_default("schema_url.scope", self.scope_schema);
    }
}

fn write_attribute(object: &mut ObjectWriter<'_>, prefix: &str, attribute: &KeyValue) {
    let value = attribute.value.as_ref().and_then(|v| v.value.as_ref());
    if let Some(value) = value {
        object.field(&format!("{prefix}{}", attribute.key), &AsJson(value));
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let written = write!(digits, "{byte:02x}");
        written.expect("BUG: a text takes any digits");
    }
    digits
}

/// A value as JSON.
struct AsJson<'a>(&'a Value);

impl Serialize for AsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::StringValue(text) => serializer.serialize_str(text),
            Value::BoolValue(value) => serializer.serialize_bool(*value),
            Value::IntValue(number) => serializer.serialize_i64(*number),
            Value::DoubleValue(number) if number.is_finite() => serializer.serialize_f64(*number),
            Value::DoubleValue(number) if number.is_nan() => serializer.serialize_str("NaN"),
            Value::DoubleValue(number) => serializer.serialize_str(match *number > 0.0 {
                true => "Infinity",
                false => "-Infinity",
            }),
            Value::BytesValue(bytes) => serializer.serialize_str(&BASE64_STANDARD.encode(bytes)),
            Value::ArrayValue(array) => {
                let mut items = serializer.serialize_seq(Some(array.values.len()))?;
                for value in &array.values {
                    items.serialize_element(&value.value.as_ref().map(AsJson))?;
                }
                items.end()
            }
            Value::KvlistValue(list) => {
                let mut fields = serializer.serialize_map(Some(list.values.len()))?;
                for pair in &list.values {
                    let value = pair.value.as_ref().and_then(|value| value.value.as_ref());
                    fields.serialize_entry(&pair.key, &value.map(AsJson))?;
                }
                fields.end()
            }
            // Only profiles have a table of texts.
            Value::StringValueStrindex(index) => serializer.serialize_i32(*index),
        }
    }
}

#[cfg(test)]
mod tests;
