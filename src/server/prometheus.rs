//! Prometheus' read API below `/prometheus/api/v1/`: rollups as metrics.
//!
//! Answers and errors have the forms of Prometheus' own API, and all reads of one request see one
//! state of the store. `docs/clients/prometheus.md` describes the metrics.

mod cells;
mod families;
mod forms;
mod histograms;
mod levels;
mod names;
mod parameters;
mod refusals;
mod rows;
mod statement;

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::get;
use serde_json::{Value as Json, json};
use storage::Snapshot;

use super::app::App;
use super::read_call::ReadCall;
use super::status::Who;
use crate::promql::{self, PromqlError, PromqlValue, Query, Steps};
use cells::Reader;
use families::{Family, families};
use parameters::Given;
pub(super) use refusals::in_form;

/// Most steps of a range query, as in Prometheus.
const STEPS_MAX: u64 = 11_000;

/// Parameters of `query`.
pub(super) const QUERY: [&str; 5] = ["query", "time", "timeout", "limit", "stats"];
/// Parameters of `query_range`.
pub(super) const RANGE: [&str; 7] = ["query", "start", "end", "step", "timeout", "limit", "stats"];
/// Parameters of `format_query`.
pub(super) const FORMAT: [&str; 1] = ["query"];
/// Parameters of `series`, `labels` and the values of a label.
pub(super) const NAMES: [&str; 4] = ["match[]", "start", "end", "limit"];
/// Parameters of `metadata`.
pub(super) const METADATA: [&str; 3] = ["metric", "limit", "limit_per_metric"];
/// Parameters of `query_exemplars`.
pub(super) const EXEMPLARS: [&str; 3] = ["query", "start", "end"];
/// Parameters of `rules`.
pub(super) const RULES: [&str; 8] = [
    "type",
    "rule_name[]",
    "rule_group[]",
    "file[]",
    "match[]",
    "exclude_alerts",
    "group_limit",
    "group_next_token",
];

/// The member `data` of an answer, as JSON text.
struct Data {
    json: Vec<u8>,
    /// A limit of the request has cut it.
    is_cut: bool,
}

/// The result of a request.
type DataResult = Result<Data, PromqlError>;

/// Returns the routes.
pub(super) fn routes() -> Router<Arc<App>> {
    let router = Router::new()
        .route("/query", get(query).post(query))
        .route("/query_range", get(query_range).post(query_range))
        .route("/format_query", get(format_query).post(format_query))
        .route("/series", get(names::series).post(names::series))
        .route("/labels", get(names::labels).post(names::labels))
        .route("/label/{name}/values", get(names::values))
        .route("/metadata", get(metadata))
        .route("/query_exemplars", get(exemplars).post(exemplars))
        .route("/rules", get(rules))
        .route("/status/buildinfo", get(buildinfo));
    Router::new().nest("/prometheus/api/v1", router)
}

/// A request: its client, its parameters, the state that it reads, and the metrics in it.
struct Asked {
    app: Arc<App>,
    who: Who,
    given: Given,
    snapshot: Arc<Snapshot>,
    families: Vec<Family>,
}

impl Asked {
    async fn new(call: ReadCall) -> Result<Self, PromqlError> {
        let (app, who, given) = call.read().await?;
        let snapshot = app.serving.store.snapshot();
        let families = families(&snapshot, &who)?;
        Ok(Self {
            app,
            who,
            given: Given(given),
            snapshot,
            families,
        })
    }

    fn reader(&self) -> Reader<'_> {
        Reader::new(&self.app.serving, &self.who, Arc::clone(&self.snapshot))
    }

    /// Evaluates a query. The computation has a place among the queries of the client, and runs on
    /// a thread that may block.
    async fn evaluate(
        &self,
        query: Query,
        steps: Steps,
    ) -> Result<Vec<(i64, PromqlValue)>, PromqlError> {
        let until = self.given.until(self.app.serving.config.query.time_max.0)?;
        let work = async {
            let needs = query.needs(steps)?;
            let (reader, mut reads) = (self.reader(), Vec::with_capacity(needs.len()));
            for need in &needs {
                reads.push(reader.read(&self.families, need).await?);
            }
            let place = self.who.share().work().await?;
            let work = move || {
                let _place = place;
                promql::evaluate(&query, steps, &needs, reads, until)
            };
            let done = tokio::task::spawn_blocking(work).await;
            done.map_err(|_| PromqlError::execution("the evaluation failed; see the server's log"))?
        };
        match until {
            None => work.await,
            Some(until) => match tokio::time::timeout_at(until.into(), work).await {
                Ok(done) => done,
                Err(_) => Err(PromqlError::Timeout),
            },
        }
    }
}

async fn query(call: ReadCall) -> Response {
    let answer = async {
        let asked = Asked::new(call).await?;
        let query = Query::parse(asked.given.needed("query")?)?;
        let t = asked.given.time("time")?.unwrap_or_else(parameters::now);
        let limit = asked.given.limit("limit")?;
        let steps = Steps {
            start: t,
            end: t,
            step: 1,
        };
        let mut answers = asked.evaluate(query, steps).await?;
        match answers.pop() {
            Some((t, value)) => Ok(forms::instant(t, value, limit)),
            None => Err(PromqlError::execution("BUG: an instant has no answer")),
        }
    };
    forms::response(answer.await)
}

async fn query_range(call: ReadCall) -> Response {
    let answer = async {
        let asked = Asked::new(call).await?;
        let query = Query::parse(asked.given.needed("query")?)?;
        let (steps, limit) = (asked.given.steps()?, asked.given.limit("limit")?);
        if steps.count() > STEPS_MAX {
            return Err(PromqlError::BadData(format!(
                "exceeded maximum resolution of {STEPS_MAX} points per timeseries. Try decreasing the query resolution (?step=XX)"
            )));
        }
        if query.is_matrix() {
            return Err(forms::no_range("range vector"));
        }
        forms::range(asked.evaluate(query, steps).await?, limit)
    };
    forms::response(answer.await)
}

async fn format_query(call: ReadCall) -> Response {
    let answer = async {
        let (_, _, given) = call.read().await?;
        let query = Query::parse(given.needed("query")?)?;
        forms::data(&json!(query.formatted()), false)
    };
    forms::response(answer.await)
}

async fn metadata(call: ReadCall) -> Response {
    let answer = async {
        let asked = Asked::new(call).await?;
        let (metric, limit) = (asked.given.text("metric"), asked.given.limit("limit")?);
        // A metric has one entry.
        asked.given.limit("limit_per_metric")?;
        let families = asked.families.iter();
        let named = families.filter(|family| metric.is_none_or(|metric| family.name == metric));
        let entry = |family: &Family| {
            let entry = json!([{ "type": family.kind(), "help": family.help, "unit": "" }]);
            (family.name.clone(), entry)
        };
        let map: serde_json::Map<String, Json> = named.take(limit).map(entry).collect();
        forms::data(&Json::Object(map), false)
    };
    forms::response(answer.await)
}

/// Returns an empty list: an event is found by SQL, not by an exemplar.
async fn exemplars(call: ReadCall) -> Response {
    let answer = async {
        let given = Given(call.read().await?.2);
        Query::parse(given.needed("query")?)?;
        given.time("start")?;
        given.time("end")?;
        forms::data(&json!([]), false)
    };
    forms::response(answer.await)
}

/// Returns no rules: Prometheus, Mimir or Grafana evaluate them.
async fn rules() -> Response {
    forms::response(forms::data(&json!({ "groups": [] }), false))
}

/// Returns what Grafana reads to know the features of the server: those of Prometheus 3.
async fn buildinfo() -> Response {
    let info = json!({
        "version": "3.0.0",
        "revision": env!("CARGO_PKG_VERSION"),
        "branch": "",
        "buildUser": "logmill",
        "buildDate": "",
        "goVersion": "",
    });
    forms::response(forms::data(&info, false))
}

type LabelName = Path<String>;
