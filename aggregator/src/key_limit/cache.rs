//! A cache of the admitted keys of a rollup, so that the next reader need not collect them again
//! from the tiles of a day and from the chunks of the memtable.
//!
//! # Invariants
//! * The keys admitted before a sequence number are a pure function of the events below it: the
//!   keys are the same in every snapshot, wherever these events are stored by then.
//! * The keys decide the events below that number too, not only later ones: a key of these events
//!   that is not admitted came after the limit was reached. So the newest entry serves a reader of
//!   an older snapshot too.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::AdmittedKeys;

/// Limit of the cached keys of all days, some hundred bytes each.
const KEYS_MAX: usize = 400_000;

/// Admitted keys by day.
#[derive(Debug, Default)]
pub(super) struct AdmissionCache(Mutex<CachedDays>);

#[derive(Debug, Default)]
struct CachedDays {
    days: BTreeMap<i64, Day>,
    tick: u64,
}

#[derive(Debug)]
struct Day {
    /// The sequence number before which the keys were admitted.
    end: u64,
    admitted: Arc<AdmittedKeys>,
    /// Tick of the latest use.
    used: u64,
}

impl AdmissionCache {
    /// Returns the admitted keys of a day, and the sequence number before which they were admitted.
    pub(super) fn of(&self, day_us: i64) -> Option<(u64, Arc<AdmittedKeys>)> {
        let mut inner = self.0.lock();
        inner.tick += 1;
        let tick = inner.tick;
        let day = inner.days.get_mut(&day_us)?;
        day.used = tick;
        Some((day.end, Arc::clone(&day.admitted)))
    }

    /// Stores the keys admitted before `end`, unless the entry of the day reaches at least as far.
    pub(super) fn keep(&self, day_us: i64, end: u64, admitted: Arc<AdmittedKeys>) {
        let mut inner = self.0.lock();
        if inner.days.get(&day_us).is_some_and(|day| day.end >= end) {
            return;
        }
        inner.tick += 1;
        let used = inner.tick;
        let day = Day {
            end,
            admitted,
            used,
        };
        inner.days.insert(day_us, day);
        inner.evict();
    }
}

impl CachedDays {
    /// Removes the least recently used days.
    fn evict(&mut self) {
        let keys = |days: &BTreeMap<i64, Day>| -> usize {
            days.values().map(|day| day.admitted.len()).sum()
        };
        while self.days.len() > 1 && keys(&self.days) > KEYS_MAX {
            let oldest = self.days.iter().min_by_key(|(_, day)| day.used);
            let oldest = oldest.map(|(day_us, _)| *day_us);
            oldest.and_then(|day_us| self.days.remove(&day_us));
        }
    }
}
