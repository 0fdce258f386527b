//! Indexes during the life of a store.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;

use crate::concern::WriteConcern;
use crate::disk::disk_use;
use crate::env::RealFs;
use crate::index::{CoveringIndex, IndexKind, IndexValue, IndexedRows, PartIndex, index_use};
use crate::job_log::Job;
use crate::model::Name;
use crate::part::read_part;
use crate::read_only_store::ReadOnlyStore;
use crate::store::{Options, Store, StreamConfig};
use crate::testing::{FaultFs, Op, batch, options};

const DAY_US: i64 = 86_400_000_000;

fn events() -> Name {
    Name::new("events").expect("a name")
}

fn quiet_options(fs: &FaultFs) -> Options {
    let mut options = options(fs);
    options.config.index_rows_min = 3;
    options.config.tends = false;
    options
}

fn open(dir: &Path) -> Store {
    Store::open(dir, quiet_options(&FaultFs::default())).expect("opens")
}

/// Writes and seals one part of a hundred rows for each of these days.
fn seal(store: &Store, days: std::ops::Range<i64>) {
    let times: Vec<i64> = days
        .flat_map(|day| (0..100).map(move |n| day * DAY_US + n))
        .collect();
    let ack = store.write(batch(&times, &[], None), WriteConcern::ACKNOWLEDGED);
    ack.expect("taken");
    store.seal().expect("seals");
}

/// Returns (parts, indexed parts) of the one index.
fn counts(store: &Store) -> (u64, u64) {
    let found = index_use(&store.snapshot());
    let [one] = &found[..] else {
        panic!("{found:?}");
    };
    (one.parts, one.parts_indexed)
}

fn index_files(dir: &Path) -> usize {
    let fs = RealFs;
    crate::index::files(&fs, dir).expect("listed").len()
}

/// Checks that the index of each part finds a row of `host1`.
fn is_right(store: &Store) -> bool {
    let snapshot = store.snapshot();
    let parts = snapshot.manifest().parts.iter();
    parts.clone().all(|part| {
        let index = PartIndex::open(&snapshot, part, "host").expect("sound");
        let rows = index
            .expect("there")
            .rows(&snapshot, &[IndexValue::Text("host1".into())]);
        matches!(rows, Ok(Some(IndexedRows::These(rows))) if !rows.is_empty())
    })
}

#[test]
fn an_index_follows_its_parts_and_outlives_a_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    seal(&store, 0..3);
    assert!(
        store
            .create_index(&events(), "host", IndexKind::Inverted)
            .expect("suits")
    );
    assert!(
        !store
            .create_index(&events(), "host", IndexKind::Inverted)
            .expect("known")
    );
    assert_eq!(counts(&store), (3, 0));
    let report = store.build_indexes().expect("builds");
    assert_eq!((report.parts, report.rows), (3, 300));
    assert_eq!(counts(&store), (3, 3));
    assert!(is_right(&store));
    let told = store.maintenance().entries();
    let told = told
        .iter()
        .find(|e| e.job == Job::BuildIndex)
        .expect("told");
    assert_eq!(told.said.done, Some(3));
    let disk = disk_use(&store.snapshot());
    let disk = disk.iter().find(|u| u.kind == "indexes").expect("counted");
    assert_eq!(disk.files, 4, "with the list of those that are wanted");
    // More parts are added, and a merge replaces them by fewer.
    seal(&store, 0..2);
    assert_eq!(counts(&store), (5, 3));
    store.close().expect("closes");
    let store = open(dir.path());
    assert_eq!(store.build_indexes().expect("builds").parts, 2);
    store.compact_parts(None, true).expect("compacts");
    assert_eq!(counts(&store), (3, 1));
    let report = store.build_indexes().expect("builds");
    assert_eq!((report.parts, report.removed), (2, 4));
    assert_eq!((counts(&store), index_files(dir.path())), ((3, 3), 3));
    assert!(is_right(&store));
    // The index of a dropped partition is removed with it.
    let dropped = store.drop_partitions(&events(), (0, DAY_US), false);
    dropped.expect("drops");
    assert_eq!(store.build_indexes().expect("builds").removed, 1);
    // Other processes read which indexes are wanted.
    let reader = ReadOnlyStore::open(Arc::new(RealFs), dir.path()).expect("a reader");
    assert_eq!(index_use(&reader.snapshot()).len(), 1);
    store.drop_index(&events(), "host").expect("there");
    assert_eq!(index_files(dir.path()), 0);
    assert!(index_use(&store.snapshot()).is_empty());
    let gone = store
        .drop_index(&events(), "host")
        .expect_err("gone")
        .to_string();
    assert!(gone.contains("no index on \"host\" of events"), "{gone}");
}

#[test]
fn a_covering_index_follows_its_parts_and_is_the_only_one_of_its_column() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    seal(&store, 0..2);
    let create = |store: &Store, kind| store.create_index(&events(), "host", kind);
    assert!(create(&store, IndexKind::Covering).expect("suits"));
    assert!(!create(&store, IndexKind::Covering).expect("known"));
    let refused = create(&store, IndexKind::Inverted).expect_err("there is one");
    assert!(
        refused.to_string().contains("is covering; drop it first"),
        "{refused}"
    );
    assert_eq!(store.build_indexes().expect("builds").parts, 2);
    assert_eq!((counts(&store), index_files(dir.path())), ((2, 2), 4));
    store.close().expect("closes");
    // A killed build has left this file.
    let left = dir.path().join("indexes/.making/7.tmp");
    std::fs::write(&left, "half").expect("written");
    let store = open(dir.path());
    seal(&store, 1..3);
    let report = store.build_indexes().expect("builds");
    assert_eq!((report.parts, report.removed), (2, 0));
    assert!(!left.exists());
    store.compact_parts(None, true).expect("compacts");
    let report = store.build_indexes().expect("builds");
    assert_eq!((report.parts, report.removed), (1, 4));
    assert_eq!((counts(&store), index_files(dir.path())), ((3, 3), 6));
    let snapshot = store.snapshot();
    let open = |part| CoveringIndex::open(&snapshot, part, "host").expect("sound");
    assert!(
        snapshot
            .manifest()
            .parts
            .iter()
            .all(|part| open(part).is_some())
    );
    store.drop_index(&events(), "host").expect("there");
    assert_eq!(index_files(dir.path()), 0);
    assert!(create(&store, IndexKind::Inverted).expect("suits"));
}

#[test]
fn what_cannot_be_indexed_is_refused_with_its_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    seal(&store, 0..1);
    for (stream, field, why) in [
        ("nobody", "host", "no stream nobody"),
        ("events", "nothing", "no such column"),
        ("events", "time", "already sorted by this column"),
        (
            "events",
            "_seq",
            "differs from the values that queries read",
        ),
        ("_quarantine", "raw", "no stream _quarantine"),
    ] {
        let stream = Name::new(stream).expect("a name");
        let error = store
            .create_index(&stream, field, IndexKind::Inverted)
            .expect_err("refused");
        assert!(error.to_string().contains(why), "{error}");
    }
    assert!(index_use(&store.snapshot()).is_empty());
}

#[test]
fn an_index_is_wanted_before_its_column_is_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    let want = |field: &str| store.want_index(&events(), field, IndexKind::Inverted);
    assert!(want("host").expect("no stream yet"));
    assert_eq!(counts(&store), (0, 0));
    seal(&store, 0..2);
    assert_eq!(counts(&store), (2, 0));
    assert_eq!(store.build_indexes().expect("builds").parts, 2);
    assert!(is_right(&store));
    assert!(!want("host").expect("known"));
    // A document may bring a column; the store's own are none to index.
    assert!(want("later").expect("not there yet"));
    assert_eq!(store.build_indexes().expect("nothing to do").parts, 0);
    for own in ["_id", "_rest", "_seq", "time"] {
        let refused = want(own).expect_err("its own").to_string();
        assert!(refused.contains("cannot be indexed"), "{refused}");
    }
    store.drop_index(&events(), "later").expect("wanted");
}

#[test]
fn the_configuration_adds_indexes_and_keeps_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let configured = || {
        let mut options = quiet_options(&FaultFs::default());
        let stream = StreamConfig {
            indexes: vec!["n".into()],
            ..StreamConfig::default()
        };
        options.config.streams.insert(events(), stream);
        Store::open(dir.path(), options).expect("opens")
    };
    let store = configured();
    assert_eq!(store.build_indexes().expect("nothing to do").parts, 0);
    seal(&store, 0..1);
    assert_eq!(store.build_indexes().expect("builds").parts, 1);
    let refused = store.drop_index(&events(), "n").expect_err("configured");
    assert!(refused.to_string().contains("[stream.events] indexes"));
    store.close().expect("closes");
    let store = open(dir.path());
    assert_eq!(counts(&store), (1, 1));
    store
        .drop_index(&events(), "n")
        .expect("no longer configured");
}

#[test]
fn the_configuration_says_of_what_kind_an_index_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    seal(&store, 0..1);
    let created = store.create_index(&events(), "host", IndexKind::Inverted);
    assert!(created.expect("suits"));
    assert_eq!(store.build_indexes().expect("builds").parts, 1);
    store.close().expect("closes");
    let mut options = quiet_options(&FaultFs::default());
    let stream = StreamConfig {
        covering: vec!["host".into()],
        ..StreamConfig::default()
    };
    options.config.streams.insert(events(), stream);
    let store = Store::open(dir.path(), options).expect("opens");
    let report = store.build_indexes().expect("builds");
    assert_eq!((report.parts, report.removed), (1, 1));
    let found = index_use(&store.snapshot());
    assert_eq!((found.len(), found[0].name.kind), (1, IndexKind::Covering));
    assert_eq!(index_files(dir.path()), 2);
}

#[test]
fn small_parts_have_no_index() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    for times in [&[1, 2][..], &[3, 4, 5]] {
        let ack = store.write(batch(times, &[], None), WriteConcern::ACKNOWLEDGED);
        ack.expect("taken");
        store.seal().expect("seals");
    }
    store
        .create_index(&events(), "host", IndexKind::Inverted)
        .expect("suits");
    assert_eq!(store.build_indexes().expect("builds").parts, 1);
    assert_eq!(counts(&store), (2, 1));
}

#[test]
fn what_was_damaged_or_lost_is_made_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    seal(&store, 0..4);
    store
        .create_index(&events(), "host", IndexKind::Inverted)
        .expect("suits");
    store.build_indexes().expect("builds");
    store.close().expect("closes");
    let files = crate::index::files(&RealFs, dir.path()).expect("listed");
    let path = |nth: usize| dir.path().join(files.iter().nth(nth).expect("four"));
    std::fs::write(path(0), b"").expect("written");
    std::fs::remove_file(path(1)).expect("removed");
    let len = std::fs::metadata(path(2)).expect("there").len();
    let cut = std::fs::OpenOptions::new().write(true).open(path(2));
    cut.and_then(|f| f.set_len(len - 1)).expect("cut");
    let store = open(dir.path());
    let report = store.build_indexes().expect("builds");
    assert_eq!((report.parts, report.removed), (3, 2));
    assert!(is_right(&store));
    // The whole folder is lost, with the list of wanted indexes.
    store.close().expect("closes");
    std::fs::remove_dir_all(dir.path().join("indexes")).expect("removed");
    let store = open(dir.path());
    assert_eq!(store.build_indexes().expect("nothing").parts, 0);
    assert!(
        store
            .create_index(&events(), "host", IndexKind::Inverted)
            .expect("anew")
    );
    assert_eq!(store.build_indexes().expect("builds").parts, 4);
    // The folder is removed while the store is open.
    std::fs::remove_dir_all(dir.path().join("indexes")).expect("removed");
    assert_eq!(store.build_indexes().expect("builds").parts, 4);
}

#[test]
fn a_disk_that_fails_leaves_no_half_of_an_index() {
    let dir = tempfile::tempdir().expect("a directory");
    let fs = FaultFs::default();
    let store = Store::open(dir.path(), quiet_options(&fs)).expect("opens");
    seal(&store, 0..3);
    store
        .create_index(&events(), "host", IndexKind::Inverted)
        .expect("suits");
    fs.fail(Op::Write, ".index", std::io::ErrorKind::StorageFull, 1);
    store.build_indexes().expect_err("the disk is full");
    assert_eq!(index_files(dir.path()), 0);
    fs.mend();
    assert_eq!(store.build_indexes().expect("builds").parts, 3);
    // A damaged part gets no index, the others do.
    let snapshot = store.snapshot();
    seal(&store, 3..4);
    let part = store
        .snapshot()
        .manifest()
        .parts
        .last()
        .expect("parts")
        .clone();
    drop(snapshot);
    let path = dir.path().join(&part.file.path);
    let mut bytes = std::fs::read(&path).expect("there");
    bytes[10] ^= 1;
    std::fs::write(&path, bytes).expect("written");
    store.build_indexes().expect_err("a part is damaged");
    assert_eq!(store.build_indexes().expect("it is left alone").parts, 0);
    assert_eq!(counts(&store), (4, 3));
}

#[test]
fn a_covering_index_of_rows_that_do_not_fit_into_memory_together_has_them_all_in_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    let mut long = batch(&(0..7).collect::<Vec<i64>>(), &[], None);
    // The later the row, the earlier its host.
    let hosts = (0..7).rev().map(|n| format!("{n}{}", "h".repeat(20 << 20)));
    let mut columns = long.events.columns().to_vec();
    columns[1] = Arc::new(StringArray::from_iter_values(hosts));
    long.events = RecordBatch::try_new(long.events.schema(), columns).expect("they fit");
    let ack = store.write(long, WriteConcern::ACKNOWLEDGED);
    assert_eq!(ack.expect("taken").accepted, 7);
    store.seal().expect("seals");
    let created = store.create_index(&events(), "host", IndexKind::Covering);
    created.expect("suits");
    assert_eq!(store.build_indexes().expect("builds").rows, 7);
    let snapshot = store.snapshot();
    let index = CoveringIndex::open(&snapshot, &snapshot.manifest().parts[0], "host");
    let index = index.expect("sound").expect("there");
    let bytes = std::fs::read(dir.path().join(&index.file().path)).expect("it is there");
    let rows = read_part(bytes.into(), Some(&["n"])).expect("a part");
    let numbers = rows.iter().flat_map(|rows| {
        let n = rows["n"].as_primitive::<Int64Type>();
        n.values().to_vec()
    });
    assert_eq!(numbers.collect::<Vec<_>>(), [6, 5, 4, 3, 2, 1, 0]);
}

#[test]
fn a_disk_that_fails_leaves_no_half_of_a_covering_index() {
    let dir = tempfile::tempdir().expect("a directory");
    let fs = FaultFs::default();
    let store = Store::open(dir.path(), quiet_options(&fs)).expect("opens");
    seal(&store, 0..1);
    let created = store.create_index(&events(), "host", IndexKind::Covering);
    created.expect("suits");
    let open = || {
        let snapshot = store.snapshot();
        CoveringIndex::open(&snapshot, &snapshot.manifest().parts[0], "host")
    };
    for (op, what) in [
        (Op::Write, ".making/0"),
        (Op::Write, ".making/rows"),
        (Op::Write, ".covering"),
        (Op::Rename, ".making/rows"),
        (Op::Rename, "rows"),
        (Op::Rename, ".covering"),
    ] {
        fs.fail(op, what, std::io::ErrorKind::StorageFull, 1);
        store.build_indexes().expect_err(what);
        assert!(open().expect("none is none").is_none(), "{what}");
        fs.mend();
    }
    assert_eq!(store.build_indexes().expect("builds").parts, 1);
    assert!(open().expect("sound").is_some());
    assert_eq!(index_files(dir.path()), 2);
}
