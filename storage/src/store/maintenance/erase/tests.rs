//! Erasures of a store on a real disk: events that the rollups cannot stop counting, the journal,
//! indexes, and what is recorded. The model has the rest.

use super::*;
use crate::check::check;
use crate::concern::WriteConcern;
use crate::index::IndexKind;
use crate::store::Store;
use crate::store::model::listing::Listing;
use crate::testing::{FaultFs, batch, options};

const DAY_US: i64 = 86_400_000_000;

fn open(data: &std::path::Path) -> Store {
    let mut options = options(&FaultFs::default());
    options.config.tends = false;
    options.config.index_rows_min = 1;
    options.rollup_hook = Arc::new(Listing);
    Store::open(data, options).expect("opens")
}

fn stream() -> Name {
    Name::new("events").expect("a name")
}

/// Writes events of these times, and returns their first sequence number.
fn write(store: &Store, times: &[i64]) -> u64 {
    let batch = batch(times, &[], None);
    let ack = store.write(batch, WriteConcern::ACKNOWLEDGED);
    ack.expect("taken").first_seq.expect("events")
}

/// Returns the sequence numbers of all live rows of the stream, rising.
fn rows(store: &Store) -> Vec<u64> {
    let snapshot = store.snapshot();
    let mut all = Vec::new();
    for part in snapshot.manifest().parts_of(&stream()) {
        read_column(&snapshot, part, SEQ, &mut |_, seqs| {
            let seqs = seqs.expect("a column").as_primitive::<UInt64Type>();
            all.extend(seqs.values().iter().copied());
            Ok(())
        })
        .expect("read");
    }
    all.sort_unstable();
    all
}

fn counted(store: &Store) -> u64 {
    store
        .snapshot()
        .manifest()
        .tiles
        .iter()
        .map(|t| t.events)
        .sum()
}

#[test]
fn events_whose_days_lack_raw_events_are_erased_and_stay_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    let first = write(&store, &[1, DAY_US + 1, DAY_US + 2]);
    store.seal().expect("seals");
    store
        .drop_partitions(&stream(), (0, DAY_US), false)
        .expect("drops");
    let dry = store
        .erase(&stream(), vec![first + 1], true)
        .expect("counts");
    assert_eq!(rows(&store), [first + 1, first + 2]);
    let report = store.erase(&stream(), vec![first, first + 1], false);
    let report = report.expect("erases");
    // The dropped event is in no part, so it is not erased again.
    let expected = EraseReport {
        events: 1,
        still_counted: 1,
        parts: 1,
        rollups: 0,
        detached: 0,
    };
    assert_eq!((&report, &dry), (&expected, &expected));
    assert_eq!((rows(&store), counted(&store)), (vec![first + 2], 3));
    let meta = store.snapshot().manifest().streams[&stream()].clone();
    assert_eq!(meta.dropped_events(), 2);
    assert_eq!(meta.erased_events(), 0);
    store.close().expect("closes");
    let report = check(&open(dir.path()).snapshot());
    assert!(report.damage.is_empty(), "{report:?}");
}

#[test]
fn a_part_of_which_nothing_stays_is_gone_and_the_record_tells_when_and_how_much() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    let first = write(&store, &[1, 2, DAY_US + 1]);
    let report = store.erase(&stream(), vec![first, first + 1], false);
    let report = report.expect("erases");
    assert_eq!((report.events, report.parts, report.rollups), (2, 1, 1));
    assert_eq!((rows(&store), counted(&store)), (vec![first + 2], 1));
    assert_eq!(store.snapshot().manifest().parts.len(), 1);
    // The same again finds nothing, and adds no record.
    let again = store.erase(&stream(), vec![first, first + 1], false);
    assert_eq!(again.expect("erases").events, 0);
    let meta = store.snapshot().manifest().streams[&stream()].clone();
    let [erasure] = meta.erasures[..] else {
        panic!("{:?}", meta.erasures);
    };
    assert_eq!((erasure.events, erasure.still_counted), (2, 0));
    assert_eq!((meta.sealed_events, meta.erased_events()), (1, 2));
    // The store goes on: a new event of the day is counted beside what remained.
    write(&store, &[3]);
    store.seal().expect("seals");
    assert_eq!((rows(&store).len(), counted(&store)), (2, 2));
    store.close().expect("closes");
    let store = open(dir.path());
    let meta = store.snapshot().manifest().streams[&stream()].clone();
    assert_eq!(meta.erasures, [erasure]);
}

#[test]
fn the_journal_and_the_indexes_lose_the_events_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path());
    let first = write(&store, &[1, 2, 3]);
    store.seal().expect("seals");
    store
        .create_index(&stream(), "n", IndexKind::Covering)
        .expect("created");
    store.build_indexes().expect("built");
    let files = |folder: &str| -> Vec<std::path::PathBuf> {
        let mut all = Vec::new();
        let mut folders = vec![dir.path().join(folder)];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten() {
                let path = entry.expect("an entry").path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => all.push(path),
                }
            }
        }
        all
    };
    let (indexes, segments) = (files("indexes"), files("journal"));
    assert!(
        indexes
            .iter()
            .any(|p| p.extension() == Some("rows".as_ref()))
    );
    store.erase(&stream(), vec![first], false).expect("erases");
    let left: Vec<_> = segments.iter().filter(|p| p.exists()).collect();
    assert!(left.is_empty(), "{left:?}");
    let rows = |p: &&std::path::PathBuf| p.extension() == Some("rows".as_ref()) && p.exists();
    assert_eq!(indexes.iter().filter(rows).count(), 0);
    // An idle store has an empty segment again, and takes the next batch.
    write(&store, &[4]);
    store.close().expect("closes");
    assert_eq!(rows_of_reopened(dir.path()), 3);
}

fn rows_of_reopened(data: &std::path::Path) -> usize {
    rows(&open(data)).len()
}
