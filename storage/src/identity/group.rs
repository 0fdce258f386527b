//! Identities of a group of batches that is not in the journal yet. With them a batch is decided as
//! if each batch before it had been a group of its own: how batches are grouped depends on time.

use super::journal_time::JournalTime;
use super::keys::key_of;
use super::{Entry, Identities};
use crate::model::Identity;
use crate::resolutions::Ranges;

/// Identities of the first copies in a group, in order.
#[derive(Debug)]
pub(crate) struct GroupIdentities {
    entries: Vec<Entry>,
    pub(super) time: JournalTime,
}

impl GroupIdentities {
    /// Returns the empty group that follows the remembered batches.
    pub(crate) fn after(remembered: &Identities) -> Self {
        Self {
            entries: Vec::new(),
            time: remembered.keys.time.fork(),
        }
    }

    pub(crate) fn add(&mut self, entry: Entry) {
        if key_of(&entry).is_some() {
            self.time.pass(entry.received_us, None);
        }
        self.entries.push(entry);
    }

    /// Returns the entries with keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| key_of(entry).is_some())
    }

    /// Returns the ranges of a producer.
    pub(super) fn ranges_of<'a>(
        &'a self,
        producer: &'a str,
    ) -> impl DoubleEndedIterator<Item = &'a Entry> {
        let is_of = move |entry: &&Entry| match &entry.identity {
            Identity::Range { producer: of, .. } => of == producer,
            Identity::Key { .. } | Identity::Settles { .. } => false,
        };
        self.entries.iter().filter(is_of)
    }

    /// Returns how many of these items the group resolves.
    pub(super) fn resolved(&self, items: &Ranges) -> u64 {
        let resolved = self.entries.iter().map(|entry| match &entry.identity {
            Identity::Settles { items: other, .. } => other.in_common(items),
            Identity::Key { .. } | Identity::Range { .. } => 0,
        });
        resolved.sum()
    }
}
