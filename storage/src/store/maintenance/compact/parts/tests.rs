//! Merges of parts: the merged files hold the same rows, also with damaged parts, and with drops
//! and a close meanwhile.

use super::*;
use crate::check::check;
use crate::concern::WriteConcern;
use crate::part;
use crate::store::Store;
use crate::testing::{FaultFs, batch, options};

fn write(store: &Store, times: &[i64]) {
    let batch = batch(times, &[], None);
    store
        .write(batch, WriteConcern::ACKNOWLEDGED)
        .expect("taken");
}

/// Opens a store with this many parts in one partition.
fn store_of(fs: &FaultFs, data: &std::path::Path, parts: i64) -> Store {
    let mut options = options(fs);
    options.config.tends = false;
    let store = Store::open(data, options).expect("opens");
    for nth in 0..parts {
        write(&store, &[nth, nth + 100, nth + 50]);
        store.seal().expect("seals");
    }
    store
}

fn parts_of(store: &Store) -> Vec<PartMeta> {
    store.snapshot().manifest().parts.clone()
}

#[test]
fn a_snapshot_keeps_what_was_merged_and_the_disk_gets_it_back_afterwards() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = store_of(&FaultFs::default(), dir.path(), 3);
    let before = store.snapshot();
    let report = store.compact_parts(None, true).expect("compacts");
    assert_eq!(
        (report.merged, report.into, report.rows, report.edits),
        (3, 1, 9, 1)
    );
    assert_eq!(parts_of(&store)[0].rows, 9);
    let old: Vec<_> = before
        .manifest()
        .parts
        .iter()
        .map(|p| dir.path().join(&p.file.path))
        .collect();
    assert!(old.iter().all(|path| path.exists()));
    assert!(check(&before).damage.is_empty());
    drop(before);
    write(&store, &[1]);
    store.seal().expect("seals");
    assert!(old.iter().all(|path| !path.exists()));
    assert!(check(&store.snapshot()).damage.is_empty());
    assert_eq!(
        store.compact_parts(None, false).expect("nothing"),
        PartsReport::default()
    );
}

#[test]
fn only_the_stream_that_is_asked_for_is_compacted() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = store_of(&FaultFs::default(), dir.path(), 2);
    let other = Name::new("other").expect("a name");
    let none = store.compact_parts(Some(&other), true).expect("nothing");
    assert_eq!((none.merged, parts_of(&store).len()), (0, 2));
    let events = Name::new("events").expect("a name");
    let some = store.compact_parts(Some(&events), true).expect("compacts");
    assert_eq!((some.merged, parts_of(&store).len()), (2, 1));
}

#[test]
fn a_damaged_part_is_left_alone_and_the_others_are_merged() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = store_of(&FaultFs::default(), dir.path(), 4);
    let damaged = parts_of(&store)[1].file.path.clone();
    let path = dir.path().join(&damaged);
    let mut bytes = std::fs::read(&path).expect("read");
    bytes[50] ^= 1;
    std::fs::write(&path, &bytes).expect("damaged");
    let error = store
        .compact_parts(None, true)
        .expect_err("one cannot be read");
    assert!(
        matches!(&error, Error::Corrupt { path: found, .. } if *found == path),
        "{error}"
    );
    let parts = parts_of(&store);
    assert_eq!(parts.len(), 2);
    assert!(parts.iter().any(|p| p.file.path == damaged) && parts.iter().any(|p| p.rows == 9));
    let folder = std::fs::read_dir(path.parent().expect("a folder")).expect("listed");
    let names: Vec<_> = folder.map(|f| f.expect("a file").file_name()).collect();
    assert!(
        names.iter().all(|n| !n.to_string_lossy().ends_with(".tmp")),
        "{names:?}"
    );
}

#[test]
fn what_is_dropped_during_a_merge_stays_dropped() {
    let (dir, fs) = (
        tempfile::tempdir().expect("a directory"),
        FaultFs::default(),
    );
    let store = store_of(&fs, dir.path(), 3);
    let store = Arc::new(store);
    let (other, events) = (Arc::clone(&store), Name::new("events").expect("a name"));
    let drop = move || {
        let did = other
            .drop_partitions(&events, (0, 1), false)
            .expect("drops");
        assert_eq!(did.events, 9);
    };
    fs.before(crate::testing::Op::Rename, "parquet", drop);
    let report = store
        .compact_parts(None, true)
        .expect("nothing is left to merge");
    assert_eq!((report.merged, parts_of(&store).len()), (0, 0));
    let files = std::fs::read_dir(dir.path().join("streams/events/date=1970-01-01"));
    assert_eq!(files.expect("listed").count(), 0, "nothing is left behind");
}

#[test]
fn a_merge_ends_soon_when_the_store_closes() {
    let dir = tempfile::tempdir().expect("a directory");
    let fs = FaultFs::default();
    let store = store_of(&fs, dir.path(), 2);
    for _ in 0..2 {
        let times: Vec<i64> = (0..200_000).map(|t| t * 7 % 80_000_000).collect();
        write(&store, &times);
        store.seal().expect("seals");
    }
    let shared = Arc::clone(&store.shared);
    // The store closes when the merge has begun to write.
    let closing = Arc::clone(&store.shared);
    fs.before(crate::testing::Op::Create, "parquet", move || {
        closing.state.lock().closing = true;
        closing.sealing.notify_all();
    });
    fs.calls();
    let report = compact(&shared, None, &|_| true, Pace::Background).expect("no error");
    assert_eq!(report.merged, 0, "{report:?}");
    let calls = fs.calls();
    let has = |op| calls.iter().any(|(called, _)| *called == op);
    assert!(has(crate::testing::Op::Create), "{calls:?}");
    assert!(
        !has(crate::testing::Op::Rename),
        "it wrote all of it: {calls:?}"
    );
    assert!(check(&store.snapshot()).damage.is_empty());
}

#[test]
fn parts_that_are_not_in_order_are_sorted_and_merged() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = store_of(&FaultFs::default(), dir.path(), 0);
    // A seal sorts the last two representable moments as equal, by their sequence numbers.
    for _ in 0..2 {
        write(&store, &[i64::MAX, i64::MAX - 1, i64::MAX - 2]);
        store.seal().expect("seals");
    }
    let report = store.compact_parts(None, true).expect("compacts");
    assert_eq!((report.merged, report.into, report.rows), (4, 3, 12));
    let snapshot = store.snapshot();
    assert!(check(&snapshot).damage.is_empty());
    let parts = &snapshot.manifest().parts;
    assert_eq!(parts.len(), 1);
    let bytes = snapshot.read(&parts[0].file).expect("read");
    let batch = &part::read_part(bytes, None).expect("a part")[0];
    let times: &arrow::array::TimestampMicrosecondArray = crate::memtable::column(batch, "time");
    assert!(times.values().is_sorted(), "{times:?}");
}
