//! The names that a rollup has given, so that the next reader need not gather them again from the tiles
//! of a day and from all that waits in the memtable.
//!
//! # Invariants
//! * The names given before a sequence number are a pure function of the events below it: they hold in
//!   every snapshot, wherever these events lie by then.
//! * They decide all of these events, not only those that follow: a key that came before then and has no
//!   name found none left. So the latest serve a reader of an older snapshot too.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::AdmittedKeys;

/// Names kept in all, some hundred bytes each.
const NAMES_MAX: usize = 400_000;

/// Names by day.
#[derive(Debug, Default)]
pub(super) struct AdmissionCache(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    days: BTreeMap<i64, Day>,
    tick: u64,
}

#[derive(Debug)]
struct Day {
    /// Before which sequence number they were given.
    end: u64,
    named: Arc<AdmittedKeys>,
    used: u64,
}

impl AdmissionCache {
    /// The names of a day, and before which sequence number they were given.
    pub(super) fn of(&self, day_us: i64) -> Option<(u64, Arc<AdmittedKeys>)> {
        let mut inner = self.0.lock();
        inner.tick += 1;
        let tick = inner.tick;
        let day = inner.days.get_mut(&day_us)?;
        day.used = tick;
        Some((day.end, Arc::clone(&day.named)))
    }

    /// Keeps the names that were given before `end`, when none are known that go further.
    pub(super) fn keep(&self, day_us: i64, end: u64, named: Arc<AdmittedKeys>) {
        let mut inner = self.0.lock();
        if inner.days.get(&day_us).is_some_and(|day| day.end >= end) {
            return;
        }
        inner.tick += 1;
        let used = inner.tick;
        inner.days.insert(day_us, Day { end, named, used });
        inner.make_room();
    }
}

impl Inner {
    /// Forgets the days that were not asked for longest.
    fn make_room(&mut self) {
        let names =
            |days: &BTreeMap<i64, Day>| -> usize { days.values().map(|day| day.named.len()).sum() };
        while self.days.len() > 1 && names(&self.days) > NAMES_MAX {
            let oldest = self.days.iter().min_by_key(|(_, day)| day.used);
            let oldest = oldest.map(|(day_us, _)| *day_us);
            oldest.and_then(|day_us| self.days.remove(&day_us));
        }
    }
}
