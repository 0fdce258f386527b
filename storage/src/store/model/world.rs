//! A store on a disk and what must be there: steps are taken, crashes are survived.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::oracle::{Fate, Oracle};
use super::seen::{self, DAY_US, Listing, STREAM, Seen};
use super::steps::Step;
use crate::env::ManualClock;
use crate::error::{Error, Kind, Result};
use crate::model::{Ack, Identity, Name, WriteConcern};
use crate::reader::Reader;
use crate::record::Record;
use crate::sim::{Call, Image, Random, SimFs};
use crate::store::log::{Command, Reply, Request};
use crate::store::{Config, Options, Store};
use crate::testing::RECEIVED_US;

const DATA: &str = "/data";
/// No sync and no seal comes by itself within this.
const NEVER_US: i64 = 1 << 50;
/// Most recoveries have fewer operations of the disk than this: 25 on a quiet store, 42 measured.
const RECOVERY: u64 = 48;

fn options(fs: &SimFs) -> Options {
    Options {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(ManualClock::at(RECEIVED_US)),
        roller: Arc::new(Listing),
        config: Config {
            lag_us: NEVER_US,
            memtable_bytes_max: 1 << 30,
            sync_interval_ms: 3_600_000,
            ..Config::default()
        },
        on_poison: None,
    }
}

fn concern(j: bool) -> WriteConcern {
    if j {
        WriteConcern::JOURNALED
    } else {
        WriteConcern::ACKNOWLEDGED
    }
}

/// What was done so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Done {
    pub(super) steps: u64,
    pub(super) crashes: u64,
    /// Operations of the longest recovery.
    pub(super) recovery: u64,
}

pub(super) struct World {
    pub(super) fs: SimFs,
    pub(super) random: Random,
    pub(super) done: Done,
    /// Whether each step is told.
    pub(super) tells: bool,
    /// Every operation of the disks before this one, when wanted.
    pub(super) log: Option<Vec<(Call, PathBuf)>>,
    /// What the oracle knew after so many operations, when wanted.
    pub(super) moments: Option<Vec<(u64, Oracle)>>,
    store: Option<Store>,
    oracle: Oracle,
}

impl World {
    /// An empty disk.
    pub(super) fn new(seed: u64) -> Self {
        Self::at(SimFs::new(), Oracle::default(), seed)
    }

    /// A disk and what is known of it.
    pub(super) fn at(fs: SimFs, oracle: Oracle, seed: u64) -> Self {
        Self {
            fs,
            random: Random::new(seed),
            done: Done::default(),
            tells: false,
            log: None,
            moments: None,
            store: None,
            oracle,
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        if self.tells {
            println!("{} calls: {}", self.fs.operations(), what());
        }
    }

    /// Takes note of what the oracle knows now.
    fn moment(&mut self) {
        if let Some(moments) = &mut self.moments {
            moments.push((self.fs.operations(), self.oracle.clone()));
        }
    }

    /// Looks at the store from outside: no call fails for that.
    fn look(&mut self) -> Seen {
        let store = self.store.as_ref().expect("it is open");
        let snapshot = store.snapshot();
        let durable_seq = store.status().durable_seq;
        assert!(
            durable_seq >= snapshot.manifest().sealed_seq,
            "sealed and not synced"
        );
        self.fs.suspend(true);
        let positions = store.positions().into_iter().map(|(p, at)| (p, at.to));
        let seen = seen::look(&snapshot, positions, &mut self.oracle.known);
        self.fs.suspend(false);
        seen
    }

    fn look_and_check(&mut self) {
        let seen = self.look();
        self.oracle.check(&seen);
    }

    /// Whether something was done to the disk that this may follow from.
    fn excused(&self, error: &Error) -> bool {
        let full = matches!(error.kind(), Kind::DiskFull | Kind::Overloaded);
        self.faulty() || full && self.fs.capacity().is_some()
    }

    fn faulty(&self) -> bool {
        self.fs.halted() || self.fs.failed()
    }

    fn excuse(&self, error: &Error) {
        assert!(self.excused(error), "without a fault: {error}");
        assert_ne!(error.kind(), Kind::Corrupt, "{error}");
    }

    /// Opens the store and settles what is there after a crash, unless another came meanwhile.
    pub(super) fn open(&mut self, power: bool) -> Result<()> {
        self.moment();
        let before = self.fs.operations();
        let opened = Store::open(Path::new(DATA), options(&self.fs));
        let operations = self.fs.operations() - before;
        self.done.recovery = self.done.recovery.max(operations);
        self.tell(|| format!("opened: {:?}", opened.as_ref().err()));
        self.store = Some(opened?);
        if self.fs.halted() {
            return Ok(());
        }
        let seen = self.look();
        self.oracle.reopened(&seen, power);
        self.moment();
        Ok(())
    }

    /// Opens the store; when the disk is full, after it was given room.
    fn open_with_room(&mut self, power: bool) -> Result<()> {
        match self.open(power) {
            Err(error) if self.fs.capacity().is_some() && error.kind() == Kind::DiskFull => {
                self.fs.set_capacity(None);
                self.open(power)
            }
            other => other,
        }
    }

    /// Ends the process, or the power with it.
    pub(super) fn end(&mut self, image: Option<Image>) {
        let fs = match image {
            Some(image) => self.fs.crash(image),
            None => self.fs.kill(),
        };
        self.store = None;
        if let Some(log) = &mut self.log {
            log.extend(self.fs.log());
            fs.record();
        }
        self.fs = fs;
        self.done.crashes += 1;
        self.tell(|| format!("ended: {image:?}"));
    }

    fn answered(&mut self, which: usize, answer: Result<Ack>, j: bool) {
        self.tell(|| format!("{:?}: {answer:?}", self.oracle.sent[which]));
        let error = match answer {
            Ok(ack) => return self.oracle.acknowledged(which, &ack, j),
            Err(error) => error,
        };
        let gap = matches!(error, Error::Gap { .. }) && self.oracle.follows_a_refusal(which);
        if !gap {
            self.excuse(&error);
        }
        // What a store refuses that goes on was not stored, whatever the error.
        let goes_on = !self.fs.halted() && self.store().status().poisoned.is_none();
        if goes_on && self.oracle.sent[which].fate == Fate::Unknown {
            self.oracle.refused(which);
        }
    }

    fn write(&mut self, which: usize, j: bool) {
        self.moment();
        let batch = self.oracle.sent[which].build();
        let answer = self.store().write(batch, concern(j));
        self.answered(which, answer, j);
    }

    fn burst(&mut self, batches: u64, j: bool) {
        let whole: Vec<usize> = (0..batches)
            .map(|i| {
                let producer = (i % 2 == 1).then_some((i % 3) as u8);
                self.oracle
                    .new_batch(1 + i % 3, i % 2, producer, i % 4 == 0)
            })
            .collect();
        self.moment();
        let (send, receive) = crossbeam_channel::unbounded();
        let last = whole.last().copied();
        let requests = whole.iter().map(|which| {
            let record = Record::of(self.oracle.sent[*which].build());
            let (which, j, send) = (*which, j && Some(*which) == last, send.clone());
            Request {
                payload: record.encode(),
                record,
                concern: concern(j),
                reply: Reply::new(move |answer| {
                    send.send((which, j, answer)).expect("somebody waits");
                }),
            }
        });
        let commands = self.store().commands.as_ref().expect("it is open");
        let sent = commands.send(Command::Write(requests.collect()));
        sent.expect("the log thread lives");
        let answers = whole.iter().map(|_| receive.recv().expect("answered"));
        let mut answers: Vec<_> = answers.collect();
        answers.sort_by_key(|(which, ..)| *which);
        for (which, j, answer) in answers {
            self.answered(which, answer, j);
        }
    }

    /// Sends batches again, whatever became of their first copies.
    fn retry(&mut self, times: u64, mut seed: Random) {
        for _ in 0..times {
            let known = self.oracle.known_batches();
            if known.is_empty() {
                return;
            }
            let which = known[seed.below(known.len() as u64) as usize];
            let which = self.oracle.again(which);
            self.write(which, seed.below(2) == 0);
        }
    }

    /// A batch that must be refused, for this reason.
    fn wrong(&self, identity: Identity, reason: impl Fn(&Error) -> bool) {
        let batch = self.oracle.never_sent(2, 0, Some(identity)).build();
        match self.store().write(batch, WriteConcern::ACKNOWLEDGED) {
            Ok(ack) => panic!("taken: {ack:?}"),
            Err(error) => assert!(reason(&error) || self.excused(&error), "{error}"),
        }
    }

    fn reuse_key(&self, which: u64) {
        if let Some(key) = self.oracle.known_key(which) {
            let body_hash = u64::MAX;
            let reused = |e: &Error| matches!(e, Error::KeyReused { .. });
            self.wrong(Identity::Key { key, body_hash }, reused);
        }
    }

    fn hole(&self, producer: u8, overlaps: bool) {
        let producer = format!("p{producer}");
        let at = self.oracle.producers.get(&producer).copied().unwrap_or(0);
        if at == 0 {
            return;
        }
        let from = if overlaps { at - 1 } else { at + 1 };
        let identity = Identity::Range {
            producer,
            from,
            to: at + 4,
            content: 0,
        };
        self.wrong(identity, |e| match e {
            Error::Gap { known, .. } => !overlaps && *known == at,
            Error::Invalid { .. } => overlaps,
            _ => false,
        });
    }

    fn drop_partitions(&mut self, days: (i64, i64), dry: bool) {
        let stream = Name::new(STREAM).expect("a name");
        let known = self.store().snapshot().streams().contains_key(&stream);
        let seen = self.look();
        let there = self.oracle.to_be_dropped(days, &seen);
        if !dry {
            self.oracle.drops(days);
        }
        self.moment();
        let range = (days.0 * DAY_US, days.1 * DAY_US);
        match self.store().drop_partitions(&stream, range, dry) {
            Ok(report) => {
                assert_eq!(report.events, there, "{days:?}: {report:?}");
                if !dry {
                    self.oracle.has_dropped(report.events);
                }
                self.oracle.all_durable();
            }
            Err(Error::Invalid { .. }) if !known => {}
            Err(error) => self.excuse(&error),
        }
    }

    /// What was refused for want of room is taken again by itself.
    fn room(&mut self) {
        self.fs.set_capacity(None);
        let which = self.oracle.new_batch(2, 0, None, true);
        self.write(which, false);
        self.seal();
    }

    fn seal(&mut self) {
        self.moment();
        let sealed = self.store().seal();
        self.promised(sealed.map(|_| ()));
    }

    /// What promises that everything is durable, or fails.
    fn promised(&mut self, outcome: Result<()>) {
        match outcome {
            Ok(()) => self.oracle.all_durable(),
            Err(error) => self.excuse(&error),
        }
    }

    fn read(&mut self) {
        let reader = Reader::open(Arc::new(self.fs.clone()), Path::new(DATA));
        match reader {
            Ok(reader) => {
                self.fs.suspend(true);
                let positions = reader.positions().into_iter().map(|(p, at)| (p, at.to));
                let known = &mut self.oracle.known;
                let seen = seen::look(&reader.snapshot(), positions, known);
                self.oracle.check(&seen);
                self.fs.suspend(false);
            }
            Err(error) => self.excuse(&error),
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Write {
                events,
                bad,
                producer,
                keyed,
                j,
            } => {
                let which = self.oracle.new_batch(events, bad, producer, keyed);
                self.write(which, j);
            }
            Step::Burst { batches, j } => self.burst(batches, j),
            Step::Retry { times, seed } => self.retry(times, Random::new(seed)),
            Step::ReuseKey(which) => self.reuse_key(which),
            Step::Hole { producer, overlaps } => self.hole(producer, overlaps),
            Step::Drop { days, dry } => self.drop_partitions(days, dry),
            Step::Full(blocks) => self.fs.set_capacity(Some(self.fs.used() + blocks * 4096)),
            Step::Room => self.room(),
            Step::Sync => {
                let synced = self.store().shared.syncer.sync_written();
                self.promised(synced.map(|_| ()));
            }
            Step::Seal => self.seal(),
            Step::Read => self.read(),
            Step::Close => {
                let store = self.store.take().expect("it is open");
                let closed = store.close();
                self.promised(closed);
            }
        }
    }

    /// Takes steps until the disk stops or they are done, looking after each.
    pub(super) fn run(&mut self, steps: &[Step]) {
        for step in steps {
            self.done.steps += 1;
            if self.store.is_none() {
                if let Err(error) = self.open_with_room(false) {
                    self.excuse(&error);
                    continue;
                }
                if self.fs.halted() {
                    return;
                }
            }
            self.tell(|| format!("{step:?}"));
            self.take(*step);
            if self.fs.halted() {
                return;
            }
            if self.store.is_some() {
                self.look_and_check();
                self.moment();
                if let Some(why) = self.store().status().poisoned {
                    assert!(self.faulty(), "poisoned without a fault: {why}");
                    // The process ends with 74, and another begins.
                    self.store = None;
                }
            }
        }
    }

    /// Recovers, after so many recoveries that were cut short by another crash.
    pub(super) fn recover(&mut self, mut power: bool, cuts: u64) {
        for _ in 0..cuts {
            let at = self.random.below(self.done.recovery.max(RECOVERY));
            let image = self.image();
            power = self.cut_recovery(power, at, image);
        }
        self.open_with_room(power).expect("opens after a crash");
    }

    /// Begins to recover and ends before this operation, or after it all. Says whether what is found
    /// next is what a power cut has left.
    pub(super) fn cut_recovery(&mut self, power: bool, at: u64, image: Option<Image>) -> bool {
        self.fs.halt_at(at);
        let opened = self.open(power);
        let done = opened.is_ok() && !self.fs.halted();
        if done {
            self.look_and_check();
        } else if let Err(error) = opened {
            self.excuse(&error);
        }
        self.end(image);
        image.is_some() || power && !done
    }

    /// How the process ends: killed, or by a power cut.
    pub(super) fn image(&mut self) -> Option<Image> {
        match self.random.below(10) {
            0..3 => None,
            3 => Some(Image::Nothing),
            4 => Some(Image::Everything),
            5 => Some(Image::Zeros),
            6 => Some(Image::NoNames),
            _ => Some(Image::Seed(self.random.next_u64())),
        }
    }
}
