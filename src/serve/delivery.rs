//! Deliveries: items of one stream on their way into the store, whatever protocol brought them.
//!
//! # Invariants
//! * A delivery is one batch: all of its items are stored, or none is.
//! * A listener acknowledges a delivery only after the store has reached its write concern.

use std::sync::Arc;

use bytes::Bytes;
use ingest::{BatchOrigin, ParseOptions, Parsed, Parser, Records};
use storage::{Ack, Identity, Name, WriteConcern};
use tokio::sync::oneshot;

use super::{ArrivalCounts, Length};
use crate::intake::{Intake, Reply, StreamState};

/// The rows of a delivery may take so many times its bytes, in memory and in the journal, and this
/// much at any rate: very short lines cost far more than they are long.
const GROWTH_MAX: usize = 4;
const GROWTH_BYTES_MIN: usize = 256 << 20;

/// The items of a delivery.
#[derive(Debug)]
pub(crate) enum Content {
    /// Lines, or JSON values that are not one to a line.
    Lines(Bytes),
    /// Discrete records, each an item whatever bytes it holds.
    Records(Records),
}

impl Content {
    fn bytes(&self) -> usize {
        match self {
            Self::Lines(lines) => lines.len(),
            Self::Records(records) => records.bytes(),
        }
    }
}

/// Items of one stream that are not parsed yet.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) stream: Name,
    pub(crate) source: Arc<str>,
    pub(crate) identity: Option<Identity>,
    /// The options of the client and the configuration. The state of the stream is added here.
    pub(crate) options: ParseOptions,
    pub(crate) content: Content,
    /// The counters of its protocol and stream.
    pub(crate) counts: Arc<ArrivalCounts>,
}

/// Parsed items, with their origin.
#[derive(Debug)]
pub(crate) struct ParsedDelivery {
    pub(crate) origin: BatchOrigin,
    pub(crate) parsed: Parsed,
    /// Bytes of the items before they were parsed.
    bytes: usize,
    counts: Arc<ArrivalCounts>,
}

/// The state of a delivery that is parsed.
#[derive(Debug)]
pub(crate) enum Submission {
    /// The store got nothing, so there is nothing to wait for.
    Nothing(Ack),
    /// The store acknowledges the batch when its write concern is reached.
    Waiting(oneshot::Receiver<storage::Result<Vec<Ack>>>),
}

impl Delivery {
    /// Parses the items, on a thread that may block.
    ///
    /// # Errors
    /// As [`Parser::parse`]: the delivery as a whole cannot be taken, and counts as refused.
    pub(crate) fn parse(self, intake: &dyn Intake) -> ingest::Result<ParsedDelivery> {
        let StreamState { columns, kind } = intake.stream(&self.stream);
        let bytes = self.content.bytes();
        let options = ParseOptions {
            bytes_max: bytes.saturating_mul(GROWTH_MAX).max(GROWTH_BYTES_MIN),
            item_bytes: self.stream.as_str().len() + self.source.len(),
            schema: columns,
            ..self.options
        };
        let received_us = options.received_us;
        let mut parser = Parser::new(options);
        let parsed = match &self.content {
            Content::Lines(lines) => parser.parse(lines),
            Content::Records(records) => parser.parse_items(records.items(received_us)),
        };
        let parsed = parsed.inspect_err(|error| {
            intake.count_refused(&self.stream, 1);
            self.counts.refuse(error);
        })?;
        Ok(ParsedDelivery {
            origin: BatchOrigin {
                received_us,
                kind,
                stream: self.stream,
                source: self.source,
                identity: self.identity,
            },
            parsed,
            bytes,
            counts: self.counts,
        })
    }
}

impl ParsedDelivery {
    /// Hands the batch to the store. Waits while too many others are queued, and with a long one
    /// until there is memory for its rows.
    ///
    /// # Errors
    /// As [`Intake::submit`].
    pub(crate) fn submit(
        self,
        intake: &dyn Intake,
        concern: WriteConcern,
        length: Length,
    ) -> storage::Result<Submission> {
        let has_items = self.parsed.events.num_rows() > 0 || !self.parsed.quarantine.is_empty();
        if !has_items && self.origin.identity.is_none() {
            return Ok(Submission::Nothing(self.not_stored()));
        }
        if length == Length::Long {
            // Lines in quarantine are rows, too.
            let rows = self.parsed.events.get_array_memory_size();
            intake.wait_for_bulk_room(rows.max(self.bytes));
        }
        let ack = self.not_stored();
        let counts = Arc::clone(&self.counts);
        let items = ack.accepted + ack.quarantined;
        counts.receive(items, self.bytes);
        let (send, receive) = oneshot::channel();
        let reply: Reply = Box::new(move |outcome| {
            self.counts.finish(items, &outcome);
            // A client that has gone does not learn it; a retry under its identity will.
            let _ignored = send.send(outcome);
        });
        let batch = self.origin.batch(self.parsed);
        let submitted = intake.submit(batch, concern, reply);
        submitted.inspect_err(|error| counts.refuse(error))?;
        Ok(Submission::Waiting(receive))
    }

    /// Returns the counts of a batch that the store does not get.
    pub(crate) fn not_stored(&self) -> Ack {
        Ack {
            accepted: self.parsed.events.num_rows() as u64,
            quarantined: self.parsed.quarantine.len() as u64,
            first_seq: None,
            last_seq: None,
            duplicate: false,
            shard: None,
        }
    }
}
