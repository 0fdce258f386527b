//! A store on a simulated disk with its oracle: takes steps and recovers from crashes.

mod acts;
mod backups;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::listing::Listing;
use super::motley;
use super::oracle::Oracle;
use super::seen::{self, STREAM, Seen};
use super::steps::Step;
use crate::env::{Fs, ManualClock};
use crate::error::{Error, Kind, Result};
use crate::limits::Retention;
use crate::manifest;
use crate::model::Name;
use crate::read_only_store::ReadOnlyStore;
use crate::sim::{Call, Image, Random, SimFs};
use crate::store::{Config, Options, Store, StreamConfig};
use crate::testing::RECEIVED_US;

const DATA: &str = "/data";
/// Days that end before the retention age, by the clock that stands.
const OLD_DAYS: (i64, i64) = (-1, 0);
const AGE_US: i64 = RECEIVED_US / 2;
/// Usual upper bound of the disk operations of a recovery: 25 on a quiet store, at most 52 in
/// 10,556 histories.
const RECOVERY: u64 = 48;
const RESERVE_BYTES: u64 = 4 * 4096;

fn options(fs: &SimFs) -> Options {
    let stream = StreamConfig {
        retention: Retention {
            age_us: Some(AGE_US),
            bytes: None,
        },
        ..StreamConfig::default()
    };
    let name = Name::new(STREAM).expect("a name");
    Options {
        fs: Arc::new(fs.clone()),
        depot: None,
        journal: None,
        shard: None,
        clock: Arc::new(ManualClock::at(RECEIVED_US)),
        rollup_hook: Arc::new(Listing),
        config: Config {
            streams: BTreeMap::from([(name, stream)]),
            index_rows_min: crate::index::INDEX_ROWS_MIN,
            // A few blocks, in proportion to the free blocks of a full disk.
            reserve_bytes: RESERVE_BYTES,
            columns_max: motley::COLUMNS_MAX,
            ..super::idle()
        },
        on_poison: None,
    }
}

/// Counts of a history so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Done {
    pub(super) steps: u64,
    pub(super) crashes: u64,
    /// Disk operations of the longest recovery.
    pub(super) recovery: u64,
}

pub(super) struct World {
    pub(super) fs: SimFs,
    pub(super) random: Random,
    pub(super) done: Done,
    /// True when each step is printed.
    pub(super) verbose: bool,
    /// All operations on earlier disks, if recorded.
    pub(super) log: Option<Vec<(Call, PathBuf)>>,
    /// States of the oracle with the number of operations before each, if recorded.
    pub(super) moments: Option<Vec<(u64, Oracle)>>,
    store: Option<Store>,
    /// A reader in another process, and the content that it saw first.
    reader: Option<(ReadOnlyStore, Seen)>,
    /// Newest backups.
    backups: Vec<backups::Backup>,
    oracle: Oracle,
}

impl World {
    /// Returns a world with an empty disk.
    pub(super) fn new(seed: u64) -> Self {
        Self::at(SimFs::new(), Oracle::default(), seed)
    }

    /// Returns a world with a disk and the oracle of its content.
    pub(super) fn at(fs: SimFs, oracle: Oracle, seed: u64) -> Self {
        Self {
            fs,
            random: Random::new(seed),
            done: Done::default(),
            verbose: false,
            log: None,
            moments: None,
            store: None,
            reader: None,
            backups: Vec::new(),
            oracle,
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn trace(&self, what: impl FnOnce() -> String) {
        if self.verbose {
            println!("{} calls: {}", self.fs.operations(), what());
        }
    }

    /// Records the current state of the oracle.
    fn moment(&mut self) {
        if let Some(moments) = &mut self.moments {
            moments.push((self.fs.operations(), self.oracle.clone()));
        }
    }

    /// Checks that every part and tile on the disk is listed in the manifest or pending deletion.
    pub(super) fn check_no_stray_files(&mut self) {
        let Some(store) = &self.store else {
            return;
        };
        let snapshot = store.snapshot();
        let manifest = snapshot.manifest();
        let pending = manifest.pending.iter().map(|p| p.path.as_str());
        let known: BTreeSet<&str> = manifest.files().map(|f| &*f.path).chain(pending).collect();
        let detached = manifest.detached_files().map(|f| &*f.path);
        let known: BTreeSet<&str> = known.into_iter().chain(detached).collect();
        let mut folders = ["streams", "rollups", "detached"]
            .map(str::to_owned)
            .to_vec();
        while let Some(folder) = folders.pop() {
            let listed = self
                .fs
                .list(&Path::new(DATA).join(&folder))
                .unwrap_or_default();
            for path in listed.iter().map(|name| format!("{folder}/{name}")) {
                if self.fs.is_dir(&Path::new(DATA).join(&path)) {
                    folders.push(path);
                } else if !path.ends_with("/partition.json") {
                    // A card that could not be removed does no harm.
                    assert!(known.contains(&*path), "{path} belongs to nobody");
                }
            }
        }
    }

    /// Reads the store from outside the process: faults do not apply.
    fn read_content(&mut self) -> Seen {
        let store = self.store.as_ref().expect("it is open");
        let snapshot = store.snapshot();
        let durable_seq = store.status().durable_seq;
        assert!(
            durable_seq >= snapshot.manifest().sealed_seq,
            "sealed and not synced"
        );
        self.fs.suspend(true);
        let positions = store.positions().into_iter().map(|(p, at)| (p, at.to));
        let seen = seen::read_content(&snapshot, positions, &mut self.oracle.known);
        self.fs.suspend(false);
        seen
    }

    /// Checks that a reader's content never changes, whatever happens to the store.
    fn check_reader(&mut self) {
        if let Some((reader, before)) = &self.reader {
            self.fs.suspend(true);
            let seen = seen::by_reader(reader, &mut self.oracle.known);
            assert_eq!(&seen, before, "a reader sees something else than before");
            self.fs.suspend(false);
        }
    }

    fn check_store(&mut self) {
        let seen = self.read_content();
        self.oracle.check(&seen);
    }

    /// Returns true when a fault or a full disk can have caused the error.
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

    /// Opens the store and checks its content after a crash, unless another crash came meanwhile.
    pub(super) fn open(&mut self, power: bool) -> Result<()> {
        self.moment();
        let before = self.fs.operations();
        let opened = Store::open(Path::new(DATA), options(&self.fs));
        let operations = self.fs.operations() - before;
        self.done.recovery = self.done.recovery.max(operations);
        self.trace(|| format!("opened: {:?}", opened.as_ref().err()));
        self.store = Some(opened?);
        if self.fs.halted() {
            return Ok(());
        }
        let seen = self.read_content();
        self.oracle.reopened(&seen, power);
        self.check_backups();
        self.check_manifest_copies();
        self.moment();
        Ok(())
    }

    /// Checks that a writer that has just opened the store has written the manifest to both
    /// folders.
    fn check_manifest_copies(&self) {
        if self.faulty() || self.fs.capacity().is_some() {
            return;
        }
        self.fs.suspend(true);
        let places = self.places();
        let here = places.iter().filter(|path| self.fs.exists(path)).count();
        assert_eq!(here, 2, "the manifest is in one place alone: {places:?}");
        let damaged = manifest::damaged(&self.fs, Path::new(DATA)).expect("read");
        assert_eq!(damaged, []);
        self.fs.suspend(false);
    }

    /// Returns the paths of the newest version of the manifest and its copy.
    fn places(&self) -> Vec<PathBuf> {
        let data = Path::new(DATA);
        let newest = manifest::newest_version(&self.fs, data).expect("listed");
        let places = newest.map(|v| [manifest::path(data, v), manifest::copy_path(data, v)]);
        places.into_iter().flatten().collect()
    }

    /// Damages one of the two copies of the manifest while no process has the store open, if both
    /// exist: a crash may have come before the copy was made.
    fn rot_one_place(&mut self) {
        let which = self.random.below(16) as usize;
        let places = self.places();
        if which > 7 || places.len() < 2 || !places.iter().all(|path| self.fs.exists(path)) {
            return;
        }
        // Damage comes long after a kill: by then the kernel has made the names of both durable.
        for place in &places {
            let dir = place.parent().expect("a folder");
            self.fs.sync_dir(dir).expect("synced");
        }
        let path = &places[which % 2];
        let bytes = self.fs.read(path).expect("read");
        let (at, dir) = (bytes.len() / 2, path.parent().expect("a folder"));
        if which / 2 == 0 {
            self.fs.remove(path).expect("removed");
            self.fs.sync_dir(dir).expect("synced");
        } else {
            let file = self.fs.open(path).expect("opened");
            match which / 2 {
                1 => file.set_len(at as u64).expect("cut"),
                _ => file
                    .write_all_at(&[!bytes[at]], at as u64)
                    .expect("written"),
            }
            file.sync_data().expect("synced");
        }
        self.trace(|| format!("{} rots: {}", path.display(), which / 2));
    }

    /// Opens the store; on a full disk, tries again without the limit.
    fn open_with_room(&mut self, power: bool) -> Result<()> {
        match self.open(power) {
            Err(error) if self.fs.capacity().is_some() && error.kind() == Kind::DiskFull => {
                self.fs.set_capacity(None);
                self.open(power)
            }
            other => other,
        }
    }

    /// Kills the process, or cuts the power.
    pub(super) fn end(&mut self, image: Option<Image>) {
        let fs = match image {
            Some(image) => self.fs.crash(image),
            None => self.fs.kill(),
        };
        self.store = None;
        self.reader = None;
        if let Some(log) = &mut self.log {
            log.extend(self.fs.log());
            fs.record();
        }
        self.fs = fs;
        self.done.crashes += 1;
        self.trace(|| format!("ended: {image:?}"));
    }

    /// Takes steps and checks the store after each, until they are done or the disk stops.
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
            self.trace(|| format!("{step:?}"));
            self.take(*step);
            if self.fs.halted() {
                return;
            }
            self.check_reader();
            self.check_backups();
            if self.store.is_some() {
                self.check_store();
                self.moment();
                if let Some(why) = self.store().status().poisoned {
                    assert!(self.faulty(), "poisoned without a fault: {why}");
                    // The process exits with 74, and another one starts.
                    self.store = None;
                }
            }
        }
    }

    /// Recovers, after this many recoveries that were interrupted by another crash.
    pub(super) fn recover(&mut self, mut power: bool, cuts: u64) {
        self.rot_one_place();
        for _ in 0..cuts {
            let at = self.random.below(self.done.recovery.max(RECOVERY));
            let image = self.image();
            power = self.cut_recovery(power, at, image);
        }
        self.open_with_room(power).expect("opens after a crash");
    }

    /// Begins to recover and crashes before this operation, or after the recovery. Returns true
    /// when the disk found next is the result of a power cut.
    pub(super) fn cut_recovery(&mut self, power: bool, at: u64, image: Option<Image>) -> bool {
        self.fs.halt_at(at);
        let opened = self.open(power);
        let done = opened.is_ok() && !self.fs.halted();
        if done {
            self.check_store();
        } else if let Err(error) = opened {
            self.excuse(&error);
        }
        self.end(image);
        image.is_some() || power && !done
    }

    /// Chooses how the process ends: killed, or by a power cut.
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
