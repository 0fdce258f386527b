//! Backups of a store on the machine's own disk: their events, the files they share with the
//! store, and the files they leave alone. The model (`store/model`) backs up at any moment and
//! over power cuts.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;

use super::*;
use crate::concern::WriteConcern;
use crate::env::{RealFs, SystemClock};
use crate::model::{Batch, Name};
use crate::read_only_store::ReadOnlyStore;
use crate::repair::repair;
use crate::store::{Options, Store};
use crate::testing::{FaultFs, Op, batch};

const DAY_US: i64 = 86_400_000_000;
/// Folders of the files that two stores may share.
const SHARED: [&str; 3] = ["streams", "rollups", "identities"];

struct Fixture {
    dir: tempfile::TempDir,
    fs: FaultFs,
}

impl Fixture {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().expect("a directory"),
            fs: FaultFs::default(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn backup(&self, from: &str, to: &str) -> Result<BackupReport> {
        let fs: Arc<dyn Fs> = Arc::new(self.fs.clone());
        backup(&fs, &SystemClock, &self.path(from), &self.path(to))
    }

    fn open(&self, name: &str) -> Store {
        Store::open(&self.path(name), Options::default()).expect("opens")
    }

    /// Makes a store with two parts, identities, and an event in the journal after the last seal.
    fn store(&self) -> Store {
        let store = self.open("data");
        write(&store, &[1, 2, DAY_US]);
        store.seal().expect("seals");
        write(&store, &[3]);
        store
    }
}

fn write(store: &Store, times: &[i64]) {
    let ack = store.write(batch(times, &[], None), WriteConcern::ACKNOWLEDGED);
    ack.expect("taken");
}

/// Counts the events of a store as a reader sees them.
fn events(data: &Path) -> u64 {
    let reader = ReadOnlyStore::open(Arc::new(RealFs), data).expect("opens");
    let snapshot = reader.snapshot();
    assert!(crate::check(&snapshot).damage.is_empty());
    let parts = snapshot.manifest().parts.iter().map(|p| p.rows);
    let memory = snapshot.chunks("events").iter();
    parts.sum::<u64>() + memory.map(|c| c.events.num_rows() as u64).sum::<u64>()
}

/// Returns the inode and the content of every file of these folders.
fn files(data: &Path, folders: &[&str]) -> BTreeMap<PathBuf, (u64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut open: Vec<PathBuf> = folders.iter().map(|f| data.join(f)).collect();
    while let Some(folder) = open.pop() {
        for name in RealFs.list(&folder).unwrap_or_default() {
            let path = folder.join(name);
            if path.is_dir() {
                open.push(path);
            } else {
                let inode = std::fs::metadata(&path).expect("there").ino();
                let bytes = std::fs::read(&path).expect("read");
                found.insert(path, (inode, bytes));
            }
        }
    }
    found
}

/// Runs operations that add, replace and remove files.
fn much_happens(fixture: &Fixture, name: &str) {
    let store = fixture.open(name);
    write(&store, &[5, DAY_US + 5]);
    store.seal().expect("seals");
    store.compact_tiles(true).expect("compacts");
    let stream = Name::new("events").expect("a name");
    let dropped = store.drop_partitions(&stream, (DAY_US, 2 * DAY_US), false);
    assert_eq!(dropped.expect("drops").events, 2);
    store.close().expect("closes");
}

#[test]
fn a_backup_of_a_running_store_holds_what_was_acknowledged_and_shares_its_files() {
    let fixture = Fixture::new();
    let store = fixture.store();
    let report = fixture.backup("data", "copy").expect("backs up");
    write(&store, &[4]);
    assert_eq!(events(&fixture.path("copy")), 4);
    assert_eq!(events(&fixture.path("data")), 5);
    let (ours, theirs) = (
        files(&fixture.path("data"), &SHARED),
        files(&fixture.path("copy"), &SHARED),
    );
    assert_eq!(report.linked_files as usize, theirs.len());
    for (path, (inode, _)) in &theirs {
        let below = path
            .strip_prefix(fixture.path("copy"))
            .expect("it lies there");
        assert_eq!(ours[&fixture.path("data").join(below)].0, *inode);
    }
    let journal = files(&fixture.path("copy"), &[journal::DIR]);
    assert_eq!(report.copied_files as usize, journal.len());
    let bytes: usize = journal.values().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(report.copied_bytes as usize, bytes);
    assert_eq!(report.next_seq, 4);
    // The copy assigns sequence numbers that the store has not used.
    drop(store);
    let copy = fixture.open("copy");
    let ack = copy.write(batch(&[7], &[], None), WriteConcern::JOURNALED);
    assert!(ack.expect("taken").first_seq > Some(1 << 24));
}

#[test]
fn a_place_within_the_store_is_refused_through_whichever_links_it_is_named() {
    let fixture = Fixture::new();
    fixture.store().close().expect("closes");
    std::os::unix::fs::symlink(fixture.path("data"), fixture.path("link")).expect("linked");
    for (data, to) in [
        ("data", "data/streams/zz"),
        ("link", "data/streams/zz"),
        ("data", "link/zz/deep"),
        ("link", "link"),
        ("data", "beside/../data/zz"),
    ] {
        let refused = fixture.backup(data, to).expect_err("refused");
        assert!(
            matches!(refused, Error::Invalid { .. }),
            "{data} {to}: {refused}"
        );
    }
    assert!(!fixture.path("data/zz").exists() && !fixture.path("data/streams/zz").exists());
    fixture.backup("link", "elsewhere").expect("backs up");
    assert_eq!(events(&fixture.path("elsewhere")), 4);
}

#[test]
fn a_place_in_which_nothing_can_be_made_is_named_and_no_outcome_is_unknown() {
    let fixture = Fixture::new();
    fixture.store().close().expect("closes");
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let to = Path::new("/proc/logmill-backup");
    let refused = backup(&fs, &SystemClock, &fixture.path("data"), to).expect_err("refused");
    let text = refused.to_string();
    assert!(matches!(refused, Error::Invalid { .. }), "{text}");
    assert!(
        text.contains("/proc/logmill-backup") && text.contains("no backup was made"),
        "{text}"
    );
}

#[test]
fn nothing_that_happens_to_a_backup_is_seen_in_the_store_nor_the_other_way_round() {
    for (busy, quiet) in [("copy", "data"), ("data", "copy")] {
        let fixture = Fixture::new();
        fixture.store().close().expect("closes");
        fixture.backup("data", "copy").expect("backs up");
        let all = ["streams", "rollups", "identities", "journal", "manifest"];
        let before = files(&fixture.path(quiet), &all);
        assert!(before.len() >= 5);
        much_happens(&fixture, busy);
        assert_eq!(files(&fixture.path(quiet), &all), before, "{busy}");
        // The part is damaged in a new file, not through the link, and the repair gives it up.
        let part = files(&fixture.path(busy), &["streams"]).into_keys().next();
        let part = part.expect("a part");
        std::fs::remove_file(&part).expect("removed");
        std::fs::write(&part, b"damaged").expect("written");
        let repaired = repair(&fixture.path(busy), &Options::default()).expect("repairs");
        assert!(repaired.events_lost > 0);
        fixture.open(busy).close().expect("closes");
        assert_eq!(files(&fixture.path(quiet), &all), before, "{busy}");
        assert_eq!(events(&fixture.path(quiet)), 4);
    }
}

#[test]
fn what_is_given_up_meanwhile_is_there_until_it_was_taken() {
    for moment in [(Op::Create, "copy/journal"), (Op::Link, "copy/streams")] {
        let fixture = Fixture::new();
        let store = Arc::new(fixture.store());
        let meanwhile = Arc::clone(&store);
        fixture.fs.before(moment.0, moment.1, move || {
            let stream = Name::new("events").expect("a name");
            // The drop releases parts and the seal a segment. The next edit would remove both if
            // no reader were registered.
            let dropped = meanwhile.drop_partitions(&stream, (0, 2 * DAY_US), false);
            assert_eq!(dropped.expect("drops").events, 4);
            write(&meanwhile, &[9]);
            meanwhile.seal().expect("seals");
        });
        let report = fixture.backup("data", "copy").expect("backs up");
        assert_eq!(report.next_seq, 4, "{moment:?}");
        assert_eq!(events(&fixture.path("copy")), 4, "{moment:?}");
        assert_eq!(events(&fixture.path("data")), 1, "{moment:?}");
    }
}

/// A record is written after its stream is in a manifest. The journal is copied after a manifest
/// was read.
#[test]
fn a_stream_that_is_created_meanwhile_is_there_with_its_events() {
    let fixture = Fixture::new();
    let store = Arc::new(fixture.store());
    let meanwhile = Arc::clone(&store);
    fixture.fs.before(Op::SyncDir, "copy", move || {
        let stream = Name::new("later").expect("a name");
        let batch = Batch {
            stream,
            ..batch(&[5, 6], &[], None)
        };
        let ack = meanwhile.write(batch, WriteConcern::ACKNOWLEDGED);
        ack.expect("taken");
    });
    let report = fixture.backup("data", "copy").expect("backs up");
    assert_eq!(report.next_seq, 6);
    let copy = fixture.open("copy");
    copy.seal().expect("seals");
    let later = Name::new("later").expect("a name");
    assert_eq!(copy.snapshot().streams()[&later].sealed_events, 2);
    copy.close().expect("closes");
}

#[test]
fn where_nothing_can_be_linked_it_is_copied_against_its_checksum() {
    let fixture = Fixture::new();
    fixture.store().close().expect("closes");
    let unlinkable = ErrorKind::CrossesDevices;
    fixture.fs.fail(Op::Link, "copy", unlinkable, 100);
    let report = fixture.backup("data", "copy").expect("backs up");
    assert_eq!((report.linked_files, report.linked_bytes), (0, 0));
    assert_eq!(events(&fixture.path("copy")), 4);
    let (ours, theirs) = (
        files(&fixture.path("data"), &SHARED),
        files(&fixture.path("copy"), &SHARED),
    );
    let bytes = |files: BTreeMap<_, (u64, Vec<u8>)>| files.into_values().map(|f| f.1);
    assert!(bytes(ours).eq(bytes(theirs)));
    // A damaged part is refused, not copied.
    let (part, (_, mut damaged)) = files(&fixture.path("data"), &["streams"])
        .pop_first()
        .expect("a part");
    damaged[100] ^= 1;
    std::fs::write(&part, damaged).expect("written");
    fixture.fs.fail(Op::Link, "second", unlinkable, 100);
    match fixture.backup("data", "second") {
        Err(Error::Corrupt { path, .. }) => assert_eq!(path, part),
        other => panic!("{other:?}"),
    }
    // A part of another length is refused, not linked.
    std::fs::write(&part, b"short").expect("written");
    let third = fixture.backup("data", "third");
    assert!(matches!(third, Err(Error::Corrupt { .. })), "{third:?}");
}

#[test]
fn a_backup_that_was_cut_short_is_a_store_to_nobody() {
    let fixture = Fixture::new();
    let _store = fixture.store();
    let cuts = [
        (Op::SyncDir, "copy/streams"),
        (Op::Write, "copy/manifest"),
        (Op::Rename, "copy/manifest"),
    ];
    for (op, path_part) in cuts {
        fixture.fs.fail(op, path_part, ErrorKind::Other, 1);
        fixture.backup("data", "copy").expect_err("cut short");
        let copy = fixture.path("copy");
        let all = ["streams", "rollups", "identities", "journal", "manifest"];
        let before = files(&copy, &all);
        assert!(before.len() > 1, "{op:?} {path_part}");
        let refusals = [
            ReadOnlyStore::open(Arc::new(RealFs), &copy).map(|_| ()),
            Store::open(&copy, Options::default()).map(|_| ()),
        ];
        for refused in refusals {
            match refused {
                Err(Error::Corrupt { what, .. }) => {
                    assert!(what.contains("interrupted backup"), "{what}")
                }
                other => panic!("{op:?} {path_part}: {other:?}"),
            }
        }
        assert_eq!(files(&copy, &all), before);
        let error = fixture.backup("data", "copy").expect_err("not empty");
        assert!(error.to_string().contains("is not empty"), "{error}");
        std::fs::remove_dir_all(&copy).expect("removed");
    }
}

#[test]
fn a_backup_is_made_of_a_store_and_beside_it() {
    let fixture = Fixture::new();
    let nothing = fixture.backup("data", "copy");
    assert!(matches!(nothing, Err(Error::NotAStore { .. })));
    assert!(!fixture.path("copy").exists());
    let _store = fixture.store();
    std::fs::write(fixture.path("file"), b"").expect("written");
    for (to, why) in [
        ("data/copy", "inside the store"),
        ("data", "inside the store"),
        ("file", "a file"),
    ] {
        let error = fixture.backup("data", to).expect_err("refused").to_string();
        assert!(error.contains(why), "{to}: {error}");
    }
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let relative = backup(&fs, &SystemClock, &fixture.path("data"), Path::new("copy"));
    assert!(matches!(relative, Err(Error::Invalid { .. })));
    let deep = fixture.backup("data", "a/b/c").expect("backs up");
    assert!(deep.linked_files > 0);
    assert_eq!(events(&fixture.path("a/b/c")), 4);
}

/// Attaching removes the card at once, and keeps the parts while a reader holds them.
#[test]
fn what_is_attached_or_dropped_while_a_backup_is_made_is_detached_in_it() {
    let stream = Name::new("events").expect("a name");
    let all = (i64::MIN, i64::MAX);
    for attaches in [true, false] {
        let fixture = Fixture::new();
        let store = Arc::new(fixture.store());
        store
            .detach_partitions(&stream, (0, DAY_US), false)
            .expect("detaches");
        let (meanwhile, of) = (Arc::clone(&store), stream.clone());
        fixture.fs.before(Op::Link, "copy/streams", move || {
            let done = match attaches {
                true => meanwhile.attach_partitions(&of, all),
                false => meanwhile.drop_partitions(&of, (0, DAY_US), false),
            };
            assert_eq!(done.expect("done").events, 3);
        });
        fixture.backup("data", "copy").expect("backs up");
        drop(store);
        assert_eq!(events(&fixture.path("copy")), 1);
        let copy = fixture.open("copy");
        let back = copy.attach_partitions(&stream, all).expect("attaches");
        assert_eq!(back.events, 3);
        copy.close().expect("closes");
        assert_eq!(events(&fixture.path("copy")), 4);
    }
}
