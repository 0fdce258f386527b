//! The names that a rollup had given at a few moments, so that the next reader need not gather them
//! again from the tiles of a day and from all that waits in the memtable.
//!
//! # Invariants
//! * The names given before a sequence number are a pure function of the events below it: they hold in
//!   every snapshot that goes so far, wherever these events lie by then.
//! * Only names of the moments at which a chunk begins, or what is sealed ends, are kept.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use super::Named;

/// Moments kept for one day: as many as a memtable has chunks that are still being merged, and the
/// boundary of what is sealed.
const MOMENTS: usize = 16;
/// Names kept in all, some hundred bytes each.
const NAMES_MAX: usize = 400_000;

/// Names by day.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    days: BTreeMap<i64, Day>,
    tick: u64,
}

#[derive(Debug, Default)]
struct Day {
    /// By the sequence number before which they were given; rising.
    moments: VecDeque<(u64, Arc<Named>)>,
    used: u64,
}

impl Kept {
    /// The latest names that are known to have been given before `seq`, and before which.
    pub(super) fn before(&self, day_us: i64, seq: u64) -> Option<(u64, Arc<Named>)> {
        let mut inner = self.0.lock();
        inner.tick += 1;
        let tick = inner.tick;
        let day = inner.days.get_mut(&day_us)?;
        day.used = tick;
        let after = day.moments.partition_point(|(at, _)| *at <= seq);
        Some(day.moments.get(after.checked_sub(1)?)?.clone())
    }

    /// Keeps the names that were given before `seq`.
    pub(super) fn keep(&self, day_us: i64, seq: u64, named: Arc<Named>) {
        let mut inner = self.0.lock();
        inner.tick += 1;
        let used = inner.tick;
        let day = inner.days.entry(day_us).or_default();
        day.used = used;
        let place = day.moments.partition_point(|(at, _)| *at < seq);
        if day.moments.get(place).is_none_or(|(at, _)| *at != seq) {
            day.moments.insert(place, (seq, named));
        }
        if day.moments.len() > MOMENTS {
            day.moments.pop_front();
        }
        inner.make_room();
    }
}

impl Inner {
    fn make_room(&mut self) {
        while self.days.len() > 1 && self.days.values().map(Day::names).sum::<usize>() > NAMES_MAX {
            let oldest = self.days.iter().min_by_key(|(_, day)| day.used);
            let oldest = oldest.map(|(day_us, _)| *day_us);
            oldest.and_then(|day_us| self.days.remove(&day_us));
        }
    }
}

impl Day {
    /// How many there are at most: moments share most of theirs.
    fn names(&self) -> usize {
        self.moments.back().map_or(0, |(_, named)| named.len())
    }
}
