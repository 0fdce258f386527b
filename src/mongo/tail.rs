//! A tailable cursor: the events of a stream, and then those that come.
//!
//! # Invariants
//! * Each event that matches is read once. A reading begins at the sequence number at which the
//!   snapshot before it ended, and each snapshot has all events below its own end.
//! * Between two readings it holds no place among the queries and no snapshot.

use std::sync::Arc;
use std::time::Instant;

use storage::Snapshot;

use super::document::AnswerDocument;
use super::error::Result;
use super::namespace::Collection;
use super::reading::{DocumentReading, ReadingTerms, RowForm};
use super::source::ArrivalReading;
use crate::access::{Action, Target};
use crate::serve::{Client, Serving};

/// A stream that is followed.
pub(super) struct TailReading {
    serving: Arc<Serving>,
    client: Client,
    collection: Collection,
    terms: ReadingTerms,
    /// The first sequence number that no reading had; `None` before the first.
    from_seq: Option<u64>,
    reading: Option<ArrivalReading>,
    /// There is no such stream, or the client may not read it any more.
    has_ended: bool,
}

impl TailReading {
    /// Follows a collection, whose events are read first.
    pub(super) fn new(
        serving: Arc<Serving>,
        client: Client,
        collection: Collection,
        terms: ReadingTerms,
    ) -> Self {
        Self {
            serving,
            client,
            collection,
            terms,
            from_seq: None,
            reading: None,
            has_ended: false,
        }
    }

    /// Returns the next document; `None` if there is none now.
    ///
    /// # Errors
    /// The errors of reading.
    pub(super) async fn next(&mut self) -> Result<Option<AnswerDocument>> {
        if self.reading.is_none() {
            self.read_on().await?;
        }
        let Some(reading) = &mut self.reading else {
            return Ok(None);
        };
        let next = reading.next().await?;
        if next.is_none() {
            self.reading = None;
        }
        Ok(next)
    }

    /// Begins to read the events that have come, if any have.
    async fn read_on(&mut self) -> Result<()> {
        let snapshot = self.serving.store.snapshot();
        let until = snapshot.next_seq();
        if self.from_seq == Some(until) {
            return Ok(());
        }
        let exists = RowForm::of(&snapshot, &self.client, &self.collection).is_some();
        self.has_ended = !(exists && self.may_read());
        let from_seq = self.from_seq.replace(until).unwrap_or(0);
        if self.has_ended || !has_events(&snapshot, &self.collection, from_seq) {
            return Ok(());
        }
        let mut terms = self.terms.clone();
        // The limit of a query's time is for each reading: a cursor lives longer.
        let limit = self.serving.config.query.limits().time;
        let limit = terms.time_max.into_iter().chain(limit).min();
        terms.expressions.deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let terms = (terms, from_seq);
        let (serving, client) = (&self.serving, &self.client);
        let reading =
            DocumentReading::begin_at(serving, client, snapshot, &self.collection, terms).await?;
        self.reading = Some(ArrivalReading::begin(reading, u64::MAX).await?);
        Ok(())
    }

    /// Returns whether the account, as it is now, may read the stream.
    fn may_read(&self) -> bool {
        let now = self.serving.access.renew(self.client.principal());
        now.is_some_and(|now| match &self.collection {
            Collection::Stream(stream) => now.may(Action::Read, Target::Stream(stream.as_str())),
            Collection::Level { .. } => false,
        })
    }

    pub(super) fn pack(&mut self) -> Result<()> {
        self.reading.as_mut().map_or(Ok(()), ArrivalReading::pack)
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.reading.as_ref().map_or(0, ArrivalReading::held_bytes)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended && self.reading.is_none()
    }
}

/// Returns whether a stream may have events from a sequence number on: they would be in one of its
/// chunks or parts. Most snapshots have none, of a stream that is quiet among others.
fn has_events(snapshot: &Snapshot, collection: &Collection, from_seq: u64) -> bool {
    let Collection::Stream(stream) = collection else {
        return false;
    };
    let mut chunks = snapshot.chunks(stream.as_str()).iter();
    let parts = &snapshot.manifest().parts;
    let mut parts = parts.iter().filter(|part| part.stream == *stream);
    chunks.any(|chunk| chunk.seq.1 >= from_seq) || parts.any(|part| part.seq.1 >= from_seq)
}
