//! Batch identities: detect a second copy of a batch, and return the acknowledgement of the
//! first.
//!
//! # Invariants
//! 1. Identities are part of journal records. This state is a function of the records in journal
//!    order, so it is the same after a replay.
//! 2. The checkpoint files that the manifest names cover exactly the records below `sealed_seq`;
//!    the other records come from the journal.
//! 3. The content of events is never compared: equal log lines are legal.
//! 4. Resolutions of quarantined items are remembered for ever (`resolutions.rs`).

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::env::Fs;
use crate::error::{Error, Result};
use crate::file::FileRef;
use crate::model::{Ack, Identity};
use crate::resolutions::{Ranges, Settled, Settlement};
use crate::seeded::{self, Bug};

/// Keys are remembered for this long, and at most [`KEYS_MAX`] of them.
const KEY_AGE_US: i64 = 24 * 3600 * 1_000_000;
const KEYS_MAX: usize = 1_000_000;
/// Acknowledgements remembered per producer, in memory and in checkpoints: a shipper has a
/// handful of batches under way, and does not repeat older ones.
const ANSWERS_MAX: usize = 128;
/// Start of a checkpoint file; the number of its format follows.
const HEAD: &str = "logmill identities ";
const FORMAT: u32 = 1;
/// Number of checkpoint files past which they are merged.
pub(crate) const FILES_MAX: usize = 16;

/// The acknowledgement of one batch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Entry {
    identity: Identity,
    accepted: u64,
    quarantined: u64,
    first_seq: u64,
    received_us: i64,
}

impl Entry {
    /// Returns the resolutions of several batches as one entry, whose counts no client requests.
    fn settling(items: Ranges, how: Settlement, received_us: i64) -> Self {
        Self {
            identity: Identity::Settles { items, how },
            accepted: 0,
            quarantined: 0,
            first_seq: 0,
            received_us,
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
struct Producer {
    position: SourcePosition,
    answers: VecDeque<Entry>,
}

#[derive(Debug)]
struct KnownKey {
    body_hash: u64,
    entry: Entry,
}

/// All that is remembered of earlier batches.
#[derive(Debug, Default)]
pub(crate) struct Identities {
    producers: HashMap<String, Producer>,
    keys: HashMap<u128, KnownKey>,
    by_age: VecDeque<(i64, u128)>,
    settled: Arc<Settled>,
    /// Entries since the last checkpoint began.
    fresh: Vec<Entry>,
}

impl Identities {
    /// Returns the acknowledgement of the first copy, or `None` when this is the first copy.
    /// `pending_to` is the end of this producer's ranges in the group under way, which are not
    /// remembered yet.
    ///
    /// # Errors
    /// [`Error::KeyReused`], [`Error::Gap`], or [`Error::Invalid`] when ranges overlap in part.
    pub(crate) fn known(
        &self,
        identity: &Identity,
        now_us: i64,
        pending_to: Option<u64>,
    ) -> Result<Option<Ack>> {
        match identity {
            Identity::Key { key, body_hash } => {
                let Some(known) = self.keys.get(&xxh3_128(key.as_bytes())) else {
                    return Ok(None);
                };
                if now_us - known.entry.received_us > KEY_AGE_US {
                    return Ok(None);
                }
                if known.body_hash != *body_hash {
                    return Err(reused(identity));
                }
                Ok(Some(known.entry.ack()))
            }
            Identity::Range {
                producer, from, to, ..
            } => {
                let known = self.producers.get(producer);
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
                let mut answers = known.iter().flat_map(|k| &k.answers);
                let answer = match answers.find(|e| e.identity.same_batch(identity)) {
                    Some(first) if first.identity != *identity => {
                        return Err(reused(identity));
                    }
                    first => first.map(Entry::ack),
                };
                // A batch older than those remembered was stored, but its counts are forgotten.
                Ok(Some(answer.unwrap_or(Ack::UNCOUNTED_DUPLICATE)))
            }
            Identity::Settles { items, .. } => {
                let is_duplicate = self.settled.are_resolved(items, 0)?;
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
        let entry = Entry {
            identity,
            accepted: ack.accepted,
            quarantined: ack.quarantined,
            first_seq: ack.first_seq.unwrap_or(0),
            received_us,
        };
        self.apply(entry.clone());
        self.fresh.push(entry);
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
            Identity::Key { key, body_hash } => {
                let hash = xxh3_128(key.as_bytes());
                let (body_hash, at) = (*body_hash, entry.received_us);
                self.keys.insert(hash, KnownKey { body_hash, entry });
                self.by_age.push_back((at, hash));
                while self.by_age.len() > KEYS_MAX
                    || self
                        .by_age
                        .front()
                        .is_some_and(|(t, _)| at - t > KEY_AGE_US)
                {
                    let Some((aged_at, aged)) = self.by_age.pop_front() else {
                        break;
                    };
                    // The same key may have come again since, at a later time.
                    if self
                        .keys
                        .get(&aged)
                        .is_some_and(|k| k.entry.received_us == aged_at)
                    {
                        self.keys.remove(&aged);
                    }
                }
            }
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
        let known = self.keys.get(&xxh3_128(key.as_bytes()))?;
        Some(known.body_hash)
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

    /// Reads a checkpoint file and adds its entries.
    pub(crate) fn load(&mut self, fs: &dyn Fs, data: &Path, file: &FileRef) -> Result<()> {
        for entry in decode(data, file, &file.read(fs, data)?)? {
            let settles = matches!(entry.identity, Identity::Settles { .. });
            if settles && seeded::is(Bug::SettledForgotten) {
                continue;
            }
            self.apply(entry);
        }
        Ok(())
    }
}

/// Returns the error of a key or range that came again with another body.
pub(crate) fn reused(identity: &Identity) -> Error {
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

/// Returns the bytes of a checkpoint: a head line, and JSON compressed with zstd.
pub(crate) fn encode(entries: &[Entry]) -> Vec<u8> {
    let json = serde_json::to_vec(entries).expect("BUG: entries are plain data");
    let body = zstd::bulk::compress(&json, 1).expect("BUG: compressing in memory does not fail");
    [format!("{HEAD}{FORMAT}\n").as_bytes(), &body].concat()
}

/// Returns the entries of a checkpoint file.
pub(crate) fn decode(data: &Path, file: &FileRef, bytes: &[u8]) -> Result<Vec<Entry>> {
    let corrupt = |what: String| Error::Corrupt {
        path: data.join(&file.path),
        offset: 0,
        what,
    };
    let body = match bytes.strip_prefix(HEAD.as_bytes()) {
        Some(rest) => {
            let mut parts = rest.splitn(2, |b| *b == b'\n');
            let number = parts.next().and_then(|n| std::str::from_utf8(n).ok());
            let found = number.and_then(|n| n.parse().ok());
            let found = found.ok_or_else(|| corrupt("its head has no format number".into()))?;
            if found != FORMAT {
                return Err(Error::FormatTooNew {
                    path: data.join(&file.path),
                    found,
                    known: FORMAT,
                });
            }
            parts.next().unwrap_or_default()
        }
        // Development versions wrote no head.
        None => bytes,
    };
    let json = zstd::decode_all(body).map_err(|e| corrupt(e.to_string()))?;
    serde_json::from_slice(&json).map_err(|e| corrupt(e.to_string()))
}

/// Returns the entries that are still needed, of a list with the oldest first: the last ones of
/// each producer, the newest keys, and all resolutions of quarantined items, joined.
pub(crate) fn still_needed(mut entries: Vec<Entry>) -> Vec<Entry> {
    let newest = entries.iter().map(|e| e.received_us).max().unwrap_or(0);
    let mut answers: HashMap<String, usize> = HashMap::new();
    let mut keys = 0;
    let mut settled = Settled::default();
    let mut needed: Vec<Entry> = Vec::new();
    while let Some(entry) = entries.pop() {
        let decides = match &entry.identity {
            Identity::Range { producer, .. } => {
                let later = answers.entry(producer.clone()).or_default();
                *later += 1;
                *later <= ANSWERS_MAX
            }
            Identity::Key { .. } => {
                keys += 1;
                keys <= KEYS_MAX && newest - entry.received_us <= KEY_AGE_US
            }
            Identity::Settles { items, how } => {
                settled.add(items, *how);
                false
            }
        };
        if decides {
            needed.push(entry);
        }
    }
    needed.reverse();
    for how in Settlement::ALL {
        let items = settled.items(how).clone();
        if !items.is_empty() {
            needed.push(Entry::settling(items, how, newest));
        }
    }
    needed
}

#[cfg(test)]
mod tests;
