//! Tests of repair: damaged data is discarded and reported; all other data is unchanged.

use super::*;
use crate::concern::WriteConcern;
use crate::env::{ManualClock, RealFs};
use crate::model::Name;
use crate::model::{Identity, SEQ};
use crate::read_only_store::ReadOnlyStore;
use crate::store::Store;
use crate::testing::batch;

const NOW_US: i64 = 7_000_000;
/// Times of the events in [`store`].
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

/// Returns a store with a sealed batch and three in the journal, as a killed writer leaves it.
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
    let reader = ReadOnlyStore::open(Arc::new(RealFs), data).expect("opens");
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
        text.contains(&format!("{relative}: bytes")) && text.contains("hold no readable record"),
        "{text}"
    );
    let kept = std::fs::read(evidence.join(relative.replace('/', "+"))).expect("kept");
    assert_eq!(kept.len(), whole.len());
    assert_eq!(kept[second], whole[second] ^ 0x10);
    // The store continues: lost batches are accepted when they are sent again, salvaged ones are
    // not.
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
    let reader = ReadOnlyStore::open(Arc::new(RealFs), dir.path()).expect("opens");
    assert_eq!(crate::check(&reader.snapshot()).damage.len(), 0);
}

/// Returns the paths of the newest manifest and its copy.
fn places(data: &Path) -> [PathBuf; 2] {
    let version = manifest::newest_version(&RealFs, data).expect("listed");
    let version = version.expect("there is one");
    [
        manifest::path(data, version),
        manifest::copy_path(data, version),
    ]
}

fn cut(path: &Path) {
    let bytes = std::fs::read(path).expect("read");
    std::fs::write(path, &bytes[..bytes.len() / 2]).expect("written");
}

fn remove(path: &Path) {
    std::fs::remove_file(path).expect("removed");
}

fn remove_all(path: PathBuf) {
    std::fs::remove_dir_all(path).expect("removed");
}

type Damage = (&'static str, fn(&Path));

/// Damages to one copy of the manifest: nothing is lost by them.
const OF_ONE_PLACE: [Damage; 6] = [
    ("flipped", |data| flip(&places(data)[0], 200)),
    ("cut", |data| cut(&places(data)[0])),
    ("removed", |data| remove(&places(data)[0])),
    ("folder removed", |data| {
        remove_all(data.join(manifest::DIR));
    }),
    ("copy flipped", |data| flip(&places(data)[1], 200)),
    ("copy cut", |data| cut(&places(data)[1])),
];

#[test]
fn one_damaged_place_of_the_manifest_is_told_by_check_and_mended_by_a_start_or_a_repair() {
    for (name, damage) in OF_ONE_PLACE {
        for repairs in [false, true] {
            let dir = store();
            damage(dir.path());
            let reader = ReadOnlyStore::open(Arc::new(RealFs), dir.path()).expect("opens");
            let damaged = crate::check(&reader.snapshot()).damage;
            assert_eq!(damaged.len(), 1, "{name}: {damaged:?}");
            drop(reader);
            if repairs {
                let report = repair(dir.path(), &options()).expect("repairs");
                assert_eq!(report.findings.len(), 1, "{name}: {report:?}");
                assert!(
                    report.findings[0].contains("rewritten from its other copy"),
                    "{report:?}"
                );
            } else {
                drop(Store::open(dir.path(), options()).expect("opens"));
            }
            let reader = ReadOnlyStore::open(Arc::new(RealFs), dir.path()).expect("opens");
            assert_eq!(crate::check(&reader.snapshot()).damage, [], "{name}");
            assert_eq!(values(dir.path()), ALL, "{name}");
            let again = repair(dir.path(), &options()).expect("looked at");
            assert_eq!(again.findings.len(), 0, "{name}: {again:?}");
        }
    }
}

fn lose_manifests(data: &Path) {
    places(data).iter().for_each(|path| remove(path));
}

fn lose_journal(data: &Path) {
    remove_all(data.join(journal::DIR));
}

/// Returns the segment with the three groups.
fn full_segment(data: &Path) -> PathBuf {
    let all = segments(data).into_iter();
    let paths = all.map(|name| data.join(journal::DIR).join(name));
    let mut full = paths.filter(|p| find(&std::fs::read(p).expect("read"), b"LMRG").len() == 3);
    full.next().expect("a segment with the three groups")
}

/// Name of the damage, function that causes it, and events that a repair recovers.
type Loss = (&'static str, fn(&Path), &'static [i64]);

/// Damages after which a store does not open, with the events that are recovered.
const DAMAGES: &[Loss] = &[
    (
        "both places flipped",
        |data| places(data).iter().for_each(|path| flip(path, 200)),
        &ALL,
    ),
    (
        "both places cut",
        |data| places(data).iter().for_each(|path| cut(path)),
        &ALL,
    ),
    ("both places removed", lose_manifests, &ALL),
    (
        "both folders removed",
        |data| {
            remove_all(data.join(manifest::DIR));
            remove_all(data.join(manifest::COPY_DIR));
        },
        &ALL,
    ),
    ("journal folder removed", lose_journal, &[1, 2]),
    (
        "the last segment removed",
        |data| {
            let last = segments(data).pop().expect("a segment");
            remove(&data.join(journal::DIR).join(last));
        },
        &ALL,
    ),
    (
        "every segment removed",
        |data| {
            for name in segments(data) {
                remove(&data.join(journal::DIR).join(name));
            }
        },
        &[1, 2],
    ),
    (
        "the full segment zeroed",
        |data| {
            let path = full_segment(data);
            let len = std::fs::read(&path).expect("read").len();
            std::fs::write(path, vec![0; len]).expect("written");
        },
        &[1, 2],
    ),
    (
        "manifests and journal removed",
        |data| {
            lose_manifests(data);
            lose_journal(data);
        },
        &[1, 2],
    ),
    (
        "manifests removed, the full segment flipped",
        |data| {
            lose_manifests(data);
            let path = full_segment(data);
            let second = find(&std::fs::read(&path).expect("read"), b"LMRG")[1] + 60;
            flip(&path, second);
        },
        &[1, 2, 10, 11, 12, 30, 31, 32],
    ),
    (
        "all but the parts and STORE removed",
        |data| {
            lose_journal(data);
            for folder in ["manifest", "manifest-copy", "identities"] {
                remove_all(data.join(folder));
            }
        },
        &[1, 2],
    ),
];

/// No sequence number is assigned again, whatever was lost.
#[test]
fn whatever_is_damaged_or_gone_every_sound_event_is_had_back_and_no_number_is_given_twice() {
    for (name, damage, had) in DAMAGES {
        let dir = store();
        let before = ReadOnlyStore::open(Arc::new(RealFs), dir.path()).expect("opens");
        let snapshot = before.snapshot();
        let (given, prefix) = (snapshot.next_seq(), snapshot.manifest().id_prefix());
        drop((before, snapshot));
        damage(dir.path());
        let refused = Store::open(dir.path(), options()).map(|_| ());
        let refused = refused.expect_err(name);
        assert!(
            matches!(refused, Error::Corrupt { .. }),
            "{name}: {refused}"
        );
        let report = repair(dir.path(), &options()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let told = report.findings.join("\n");
        assert!(!told.contains("logmill repair"), "{name}: {told}");
        assert!(
            told.contains("sequence numbers continue at"),
            "{name}: {told}"
        );
        assert_eq!(values(dir.path()), *had, "{name}: {told}");
        let store = Store::open(dir.path(), options()).expect(name);
        let ack = store.write(batch(&[99], &[], None), WriteConcern::JOURNALED);
        let first = ack.expect(name).first_seq.expect("one event");
        assert!(first >= given + GAP, "{name}: number {first} after {given}");
        let id = store.snapshot().manifest().id_prefix();
        assert_eq!(id, prefix, "{name}: _ids stay");
        store.close().expect(name);
        let reader = ReadOnlyStore::open(Arc::new(RealFs), dir.path()).expect(name);
        assert_eq!(crate::check(&reader.snapshot()).damage, [], "{name}");
        let again = repair(dir.path(), &options()).expect(name);
        assert_eq!(again.findings.len(), 0, "{name}: {again:?}");
    }
}

/// The files show which partitions were merged, detached and quarantined, and which batches are
/// known.
#[test]
fn a_store_that_has_lived_is_had_back_without_its_manifest() {
    let dir = tempfile::tempdir().expect("a directory");
    let day_us = 86_400_000_000;
    let with_rollups = Options {
        rollup_hook: Arc::new(crate::store::model::listing::Listing),
        ..options()
    };
    let store = Store::open(dir.path(), with_rollups.clone()).expect("opens");
    let write = |times: &[i64], bad: &[u32], k: &str| {
        let ack = store.write(batch(times, bad, key(k)), WriteConcern::JOURNALED);
        ack.expect("taken")
    };
    write(&[1, 2, day_us], &[0], "a");
    store.seal().expect("seals");
    write(&[3, 2 * day_us], &[], "b");
    store.seal().expect("seals");
    let merged = store.compact_parts(None, true).expect("compacts");
    assert!(merged.merged > 0);
    let events = Name::new("events").expect("a name");
    let detached = store.detach_partitions(&events, (day_us, 2 * day_us), false);
    assert_eq!(detached.expect("detaches").events, 1);
    write(&[4], &[1], "c");
    drop(store);
    lose_manifests(dir.path());
    let report = repair(dir.path(), &with_rollups).expect("repairs");
    assert_eq!(values(dir.path()), [1, 2, 3, 2 * day_us, 4], "{report:?}");
    let store = Store::open(dir.path(), options()).expect("opens");
    let quarantined = |store: &Store| {
        let name = Name::new(crate::model::QUARANTINE).expect("a name");
        let snapshot = store.snapshot();
        snapshot
            .manifest()
            .parts_of(&name)
            .map(|p| p.rows)
            .sum::<u64>()
    };
    assert_eq!(quarantined(&store), 2);
    for (k, times, bad) in [("a", &[1, 2, day_us][..], &[0][..]), ("c", &[4], &[1])] {
        let again = store.write(batch(times, bad, key(k)), WriteConcern::JOURNALED);
        assert!(again.expect("answered").duplicate, "{k} is known");
    }
    let back = store.attach_partitions(&events, (day_us, 2 * day_us));
    assert_eq!(back.expect("attaches").events, 1);
    store.close().expect("closes");
    assert_eq!(values(dir.path()), [1, 2, day_us, 3, 2 * day_us, 4]);
    // The rollup is recomputed from the raw events.
    let store = Store::open(dir.path(), with_rollups).expect("opens");
    let manifest = Arc::clone(&store.snapshot().manifest);
    let counted: u64 = manifest.tiles.iter().map(|t| t.events).sum();
    assert_eq!(counted, 6);
    store.close().expect("closes");
    let reader = ReadOnlyStore::open(Arc::new(RealFs), dir.path()).expect("opens");
    assert_eq!(crate::check(&reader.snapshot()).damage, []);
}

#[test]
fn a_folder_that_is_no_store_is_not_made_one() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("notes"), b"mine").expect("written");
    let refused = repair(dir.path(), &options()).expect_err("refused");
    assert!(matches!(refused, Error::NotAStore { .. }), "{refused}");
    assert_eq!(RealFs.list(dir.path()).expect("listed"), ["notes"]);
}
