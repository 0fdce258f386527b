//! Counts of a shipper.

use std::fmt;

use crate::client::IngestAnswer;

/// Lines and bytes that the server has taken from this process, and the number of attempts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ShipCounts {
    pub(crate) lines: u64,
    pub(crate) accepted: u64,
    pub(crate) quarantined: u64,
    pub(crate) empty: u64,
    pub(crate) bytes: u64,
    pub(crate) requests: u64,
    /// Batches of which the server had the first copy: an answer was lost on its way.
    pub(crate) repeated: u64,
    pub(crate) retries: u64,
    /// Files that turned out to hold other content: cut off, or written by another shipper.
    pub(crate) restarts: u64,
}

impl ShipCounts {
    pub(crate) fn add(&mut self, answer: &IngestAnswer, bytes: u64) {
        self.lines += answer.accepted + answer.quarantined + answer.empty;
        self.accepted += answer.accepted;
        self.quarantined += answer.quarantined;
        self.empty += answer.empty;
        self.bytes += bytes;
        self.requests += 1;
        self.repeated += u64::from(answer.duplicate);
    }
}

impl fmt::Display for ShipCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            lines,
            accepted,
            quarantined,
            empty,
            bytes,
            requests,
            repeated,
            retries,
            restarts,
        } = self;
        write!(
            f,
            "{lines} lines: {accepted} accepted, {quarantined} quarantined, {empty} empty; {bytes} bytes in {requests} batches, {repeated} of them repeated; {retries} retries, {restarts} files recognised anew"
        )
    }
}
