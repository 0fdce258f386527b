//! Followers: receivers of events that have just become visible.

use arrow::array::RecordBatch;
use crossbeam_channel::{Receiver, Sender, TrySendError};

use crate::model::Name;

/// Batches buffered for a slow follower.
const FOLLOW_QUEUE: usize = 1024;

/// Events that have just become visible: the stream and its rows with `_seq`.
#[derive(Debug, Clone)]
pub struct Arrived {
    /// Stream of the events.
    pub stream: Name,
    /// Typed columns with `time` and `_seq`.
    pub events: RecordBatch,
}

/// The queues of all followers.
#[derive(Debug, Default)]
pub(super) struct Followers(Vec<Sender<Arrived>>);

impl Followers {
    /// Adds a follower of the events from now on.
    pub(super) fn add(&mut self) -> Receiver<Arrived> {
        let (send, receive) = crossbeam_channel::bounded(FOLLOW_QUEUE);
        self.0.push(send);
        receive
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sends events to every follower. A follower whose queue is full misses them; one whose
    /// receiver was dropped is removed.
    pub(super) fn send(&mut self, arrived: &Arrived) {
        self.0.retain(|follower| {
            let sent = follower.try_send(arrived.clone());
            !matches!(sent, Err(TrySendError::Disconnected(_)))
        });
    }
}
