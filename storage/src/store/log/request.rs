//! Requests to the log thread, and their replies.

use std::fmt;

use crossbeam_channel::Sender;

use crate::error::{Error, Result};
use crate::model::{Ack, Durability};
use crate::record::Record;

/// The reply to a request, sent exactly once. A request dropped without one is answered with an
/// unknown outcome.
pub(in crate::store) struct Reply(Option<Box<dyn FnOnce(Result<Ack>) + Send>>);

impl Reply {
    pub(in crate::store) fn new(reply: impl FnOnce(Result<Ack>) + Send + 'static) -> Self {
        Self(Some(Box::new(reply)))
    }

    pub(super) fn send(mut self, outcome: Result<Ack>) {
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
    pub(in crate::store) payload: Vec<u8>,
    pub(in crate::store) durability: Durability,
    pub(in crate::store) reply: Reply,
}

#[derive(Debug)]
pub(in crate::store) enum Command {
    /// Requests that stay together, in one group.
    Write(Vec<Request>),
    /// Begins a new segment of the journal unless the present one is empty, and says so.
    Cut(Sender<()>),
}
