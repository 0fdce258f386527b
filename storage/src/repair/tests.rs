//! What is damaged is given up and named; everything else is there as before.

use super::*;
use crate::env::{ManualClock, RealFs};
use crate::model::Name;
use crate::model::{Identity, SEQ, WriteConcern};
use crate::reader::Reader;
use crate::store::Store;
use crate::testing::batch;

const NOW_US: i64 = 7_000_000;
/// What [`store`] holds.
const ALL: [i64; 11] = [1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32];

fn options() -> Options {
    Options {
        clock: Arc::new(ManualClock::at(NOW_US)),
        ..Options::default()
    }
}

fn key(key: &str) -> Option<Identity> {
    Some(Identity::Key {
        key: format!("events\0{key}"),
        body_hash: 1,
    })
}

/// A store with a sealed batch and three in the journal, as a killed writer leaves it.
fn store() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path(), options()).expect("opens");
    let write = |times: &[i64], k: &str| {
        let ack = store.write(batch(times, &[], key(k)), WriteConcern::JOURNALED);
        ack.expect("taken")
    };
    write(&[1, 2], "sealed");
    store.seal().expect("seals");
    for (n, k) in [(10, "a"), (20, "b"), (30, "c")] {
        write(&[n, n + 1, n + 2], k);
    }
    drop(store);
    dir
}

fn values(data: &Path) -> Vec<i64> {
    let reader = Reader::open(Arc::new(RealFs), data).expect("opens");
    let snapshot = reader.snapshot();
    let events = Name::new("events").expect("a name");
    let mut batches = Vec::new();
    for part in snapshot.manifest().parts_of(&events) {
        let bytes = snapshot.read(&part.file).expect("a part");
        batches.extend(crate::part::read_part(bytes, None).expect("a part"));
    }
    batches.extend(snapshot.chunks("events").iter().map(|c| c.events.clone()));
    let mut values: Vec<(u64, i64)> = Vec::new();
    for rows in &batches {
        let seqs: &arrow::array::UInt64Array = crate::memtable::column(rows, SEQ);
        let n: &arrow::array::Int64Array = crate::memtable::column(rows, "n");
        values.extend(
            seqs.values()
                .iter()
                .copied()
                .zip(n.values().iter().copied()),
        );
    }
    values.sort_unstable();
    values.into_iter().map(|(_, n)| n).collect()
}

fn segments(data: &Path) -> Vec<String> {
    let mut names = RealFs.list(&data.join(journal::DIR)).expect("listed");
    names.sort_unstable();
    names
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).expect("read");
    bytes[at] ^= 0x10;
    std::fs::write(path, bytes).expect("written");
}

fn find(bytes: &[u8], what: &[u8]) -> Vec<usize> {
    let all = bytes.windows(what.len()).enumerate();
    all.filter(|(_, w)| *w == what).map(|(i, _)| i).collect()
}

#[test]
fn a_sound_store_is_left_alone() {
    let dir = store();
    let before = RealFs
        .list(&dir.path().join(manifest::DIR))
        .expect("listed");
    let report = repair(dir.path(), &options()).expect("looked at");
    assert_eq!((report.findings.len(), report.evidence), (0, None));
    let after = RealFs
        .list(&dir.path().join(manifest::DIR))
        .expect("listed");
    assert_eq!(before, after);
    assert_eq!(
        values(dir.path()),
        [1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32]
    );
}

#[test]
fn of_a_damaged_journal_everything_else_is_had() {
    let dir = store();
    let folder = dir.path().join(journal::DIR);
    let groups = |name: &String| find(&std::fs::read(folder.join(name)).expect("read"), b"LMRG");
    let with_three = segments(dir.path())
        .into_iter()
        .find(|s| groups(s).len() == 3);
    let last = with_three.expect("a segment with the three groups");
    let path = folder.join(&last);
    let whole = std::fs::read(&path).expect("read");
    // The body of the second of the three groups; each begins with its magic number.
    let second = find(&whole, b"LMRG")[1] + 60;
    flip(&path, second);
    let refused = Store::open(dir.path(), options()).expect_err("refused");
    assert!(matches!(refused, Error::Corrupt { .. }), "{refused}");
    let report = repair(dir.path(), &options()).expect("repairs");
    assert_eq!(values(dir.path()), [1, 2, 10, 11, 12, 30, 31, 32]);
    let evidence = report.evidence.expect("kept");
    assert!(evidence.ends_with("damaged/000000000007"));
    let text = std::fs::read_to_string(evidence.join("report.txt")).expect("a report");
    let relative = format!("journal/{last}");
    assert!(
        text.contains(&format!("{relative}: no record could be had from bytes")),
        "{text}"
    );
    let kept = std::fs::read(evidence.join(relative.replace('/', "+"))).expect("kept");
    assert_eq!(kept.len(), whole.len());
    assert_eq!(kept[second], whole[second] ^ 0x10);
    // It goes on: what was lost is taken when it is sent again, what was had is not.
    let store = Store::open(dir.path(), options()).expect("opens");
    let again = |k: &str, n: i64| {
        let ack = store.write(
            batch(&[n, n + 1, n + 2], &[], key(k)),
            WriteConcern::JOURNALED,
        );
        ack.expect("answered")
    };
    assert!(again("a", 10).duplicate && again("c", 30).duplicate);
    let taken = again("b", 20);
    assert!(!taken.duplicate && taken.first_seq > Some(11), "{taken:?}");
    store.close().expect("closes");
    assert_eq!(
        values(dir.path()),
        [1, 2, 10, 11, 12, 30, 31, 32, 20, 21, 22]
    );
}

#[test]
fn a_missing_segment_takes_no_other_with_it() {
    let dir = store();
    let first = segments(dir.path())[0].clone();
    std::fs::remove_file(dir.path().join(journal::DIR).join(first)).expect("removed");
    assert!(Store::open(dir.path(), options()).is_err());
    repair(dir.path(), &options()).expect("repairs");
    assert_eq!(values(dir.path()), ALL);
    drop(Store::open(dir.path(), options()).expect("opens"));
}

#[test]
fn a_damaged_part_and_a_damaged_checkpoint_are_given_up() {
    let dir = store();
    let manifest = manifest::read_newest(&RealFs, dir.path()).expect("read");
    let manifest = manifest.expect("there").manifest;
    let (part, known) = (&manifest.parts[0].file.path, &manifest.identities[0].path);
    flip(&dir.path().join(part), 100);
    flip(&dir.path().join(known), 20);
    let report = repair(dir.path(), &options()).expect("repairs");
    assert_eq!(
        (report.events_lost, report.findings.len()),
        (2, 2),
        "{report:?}"
    );
    assert!(report.findings[0].starts_with(known) && report.findings[1].starts_with(part));
    assert_eq!(values(dir.path()), [10, 11, 12, 20, 21, 22, 30, 31, 32]);
    let store = Store::open(dir.path(), options()).expect("opens");
    assert_eq!(store.snapshot().streams()["events"].dropped_events(), 2);
    store.close().expect("closes");
    let reader = Reader::open(Arc::new(RealFs), dir.path()).expect("opens");
    assert_eq!(crate::check(&reader.snapshot()).damage.len(), 0);
}

#[test]
fn a_damaged_manifest_is_refused_and_nothing_is_changed() {
    let dir = store();
    let folder = dir.path().join(manifest::DIR);
    let name = RealFs.list(&folder).expect("listed").remove(0);
    flip(&folder.join(&name), 200);
    let refused = repair(dir.path(), &options()).expect_err("refused");
    assert!(matches!(refused, Error::Corrupt { .. }), "{refused}");
    assert_eq!(RealFs.list(&folder).expect("listed"), [name]);
}
