//! Room for requests with `w=0`: they are answered before they are taken, so that nothing holds
//! their senders back. What waits is bounded in bytes; a request beyond it is refused, with 503.

use std::sync::Arc;

use axum::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of bodies that wait to be taken.
const WAITING_BYTES_MAX: u32 = 64 << 20;
/// A small body takes this much too: a task, its parameters.
const BODY_BYTES_MIN: u32 = 4 << 10;

/// Room for the bodies of requests with `w=0` that were answered and not taken yet.
#[derive(Debug)]
pub(in crate::server) struct Unacknowledged(Arc<Semaphore>);

impl Default for Unacknowledged {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(WAITING_BYTES_MAX as usize)))
    }
}

impl Unacknowledged {
    /// Room for a body until what is returned is dropped; none when too many wait.
    pub(super) fn room(&self, body: &Bytes) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let bytes = bytes.clamp(BODY_BYTES_MIN, WAITING_BYTES_MAX);
        Arc::clone(&self.0).try_acquire_many_owned(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_wait_until_their_room_is_full() {
        let all = Unacknowledged::default();
        let body = |bytes: u32| Bytes::from(vec![0; bytes as usize]);
        let half = all.room(&body(WAITING_BYTES_MAX / 2));
        let other = all.room(&body(WAITING_BYTES_MAX / 2));
        assert!(half.is_some() && other.is_some());
        assert!(all.room(&body(0)).is_none(), "an empty body takes room too");
        drop(half);
        let small: Vec<_> = (0..8).map(|_| all.room(&body(1))).collect();
        assert!(small.iter().all(Option::is_some));
        assert!(all.room(&body(WAITING_BYTES_MAX / 2)).is_none());
        drop((small, other));
        // One that is larger than all of the room is taken when nothing else waits.
        assert!(all.room(&body(WAITING_BYTES_MAX + 1)).is_some());
    }
}
