//! Prometheus' read API: the calls of Grafana's data source, rights, bad input and limits, the
//! levels that answer, and a recomputation from raw events in Python.

mod calls;
mod levels;
mod limits;
mod recomputed;
mod rights;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::support::{Answer, Home, PAST_S, Server, line};

/// Events of [`served`], one every 20 seconds from [`PAST_S`] on.
const EVENTS: u64 = 900;
/// The end of the hour in which the last event of [`served`] lies, seconds since 1970.
const END_S: i64 = PAST_S + 5 * 3_600;
/// The content type of a form.
const FORM: [(&str, &str); 1] = [("content-type", "application/x-www-form-urlencoded")];

fn events(range: std::ops::Range<u64>) -> String {
    let one = |n: u64| {
        let status = [200, 200, 404, 200, 500, 200][n as usize % 6];
        let at_s = PAST_S + i64::try_from(n).expect("small") * 20;
        let host = format!("203.0.113.{}", n % 7);
        line(&host, at_s, &format!("/p{}", n % 5), status, n * 13)
    };
    range.map(one).collect()
}

/// Starts a server with an access log of five hours, some of it not sealed.
fn served(home: &Home) -> Server {
    let server = Server::start(&home.data);
    server.ingest("access", events(0..EVENTS - 50));
    server.seal();
    server.ingest("access", events(EVENTS - 50..EVENTS));
    server
}

/// Returns parameters as a query or a form has them.
fn form(parameters: &[(&str, &str)]) -> String {
    let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let pairs = parameters.iter();
    let pairs = pairs.map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    pairs.collect::<Vec<_>>().join("&")
}

fn path(call: &str, parameters: &[(&str, &str)]) -> String {
    format!("/prometheus/api/v1/{call}?{}", form(parameters))
}

/// Sends a call with its parameters in the address.
fn get(server: &Server, call: &str, parameters: &[(&str, &str)]) -> Answer {
    server.get(&path(call, parameters))
}

/// Sends a call with its parameters in a form.
fn post(server: &Server, call: &str, parameters: &[(&str, &str)]) -> Answer {
    let path = format!("/prometheus/api/v1/{call}");
    server.post(&path, &FORM, form(parameters).as_bytes())
}

/// Returns the member `data` of an answer.
#[track_caller]
fn data(answer: Answer) -> Value {
    let mut answer = answer.status(200).json();
    assert_eq!(answer["status"], "success", "{answer}");
    answer["data"].take()
}

/// Returns the result of a query at an instant.
#[track_caller]
fn asked(server: &Server, query: &str, at_s: i64) -> Value {
    let at = at_s.to_string();
    data(post(server, "query", &[("query", query), ("time", &at)]))["result"].take()
}

/// Returns the value of the one sample of a query at an instant; `None` without one.
#[track_caller]
fn value(server: &Server, query: &str, at_s: i64) -> Option<f64> {
    let result = asked(server, query, at_s);
    let samples = result.as_array().expect("a vector");
    assert!(samples.len() < 2, "{query}: {result}");
    let text = samples.first()?["value"][1].as_str().expect("a text");
    Some(text.parse().expect("a number"))
}

/// Checks that a call fails with a status and an error of Prometheus' form.
#[track_caller]
fn fails(answer: Answer, status: u16, kind: &str, said: &str) {
    let answer = answer.status(status).json();
    let (error, is_error) = (answer["error"].as_str(), answer["status"] == "error");
    assert!(is_error && answer["errorType"] == kind, "{answer}");
    assert!(
        error.is_some_and(|error| error.contains(said)),
        "{said}: {answer}"
    );
}
