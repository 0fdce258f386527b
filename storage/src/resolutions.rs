//! Resolutions of quarantined items: an item is open until it becomes an event or is discarded.
//!
//! # Invariants
//! 1. An item is resolved at most once, for ever. A batch names the items that it resolves; the
//!    log thread accepts it only when all of them are open, so that in journal order no two
//!    batches resolve the same item, whichever client sends them and however often.
//! 2. A batch's resolutions and the events that the items became are one journal record: after a
//!    crash both exist or neither does.
//! 3. A resolution is never forgotten, neither by a seal, nor by a merge of checkpoints, nor when
//!    the quarantine drops its rows: a replay that still reads an older snapshot gets the same
//!    answer.
//! 4. The set of a snapshot belongs to its events: both were taken together.
//! 5. A partition of the quarantine is dropped only when each of its rows is resolved.
//! # Costs
//! Consecutive sequence numbers are one range of 16 bytes. A file that no format fitted is one
//! range. When every other line was bad and all of them are resolved, there is one range per
//! item: 16 MB for a million items, both in memory and, before compression, in every sixteenth
//! checkpoint. The log thread copies the set once for each resolving batch while a reader holds
//! the previous set.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Sequence numbers as half-open ranges that rise and do not touch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Returns the ranges of some numbers, in any order.
    pub fn of(numbers: impl IntoIterator<Item = u64>) -> Self {
        let mut ranges = Self(numbers.into_iter().map(|n| (n, n + 1)).collect());
        ranges.join();
        ranges
    }

    /// Returns how many numbers the ranges hold.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(from, to)| to - from).sum()
    }

    /// Returns true when the ranges hold no number.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks whether a number is in one of the ranges.
    pub fn contains(&self, number: u64) -> bool {
        let after = self.0.partition_point(|(from, _)| *from <= number);
        after > 0 && number < self.0[after - 1].1
    }

    /// Returns how many numbers of `[from, to)` the ranges hold.
    pub fn count_in(&self, (from, to): (u64, u64)) -> u64 {
        let first = self.0.partition_point(|(_, end)| *end <= from);
        let reach = self.0[first..].iter().take_while(|(start, _)| *start < to);
        reach
            .map(|(start, end)| to.min(*end) - from.max(*start))
            .sum()
    }

    /// Returns how many numbers are in both sets of ranges.
    pub fn in_common(&self, other: &Self) -> u64 {
        other.0.iter().map(|range| self.count_in(*range)).sum()
    }

    /// Returns the exclusive end of the last range.
    pub fn end(&self) -> u64 {
        self.0.last().map_or(0, |(_, end)| *end)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.extend(&other.0);
        self.join();
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (u64, u64)> + '_ {
        self.0.iter().copied()
    }

    /// Sorts the ranges and joins those that touch. The sort is one pass when they are sorted
    /// already.
    fn join(&mut self) {
        self.0.sort();
        self.0.dedup_by(|later, earlier| {
            let touch = later.0 <= earlier.1;
            if touch {
                earlier.1 = earlier.1.max(later.1);
            }
            touch
        });
    }
}

impl TryFrom<Vec<(u64, u64)>> for Ranges {
    type Error = &'static str;

    fn try_from(ranges: Vec<(u64, u64)>) -> Result<Self, Self::Error> {
        let whole = ranges.iter().all(|(from, to)| from < to);
        if whole && ranges.is_sorted_by(|a, b| a.1 < b.0) {
            Ok(Self(ranges))
        } else {
            Err("ranges touch, overlap or are out of order")
        }
    }
}

impl From<Ranges> for Vec<(u64, u64)> {
    fn from(ranges: Ranges) -> Self {
        ranges.0
    }
}

/// Resolution of a quarantined item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settlement {
    /// The item has become an event.
    Replayed,
    /// The item was discarded.
    Dropped,
}

impl Settlement {
    /// Both resolutions, in the order of their codes in the journal.
    pub(crate) const ALL: [Self; 2] = [Self::Replayed, Self::Dropped];

    /// Returns the name that users read.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Replayed => "replayed",
            Self::Dropped => "dropped",
        }
    }
}

/// The quarantined items that are resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settled {
    replayed: Ranges,
    dropped: Ranges,
}

impl Settled {
    /// Returns the resolution of an item; `None` while it is open.
    pub fn how(&self, seq: u64) -> Option<Settlement> {
        let settled = |how: &Settlement| self.items(*how).contains(seq);
        Settlement::ALL.into_iter().find(settled)
    }

    /// Returns the items with this resolution.
    pub fn items(&self, how: Settlement) -> &Ranges {
        match how {
            Settlement::Replayed => &self.replayed,
            Settlement::Dropped => &self.dropped,
        }
    }

    /// Returns how many numbers of `[from, to)` are resolved.
    pub(crate) fn count_in(&self, range: (u64, u64)) -> u64 {
        self.replayed.count_in(range) + self.dropped.count_in(range)
    }

    pub(crate) fn add(&mut self, items: &Ranges, how: Settlement) {
        match how {
            Settlement::Replayed => self.replayed.add(items),
            Settlement::Dropped => self.dropped.add(items),
        }
    }

    /// Checks whether the `items` of a batch are all resolved already: true for a duplicate, false
    /// for the first batch to resolve them. `taken` of the items were resolved by batches before it
    /// that are not in this set yet.
    ///
    /// # Errors
    /// [`Error::Settled`] when only some of the items are resolved.
    pub(crate) fn are_resolved(&self, items: &Ranges, taken: u64) -> Result<bool> {
        let settled = taken + self.replayed.in_common(items) + self.dropped.in_common(items);
        match settled {
            0 => Ok(false),
            all if all == items.count() => Ok(true),
            some => Err(Error::Settled {
                items: items.count(),
                settled: some,
            }),
        }
    }
}

/// Checks the counts of a batch that resolves items: every item becomes one event, or none does.
pub(crate) fn check(items: &Ranges, how: Settlement, events: u64, bad: u64) -> Result<()> {
    let wanted = match how {
        Settlement::Replayed => items.count(),
        Settlement::Dropped => 0,
    };
    if items.is_empty() || bad > 0 || events != wanted {
        return Err(Error::invalid(format!(
            "a batch that resolves {} quarantined items cannot contain {events} events and {bad} bad items",
            items.count()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
