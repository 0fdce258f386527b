//! Numbers of events and bytes of a selector, as Grafana shows them beside a query.

use std::collections::{BTreeMap, BTreeSet};

use axum::response::Response;
use query::QueryStats;
use query::logql::{
    LabelGrouping, Labels, LogQuery, Metric, MetricValue, RangeAggregation, RangeFunction, Series,
    Steps, VectorAggregation,
};
use serde_json::json;
use storage::Name;

use super::asked::LokiRequest;
use super::forms;
use super::names::{is_label, sets};
use super::parameters::{LIMIT_MAX, Refused, wrong};
use crate::server::read_call::ReadCall;

/// Series of an answer without `limit`, as in Loki.
const LIMIT_DEFAULT: usize = 100;
const STREAM: &str = "stream";

/// Returns the number of events, and the bytes of the parts that hold them, as far as they are
/// sealed: a hint of the cost of a query.
pub(super) async fn stats(call: ReadCall) -> Response {
    let answer = async {
        let asked = LokiRequest::new(call).await?;
        let range = asked.given.range()?;
        asked.given.needed("query")?;
        let sets = sets(&asked, &asked.selector()?, &[STREAM], range).await?;
        let (mut entries, mut bytes, mut chunks) = (0, 0.0, 0);
        for (labels, count) in &sets {
            entries += count;
            let name = labels.get(STREAM).and_then(|name| Name::new(name).ok());
            let Some(name) = name else { continue };
            let parts = asked.snapshot.manifest().parts_of(&name);
            let (mut rows, mut stored) = (0, 0);
            for part in parts {
                chunks += 1;
                rows += part.rows;
                stored += part.file.len;
            }
            bytes += *count as f64 * stored as f64 / rows.max(1) as f64;
        }
        Ok(json!({
            "streams": sets.len(),
            "chunks": chunks,
            "entries": entries,
            "bytes": bytes as u64,
        }))
    };
    forms::bare(answer.await)
}

/// Returns `sum by (labels) (bytes_over_time({…}[range]))`.
fn bytes(query: LogQuery, labels: Vec<String>, range_ns: i64) -> Metric {
    let range = RangeAggregation {
        function: RangeFunction::Bytes,
        quantile: None,
        of: query,
        unwrap: None,
        range_ns,
        offset_ns: 0,
        grouping: None,
    };
    Metric::Aggregate {
        function: VectorAggregation::Sum,
        count: None,
        grouping: Some(LabelGrouping {
            is_without: false,
            labels,
        }),
        of: Box::new(Metric::Range(Box::new(range))),
    }
}

/// Returns the labels by which volumes are added up: those of the request, or of the selector.
fn target_labels(asked: &LokiRequest, query: &LogQuery) -> Refused<Vec<String>> {
    let labels: BTreeSet<String> = match asked.given.text("targetLabels") {
        Some(text) => text
            .split(',')
            .map(|label| label.trim().to_owned())
            .collect(),
        None => query.matchers.iter().map(|m| m.label.clone()).collect(),
    };
    match labels.iter().find(|label| !is_label(label)) {
        Some(wrong_one) => Err(wrong(&format!("targetLabels: {wrong_one:?} is no label"))),
        None => Ok(labels.into_iter().collect()),
    }
}

/// Evaluates the volumes at some steps; the greatest first, at most `limit`.
async fn volumes(
    asked: &LokiRequest,
    steps: Steps,
    range_ns: i64,
) -> Refused<(Vec<Series>, QueryStats)> {
    asked.given.needed("query")?;
    let query = asked.selector()?;
    let limit = asked.given.number("limit", LIMIT_DEFAULT, LIMIT_MAX)?;
    let by_label = match asked.given.text("aggregateBy") {
        None | Some("series") => false,
        Some("labels") => true,
        Some(_) => return Err(wrong("aggregateBy: write series or labels")),
    };
    let labels = target_labels(asked, &query)?;
    let metric = bytes(query, labels, range_ns.max(1));
    let (value, stats) = asked.evaluate(metric, steps).await?;
    let MetricValue::Matrix(mut all) = value else {
        return Ok((Vec::new(), stats));
    };
    all.retain(|series| !series.labels.is_empty());
    if by_label {
        all = labels_alone(all, steps);
    }
    let total = |series: &Series| series.points.iter().flatten().sum::<f64>();
    all.sort_by(|a, b| total(b).total_cmp(&total(a)));
    all.truncate(limit);
    Ok((all, stats))
}

/// Adds up the volumes of each label, whatever its value.
fn labels_alone(all: Vec<Series>, steps: Steps) -> Vec<Series> {
    let mut sums: BTreeMap<String, Vec<Option<f64>>> = BTreeMap::new();
    for series in all {
        for label in series.labels.keys() {
            let sum = sums.entry(label.clone());
            let sum = sum.or_insert_with(|| vec![None; steps.count]);
            for (sum, point) in sum.iter_mut().zip(&series.points) {
                if let Some(point) = point {
                    *sum = Some(sum.unwrap_or(0.0) + point);
                }
            }
        }
    }
    let sums = sums.into_iter().map(|(label, points)| Series {
        labels: Labels::from([(label, String::new())]),
        points,
    });
    sums.collect()
}

/// Returns the bytes of lines of a range, by labels.
pub(super) async fn volume(call: ReadCall) -> Response {
    let answer = async {
        let asked = LokiRequest::new(call).await?;
        let (start_ns, end_ns) = asked.given.range()?;
        let range_ns = end_ns.saturating_sub(start_ns);
        let (all, stats) = volumes(&asked, Steps::instant(end_ns), range_ns).await?;
        Ok(forms::instant(end_ns, MetricValue::Matrix(all), &stats))
    };
    forms::data(answer.await)
}

/// Returns the bytes of lines of each step of a range, by labels.
pub(super) async fn volume_range(call: ReadCall) -> Response {
    let answer = async {
        let asked = LokiRequest::new(call).await?;
        let (start_ns, end_ns) = asked.given.range()?;
        let step_ns = asked.given.step((start_ns, end_ns))?;
        let steps = Steps::new(start_ns, end_ns, step_ns);
        let steps = steps.map_err(|e| wrong(&e.to_string()))?;
        let (all, stats) = volumes(&asked, steps, step_ns).await?;
        Ok(forms::range(steps, MetricValue::Matrix(all), &stats))
    };
    forms::data(answer.await)
}
