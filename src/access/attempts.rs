//! Attempts of logins whose proof does not tell its password, as in SCRAM: a client that failed
//! too often within a minute is refused before its next proof is checked.
//!
//! # Invariants
//! * Of one user from one address, and of one address, at most so many attempts fail within a
//!   window: those under way count as failed until they succeed.
//! * Attempts that succeed cost nothing. More of them at once than may fail wait for each other.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Refused;
use super::logins::network;

/// Time after which failures are forgotten.
const WINDOW: Duration = Duration::from_secs(60);
/// Failures of one user from one address within the window.
const PER_USER: u32 = 5;
/// Failures from one address within the window.
const PER_ADDRESS: u32 = 60;
/// Interval at which an attempt looks whether those before it have ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// Counts without an attempt under way are forgotten when there are more than this.
const SWEPT_AT: usize = 4096;
/// Characters of a user's name that count: it may be longer than any user's.
const NAME_CHARS: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Counted {
    User(IpAddr, String),
    Address(IpAddr),
}

impl Counted {
    fn most(&self) -> u32 {
        match self {
            Self::User(..) => PER_USER,
            Self::Address(_) => PER_ADDRESS,
        }
    }
}

/// The attempts of one key.
#[derive(Debug, Clone, Copy)]
struct Count {
    began: Instant,
    failed: u32,
    under_way: u32,
}

/// The attempts of all clients.
#[derive(Debug, Default, Clone)]
pub(super) struct Attempts(Arc<Mutex<HashMap<Counted, Count>>>);

/// An attempt under way. It has failed when it is dropped.
#[derive(Debug)]
pub(super) struct LoginAttempt {
    attempts: Attempts,
    keys: [Counted; 2],
    has_succeeded: bool,
}

impl Attempts {
    /// Begins an attempt, after those before it have ended if they may all fail.
    ///
    /// # Errors
    /// The time until the client may try again.
    pub(super) async fn begin(&self, user: &str, from: IpAddr) -> Result<LoginAttempt, Refused> {
        let from = network(from);
        let user = user.chars().take(NAME_CHARS).collect();
        let keys = [Counted::User(from, user), Counted::Address(from)];
        while !self.take(&keys)? {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Ok(LoginAttempt {
            attempts: self.clone(),
            keys,
            has_succeeded: false,
        })
    }

    /// Counts an attempt as under way; false if it has to wait for others.
    fn take(&self, keys: &[Counted; 2]) -> Result<bool, Refused> {
        let mut counts = self.0.lock();
        let now = Instant::now();
        if counts.len() > SWEPT_AT {
            counts.retain(|_, count| count.under_way > 0 || now - count.began < WINDOW);
        }
        let mut has_place = true;
        for key in keys {
            let count = counts.entry(key.clone()).or_insert(Count {
                began: now,
                failed: 0,
                under_way: 0,
            });
            let age = now - count.began;
            if age >= WINDOW {
                (count.began, count.failed) = (now, 0);
            }
            if count.failed >= key.most() {
                return Err(Refused::Slow(WINDOW - age));
            }
            has_place &= count.failed + count.under_way < key.most();
        }
        if has_place {
            for key in keys {
                counts.entry(key.clone()).and_modify(|c| c.under_way += 1);
            }
        }
        Ok(has_place)
    }
}

impl LoginAttempt {
    /// Ends the attempt with a right proof.
    pub(super) fn succeeded(mut self) {
        self.has_succeeded = true;
    }
}

impl Drop for LoginAttempt {
    fn drop(&mut self) {
        let mut counts = self.attempts.0.lock();
        for key in &self.keys {
            if let Some(count) = counts.get_mut(key) {
                count.under_way = count.under_way.saturating_sub(1);
                count.failed += u32::from(!self.has_succeeded);
            }
        }
    }
}

#[cfg(test)]
mod tests;
