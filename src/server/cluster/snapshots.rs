//! The states of the store that are held for peers.
//!
//! # Invariants
//! * A state is known by its token and its account: for another account there is none.
//! * A state that was not given back is dropped when its time has passed, though nothing asks for
//!   it: it holds files that compaction has replaced.
//! * One account has at most [`HELD_MAX`] states.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use secrecy::ExposeSecret;
use storage::Snapshot;
use tokio::time::Instant;

use crate::access::token::random_secret;

/// Maximum states of one account.
pub(in crate::server) const HELD_MAX: usize = 256;
/// Digits of a token in base 62, more than 128 random bits.
const TOKEN_DIGITS: usize = 32;
/// Time for which a state is held longer than a query may take.
const MARGIN: Duration = Duration::from_secs(60);
/// Time for which a state is held where queries may take any time.
const UNLIMITED: Duration = Duration::from_secs(3600);

/// The states that are held.
#[derive(Debug)]
pub(in crate::server) struct PeerSnapshots {
    kept_for: Duration,
    held: Mutex<States>,
}

#[derive(Debug, Default)]
struct States {
    by_token: HashMap<String, PinnedState>,
    /// A task drops those that expire.
    is_swept: bool,
}

#[derive(Debug)]
struct PinnedState {
    account: String,
    snapshot: Arc<Snapshot>,
    until: Instant,
}

impl PeerSnapshots {
    /// Creates the states of a server whose queries have these limits.
    pub(in crate::server) fn kept_for(limits: &query::Limits) -> Self {
        Self {
            kept_for: limits.time.map_or(UNLIMITED, |time| time + MARGIN),
            held: Mutex::default(),
        }
    }

    /// Holds a state for an account; returns its token, or `None` if the account has too many.
    pub(super) fn hold(self: &Arc<Self>, account: &str, snapshot: Arc<Snapshot>) -> Option<String> {
        let mut held = self.held.lock();
        held.sweep();
        let own = held
            .by_token
            .values()
            .filter(|state| state.account == account);
        if own.count() >= HELD_MAX {
            return None;
        }
        let token = random_secret(TOKEN_DIGITS).expose_secret().to_owned();
        let state = PinnedState {
            account: account.to_owned(),
            snapshot,
            until: Instant::now() + self.kept_for,
        };
        held.by_token.insert(token.clone(), state);
        if !std::mem::replace(&mut held.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
        Some(token)
    }

    /// Returns a state of an account.
    pub(super) fn find(&self, account: &str, token: &str) -> Option<Arc<Snapshot>> {
        let held = self.held.lock();
        let state = held.by_token.get(token);
        let state = state.filter(|s| s.account == account && s.until > Instant::now())?;
        Some(Arc::clone(&state.snapshot))
    }

    /// Drops a state of an account. Returns whether there was one.
    pub(super) fn give_back(&self, account: &str, token: &str) -> bool {
        let is_held = self.find(account, token).is_some();
        is_held && self.held.lock().by_token.remove(token).is_some()
    }

    /// Returns the number of states that are held.
    pub(in crate::server) fn count(&self) -> usize {
        self.held.lock().by_token.len()
    }
}

impl States {
    fn sweep(&mut self) {
        let now = Instant::now();
        self.by_token.retain(|_, state| state.until > now);
    }
}

/// Drops states when they expire, until there is none.
async fn sweep(all: Weak<PeerSnapshots>) {
    loop {
        let next = {
            let Some(all) = all.upgrade() else { return };
            let mut held = all.held.lock();
            held.sweep();
            let next = held.by_token.values().map(|state| state.until).min();
            held.is_swept = next.is_some();
            next
        };
        match next {
            Some(next) => tokio::time::sleep_until(next).await,
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(time: Duration) -> (Arc<PeerSnapshots>, Arc<Snapshot>) {
        let dir = tempfile::tempdir().expect("a directory");
        let store = storage::Store::open(dir.path(), storage::Options::default());
        let limits = query::Limits {
            time: Some(time),
            ..query::Limits::default()
        };
        let states = Arc::new(PeerSnapshots::kept_for(&limits));
        (states, store.expect("a store").snapshot())
    }

    #[tokio::test]
    async fn a_state_is_known_to_its_account_until_it_is_given_back() {
        let (states, snapshot) = states(Duration::ZERO);
        let token = states.hold("user ann", snapshot).expect("a place");
        assert!(states.find("user ann", &token).is_some());
        assert!(states.find("user bob", &token).is_none());
        assert!(!states.give_back("user bob", &token));
        assert!(!states.give_back("user ann", "another"));
        assert!(states.give_back("user ann", &token));
        assert!(!states.give_back("user ann", &token));
        assert_eq!(states.count(), 0);
    }

    #[tokio::test]
    async fn an_account_has_a_bounded_number_and_each_token_is_another() {
        let (states, snapshot) = states(Duration::ZERO);
        let mut tokens = std::collections::BTreeSet::new();
        for _ in 0..HELD_MAX {
            tokens.extend(states.hold("user ann", Arc::clone(&snapshot)));
        }
        assert_eq!(tokens.len(), HELD_MAX);
        assert!(tokens.iter().all(|token| token.len() == TOKEN_DIGITS));
        assert_eq!(states.hold("user ann", Arc::clone(&snapshot)), None);
        assert!(states.hold("user bob", snapshot).is_some());
    }

    #[tokio::test]
    async fn a_state_expires_though_nobody_asks_for_it() {
        let (states, snapshot) = states(Duration::ZERO);
        assert_eq!(states.kept_for, MARGIN);
        let states = Arc::new(PeerSnapshots {
            kept_for: Duration::from_millis(20),
            held: Mutex::default(),
        });
        for _ in 0..2 {
            let held = states.hold("user ann", Arc::clone(&snapshot));
            let token = held.expect("a place");
            while states.count() > 0 {
                tokio::task::yield_now().await;
            }
            assert!(states.find("user ann", &token).is_none());
        }
    }
}
