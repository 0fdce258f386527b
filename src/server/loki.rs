//! Loki's read API below `/loki/api/v1/`: log lines, series, labels and live tail for Grafana's
//! Loki data source.
//!
//! The language is the subset of LogQL in `query::logql`. Answers have the forms of Loki's own API,
//! errors have a member `message`, and all reads of one request see one state of the store.
//! `docs/clients/loki.md` describes labels, the subset and the parameters.

mod asked;
mod detected;
mod forms;
mod live;
mod names;
mod parameters;
mod volume;

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::get;
use query::logql::{Expr, LogEntry, LogRange, Steps, parse};
use serde_json::{Value as Json, json};

use super::answer;
use super::app::App;
use super::read_call::ReadCall;
use asked::LokiRequest;
pub(in crate::server) use forms::{tail_message, with_message};

/// Parameters of `query`.
pub(super) const QUERY: [&str; 4] = ["query", "time", "limit", "direction"];
/// Parameters of `query_range`.
pub(super) const RANGE: [&str; 8] = [
    "query",
    "start",
    "end",
    "since",
    "step",
    "interval",
    "limit",
    "direction",
];
/// Parameters of `labels`, the values of a label, and `detected_labels`.
pub(super) const NAMES: [&str; 4] = ["query", "start", "end", "since"];
/// Parameters of `series`.
pub(super) const SERIES: [&str; 5] = ["match[]", "match", "start", "end", "since"];
/// Parameters of the numbers of events of a selector.
pub(super) const STATS: [&str; 4] = ["query", "start", "end", "since"];
/// Parameters of volumes of a range.
pub(super) const VOLUME: [&str; 7] = [
    "query",
    "start",
    "end",
    "since",
    "limit",
    "targetLabels",
    "aggregateBy",
];
/// Parameters of volumes at the steps of a range.
pub(super) const VOLUME_RANGE: [&str; 8] = [
    "query",
    "start",
    "end",
    "since",
    "step",
    "limit",
    "targetLabels",
    "aggregateBy",
];
/// Parameters of `detected_fields` and of the values of a detected field.
pub(super) const FIELDS: [&str; 7] = [
    "query",
    "start",
    "end",
    "since",
    "step",
    "line_limit",
    "limit",
];
/// Parameters of `patterns`.
pub(super) const PATTERNS: [&str; 5] = ["query", "start", "end", "since", "step"];
/// Parameters of `tail`.
pub(super) const TAIL: [&str; 4] = ["query", "start", "limit", "delay_for"];

/// Returns the routes.
pub(super) fn routes() -> Router<Arc<App>> {
    let router = Router::new()
        .route("/query", get(query).post(query))
        .route("/query_range", get(query_range).post(query_range))
        .route("/labels", get(names::labels).post(names::labels))
        .route("/label", get(names::labels).post(names::labels))
        .route("/label/{name}/values", get(names::values))
        .route("/series", get(names::series).post(names::series))
        .route("/index/stats", get(volume::stats).post(volume::stats))
        .route("/index/volume", get(volume::volume).post(volume::volume))
        .route(
            "/index/volume_range",
            get(volume::volume_range).post(volume::volume_range),
        )
        .route("/detected_labels", get(detected::labels))
        .route("/detected_fields", get(detected::fields))
        .route("/detected_field/{name}/values", get(detected::values))
        .route("/patterns", get(patterns))
        .route("/status/buildinfo", get(buildinfo))
        .route("/tail", get(live::tail));
    Router::new().nest("/loki/api/v1", router)
}

async fn query(call: ReadCall) -> Response {
    let answer = async {
        let asked = LokiRequest::new(call).await?;
        let at_ns = asked.given.time("time")?.unwrap_or_else(parameters::now);
        asked.given.limit()?;
        asked.given.direction()?;
        match asked.expr()? {
            Expr::Log(_) => Err(parameters::wrong(
                "log queries have no instant: ask query_range, in Grafana the type Range",
            )),
            Expr::Metric(metric) => {
                let (value, stats) = asked.evaluate(metric, Steps::instant(at_ns)).await?;
                Ok(forms::instant(at_ns, value, &stats))
            }
        }
    };
    forms::data(answer.await)
}

async fn query_range(headers: HeaderMap, call: ReadCall) -> Response {
    let answer = async {
        let asked = LokiRequest::new(call).await?;
        let given = &asked.given;
        let (start_ns, end_ns) = given.range()?;
        let (limit, direction) = (given.limit()?, given.direction()?);
        let step_ns = given.step((start_ns, end_ns))?;
        if given.duration("interval")?.is_some_and(|ns| ns != 0) {
            return Err(parameters::wrong("interval is not supported; leave it out"));
        }
        match asked.expr()? {
            Expr::Log(log) => {
                let range = LogRange {
                    start_ns,
                    end_ns,
                    limit,
                    direction,
                };
                let (lines, stats) = asked.lines(&log, range).await?;
                let is_categorized = forms::is_categorized(&headers);
                Ok(forms::streams(lines, is_categorized, &stats))
            }
            Expr::Metric(metric) => {
                let steps = Steps::new(start_ns, end_ns, step_ns);
                let steps = steps.map_err(|e| parameters::wrong(&e.to_string()))?;
                // The bars of a log volume are those of a histogram, and come from rollups.
                let metric = match forms::is_log_volume(&headers) {
                    true => metric.half_open(),
                    false => metric,
                };
                let (value, stats) = asked.evaluate(metric, steps).await?;
                Ok(forms::range(steps, value, &stats))
            }
        }
    };
    forms::data(answer.await)
}

/// Returns no patterns: nothing here groups lines by their form.
async fn patterns(call: ReadCall) -> Response {
    let answer = async {
        let given = parameters::Given(call.read().await?.2);
        let range = given.range()?;
        given.step(range)?;
        parse(given.needed("query")?).map_err(|e| Box::new(answer::of_query(&e)))?;
        Ok(json!([]))
    };
    forms::data(answer.await)
}

/// Returns what Grafana reads to know the features of the server: those of Loki 3.
async fn buildinfo() -> Response {
    let info: Json = json!({
        "version": "3.0.0",
        "revision": env!("CARGO_PKG_VERSION"),
        "branch": "",
        "buildUser": "logmill",
        "buildDate": "",
        "goVersion": "",
    });
    answer::json(StatusCode::OK, &info)
}

/// Lines with their times in nanoseconds since 1970.
type Lines = Vec<(i64, LogEntry)>;
