//! A partition that a session reads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::consumer::base_consumer::PartitionQueue;

use super::chain::Chain;
use super::client::Context;
use super::position::PartitionName;
use super::records::Records;
use super::stalls::Stalls;
use crate::serve::{SourceBoard, SourceReport};

/// Bytes of records that make a batch.
pub(super) const BATCH_BYTES: usize = 1 << 20;
/// Age of the oldest record that makes a batch, however few there are.
pub(super) const LINGER: Duration = Duration::from_millis(100);

/// A partition that the session was assigned.
pub(super) struct Partition {
    /// Distinguishes assignments of one partition.
    pub(super) id: u64,
    pub(super) topic: String,
    pub(super) number: i32,
    pub(super) place: PartitionName,
    /// The place of its records in quarantine.
    pub(super) source: Arc<str>,
    pub(super) queue: PartitionQueue<Context>,
    pub(super) phase: Phase,
    pub(super) chain: Chain,
    pub(super) records: Records,
    /// Arrival of the first record that waits.
    pub(super) since: Option<Instant>,
    /// Number of the present attempt: outcomes of batches of earlier ones change nothing.
    pub(super) attempt: u64,
    /// Batches that the store has not answered.
    pub(super) under_way: usize,
    /// Position that the store has acknowledged.
    pub(super) stored: Option<u64>,
    /// Arrival of the last record, or the last look for more of them.
    pub(super) heard: Instant,
    /// Looks at its end when no record came.
    pub(super) stalls: Stalls,
    /// Position that the broker was told.
    pub(super) committed: Option<u64>,
}

/// The work on a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its position is to be read from the store at this time.
    Waiting(Instant),
    Reading,
    /// It cannot be read on without loss.
    Stopped,
}

impl Partition {
    /// Gives up what was read and is not stored, to begin again at the stored position.
    pub(super) fn reset(&mut self, wait: Duration) {
        self.attempt += 1;
        self.records.clear(BATCH_BYTES);
        self.since = None;
        self.phase = Phase::Waiting(Instant::now() + wait);
    }

    /// Checks whether the records that wait make a batch.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.records.size() >= BATCH_BYTES || self.since.is_some_and(|since| now - since >= LINGER)
    }

    /// Checks whether its position is to be read now.
    pub(super) fn is_to_begin(&self, now: Instant) -> bool {
        matches!(self.phase, Phase::Waiting(until) if until <= now) && self.under_way == 0
    }

    /// Changes the report on the partition.
    pub(super) fn report(
        &self,
        source: &str,
        board: &SourceBoard,
        change: impl FnOnce(&mut SourceReport),
    ) {
        board.change(&self.place.producer(), |report| {
            if report.labels.is_empty() {
                report.labels = vec![
                    ("source", source.to_owned()),
                    ("topic", self.topic.clone()),
                    ("partition", self.number.to_string()),
                ];
            }
            report.state = match self.phase {
                Phase::Waiting(_) => "waiting",
                Phase::Reading => "reading",
                Phase::Stopped => "stopped",
            };
            report.position = self.stored.or(report.position);
            change(report);
        });
    }
}
