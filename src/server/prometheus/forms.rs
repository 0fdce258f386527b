//! Answers and errors in the forms of Prometheus' API.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::Response;
use query::Kind;
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::{Data, DataResult};
use crate::promql::{Labels, Points, PromqlError, PromqlValue, VectorSample, number_text};
use crate::server::answer::{self, Code};

/// The warning of an answer that the parameter `limit` has cut.
const CUT: &str = ",\"warnings\":[\"results truncated due to limit\"]";

/// Returns the response of a request.
pub(super) fn response(answer: DataResult) -> Response {
    match answer {
        Ok(Data { json, is_cut }) => {
            let mut body = br#"{"status":"success""#.to_vec();
            body.extend_from_slice(if is_cut { CUT.as_bytes() } else { b"" });
            body.extend_from_slice(br#","data":"#);
            body.extend(json);
            body.push(b'}');
            answer::json_bytes(StatusCode::OK, body)
        }
        Err(error) => failed(&error),
    }
}

/// Returns the data of an answer.
pub(super) fn data(value: &impl Serialize, is_cut: bool) -> DataResult {
    let json = serde_json::to_vec(value);
    let json = json.map_err(|error| PromqlError::execution(error.to_string()))?;
    Ok(Data { json, is_cut })
}

/// Returns the body of an error.
pub(super) fn error_body(kind: &str, message: &str) -> Json {
    json!({ "status": "error", "errorType": kind, "error": message })
}

fn failed(error: &PromqlError) -> Response {
    let (status, kind, message) = match error {
        PromqlError::Timeout => (
            StatusCode::SERVICE_UNAVAILABLE,
            "timeout",
            "the query takes longer than its timeout or query.time_max; take a shorter range or a greater step".to_owned(),
        ),
        PromqlError::BadData(message) => (StatusCode::BAD_REQUEST, "bad_data", message.clone()),
        PromqlError::Execution(message) => (
            StatusCode::UNPROCESSABLE_ENTITY,
            "execution",
            message.clone(),
        ),
        PromqlError::Read(error) => {
            let (status, kind) = match error.kind() {
                Kind::Invalid | Kind::Resources => (StatusCode::UNPROCESSABLE_ENTITY, "execution"),
                Kind::Cancelled => (StatusCode::SERVICE_UNAVAILABLE, "canceled"),
                Kind::Busy => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
                Kind::ShareBusy => (StatusCode::TOO_MANY_REQUESTS, "unavailable"),
                _ => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
            };
            (status, kind, error.to_string())
        }
    };
    let mut response = answer::json(status, &error_body(kind, &message));
    response.extensions_mut().insert(Code(kind));
    if matches!(kind, "unavailable" | "canceled") {
        answer::retry_soon(&mut response);
    }
    response
}

/// Returns labels as an object.
pub(super) fn metric(labels: &Labels) -> Json {
    let labels = labels.iter();
    let members = labels.map(|(name, value)| (name.to_owned(), Json::from(value)));
    Json::Object(members.collect())
}

/// Appends a time and a value: seconds as a number, and a text.
fn point(json: &mut Vec<u8>, t: i64, value: &str) {
    let seconds = match t % 1_000 {
        0 => (t / 1_000).to_string(),
        _ => (t as f64 / 1e3).to_string(),
    };
    let text = Json::from(value);
    json.extend_from_slice(format!("[{seconds},{text}]").as_bytes());
}

/// Appends items, separated by commas, in brackets.
fn list<T>(
    json: &mut Vec<u8>,
    items: impl Iterator<Item = T>,
    mut one: impl FnMut(&mut Vec<u8>, T),
) {
    json.push(b'[');
    for (at, item) in items.enumerate() {
        if at > 0 {
            json.push(b',');
        }
        one(json, item);
    }
    json.push(b']');
}

/// Returns data of a type; `result` appends its member of that name.
fn of_type(kind: &str, is_cut: bool, result: impl FnOnce(&mut Vec<u8>)) -> Data {
    let mut json = format!("{{\"resultType\":\"{kind}\",\"result\":").into_bytes();
    result(&mut json);
    json.push(b'}');
    Data { json, is_cut }
}

/// Appends a series; `values` appends its last member.
fn series(json: &mut Vec<u8>, labels: &Labels, member: &str, values: impl FnOnce(&mut Vec<u8>)) {
    let head = format!("{{\"metric\":{},\"{member}\":", metric(labels));
    json.extend_from_slice(head.as_bytes());
    values(json);
    json.push(b'}');
}

fn matrix(points: Vec<Points>, limit: usize) -> Data {
    let is_cut = points.len() > limit;
    of_type("matrix", is_cut, |json| {
        list(json, points.into_iter().take(limit), |json, one| {
            series(json, &one.labels, "values", |json| {
                list(json, one.points.into_iter(), |json, (t, value)| {
                    point(json, t, &number_text(value));
                });
            });
        });
    })
}

/// Returns the data of an instant query, with no more than `limit` series.
pub(super) fn instant(t: i64, value: PromqlValue, limit: usize) -> Data {
    match value {
        PromqlValue::Scalar(value) => of_type("scalar", false, |json| {
            point(json, t, &number_text(value));
        }),
        PromqlValue::Text(text) => of_type("string", false, |json| point(json, t, &text)),
        PromqlValue::Vector(samples) => of_type("vector", samples.len() > limit, |json| {
            list(json, samples.into_iter().take(limit), |json, sample| {
                series(json, &sample.labels, "value", |json| {
                    point(json, t, &number_text(sample.value));
                });
            });
        }),
        PromqlValue::Matrix(points) => matrix(points, limit),
    }
}

/// Returns the error of an expression that has no value at a step of a range.
pub(super) fn no_range(kind: &str) -> PromqlError {
    PromqlError::BadData(format!(
        "invalid parameter \"query\": invalid expression type {kind:?} for range query, must be Scalar or instant Vector"
    ))
}

/// Returns the data of a range query, with no more than `limit` series.
pub(super) fn range(answers: Vec<(i64, PromqlValue)>, limit: usize) -> DataResult {
    let mut all: BTreeMap<Labels, Vec<(i64, f64)>> = BTreeMap::new();
    for (t, value) in answers {
        let samples = match value {
            PromqlValue::Scalar(value) => vec![VectorSample {
                labels: Labels::default(),
                value,
            }],
            PromqlValue::Vector(samples) => samples,
            PromqlValue::Text(_) => return Err(no_range("string")),
            PromqlValue::Matrix(_) => return Err(no_range("range vector")),
        };
        for sample in samples {
            all.entry(sample.labels)
                .or_default()
                .push((t, sample.value));
        }
    }
    let all = all.into_iter();
    let points = all.map(|(labels, points)| Points { labels, points });
    Ok(matrix(points.collect(), limit))
}
