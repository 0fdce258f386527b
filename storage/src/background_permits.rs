//! Permits for background work: backfills, seals and merges.
//!
//! `nice` alone does not give way. The kernel threads that complete a write or a sync wait for the
//! time slice of whatever runs on their core, however nice that is: with every core busy, a sync of
//! half a millisecond takes tens. So background work leaves one core to foreground requests.
//!
//! # Invariants
//! * While a foreground request was seen within the last second, at most `cores - 1` permits are
//!   out, and at least one may be.
//! * Permits are granted in the order of request.
//! * The holder of a permit waits for nothing but the disk: neither for another permit, nor for a
//!   lock under which a permit is requested.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::env::Clock;

/// A foreground request within this time means that another one will follow.
const FOREGROUND_WINDOW_US: i64 = 1_000_000;
/// Interval of the check whether foreground requests have stopped.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Grants permits to background work.
#[derive(Debug)]
pub(crate) struct BackgroundPermits {
    clock: Arc<dyn Clock>,
    permits_max: usize,
    /// Time of the last foreground request, as [`Clock::elapsed_us`].
    foreground_us: AtomicI64,
    queue: Mutex<PermitQueue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PermitQueue {
    /// Permits requested so far.
    requested: u64,
    /// Permits granted so far: the next one goes to the request of this number.
    granted: u64,
    /// Permits held now.
    out: usize,
}

/// A permit, held until it is dropped.
#[derive(Debug)]
pub struct BackgroundPermit<'a>(&'a BackgroundPermits);

impl BackgroundPermits {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::of(clock, cores)
    }

    fn of(clock: Arc<dyn Clock>, cores: usize) -> Self {
        Self {
            clock,
            permits_max: cores.saturating_sub(1).max(1),
            foreground_us: AtomicI64::new(-FOREGROUND_WINDOW_US),
            queue: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Notes a foreground request: a client waits for an acknowledgement or an answer.
    pub(crate) fn note_foreground(&self) {
        let now_us = self.clock.elapsed_us();
        self.foreground_us.store(now_us, Ordering::Relaxed);
    }

    /// Waits for a permit.
    pub(crate) fn acquire(&self) -> BackgroundPermit<'_> {
        self.begin();
        BackgroundPermit(self)
    }

    fn begin(&self) {
        let mut queue = self.queue.lock();
        let mine = queue.requested;
        queue.requested += 1;
        while queue.granted != mine || queue.out >= self.permits_max && self.has_foreground() {
            self.changed.wait_for(&mut queue, CHECK_INTERVAL);
        }
        queue.granted += 1;
        queue.out += 1;
        self.changed.notify_all();
    }

    fn end(&self) {
        self.queue.lock().out -= 1;
        self.changed.notify_all();
    }

    fn has_foreground(&self) -> bool {
        let since_us = self.clock.elapsed_us() - self.foreground_us.load(Ordering::Relaxed);
        since_us < FOREGROUND_WINDOW_US
    }
}

impl BackgroundPermit<'_> {
    /// Gives the permit up for the time of `work`, and queues for it again: earlier requests go
    /// first.
    pub(crate) fn pass<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.end();
        let output = work();
        self.0.begin();
        output
    }
}

impl Drop for BackgroundPermit<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::env::ManualClock;

    /// The most permits out at once, of eight threads that each take some.
    fn most_at_once(permits: &BackgroundPermits) -> usize {
        let (out, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || {
            for nth in 0..20 {
                let permit = permits.acquire();
                let now = out.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                std::thread::sleep(Duration::from_micros(200));
                out.fetch_sub(1, Ordering::SeqCst);
                if nth % 2 == 0 {
                    permit.pass(|| ());
                }
            }
        };
        std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(work))));
        assert_eq!(permits.queue.lock().out, 0);
        most.into_inner()
    }

    #[test]
    fn one_core_is_left_to_the_foreground() {
        let clock = Arc::new(ManualClock::at(0));
        for (cores, most) in [(1, 1), (2, 1), (4, 3)] {
            let permits = BackgroundPermits::of(clock.clone(), cores);
            assert!(most_at_once(&permits) > most, "no foreground request yet");
            permits.note_foreground();
            assert_eq!(most_at_once(&permits), most, "{cores} cores");
            clock.advance(FOREGROUND_WINDOW_US);
            assert!(
                most_at_once(&permits) > most,
                "foreground requests have stopped"
            );
        }
    }

    #[test]
    fn a_passed_permit_queues_behind_earlier_requests() {
        let permits = BackgroundPermits::of(Arc::new(ManualClock::at(0)), 2);
        permits.note_foreground();
        let granted = AtomicUsize::new(0);
        let first = permits.acquire();
        std::thread::scope(|scope| {
            for waiting in 1..=3 {
                scope.spawn(|| {
                    let _permit = permits.acquire();
                    granted.fetch_add(1, Ordering::SeqCst);
                });
                while permits.queue.lock().requested <= waiting {
                    std::thread::yield_now();
                }
            }
            first.pass(|| ());
            let before = granted.load(Ordering::SeqCst);
            drop(first);
            assert_eq!(before, 3);
        });
    }

    #[test]
    fn a_waiting_permit_is_granted_once_foreground_requests_stop() {
        let clock = Arc::new(ManualClock::at(0));
        let permits = BackgroundPermits::of(clock.clone(), 2);
        permits.note_foreground();
        let first = permits.acquire();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| drop(permits.acquire()));
            std::thread::sleep(Duration::from_millis(150));
            assert!(!second.is_finished());
            clock.advance(FOREGROUND_WINDOW_US);
            second.join().expect("no panic");
        });
        drop(first);
    }
}
