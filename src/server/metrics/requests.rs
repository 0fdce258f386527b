//! Metrics of requests: counts by method, route and status, counts of errors, and durations.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::Method;
use axum::response::Response;
use parking_lot::Mutex;

use super::durations::Durations;
use super::exposition::Exposition;
use crate::server::answer::Code;

/// Requests since the start.
#[derive(Debug, Default)]
pub(in crate::server) struct Requests(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Counts by method, route and status.
    requests: BTreeMap<(&'static str, &'static str, u16), u64>,
    /// Counts by the error code in the body.
    errors: BTreeMap<&'static str, u64>,
    /// Durations by method and route.
    times: BTreeMap<(&'static str, &'static str), Durations>,
}

impl Requests {
    /// Counts a response that begins `took` after its request.
    pub(in crate::server) fn count(
        &self,
        method: &Method,
        route: &'static str,
        response: &Response,
        took: Duration,
    ) {
        let method = known(method);
        let mut counts = self.0.lock();
        let requests = (method, route, response.status().as_u16());
        *counts.requests.entry(requests).or_default() += 1;
        if let Some(Code(code)) = response.extensions().get() {
            *counts.errors.entry(code).or_default() += 1;
        }
        let times = counts.times.entry((method, route)).or_default();
        times.add(took);
    }

    /// Writes all metrics of requests.
    pub(super) fn write(&self, text: &mut Exposition) {
        let counts = self.0.lock();
        let name = "logmill_http_requests_total";
        text.family(
            name,
            "counter",
            "Requests answered, by method, route and status.",
        );
        for ((method, route, status), count) in &counts.requests {
            let status = status.to_string();
            let labels = [("method", *method), ("route", *route), ("status", &*status)];
            text.sample(&labels, count);
        }
        let name = "logmill_http_errors_total";
        text.family(
            name,
            "counter",
            "Errors answered, by the code in their body.",
        );
        for (code, count) in &counts.errors {
            text.sample(&[("code", code)], count);
        }
        let name = "logmill_http_request_duration_seconds";
        let help = "Time from the head of a request to the beginning of its answer.";
        text.family(name, "histogram", help);
        for ((method, route), times) in &counts.times {
            text.durations(&[("method", method), ("route", route)], times);
        }
    }
}

/// Returns the method as metrics name it. A client may invent methods; it must not create series.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        Method::PATCH => "PATCH",
        _ => "other",
    }
}
