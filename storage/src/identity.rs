//! Batch identities: detect a second copy of a batch, and return the acknowledgement of the
//! first.
//!
//! # Invariants
//! 1. Identities are part of journal records. This state is a function of the records in journal
//!    order alone: not of a clock, nor of the configuration, nor of how records were grouped. So
//!    it is the same after a replay, and in every program that reads the journal.
//! 2. The checkpoint files that the manifest names cover exactly the records below `sealed_seq`;
//!    the other records come from the journal. Reading them leads to the state of a program that
//!    ran on.
//! 3. The content of events is never compared: equal log lines are legal.
//! 4. Resolutions of quarantined items are remembered for ever (`resolutions.rs`), keys for a day
//!    of the journal's own time, which no single stamp moves (`journal_time.rs`).

mod checkpoint;
mod group;
mod journal_time;
mod keys;

pub(crate) use checkpoint::{FILES_MAX, decode, encode, still_needed};
pub(crate) use group::GroupIdentities;

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::env::Fs;
use crate::error::{Error, Result};
use crate::file::FileRef;
use crate::model::{Ack, Identity};
use crate::resolutions::{Ranges, Settled, Settlement};
use crate::seeded::{self, Bug};
use keys::Keys;

/// Acknowledgements remembered per producer, in memory and in checkpoints: a shipper has a
/// handful of batches under way, and does not repeat older ones.
const ANSWERS_MAX: usize = 128;

/// The acknowledgement of one batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    identity: Identity,
    accepted: u64,
    quarantined: u64,
    first_seq: u64,
    received_us: i64,
    /// Time of the journal at which a key began to age. Only a merged checkpoint has it, since its
    /// keys do not follow from the records before them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since_us: Option<i64>,
}

impl Entry {
    /// Returns the entry of a first copy.
    pub(crate) fn new(identity: Identity, ack: &Ack, received_us: i64) -> Self {
        Self {
            identity,
            accepted: ack.accepted,
            quarantined: ack.quarantined,
            first_seq: ack.first_seq.unwrap_or(0),
            received_us,
            since_us: None,
        }
    }

    /// Returns the resolutions of several batches as one entry, whose counts no client requests.
    fn settling(items: Ranges, how: Settlement) -> Self {
        Self {
            identity: Identity::Settles { items, how },
            accepted: 0,
            quarantined: 0,
            first_seq: 0,
            received_us: 0,
            since_us: None,
        }
    }

    fn ack(&self) -> Ack {
        let items = self.accepted + self.quarantined;
        Ack {
            accepted: self.accepted,
            quarantined: self.quarantined,
            first_seq: (items > 0).then_some(self.first_seq),
            last_seq: (items > 0).then(|| self.first_seq + items - 1),
            duplicate: true,
            shard: None,
        }
    }
}

/// Position up to which an ordered source has been taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourcePosition {
    /// Exclusive end of the range that was taken, in the source's own counter.
    pub to: u64,
    /// xxh3-64 of the source's content before `to`, 0 for sources without content.
    pub content: u64,
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct Producer {
    position: SourcePosition,
    answers: VecDeque<Entry>,
}

/// All that is remembered of earlier batches.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Identities {
    producers: HashMap<String, Producer>,
    keys: Keys,
    settled: Arc<Settled>,
    /// Entries since the last checkpoint began.
    fresh: Vec<Entry>,
}

impl Identities {
    /// Returns the acknowledgement of the first copy, or `None` when this is the first copy.
    /// `group` has the batches before this one that are not remembered yet.
    ///
    /// # Errors
    /// [`Error::KeyReused`], [`Error::Gap`], [`Error::Settled`], or [`Error::Invalid`] when ranges
    /// overlap in part.
    pub(crate) fn known(
        &self,
        identity: &Identity,
        group: &GroupIdentities,
    ) -> Result<Option<Ack>> {
        match identity {
            Identity::Key { key, .. } => answer(identity, self.keys.get_after(group, key)),
            Identity::Range {
                producer, from, to, ..
            } => {
                let known = self.producers.get(producer);
                let pending_to = group.ranges_of(producer).next_back().and_then(range_end);
                let Some(end) = pending_to.or(known.map(|k| k.position.to)) else {
                    return Ok(None);
                };
                if *from == end {
                    return Ok(None);
                }
                if *from > end {
                    return Err(Error::Gap {
                        producer: producer.clone(),
                        from: *from,
                        known: end,
                    });
                }
                if *to > end {
                    return Err(Error::invalid(format!(
                        "producer {producer} sent {from}..{to}, but the store already has its ranges up to {end}; send from {end}"
                    )));
                }
                let answers = known.iter().flat_map(|k| &k.answers);
                let answers = answers.chain(group.ranges_of(producer));
                let mut newest = answers.rev().take(ANSWERS_MAX);
                let first = newest.find(|e| e.identity.same_batch(identity));
                // A batch older than those remembered was stored, but its counts are forgotten.
                Ok(answer(identity, first)?.or(Some(Ack::UNCOUNTED_DUPLICATE)))
            }
            Identity::Settles { items, .. } => {
                let pending = match seeded::is(Bug::SettledInGroup) {
                    true => 0,
                    false => group.resolved(items),
                };
                let is_duplicate = self.settled.are_resolved(items, pending)?;
                Ok(is_duplicate.then_some(Ack::UNCOUNTED_DUPLICATE))
            }
        }
    }

    /// Returns the resolved items of the quarantine.
    pub(crate) fn settled(&self) -> &Arc<Settled> {
        &self.settled
    }

    /// Remembers the acknowledgement of a batch.
    pub(crate) fn remember(&mut self, identity: Identity, ack: &Ack, received_us: i64) {
        let entry = Entry::new(identity, ack, received_us);
        self.apply(entry.clone());
        self.fresh.push(entry);
    }

    /// Checks whether a record without items was read from a checkpoint. Such a record may have the
    /// first sequence number that no checkpoint covers.
    pub(crate) fn has_read(&self, identity: &Identity, received_us: i64) -> bool {
        let is_same =
            |known: &Entry| known.identity == *identity && known.received_us == received_us;
        match identity {
            Identity::Range { producer, .. } => {
                let known = self.producers.get(producer);
                known.is_some_and(|p| p.answers.iter().any(is_same))
            }
            Identity::Key { key, .. } => self.keys.get(key).is_some_and(is_same),
            // To resolve items again changes nothing.
            Identity::Settles { .. } => false,
        }
    }

    fn apply(&mut self, entry: Entry) {
        match &entry.identity {
            Identity::Range {
                producer,
                to,
                content,
                ..
            } => {
                let position = SourcePosition {
                    to: *to,
                    content: *content,
                };
                let known = self
                    .producers
                    .entry(producer.clone())
                    .or_insert_with(|| Producer {
                        position,
                        answers: VecDeque::new(),
                    });
                known.position = position;
                if known.answers.len() == ANSWERS_MAX {
                    known.answers.pop_front();
                }
                known.answers.push_back(entry);
            }
            Identity::Key { .. } => self.keys.add(entry),
            Identity::Settles { items, how } => Arc::make_mut(&mut self.settled).add(items, *how),
        }
    }

    /// Returns the position of a producer.
    pub(crate) fn position(&self, producer: &str) -> Option<SourcePosition> {
        self.producers.get(producer).map(|p| p.position)
    }

    /// Returns the remembered positions of a source in the order in which it reached them: one
    /// after each of its last batches. An unknown source has none.
    pub(crate) fn states(&self, producer: &str) -> Vec<SourcePosition> {
        let known = self.producers.get(producer);
        let answers = known.iter().flat_map(|p| &p.answers);
        let state = |entry: &Entry| match &entry.identity {
            Identity::Range { to, content, .. } => Some(SourcePosition {
                to: *to,
                content: *content,
            }),
            Identity::Key { .. } | Identity::Settles { .. } => None,
        };
        answers.filter_map(state).collect()
    }

    /// Returns the producers whose names begin with `prefix`, sorted.
    pub(crate) fn producers(&self, prefix: &str) -> Vec<String> {
        let names = self.producers.keys().filter(|n| n.starts_with(prefix));
        let mut names: Vec<String> = names.cloned().collect();
        names.sort_unstable();
        names
    }

    /// Returns the body hash with which a key is remembered.
    pub(crate) fn key_fingerprint(&self, key: &str) -> Option<u64> {
        match self.keys.get(key)?.identity {
            Identity::Key { body_hash, .. } => Some(body_hash),
            Identity::Range { .. } | Identity::Settles { .. } => None,
        }
    }

    /// Returns every producer and its position, sorted by name.
    pub(crate) fn positions(&self) -> Vec<(String, SourcePosition)> {
        let mut all: Vec<_> = self
            .producers
            .iter()
            .map(|(name, p)| (name.clone(), p.position))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// Checks whether there are entries since the last checkpoint began.
    pub(crate) fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Takes the entries for the next checkpoint: those since the last one began.
    pub(crate) fn take_fresh(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.fresh)
    }

    /// Puts back the entries that a failed seal had taken.
    pub(crate) fn restore_fresh(&mut self, mut entries: Vec<Entry>) {
        entries.append(&mut self.fresh);
        self.fresh = entries;
    }

    /// Returns the entries that lead to this state, producers by name and keys in journal order.
    pub(crate) fn into_entries(self) -> Vec<Entry> {
        let mut producers: Vec<_> = self.producers.into_iter().collect();
        producers.sort_by(|a, b| a.0.cmp(&b.0));
        let answers = producers.into_iter().flat_map(|(_, p)| p.answers);
        let settling = |how: &Settlement| {
            let items = self.settled.items(*how).clone();
            (!items.is_empty()).then(|| Entry::settling(items, *how))
        };
        let settled = Settlement::ALL.iter().filter_map(settling);
        answers
            .chain(self.keys.into_entries())
            .chain(settled)
            .collect()
    }

    /// Reads a checkpoint file and adds its entries.
    pub(crate) fn load(&mut self, fs: &dyn Fs, data: &Path, file: &FileRef) -> Result<()> {
        self.take(data, file, &file.read(fs, data)?)
    }

    /// Adds the entries of a checkpoint's bytes; `data` names its place in an error.
    pub(crate) fn take(&mut self, data: &Path, file: &FileRef, bytes: &[u8]) -> Result<()> {
        for entry in decode(data, file, bytes)? {
            let settles = matches!(entry.identity, Identity::Settles { .. });
            if settles && seeded::is(Bug::SettledForgotten) {
                continue;
            }
            self.apply(entry);
        }
        Ok(())
    }
}

/// Returns the acknowledgement of the first copy, if there was one.
fn answer(identity: &Identity, first: Option<&Entry>) -> Result<Option<Ack>> {
    match first {
        Some(first) if first.identity != *identity => Err(reused(identity)),
        first => Ok(first.map(Entry::ack)),
    }
}

fn range_end(entry: &Entry) -> Option<u64> {
    match entry.identity {
        Identity::Range { to, .. } => Some(to),
        Identity::Key { .. } | Identity::Settles { .. } => None,
    }
}

/// Returns the error of a key or range that came again with another body.
fn reused(identity: &Identity) -> Error {
    let key = match identity {
        // The listener puts its own prefix before the key, which keeps streams apart.
        Identity::Key { key, .. } => key.rsplit('\0').next().unwrap_or(key).to_owned(),
        Identity::Range {
            producer, from, to, ..
        } => format!("{producer} {from}..{to}"),
        Identity::Settles { items, .. } => {
            format!("the resolution of {} quarantined items", items.count())
        }
    };
    Error::KeyReused { key }
}

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
#[cfg(test)]
mod tests;
