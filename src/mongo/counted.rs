//! Documents that count several times, as they are read for a pipeline.

use std::time::Instant;

use futures::StreamExt as _;
use query::mongo::{CountedDocuments, PipelineRun};
use query::{Answer, QueryStats};
use storage::StreamKind;

use super::error::Result;
use super::reading::{TURN, check};

/// Gives a run the documents of the counts of a [`CountedScan`](query::mongo::CountedScan). Returns
/// the figures of their query, which has ended.
///
/// # Errors
/// The errors of the query and of the run, or the time is over.
pub(super) async fn push_counted(
    mut answer: Answer,
    kind: StreamKind,
    run: &mut PipelineRun,
    deadline: Option<Instant>,
) -> Result<QueryStats> {
    let mut turn = Instant::now();
    while let Some(batch) = answer.stream.next().await {
        let documents = CountedDocuments::new(&batch?, kind)?;
        for row in 0..documents.len() {
            if turn.elapsed() > TURN {
                check(deadline)?;
                tokio::task::yield_now().await;
                turn = Instant::now();
            }
            let (document, times) = documents.document(row)?;
            if times > 0 {
                run.push_times(document, times)?;
            }
        }
    }
    Ok(answer.figures())
}
