use std::path::Path;
use std::sync::Arc;

use crate::concern::WriteConcern;
use crate::disk::disk_use;
use crate::env::{Fs, ManualClock, RealFs};
use crate::job_log::{Job, JobState};
use crate::model::Name;
use crate::read_only_store::ReadOnlyStore;
use crate::sim::{Call, Fault, SimFs};
use crate::snapshot::Snapshot;
use crate::store::model::listing::Listing;
use crate::store::{Config, Options, Store, compaction_debt};
use crate::testing::{FaultFs, Op, RECEIVED_US, batch};

const DAY_US: i64 = 86_400_000_000;

fn options(fs: Arc<dyn Fs>) -> Options {
    Options {
        fs,
        clock: Arc::new(ManualClock::at(RECEIVED_US)),
        config: Config {
            lag_us: 1 << 50,
            tends: false,
            ..Config::default()
        },
        ..Options::default()
    }
}

/// Writes this many parts of the first day.
fn with_parts(store: &Store, parts: i64) {
    for at in 0..parts {
        let ack = store.write(batch(&[at], &[], None), WriteConcern::ACKNOWLEDGED);
        ack.expect("taken");
        store.seal().expect("seals");
    }
}

fn events() -> Name {
    Name::new("events").expect("a name")
}

#[test]
fn what_is_done_to_parts_is_told_with_its_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path(), options(Arc::new(RealFs))).expect("opens");
    with_parts(&store, 3);
    let debt = compaction_debt(store.snapshot().manifest()).0[&events()];
    let bytes: u64 = store
        .snapshot()
        .manifest()
        .parts
        .iter()
        .map(|p| p.file.len)
        .sum();
    assert_eq!((debt.count, debt.bytes), (3, bytes));
    store.compact_parts(None, true).expect("compacts");
    store.compact_parts(None, true).expect("compacts");
    assert_eq!(
        compaction_debt(store.snapshot().manifest()).0[&events()].count,
        0
    );
    let range = (0, DAY_US);
    let dry = store
        .detach_partitions(&events(), range, true)
        .expect("says");
    assert_eq!(dry.events, 3);
    store
        .detach_partitions(&events(), range, false)
        .expect("detaches");
    store
        .detach_partitions(&events(), range, false)
        .expect_err("it is detached");
    store.attach_partitions(&events(), range).expect("attaches");
    store
        .drop_partitions(&events(), range, false)
        .expect("drops");
    let told = store.maintenance().entries();
    let jobs: Vec<_> = told.iter().map(|e| (e.job, e.state)).collect();
    let (done, failed) = (JobState::Done, JobState::Failed);
    let expected = [
        (Job::CompactParts, done),
        (Job::Detach, done),
        (Job::Detach, failed),
        (Job::Attach, done),
        (Job::Drop, done),
    ];
    assert_eq!(jobs, expected, "{told:?}");
    let merge = &told[0];
    assert_eq!(merge.said.what, "merged 3 parts into 1: 3 rows");
    assert_eq!(
        merge.why,
        "3 parts of similar size in events, date=1970-01-01"
    );
    assert_eq!(merge.said.bytes_read, Some(bytes));
    assert!(merge.said.bytes_written.is_some_and(|b| b > 0 && b < bytes));
    assert_eq!(
        told[2].error.as_deref(),
        Some("detached/events/date=1970-01-01 is already detached")
    );
    assert!(
        told[4]
            .said
            .what
            .starts_with("dropped 1 partitions: 3 events"),
        "{:?}",
        told[4]
    );
    assert_eq!(
        told[4].why,
        "requested by an operator: partitions that begin from 1970-01-01 to 1970-01-02"
    );
    // A reader and the next writer find the same entries.
    let log = crate::JobLog::of(
        Arc::new(RealFs),
        Arc::new(ManualClock::at(0)),
        dir.path(),
        false,
    );
    assert_eq!(log.entries(), told);
    store.close().expect("closes");
    let again = Store::open(dir.path(), options(Arc::new(RealFs))).expect("opens");
    assert_eq!(again.maintenance().entries(), told);
}

#[test]
fn a_backfill_is_logged_with_its_events_and_bytes() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path(), options(Arc::new(RealFs))).expect("opens");
    with_parts(&store, 3);
    store.close().expect("closes");
    // The rollup is new to the store, and its short history is counted while the store opens.
    let options = Options {
        rollup_hook: Arc::new(Listing),
        ..options(Arc::new(RealFs))
    };
    let store = Store::open(dir.path(), options).expect("opens");
    let snapshot = store.snapshot();
    let tiles = snapshot.manifest().tiles.iter().flat_map(|t| &t.files);
    let bytes: u64 = tiles.map(|f| f.file.len).sum();
    let entries = store.maintenance().entries();
    let counted: Vec<_> = entries.iter().filter(|e| e.job == Job::Backfill).collect();
    let said = &counted.first().expect("it was counted").said;
    assert_eq!((said.done, said.total), (Some(3), Some(3)), "{entries:?}");
    assert!(bytes > 0);
    assert_eq!(said.bytes_written, Some(bytes), "{entries:?}");
}

#[test]
fn a_log_that_cannot_be_written_harms_nothing() {
    let fs = SimFs::new();
    let data = Path::new("/data");
    let store = Store::open(data, options(Arc::new(fs.clone()))).expect("opens");
    with_parts(&store, 4);
    // Creating the folder, creating the file and writing its first line each fail.
    for (call, after) in [(Call::Create, 0), (Call::Create, 1), (Call::Write, 0)] {
        fs.fail(Fault {
            call,
            after,
            forever: true,
            error: std::io::ErrorKind::StorageFull,
        });
        let run = store.maintenance().begin(Job::Scrub, None, "a test");
        run.done(crate::Said::default());
        store.maintenance().keep("scrub", "a place");
        assert!(fs.failed());
        fs.mend();
    }
    assert!(store.maintenance().entries().is_empty());
    assert_eq!(store.maintenance().counts()[&Job::Scrub].done, 3);
    store.compact_parts(None, true).expect("compacts");
    assert_eq!(store.maintenance().entries().len(), 1);
    with_parts(&store, 1);
    store.close().expect("closes");
    let reader = ReadOnlyStore::open(Arc::new(fs), data).expect("opens");
    assert_eq!(rows(&reader.snapshot()), 5);
}

#[test]
fn a_folder_that_cannot_be_written_to_stops_no_maintenance() {
    let (dir, fs) = (
        tempfile::tempdir().expect("a directory"),
        FaultFs::default(),
    );
    let store = Store::open(dir.path(), options(Arc::new(fs.clone()))).expect("opens");
    with_parts(&store, 4);
    let full = std::io::ErrorKind::StorageFull;
    fs.fail(Op::Create, "maintenance", full, usize::MAX);
    fs.fail(Op::Write, "maintenance", full, usize::MAX);
    let merged = store.compact_parts(None, true).expect("compacts").merged;
    assert_eq!(merged, 4);
    let range = (0, DAY_US);
    store
        .detach_partitions(&events(), range, false)
        .expect("detaches");
    store.attach_partitions(&events(), range).expect("attaches");
    assert!(store.maintenance().entries().is_empty());
    store.close().expect("closes");
    let reader = ReadOnlyStore::open(Arc::new(RealFs), dir.path()).expect("opens");
    assert_eq!(rows(&reader.snapshot()), 4);
}

fn rows(snapshot: &Snapshot) -> u64 {
    snapshot.manifest().parts.iter().map(|p| p.rows).sum()
}

#[test]
fn what_a_store_takes_is_what_lies_on_the_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path(), options(Arc::new(RealFs))).expect("opens");
    with_parts(&store, 3);
    let ack = store.write(
        batch(&[DAY_US, DAY_US + 1], &[], None),
        WriteConcern::JOURNALED,
    );
    ack.expect("taken");
    store.seal().expect("seals");
    store
        .detach_partitions(&events(), (DAY_US, 2 * DAY_US), false)
        .expect("detaches");
    with_parts(&store, 1);
    let uses = disk_use(&store.snapshot());
    let of = |kind: &str| {
        let rows: Vec<_> = uses.iter().filter(|u| u.kind == kind).collect();
        rows.iter()
            .fold((0, 0), |sums, u| (sums.0 + u.files, sums.1 + u.bytes))
    };
    assert_eq!(of("parts").0, 4);
    assert_eq!(of("detached").0, 2, "a part and its card");
    let detached = uses.iter().find(|u| u.kind == "detached").expect("a row");
    assert_eq!(
        (detached.stream.clone(), detached.partition_us),
        (Some(events()), Some(DAY_US))
    );
    let on_disk = bytes_below(dir.path());
    let told: u64 = uses.iter().map(|u| u.bytes).sum();
    // The rest is the lock and the writer's name.
    let rest = on_disk - told;
    assert!(rest < 200, "{told} of {on_disk}: {uses:?}");
    assert!(of("journal").0 >= 1 && of("manifest").0 == 1 && of("maintenance").0 == 1);
}

fn bytes_below(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).expect("a directory");
    let bytes = entries.map(|entry| {
        let entry = entry.expect("an entry");
        match entry.metadata().expect("its length") {
            meta if meta.is_dir() => bytes_below(&entry.path()),
            meta => meta.len(),
        }
    });
    bytes.sum()
}
