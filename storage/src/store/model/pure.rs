//! Decisions are pure: programs with other clocks and configurations that have the same streams
//! and get the same records decide alike, one record at a time or in groups, and a journal leads
//! to one state wherever it is replayed.

mod reached;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::motley;
use crate::concern::{Durability, WriteConcern};
use crate::env::ManualClock;
use crate::manifest::PartitionWidth;
use crate::model::{Ack, Batch, Identity, Name};
use crate::record::Record;
use crate::resolutions::{Ranges, Settlement};
use crate::sim::{Call, Fault, Image, SimFs};
use crate::store::log::{Command, Reply, Request};
use crate::store::open::SKIP;
use crate::store::{Config, Options, Store, StreamConfig};
use crate::testing::batch;
use reached::Reached;

const HOUR_US: i64 = 3_600_000_000;
const YEAR_US: i64 = 365 * 24 * HOUR_US;
/// Time of the first program's clock, and of the first batch's stamp.
const START_US: i64 = 50 * YEAR_US;
/// Items of the quarantine that exist before the batches of a test.
const ITEMS: u64 = 12;
/// Programs, which differ in everything that may differ.
const PROGRAMS: [Program; 3] = [Program::Own, Program::Earlier, Program::Later];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Program {
    /// The program that creates the streams. Its clock stands.
    Own,
    /// A program of years before that seals after each batch.
    Earlier,
    /// A program of years after with every background job.
    Later,
}

impl Program {
    fn open(self, fs: &SimFs) -> Store {
        let (now_us, config) = match self {
            Self::Own => (START_US, Config::default()),
            Self::Earlier => (START_US - 40 * YEAR_US, Config::default()),
            Self::Later => (START_US + 40 * YEAR_US, Config::default()),
        };
        let config = match self {
            Self::Own => Config {
                lag_us: 1 << 50,
                tends: false,
                keeps_log: false,
                columns_max: motley::COLUMNS_MAX,
                ..config
            },
            Self::Earlier => Config {
                lag_us: 1,
                memtable_bytes_max: 1,
                sync_interval_ms: 1,
                tends: false,
                columns_max: 1,
                reserve_bytes: 4096,
                ..config
            },
            Self::Later => Config {
                lag_us: 1 << 50,
                tends: true,
                backfill_at_once: 1,
                backfill_step_rows: 1,
                columns_max: 1000,
                index_rows_min: 1,
                streams: streams_of_later(),
                ..config
            },
        };
        let options = Options {
            fs: Arc::new(fs.clone()),
            clock: Arc::new(ManualClock::at(now_us)),
            config,
            ..Options::default()
        };
        Store::open(Path::new("/data"), options).expect("opens")
    }
}

fn streams_of_later() -> BTreeMap<Name, StreamConfig> {
    let stream = StreamConfig {
        partition: Some(PartitionWidth::Hour),
        order_by: Some(vec!["n".to_owned()]),
        indexes: vec!["host".to_owned()],
        ..StreamConfig::default()
    };
    BTreeMap::from([(Name::new("events").expect("a name"), stream)])
}

/// Returns a disk with a store that has streams and quarantined items, and no writer.
fn base() -> SimFs {
    let fs = SimFs::new();
    let store = Program::Own.open(&fs);
    let ranks: Vec<u32> = (0..u32::try_from(ITEMS).expect("few")).collect();
    let first = batch(&[1], &ranks, None);
    store
        .write(first, WriteConcern::JOURNALED)
        .expect("acknowledged");
    store.close().expect("closes");
    fs
}

/// A batch to be decided about.
#[derive(Debug, Clone)]
struct Undecided {
    number: i64,
    events: usize,
    bad: u32,
    received_us: i64,
    identity: Option<Identity>,
}

impl Undecided {
    fn batch(&self) -> Batch {
        let times = vec![self.number; self.events];
        let ranks: Vec<u32> = (0..self.bad).collect();
        let mut batch = batch(&times, &ranks, self.identity.clone());
        batch.events = motley::extend(&batch.events, self.number);
        batch.received_us = self.received_us;
        batch
    }
}

fn identities(items: u64) -> impl Strategy<Value = Option<Identity>> {
    let key = (0..40_u8, 0..20_u64).prop_map(|(key, body)| Identity::Key {
        key: format!("events\0{key}"),
        // Few keys come again with another body.
        body_hash: body / 19,
    });
    let range = (0..2_u8, 0..8_u64, 0..3_u64, 0..9_u64);
    let range = range.prop_map(|(producer, from, len, content)| Identity::Range {
        producer: format!("p{producer}"),
        from,
        to: from + len,
        content: content / 8,
    });
    let settles = (proptest::collection::vec(0..items, 1..4), any::<bool>());
    let settles = settles.prop_map(|(items, replayed)| Identity::Settles {
        items: Ranges::of(items),
        how: match replayed {
            true => Settlement::Replayed,
            false => Settlement::Dropped,
        },
    });
    prop_oneof![
        2 => Just(None),
        6 => key.prop_map(Some),
        3 => range.prop_map(Some),
        1 => settles.prop_map(Some),
    ]
}

/// Returns the batches of a test, which resolve items below `items`. Their stamps follow each
/// other and are now and then far off.
fn undecided(items: u64) -> impl Strategy<Value = Vec<Undecided>> {
    let off = prop_oneof![
        8 => 0..HOUR_US,
        1 => -YEAR_US..YEAR_US,
    ];
    let batch = (0..400_i64, 0..3_usize, 0..2_u32, off, identities(items));
    proptest::collection::vec(batch, 1..70).prop_map(|batches| {
        let timed = (START_US..).step_by(2 * HOUR_US as usize).zip(batches);
        timed
            .map(|(us, (number, events, bad, off, identity))| {
                let (events, bad) = match &identity {
                    Some(Identity::Settles { items, how }) => match how {
                        Settlement::Replayed => (items.count() as usize, 0),
                        Settlement::Dropped => (0, 0),
                    },
                    _ => (events, bad),
                };
                let received_us = us + off;
                Undecided {
                    number,
                    events,
                    bad,
                    received_us,
                    identity,
                }
            })
            .collect()
    })
}

type Decided = Result<Ack, String>;

/// Writes batches one after the other, or in one group.
fn decide(store: &Store, batches: &[Undecided], together: bool) -> Vec<Decided> {
    let (send, answers) = crossbeam_channel::unbounded();
    let request = |(nth, undecided): (usize, &Undecided)| {
        let (send, batch) = (send.clone(), undecided.batch());
        batch.validate().expect("a sound batch");
        let record = Record::of(batch);
        Request {
            payload: record.encode(),
            record,
            durability: Durability::Written,
            counts: true,
            reply: Reply::new(move |answer| send.send((nth, answer)).expect("awaited")),
        }
    };
    let requests = batches.iter().enumerate().map(request);
    let groups: Vec<Vec<Request>> = match together {
        true => vec![requests.collect()],
        false => requests.map(|request| vec![request]).collect(),
    };
    let mut decided = Vec::new();
    for group in groups {
        let len = group.len();
        let commands = store.commands.as_ref().expect("it is open");
        commands.send(Command::Write(group)).expect("it is open");
        decided.extend(answers.iter().take(len));
    }
    decided.sort_by_key(|(nth, _)| *nth);
    let texts = decided.into_iter();
    texts
        .map(|(_, answer)| answer.map_err(|error| error.to_string()))
        .collect()
}

/// A store with the program that holds it.
struct Twin {
    program: Program,
    fs: SimFs,
    store: Option<Store>,
}

impl Twin {
    fn new(program: Program, fs: SimFs) -> Self {
        let store = Some(program.open(&fs));
        Self { program, fs, store }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    /// Decides about a group. The program that created the store gets one batch after the other.
    fn decide(&self, group: &[Undecided]) -> Vec<Decided> {
        decide(self.store(), group, self.program != Program::Own)
    }

    /// Does something between two groups that decides nothing.
    fn pause(&mut self) {
        match self.program {
            Program::Own => {}
            Program::Earlier => drop(self.store().seal().expect("seals")),
            Program::Later => {
                let store = self.store.take().expect("it is open");
                store.close().expect("closes");
                self.store = Some(self.program.open(&self.fs));
            }
        }
    }
}

/// Checks that all twins decide alike about a group.
#[track_caller]
fn check_alike(twins: &[Twin], group: &[Undecided]) {
    let decided: Vec<_> = twins.iter().map(|twin| twin.decide(group)).collect();
    for (nth, undecided) in group.iter().enumerate() {
        for (twin, other) in twins.iter().zip(&decided) {
            let program = twin.program;
            assert_eq!(decided[0][nth], other[nth], "{program:?}: {undecided:?}");
        }
    }
}

#[track_caller]
fn check_reached(twins: &[Twin], expected: &Reached) {
    for twin in twins {
        Reached::of(twin.store()).check(expected, twin.program);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn programs_with_other_clocks_and_settings_decide_alike(
        batches in undecided(4 * ITEMS),
        size in 1..12_usize,
    ) {
        let base = base();
        let twin = |program| Twin::new(program, base.crash(Image::Everything));
        let mut twins = PROGRAMS.map(twin);
        for group in batches.chunks(size) {
            check_alike(&twins, group);
            twins.iter_mut().for_each(Twin::pause);
        }
        check_reached(&twins, &Reached::of(twins[0].store()));
    }

    #[test]
    fn a_journal_leads_to_one_state_wherever_it_is_replayed(
        batches in undecided(ITEMS),
        size in 1..30_usize,
        seals in any::<bool>(),
    ) {
        let base = base();
        let first = Twin::new(Program::Own, base.crash(Image::Everything));
        for group in batches.chunks(size) {
            if seals {
                first.store().seal().expect("seals");
            }
            decide(first.store(), group, true);
        }
        let mut reached = Reached::of(first.store());
        reached.next_seq += SKIP;
        let twin = |program| Twin::new(program, first.fs.crash(Image::Everything));
        let twins = PROGRAMS.map(twin);
        check_reached(&twins, &reached);
        check_alike(&twins, &batches);
        check_reached(&twins, &Reached::of(twins[0].store()));
    }

    /// The disk fails while a group is written, of which nothing may be left then.
    #[test]
    fn a_group_that_could_not_be_written_leaves_no_trace(batches in undecided(ITEMS)) {
        let base = base();
        let twin = || Twin::new(Program::Own, base.crash(Image::Everything));
        let twins = [twin(), twin()];
        for group in batches.chunks(5) {
            let stored = group.iter().position(|undecided| undecided.events > 0);
            if stored.is_some() {
                twins[1].fs.fail(Fault {
                    call: Call::Write,
                    after: 0,
                    forever: false,
                    error: ErrorKind::StorageFull,
                });
                decide(twins[1].store(), group, true);
                twins[1].fs.mend();
                prop_assert!(twins[1].store().status().poisoned.is_none());
                check_reached(&twins, &Reached::of(twins[0].store()));
            }
            check_alike(&twins, group);
        }
    }
}
