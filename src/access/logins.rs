//! Logins with a password: one check at a time, and fewer of those that fail.
//!
//! # Invariants
//! * A password costs the server one derivation of its verifier at a time, whatever the number of
//!   clients, and none once it has been checked ([`Logins::known`]).
//! * A derivation is made for a user that does not exist too, so that both take the same time.
//! * Each address, and each pair of address and user, has a budget of derivations. A password that
//!   was checked before needs none of it, so that an attacker at the same address does not lock
//!   out a data source that works.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use parking_lot::Mutex;
use ring::hmac;
use ring::rand::SystemRandom;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Semaphore;

use super::Refused;
use super::scram::Verifier;
use crate::budgets::Budgets;

/// Derivations a minute for one user from one address.
const PER_USER: NonZeroU32 = NonZeroU32::new(5).expect("more than none");
/// Derivations a minute from one address.
const PER_ADDRESS: NonZeroU32 = NonZeroU32::new(60).expect("more than none");
/// Derivations a second in all; a fifth of a core.
const IN_ALL: NonZeroU32 = NonZeroU32::new(20).expect("more than none");
/// Maximum logins that wait for their derivation.
const WAITING_MAX: usize = 64;
/// Maximum remembered logins; beyond it they are forgotten, and checked again.
const KNOWN_MAX: usize = 4096;

/// The state of logins with passwords.
#[derive(Debug)]
pub(super) struct Logins {
    /// Key of the process, for the codes of checked passwords.
    key: hmac::Key,
    known: Mutex<HashSet<[u8; 32]>>,
    of_users: Budgets<(IpAddr, String)>,
    of_addresses: Budgets<IpAddr>,
    in_all: DefaultDirectRateLimiter,
    one: Semaphore,
    waiting: AtomicUsize,
    /// The verifier of users that do not exist.
    nobody: Verifier,
}

impl Logins {
    pub(super) fn new() -> Self {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        Self {
            key: key.expect("the system has random bytes"),
            known: Mutex::default(),
            of_users: Budgets::new(Quota::per_minute(PER_USER)),
            of_addresses: Budgets::new(Quota::per_minute(PER_ADDRESS)),
            in_all: RateLimiter::direct(Quota::per_second(IN_ALL)),
            one: Semaphore::new(1),
            waiting: AtomicUsize::new(0),
            nobody: Verifier::of_nobody(),
        }
    }

    /// Checks the password of a user; `verifier` is `None` for an unknown one.
    ///
    /// # Errors
    /// If the password is wrong or the user unknown, or too many logins failed.
    pub(super) async fn check(
        &self,
        user: &str,
        verifier: Option<&Verifier>,
        password: &SecretString,
        from: IpAddr,
    ) -> Result<(), Refused> {
        // No password matches the verifier of nobody, so that its code is never known.
        let verifier = verifier.unwrap_or(&self.nobody);
        let code = self.code(verifier, password);
        let is_known = || self.known.lock().contains(&code);
        if is_known() {
            return Ok(());
        }
        let _waits = self.wait()?;
        let Ok(_one) = self.one.acquire().await else {
            return Err(Refused::Slow(Duration::from_secs(1)));
        };
        // The login that was checked meanwhile may have been this one.
        if is_known() {
            return Ok(());
        }
        self.spend(user, from)?;
        let (checked, password) = (verifier.clone(), password.clone());
        let matches = tokio::task::spawn_blocking(move || checked.matches(&password)).await;
        if !matches.unwrap_or(false) {
            return Err(Refused::Wrong);
        }
        let mut known = self.known.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(code);
        Ok(())
    }

    /// Returns the code of a password for a verifier. A new verifier makes another code, so that
    /// an old password is not known any more.
    fn code(&self, verifier: &Verifier, password: &SecretString) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(String::from(verifier.clone()).as_bytes());
        context.update(&[0]);
        context.update(password.expose_secret().as_bytes());
        let tag = context.sign();
        tag.as_ref().try_into().expect("BUG: SHA-256 has 32 bytes")
    }

    fn wait(&self) -> Result<Waits<'_>, Refused> {
        let waits = Waits(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
            return Err(Refused::Slow(Duration::from_secs(1)));
        }
        Ok(waits)
    }

    /// Takes one derivation from the budgets.
    fn spend(&self, user: &str, from: IpAddr) -> Result<(), Refused> {
        let from = network(from);
        self.of_addresses.spend(&from).map_err(Refused::Slow)?;
        // The name may be longer than any user's; its beginning is enough for a key.
        let user: String = user.chars().take(64).collect();
        let of_user = self.of_users.spend(&(from, user));
        of_user.map_err(Refused::Slow)?;
        self.in_all
            .check()
            .map_err(|until| Refused::Slow(until.wait_time_from(DefaultClock::default().now())))?;
        Ok(())
    }
}

/// Counts a login that waits, until it is dropped.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the key of an address: one client of IPv6 has a whole /64.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => {
            let prefix = u128::from(v6) & (u128::MAX << 64);
            IpAddr::V6(Ipv6Addr::from(prefix))
        }
    }
}
