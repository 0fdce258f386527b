//! Metrics of requests: counts by method, route and status, counts of errors, and durations.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::Method;
use axum::response::Response;
use parking_lot::Mutex;

use super::Text;
use crate::server::answer::Code;

/// Upper ends of the histogram's buckets, seconds.
const SECONDS: [f64; 12] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0, 60.0,
];

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
    times: BTreeMap<(&'static str, &'static str), Times>,
}

#[derive(Debug, Default)]
struct Times {
    /// Count of each bucket alone; a duration beyond the last bucket is in `count` only.
    buckets: [u64; SECONDS.len()],
    count: u64,
    sum_s: f64,
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
        let took_s = took.as_secs_f64();
        let mut counts = self.0.lock();
        let requests = (method, route, response.status().as_u16());
        *counts.requests.entry(requests).or_default() += 1;
        if let Some(Code(code)) = response.extensions().get() {
            *counts.errors.entry(code).or_default() += 1;
        }
        let times = counts.times.entry((method, route)).or_default();
        if let Some(bucket) = SECONDS.iter().position(|end| took_s <= *end) {
            times.buckets[bucket] += 1;
        }
        times.count += 1;
        times.sum_s += took_s;
    }

    /// Writes all metrics of requests.
    pub(super) fn write(&self, text: &mut Text) {
        let counts = self.0.lock();
        let name = "logmill_http_requests_total";
        text.family(
            name,
            "counter",
            "Requests answered, by method, route and status.",
        );
        for ((method, route, status), count) in &counts.requests {
            let labels = format!("{{method=\"{method}\",route=\"{route}\",status=\"{status}\"}}");
            text.sample(name, &labels, count);
        }
        let name = "logmill_http_errors_total";
        text.family(
            name,
            "counter",
            "Errors answered, by the code in their body.",
        );
        for (code, count) in &counts.errors {
            text.sample(name, &format!("{{code=\"{code}\"}}"), count);
        }
        let name = "logmill_http_request_duration_seconds";
        let help = "Time from the head of a request to the beginning of its answer.";
        text.family(name, "histogram", help);
        for ((method, route), times) in &counts.times {
            let labels = format!("method=\"{method}\",route=\"{route}\"");
            let mut below = 0;
            for (end, count) in SECONDS.iter().zip(times.buckets) {
                below += count;
                let labels = format!("{{{labels},le=\"{end}\"}}");
                text.sample(&format!("{name}_bucket"), &labels, below);
            }
            let all = format!("{{{labels},le=\"+Inf\"}}");
            text.sample(&format!("{name}_bucket"), &all, times.count);
            text.sample(
                &format!("{name}_sum"),
                &format!("{{{labels}}}"),
                times.sum_s,
            );
            text.sample(
                &format!("{name}_count"),
                &format!("{{{labels}}}"),
                times.count,
            );
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
