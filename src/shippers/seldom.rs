//! Messages of the log that strangers can cause.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The least time between two messages.
const INTERVAL: Duration = Duration::from_secs(10);

/// Limits a message of the log to one in ten seconds, so that a flood of its causes is none of the
/// log.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<Option<Instant>>);

impl Seldom {
    /// Returns whether to write the message now.
    pub(crate) fn is_due(&self) -> bool {
        let mut last = self.0.lock();
        let is_due = last.is_none_or(|last| last.elapsed() >= INTERVAL);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}
