//! Bulk ingest: a backfill of old logs beside clients that send live events.
//!
//! Bulk requests run one at a time, on a thread with the lowest priority, and only while the
//! memtable has ample free space. So a live request does not wait for a seal that the backfill
//! made necessary, and the backfill uses the processor time that is left.

use std::time::{Duration, Instant};

use tokio::sync::{Mutex, MutexGuard};

use super::workers::Workers;

/// Nice value of the thread.
const NICE: i32 = 19;

/// Interval at which the cells of received events are computed, before a query needs them. A longer
/// interval than one request gives small chunks the time to merge.
const COUNT_EVERY: Duration = Duration::from_millis(40);

/// The thread of bulk ingest, and the turn that requests wait for.
#[derive(Debug)]
pub(crate) struct Bulk {
    thread: Workers,
    /// Time of the last count.
    turn: Mutex<Option<Instant>>,
}

/// The turn of one request, held until the request is answered.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    thread: &'a Workers,
    counted: MutexGuard<'a, Option<Instant>>,
}

impl Bulk {
    /// Starts the thread, which ends when this is dropped.
    pub(crate) fn start() -> std::io::Result<Self> {
        Ok(Self {
            thread: Workers::start("logmill-bulk", 1, NICE)?,
            turn: Mutex::new(None),
        })
    }

    /// Waits for the turn of a request.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        Turn {
            thread: &self.thread,
            counted: self.turn.lock().await,
        }
    }
}

impl Turn<'_> {
    /// Runs `job` on the thread.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.thread.run(job);
    }

    /// Returns whether a count is due. If so, the interval starts again.
    pub(crate) fn is_to_count(&mut self) -> bool {
        let now = Instant::now();
        let due = self.counted.is_none_or(|at| now - at >= COUNT_EVERY);
        if due {
            *self.counted = Some(now);
        }
        due
    }
}
