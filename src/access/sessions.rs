//! Sessions of the page: a random identifier in a cookie stands for a login.
//!
//! They live in memory: a restart of the server ends them. An identifier is new at each login, so
//! that nobody can prepare one for another.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};

use super::accounts::Account;
use super::token::{TokenHash, hash_of, random_secret};

/// A session that is not used for this time ends.
pub(crate) const IDLE: Duration = Duration::from_secs(12 * 3600);
const SESSIONS_MAX: usize = 10_000;
/// 256 random bits in base 62.
const ID_DIGITS: usize = 43;

#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<Box<str>, Session>>);

#[derive(Debug)]
struct Session {
    account: Account,
    used: Instant,
}

impl Sessions {
    /// Begins a session. Returns its identifier.
    pub(super) fn begin(&self, account: Account) -> SecretString {
        let id = random_secret(ID_DIGITS);
        let mut sessions = self.0.lock();
        if sessions.len() >= SESSIONS_MAX {
            sessions.retain(|_, session| session.used.elapsed() < IDLE);
        }
        if sessions.len() >= SESSIONS_MAX {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.used);
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.and_then(|key| sessions.remove(&key));
        }
        let used = Instant::now();
        sessions.insert(key(&id), Session { account, used });
        id
    }

    /// Returns the account of a session, and notes its use.
    pub(super) fn account(&self, id: &SecretString) -> Option<Account> {
        let mut sessions = self.0.lock();
        let session = sessions.get_mut(&key(id))?;
        if session.used.elapsed() >= IDLE {
            sessions.remove(&key(id));
            return None;
        }
        session.used = Instant::now();
        Some(session.account.clone())
    }

    pub(super) fn end(&self, id: &SecretString) {
        self.0.lock().remove(&key(id));
    }
}

/// The map has hashes, so that the time of a lookup tells nothing about identifiers.
fn key(id: &SecretString) -> Box<str> {
    let hash: TokenHash = hash_of(id.expose_secret());
    hash.as_str().into()
}
