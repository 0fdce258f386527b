//! Health and counts of a store.

use std::sync::LazyLock;

use super::State;
use crate::model::Name;
use crate::shared_journal::JournalPosition;

/// Counts since the store was opened, by stream. A replay from the quarantine counts as any batch
/// does: its items are received and stored once more, after they were received and quarantined. A
/// discarded item of the quarantine is no item of a batch and is not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Items received: stored + quarantined + refused + duplicate.
    pub received: u64,
    /// Events stored.
    pub stored: u64,
    /// Items written to the quarantine.
    pub quarantined: u64,
    /// Items of refused batches.
    pub refused: u64,
    /// Items of batches that were stored before.
    pub duplicate: u64,
}

/// Health of the store.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// Reason of the last failed seal, until a seal succeeds.
    pub seal_error: Option<String>,
    /// Reason of the last failed maintenance run, until a run succeeds.
    pub tend_error: Option<String>,
    /// Reason for which the store accepts no more writes.
    pub poisoned: Option<String>,
    /// True for a store opened for reading only.
    pub read_only: bool,
    /// The disk is full: writes are refused until disk space is free again, and reads go on.
    pub disk_full: bool,
    /// Bytes of memory held by the memtable.
    pub memtable_bytes: usize,
    /// Exclusive end of the sequence numbers that are synced in the journal.
    pub durable_seq: u64,
    /// Bytes of a torn journal tail that were cut off when the store was opened.
    pub torn_bytes: u64,
    /// Items replayed from the journal when the store was opened.
    pub replayed: u64,
    /// The shared journal, if the store has one.
    pub journal: Option<JournalStatus>,
}

/// State of a shared journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalStatus {
    /// Position up to which it was read.
    pub position: JournalPosition,
    /// Offset from which a start reads it.
    pub sealed_offset: u64,
    /// Bytes of batches that were appended and not read back.
    pub bytes_under_way: usize,
    /// The reason for which batches are refused, until it takes messages again.
    pub error: Option<String>,
}

/// Name under which batches to unknown streams are counted. Clients choose stream names, and each
/// would otherwise add a metric series for ever.
static UNKNOWN_STREAM: LazyLock<Name> =
    LazyLock::new(|| Name::new("_unknown").expect("BUG: a name"));

impl State {
    /// Returns the counters of a known stream, or those of all unknown streams together.
    pub(super) fn counters_of(&mut self, stream: &Name) -> &mut Counters {
        let name = match self.streams.contains_key(stream) {
            true => stream,
            false => &UNKNOWN_STREAM,
        };
        self.counters.entry(name.clone()).or_default()
    }

    /// Counts the items of a refused batch, or of one that could not be parsed.
    pub(super) fn count_refused(&mut self, stream: &Name, items: u64) {
        let counters = self.counters_of(stream);
        counters.received += items;
        counters.refused += items;
    }
}
