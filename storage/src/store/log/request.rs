//! Requests to the log thread, and their replies.

use std::fmt;

use crossbeam_channel::Sender;

use crate::concern::Durability;
use crate::error::{Error, Result};
use crate::model::Ack;
use crate::record::Record;

/// The reply to a request, sent exactly once. A request dropped without one is answered with an
/// unknown outcome.
pub(in crate::store) struct Reply(Option<Box<dyn FnOnce(Result<Ack>) + Send>>);

impl Reply {
    pub(in crate::store) fn new(reply: impl FnOnce(Result<Ack>) + Send + 'static) -> Self {
        Self(Some(Box::new(reply)))
    }

    pub(in crate::store) fn send(mut self, outcome: Result<Ack>) {
        if let Some(reply) = self.0.take() {
            reply(outcome);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(reply) = self.0.take() {
            reply(Err(Error::Unknown {
                what: "the store stopped before it could answer".into(),
            }));
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

/// A batch to be written.
#[derive(Debug)]
pub(in crate::store) struct Request {
    pub(in crate::store) record: Record,
    /// Bytes of the record; none once it was changed.
    pub(in crate::store) payload: Vec<u8>,
    pub(in crate::store) durability: Durability,
    /// True if it came to this process, which counts it.
    pub(in crate::store) counts: bool,
    pub(in crate::store) reply: Reply,
}

impl Request {
    /// Returns the request of a record that somebody else has appended to a shared journal.
    pub(in crate::store) fn of_another(record: Record) -> Self {
        Self {
            record,
            payload: Vec::new(),
            durability: Durability::Unacknowledged,
            counts: false,
            reply: Reply(None),
        }
    }

    /// Takes the bytes of the record as it is now.
    pub(super) fn take_payload(&mut self) -> Vec<u8> {
        match self.payload.is_empty() {
            true => self.record.encode(),
            false => std::mem::take(&mut self.payload),
        }
    }
}

#[derive(Debug)]
pub(in crate::store) enum Command {
    /// Requests that stay together, in one group.
    Write(Vec<Request>),
    /// Begins a new segment of the journal unless the present one is empty, and says so.
    Cut(Sender<()>),
}
