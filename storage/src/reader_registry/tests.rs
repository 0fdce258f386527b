//! Tests of readers in other processes: live, dead and hanging ones.

use super::*;
use crate::env::RealFs;
use crate::manifest::{self, Committed, Manifest};
use crate::testing::{FaultFs, Op};

const NOW_US: i64 = 1_000_000;

fn store() -> (tempfile::TempDir, Committed) {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join(manifest::DIR)).expect("a directory");
    let new = Manifest::new("0123456789abcdef0123456789abcdef".into(), 0);
    let first = manifest::commit(&RealFs, dir.path(), None, new).expect("commits");
    (dir, first)
}

fn next(data: &Path, current: &Committed) -> Committed {
    let mut edit = (*current.manifest).clone();
    edit.next_file += 10;
    manifest::commit(&RealFs, data, Some(current), edit).expect("commits")
}

fn versions(data: &Path) -> Vec<u64> {
    let holds = holds(&RealFs, data, NOW_US).expect("asked");
    let mut versions: Vec<u64> = holds.iter().map(|h| h.version).collect();
    versions.sort_unstable();
    versions
}

fn pending(path: &str, since: u64) -> Pending {
    Pending {
        path: path.into(),
        since,
    }
}

#[test]
fn the_versions_that_are_read_are_known_as_long_as_they_are_read() {
    let (dir, first) = store();
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let seen = || versions(dir.path());
    assert!(seen().is_empty());
    let old = register(&fs, dir.path(), NOW_US).expect("registers");
    next(dir.path(), &first);
    let new = register(&fs, dir.path(), NOW_US).expect("registers");
    let newer = register(&fs, dir.path(), NOW_US).expect("registers");
    assert_eq!(seen(), [0, 1, 1]);
    drop(old);
    assert_eq!(seen(), [1, 1]);
    drop((new, newer));
    assert!(seen().is_empty());
    assert_eq!(RealFs.list(&dir.path().join(DIR)).expect("listed").len(), 0);
}

#[test]
fn a_reader_holds_what_its_version_refers_to_and_nothing_that_came_later() {
    let (dir, first) = store();
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let reader = register(&fs, dir.path(), NOW_US).expect("registers");
    let hold = || holds(&RealFs, dir.path(), NOW_US).expect("asked")[0];
    let second = next(dir.path(), &first);
    let segment = pending("journal/0000000000000001.log", 1);
    let part = pending("streams/e/date=2000-10-10/0000000000000005.parquet", 1);
    // A reader that is opening may need any file.
    assert!(hold().needs(&segment) && hold().needs(&part));
    reader.loaded(&second.manifest).expect("written");
    assert_eq!(hold().next_file, Some(second.manifest.next_file));
    let given_up = |path: &str| hold().needs(&pending(path, 2));
    assert!(given_up(
        "streams/e/date=2000-10-10/0000000000000005.parquet"
    ));
    assert!(given_up("rollups/stats/000000000000000a.tile"));
    assert!(given_up("identities/000000000000000a.json.zst"));
    assert!(given_up("rollups/stats/0000002f-000000000000000a.tile"));
    assert!(!given_up("rollups/stats/00000001-000000000000000b.tile"));
    assert!(
        !given_up("rollups/stats/000000000000000b.tile"),
        "came later"
    );
    assert!(!given_up("journal/0000000000000001.log"), "it is in memory");
    let before = pending("rollups/stats/0000000000000002.tile", 0);
    assert!(!hold().needs(&before), "given up before it registered");
}

#[test]
fn a_reader_that_hangs_for_a_day_is_passed_over() {
    let (dir, _) = store();
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let _reader = register(&fs, dir.path(), NOW_US).expect("registers");
    let seen = |now_us| holds(&RealFs, dir.path(), now_us).expect("asked").len();
    assert_eq!(seen(NOW_US + AGE_MAX_US), 1);
    assert_eq!(seen(NOW_US + AGE_MAX_US + 1), 0);
}

#[test]
fn half_a_line_is_no_number() {
    let text = line(5) + &line(0x1234) + &line(0x77);
    let read = |bytes: usize| read_hold(&text.as_bytes()[..bytes], 5);
    for bytes in 0..2 * LINE {
        assert_eq!(read(bytes), None, "{bytes}");
    }
    for bytes in 2 * LINE..3 * LINE {
        let opening = Hold {
            version: 0x1234,
            next_file: None,
        };
        assert_eq!(read(bytes), Some(opening), "{bytes}");
    }
    assert_eq!(read(3 * LINE).and_then(|h| h.next_file), Some(0x77));
}

#[test]
fn a_dead_reader_counts_for_nothing() {
    let (dir, _) = store();
    let folder = dir.path().join(DIR);
    std::fs::create_dir(&folder).expect("a directory");
    let text = line(5) + &line(0);
    std::fs::write(folder.join("1-00000000-0"), text).expect("written");
    // A live reader that has not written its version yet will check the manifest after this.
    let silent = RealFs
        .try_lock(&folder.join("2-00000000-0"))
        .expect("locks");
    assert!(silent.is_some());
    assert!(versions(dir.path()).is_empty());
    assert_eq!(RealFs.list(&folder).expect("listed"), ["2-00000000-0"]);
}

#[test]
fn a_commit_while_a_reader_registers_makes_it_begin_again() {
    let (dir, first) = store();
    let fs = FaultFs::default();
    let data = dir.path().to_path_buf();
    // The writer commits and then reads the registrations: this reader has not written its
    // version yet.
    fs.before(Op::Write, "readers", move || {
        next(&data, &first);
        assert!(versions(&data).is_empty());
    });
    let fs: Arc<dyn Fs> = Arc::new(fs);
    let _reader = register(&fs, dir.path(), NOW_US).expect("registers");
    assert_eq!(
        versions(dir.path()),
        [1],
        "a version is read that the writer took for unread"
    );
}

#[test]
fn a_place_without_a_store_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let error = register(&fs, dir.path(), NOW_US).expect_err("no store");
    assert!(matches!(error, Error::NotAStore { .. }), "{error}");
    assert_eq!(RealFs.list(dir.path()).expect("listed").len(), 0);
}
