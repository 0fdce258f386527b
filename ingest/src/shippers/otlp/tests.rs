use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValueList};
use opentelemetry_proto::tonic::logs::v1::ScopeLogs;
use serde_json::json;

use super::super::testing::values;
use super::*;

const NS: u64 = 1_795_170_728_945_867_776;

fn any(value: Value) -> Option<AnyValue> {
    Some(AnyValue { value: Some(value) })
}

fn text(text: &str) -> Value {
    Value::StringValue(text.to_owned())
}

fn pair(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: any(value),
        ..KeyValue::default()
    }
}

/// A request in which every field of the data model is set.
fn full() -> ExportLogsServiceRequest {
    let list = |values| Value::KvlistValue(KeyValueList { values });
    let record = LogRecord {
        time_unix_nano: NS,
        observed_time_unix_nano: NS + 1,
        severity_number: 13,
        severity_text: "WARN".into(),
        body: any(text("hello")),
        attributes: vec![
            pair("http.status", Value::IntValue(500)),
            pair("line", text("own")),
            pair("scope.x", text("own")),
            pair("ratio", Value::DoubleValue(0.25)),
            pair("nan", Value::DoubleValue(f64::NAN)),
            pair("less", Value::DoubleValue(f64::NEG_INFINITY)),
            pair("bytes", Value::BytesValue(vec![0, 255])),
            pair("yes", Value::BoolValue(true)),
            pair("nested", list(vec![pair("a", Value::IntValue(i64::MIN))])),
        ],
        dropped_attributes_count: 1,
        flags: 1,
        trace_id: vec![0xab; 16],
        span_id: vec![0x01; 8],
        event_name: "e".into(),
    };
    let array = Value::ArrayValue(ArrayValue {
        values: vec![
            AnyValue {
                value: Some(Value::IntValue(1)),
            },
            AnyValue { value: None },
        ],
    });
    let observed = LogRecord {
        observed_time_unix_nano: NS,
        body: any(array),
        ..LogRecord::default()
    };
    ExportLogsServiceRequest {
        resource_logs: vec![
            ResourceLogs {
                resource: Some(Resource {
                    attributes: vec![pair("service.name", text("Check-Out"))],
                    dropped_attributes_count: 2,
                    entity_refs: Vec::new(),
                }),
                scope_logs: vec![ScopeLogs {
                    scope: Some(InstrumentationScope {
                        name: "lib".into(),
                        version: "1".into(),
                        attributes: vec![pair("k", text("v"))],
                        dropped_attributes_count: 3,
                    }),
                    log_records: vec![record],
                    schema_url: "https://s".into(),
                }],
                schema_url: "https://r".into(),
            },
            ResourceLogs {
                scope_logs: vec![ScopeLogs {
                    log_records: vec![observed, LogRecord::default()],
                    ..ScopeLogs::default()
                }],
                ..ResourceLogs::default()
            },
        ],
    }
}

#[test]
fn nothing_of_a_record_is_lost_in_either_encoding() {
    let us = NS / 1000;
    let record = json!({
        "time": us, "time_nanos": 776, "observed_time_unix_nano": NS + 1,
        "level": "WARN", "severity_number": 13, "line": "hello",
        "dropped_attributes.record": 1, "flags": 1,
        "trace_id": "abababababababababababababababab", "span_id": "0101010101010101",
        "event_name": "e",
        "http.status": 500, "attributes.line": "own", "attributes.scope.x": "own", "ratio": 0.25,
        "nan": "NaN", "less": "-Infinity", "bytes": "AP8=", "yes": true,
        "nested": {"a": i64::MIN},
        "resource.service.name": "Check-Out", "dropped_attributes.resource": 2,
        "schema_url.resource": "https://r",
        "scope.name": "lib", "scope.version": "1", "scope.attributes.k": "v",
        "dropped_attributes.scope": 3, "schema_url.scope": "https://s",
    });
    let observed = json!({
        "time": us, "time_nanos": 776, "observed_time_unix_nano": NS, "body": [1, null],
    });
    let expected = [
        ("check_out", vec![record]),
        ("otlp", vec![observed, json!({})]),
    ];
    let of_protobuf = decode_protobuf(&full().encode_to_vec(), None).unwrap();
    assert_eq!(values(&of_protobuf), expected);
    // Written by hand after the specification: the crate's own writer is no proof of its reader.
    let of_json = json!({"resourceLogs": [{
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "api"}}]},
        "scopeLogs": [{"logRecords": [{
            "timeUnixNano": NS.to_string(), "severityNumber": 9, "severityText": "INFO",
            "body": {"kvlistValue": {"values": [
                {"key": "n", "value": {"intValue": "-9007199254740993"}},
                {"key": "b", "value": {"bytesValue": "AP8="}},
            ]}},
            "traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": "EEE19B7EC3C1B174",
            "attributes": [{"key": "ok", "value": {"boolValue": true}}],
            "aFieldOfALaterVersion": 1,
        }]}],
    }]});
    let streams = decode_json(of_json.to_string().as_bytes(), None).unwrap();
    let record = json!({
        "time": us, "time_nanos": 776, "level": "INFO", "severity_number": 9,
        "body": {"n": -9_007_199_254_740_993_i64, "b": "AP8="},
        "trace_id": "5b8efff798038103d269b633813fc60c", "span_id": "eee19b7ec3c1b174",
        "ok": true, "resource.service.name": "api",
    });
    assert_eq!(values(&streams), [("api", vec![record])]);
    let fixed = decode_protobuf(&full().encode_to_vec(), Some("all")).unwrap();
    assert_eq!((fixed.len(), fixed[0].records.len()), (1, 3));
}

#[test]
fn bodies_that_are_no_export_are_refused() {
    assert!(decode_protobuf(b"{}", None).is_err());
    assert!(decode_json(b"[]", None).is_err());
    assert!(decode_json(b"{}", None).is_err());
    assert!(decode_json(b"{\"resource_logs\":[]}", None).is_err());
    assert!(decode_protobuf(b"", None).unwrap().is_empty());
    assert!(
        decode_json(b"{\"resourceLogs\":[]}", None)
            .unwrap()
            .is_empty()
    );
}
