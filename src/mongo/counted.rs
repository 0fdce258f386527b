//! Documents that count several times, as they are read for a pipeline.

use std::time::Instant;

use bson::Document;
use futures::StreamExt as _;
use query::Answer;
use query::mongo::CountedDocuments;
use storage::StreamKind;

use super::error::Result;
use super::reading::{TURN, check};

/// The documents of the counts of a [`CountedScan`](query::mongo::CountedScan).
pub(super) struct CountedReading {
    answer: Answer,
    kind: StreamKind,
    /// Rows that have come, and the next of them.
    rows: Option<(CountedDocuments, usize)>,
    deadline: Option<Instant>,
    /// The time when others of its thread last could go on.
    turn: Instant,
}

impl CountedReading {
    pub(super) fn new(answer: Answer, kind: StreamKind, deadline: Option<Instant>) -> Self {
        Self {
            answer,
            kind,
            rows: None,
            deadline,
            turn: Instant::now(),
        }
    }

    /// Returns the next document, with the number of those that are equal.
    ///
    /// # Errors
    /// The errors of the query, or the time is over; there is no next document then.
    pub(super) async fn next(&mut self) -> Result<Option<(Document, u64)>> {
        loop {
            while let Some((documents, next)) = &mut self.rows
                && *next < documents.len()
            {
                let (document, times) = documents.document(*next)?;
                *next += 1;
                if self.turn.elapsed() > TURN {
                    check(self.deadline)?;
                    tokio::task::yield_now().await;
                    self.turn = Instant::now();
                }
                if times > 0 {
                    return Ok(Some((document, times)));
                }
            }
            match self.answer.stream.next().await {
                Some(batch) => self.rows = Some((CountedDocuments::new(&batch?, self.kind)?, 0)),
                None => return Ok(None),
            }
        }
    }
}
