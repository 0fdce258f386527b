//! A store on the simulated disk, with its oracle: takes steps and recovers from crashes.

mod acts;

use std::path::Path;
use std::sync::Arc;

use storage::sim::{Image, Random, SimFs};
use storage::{
    Chunk, Clock, Config, Manifest, ManualClock, Name, Options, PartitionWidth, Snapshot, Store,
    StreamConfig, StreamKind,
};

use super::counted::ExpectedRow;
use super::events::Fate;
use super::oracle::RollupOracle;
use super::rollups::{Rollup, config};
use super::seen::{PartCache, RollupReader, StoreContents};
use super::steps::HistoryStep;
use super::{STREAM, instants};
use crate::calendar::Level;
use crate::rollup_hook::Cascade;
use crate::verify::{Sample, verify};

const DATA: &str = "/data";
/// No sync and no seal happens by itself within this time.
const NEVER_US: i64 = 1 << 50;
/// Most recoveries have fewer operations of the disk than this.
const RECOVERY: u64 = 32;

/// Work done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WorldCounters {
    pub(super) steps: u64,
    pub(super) crashes: u64,
    /// Operations of the disk.
    pub(super) disk_operations: u64,
    /// Levels that were read and compared.
    pub(super) reads: u64,
    /// Rows that were compared.
    pub(super) rows: u64,
}

/// A snapshot, and the rows of every level of every rollup when it was taken.
struct HeldSnapshot(Arc<Snapshot>, Vec<Vec<Vec<ExpectedRow>>>);

pub(super) struct RollupWorld {
    pub(super) fs: SimFs,
    pub(super) random: Random,
    pub(super) counters: WorldCounters,
    /// Prints each step when set.
    pub(super) prints_steps: bool,
    /// Allows steps with many events when set.
    pub(super) crowded: bool,
    clock: Arc<ManualClock>,
    rollup_hook: Arc<Cascade>,
    rollups: Vec<Rollup>,
    store: Option<Store>,
    oracle: RollupOracle,
    readers: Vec<RollupReader>,
    parts: PartCache,
    held: Option<HeldSnapshot>,
    /// The manifest and the chunks that were compared last.
    last: Option<(Arc<Manifest>, Vec<Arc<Chunk>>)>,
}

impl RollupWorld {
    /// Starts with an empty disk.
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let rollups = Rollup::some(&mut random);
        let now_us = instants::beginning(&mut random, &rollups);
        let width = match random.below(3) {
            0 => Level::Day,
            _ => Level::Month,
        };
        let rollup_hook = Cascade::new(config(&rollups)).expect("a configuration");
        let stream = Name::new(STREAM).expect("a name");
        let definitions = rollup_hook.missing(&stream, StreamKind::Access, &[]);
        let definitions = definitions.expect("definitions");
        let reader = |rollup: &Rollup| {
            let definition = definitions
                .iter()
                .find(|d| d.name().as_str() == rollup.name);
            RollupReader::new(rollup.clone(), definition.expect("is there").clone())
        };
        Self {
            fs: SimFs::new(),
            counters: WorldCounters::default(),
            prints_steps: false,
            crowded: random.below(8) == 0,
            random,
            clock: Arc::new(ManualClock::at(now_us)),
            rollup_hook: Arc::new(rollup_hook),
            readers: rollups.iter().map(reader).collect(),
            oracle: RollupOracle::new(rollups.clone(), width),
            rollups,
            store: None,
            parts: PartCache::default(),
            held: None,
            last: None,
        }
    }

    fn options(&self) -> Options {
        let partition = match self.oracle.width {
            Level::Day => PartitionWidth::Day,
            _ => PartitionWidth::Month,
        };
        let stream = StreamConfig {
            partition: Some(partition),
            ..StreamConfig::default()
        };
        let streams = [(Name::new(STREAM).expect("a name"), stream)];
        Options {
            depot: None,
            journal: None,
            shard: None,
            fs: Arc::new(self.fs.clone()),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            rollup_hook: Arc::clone(&self.rollup_hook) as _,
            config: Config {
                lag_us: NEVER_US,
                memtable_bytes_max: 1 << 30,
                sync_interval_ms: 3_600_000,
                tends: false,
                keeps_log: false,
                streams: streams.into_iter().collect(),
                ..Config::default()
            },
            on_poison: None,
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn now_us(&self) -> i64 {
        self.clock.now_us()
    }

    fn print(&self, text: impl FnOnce() -> String) {
        if self.prints_steps {
            println!("{} calls: {}", self.fs.operations(), text());
        }
    }

    /// Accepts an error only from a disk that has stopped.
    fn excuse(&self, error: &storage::Error) {
        assert!(self.fs.halted(), "without a fault: {error}");
    }

    /// Opens the store and settles the oracle with its contents, unless the disk stops meanwhile.
    fn open(&mut self, power: bool) -> storage::Result<()> {
        self.store = Some(Store::open(Path::new(DATA), self.options())?);
        if self.fs.halted() {
            return Ok(());
        }
        let snapshot = self.store().snapshot();
        let raw = StoreContents::of(&snapshot, &self.readers);
        self.readers.iter().for_each(|r| r.check_files(&snapshot));
        self.last = None;
        self.oracle
            .reopened(&raw, &self.parts.read(&snapshot), power);
        self.print(|| {
            format!(
                "opened: sealed {}, {} in memory",
                raw.sealed_seq,
                raw.memory.len()
            )
        });
        self.compare();
        Ok(())
    }

    /// Compares every level with the oracle. A time partition that has changed on neither side is
    /// not read again.
    fn compare(&mut self) {
        let snapshot = self.store().snapshot();
        let chunks = snapshot.chunks(STREAM);
        let same = self.last.as_ref().map(|(manifest, before)| {
            let pairs = || before.iter().zip(chunks);
            let same = before.len() == chunks.len() && pairs().all(|(a, b)| Arc::ptr_eq(a, b));
            (Arc::ptr_eq(manifest, snapshot.manifest()), same)
        });
        let (same_manifest, same_memory) = same.unwrap_or((false, false));
        if !same_memory {
            self.oracle.memory_changed();
        }
        for (reader, counted) in self.readers.iter_mut().zip(&mut self.oracle.rollups) {
            if !same_manifest {
                for (level, partition_us) in reader.update(&snapshot) {
                    let counts = counted.levels.iter_mut().find(|c| c.level == level);
                    let counts = counts.expect("a level of the rollup");
                    counts.changed.insert(partition_us);
                }
            }
            for nth in 0..counted.levels.len() {
                if counted.levels[nth].changed.is_empty() {
                    continue;
                }
                let wanted = counted.changed_rows(nth);
                let changed = std::mem::take(&mut counted.levels[nth].changed);
                let found = reader.rows(&snapshot, nth, &changed);
                compare(&counted.rollup, nth, &found, &wanted);
                self.counters.reads += 1;
                self.counters.rows += wanted.len() as u64;
            }
        }
        self.last = Some((Arc::clone(snapshot.manifest()), chunks.to_vec()));
    }

    fn check(&mut self) {
        let raw = StoreContents::of(&self.store().snapshot(), &self.readers);
        self.oracle.settle(&raw, false);
        self.oracle.check_memory(&raw);
        self.compare();
    }

    /// Ends the process, or the power with it.
    pub(super) fn end(&mut self, image: Option<Image>) {
        let fs = match image {
            Some(image) => self.fs.crash(image),
            None => self.fs.kill(),
        };
        (self.store, self.held) = (None, None);
        self.counters.disk_operations += self.fs.operations();
        self.fs = fs;
        self.counters.crashes += 1;
        self.print(|| format!("ended: {image:?}"));
    }

    /// Takes some steps, or fewer when the disk stops, and checks the store after each.
    pub(super) fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            self.counters.steps += 1;
            if self.store.is_none() {
                if let Err(error) = self.open(false) {
                    self.excuse(&error);
                }
                if self.fs.halted() {
                    return;
                }
            }
            let step = super::steps::step(&mut self.random, self.crowded);
            self.print(|| format!("{step:?}"));
            self.take(step);
            if self.fs.halted() {
                return;
            }
            if self.store.is_some() {
                self.check();
            }
        }
    }

    /// Recovers, perhaps after a first recovery that another crash cut short.
    pub(super) fn recover(&mut self, mut power: bool) {
        if self.random.below(4) == 0 {
            self.fs.halt_at(self.random.below(RECOVERY));
            let opened = self.open(power);
            let complete = opened.is_ok() && !self.fs.halted();
            if let Err(error) = opened {
                self.excuse(&error);
            }
            let image = self.image();
            self.end(image);
            power = image.is_some() || power && !complete;
        }
        self.open(power).expect("opens after a crash");
    }

    /// Runs the verification that users run, which needs no oracle: it compares each rollup with
    /// its raw events and its finer levels.
    pub(super) fn verify(&self) {
        let snapshot = self.store().snapshot();
        for meta in &snapshot.manifest().rollups {
            let found = verify(&snapshot, meta, Sample::ALL).expect("verifies");
            assert_eq!(found.differences(), 0, "verify: {found:?}");
        }
    }

    /// Chooses the end of the process: killed (`None`), or a power cut that leaves an image.
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

/// Panics at the first difference between the rows of a level and the expected ones.
fn compare(rollup: &Rollup, nth: usize, found: &[ExpectedRow], wanted: &[ExpectedRow]) {
    if found == wanted {
        return;
    }
    let level = rollup.levels[nth];
    let name = format!("{}.{level} in {}", rollup.name, rollup.calendar.zone);
    for (found, wanted) in found.iter().zip(wanted) {
        let at = (wanted.0, &wanted.1);
        assert_eq!(
            (found.0, &found.1),
            at,
            "{name}: another cell: left is there"
        );
        let columns = rollup.columns(level);
        let columns = columns[1..2].iter().chain(&columns[2 + rollup.by.len()..]);
        for ((found, wanted), column) in found.2.iter().zip(&*wanted.2).zip(columns) {
            assert_eq!(found, wanted, "{name}: {column} at {at:?}: left is there");
        }
    }
    panic!("{name}: {} cells, expected {}", found.len(), wanted.len());
}
