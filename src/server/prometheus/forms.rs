//! Answers and errors in the forms of Prometheus' API.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::Response;
use query::Kind;
use serde_json::{Value as Json, json};

use super::Answer;
use crate::promql::{Labels, Points, PromqlError, Sample, Value, number_text};
use crate::server::answer::{self, Code};

/// Returns the response of a request.
pub(super) fn response(answer: Answer) -> Response {
    match answer {
        Ok(data) => answer::json(
            StatusCode::OK,
            &json!({ "status": "success", "data": data }),
        ),
        Err(error) => failed(&error),
    }
}

fn failed(error: &PromqlError) -> Response {
    let (status, kind, message) = match error {
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
    let body = json!({ "status": "error", "errorType": kind, "error": message });
    let mut response = answer::json(status, &body);
    response.extensions_mut().insert(Code(kind));
    if matches!(kind, "unavailable" | "canceled") {
        answer::retry_soon(&mut response);
    }
    response
}

fn metric(labels: &Labels) -> Json {
    let labels = labels.iter();
    let members = labels.map(|(name, value)| (name.to_owned(), Json::from(value)));
    Json::Object(members.collect())
}

/// Returns a time and a value: seconds as a number, and a text.
fn point((t, value): (i64, f64)) -> Json {
    let seconds = match t % 1_000 {
        0 => json!(t / 1_000),
        _ => json!(t as f64 / 1e3),
    };
    json!([seconds, number_text(value)])
}

fn matrix(points: Vec<Points>) -> Json {
    let series = points.into_iter().map(|one| {
        let values: Vec<Json> = one.points.into_iter().map(point).collect();
        json!({ "metric": metric(&one.labels), "values": values })
    });
    json!({ "resultType": "matrix", "result": series.collect::<Vec<Json>>() })
}

/// Returns the data of an instant query.
pub(super) fn instant(t: i64, value: Value) -> Json {
    match value {
        Value::Scalar(value) => json!({ "resultType": "scalar", "result": point((t, value)) }),
        Value::Text(text) => {
            let [time, _] = [point((t, 0.0))[0].clone(), Json::Null];
            json!({ "resultType": "string", "result": [time, text] })
        }
        Value::Vector(samples) => {
            let samples = samples.into_iter().map(|sample| {
                let value = point((t, sample.value));
                json!({ "metric": metric(&sample.labels), "value": value })
            });
            json!({ "resultType": "vector", "result": samples.collect::<Vec<Json>>() })
        }
        Value::Matrix(points) => matrix(points),
    }
}

/// Returns the error of an expression that has no value at a step of a range.
pub(super) fn no_range(kind: &str) -> PromqlError {
    PromqlError::BadData(format!(
        "invalid parameter \"query\": invalid expression type {kind:?} for range query, must be Scalar or instant Vector"
    ))
}

/// Returns the data of a range query.
pub(super) fn range(answers: Vec<(i64, Value)>) -> Answer {
    let mut all: BTreeMap<Labels, Vec<(i64, f64)>> = BTreeMap::new();
    for (t, value) in answers {
        let samples = match value {
            Value::Scalar(value) => vec![Sample {
                labels: Labels::default(),
                value,
            }],
            Value::Vector(samples) => samples,
            Value::Text(_) => return Err(no_range("string")),
            Value::Matrix(_) => return Err(no_range("range vector")),
        };
        for sample in samples {
            all.entry(sample.labels)
                .or_default()
                .push((t, sample.value));
        }
    }
    let all = all.into_iter();
    let points = all.map(|(labels, points)| Points { labels, points });
    Ok(matrix(points.collect()))
}
