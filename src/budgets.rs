//! Budgets of events: each key has its own, and a new one when it was silent for long enough.

use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

/// Full budgets are forgotten when there are more keys than this, and then at each doubling.
const SWEPT_AT: usize = 1024;

/// One budget for each key.
#[derive(Debug)]
pub(crate) struct Budgets<K: Clone + Eq + Hash> {
    limiter: RateLimiter<K, HashMapStateStore<K>, DefaultClock>,
    swept_at: AtomicUsize,
}

impl<K: Clone + Eq + Hash> Budgets<K> {
    /// Creates budgets that are full.
    pub(crate) fn new(quota: Quota) -> Self {
        Self {
            limiter: RateLimiter::hashmap(quota),
            swept_at: AtomicUsize::new(SWEPT_AT),
        }
    }

    /// Takes one event from the budget of a key.
    ///
    /// # Errors
    /// If the budget is empty: the time until it is not.
    pub(crate) fn spend(&self, key: &K) -> Result<(), Duration> {
        let spent = self.limiter.check_key(key);
        let spent = spent.map_err(|until| until.wait_time_from(DefaultClock::default().now()));
        if self.limiter.len() > self.swept_at.load(Ordering::Relaxed) {
            self.limiter.retain_recent();
            let next = SWEPT_AT.max(2 * self.limiter.len());
            self.swept_at.store(next, Ordering::Relaxed);
        }
        spent
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn each_key_has_its_budget_and_the_full_ones_are_forgotten() {
        let often = NonZeroU32::new(1_000_000).expect("more than none");
        let budgets = Budgets::new(Quota::per_second(often));
        for key in 0..5000 {
            assert_eq!(budgets.spend(&key), Ok(()));
        }
        assert!(budgets.limiter.len() <= 2 * SWEPT_AT);
        let rarely = NonZeroU32::new(1).expect("more than none");
        let budgets = Budgets::new(Quota::per_hour(rarely));
        for key in 0..5000 {
            assert_eq!(budgets.spend(&key), Ok(()));
        }
        let wait = budgets.spend(&0).expect_err("nothing is left");
        assert!(wait > Duration::from_secs(3000), "{wait:?}");
        assert_eq!(budgets.swept_at.load(Ordering::Relaxed), 8206);
    }
}
