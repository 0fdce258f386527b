//! Two writers: one is refused or stops, and no acknowledged event is lost between them.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::Int64Array;
use parking_lot::Mutex;

use super::*;
use crate::concern::WriteConcern;
use crate::env::{FsFile, RealFs, Space};
use crate::memtable::column;
use crate::model::Name;
use crate::part::read_part;
use crate::rot::life::{self, DATA};
use crate::sim::SimFs;
use crate::snapshot::Snapshot;
use crate::store::{Options, Store};
use crate::testing::{FaultFs, batch, options};

fn write(store: &Store, n: i64, concern: WriteConcern) -> Result<()> {
    store.write(batch(&[n], &[], None), concern).map(|_| ())
}

/// Returns the values of all events, sorted.
fn values(snapshot: &Snapshot) -> Vec<i64> {
    let events = Name::new("events").expect("a name");
    let mut batches = Vec::new();
    for part in snapshot.manifest().parts_of(&events) {
        let bytes = snapshot.read(&part.file).expect("a part");
        batches.extend(read_part(bytes, None).expect("a part"));
    }
    batches.extend(snapshot.chunks("events").iter().map(|c| c.events.clone()));
    let of = |rows| {
        let values: &Int64Array = column(rows, "n");
        values.values().to_vec()
    };
    let mut values: Vec<i64> = batches.iter().flat_map(of).collect();
    values.sort_unstable();
    values
}

fn is_unknown<T>(outcome: &Result<T>) -> bool {
    matches!(outcome, Err(Error::Unknown { .. }))
}

#[test]
fn a_second_writer_is_refused_after_the_lock_file_was_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let fs = FaultFs::default();
    let store = Store::open(dir.path(), options(&fs)).expect("opens");
    store
        .announce("http://127.0.0.1:7070", "secret")
        .expect("announced");
    std::fs::remove_file(dir.path().join(LOCK)).expect("removed");
    let refused = Store::open(dir.path(), Options::default()).expect_err("refused");
    let text = refused.to_string();
    assert!(matches!(refused, Error::Locked { .. }), "{text}");
    assert!(text.contains("127.0.0.1:7070"), "{text}");
    drop(store);
    Store::open(dir.path(), Options::default()).expect("the directory is free again");
}

#[test]
fn a_writer_whose_lock_was_removed_or_replaced_acknowledges_nothing_more() {
    for replaced in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let lock = dir.path().join(LOCK);
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        let mut options = options(&FaultFs::default());
        options.config.sync_interval_ms = 3_600_000;
        options.on_poison = Some(Arc::new(move |error: &Error| {
            heard.lock().push(error.to_string());
        }));
        let store = Store::open(dir.path(), options).expect("opens");
        write(&store, 1, WriteConcern::JOURNALED).expect("taken");
        std::fs::remove_file(&lock).expect("removed");
        if replaced {
            std::fs::write(&lock, b"").expect("another");
        }
        let version = store.snapshot().manifest().version;
        for concern in [WriteConcern::ACKNOWLEDGED, WriteConcern::JOURNALED] {
            assert!(is_unknown(&write(&store, 2, concern)), "{concern:?}");
        }
        assert!(is_unknown(&store.seal()));
        assert_eq!(store.snapshot().manifest().version, version);
        let told = told.lock().clone();
        let [why] = &told[..] else {
            panic!("told once: {told:?}")
        };
        assert!(why.contains("LOCK") && why.contains("removed"), "{why}");
        assert!(store.status().poisoned.is_some());
        assert!(store.close().is_err());
    }
}

#[test]
fn a_writer_that_nobody_asks_anything_finds_out_by_itself() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut options = options(&FaultFs::default());
    options.config.sync_interval_ms = 1;
    let store = Store::open(dir.path(), options).expect("opens");
    std::fs::remove_file(dir.path().join(LOCK)).expect("removed");
    while store.status().poisoned.is_none() {
        std::thread::yield_now();
    }
}

/// Writes a version of the manifest as another writer would.
fn foreign_version(data: &Path, version: u64) {
    let newest = manifest::read_newest(&RealFs, data).expect("read");
    let mut foreign = (*newest.expect("there").manifest).clone();
    foreign.version = version;
    foreign.writer_epoch += 7;
    let path = manifest::path(data, version);
    let _none = std::fs::remove_file(&path);
    let elsewhere = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(elsewhere.path().join(manifest::DIR)).expect("a directory");
    manifest::commit(&RealFs, elsewhere.path(), None, foreign).expect("committed");
    std::fs::copy(manifest::path(elsewhere.path(), version), path).expect("copied");
}

#[test]
fn a_writer_that_meets_a_version_of_another_stops_before_it_writes_its_own() {
    for ahead in [0, 1, 2] {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path(), options(&FaultFs::default())).expect("opens");
        write(&store, 1, WriteConcern::JOURNALED).expect("taken");
        let held = store.snapshot().manifest().version;
        foreign_version(dir.path(), held + ahead);
        let path = manifest::path(dir.path(), held + ahead);
        let before = std::fs::read(&path).expect("there");
        let error = store.seal().expect_err("stops");
        assert!(matches!(error, Error::Unknown { .. }), "{ahead}: {error}");
        assert!(error.to_string().contains("another process"), "{error}");
        assert!(is_unknown(&write(&store, 2, WriteConcern::JOURNALED)));
        assert_eq!(std::fs::read(&path).expect("there"), before);
    }
}

#[test]
fn a_manifest_that_was_removed_or_damaged_under_its_writer_is_mended_by_the_next_edit() {
    for damaged in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path(), options(&FaultFs::default())).expect("opens");
        write(&store, 1, WriteConcern::JOURNALED).expect("taken");
        let path = manifest::path(dir.path(), store.snapshot().manifest().version);
        if damaged {
            std::fs::write(&path, b"nonsense").expect("written");
        } else {
            std::fs::remove_file(&path).expect("removed");
        }
        store.seal().expect("seals");
        store.close().expect("closes");
        let store = Store::open(dir.path(), Options::default()).expect("opens");
        assert_eq!(values(&store.snapshot()), [1]);
    }
}

/// A disk on which an act runs once, before or after one call of the process that uses it.
#[derive(Debug, Clone)]
struct Watched {
    fs: SimFs,
    watch: Arc<Watch>,
}

struct Watch {
    moments: AtomicU64,
    at: u64,
    act: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "something at moment {}", self.at)
    }
}

impl Watch {
    fn moment(&self) {
        if self.moments.fetch_add(1, Ordering::SeqCst) == self.at {
            let act = self.act.lock().take();
            act.into_iter().for_each(|act| act());
        }
    }

    /// Makes a call, with a moment before and one after it.
    fn call<T>(&self, call: impl FnOnce() -> T) -> T {
        self.moment();
        let done = call();
        self.moment();
        done
    }
}

#[derive(Debug)]
struct WatchedFile {
    file: Box<dyn FsFile>,
    watch: Arc<Watch>,
}

impl FsFile for WatchedFile {
    fn write_all_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.watch.call(|| self.file.write_all_at(data, offset))
    }
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.watch.call(|| self.file.sync_data())
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.watch.call(|| self.file.set_len(len))
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

impl Watched {
    fn file(&self, file: Box<dyn FsFile>) -> Box<dyn FsFile> {
        let watch = Arc::clone(&self.watch);
        Box::new(WatchedFile { file, watch })
    }
}

impl Fs for Watched {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.fs.create_dir_all(path)
    }
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        let created = self.watch.call(|| self.fs.create_new(path));
        created.map(|file| self.file(file))
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        self.fs.open(path).map(|file| self.file(file))
    }
    fn open_read(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        self.fs.open_read(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.watch.call(|| self.fs.rename(from, to))
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.watch.call(|| self.fs.rename_new(from, to))
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.watch.call(|| self.fs.link(from, to))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.watch.call(|| self.fs.remove(path))
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.fs.remove_dir(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.watch.call(|| self.fs.sync_dir(path))
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.fs.list(path)
    }
    fn exists(&self, path: &Path) -> bool {
        self.fs.exists(path)
    }
    fn is_dir(&self, path: &Path) -> bool {
        self.fs.is_dir(path)
    }
    fn try_lock(&self, path: &Path) -> io::Result<Option<Box<dyn Guard>>> {
        self.watch.call(|| self.fs.try_lock(path))
    }
    fn space(&self, path: &Path) -> io::Result<Space> {
        self.fs.space(path)
    }
}

/// The values that the second writer acknowledged, and its store.
type Second = Arc<Mutex<(Vec<i64>, Option<Store>)>>;

/// Removes the lock's file and starts a second writer.
fn usurp(fs: &SimFs, second: &Second) {
    let data = Path::new(DATA);
    let _none = fs.remove(&data.join(LOCK));
    let Ok(store) = Store::open(data, life::options(fs)) else {
        return;
    };
    let mut acknowledged = Vec::new();
    let mut take = |n, concern| {
        if write(&store, n, concern).is_ok() {
            acknowledged.push(n);
        }
    };
    take(100, WriteConcern::JOURNALED);
    take(101, WriteConcern::ACKNOWLEDGED);
    // The first writer may have left a file in the way; the seal fails then.
    let _sealed = store.seal();
    take(102, WriteConcern::JOURNALED);
    *second.lock() = (acknowledged, Some(store));
}

/// Runs a first writer, and starts a second one at moment `at`. Returns the number of moments,
/// and whether the second could write while the first was alive.
fn two_writers(at: u64) -> (u64, bool) {
    let fs = SimFs::new();
    let second = Second::default();
    let (disk, there) = (fs.clone(), Arc::clone(&second));
    let watch = Arc::new(Watch {
        moments: AtomicU64::new(0),
        at,
        act: Mutex::new(Some(Box::new(move || usurp(&disk, &there)))),
    });
    let watched = Watched {
        fs: fs.clone(),
        watch: Arc::clone(&watch),
    };
    let mut acknowledged = Vec::new();
    let options = Options {
        fs: Arc::new(watched),
        ..life::options(&fs)
    };
    if let Ok(store) = Store::open(Path::new(DATA), options) {
        let mut take = |n, concern| {
            if write(&store, n, concern).is_ok() {
                acknowledged.push(n);
            }
        };
        take(1, WriteConcern::JOURNALED);
        take(2, WriteConcern::ACKNOWLEDGED);
        let _sealed = store.seal();
        take(3, WriteConcern::JOURNALED);
        take(4, WriteConcern::ACKNOWLEDGED);
        let _sealed = store.seal();
        take(5, WriteConcern::JOURNALED);
        let _closed = store.close();
    }
    let (more, second) = std::mem::take(&mut *second.lock());
    let came = second.is_some();
    acknowledged.extend(more);
    if let Some(second) = second {
        if write(&second, 103, WriteConcern::JOURNALED).is_ok() {
            acknowledged.push(103);
        }
        drop(second);
    }
    let after = fs.kill();
    let store = Store::open(Path::new(DATA), life::options(&after)).expect("opens after both");
    let snapshot = store.snapshot();
    let there = values(&snapshot);
    let lost: Vec<&i64> = acknowledged.iter().filter(|n| !there.contains(n)).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    let twice = there.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None, "there twice");
    assert_eq!(crate::check(&snapshot).damage, []);
    (watch.moments.load(Ordering::SeqCst), came)
}

#[test]
fn of_two_writers_that_meet_at_any_moment_neither_loses_what_it_acknowledged() {
    let (moments, _) = two_writers(u64::MAX);
    assert!(moments > 100, "{moments} moments");
    let mut came = 0;
    for at in 0..moments {
        match catch_unwind(AssertUnwindSafe(|| two_writers(at))) {
            Ok((_, second)) => came += u64::from(second),
            Err(panic) => {
                eprintln!("failed: moment {at} of {moments}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{moments} moments, at {came} of them a second writer took over");
    assert!(came > moments / 2, "{came} of {moments}");
}
