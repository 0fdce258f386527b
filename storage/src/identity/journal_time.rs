//! The journal's own time, and the age of the remembered keys by it.
//!
//! A stamp is the arrival time that a program gave to a record, so it may be wrong by any amount.
//! The journal's time is the median of the stamps of the last [`WITNESSES`] records with a key,
//! and never falls. A key begins to age when that many records with a key have followed it, at
//! the journal's time of that moment. Its own stamp does not count.
//!
//! # Invariants
//! Let fewer than half of the stamps of any [`WITNESSES`] records with a key in a row be wrong,
//! ahead or behind.
//! 1. The journal's time is never past the true time: a median lies between the least and the
//!    greatest right stamp of its records.
//! 2. A key begins to age at its own true time or later: the median is one of later records. So
//!    by the first invariant it is remembered for a day at least.
//! 3. A key is forgotten when [`WITNESSES`] records with a key have followed it, and after a day
//!    as many again: their median is more than a day past the time at which it began to age.
//!
//! Whatever the stamps are:
//!
//! 4. The times at which keys begin to age never fall in journal order. So the forgotten keys are
//!    always the oldest, and at most `keys_max` keys are remembered.
//! 5. All of this follows from the stamps and their order alone. The state of a journal's time is
//!    that of the remembered keys, each with its stamp and the time at which it began to age.
//!
//! A journal that stamps its records itself, as Kafka does, passes the lesser of both stamps: then
//! a key is forgotten only when both are a day on.

use std::collections::VecDeque;

/// Keys are remembered for this long by the journal's time.
pub(super) const KEY_AGE_US: i64 = 24 * 3600 * 1_000_000;
/// Number of records whose median is the journal's time; odd. Seven wrong stamps in a row do no
/// harm, and a quiet store remembers only few keys for longer than a day.
pub(super) const WITNESSES: usize = 15;

/// The journal's time. It numbers the keys in journal order, from 0.
#[derive(Debug, Clone)]
pub(super) struct JournalTime {
    now_us: i64,
    /// Stamps of the last keys, which do not age yet. Keys from a checkpoint have the time at
    /// which they began to age beside.
    recent: VecDeque<(i64, Option<i64>)>,
    /// Number of the first remembered key.
    first: u64,
    /// Times at which the keys from `first` on began to age.
    since: VecDeque<i64>,
    /// Maximum number of remembered keys, at least [`WITNESSES`].
    keys_max: u64,
}

impl JournalTime {
    pub(super) fn new(keys_max: u64) -> Self {
        Self {
            now_us: i64::MIN,
            recent: VecDeque::with_capacity(WITNESSES + 1),
            first: 0,
            since: VecDeque::new(),
            keys_max,
        }
    }

    /// Returns the time for the keys of a group that follows. It knows when keys begin to age
    /// that did not before.
    pub(super) fn fork(&self) -> Self {
        Self {
            now_us: self.now_us,
            recent: self.recent.clone(),
            first: self.first + self.since.len() as u64,
            since: VecDeque::new(),
            keys_max: self.keys_max,
        }
    }

    /// Returns the number of the next key.
    pub(super) fn next(&self) -> u64 {
        self.first + (self.since.len() + self.recent.len()) as u64
    }

    /// Returns the number of the first remembered key.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Counts a record with a key. `since_us` is the time at which the key began to age, if a
    /// checkpoint has it.
    pub(super) fn pass(&mut self, stamp_us: i64, since_us: Option<i64>) {
        self.recent.push_back((stamp_us, since_us));
        if self.recent.len() <= WITNESSES {
            return;
        }
        if let Some((_, known)) = self.recent.pop_front() {
            self.now_us = self.now_us.max(known.unwrap_or_else(|| self.median()));
            self.since.push_back(self.now_us);
        }
    }

    fn median(&self) -> i64 {
        let mut stamps = [0; WITNESSES];
        for (stamp, (recent, _)) in stamps.iter_mut().zip(&self.recent) {
            *stamp = *recent;
        }
        stamps.sort_unstable();
        stamps[WITNESSES / 2]
    }

    /// Returns the time at which a key began to age; `None` for one that does not age yet or is
    /// forgotten.
    pub(super) fn since(&self, number: u64) -> Option<i64> {
        let nth = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.since.get(nth).copied()
    }

    /// Checks whether a key is too old by now. `since_us` is the time at which it began to age.
    pub(super) fn is_over(&self, number: u64, since_us: Option<i64>) -> bool {
        self.next().saturating_sub(number) > self.keys_max
            || since_us.is_some_and(|since| self.now_us.saturating_sub(since) > KEY_AGE_US)
    }

    /// Forgets the first key if it is too old, and returns its number.
    pub(super) fn forget_first(&mut self) -> Option<u64> {
        let first = self.first;
        let since = *self.since.front()?;
        self.is_over(first, Some(since)).then(|| {
            self.since.pop_front();
            self.first += 1;
            first
        })
    }
}

#[cfg(test)]
mod tests;
