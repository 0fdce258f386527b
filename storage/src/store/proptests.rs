//! Histories: random operations on a real store beside a model that does not believe it.
//!
//! The model knows which batches it sent, by their own numbers. It never asks the store what should
//! be there: an acknowledgement promises rows, and after each step every one of them has to be seen,
//! once, under the sequence number that was promised. `LOGMILL_CASES` sets the number of histories.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, UInt64Type};
use proptest::prelude::*;

use super::{SKIP, Store};
use crate::env::RealFs;
use crate::error::Error;
use crate::manifest::Manifest;
use crate::model::{Ack, Identity, Name, QUARANTINE, SEQ, StreamKind, WriteConcern};
use crate::part::read_part;
use crate::reader::Reader;
use crate::rolling::{BoxError, NewRollup, Roller, RollupMeta, Section, TileImage};
use crate::snapshot::Snapshot;
use crate::store::Options;
use crate::testing::{FaultFs, batch, options};

const STREAM: &str = "events";

#[derive(Debug, Clone)]
enum Operation {
    /// A batch of so many events and quarantined items; how it is known; its write concern.
    Write {
        events: u8,
        bad: u8,
        identity: How,
        concern: u8,
    },
    /// Several batches at once, without waiting in between.
    Burst {
        batches: u8,
        identity: How,
    },
    /// An earlier batch again, with its identity.
    Retry(prop::sample::Index),
    /// Something that is to be refused: a key with another body, a gap, an overlap.
    Misuse(u8),
    Seal,
    Close,
    Kill,
    Snapshot,
    Read,
}

#[derive(Debug, Clone, Copy)]
enum How {
    Unknown,
    Key,
    Range(u8),
}

fn operation() -> impl Strategy<Value = Operation> {
    let how = prop_oneof![
        2 => Just(How::Unknown),
        2 => Just(How::Key),
        3 => (0..3_u8).prop_map(How::Range),
    ];
    let write =
        (0..6_u8, 0..3_u8, how.clone(), 0..3_u8).prop_map(|(events, bad, identity, concern)| {
            Operation::Write {
                events,
                bad,
                identity,
                concern,
            }
        });
    prop_oneof![
        8 => write,
        2 => (2..9_u8, how).prop_map(|(batches, identity)| Operation::Burst { batches, identity }),
        4 => any::<prop::sample::Index>().prop_map(Operation::Retry),
        1 => (0..3_u8).prop_map(Operation::Misuse),
        3 => Just(Operation::Seal),
        1 => Just(Operation::Close),
        1 => Just(Operation::Kill),
        2 => Just(Operation::Snapshot),
        1 => Just(Operation::Read),
    ]
}

/// A batch that was acknowledged.
#[derive(Debug, Clone)]
struct Sent {
    number: i64,
    events: u64,
    bad: u64,
    identity: Option<Identity>,
    first_seq: Option<u64>,
}

/// What must be there: nothing but what was acknowledged.
#[derive(Debug, Default)]
struct Model {
    sent: Vec<Sent>,
    /// Where each producer's next range begins.
    producers: BTreeMap<u8, u64>,
    next_number: i64,
    /// No sequence number below this may be given any more.
    next_seq: u64,
}

impl Model {
    fn identity(&mut self, how: How, items: u64) -> Option<Identity> {
        match how {
            How::Unknown => None,
            How::Key => Some(Identity::Key {
                key: format!("events\0{}", self.next_number),
                body_hash: 1,
            }),
            How::Range(producer) => {
                let from = *self.producers.get(&producer).unwrap_or(&0);
                let to = from + items + 1;
                self.producers.insert(producer, to);
                let producer = format!("p{producer}");
                let content = to;
                Some(Identity::Range {
                    producer,
                    from,
                    to,
                    content,
                })
            }
        }
    }

    fn batch(&mut self, events: u8, bad: u8, how: How) -> (Sent, crate::Batch) {
        let identity = self.identity(how, u64::from(events) + u64::from(bad));
        let sent = Sent {
            number: self.next_number,
            events: events.into(),
            bad: bad.into(),
            identity,
            first_seq: None,
        };
        self.next_number += 1;
        let batch = build(&sent);
        (sent, batch)
    }

    fn acknowledged(&mut self, mut sent: Sent, ack: &Ack) {
        let items = sent.events + sent.bad;
        assert!(!ack.duplicate);
        assert_eq!((ack.accepted, ack.quarantined), (sent.events, sent.bad));
        match (ack.first_seq, ack.last_seq) {
            (Some(first), Some(last)) => {
                assert_eq!(last - first + 1, items);
                assert!(
                    first >= self.next_seq,
                    "sequence number {first} was given before"
                );
                self.next_seq = last + 1;
            }
            (None, None) => assert_eq!(items, 0),
            other => panic!("{other:?}"),
        }
        sent.first_seq = ack.first_seq;
        self.sent.push(sent);
    }

    /// (sequence number, payload) of all events, and the sequence numbers of quarantined items.
    fn expected(&self) -> (BTreeMap<u64, i64>, BTreeSet<u64>) {
        let (mut events, mut bad) = (BTreeMap::new(), BTreeSet::new());
        for sent in &self.sent {
            let Some(first) = sent.first_seq else {
                continue;
            };
            // Quarantined items take the odd ranks as long as there are events between them.
            let ranks = bad_ranks(sent.events, sent.bad);
            let mut event = 0;
            for rank in 0..sent.events + sent.bad {
                if ranks.contains(&(rank as u32)) {
                    bad.insert(first + rank);
                } else {
                    events.insert(first + rank, payload(sent.number, event));
                    event += 1;
                }
            }
        }
        (events, bad)
    }
}

fn bad_ranks(events: u64, bad: u64) -> Vec<u32> {
    (0..bad).map(|i| (i + (i + 1).min(events)) as u32).collect()
}

/// Says which event of which batch it is; as a time, it spreads over some days on both sides of 1970.
fn payload(number: i64, event: i64) -> i64 {
    (number * 10 + event) * if number % 2 == 0 { 1 } else { -1 } * 3_600_000_000
}

fn build(sent: &Sent) -> crate::Batch {
    let times: Vec<i64> = (0..sent.events as i64)
        .map(|e| payload(sent.number, e))
        .collect();
    batch(
        &times,
        &bad_ranks(sent.events, sent.bad),
        sent.identity.clone(),
    )
}

/// The rows of a stream: sealed, then in memory.
fn batches(snapshot: &Snapshot, stream: &str) -> Vec<RecordBatch> {
    let name = Name::new(stream).expect("a name");
    let mut all = Vec::new();
    for part in snapshot.manifest().parts_of(&name) {
        let bytes = snapshot
            .read(&part.file)
            .expect("a part that is named is there");
        let rows = read_part(bytes, None).expect("a part");
        assert_eq!(
            rows.iter().map(|b| b.num_rows() as u64).sum::<u64>(),
            part.rows
        );
        all.extend(rows);
    }
    all.extend(snapshot.chunks(stream).iter().map(|c| c.events.clone()));
    all
}

/// Compares everything that is to be seen with the model.
fn check(snapshot: &Snapshot, model: &Model) {
    let (events, bad) = model.expected();
    let mut seen = BTreeMap::new();
    for rows in batches(snapshot, STREAM) {
        let seqs = rows[SEQ].as_primitive::<UInt64Type>();
        let payloads = rows["n"].as_primitive::<Int64Type>();
        for (seq, payload) in seqs.values().iter().zip(payloads.values()) {
            assert_eq!(
                seen.insert(*seq, *payload),
                None,
                "sequence number {seq} is there twice"
            );
        }
    }
    assert_eq!(seen, events);
    let mut seen = BTreeSet::new();
    for rows in batches(snapshot, QUARANTINE) {
        for (i, seq) in rows[SEQ]
            .as_primitive::<UInt64Type>()
            .values()
            .iter()
            .enumerate()
        {
            assert!(seen.insert(*seq), "sequence number {seq} is there twice");
            assert_eq!(rows["raw"].as_binary::<i32>().value(i), b"\xff\0raw");
        }
    }
    assert_eq!(seen, bad);
    assert!(snapshot.next_seq() >= model.next_seq);
    // Tiles say the same as parts do, and everything sealed lies below what the manifest says.
    let manifest: &Manifest = snapshot.manifest();
    manifest.check().expect("the manifest's invariants hold");
    for part in &manifest.parts {
        assert!(part.seq.1 < manifest.sealed_seq);
    }
    for chunk in snapshot.chunks(STREAM) {
        assert!(
            chunk.seq.0 >= manifest.sealed_seq,
            "what is sealed is not in memory too"
        );
    }
    let sealed = events.range(..manifest.sealed_seq).count() as u64;
    for rollup in &manifest.rollups {
        let counted: u64 = manifest.tiles_of(rollup.id).map(|t| t.events).sum();
        assert_eq!(counted, sealed, "rollup {}", rollup.name);
    }
}

/// Counts events: one level, one section.
#[derive(Debug)]
struct Counting;

impl Roller for Counting {
    fn rollups_for(
        &self,
        stream: &Name,
        kind: StreamKind,
        existing: &[RollupMeta],
    ) -> Result<Vec<NewRollup>, BoxError> {
        if kind == StreamKind::Quarantine || existing.iter().any(|r| &r.stream == stream) {
            return Ok(Vec::new());
        }
        let named = |name| NewRollup {
            name: Name::new(name).expect("a name"),
            definition: serde_json::Value::Null,
        };
        Ok(vec![named("stats"), named("traffic")])
    }

    fn tiles(
        &self,
        rollups: &[&RollupMeta],
        events: &[RecordBatch],
    ) -> Result<Vec<TileImage>, BoxError> {
        let count: u64 = events.iter().map(|e| e.num_rows() as u64).sum();
        let section = Section {
            level: "hour".into(),
            partition_us: 0,
            bucket_min_us: 0,
            bucket_max_us: 0,
            cells: 1,
            events: count,
            offset: 0,
            len: 8,
        };
        let image = TileImage {
            bytes: count.to_le_bytes().to_vec(),
            sections: vec![section],
            events: count,
        };
        Ok(vec![image; rollups.len()])
    }
}

fn open(dir: &Path) -> Store {
    let options = Options {
        roller: Arc::new(Counting),
        ..options(&FaultFs::default())
    };
    Store::open(dir, options).expect("opens")
}

fn concern(n: u8) -> WriteConcern {
    match n {
        0 => WriteConcern::UNACKNOWLEDGED,
        1 => WriteConcern::ACKNOWLEDGED,
        _ => WriteConcern::JOURNALED,
    }
}

fn run(history: &[Operation]) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut store = open(dir.path());
    let mut model = Model::default();
    // Snapshots that are held on to, with what they showed: it must not change under them.
    let mut held: Vec<(Arc<Snapshot>, Vec<RecordBatch>)> = Vec::new();
    for operation in history {
        match operation {
            Operation::Write {
                events,
                bad,
                identity,
                concern: c,
            } => {
                let (sent, batch) = model.batch(*events, *bad, *identity);
                let ack = store.write(batch, concern(*c)).expect("taken");
                model.acknowledged(sent, &ack);
            }
            Operation::Burst { batches, identity } => {
                let (send, receive) = crossbeam_channel::unbounded();
                let mut all = Vec::new();
                for i in 0..*batches {
                    let (sent, batch) = model.batch(i % 4, i % 2, *identity);
                    let send = send.clone();
                    let answer = move |outcome| send.send((i, outcome)).expect("somebody waits");
                    store
                        .submit(batch, concern(1 + i % 2), answer)
                        .expect("taken");
                    all.push(sent);
                }
                let mut acks: Vec<_> = (0..*batches)
                    .map(|_| receive.recv().expect("answered"))
                    .collect();
                // Answers may come in any order, sequence numbers not.
                acks.sort_by_key(|(i, _)| *i);
                for (sent, (_, ack)) in all.into_iter().zip(acks) {
                    model.acknowledged(sent, &ack.expect("taken"));
                }
            }
            Operation::Retry(which) => {
                let known: Vec<&Sent> =
                    model.sent.iter().filter(|s| s.identity.is_some()).collect();
                if known.is_empty() {
                    continue;
                }
                let sent = known[which.index(known.len())];
                let ack = store
                    .write(build(sent), WriteConcern::JOURNALED)
                    .expect("known");
                assert!(ack.duplicate, "{sent:?} was stored again");
                assert_eq!((ack.accepted, ack.quarantined), (sent.events, sent.bad));
                assert_eq!(ack.first_seq, sent.first_seq);
            }
            Operation::Misuse(kind) => misuse(&store, &model, *kind),
            Operation::Seal => {
                store.seal().expect("seals");
                assert!(store.snapshot().chunks(STREAM).is_empty());
            }
            Operation::Close => {
                store.close().expect("closes");
                let beside = Reader::open(Arc::new(RealFs), dir.path()).expect("opens");
                check(&beside.snapshot(), &model);
                store = open(dir.path());
                assert_eq!(
                    store.status().replayed,
                    0,
                    "a closed store has nothing to replay"
                );
            }
            Operation::Kill => {
                drop(store);
                store = open(dir.path());
                let skipped = store.snapshot().next_seq();
                assert!(
                    skipped >= model.next_seq + SKIP,
                    "a number may have been shown"
                );
                model.next_seq = skipped;
            }
            Operation::Snapshot => {
                let snapshot = store.snapshot();
                let rows = batches(&snapshot, STREAM);
                held.push((snapshot, rows));
            }
            Operation::Read => {
                let beside = Reader::open(Arc::new(RealFs), dir.path()).expect("opens");
                check(&beside.snapshot(), &model);
                assert_eq!(beside.positions(), store.positions());
            }
        }
        if matches!(operation, Operation::Close | Operation::Kill) {
            // What a snapshot names stays as long as its store is open.
            held.clear();
        }
        check(&store.snapshot(), &model);
        let positions = store.positions();
        for (producer, to) in &model.producers {
            let position = positions.iter().find(|(p, _)| *p == format!("p{producer}"));
            assert_eq!(position.map(|(_, p)| (p.to, p.content)), Some((*to, *to)));
        }
        for (snapshot, rows) in &held {
            assert!(batches(snapshot, STREAM) == *rows, "a snapshot has changed");
        }
    }
}

/// What is refused must change nothing; the check that follows shows it.
fn misuse(store: &Store, model: &Model, kind: u8) {
    let last = |wanted: fn(&Identity) -> bool| {
        let identities = model.sent.iter().rev().filter_map(|s| s.identity.clone());
        identities.into_iter().find(wanted)
    };
    let (identity, expected): (_, fn(&Error) -> bool) = match kind {
        0 => match last(|i| matches!(i, Identity::Key { .. })) {
            Some(Identity::Key { key, .. }) => (Identity::Key { key, body_hash: 2 }, |e| {
                matches!(e, Error::KeyReused { .. })
            }),
            _ => return,
        },
        _ => match last(|i| matches!(i, Identity::Range { .. })) {
            Some(Identity::Range { producer, .. }) => {
                let end = store.position(&producer).expect("known").to;
                let gap = kind == 1;
                let from = if gap { end + 1 } else { end - 1 };
                let range = Identity::Range {
                    producer,
                    from,
                    to: end + 2,
                    content: 0,
                };
                if gap {
                    (range, |e| matches!(e, Error::Gap { .. }))
                } else {
                    (range, |e| matches!(e, Error::Invalid { .. }))
                }
            }
            _ => return,
        },
    };
    let refused = store.write(
        batch(&[1, 2], &[1], Some(identity)),
        WriteConcern::ACKNOWLEDGED,
    );
    let error = refused.expect_err("refused");
    assert!(expected(&error), "{error}");
}

fn cases() -> u32 {
    std::env::var("LOGMILL_CASES")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(60)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        max_shrink_iters: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_history_shows_what_was_acknowledged_and_nothing_else(
        history in proptest::collection::vec(operation(), 25..45),
    ) {
        run(&history);
    }
}

#[test]
fn many_writers_seals_and_readers_get_along() {
    const WRITERS: i64 = 8;
    const BATCHES: i64 = 40;
    const SEALS: u64 = 4;
    let dir = tempfile::tempdir().expect("a directory");
    // On the disk as it is, whose syncs take their time.
    let options = Options {
        roller: Arc::new(Counting),
        fs: Arc::new(RealFs),
        ..options(&FaultFs::default())
    };
    let store = Store::open(dir.path(), options).expect("opens");
    let acknowledged = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    let seals = AtomicU64::new(0);
    let count = |snapshot: &Snapshot| -> u64 {
        let name = Name::new(STREAM).expect("a name");
        let sealed: u64 = snapshot.manifest().parts_of(&name).map(|p| p.rows).sum();
        sealed
            + snapshot
                .chunks(STREAM)
                .iter()
                .map(|c| c.events.num_rows() as u64)
                .sum::<u64>()
    };
    // Looks until the writers are done, and once after.
    let watch = |look: &dyn Fn() -> u64| {
        let (mut last, mut looks) = (0, 0);
        loop {
            let ended = done.load(Ordering::SeqCst);
            let promised = acknowledged.load(Ordering::SeqCst);
            let seen = look();
            assert!(seen >= last, "{seen} after {last}");
            assert!(
                seen >= promised,
                "{promised} were acknowledged, {seen} are seen"
            );
            (last, looks) = (seen, looks + 1);
            if ended {
                return (last, looks);
            }
        }
    };
    let (here, beside) = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (store, acknowledged, seals) = (&store, &acknowledged, &seals);
                scope.spawn(move || {
                    // On a slow disk a seal takes long: until there were some.
                    let more = |i: &i64| *i < BATCHES || seals.load(Ordering::SeqCst) < SEALS;
                    for i in (0..).take_while(more) {
                        let times: Vec<i64> =
                            (0..1 + i % 5).map(|e| payload(i * 8 + writer, e)).collect();
                        let range = Identity::Range {
                            producer: format!("w{writer}"),
                            from: i as u64,
                            to: i as u64 + 1,
                            content: 0,
                        };
                        let concern = concern(1 + (i % 3 == 0) as u8);
                        let ack = store.write(batch(&times, &[], Some(range)), concern);
                        acknowledged.fetch_add(ack.expect("taken").accepted, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        let here = scope.spawn(|| watch(&|| count(&store.snapshot())));
        let beside = scope.spawn(|| {
            watch(&|| {
                let reader = Reader::open(Arc::new(RealFs), dir.path()).expect("never an error");
                // Every file it names can be read while it lives.
                let rows = batches(&reader.snapshot(), STREAM);
                let read: u64 = rows.iter().map(|b| b.num_rows() as u64).sum();
                assert_eq!(read, count(&reader.snapshot()));
                read
            })
        });
        let sealer = scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let sealed = store.seal().expect("seals").events > 0;
                seals.fetch_add(sealed.into(), Ordering::SeqCst);
            }
        });
        for writer in writers {
            writer.join().expect("no panic");
        }
        done.store(true, Ordering::SeqCst);
        sealer.join().expect("no panic");
        (
            here.join().expect("no panic"),
            beside.join().expect("no panic"),
        )
    });
    let total = acknowledged.load(Ordering::SeqCst);
    assert!(total >= WRITERS as u64 * BATCHES as u64 / 5 * 15);
    assert_eq!((here.0, beside.0), (total, total));
    assert!(beside.1 > 2, "{} looks", beside.1);
    store.close().expect("closes");
    let journal = std::fs::read_dir(dir.path().join("journal"))
        .expect("listed")
        .count();
    assert!(journal <= 2, "{journal} segments are left");
}
