//! Answers and errors in the forms of Loki's API.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::Response;
use query::QueryStats;
use query::logql::{Labels, MetricValue, Steps};
use serde_json::{Value as Json, json};

use super::asked::LokiAnswer;
use super::{Lines, LogEntry};
use crate::promql::number_text;
use crate::server::answer;

/// The header by which Grafana asks for metadata apart from labels.
const ENCODING_FLAGS: HeaderName = HeaderName::from_static("x-loki-response-encoding-flags");
const CATEGORIZE: &str = "categorize-labels";
/// The header by which Grafana tells the purpose of a query, and its log volume.
const QUERY_TAGS: HeaderName = HeaderName::from_static("x-query-tags");
const LOG_VOLUME: &str = "Source=logvolhist";
/// Maximum bytes of an error that gets the member `message`.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// Returns the response with `data`, or the refusal.
pub(super) fn data(answer: LokiAnswer) -> Response {
    match answer {
        Ok(data) => answer::json(
            StatusCode::OK,
            &json!({ "status": "success", "data": data }),
        ),
        Err(refused) => *refused,
    }
}

/// Returns the response as it is, or the refusal.
pub(super) fn bare(answer: LokiAnswer) -> Response {
    match answer {
        Ok(body) => answer::json(StatusCode::OK, &body),
        Err(refused) => *refused,
    }
}

/// Adds the member `message` to an error, which is what Grafana shows.
pub(in crate::server) async fn with_message(response: Response) -> Response {
    if !(response.status().is_client_error() || response.status().is_server_error()) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, ERROR_BYTES_MAX).await;
    let bytes = bytes.unwrap_or_default();
    let body = match serde_json::from_slice::<Json>(&bytes) {
        Ok(Json::Object(mut object)) if !object.contains_key("message") => {
            let of = |name: &str| object.get("error").and_then(|e| e.get(name)?.as_str());
            let mut message = of("message").unwrap_or_default().to_owned();
            if let Some(hint) = of("hint") {
                message += "; ";
                message += hint;
            }
            object.insert("message".to_owned(), message.into());
            object.insert("status".to_owned(), "error".into());
            serde_json::to_vec(&object).unwrap_or_default()
        }
        _ => bytes.to_vec(),
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(body))
}

/// Returns whether a request asks for metadata apart from labels.
pub(super) fn is_categorized(headers: &HeaderMap) -> bool {
    lists(headers, ENCODING_FLAGS, CATEGORIZE)
}

/// Returns whether a request asks for the log volume of a panel.
pub(super) fn is_log_volume(headers: &HeaderMap) -> bool {
    lists(headers, QUERY_TAGS, LOG_VOLUME)
}

/// Returns whether a header with values between commas has this value.
fn lists(headers: &HeaderMap, name: HeaderName, value: &str) -> bool {
    let lists = headers.get_all(name).iter();
    let mut lists = lists.filter_map(|list| list.to_str().ok());
    lists.any(|list| list.split(',').any(|one| one.trim() == value))
}

fn summary(stats: &QueryStats, entries: usize) -> Json {
    let seconds = stats.elapsed_ms as f64 / 1e3;
    let per_second = |n: u64| {
        if seconds > 0.0 {
            (n as f64 / seconds) as u64
        } else {
            0
        }
    };
    json!({ "summary": {
        "bytesProcessedPerSecond": per_second(stats.bytes_read),
        "linesProcessedPerSecond": per_second(stats.rows_examined),
        "totalBytesProcessed": stats.bytes_read,
        "totalLinesProcessed": stats.rows_examined,
        "execTime": seconds,
        "queueTime": 0.0,
        "subqueries": 0,
        "totalEntriesReturned": entries,
        "splits": 0,
        "shards": 0,
    } })
}

/// Returns the lines by the labels of their streams.
fn by_stream(lines: Lines, is_categorized: bool) -> Vec<Json> {
    let mut streams: BTreeMap<Labels, Vec<Json>> = BTreeMap::new();
    for (ns, entry) in lines {
        let (labels, value) = match is_categorized {
            false => (entry.all(), json!([ns.to_string(), entry.line])),
            true => {
                let LogEntry {
                    line,
                    stream,
                    metadata,
                    parsed,
                } = entry;
                let apart = json!({ "structuredMetadata": metadata, "parsed": parsed });
                (stream, json!([ns.to_string(), line, apart]))
            }
        };
        streams.entry(labels).or_default().push(value);
    }
    let streams = streams.into_iter();
    let streams = streams.map(|(labels, values)| json!({ "stream": labels, "values": values }));
    streams.collect()
}

/// Returns the data of a log query.
pub(super) fn streams(lines: Lines, is_categorized: bool, stats: &QueryStats) -> Json {
    let stats = summary(stats, lines.len());
    let mut data = json!({
        "resultType": "streams",
        "result": by_stream(lines, is_categorized),
        "stats": stats,
    });
    if is_categorized {
        data["encodingFlags"] = json!([CATEGORIZE]);
    }
    data
}

/// Returns a message of a live tail; `dropped` names streams of which it missed events.
pub(in crate::server) fn tail_message(lines: Lines, dropped: Vec<Json>) -> String {
    let streams = by_stream(lines, false);
    json!({ "streams": streams, "dropped_entries": dropped }).to_string()
}

/// Returns a time in seconds, whole or with milliseconds.
fn seconds(ns: i64) -> Json {
    match ns % 1_000_000_000 {
        0 => json!(ns / 1_000_000_000),
        _ => json!((ns / 1_000_000) as f64 / 1e3),
    }
}

/// Returns the data of an instant query.
pub(super) fn instant(at_ns: i64, value: MetricValue, stats: &QueryStats) -> Json {
    let point = |value: f64| json!([seconds(at_ns), number_text(value)]);
    let (kind, result) = match value {
        MetricValue::Scalar(value) => ("scalar", point(value)),
        MetricValue::Matrix(matrix) => {
            let samples = matrix.into_iter().filter_map(|series| {
                let value = series.points.first().copied().flatten()?;
                Some(json!({ "metric": series.labels, "value": point(value) }))
            });
            ("vector", samples.collect())
        }
    };
    json!({ "resultType": kind, "result": result, "stats": summary(stats, 0) })
}

/// Returns the data of a range query.
pub(super) fn range(steps: Steps, value: MetricValue, stats: &QueryStats) -> Json {
    let point = |nth: usize, value: f64| json!([seconds(steps.at(nth)), number_text(value)]);
    let result: Vec<Json> = match value {
        MetricValue::Scalar(value) => {
            let values: Vec<Json> = (0..steps.count).map(|nth| point(nth, value)).collect();
            vec![json!({ "metric": {}, "values": values })]
        }
        MetricValue::Matrix(matrix) => {
            let series = matrix.into_iter().map(|series| {
                let points = series.points.iter().enumerate();
                let points = points.filter_map(|(nth, value)| Some(point(nth, (*value)?)));
                json!({ "metric": series.labels, "values": points.collect::<Vec<Json>>() })
            });
            series.collect()
        }
    };
    json!({ "resultType": "matrix", "result": result, "stats": summary(stats, 0) })
}
