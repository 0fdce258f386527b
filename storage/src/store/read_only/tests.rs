//! A store opened for reading only: everything is visible, nothing is written.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;

use super::*;
use crate::concern::WriteConcern;
use crate::env::RealFs;
use crate::model::Name;
use crate::testing::{FaultFs, Op, batch, options};

/// Returns every file below a directory with its contents.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let bytes = std::fs::read(&path).expect("read");
            found.insert(path, bytes);
        }
    }
    found
}

fn refused<T>(outcome: Result<T>) -> bool {
    matches!(outcome, Err(Error::ReadOnly { .. }))
}

#[test]
fn a_store_that_is_only_read_shows_everything_and_writes_nothing() {
    // The store was left by a killed server or by one that was stopped; the disk is full or
    // cannot be written.
    for (stops, error) in [
        (false, ErrorKind::StorageFull),
        (true, ErrorKind::ReadOnlyFilesystem),
        (true, ErrorKind::PermissionDenied),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path(), Options::default()).expect("opens");
        let write = |times: &[i64]| {
            let ack = store.write(batch(times, &[0], None), WriteConcern::JOURNALED);
            ack.expect("taken")
        };
        write(&[1, 2]);
        store.seal().expect("seals");
        write(&[3]);
        if stops {
            store.close().expect("closes");
        } else {
            drop(store);
        }
        let before = files(dir.path());
        let fs = FaultFs::default();
        for op in [Op::Write, Op::Create, Op::Rename, Op::Sync, Op::SyncDir] {
            fs.fail(op, "", error, usize::MAX);
        }
        let store = Store::open_read_only(dir.path(), options(&fs)).expect("opens");
        let snapshot = store.snapshot();
        let name = Name::new("events").expect("a name");
        let sealed: u64 = snapshot.manifest().parts_of(&name).map(|p| p.rows).sum();
        let memory = snapshot.chunks("events").iter();
        let all = sealed + memory.map(|c| c.events.num_rows() as u64).sum::<u64>();
        assert_eq!(all, 3);
        assert_eq!(crate::check(&snapshot).damage, []);
        let range = (0, i64::MAX);
        assert!(refused(
            store.write(batch(&[9], &[], None), WriteConcern::ACKNOWLEDGED)
        ));
        assert!(refused(store.seal()));
        assert!(refused(store.drop_partitions(&name, range, false)));
        assert!(refused(store.detach_partitions(&name, range, false)));
        assert!(refused(store.attach_partitions(&name, range)));
        assert!(refused(store.retain(None, false)));
        assert!(refused(store.drop_settled()));
        assert!(refused(store.compact_tiles(true)));
        assert!(refused(store.compact_parts(None, true)));
        assert!(refused(store.build_indexes()));
        assert!(refused(store.retain_levels()));
        assert!(refused(store.rebuild(&name, range)));
        assert!(store.status().read_only);
        store
            .announce("http://127.0.0.1:1", "secret")
            .expect("nothing to announce");
        store.close().expect("nothing to close");
        assert!(
            files(dir.path()) == before,
            "{error:?}: nothing has changed"
        );
    }
}

#[test]
fn a_store_that_a_writer_has_is_read_as_it_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let writer = Store::open(dir.path(), Options::default()).expect("opens");
    let write = |n| {
        let ack = writer.write(batch(&[n], &[], None), WriteConcern::JOURNALED);
        ack.expect("taken")
    };
    write(1);
    let store = Store::open_read_only(dir.path(), Options::default()).expect("opens");
    write(2);
    writer.seal().expect("seals");
    let rows: usize = {
        let snapshot = store.snapshot();
        let memory = snapshot.chunks("events").iter();
        memory.map(|c| c.events.num_rows()).sum()
    };
    assert_eq!(rows, 1);
    let missing = tempfile::tempdir().expect("a directory");
    let error = Store::open_read_only(missing.path(), Options::default()).expect_err("none");
    assert!(matches!(error, Error::NotAStore { .. }), "{error}");
    assert!(
        crate::env::Fs::list(&RealFs, missing.path())
            .expect("listed")
            .is_empty()
    );
}
