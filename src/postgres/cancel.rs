//! Requests to cancel: a second connection names the first one by its number and its secret.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use parking_lot::Mutex;
use subtle::ConstantTimeEq;
use tokio::sync::watch;

/// Bytes that only the client of a session knows.
type Secret = [u8; 4];

/// The sessions that can be cancelled.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    next: AtomicI32,
    open: Mutex<HashMap<i32, Entry>>,
}

type Entry = (Secret, watch::Sender<u64>);

/// A session among those that can be cancelled.
#[derive(Debug)]
pub(super) struct Cancels {
    sessions: Arc<Sessions>,
    pub(super) number: i32,
    pub(super) secret: Secret,
    requests: watch::Receiver<u64>,
}

impl Sessions {
    /// Adds a session.
    pub(super) fn add(self: &Arc<Self>) -> Cancels {
        let (send, requests) = watch::channel(0);
        let number = self.next.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let secret = rand::random();
        self.open.lock().insert(number, (secret, send));
        Cancels {
            sessions: Arc::clone(self),
            number,
            secret,
            requests,
        }
    }

    /// Cancels the statement of a session, if the secret is its own.
    pub(super) fn cancel(&self, number: i32, secret: &[u8]) {
        if let Some((own, requests)) = self.open.lock().get(&number)
            && bool::from(own.as_slice().ct_eq(secret))
        {
            requests.send_modify(|count| *count += 1);
        }
    }
}

impl Cancels {
    /// Forgets requests so far: they were for an earlier statement.
    pub(super) fn forget(&mut self) {
        self.requests.mark_unchanged();
    }

    /// Waits for a request.
    pub(super) async fn requested(&mut self) {
        if self.requests.changed().await.is_err() {
            // Without a sender there will be none.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Cancels {
    fn drop(&mut self) {
        self.sessions.open.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_secret_of_a_session_cancels_it() {
        let sessions = Arc::new(Sessions::default());
        let (mut one, mut other) = (sessions.add(), sessions.add());
        sessions.cancel(one.number, &one.secret);
        one.requested().await;
        sessions.cancel(other.number, &one.secret.map(|byte| !byte));
        sessions.cancel(other.number, &[]);
        assert!(!other.requests.has_changed().expect("open"));
        sessions.cancel(one.number, &one.secret);
        one.forget();
        assert!(!one.requests.has_changed().expect("open"));
        let (number, secret) = (one.number, one.secret);
        drop(one);
        sessions.cancel(number, &secret);
        other.forget();
    }
}
