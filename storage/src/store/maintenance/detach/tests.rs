//! Detaching and attaching on a real disk: the refusals and their messages.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::*;
use crate::check::check;
use crate::concern::WriteConcern;
use crate::read_only_store::ReadOnlyStore;
use crate::repair::repair;
use crate::store::Store;
use crate::testing::{FaultFs, Op, batch, options};

const DAY_US: i64 = 86_400_000_000;
const FIRST: (i64, i64) = (0, DAY_US);

fn events() -> Name {
    Name::new("events").expect("a name")
}

/// Opens a store with two events on the first day and one on the second. Returns it with its
/// disk.
fn store() -> (tempfile::TempDir, FaultFs, Store) {
    let dir = tempfile::tempdir().expect("a directory");
    let fs = FaultFs::default();
    let store = Store::open(dir.path(), options(&fs)).expect("opens");
    write(&store, &[1, 2, DAY_US]);
    (dir, fs, store)
}

fn write(store: &Store, times: &[i64]) {
    let ack = store.write(batch(times, &[], None), WriteConcern::ACKNOWLEDGED);
    ack.expect("taken");
}

fn rows(store: &Store) -> u64 {
    let snapshot = store.snapshot();
    let parts = snapshot.manifest().parts.iter().map(|p| p.rows);
    let chunks = snapshot.chunks("events").iter();
    parts.sum::<u64>() + chunks.map(|c| c.events.num_rows() as u64).sum::<u64>()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<PathBuf> = listed.map(|e| e.expect("listed").path()).collect();
    files.sort();
    files
}

#[track_caller]
fn refused(outcome: Result<PartitionReport>, words: &str) {
    match outcome {
        Err(Error::Invalid { what } | Error::Missing { what }) => {
            assert!(what.contains(words), "{what}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_detached_day_comes_back_once_and_what_came_meanwhile_stays() {
    let (dir, fs, store) = store();
    let folder = dir.path().join("detached/events/date=1970-01-01");
    let would = store.detach_partitions(&events(), FIRST, true);
    assert_eq!((rows(&store), folder.exists()), (3, false), "a dry run");
    let did = store.detach_partitions(&events(), FIRST, false);
    let did = did.expect("detaches");
    assert_eq!(would.expect("says"), did);
    assert_eq!((did.partitions, did.parts, did.events), (1, 1, 2));
    assert_eq!((rows(&store), files(&folder).len()), (1, 2));
    refused(
        store.detach_partitions(&events(), FIRST, false),
        "date=1970-01-01 is already detached",
    );
    write(&store, &[3]);
    refused(
        store.detach_partitions(&events(), FIRST, false),
        "is already detached, and 1 events have arrived for it since; attach it first",
    );
    let manifest = Arc::clone(store.snapshot().manifest());
    assert_eq!(manifest.complete_from(&events(), 0), Some(3));
    assert_eq!(manifest.complete_from(&events(), DAY_US), None);
    store.close().expect("closes");
    let store = Store::open(dir.path(), options(&fs)).expect("opens");
    assert_eq!(rows(&store), 2);
    let back = store.attach_partitions(&events(), FIRST).expect("attaches");
    assert_eq!(back, did);
    assert_eq!((rows(&store), folder.exists()), (4, false));
    let manifest = Arc::clone(store.snapshot().manifest());
    assert_eq!(manifest.complete_from(&events(), 0), None);
    refused(
        store.attach_partitions(&events(), FIRST),
        "no partition of events in this range is detached",
    );
    // The same again, with a reader that still holds the folder's files.
    let again = store.detach_partitions(&events(), FIRST, false);
    assert_eq!(again.expect("detaches").events, 3);
    let reading = store.snapshot();
    store.attach_partitions(&events(), FIRST).expect("attaches");
    let again = store.detach_partitions(&events(), FIRST, false);
    assert_eq!(again.expect("detaches").events, 3);
    assert_eq!(check(&reading).damage.len(), 1, "its card alone is another");
    drop(reading);
    store.attach_partitions(&events(), FIRST).expect("attaches");
    assert_eq!(rows(&store), 4);
    let nowhere = Name::new("nowhere").expect("a name");
    for outcome in [
        store.detach_partitions(&nowhere, FIRST, false),
        store.attach_partitions(&nowhere, FIRST),
    ] {
        assert!(matches!(outcome, Err(Error::Missing { .. })), "{outcome:?}");
    }
}

#[test]
fn a_folder_that_is_away_or_damaged_is_named_and_can_be_given_up() {
    let (dir, fs, store) = store();
    store
        .detach_partitions(&events(), FIRST, false)
        .expect("detaches");
    let folder = dir.path().join("detached/events/date=1970-01-01");
    let elsewhere = dir.path().join("elsewhere");
    let part = files(&folder).remove(0);
    let checked = || {
        let reader = ReadOnlyStore::open(Arc::new(crate::env::RealFs), dir.path()).expect("opens");
        check(&reader.snapshot())
    };
    assert_eq!((checked().damage.len(), checked().away.len()), (0, 0));
    std::fs::rename(&folder, &elsewhere).expect("moved");
    refused(
        store.attach_partitions(&events(), FIRST),
        &format!(
            "{}: the file is missing; restore the folder, or drop the partition with `logmill partition drop events DATE`",
            part.display()
        ),
    );
    assert_eq!(
        (checked().damage.len(), checked().away),
        (0, vec![folder.clone()])
    );
    std::fs::rename(&elsewhere, &folder).expect("moved");
    let whole = std::fs::read(&part).expect("read");
    // The live file is another name of the same bytes while it is pending.
    store.seal().expect("seals");
    for (damaged, words) in [
        (
            whole[..whole.len() - 1].to_vec(),
            "bytes long, the manifest says",
        ),
        (
            [&whole[..9], b"?", &whole[10..]].concat(),
            "checksum differs",
        ),
    ] {
        std::fs::remove_file(&part).expect("removed");
        std::fs::write(&part, damaged).expect("written");
        refused(store.attach_partitions(&events(), FIRST), words);
        assert_eq!(checked().damage[0].0, part);
    }
    assert_eq!(rows(&store), 1, "nothing came back");
    store.close().expect("closes");
    let repaired = repair(dir.path(), &options(&fs)).expect("repairs");
    assert!(repaired.findings.is_empty(), "{:?}", repaired.findings);
    let store = Store::open(dir.path(), options(&fs)).expect("opens");
    let given_up = store.drop_partitions(&events(), FIRST, false);
    assert_eq!(given_up.expect("drops").events, 2);
    assert!(!folder.exists());
    let snapshot = store.snapshot();
    assert_eq!(snapshot.streams()["events"].dropped_events(), 2);
    assert_eq!(snapshot.manifest().detached, []);
    refused(
        store.attach_partitions(&events(), FIRST),
        "no partition of events in this range is detached",
    );
}

#[test]
fn where_the_disk_cannot_link_it_copies() {
    let (dir, fs, store) = store();
    store.seal().expect("seals");
    let reading = store.snapshot();
    let live = dir.path().join(&reading.manifest().parts[0].file.path);
    fs.fail(Op::Link, "detached/", ErrorKind::Unsupported, 1);
    store
        .detach_partitions(&events(), FIRST, false)
        .expect("detaches");
    let folder = dir.path().join("detached/events/date=1970-01-01");
    let copy = files(&folder).remove(0);
    let inode = |path: &Path| std::fs::metadata(path).expect("is there").ino();
    assert_ne!(inode(&copy), inode(&live), "two files");
    store.attach_partitions(&events(), FIRST).expect("attaches");
    assert_eq!(rows(&store), 3);
}

#[test]
fn what_a_crash_left_of_a_detachment_goes_to_the_trash_and_a_strangers_folder_stays() {
    let (dir, fs, store) = store();
    store.seal().expect("seals");
    let part = store.snapshot().manifest().parts[0].file.path.clone();
    drop(store);
    let folder = dir.path().join("detached/events/date=1970-01-01");
    let strange = dir.path().join("detached/other/date=1970-01-01");
    for folder in [&folder, &strange] {
        std::fs::create_dir_all(folder).expect("made");
        std::fs::write(folder.join("partition.json"), "{}").expect("written");
    }
    let twin = dir.path().join(detached::place(&part));
    std::fs::hard_link(dir.path().join(&part), &twin).expect("linked");
    let store = Store::open(dir.path(), options(&fs)).expect("opens");
    assert_eq!((files(&folder).len(), files(&strange).len()), (0, 1));
    assert_eq!(files(&dir.path().join("trash")).len(), 2);
    let did = store.detach_partitions(&events(), FIRST, false);
    assert_eq!(did.expect("detaches").events, 2);
}
