//! Documents that count several times, as they are read for a pipeline.

use std::time::Instant;

use futures::StreamExt as _;
use query::mongo::{ColumnGroups, CountedDocuments, Pipeline, PipelineContext, PipelineRun};
use query::{Answer, QueryStats};
use storage::StreamKind;

use super::error::Result;
use super::reading::{TURN, check};

/// Rows that are taken before others of the thread may go on.
const TURN_ROWS: usize = 1024;

/// A run over the counts of a [`CountedScan`](query::mongo::CountedScan).
pub(super) enum CountedRun<'a> {
    /// The columns are grouped as they are.
    Columns(Box<ColumnGroups<'a>>),
    /// Each row becomes a document.
    Documents(PipelineRun),
}

impl<'a> CountedRun<'a> {
    /// Starts the stages of a pipeline from one on.
    pub(super) fn start(
        pipeline: &'a Pipeline,
        first_stage: usize,
        context: &PipelineContext,
    ) -> Self {
        match pipeline.start_columns(first_stage, context) {
            Some(groups) => Self::Columns(Box::new(groups)),
            None => Self::Documents(pipeline.start(first_stage, context)),
        }
    }

    /// Takes all counts. Returns the run and the figures of their query, which has ended.
    ///
    /// # Errors
    /// The errors of the query and of the run, or the time is over.
    pub(super) async fn push(
        mut self,
        mut answer: Answer,
        kind: StreamKind,
        deadline: Option<Instant>,
    ) -> Result<(Self, QueryStats)> {
        let mut turn = Instant::now();
        while let Some(batch) = answer.stream.next().await {
            let rows = CountedDocuments::new(&batch?, kind)?;
            let mut next = 0;
            while next < rows.len() {
                if turn.elapsed() > TURN {
                    check(deadline)?;
                    tokio::task::yield_now().await;
                    turn = Instant::now();
                }
                (self, next) = self.push_some(&rows, next)?;
            }
        }
        Ok((self, answer.figures()))
    }

    /// Takes some rows, and returns the run and the next row.
    fn push_some(self, rows: &CountedDocuments, row: usize) -> Result<(Self, usize)> {
        match self {
            Self::Columns(mut groups) => {
                let end = rows.len().min(row + TURN_ROWS);
                let (columns, times) = rows.columns();
                let next = groups.push(columns, row..end, times)?;
                let run = match next == end {
                    true => Self::Columns(groups),
                    false => Self::Documents(groups.into_run()?),
                };
                Ok((run, next))
            }
            Self::Documents(mut run) => {
                let (document, times) = rows.document(row)?;
                if times > 0 {
                    run.push_times(document, times)?;
                }
                Ok((Self::Documents(run), row + 1))
            }
        }
    }

    /// Returns the run over documents.
    ///
    /// # Errors
    /// As those of [`ColumnGroups::into_run`].
    pub(super) fn into_run(self) -> Result<PipelineRun> {
        Ok(match self {
            Self::Columns(groups) => groups.into_run()?,
            Self::Documents(run) => run,
        })
    }
}
