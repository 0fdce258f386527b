//! What must be there, and the comparison with what is. The oracle knows batches by their numbers,
//! which their events carry; of the store it believes acknowledgements, and holds it to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, UInt64Type};

use crate::model::{Ack, Identity, Name, QUARANTINE, SEQ, StreamKind};
use crate::part::read_part;
use crate::rolling::{BoxError, NewRollup, Roller, RollupMeta, Section, TileImage};
use crate::snapshot::Snapshot;
use crate::testing::batch;

pub(super) const STREAM: &str = "events";
const MINUTE_US: i64 = 60_000_000;
/// Items of a batch at most.
const ITEMS_MAX: i64 = 8;

/// What is known of a batch's fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Acknowledged: visible until power is cut, and then the rest is a prefix.
    Acknowledged,
    /// Acknowledged, and everything it was promised with says that it outlives a power cut.
    Durable,
    /// No answer, or one that says that it is not known.
    Unknown,
    /// Not there, and never to be seen.
    Gone,
}

/// A batch that was sent.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) number: i64,
    pub(super) events: u64,
    pub(super) bad: u64,
    pub(super) identity: Option<Identity>,
    pub(super) first_seq: Option<u64>,
    pub(super) fate: Fate,
}

impl Sent {
    pub(super) fn build(&self) -> crate::Batch {
        let times: Vec<i64> = (0..self.events as i64)
            .map(|e| payload(self.number, e))
            .collect();
        let ranks: Vec<u32> = (0..self.bad as u32).map(|i| i * 2).collect();
        // The ranks of what is bad are even as long as there are events between them.
        let last = (self.events + self.bad) as u32;
        let ranks: Vec<u32> = if ranks.last().is_some_and(|r| *r >= last) {
            (0..self.bad as u32).collect()
        } else {
            ranks
        };
        batch(&times, &ranks, self.identity.clone())
    }

    fn items(&self) -> u64 {
        self.events + self.bad
    }
}

fn payload(number: i64, event: i64) -> i64 {
    (number * ITEMS_MAX + event) * MINUTE_US * if number % 2 == 0 { 1 } else { -1 }
}

fn number_of(payload: i64) -> i64 {
    payload.abs() / MINUTE_US / ITEMS_MAX
}

/// Everything sent so far, in the order of sending.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    pub(super) sent: Vec<Sent>,
    /// Where each producer's next range begins.
    pub(super) producers: BTreeMap<u8, u64>,
    next_number: i64,
    /// No sequence number below this may be given any more.
    next_seq: u64,
    /// Parts that were read before, by path: they never change.
    parts: BTreeMap<String, Vec<RecordBatch>>,
}

/// What is to be seen of one store.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Payload by sequence number.
    events: BTreeMap<u64, i64>,
    bad: BTreeSet<u64>,
    positions: BTreeMap<String, u64>,
}

impl Oracle {
    /// A new batch; `producer` when it is a range of one, a key when there is none and `keyed`.
    pub(super) fn new_batch(
        &mut self,
        events: u64,
        bad: u64,
        producer: Option<u8>,
        keyed: bool,
    ) -> usize {
        let number = self.next_number;
        self.next_number += 1;
        let identity = match producer {
            Some(producer) => {
                let from = self.producers.get(&producer).copied().unwrap_or(0);
                let to = from + events + bad + 1;
                self.producers.insert(producer, to);
                Some(Identity::Range {
                    producer: format!("p{producer}"),
                    from,
                    to,
                    content: to,
                })
            }
            None => keyed.then(|| Identity::Key {
                key: format!("events\0{number}"),
                body_hash: number as u64,
            }),
        };
        self.sent.push(Sent {
            number,
            events,
            bad,
            identity,
            first_seq: None,
            fate: Fate::Unknown,
        });
        self.sent.len() - 1
    }

    /// A batch was acknowledged, with `j` or without.
    pub(super) fn acknowledged(&mut self, which: usize, ack: &Ack, j: bool) {
        let sent = &mut self.sent[which];
        let was = sent.fate;
        assert_eq!((ack.accepted, ack.quarantined), (sent.events, sent.bad));
        if ack.duplicate {
            assert!(
                matches!(sent.fate, Fate::Acknowledged | Fate::Durable),
                "{sent:?} was not stored, and is called a duplicate"
            );
            assert_eq!(ack.first_seq, sent.first_seq, "another answer than before");
        } else {
            assert!(
                matches!(sent.fate, Fate::Unknown | Fate::Gone),
                "{sent:?} was stored again"
            );
            if let Some(first) = ack.first_seq {
                assert!(first >= self.next_seq, "sequence {first} was given before");
                self.next_seq = first + sent.items();
                assert_eq!(ack.last_seq, Some(self.next_seq - 1));
            }
            sent.first_seq = ack.first_seq;
            sent.fate = Fate::Acknowledged;
        }
        if was == Fate::Gone {
            // Stored now, not when it was sent first: the order is that of the journal.
            let again = self.sent.remove(which);
            self.sent.push(again);
        }
        if j {
            self.all_durable();
        }
    }

    /// A batch was refused cleanly: it is not there, and its source goes back.
    pub(super) fn refused(&mut self, which: usize) {
        self.sent[which].fate = Fate::Gone;
    }

    /// A sync that covers everything has succeeded.
    pub(super) fn all_durable(&mut self) {
        for sent in &mut self.sent {
            if sent.fate == Fate::Acknowledged {
                sent.fate = Fate::Durable;
            }
        }
    }

    /// Whether it is known what a second copy of this batch is to be answered.
    pub(super) fn may_retry(&self, which: usize) -> bool {
        let sent = &self.sent[which];
        match (&sent.identity, sent.fate) {
            (None, _) | (_, Fate::Unknown) => false,
            (Some(_), Fate::Acknowledged | Fate::Durable) => true,
            (Some(Identity::Key { .. }), Fate::Gone) => true,
            // The range may have been given to others since.
            (Some(Identity::Range { .. }), Fate::Gone) => false,
        }
    }

    /// Looks at everything that a snapshot shows.
    pub(super) fn look(&mut self, snapshot: &Snapshot, positions: Vec<(String, u64)>) -> Seen {
        let mut seen = Seen {
            positions: positions.into_iter().collect(),
            ..Seen::default()
        };
        for rows in self.rows(snapshot, STREAM) {
            let seqs = rows[SEQ].as_primitive::<UInt64Type>().values();
            let payloads = rows["n"].as_primitive::<Int64Type>().values();
            for (seq, payload) in seqs.iter().zip(payloads) {
                let before = seen.events.insert(*seq, *payload);
                assert_eq!(before, None, "sequence {seq} is there twice");
            }
        }
        for rows in self.rows(snapshot, QUARANTINE) {
            for seq in rows[SEQ].as_primitive::<UInt64Type>().values() {
                assert!(seen.bad.insert(*seq), "sequence {seq} is there twice");
            }
        }
        let manifest = snapshot.manifest();
        manifest.check().expect("the manifest's invariants hold");
        let sealed: Vec<u64> = seen
            .events
            .range(..manifest.sealed_seq)
            .map(|(seq, _)| *seq)
            .collect();
        for chunk in snapshot.chunks(STREAM) {
            assert!(chunk.seq.0 >= manifest.sealed_seq, "sealed and in memory");
        }
        for rollup in &manifest.rollups {
            let mut rolled = Vec::new();
            for tile in manifest.tiles_of(rollup.id) {
                for file in &tile.files {
                    let bytes = snapshot.read(&file.file).expect("a tile is there");
                    let seqs = bytes.chunks_exact(8);
                    rolled.extend(seqs.map(|b| u64::from_le_bytes(b.try_into().expect("8"))));
                }
            }
            rolled.sort_unstable();
            assert_eq!(rolled, sealed, "tiles of {} and parts differ", rollup.name);
        }
        for file in &manifest.identities {
            snapshot.read(file).expect("a checkpoint is there");
        }
        seen
    }

    fn rows(&mut self, snapshot: &Snapshot, stream: &str) -> Vec<RecordBatch> {
        let name = Name::new(stream).expect("a name");
        let mut all = Vec::new();
        for part in snapshot.manifest().parts_of(&name) {
            let read = || {
                let bytes = snapshot.read(&part.file).expect("a part is there");
                read_part(bytes, None).expect("a part")
            };
            let known = self.parts.entry(part.file.path.clone());
            all.extend(known.or_insert_with(read).iter().cloned());
        }
        all.extend(snapshot.chunks(stream).iter().map(|c| c.events.clone()));
        all
    }

    /// Settles what became of the batches of a store that was opened again, and checks that it is
    /// what was promised: all that was acknowledged when only the process ended; when the power was
    /// cut, all that is durable and of the others a prefix.
    pub(super) fn reopened(&mut self, seen: &Seen, power: bool) {
        let mut at: BTreeMap<i64, u64> = BTreeMap::new();
        for (seq, payload) in &seen.events {
            let first = at.entry(number_of(*payload)).or_insert(*seq);
            *first = (*first).min(*seq);
        }
        let mut missing: Option<i64> = None;
        for sent in &mut self.sent {
            if sent.fate == Fate::Gone {
                continue;
            }
            let there = if let Some(first) = at.get(&sent.number) {
                // What is bad may come before: the ranks tell where the batch begins.
                let batch = sent.build();
                let before = batch.quarantine.iter().map(|q| u64::from(q.rank));
                let before = before.scan(0, |n, rank| {
                    (rank == *n).then(|| {
                        *n += 1;
                        rank
                    })
                });
                let begins = first - before.count() as u64;
                if sent.fate == Fate::Unknown {
                    assert!(
                        begins >= self.next_seq,
                        "sequence {begins} was given before"
                    );
                    self.next_seq = begins + sent.items();
                    sent.first_seq = Some(begins);
                }
                assert_eq!(sent.first_seq, Some(begins), "{sent:?} has moved");
                true
            } else if let Some(Identity::Range { producer, to, .. }) = &sent.identity {
                // Without events its source's position tells.
                sent.events == 0 && seen.positions.get(producer).is_some_and(|at| at >= to)
            } else {
                match sent.first_seq {
                    Some(first) => seen.bad.contains(&first),
                    None => false,
                }
            };
            if there {
                assert!(
                    missing.is_none(),
                    "batch {missing:?} is lost and the later {sent:?} is not"
                );
                if sent.first_seq.is_none()
                    && sent.items() > 0
                    && let Some(first) = seen.bad.range(self.next_seq..).next()
                {
                    sent.first_seq = Some(*first);
                    self.next_seq = first + sent.items();
                }
                sent.fate = Fate::Durable;
            } else {
                assert!(sent.fate != Fate::Durable, "{sent:?} is lost");
                assert!(
                    power || sent.fate == Fate::Unknown,
                    "{sent:?} is lost by a kill"
                );
                if sent.fate == Fate::Acknowledged || missing.is_some() {
                    missing = missing.or(Some(sent.number));
                }
                missing = missing.or(Some(sent.number));
                sent.fate = Fate::Gone;
            }
        }
        for (producer, to) in &mut self.producers {
            let at = seen.positions.get(&format!("p{producer}"));
            *to = at.copied().unwrap_or(0);
        }
        // What was read before may have been the volatile copy.
        self.parts.clear();
        self.check(seen);
    }

    /// Everything that was acknowledged is there, once, and nothing else but what is unknown.
    pub(super) fn check(&self, seen: &Seen) {
        let (mut events, mut bad) = (seen.events.clone(), seen.bad.clone());
        let mut positions = BTreeMap::new();
        for sent in &self.sent {
            let lives = matches!(sent.fate, Fate::Acknowledged | Fate::Durable);
            if lives && let Some(Identity::Range { producer, to, .. }) = &sent.identity {
                positions.insert(producer.clone(), *to);
            }
            let (Some(first), true) = (sent.first_seq, lives) else {
                continue;
            };
            let batch = sent.build();
            let ranks: Vec<u64> = batch.quarantine.iter().map(|q| q.rank.into()).collect();
            let mut event = 0;
            for rank in 0..sent.items() {
                if ranks.contains(&rank) {
                    assert!(bad.remove(&(first + rank)), "{sent:?} is not all there");
                } else {
                    let found = events.remove(&(first + rank));
                    let wanted = Some(payload(sent.number, event));
                    assert_eq!(found, wanted, "{sent:?} is not all there");
                    event += 1;
                }
            }
        }
        let unknown = self.sent.iter().filter(|s| s.fate == Fate::Unknown);
        let unknown: BTreeSet<i64> = unknown.map(|s| s.number).collect();
        events.retain(|_, payload| !unknown.contains(&number_of(*payload)));
        assert!(events.is_empty(), "not acknowledged, or twice: {events:?}");
        if unknown.is_empty() {
            assert!(bad.is_empty(), "not acknowledged, or twice: {bad:?}");
            assert_eq!(seen.positions, positions);
        }
    }
}

/// A roller whose tiles are the sequence numbers of their events.
#[derive(Debug)]
pub(super) struct Listing;

impl Roller for Listing {
    fn rollups_for(
        &self,
        stream: &Name,
        kind: StreamKind,
        existing: &[RollupMeta],
    ) -> Result<Vec<NewRollup>, BoxError> {
        if kind == StreamKind::Quarantine || existing.iter().any(|r| &r.stream == stream) {
            return Ok(Vec::new());
        }
        Ok(vec![NewRollup {
            name: Name::new("stats")?,
            definition: serde_json::Value::Null,
        }])
    }

    fn tiles(
        &self,
        rollups: &[&RollupMeta],
        events: &[RecordBatch],
    ) -> Result<Vec<TileImage>, BoxError> {
        let mut bytes = Vec::new();
        for rows in events {
            for seq in rows[SEQ].as_primitive::<UInt64Type>().values() {
                bytes.extend_from_slice(&seq.to_le_bytes());
            }
        }
        let events = bytes.len() as u64 / 8;
        let section = Section {
            level: "hour".into(),
            partition_us: 0,
            bucket_min_us: 0,
            bucket_max_us: 0,
            cells: 1,
            events,
            offset: 0,
            len: bytes.len() as u64,
        };
        let image = TileImage {
            bytes,
            sections: vec![section],
            events,
        };
        Ok(vec![image; rollups.len()])
    }
}

/// The roller, shared.
pub(super) fn roller() -> Arc<dyn Roller> {
    Arc::new(Listing)
}
