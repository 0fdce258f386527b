//! Loki's read API with the calls of Grafana's Loki data source.
//!
//! Each call below names its origin in Grafana. `tests/clients/loki.py` evaluates queries on raw
//! events with nothing of the program.

mod calls;
mod limits;
mod oracle;
pub(crate) mod socket;
mod tail;
mod volume;

use serde_json::Value;

use crate::support::{Answer, Home, PAST_S, Server, line};

const EVENTS: i64 = 600;

/// Returns lines of an access log: one every seven seconds from [`PAST_S`] on.
fn access(range: std::ops::Range<i64>) -> String {
    let line = |n: i64| {
        let (host, status) = (n % 5, [200, 200, 304, 404, 500][n as usize % 5]);
        let path = format!("/page/{}", n % 3);
        line(
            &format!("203.0.113.{host}"),
            PAST_S + n * 7,
            &path,
            status,
            n as u64 * 11,
        )
    };
    range.map(line).collect()
}

/// Serves an access log, most of it sealed.
fn served(home: &Home) -> Server {
    let server = Server::start(&home.data);
    server.ingest("access", access(0..EVENTS - 50));
    server.seal();
    server.ingest("access", access(EVENTS - 50..EVENTS));
    server
}

/// Percent-encodes the value of a parameter.
fn encoded(text: &str) -> String {
    text.bytes().map(|b| format!("%{b:02X}")).collect()
}

/// Returns the path of a call with parameters.
fn call(path: &str, parameters: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = parameters
        .iter()
        .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
        .collect();
    format!("/loki/api/v1/{path}?{}", pairs.join("&"))
}

/// Sends a call; returns the answer with status 200.
#[track_caller]
fn get(server: &Server, path: &str, parameters: &[(&str, &str)]) -> Value {
    server.get(&call(path, parameters)).status(200).json()
}

/// Returns the nanoseconds of a second after [`PAST_S`].
fn ns(after_s: i64) -> String {
    format!("{}000000000", PAST_S + after_s)
}

/// Returns the message of a refused call.
#[track_caller]
fn message(answer: Answer, status: u16) -> String {
    let body = answer.status(status).json();
    assert_eq!(body["status"], "error", "{body}");
    body["message"].as_str().expect("a message").to_owned()
}

/// Returns the sum of all values of a matrix.
#[track_caller]
fn total(answer: &Value) -> i64 {
    let result = answer["data"]["result"].as_array().expect("series");
    let values = result
        .iter()
        .flat_map(|s| s["values"].as_array().expect("values"));
    let values = values.map(|v| {
        v[1].as_str()
            .expect("a text")
            .parse::<f64>()
            .expect("a number")
    });
    values.sum::<f64>() as i64
}
