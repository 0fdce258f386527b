//! Permits for requests with `w=0`: they are answered before they are parsed, so that nothing holds
//! their senders back. The bytes that wait are bounded; a request beyond them is refused, with 503.

use std::sync::Arc;

use axum::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::serve::UNACKNOWLEDGED_BYTES_MAX as WAITING_BYTES_MAX;

/// The least that a body counts for: a task, its parameters.
const BODY_BYTES_MIN: u32 = 4 << 10;

/// The bodies of requests with `w=0` that were answered and are not parsed yet.
#[derive(Debug)]
pub(in crate::server) struct Unacknowledged(Arc<Semaphore>);

impl Default for Unacknowledged {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(WAITING_BYTES_MAX as usize)))
    }
}

impl Unacknowledged {
    /// Returns the permit of a body that counts for so many bytes, to hold until it is parsed;
    /// `None` when too many wait.
    pub(super) fn permit(&self, bytes: u32) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).try_acquire_many_owned(bytes).ok()
    }
}

/// Returns the bytes that a body counts for while it waits.
pub(super) fn counted(body: &Bytes) -> u32 {
    let bytes = u32::try_from(body.len()).unwrap_or(u32::MAX);
    bytes.clamp(BODY_BYTES_MIN, WAITING_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_wait_until_their_bytes_are_too_many() {
        let all = Unacknowledged::default();
        let body = |bytes: u32| counted(&Bytes::from(vec![0; bytes as usize]));
        let half = all.permit(body(WAITING_BYTES_MAX / 2));
        let other = all.permit(body(WAITING_BYTES_MAX / 2));
        assert!(half.is_some() && other.is_some());
        assert!(all.permit(body(0)).is_none(), "an empty body counts too");
        drop(half);
        let small: Vec<_> = (0..8).map(|_| all.permit(body(1))).collect();
        assert!(small.iter().all(Option::is_some));
        assert!(all.permit(body(WAITING_BYTES_MAX / 2)).is_none());
        drop((small, other));
        // A body larger than the bound is taken when nothing else waits.
        assert!(all.permit(body(WAITING_BYTES_MAX + 1)).is_some());
    }
}
