//! The store on the simulated disk, beside an oracle that does not believe it.
//!
//! Everything follows from a seed: the history, the operation of the disk before which it ends, and
//! what a power cut leaves. Nothing happens by itself: the clock stands, and only what asks for a
//! sync or a seal gets one. A failure names its seed; `LOGMILL_SIM_SEED` runs that one alone.
//! `LOGMILL_SIM_SECONDS` bounds the histories, `LOGMILL_FULL=1` runs every crash point.

mod oracle;

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Config, Options, Store};
use crate::env::ManualClock;
use crate::error::{Error, Kind};
use crate::model::WriteConcern;
use crate::reader::Reader;
use crate::sim::{Call, Fault, Image, Random, SimFs};
use crate::testing::RECEIVED_US;
use oracle::{Fate, Oracle, Seen};

const DATA: &str = "/data";
/// No sync and no seal comes by itself within this.
const NEVER_US: i64 = 1 << 50;

fn options(fs: &SimFs) -> Options {
    Options {
        fs: Arc::new(fs.clone()),
        clock: Arc::new(ManualClock::at(RECEIVED_US)),
        roller: oracle::roller(),
        config: Config {
            lag_us: NEVER_US,
            memtable_bytes_max: 1 << 30,
            sync_interval_ms: 3_600_000,
            ..Config::default()
        },
        on_poison: None,
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Write {
        events: u64,
        bad: u64,
        producer: Option<u8>,
        keyed: bool,
        j: bool,
    },
    /// Batches that go into one group.
    Burst(u64),
    /// An earlier batch again.
    Retry(u64),
    Sync,
    Seal,
    Read,
    Close,
}

fn step(random: &mut Random) -> Step {
    let j = random.below(3) == 0;
    let producer = (random.below(2) == 0).then(|| random.below(3) as u8);
    match random.below(20) {
        0..8 => Step::Write {
            events: random.below(5) + u64::from(producer.is_none()),
            bad: random.below(10) / 7,
            producer,
            keyed: random.below(2) == 0,
            j,
        },
        8..11 => Step::Burst(2 + random.below(4)),
        11..14 => Step::Retry(random.next_u64()),
        14 | 15 => Step::Sync,
        16 | 17 => Step::Seal,
        18 => Step::Read,
        _ => Step::Close,
    }
}

/// A store on a disk, and what must be there.
struct World {
    fs: SimFs,
    store: Option<Store>,
    oracle: Oracle,
    random: Random,
    crashes: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            fs: SimFs::new(),
            store: None,
            oracle: Oracle::default(),
            random: Random::new(seed),
            crashes: 0,
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn look(&mut self) -> Seen {
        let store = self.store.as_ref().expect("it is open");
        let positions = store.positions().into_iter().map(|(p, at)| (p, at.to));
        self.oracle.look(&store.snapshot(), positions.collect())
    }

    /// Opens the store and settles what is there after a crash.
    fn open(&mut self, power: bool) -> Result<(), Error> {
        self.store = Some(Store::open(Path::new(DATA), options(&self.fs))?);
        let seen = self.look();
        self.oracle.reopened(&seen, power);
        Ok(())
    }

    /// Ends the process, or the power with it.
    fn end(&mut self, image: Option<Image>) {
        let fs = match image {
            Some(image) => self.fs.crash(image),
            None => self.fs.kill(),
        };
        self.store = None;
        self.fs = fs;
        self.crashes += 1;
    }

    fn answered(&mut self, which: usize, answer: Result<crate::Ack, Error>, j: bool) {
        match answer {
            Ok(ack) => self.oracle.acknowledged(which, &ack, j),
            Err(error) => match (error.kind(), self.oracle.sent[which].fate) {
                (Kind::DiskFull | Kind::Overloaded, Fate::Unknown) => self.oracle.refused(which),
                (Kind::Disk | Kind::DiskFull | Kind::Overloaded | Kind::Closed, _) => {}
                // What follows a range that was refused has a gap before it.
                (Kind::Invalid, Fate::Unknown) if matches!(error, Error::Gap { .. }) => {
                    self.oracle.refused(which);
                }
                _ => panic!("{error}"),
            },
        }
    }

    fn write(&mut self, which: usize, j: bool) {
        let batch = self.oracle.sent[which].build();
        let concern = if j {
            WriteConcern::JOURNALED
        } else {
            WriteConcern::ACKNOWLEDGED
        };
        let answer = self.store().write(batch, concern);
        self.answered(which, answer, j);
    }

    /// The log thread has taken the first batch and waits for the state, the others gather meanwhile.
    fn burst(&mut self, batches: u64) {
        let (send, receive) = crossbeam_channel::unbounded();
        let shared = Arc::clone(&self.store().shared);
        let held = shared.state.lock();
        let mut sent = 0;
        for i in 0..batches {
            let producer = (i % 2 == 1).then_some((i % 3) as u8);
            let which = self
                .oracle
                .new_batch(1 + i % 3, i % 2, producer, i % 4 == 0);
            let batch = self.oracle.sent[which].build();
            // None of the first group waits for a sync: when it comes would not be known.
            let j = i > 0 && i == batches - 1 && self.random.below(2) == 0;
            let concern = if j {
                WriteConcern::JOURNALED
            } else {
                WriteConcern::ACKNOWLEDGED
            };
            let answer = send.clone();
            let submitted = self.store().submit(batch, concern, move |outcome| {
                answer.send((which, j, outcome)).expect("somebody waits");
            });
            match submitted {
                Ok(()) => sent += 1,
                Err(error) => self.answered(which, Err(error), j),
            }
            if i == 0 {
                // Long enough for the log thread to close its first group.
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        drop(held);
        let mut answers: Vec<_> = (0..sent)
            .map(|_| receive.recv().expect("answered"))
            .collect();
        answers.sort_by_key(|(which, ..)| *which);
        for (which, j, answer) in answers {
            self.answered(which, answer, j);
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
            Step::Burst(batches) => self.burst(batches),
            Step::Retry(which) => self.retry(which),
            Step::Sync => {
                let answer = self.store().shared.syncer.sync_written();
                if answer.is_ok() {
                    self.oracle.all_durable();
                }
            }
            Step::Seal => {
                if self.store().seal().is_ok() {
                    self.oracle.all_durable();
                }
            }
            Step::Read => {
                let reader = Reader::open(Arc::new(self.fs.clone()), Path::new(DATA));
                if let Ok(reader) = reader {
                    let positions = reader.positions().into_iter().map(|(p, at)| (p, at.to));
                    let seen = self.oracle.look(&reader.snapshot(), positions.collect());
                    self.oracle.check(&seen);
                } else {
                    assert!(self.faulty(), "a reader is refused: {reader:?}");
                }
            }
            Step::Close => {
                let store = self.store.take().expect("it is open");
                if store.close().is_ok() {
                    self.oracle.all_durable();
                }
            }
        }
    }

    fn faulty(&self) -> bool {
        self.fs.halted() || self.fs.failed()
    }

    /// Sends a batch again, whatever became of its first copy.
    fn retry(&mut self, which: u64) {
        let known: Vec<usize> = (0..self.oracle.sent.len())
            .filter(|i| self.oracle.may_retry(*i))
            .collect();
        if known.is_empty() {
            return;
        }
        let which = known[(which % known.len() as u64) as usize];
        let j = self.random.below(2) == 0;
        self.write(which, j);
    }

    /// Takes steps until the disk stops or they are done, looking after each.
    fn run(&mut self, steps: &[Step]) {
        for step in steps {
            if self.store.is_none() {
                let opened = self.open(false);
                if self.faulty() && opened.is_err() {
                    return;
                }
                opened.expect("opens");
            }
            self.take(*step);
            if self.fs.halted() {
                return;
            }
            if self.store.is_some() {
                let seen = self.look();
                self.oracle.check(&seen);
            }
        }
    }

    /// Recovers; some of the recoveries are cut short by another crash.
    fn recover(&mut self, mut power: bool) {
        for _ in 0..self.random.below(3) {
            self.fs.halt_at(self.random.below(12));
            if self.open(power).is_ok() && !self.fs.halted() {
                let seen = self.look();
                self.oracle.check(&seen);
                power = false;
            }
            let image = self.image();
            power |= image.is_some();
            self.end(image);
        }
        self.open(power).expect("opens after a crash");
    }

    /// How the process ends: killed, or by a power cut.
    fn image(&mut self) -> Option<Image> {
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

/// Some lives of one store, each of some steps and ended by a crash at any operation of the disk.
fn history(seed: u64) -> u64 {
    let mut world = World::new(seed);
    let mut left = 30 + world.random.below(20);
    world.open(false).expect("opens");
    while left > 0 {
        let steps = (1 + world.random.below(20)).min(left);
        left -= steps;
        let steps: Vec<Step> = (0..steps).map(|_| step(&mut world.random)).collect();
        if world.random.below(3) > 0 {
            let in_between = world.random.below(20 * steps.len() as u64);
            world.fs.halt_at(world.fs.operations() + in_between);
        }
        world.run(&steps);
        let image = world.image();
        world.end(image);
        world.recover(image.is_some());
    }
    world.crashes
}

fn seconds(default: u64) -> Duration {
    let asked = std::env::var("LOGMILL_SIM_SECONDS").ok();
    Duration::from_secs(asked.and_then(|s| s.parse().ok()).unwrap_or(default))
}

/// Runs `what` and names it when it fails.
fn named<T>(name: &str, what: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(what)) {
        Ok(done) => done,
        Err(panic) => {
            eprintln!("failed: {name}");
            std::panic::resume_unwind(panic)
        }
    }
}

#[test]
fn a_history_keeps_its_promises_over_kills_and_power_cuts() {
    if let Some(seed) = std::env::var("LOGMILL_SIM_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
    {
        named(&format!("seed {seed}"), || history(seed));
        return;
    }
    let (started, limit) = (Instant::now(), seconds(10));
    let (mut histories, mut crashes) = (0, 0);
    while started.elapsed() < limit {
        crashes += named(&format!("seed {histories}"), || history(histories));
        histories += 1;
    }
    println!(
        "{histories} histories with {crashes} crashes in {:?}",
        started.elapsed()
    );
    assert!(histories > 0);
}

/// The script of the exhaustive tests.
fn script() -> Vec<Step> {
    let mut random = Random::new(3);
    (0..60).map(|_| step(&mut random)).collect()
}

fn full() -> bool {
    std::env::var("LOGMILL_FULL").is_ok_and(|v| v == "1")
}

/// Runs the script until the disk stops before this operation.
fn until(operation: u64) -> World {
    let mut world = World::new(operation);
    world.fs.halt_at(operation);
    if world.open(false).is_ok() {
        world.run(&script());
    }
    world
}

#[test]
fn every_operation_of_the_disk_may_be_the_last() {
    let images = [
        None,
        Some(Image::Nothing),
        Some(Image::Everything),
        Some(Image::Zeros),
        Some(Image::NoNames),
        Some(Image::NoContents),
        Some(Image::Seed(1)),
        Some(Image::Seed(2)),
    ];
    let every = if full() { 1 } else { 10 };
    let (mut operation, mut crashes) = (0, 0);
    loop {
        let mut done = false;
        // One image at a time when not all are asked for: each gets its share of the points.
        let share = (operation / every) as usize % images.len();
        for (i, image) in images.iter().enumerate() {
            if !full() && i != share && i != 7 - share {
                continue;
            }
            named(&format!("operation {operation}, {image:?}"), || {
                let mut world = until(operation);
                done = !world.fs.halted();
                world.end(*image);
                world.recover(image.is_some());
                world.run(&script()[..4]);
                crashes += world.crashes;
            });
        }
        if done {
            break;
        }
        operation += every;
    }
    println!("{operation} operations, {crashes} crashes");
    assert!(operation > 300);
}

#[test]
fn any_call_that_fails_ends_in_a_clean_error_or_poison() {
    let calls = [
        (Call::Any, ErrorKind::Other),
        (Call::Any, ErrorKind::StorageFull),
        (Call::Write, ErrorKind::WriteZero),
    ];
    let every = if full() { 1 } else { 23 };
    let mut runs = 0;
    for (call, error) in calls {
        for forever in [false, true] {
            let mut after = 0;
            loop {
                let name = format!("{call:?} {after} {error:?}, for ever: {forever}");
                let failed = named(&name, || {
                    let mut world = World::new(after);
                    world.fs.fail(Fault {
                        call,
                        after,
                        forever,
                        error,
                    });
                    if world.open(false).is_ok() {
                        world.run(&script()[..40]);
                    }
                    let failed = world.fs.failed();
                    let image = world.image();
                    world.end(image);
                    world.recover(image.is_some());
                    failed
                });
                runs += 1;
                if !failed {
                    break;
                }
                after += every;
            }
        }
    }
    println!("{runs} runs with a call that fails");
    assert!(runs > 8);
}
