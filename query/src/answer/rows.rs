//! The answer to a query: its rows as a stream, and its figures.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use tokio::time::Instant;

use crate::answer::output::size;
use crate::answer::query_stats::{QueryStats, Stage, operators};
use crate::error::{Error, Result};
use crate::run::limits::Limits;
use crate::run::occupancy::Occupied;
use crate::run::query_threads::Driven;
use crate::run::registry::{End, Progress};
use crate::tables::catalog::Catalog;

/// The answer to a query: its columns and a stream of rows.
#[derive(Debug)]
pub struct Answer {
    /// Its number in the registry.
    pub id: u64,
    /// Its columns.
    pub schema: SchemaRef,
    /// Its rows. Dropping it cancels the query.
    pub stream: AnswerStream,
    pub(crate) handle: QueryStatsHandle,
}

impl Answer {
    /// What was looked at so far; complete once the stream has ended.
    pub fn figures(&self) -> QueryStats {
        self.handle.figures()
    }

    /// A handle on the figures that outlives the answer.
    pub fn stats_handle(&self) -> QueryStatsHandle {
        self.handle.clone()
    }

    /// The physical plan that runs.
    pub fn plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.handle.plan
    }

    /// Takes the whole answer.
    ///
    /// # Errors
    /// As the stream's items.
    pub async fn collect(mut self) -> Result<(SchemaRef, Vec<RecordBatch>, QueryStats)> {
        let mut batches = Vec::new();
        while let Some(batch) = self.stream.next().await {
            batches.push(batch?);
        }
        let figures = self.figures();
        Ok((self.schema, batches, figures))
    }
}

/// Gives the figures of one query.
#[derive(Debug, Clone)]
pub struct QueryStatsHandle {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) reads_tables: bool,
}

impl QueryStatsHandle {
    /// The physical plan with its metrics, as text of several lines.
    pub fn plan_text(&self) -> String {
        DisplayableExecutionPlan::with_metrics(&*self.plan)
            .indent(true)
            .to_string()
    }

    /// What was looked at so far; complete once the stream has ended.
    pub fn figures(&self) -> QueryStats {
        let mut figures = QueryStats::gather(&self.plan, self.reads_tables);
        figures.rows_returned = self.progress.rows.load(Ordering::Relaxed);
        figures.elapsed_ms = self.progress.elapsed_ms();
        figures.operators = operators(&*self.plan);
        figures.stages = self.progress.stages();
        figures
    }
}

/// The rows of an answer.
pub struct AnswerStream {
    pub(crate) inner: Option<Driven>,
    /// Ends when somebody stops it.
    pub(crate) ended: BoxFuture<'static, End>,
    /// Has names for hints.
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) id: u64,
    pub(crate) limits: Limits,
    /// Ends when its time is over.
    pub(crate) over: BoxFuture<'static, ()>,
    /// When that is.
    pub(crate) until: Option<Instant>,
    /// Until it has ended.
    pub(crate) occupied: Option<Occupied>,
    /// Bytes given out so far.
    pub(crate) bytes: u64,
}

impl fmt::Debug for AnswerStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerStream")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl AnswerStream {
    /// Stops the plan. It leaves the registry when nothing of it computes any more.
    fn stop(&mut self) {
        self.inner = None;
        self.progress.end();
        self.occupied = None;
    }

    /// The plan has come to its end, and leaves the registry.
    fn end(&mut self) {
        self.inner = None;
        if let Some(occupied) = self.occupied.take() {
            occupied.end();
        }
    }

    /// Counts a batch that is to be given out.
    fn count(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows() as u64;
        self.progress.reached(Stage::FirstRows);
        let before = self.progress.rows.fetch_add(rows, Ordering::Relaxed);
        self.limits.check_rows(before + rows)?;
        if self.limits.bytes.is_some() {
            self.bytes += batch.columns().iter().map(size).sum::<u64>();
        }
        self.limits.check_bytes(self.bytes)
    }
}

/// Returns whether the time of a query is over.
pub(crate) fn is_over(until: Option<Instant>) -> bool {
    until.is_some_and(|until| Instant::now() >= until)
}

/// Returns whether the task was stopped that drives a plan.
pub(crate) fn was_aborted(error: &DataFusionError) -> bool {
    matches!(error, DataFusionError::ExecutionJoin(why) if why.is_cancelled())
}

impl Stream for AnswerStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(inner) = &mut this.inner else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(why) = this.ended.poll_unpin(context) {
            this.stop();
            return Poll::Ready(Some(Err(why.error(this.id))));
        }
        if this.over.poll_unpin(context).is_ready() {
            this.stop();
            return Poll::Ready(Some(Err(this.limits.too_long())));
        }
        match inner.poll_next_unpin(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Ok(batch))) => match this.count(&batch) {
                Ok(()) => Poll::Ready(Some(Ok(batch))),
                Err(error) => {
                    this.stop();
                    Poll::Ready(Some(Err(error)))
                }
            },
            Poll::Ready(Some(Err(e))) => {
                let error = match is_over(this.until) && was_aborted(&e) {
                    true => this.limits.too_long(),
                    false => Error::of(e, || this.catalog.names()),
                };
                this.stop();
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(None) => {
                this.end();
                Poll::Ready(None)
            }
        }
    }
}
