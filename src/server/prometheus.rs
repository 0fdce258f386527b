//! Prometheus' read API below `/prometheus/api/v1/`: rollups as metrics.
//!
//! Answers and errors have the forms of Prometheus' own API, and all reads of one request see one
//! state of the store. `docs/clients/prometheus.md` describes the metrics.

mod cells;
mod families;
mod forms;
mod levels;
mod names;
mod parameters;
mod statement;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use axum::routing::get;
use serde_json::{Value as Json, json};
use storage::Snapshot;

use super::app::App;
use super::status::Who;
use crate::promql::{self, PromqlError, Query, Steps, Value};
use cells::Reader;
use families::{Family, families};
use parameters::Given;

/// Most steps of a range query, as in Prometheus.
const STEPS_MAX: u64 = 11_000;

/// Parameters of `query`.
pub(super) const QUERY: [&str; 6] = [
    "query",
    "time",
    "timeout",
    "limit",
    "lookback_delta",
    "stats",
];
/// Parameters of `query_range`.
pub(super) const RANGE: [&str; 8] = [
    "query",
    "start",
    "end",
    "step",
    "timeout",
    "limit",
    "lookback_delta",
    "stats",
];
/// Parameters of `series`, `labels` and the values of a label.
pub(super) const NAMES: [&str; 4] = ["match[]", "start", "end", "limit"];
/// Parameters of `metadata`.
pub(super) const METADATA: [&str; 3] = ["metric", "limit", "limit_per_metric"];
/// Parameters of `query_exemplars`.
pub(super) const EXEMPLARS: [&str; 3] = ["query", "start", "end"];
/// Parameters of `rules`.
pub(super) const RULES: [&str; 9] = [
    "type",
    "rule_name[]",
    "rule_group[]",
    "file[]",
    "match[]",
    "exclude_alerts",
    "group_limit",
    "group_next_token",
    "limit",
];

/// The result of a request: the member `data` of its answer.
type Answer = Result<Json, PromqlError>;

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
    async fn new(
        app: Arc<App>,
        who: Who,
        query: Option<String>,
        body: Body,
    ) -> Result<Self, PromqlError> {
        let given = Given::read(query.as_deref().unwrap_or_default(), body).await?;
        let snapshot = app.serving.store.snapshot();
        let families = families(&snapshot, &who)?;
        Ok(Self {
            app,
            who,
            given,
            snapshot,
            families,
        })
    }

    fn reader(&self) -> Reader<'_> {
        Reader {
            serving: &self.app.serving,
            who: &self.who,
            snapshot: Arc::clone(&self.snapshot),
        }
    }

    /// Evaluates a query. The computation has a place among the queries of the client, and runs on
    /// a thread that may block.
    async fn evaluate(
        &self,
        query: Query,
        steps: Steps,
    ) -> Result<(Query, Vec<(i64, Value)>), PromqlError> {
        let needs = query.needs(steps)?;
        let mut reads = Vec::with_capacity(needs.len());
        for need in &needs {
            reads.push(self.reader().read(&self.families, need).await?);
        }
        let place = self.who.share().work().await?;
        let work = move || {
            let _place = place;
            let answers = promql::evaluate(&query, steps, &needs, reads)?;
            Ok((query, answers))
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|_| PromqlError::execution("the evaluation failed; see the server's log"))?
    }
}

async fn query(
    State(app): State<Arc<App>>,
    who: Who,
    RawQuery(parameters): RawQuery,
    body: Body,
) -> Response {
    let answer = async {
        let asked = Asked::new(app, who, parameters, body).await?;
        let query = Query::parse(asked.given.needed("query")?)?;
        let t = asked.given.time("time")?.unwrap_or_else(parameters::now);
        let (start, end, step) = (t, t, parameters::DEFAULT_STEP_MS);
        let (_, mut answers) = asked.evaluate(query, Steps { start, end, step }).await?;
        let (_, value) = answers
            .pop()
            .ok_or_else(|| PromqlError::execution("no answer"))?;
        Ok(forms::instant(t, value))
    };
    forms::response(answer.await)
}

async fn query_range(
    State(app): State<Arc<App>>,
    who: Who,
    RawQuery(parameters): RawQuery,
    body: Body,
) -> Response {
    let answer = async {
        let asked = Asked::new(app, who, parameters, body).await?;
        let query = Query::parse(asked.given.needed("query")?)?;
        let steps = asked.given.steps()?;
        if steps.count() > STEPS_MAX {
            return Err(PromqlError::BadData(format!(
                "exceeded maximum resolution of {STEPS_MAX} points per timeseries. Try decreasing the query resolution (?step=XX)"
            )));
        }
        if query.is_matrix() {
            return Err(forms::no_range("range vector"));
        }
        let (_, answers) = asked.evaluate(query, steps).await?;
        forms::range(answers)
    };
    forms::response(answer.await)
}

async fn format_query(who: Who, RawQuery(parameters): RawQuery, body: Body) -> Response {
    let _anyone_who_reads = who;
    let answer = async {
        let given = Given::read(parameters.as_deref().unwrap_or_default(), body).await?;
        let query = Query::parse(given.needed("query")?)?;
        Ok(json!(query.formatted()))
    };
    forms::response(answer.await)
}

async fn metadata(
    State(app): State<Arc<App>>,
    who: Who,
    RawQuery(parameters): RawQuery,
    body: Body,
) -> Response {
    let answer = async {
        let asked = Asked::new(app, who, parameters, body).await?;
        let (metric, limit) = (asked.given.text("metric"), asked.given.limit()?);
        let families = asked.families.iter();
        let named = families.filter(|family| metric.is_none_or(|metric| family.name == metric));
        let entry = |family: &Family| {
            let entry = json!([{ "type": family.kind(), "help": family.help, "unit": "" }]);
            (family.name.clone(), entry)
        };
        let map: serde_json::Map<String, Json> = named.take(limit).map(entry).collect();
        Ok(Json::Object(map))
    };
    forms::response(answer.await)
}

/// Returns an empty list: an event is found by SQL, not by an exemplar.
async fn exemplars() -> Response {
    forms::response(Ok(json!([])))
}

/// Returns no rules: Prometheus, Mimir or Grafana evaluate them.
async fn rules() -> Response {
    forms::response(Ok(json!({ "groups": [] })))
}

/// Returns what Grafana reads to know the features of the server: those of Prometheus 3.
async fn buildinfo() -> Response {
    forms::response(Ok(json!({
        "version": "3.0.0",
        "revision": env!("CARGO_PKG_VERSION"),
        "branch": "",
        "buildUser": "logmill",
        "buildDate": "",
        "goVersion": "",
    })))
}

type LabelName = Path<String>;
