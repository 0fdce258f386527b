//! The order and the bounds of parts on their way to other servers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

/// Maximum bytes of parts on their way to one server; a batch that comes then waits.
const BYTES_MAX: usize = 64 << 20;
/// Longest wait of a batch for the parts before it.
const ROOM_WITHIN: Duration = Duration::from_secs(5);

/// The last part of each ordered source on its way to each shard: connections do not keep order, so
/// the next part waits for its outcome.
#[derive(Debug, Default)]
pub(super) struct Lanes(Arc<Mutex<HashMap<(u16, String), Last>>>);

#[derive(Debug)]
struct Last {
    number: u64,
    done: oneshot::Receiver<()>,
}

/// The turn of a part in its lane, which ends when it is dropped.
#[derive(Debug)]
pub(super) struct LaneTurn {
    before: Option<oneshot::Receiver<()>>,
    lanes: Arc<Mutex<HashMap<(u16, String), Last>>>,
    lane: (u16, String),
    number: u64,
    _done: oneshot::Sender<()>,
}

impl Lanes {
    /// Takes the next place of a source on the way to a shard.
    pub(super) fn turn(&self, shard: u16, producer: &str) -> LaneTurn {
        let (tell, done) = oneshot::channel();
        let lane = (shard, producer.to_owned());
        let mut lanes = self.0.lock();
        let before = lanes.remove(&lane);
        let number = before.as_ref().map_or(0, |last| last.number + 1);
        lanes.insert(lane.clone(), Last { number, done });
        LaneTurn {
            before: before.map(|last| last.done),
            lanes: Arc::clone(&self.0),
            lane,
            number,
            _done: tell,
        }
    }
}

impl LaneTurn {
    /// Waits until the part before has its outcome.
    pub(super) async fn comes(&mut self) {
        if let Some(before) = &mut self.before {
            // Its sender is dropped, and never sends.
            let _ended = before.await;
            self.before = None;
        }
    }
}

impl Drop for LaneTurn {
    fn drop(&mut self) {
        let mut lanes = self.lanes.lock();
        if lanes
            .get(&self.lane)
            .is_some_and(|last| last.number == self.number)
        {
            lanes.remove(&self.lane);
        }
    }
}

/// The bytes of parts on their way to one server.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Arc<(Mutex<usize>, Condvar)>);

/// Bytes on their way until this is dropped.
#[derive(Debug)]
pub(super) struct SentBytes(Arc<(Mutex<usize>, Condvar)>, usize);

impl UnderWay {
    /// Waits for room for so many bytes, for a while; one part always has room.
    pub(super) fn take(&self, bytes: usize) -> Option<SentBytes> {
        let (taken, freed) = &*self.0;
        let until = Instant::now() + ROOM_WITHIN;
        let mut taken = taken.lock();
        while *taken > 0 && taken.saturating_add(bytes) > BYTES_MAX {
            if freed.wait_until(&mut taken, until).timed_out() {
                return None;
            }
        }
        *taken += bytes;
        Some(SentBytes(Arc::clone(&self.0), bytes))
    }
}

impl Drop for SentBytes {
    fn drop(&mut self) {
        *self.0.0.lock() -= self.1;
        self.0.1.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn parts_of_a_source_wait_for_each_other_and_no_others() {
        let lanes = Lanes::default();
        let mut first = lanes.turn(1, "a");
        let mut second = lanes.turn(1, "a");
        let mut third = lanes.turn(1, "a");
        first.comes().await;
        for (shard, producer) in [(1, "b"), (2, "a")] {
            lanes.turn(shard, producer).comes().await;
        }
        assert!(futures::poll!(std::pin::pin!(second.comes())).is_pending());
        drop(first);
        second.comes().await;
        assert!(futures::poll!(std::pin::pin!(third.comes())).is_pending());
        drop(second);
        third.comes().await;
        drop(third);
        assert!(lanes.0.lock().is_empty());
    }
}
