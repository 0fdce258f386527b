//! A request with the state of the store that it reads, and its queries.

use std::sync::Arc;

use arrow::array::RecordBatch;
use axum::http::StatusCode;
use futures::StreamExt;
use query::logql::{
    CELLS_MAX, Expr, LogEntry, LogQuery, LogRange, Metric, MetricValue, SeriesPieces, Steps,
    leaves, parse,
};
use query::{QueryStats, Question, Session};
use serde_json::Value as Json;
use storage::Snapshot;

use super::Lines;
use super::parameters::{Given, Refused, wrong};
use crate::server::answer;
use crate::server::app::App;
use crate::server::read_call::ReadCall;
use crate::server::status::Who;

/// Most range aggregations of a query: each is a read of raw events.
const LEAVES_MAX: usize = 32;

/// The result of a request: the member `data` of its answer.
pub(super) type LokiAnswer = Refused<Json>;

/// A request: its client, its parameters, and the state that it reads.
pub(super) struct LokiRequest {
    pub(super) app: Arc<App>,
    pub(super) who: Who,
    pub(super) given: Given,
    pub(super) snapshot: Arc<Snapshot>,
}

fn refused(error: &query::Error) -> Box<axum::response::Response> {
    Box::new(answer::of_query(error))
}

/// Parses the selector `{…}` of a request; all streams without one.
pub(super) fn selector(text: Option<&str>) -> Refused<LogQuery> {
    match text.map(parse) {
        None => Ok(LogQuery::default()),
        Some(Err(error)) => Err(refused(&error)),
        Some(Ok(Expr::Log(query))) => Ok(query),
        Some(Ok(Expr::Metric(_))) => Err(wrong("query: write a selector such as {stream=\"web\"}")),
    }
}

impl LokiRequest {
    pub(super) async fn new(call: ReadCall) -> Refused<Self> {
        let (app, who, given) = call.read().await?;
        Ok(Self {
            snapshot: app.serving.store.snapshot(),
            app,
            who,
            given: Given(given),
        })
    }

    /// Parses the query of the request.
    pub(super) fn expr(&self) -> Refused<Expr> {
        parse(self.given.needed("query")?).map_err(|e| refused(&e))
    }

    /// Parses the selector of the request; all streams without one. Its stages are left out.
    pub(super) fn selector(&self) -> Refused<LogQuery> {
        let mut query = selector(self.given.text("query"))?;
        query.stages.clear();
        Ok(query)
    }

    async fn ask(&self, question: Question) -> query::Result<query::Answer> {
        let snapshot = Arc::clone(&self.snapshot);
        let asked = self
            .app
            .serving
            .ask_at(&self.who, snapshot, Session::default(), question);
        asked.await
    }

    /// Returns the rows of a question.
    pub(super) async fn rows(&self, question: Question) -> Refused<Vec<RecordBatch>> {
        let collected = async { self.ask(question).await?.collect().await };
        let (_, batches, _) = collected.await.map_err(|e| refused(&e))?;
        Ok(batches)
    }

    /// Returns the lines of a query, in order.
    pub(super) async fn lines(
        &self,
        query: &LogQuery,
        range: LogRange,
    ) -> Refused<(Lines, QueryStats)> {
        let collected = async {
            let answer = self.ask(query.question(range)?).await?;
            let (_, batches, stats) = answer.collect().await?;
            Ok((LogEntry::read(&batches)?, stats))
        };
        collected.await.map_err(|e: query::Error| refused(&e))
    }

    /// Evaluates a query. The arithmetic has a place among the queries of the client, and runs on
    /// a thread that may block.
    pub(super) async fn evaluate(
        &self,
        metric: Metric,
        steps: Steps,
    ) -> Refused<(MetricValue, QueryStats)> {
        let ranges = leaves(&metric);
        if ranges.len() > LEAVES_MAX {
            let message = format!(
                "the query has {} range aggregations; the limit is {LEAVES_MAX}",
                ranges.len()
            );
            return Err(wrong(&message));
        }
        let (mut read, mut cells) = (Vec::with_capacity(ranges.len()), 0_usize);
        let mut all = QueryStats::default();
        for (range, labels) in ranges {
            let mut pieces = SeriesPieces::new(range, steps);
            let collected = async {
                let mut answer = self.ask(range.question(steps, &labels)).await?;
                while let Some(batch) = answer.stream.next().await {
                    pieces.add(&batch?)?;
                    tokio::task::yield_now().await;
                }
                Ok(answer.figures())
            };
            let stats = collected.await.map_err(|e: query::Error| refused(&e))?;
            all.rows_examined += stats.rows_examined;
            all.bytes_read += stats.bytes_read;
            all.elapsed_ms += stats.elapsed_ms;
            cells = cells.saturating_add(pieces.cells());
            if cells > 2 * CELLS_MAX {
                let message = format!("the query has more than {} points", 2 * CELLS_MAX);
                let status = StatusCode::UNPROCESSABLE_ENTITY;
                let hint = Some("group by fewer labels, or make the step longer");
                return Err(Box::new(answer::error(status, "too_large", &message, hint)));
            }
            read.push(pieces.finish());
        }
        let place = self.who.share().work().await.map_err(|e| refused(&e))?;
        let work = move || {
            let _place = place;
            metric.evaluate(steps, &mut read.into_iter())
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(Ok(value)) => Ok((value, all)),
            Ok(Err(error)) => Err(refused(&error)),
            Err(_) => Err(Box::new(answer::error(
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal",
                "the evaluation failed; see the server's log",
                None,
            ))),
        }
    }
}
