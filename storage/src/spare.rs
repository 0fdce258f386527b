//! The processor's room for work that nobody waits for: backfills, seals and merges.
//!
//! Giving way by `nice` alone is not enough. The kernel's own threads, which end a write or a sync, wait
//! for a slice of whatever runs where they wake, however nice that is: with every core at work a sync of
//! half a millisecond takes tens. So one core is left to those who wait.
//!
//! # Invariants
//! While somebody waits for the store, fewer turns are out than there are cores, but at least one may be.
//! Turns are given in the order in which they were asked for. Whoever has one waits for nothing but the
//! disk: neither for another turn, nor for a lock under which one is asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::env::Clock;

/// Whoever asked within this time will ask again.
const WAITED_FOR_US: i64 = 1_000_000;
/// How often to look whether nobody has asked any more.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Gives turns to work that nobody waits for.
#[derive(Debug)]
pub(crate) struct Spare {
    clock: Arc<dyn Clock>,
    turns_max: usize,
    /// When somebody asked last, as [`Clock::elapsed_us`].
    waited_us: AtomicI64,
    turns: Mutex<Turns>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Turns {
    asked: u64,
    begun: u64,
    out: usize,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub struct Turn<'a>(&'a Spare);

impl Spare {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::of(clock, cores)
    }

    fn of(clock: Arc<dyn Clock>, cores: usize) -> Self {
        Self {
            clock,
            turns_max: cores.saturating_sub(1).max(1),
            waited_us: AtomicI64::new(-WAITED_FOR_US),
            turns: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Somebody waits for an acknowledgement or an answer.
    pub(crate) fn somebody_waits(&self) {
        let now_us = self.clock.elapsed_us();
        self.waited_us.store(now_us, Ordering::Relaxed);
    }

    /// Waits for a turn.
    pub(crate) fn turn(&self) -> Turn<'_> {
        self.begin();
        Turn(self)
    }

    fn begin(&self) {
        let mut turns = self.turns.lock();
        let mine = turns.asked;
        turns.asked += 1;
        while turns.begun != mine || turns.out >= self.turns_max && self.is_waited_for() {
            self.changed.wait_for(&mut turns, LOOK_EVERY);
        }
        turns.begun += 1;
        turns.out += 1;
        self.changed.notify_all();
    }

    fn end(&self) {
        self.turns.lock().out -= 1;
        self.changed.notify_all();
    }

    fn is_waited_for(&self) -> bool {
        let since_us = self.clock.elapsed_us() - self.waited_us.load(Ordering::Relaxed);
        since_us < WAITED_FOR_US
    }
}

impl Turn<'_> {
    /// Lets those go first who have asked meanwhile; `work` is done between.
    pub(crate) fn pass<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.end();
        let made = work();
        self.0.begin();
        made
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::env::ManualClock;

    /// The most turns that were out at once, of eight threads that each take some.
    fn most_at_once(spare: &Spare) -> usize {
        let (out, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || {
            for nth in 0..20 {
                let turn = spare.turn();
                let now = out.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                std::thread::sleep(Duration::from_micros(200));
                out.fetch_sub(1, Ordering::SeqCst);
                if nth % 2 == 0 {
                    turn.pass(|| ());
                }
            }
        };
        std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(work))));
        assert_eq!(spare.turns.lock().out, 0);
        most.into_inner()
    }

    #[test]
    fn one_core_is_left_to_those_who_wait() {
        let clock = Arc::new(ManualClock::at(0));
        for (cores, turns) in [(1, 1), (2, 1), (4, 3)] {
            let spare = Spare::of(clock.clone(), cores);
            assert!(most_at_once(&spare) > turns, "nobody has asked yet");
            spare.somebody_waits();
            assert_eq!(most_at_once(&spare), turns, "{cores} cores");
            clock.advance(WAITED_FOR_US);
            assert!(most_at_once(&spare) > turns, "nobody asks any more");
        }
    }

    #[test]
    fn who_passes_a_turn_comes_after_those_who_have_asked() {
        let spare = Spare::of(Arc::new(ManualClock::at(0)), 2);
        spare.somebody_waits();
        let had_it = AtomicUsize::new(0);
        let first = spare.turn();
        std::thread::scope(|scope| {
            for waiting in 1..=3 {
                scope.spawn(|| {
                    let _turn = spare.turn();
                    had_it.fetch_add(1, Ordering::SeqCst);
                });
                while spare.turns.lock().asked <= waiting {
                    std::thread::yield_now();
                }
            }
            first.pass(|| ());
            let before = had_it.load(Ordering::SeqCst);
            drop(first);
            assert_eq!(before, 3);
        });
    }

    #[test]
    fn a_turn_that_waits_begins_once_nobody_asks_any_more() {
        let clock = Arc::new(ManualClock::at(0));
        let spare = Spare::of(clock.clone(), 2);
        spare.somebody_waits();
        let first = spare.turn();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| drop(spare.turn()));
            std::thread::sleep(Duration::from_millis(150));
            assert!(!second.is_finished());
            clock.advance(WAITED_FOR_US);
            second.join().expect("no panic");
        });
        drop(first);
    }
}
