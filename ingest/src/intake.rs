//! From events to the batch that a store takes: the one place that builds a [`Batch`].

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use storage::{Batch, Identity, Name, StreamKind};

use crate::parsed::Parsed;

/// Origin of a batch: where its items go, and where and when they came from.
#[derive(Debug, Clone)]
pub struct BatchOrigin {
    /// The stream that the items go to.
    pub stream: Name,
    /// The source, as the quarantine records it: a path, or `http`.
    pub source: Arc<str>,
    /// Time of receipt, microseconds since 1970.
    pub received_us: i64,
    /// Identity by which a second copy of the batch is recognised.
    pub identity: Option<Identity>,
    /// Kind of the stream when it exists already. A stream keeps its kind, whatever comes: a batch
    /// of lines without a known format goes to quarantine and changes nothing else.
    pub kind: Option<StreamKind>,
}

impl BatchOrigin {
    /// Builds the batch of a parser's events and quarantined lines.
    pub fn batch(self, parsed: Parsed) -> Batch {
        Batch {
            quarantine: parsed.quarantine,
            ..self.batch_of_events(parsed.events, parsed.kind)
        }
    }

    /// Builds a batch of events that are columns already; `kind` is that of a new stream.
    pub fn batch_of_events(self, events: RecordBatch, kind: StreamKind) -> Batch {
        Batch {
            stream: self.stream,
            kind: self.kind.unwrap_or(kind),
            received_us: self.received_us,
            source: self.source,
            events,
            quarantine: Vec::new(),
            identity: self.identity,
        }
    }

    /// Builds a batch without items: its identity is its message.
    pub fn batch_of_nothing(self) -> Batch {
        let nothing = RecordBatch::new_empty(Schema::empty().into());
        self.batch_of_events(nothing, StreamKind::Documents)
    }
}

#[cfg(test)]
mod tests;
