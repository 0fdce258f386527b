//! The answer to a query: its rows as a stream, and its statistics.

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
use futures::{Stream, StreamExt};

use crate::answer::query_stats::operators;
use crate::error::{Error, Result};
use crate::functions::sizes::size;
use crate::plan::planner::Started;
use crate::run::admission::Admitted;
use crate::run::query_threads::Driven;
use crate::run::registry::{Progress, ReadProgress};
use crate::stats::{QueryStats, ScanProgress, Stage};
use crate::tables::catalog::Catalog;

/// The answer to a query: its columns and a stream of rows.
#[derive(Debug)]
pub struct Answer {
    /// The query's number in the list of running queries.
    pub id: u64,
    /// The columns.
    pub schema: SchemaRef,
    /// The rows. Dropping the stream cancels the query.
    pub stream: AnswerStream,
    handle: QueryStatsHandle,
}

impl Answer {
    /// Creates the answer of a plan that was started for an admitted query.
    pub(crate) fn new(admitted: Admitted, started: Started, rows: Driven) -> Self {
        let Started {
            plan,
            catalog,
            reads_tables,
        } = started;
        let (id, progress) = (admitted.id, Arc::clone(&admitted.progress));
        let incomplete = catalog.missing();
        // A weak reference: the list of running queries must not keep the plan and its snapshot
        // alive.
        let weak = Arc::downgrade(&plan);
        progress.planned(ReadProgress(Box::new(move || {
            let plan = weak.upgrade();
            plan.map(|plan| ScanProgress::of(&plan)).unwrap_or_default()
        })));
        Self {
            id,
            schema: plan.schema(),
            stream: AnswerStream {
                running: Some((rows, admitted)),
                first: None,
                catalog,
                bytes: 0,
            },
            handle: QueryStatsHandle {
                plan,
                progress,
                reads_tables,
                incomplete,
            },
        }
    }

    /// Waits for the first rows.
    ///
    /// # Errors
    /// The first item of the stream, if it is one.
    pub async fn begun(mut self) -> Result<Self> {
        self.stream.first = self.stream.next().await.transpose()?;
        Ok(self)
    }

    /// Returns the statistics so far; complete once the stream has ended.
    pub fn figures(&self) -> QueryStats {
        self.handle.figures()
    }

    /// Returns a handle on the statistics that outlives the answer.
    pub fn stats_handle(&self) -> QueryStatsHandle {
        self.handle.clone()
    }

    /// Returns the physical plan that runs.
    pub fn plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.handle.plan
    }

    /// Collects all rows.
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

/// Reads the statistics of one query.
#[derive(Debug, Clone)]
pub struct QueryStatsHandle {
    plan: Arc<dyn ExecutionPlan>,
    progress: Arc<Progress>,
    reads_tables: bool,
    incomplete: Vec<String>,
}

impl QueryStatsHandle {
    /// Returns the physical plan with its metrics, as text of several lines.
    pub fn plan_text(&self) -> String {
        DisplayableExecutionPlan::with_metrics(&*self.plan)
            .indent(true)
            .to_string()
    }

    /// Returns the statistics so far; complete once the stream has ended.
    pub fn figures(&self) -> QueryStats {
        let mut figures = QueryStats::gather(&self.plan, self.reads_tables);
        figures.incomplete.clone_from(&self.incomplete);
        figures.rows_returned = self.progress.rows.load(Ordering::Relaxed);
        figures.elapsed_ms = self.progress.elapsed_ms();
        figures.operators = operators(&*self.plan);
        figures.stages = self.progress.stages();
        figures
    }
}

/// The rows of an answer.
pub struct AnswerStream {
    /// `None` once the rows have ended, failed or were stopped.
    running: Option<(Driven, Admitted)>,
    /// Rows that were awaited before the others are read.
    first: Option<RecordBatch>,
    /// Names of tables and columns for the hints of errors.
    catalog: Arc<Catalog>,
    /// Bytes returned so far.
    bytes: u64,
}

impl fmt::Debug for AnswerStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerStream")
            .field("running", &self.running)
            .finish_non_exhaustive()
    }
}

impl AnswerStream {
    /// Stops the plan. The query stays listed until none of its tasks runs any more.
    fn stop(&mut self) {
        if let Some((rows, admitted)) = self.running.take() {
            drop(rows);
            admitted.progress.end();
        }
    }

    /// Releases all resources: the plan has ended.
    fn end(&mut self) {
        if let Some((rows, admitted)) = self.running.take() {
            drop(rows);
            admitted.end();
        }
    }
}

/// Counts a batch and checks the limits before the batch is returned.
fn count(admitted: &Admitted, bytes: &mut u64, batch: &RecordBatch) -> Result<()> {
    let rows = batch.num_rows() as u64;
    let progress = &admitted.progress;
    progress.reached(Stage::FirstRows);
    let before = progress.rows.fetch_add(rows, Ordering::Relaxed);
    admitted.limits.check_rows(before + rows)?;
    if admitted.limits.bytes.is_some() {
        *bytes += batch.columns().iter().map(size).sum::<u64>();
    }
    admitted.limits.check_bytes(*bytes)
}

/// Returns whether the task that drives a plan was stopped.
fn was_aborted(error: &DataFusionError) -> bool {
    matches!(error, DataFusionError::ExecutionJoin(why) if why.is_cancelled())
}

impl Stream for AnswerStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Some(batch) = this.first.take() {
            return Poll::Ready(Some(Ok(batch)));
        }
        let Some((rows, admitted)) = &mut this.running else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(error) = admitted.poll_end(context) {
            this.stop();
            return Poll::Ready(Some(Err(error)));
        }
        let error = match rows.poll_next_unpin(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(Ok(batch))) => match count(admitted, &mut this.bytes, &batch) {
                Ok(()) => return Poll::Ready(Some(Ok(batch))),
                Err(error) => error,
            },
            Poll::Ready(Some(Err(e))) if admitted.is_over() && was_aborted(&e) => {
                admitted.limits.too_long()
            }
            Poll::Ready(Some(Err(e))) => Error::of(e, || this.catalog.names()),
            Poll::Ready(None) => {
                this.end();
                return Poll::Ready(None);
            }
        };
        this.stop();
        Poll::Ready(Some(Err(error)))
    }
}
