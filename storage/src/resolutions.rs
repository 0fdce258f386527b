//! What became of the items in quarantine: each waits until it is settled, by becoming an event or by
//! being given up.
//!
//! # Invariants
//! 1. An item is settled at most once, for ever. A batch names the items that it settles; the log
//!    thread takes it only when all of them wait, so that in journal order no two batches settle the
//!    same item, whoever sends them and how often.
//! 2. What a batch settles and the events that the items became are one journal record: after a crash
//!    both are there or neither.
//! 3. What is settled is never forgotten, neither by a seal or a merge of checkpoints nor when the
//!    quarantine gives its rows up: a replay that still reads an older snapshot is answered alike.
//! 4. The set of a snapshot belongs to its events: both were taken together.
//! 5. A partition of the quarantine is given up only when each of its rows is settled.
//!
//! # What it costs
//! Numbers that follow one another are one range of 16 bytes. A file that no format fitted is one
//! range; when every other line was bad, and all of them were settled, it is one range for each: 16 MB
//! for a million, of memory and, before compression, of every sixteenth checkpoint. The log thread
//! copies the set once for each batch that settles while a reader holds the set before it.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::model::Ack;

/// Sequence numbers as half-open ranges that rise and do not touch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// The ranges of some numbers, in any order.
    pub fn of(numbers: impl IntoIterator<Item = u64>) -> Self {
        let mut ranges = Self(numbers.into_iter().map(|n| (n, n + 1)).collect());
        ranges.join();
        ranges
    }

    /// How many numbers they hold.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(from, to)| to - from).sum()
    }

    /// Whether they hold none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this number is among them.
    pub fn contains(&self, number: u64) -> bool {
        let after = self.0.partition_point(|(from, _)| *from <= number);
        after > 0 && number < self.0[after - 1].1
    }

    /// How many numbers of `[from, to)` they hold.
    pub fn count_in(&self, (from, to): (u64, u64)) -> u64 {
        let first = self.0.partition_point(|(_, end)| *end <= from);
        let reach = self.0[first..].iter().take_while(|(start, _)| *start < to);
        reach
            .map(|(start, end)| to.min(*end) - from.max(*start))
            .sum()
    }

    /// How many numbers both hold.
    pub fn in_common(&self, other: &Self) -> u64 {
        other.0.iter().map(|range| self.count_in(*range)).sum()
    }

    /// Exclusive end of the last.
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

    /// Puts them in order and joins those that touch. What is sorted already is only walked over.
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
            Err("ranges do not rise, or touch")
        }
    }
}

impl From<Ranges> for Vec<(u64, u64)> {
    fn from(ranges: Ranges) -> Self {
        ranges.0
    }
}

/// How an item of the quarantine was settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settlement {
    /// It has become an event.
    Replayed,
    /// It was given up.
    Dropped,
}

impl Settlement {
    /// Both, in the order of their codes in the journal.
    pub(crate) const ALL: [Self; 2] = [Self::Replayed, Self::Dropped];

    /// As users read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Replayed => "replayed",
            Self::Dropped => "dropped",
        }
    }
}

/// The items that no longer wait.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settled {
    replayed: Ranges,
    dropped: Ranges,
}

impl Settled {
    /// How an item was settled; `None` while it waits.
    pub fn how(&self, seq: u64) -> Option<Settlement> {
        let settled = |how: &Settlement| self.items(*how).contains(seq);
        Settlement::ALL.into_iter().find(settled)
    }

    /// The items that were settled in this way.
    pub fn items(&self, how: Settlement) -> &Ranges {
        match how {
            Settlement::Replayed => &self.replayed,
            Settlement::Dropped => &self.dropped,
        }
    }

    /// How many numbers of `[from, to)` are settled.
    pub(crate) fn count_in(&self, range: (u64, u64)) -> u64 {
        self.replayed.count_in(range) + self.dropped.count_in(range)
    }

    pub(crate) fn add(&mut self, items: &Ranges, how: Settlement) {
        match how {
            Settlement::Replayed => self.replayed.add(items),
            Settlement::Dropped => self.dropped.add(items),
        }
    }

    /// What a batch is told that settles `items`, of which `taken` were settled by batches before it
    /// that are not in this set yet: `None` when it is the first to settle them.
    ///
    /// # Errors
    /// [`Error::Settled`] when only some of them were settled.
    pub(crate) fn known(&self, items: &Ranges, taken: u64) -> Result<Option<Ack>> {
        let settled = taken + self.replayed.in_common(items) + self.dropped.in_common(items);
        match settled {
            0 => Ok(None),
            // By one batch or by several; whoever asks again is told no figures.
            all if all == items.count() => Ok(Some(Ack {
                accepted: 0,
                quarantined: 0,
                first_seq: None,
                last_seq: None,
                duplicate: true,
            })),
            some => Err(Error::Settled {
                items: items.count(),
                settled: some,
            }),
        }
    }
}

/// Checks what a batch says that it settles: every item becomes one event, or none does.
pub(crate) fn check(items: &Ranges, how: Settlement, events: u64, bad: u64) -> Result<()> {
    let wanted = match how {
        Settlement::Replayed => items.count(),
        Settlement::Dropped => 0,
    };
    if items.is_empty() || bad > 0 || events != wanted {
        return Err(Error::invalid(format!(
            "a batch that settles {} items of the quarantine cannot bring {events} events and {bad} bad items",
            items.count()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
