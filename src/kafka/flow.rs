//! The flow between a session and the store: batches under way, and the signal that something is
//! to be done.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Batches that the store has not acknowledged, and the sleep of their session.
#[derive(Debug, Default)]
pub(super) struct Flow {
    state: Mutex<UnderWay>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct UnderWay {
    bytes: usize,
    batches: usize,
    is_woken: bool,
}

impl Flow {
    /// BatchCounts a batch that is submitted.
    pub(super) fn add(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.bytes += bytes;
        state.batches += 1;
    }

    /// BatchCounts a batch whose outcome is known.
    pub(super) fn remove(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.bytes -= bytes;
        state.batches -= 1;
        state.is_woken = true;
        self.changed.notify_all();
    }

    /// Returns the bytes of the batches under way.
    pub(super) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    pub(super) fn wake(&self) {
        self.state.lock().is_woken = true;
        self.changed.notify_all();
    }

    /// Waits until something is to be done, at most for this time.
    pub(super) fn wait(&self, most: Duration) {
        let mut state = self.state.lock();
        if !state.is_woken {
            self.changed.wait_for(&mut state, most);
        }
        state.is_woken = false;
    }

    /// Waits until no batch is under way, at most for this time. Returns whether none is.
    pub(super) fn wait_empty(&self, most: Duration) -> bool {
        let until = Instant::now() + most;
        let mut state = self.state.lock();
        while state.batches > 0 {
            if self.changed.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        state.batches == 0
    }
}
