//! A topic of a Kafka cluster as the receiver of a shipper.
//!
//! # Invariants
//! 1. The records of a batch and the position behind it are one transaction: a consumer of
//!    committed records sees both or neither. Positions are records of a topic of their own, as
//!    KIP-618 keeps those of Kafka Connect's sources.
//! 2. Positions are read behind a marker that this shipper wrote after the cluster had ended the
//!    transactions of all shippers before it, which have the same transactional id: none of them
//!    changes a position, or adds a record, any more.
//! 3. A session ends when it does not know the outcome of a transaction. The next one reads the
//!    positions.
//!
//! So the topic takes the place of a server's memory, and `crate::ship` says the rest.

mod client;
mod failures;
mod positions;
mod session;

use parking_lot::Mutex;
use storage::SourcePosition;

use super::send::{RangeBatch, Receiver};
use super::{KafkaTarget, ShipOptions};
use crate::client::{IngestAnswer, Refusal};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use failures::again;
use session::TopicSession;

/// A topic with the connection to it.
pub(crate) struct KafkaTopic<'a> {
    target: KafkaTarget,
    options: &'a ShipOptions,
    client: rdkafka::ClientConfig,
    interrupt: Interrupt,
    session: Mutex<Option<TopicSession>>,
}

impl<'a> KafkaTopic<'a> {
    /// Checks the options; nothing is connected yet.
    ///
    /// # Errors
    /// If an option cannot be set, or librdkafka does not take it.
    pub(crate) fn new(
        target: KafkaTarget,
        options: &'a ShipOptions,
        interrupt: Interrupt,
    ) -> Result<Self> {
        let client = client::of(&target).map_err(Failure::usage)?;
        Ok(Self {
            target,
            options,
            client,
            interrupt,
            session: Mutex::default(),
        })
    }

    /// Does something in the session, which is opened before if there is none. An error ends it,
    /// unless nothing of the batch is in the topic.
    fn in_session<T>(
        &self,
        call: impl FnOnce(&mut TopicSession) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut session = self.session.lock();
        // A thread that waited for another one's attempt makes none of its own then.
        if self.interrupt.is_set() {
            return Err(again("the shipper ends".to_owned()));
        }
        let mut open = match session.take() {
            Some(open) => open,
            None => TopicSession::open(&self.target, &self.client, &self.interrupt)?,
        };
        let answer = call(&mut open);
        if !matches!(answer, Err(Refusal::Again { .. } | Refusal::Final(_))) {
            *session = Some(open);
        }
        answer
    }
}

impl Receiver for KafkaTopic<'_> {
    fn names(&self, prefix: &str) -> Result<Vec<String>, Refusal> {
        self.in_session(|session| Ok(session.positions().names(prefix)))
    }

    fn states(&self, producer: &str) -> Result<Vec<SourcePosition>, Refusal> {
        self.in_session(|session| Ok(session.positions().states(producer)))
    }

    fn deliver(&self, batch: &RangeBatch<'_>) -> Result<IngestAnswer, Refusal> {
        self.in_session(|session| {
            session.deliver(&self.target, self.options.multiline.as_ref(), batch)
        })
    }

    fn limit(&self) -> &'static str {
        "max.message.bytes of the topic and message.max.bytes in --kafka-options"
    }
}
