//! Tests of file names: several writers of one store, orphans, and stores with names of both forms.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::backup::backup;
use crate::check;
use crate::concern::WriteConcern;
use crate::env::{Fs, RealFs, SystemClock};
use crate::manifest;
use crate::model::{Identity, Name, QUARANTINE};
use crate::read_only_store::ReadOnlyStore;
use crate::repair::repair;
use crate::sim::Random;
use crate::snapshot::Snapshot;
use crate::store::model::listing::Listing;
use crate::store::{Options, Store};
use crate::testing::{FaultFs, Op, batch};

const DAY_US: i64 = 86_400_000_000;
const EVER: (i64, i64) = (i64::MIN, i64::MAX);
/// Folders of the files that are named by epoch and number.
const FOLDERS: [&str; 3] = ["streams", "rollups", "identities"];

fn options(fs: &FaultFs) -> Options {
    Options {
        rollup_hook: Arc::new(Listing),
        ..crate::testing::options(fs)
    }
}

fn id(epoch: u32, number: u64) -> FileId {
    FileId { epoch, number }
}

#[test]
fn names_of_both_forms_are_read() {
    for known in [id(0, 0), id(1, 7), id(0x7fff_ffff, (1 << 62) - 1)] {
        assert_eq!(FileId::parse(&known.to_string()), Some(known));
    }
    assert_eq!(id(3, 0x1a).to_string(), "00000003-000000000000001a");
    for (path, number) in [
        ("streams/e/date=2000-10-10/000000000000001a.parquet", 0x1a),
        ("rollups/stats/000000000000001a.tile", 0x1a),
        ("identities/1.json.zst", 1),
    ] {
        assert_eq!(FileId::of_path(path), Some(id(0, number)), "{path}");
        let (folder, name) = path.rsplit_once('/').expect("a folder");
        let path = format!("{folder}/0000000c-{name}");
        assert_eq!(FileId::of_path(&path), Some(id(12, number)), "{path}");
        assert_eq!(FileId::of_path(&(path + ".tmp")), Some(id(12, number)));
    }
    for other in [
        "",
        "-",
        "1-",
        "-1",
        "+1",
        "notes",
        "1-2-3",
        "1-+2",
        "80000000-1",
        "100000000-1",
        "4000000000000000",
        "ffffffffffffffff",
    ] {
        assert_eq!(FileId::parse(other), None, "{other}");
    }
    assert!(id(1, 9) < id(2, 3), "a later writer comes after");
}

/// A store that several writers use one after another, with every name that they have given.
struct Lives {
    dir: tempfile::TempDir,
    random: Random,
    named: BTreeSet<PathBuf>,
    /// Acknowledged events; event n has time n of some day.
    events: u64,
}

impl Lives {
    fn of(seed: u64) -> Self {
        Self {
            dir: tempfile::tempdir().expect("a directory"),
            random: Random::new(seed),
            named: BTreeSet::new(),
            events: 0,
        }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Collects the names that a writer has given: none was given before.
    fn collect(&mut self, fs: &FaultFs) {
        let data = self.data();
        let names = |op| [Op::Rename, Op::Link].contains(&op);
        for (_, path) in fs.calls().into_iter().filter(|(op, _)| names(*op)) {
            let place = path.strip_prefix(&data).expect("below the store");
            if FOLDERS.iter().any(|folder| place.starts_with(folder)) {
                let place = place.to_path_buf();
                let text = place.display().to_string();
                assert!(self.named.insert(place), "{text} was named before");
            }
        }
    }

    fn write(&mut self, store: &Store) {
        let first = self.events as i64;
        let times = [0, 1, 2].map(|n| first + n + DAY_US * (n % 2));
        let identity = Identity::Key {
            key: format!("events\0{first}"),
            body_hash: 7,
        };
        let sent = store.write(batch(&times, &[], Some(identity)), WriteConcern::JOURNALED);
        assert!(!sent.expect("taken").duplicate);
        self.events += 3;
    }

    /// Runs a writer that seals, merges, detaches and attaches.
    fn work(&mut self, store: &Store) {
        for _ in 0..self.random.below(4) {
            self.write(store);
            store.seal().expect("seals");
            match self.random.below(4) {
                0 => drop(store.compact_tiles(true).expect("merges")),
                1 => drop(store.compact_parts(None, true).expect("merges")),
                2 => {
                    let stream = Name::new("events").expect("a name");
                    let gone = store.detach_partitions(&stream, EVER, false);
                    assert!(gone.expect("detaches").events > 0);
                    store.attach_partitions(&stream, EVER).expect("attaches");
                }
                _ => {}
            }
        }
    }

    /// Opens the store, uses it, and ends it in one of several ways.
    fn live(&mut self) {
        let fs = FaultFs::default();
        let store = Store::open(&self.data(), options(&fs)).expect("opens");
        self.work(&store);
        self.write(&store);
        match self.random.below(3) {
            0 => store.close().expect("closes"),
            1 => drop(store),
            // It is killed between its files and their commit: orphans stay.
            _ => {
                fs.fail(Op::Remove, "", ErrorKind::PermissionDenied, usize::MAX);
                fs.fail(Op::Rename, "manifest/", ErrorKind::Other, usize::MAX);
                store.seal().expect_err("not committed");
                drop(store);
            }
        }
        self.collect(&fs);
    }

    /// Repairs the store, which is cut short before its commit at first: either a damaged tile or
    /// a lost manifest.
    fn mend(&mut self) {
        let data = self.data();
        if self.random.below(2) == 0 {
            for place in [manifest::DIR, manifest::COPY_DIR] {
                std::fs::remove_dir_all(data.join(place)).expect("removed");
            }
        } else {
            let newest = manifest::read_newest(&RealFs, &data).expect("read");
            let newest = newest.expect("there").manifest;
            let tile = newest.tiles.iter().flat_map(|t| &t.files).next();
            let Some(tile) = tile else { return };
            std::fs::write(data.join(&tile.file.path), b"damaged").expect("written");
        }
        for cut in [true, true, false] {
            let fs = FaultFs::default();
            if cut {
                fs.fail(Op::Remove, "", ErrorKind::PermissionDenied, usize::MAX);
                // A repair that has a manifest commits its epoch first.
                let version = manifest::newest_version(&RealFs, &data).expect("read");
                let last = version.map_or("manifest/".into(), |v| format!("{:x}.man", v + 2));
                fs.fail(Op::Rename, &last, ErrorKind::Other, usize::MAX);
            }
            let repaired = repair(&data, &options(&fs));
            assert_eq!(repaired.is_err(), cut, "{repaired:?}");
            self.collect(&fs);
        }
    }

    fn check(&self) {
        let reader = ReadOnlyStore::open(Arc::new(RealFs), &self.data()).expect("opens");
        check_snapshot(&reader.snapshot(), self.events);
    }
}

/// Checks that a store is sound and holds this many events.
fn check_snapshot(snapshot: &Snapshot, events: u64) {
    assert_eq!(check(snapshot).damage, []);
    let manifest = snapshot.manifest();
    let ids: BTreeSet<u64> = manifest.parts.iter().map(|p| p.id).collect();
    assert_eq!(ids.len(), manifest.parts.len());
    let sealed = manifest
        .parts
        .iter()
        .filter(|p| p.stream.as_str() != QUARANTINE);
    let sealed: u64 = sealed.map(|p| p.rows).sum();
    let memory = snapshot.chunks("events").iter();
    let memory: u64 = memory.map(|c| c.events.num_rows() as u64).sum();
    assert_eq!(sealed + memory, events);
}

#[test]
fn no_two_writers_give_one_name() {
    for seed in 0..24 {
        let mut lives = Lives::of(seed);
        for _ in 0..5 {
            lives.live();
            lives.check();
            if lives.random.below(3) == 0 {
                lives.mend();
                lives.check();
            }
        }
        assert!(lives.named.len() > 20, "seed {seed}: {:?}", lives.named);
    }
}

/// The second writer starts while the first is about to commit, and both have a part of the same
/// number.
#[test]
fn files_of_a_writer_that_was_superseded_stay_apart_from_those_of_its_successor() {
    let mut lives = Lives::of(0);
    let (first, second) = (FaultFs::default(), FaultFs::default());
    let store = Store::open(&lives.data(), options(&first)).expect("opens");
    lives.write(&store);
    store.seal().expect("seals");
    let newest = manifest::read_newest(&RealFs, &lives.data()).expect("read");
    let next = newest.expect("there").manifest.next_file_id();
    lives.write(&store);
    first.fail(Op::Rename, "manifest/", ErrorKind::Other, usize::MAX);
    first.fail(Op::Remove, "", ErrorKind::PermissionDenied, usize::MAX);
    store.seal().expect_err("not committed");
    drop(store);
    lives.collect(&first);
    // The trash cannot take the orphans, so they stay where the second writer puts its files.
    second.fail(
        Op::Rename,
        "trash/",
        ErrorKind::PermissionDenied,
        usize::MAX,
    );
    let store = Store::open(&lives.data(), options(&second)).expect("opens");
    store.seal().expect("seals");
    lives.collect(&second);
    let given = |epoch| {
        let ids = lives
            .named
            .iter()
            .map(|p| FileId::of_path(&p.to_string_lossy()));
        ids.filter(|found| *found == Some(id(epoch, next.number)))
            .count()
    };
    assert_eq!((given(next.epoch), given(next.epoch + 1)), (1, 1));
    check_snapshot(&store.snapshot(), lives.events);
}

/// Renames every file as writers named it before names had an epoch.
fn without_epochs(data: &Path) {
    let newest = manifest::read_newest(&RealFs, data).expect("read");
    let mut old = (*newest.expect("there").manifest).clone();
    let parts = old.parts.iter_mut().map(|p| &mut p.file);
    let tiles = old.tiles.iter_mut().flat_map(|t| &mut t.files);
    let files = parts
        .chain(tiles.map(|f| &mut f.file))
        .chain(&mut old.identities);
    for file in files {
        let (folder, name) = file.path.rsplit_once('/').expect("a folder");
        let (_, name) = name.split_once('-').expect("an epoch");
        let path = format!("{folder}/{name}");
        std::fs::rename(data.join(&file.path), data.join(&path)).expect("renamed");
        file.path = path;
    }
    for place in [manifest::DIR, manifest::COPY_DIR] {
        std::fs::remove_dir_all(data.join(place)).expect("removed");
    }
    manifest::commit(&RealFs, data, None, old).expect("committed");
}

#[test]
fn a_store_with_names_of_both_forms_works_and_can_be_rebuilt() {
    for seed in 0..6 {
        let mut lives = Lives::of(seed);
        lives.live();
        lives.live();
        without_epochs(&lives.data());
        lives.named.clear();
        lives.check();
        let fs = FaultFs::default();
        let store = Store::open(&lives.data(), options(&fs)).expect("opens");
        lives.write(&store);
        store.seal().expect("seals");
        let manifest = Arc::clone(store.snapshot().manifest());
        let epochs: BTreeSet<u32> = manifest
            .files()
            .map(|f| FileId::of_path(&f.path).expect("an id").epoch)
            .collect();
        assert!(epochs.len() > 1 && epochs.contains(&0), "{epochs:?}");
        lives.check();
        let copy = lives.dir.path().join("copy");
        let real: Arc<dyn Fs> = Arc::new(RealFs);
        backup(&real, &SystemClock, &lives.data(), &copy).expect("copies");
        let reader = ReadOnlyStore::open(Arc::new(RealFs), &copy).expect("opens");
        check_snapshot(&reader.snapshot(), lives.events);
        lives.work(&store);
        store.close().expect("closes");
        lives.collect(&fs);
        lives.check();
        lives.mend();
        lives.live();
        lives.check();
    }
}

#[test]
fn a_rebuild_keeps_parts_of_two_writers_with_one_number_apart() {
    let mut lives = Lives::of(0);
    let store = Store::open(&lives.data(), options(&FaultFs::default())).expect("opens");
    for _ in 0..2 {
        lives.write(&store);
        store.seal().expect("seals");
    }
    let manifest = Arc::clone(store.snapshot().manifest());
    store.close().expect("closes");
    let paths = manifest.parts.iter().map(|p| &p.file.path);
    let of_a_day: Vec<&String> = paths.filter(|p| p.contains("date=1970-01-01")).collect();
    let [first, second] = &of_a_day[..] else {
        panic!("{of_a_day:?}")
    };
    let number = FileId::of_path(first).expect("an id").number;
    let (folder, _) = second.rsplit_once('/').expect("a folder");
    let other = lives
        .data()
        .join(format!("{folder}/{}.parquet", id(9, number)));
    std::fs::rename(lives.data().join(second), other).expect("renamed");
    for place in [manifest::DIR, manifest::COPY_DIR] {
        std::fs::remove_dir_all(lives.data().join(place)).expect("removed");
    }
    repair(&lives.data(), &options(&FaultFs::default())).expect("repairs");
    lives.check();
    let newest = manifest::read_newest(&RealFs, &lives.data()).expect("read");
    assert!(newest.expect("there").manifest.writer_epoch > 9);
}
