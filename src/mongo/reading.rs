//! Documents of a collection, as they are read.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bson::Document;
use futures::StreamExt as _;
use query::mongo::{EventDocuments, Filter, scan};
use query::{Answer, Parameters, Session};
use storage::{Name, StreamKind};

use super::error::Result;
use crate::serve::{Client, Serving};

/// The documents of a stream that match a filter.
pub(super) struct DocumentReading {
    answer: Option<Answer>,
    kind: StreamKind,
    filter: Arc<Filter>,
    ready: VecDeque<(u64, Document)>,
    /// Its share counts it until it has ended.
    _client: Client,
}

/// Returns the kind of a stream; `None` if it does not exist for a client.
pub(super) fn kind(serving: &Serving, client: &Client, stream: &Name) -> Option<StreamKind> {
    let snapshot = serving.store.snapshot();
    let streams = client.viewer(&snapshot).streams;
    let is_own = streams.is_none_or(|streams| streams.contains(stream));
    let meta = snapshot.streams().get(stream).filter(|_| is_own)?;
    Some(meta.kind)
}

impl DocumentReading {
    /// Begins to read, for so long at most. A stream that does not exist, or that the client may
    /// not read, has no documents.
    ///
    /// # Errors
    /// The errors of the query.
    pub(super) async fn begin(
        serving: &Serving,
        client: &Client,
        stream: &Name,
        (filter, time_max): (Arc<Filter>, Option<Duration>),
    ) -> Result<Self> {
        let kind = kind(serving, client, stream);
        let answer = match kind {
            None => None,
            Some(_) => {
                let question = scan(stream, &filter);
                let session = Session {
                    time_max,
                    ..Session::default()
                };
                let asked = serving.ask(client, session, question, Parameters::None);
                Some(asked.await?)
            }
        };
        Ok(Self {
            answer,
            kind: kind.unwrap_or(StreamKind::Documents),
            filter,
            ready: VecDeque::new(),
            _client: client.clone(),
        })
    }

    /// Returns the next document with the sequence number of its event.
    ///
    /// # Errors
    /// The errors of the query and of the filter; there is no next document then.
    pub(super) async fn next(&mut self) -> Result<Option<(u64, Document)>> {
        while self.ready.is_empty() {
            let Some(answer) = &mut self.answer else {
                return Ok(None);
            };
            let Some(batch) = answer.stream.next().await else {
                self.answer = None;
                return Ok(None);
            };
            let events = EventDocuments::new(&batch?, self.kind)?;
            for row in 0..events.len() {
                let document = events.document(row)?;
                if self.filter.matches(&document) {
                    self.ready.push_back((events.seq(row), document));
                }
            }
            // Others of this thread go on between two batches.
            tokio::task::yield_now().await;
        }
        Ok(self.ready.pop_front())
    }
}
