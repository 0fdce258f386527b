//! The remembered keys of clients.

use std::collections::{HashMap, VecDeque};

use xxhash_rust::xxh3::xxh3_128;

use super::Entry;
use super::group::GroupIdentities;
use super::journal_time::JournalTime;
use crate::model::Identity;

/// Maximum number of remembered keys.
const KEYS_MAX: u64 = 1_000_000;

/// The remembered keys, in journal order.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Keys {
    /// Number of the last entry with a key, by the key's hash.
    numbers: HashMap<u128, u64>,
    entries: VecDeque<Entry>,
    pub(super) time: JournalTime,
}

impl Default for Keys {
    fn default() -> Self {
        Self::new(KEYS_MAX)
    }
}

impl Keys {
    pub(super) fn new(keys_max: u64) -> Self {
        Self {
            numbers: HashMap::new(),
            entries: VecDeque::new(),
            time: JournalTime::new(keys_max),
        }
    }

    /// Remembers the next key of the journal, and forgets those that are too old by then.
    pub(super) fn add(&mut self, entry: Entry) {
        let Some(key) = key_of(&entry) else {
            return;
        };
        self.numbers.insert(hash_of(key), self.time.next());
        self.time.pass(entry.received_us, entry.since_us);
        self.entries.push_back(entry);
        while let Some(number) = self.time.forget_first() {
            let entry = self.entries.pop_front();
            // Journals of programs that forgot keys earlier may have the same key twice.
            let hash = entry.as_ref().and_then(key_of).map(hash_of);
            if let Some(hash) = hash.filter(|hash| self.numbers.get(hash) == Some(&number)) {
                self.numbers.remove(&hash);
            }
        }
    }

    /// Returns the entry of a key.
    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        let (_, entry) = self.numbered(key)?;
        Some(entry)
    }

    /// Returns the entry of a key as of the end of a group that is not in the journal yet.
    pub(super) fn get_after<'a>(
        &'a self,
        group: &'a GroupIdentities,
        key: &str,
    ) -> Option<&'a Entry> {
        let keys = (self.time.next()..).zip(group.keys());
        let of_group = keys.filter(|(_, entry)| key_of(entry) == Some(key)).last();
        let (number, entry) = of_group.or_else(|| self.numbered(key))?;
        let since = self.time.since(number);
        let since = since.or_else(|| group.time.since(number));
        (!group.time.is_over(number, since)).then_some(entry)
    }

    fn numbered(&self, key: &str) -> Option<(u64, &Entry)> {
        let number = *self.numbers.get(&hash_of(key))?;
        let nth = usize::try_from(number - self.time.first()).ok()?;
        Some((number, self.entries.get(nth)?))
    }

    /// Returns the entries with all that a checkpoint needs.
    pub(super) fn into_entries(self) -> impl Iterator<Item = Entry> {
        let Self { entries, time, .. } = self;
        let numbered = (time.first()..).zip(entries);
        numbered.map(move |(number, entry)| Entry {
            since_us: time.since(number),
            ..entry
        })
    }
}

pub(super) fn key_of(entry: &Entry) -> Option<&str> {
    match &entry.identity {
        Identity::Key { key, .. } => Some(key),
        Identity::Range { .. } | Identity::Settles { .. } => None,
    }
}

fn hash_of(key: &str) -> u128 {
    xxh3_128(key.as_bytes())
}

#[cfg(test)]
mod tests;
