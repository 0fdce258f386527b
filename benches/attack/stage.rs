//! The stage of one attack: its target, its end, and the answers that attackers got.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;

use super::door::Door;
use super::house::Tokens;

/// Pause of an attacker whose connection broke, before it connects again.
pub(crate) const AGAIN: Duration = Duration::from_millis(500);

pub(crate) struct Stage {
    pub(crate) door: Door,
    pub(crate) tokens: Tokens,
    pub(crate) small: bool,
    pub(crate) lasts: Duration,
    pub(crate) until: Instant,
    seen: Mutex<BTreeMap<String, u64>>,
    broken: Mutex<Vec<String>>,
}

/// A class of attacks, with its bounds.
pub(crate) struct Class {
    pub(crate) name: &'static str,
    /// The attack needs a port with TLS.
    pub(crate) needs_tls: bool,
    /// A full run has the attack on both ports: the cost of a connection is part of it.
    pub(crate) on_both: bool,
    /// Seconds of a full attack. A server's patience with the client is 10 s.
    pub(crate) seconds: u64,
    /// Resident memory that the server may have over that before the class, MiB.
    pub(crate) memory_mib: f64,
    /// The attackers store large bodies, so that a sender waits while one of theirs is written.
    pub(crate) fills_disk: bool,
    /// Outcomes that show that the attack has reached the limit that it is about.
    pub(crate) reached: &'static [&'static str],
    /// Outcomes that are no fault, beside [`REFUSED`].
    pub(crate) accepted: &'static [&'static str],
    pub(crate) run: fn(Arc<Stage>) -> BoxFuture<'static, ()>,
}

/// Outcomes that a server may give to any attack: it refused the request, had too many of them, or
/// closed the connection, which a client that wants to connect may notice in several ways.
pub(crate) const REFUSED: [&str; 6] = ["400", "408", "413", "429", "503", "closed"];

impl Stage {
    pub(crate) fn new(door: Door, tokens: Tokens, small: bool, lasts: Duration) -> Arc<Self> {
        Arc::new(Self {
            door,
            tokens,
            small,
            lasts,
            until: Instant::now() + lasts,
            seen: Mutex::default(),
            broken: Mutex::default(),
        })
    }

    /// Returns the number for this run.
    pub(crate) fn of<T>(&self, small: T, full: T) -> T {
        if self.small { small } else { full }
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Waits for a future until the end of the attack.
    pub(crate) async fn within<F: Future>(&self, future: F) -> Option<F::Output> {
        tokio::time::timeout_at(self.until, future).await.ok()
    }

    pub(crate) fn note(&self, outcome: impl Into<String>) {
        self.note_many(outcome, 1);
    }

    pub(crate) fn note_many(&self, outcome: impl Into<String>, times: u64) {
        *self
            .seen
            .lock()
            .expect("no panic")
            .entry(outcome.into())
            .or_default() += times;
    }

    /// Notes a bound of the class itself that is broken.
    pub(crate) fn breaks(&self, what: String) {
        let mut broken = self.broken.lock().expect("no panic");
        if !broken.contains(&what) {
            broken.push(what);
        }
    }

    /// Returns the outcomes with their numbers, and the broken bounds.
    pub(crate) fn outcomes(&self) -> (BTreeMap<String, u64>, Vec<String>) {
        (
            self.seen.lock().expect("no panic").clone(),
            self.broken.lock().expect("no panic").clone(),
        )
    }

    /// Runs `number` attackers at once and waits for all.
    pub(crate) async fn all<F>(
        self: &Arc<Self>,
        number: usize,
        attacker: impl Fn(Arc<Self>, usize) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut running = tokio::task::JoinSet::new();
        for which in 0..number {
            running.spawn(attacker(Arc::clone(self), which));
        }
        while let Some(ended) = running.join_next().await {
            ended.expect("an attacker panicked");
        }
    }
}
