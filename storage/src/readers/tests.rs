//! Readers in other processes, and those that have died.

use super::*;
use crate::env::RealFs;
use crate::manifest::{self, Committed, Manifest};
use crate::testing::{FaultFs, Op};

fn store() -> (tempfile::TempDir, Committed) {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join(manifest::DIR)).expect("a directory");
    let new = Manifest::new("0123456789abcdef0123456789abcdef".into(), 0);
    let first = manifest::commit(&RealFs, dir.path(), None, new).expect("commits");
    (dir, first)
}

fn next(data: &Path, current: &Committed) -> Committed {
    let edit = (*current.manifest).clone();
    manifest::commit(&RealFs, data, Some(current), edit).expect("commits")
}

#[test]
fn the_oldest_version_that_is_read_is_known_as_long_as_it_is_read() {
    let (dir, first) = store();
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let seen = || oldest(&RealFs, dir.path()).expect("asked");
    assert_eq!(seen(), None);
    let old = register(&fs, dir.path()).expect("registers");
    let second = next(dir.path(), &first);
    let new = register(&fs, dir.path()).expect("registers");
    let newer = register(&fs, dir.path()).expect("registers");
    assert_eq!(seen(), Some(first.manifest.version));
    drop(old);
    assert_eq!(seen(), Some(second.manifest.version));
    drop((new, newer));
    assert_eq!(seen(), None);
    assert_eq!(RealFs.list(&dir.path().join(DIR)).expect("listed").len(), 0);
}

#[test]
fn a_dead_reader_counts_for_nothing() {
    let (dir, _) = store();
    let folder = dir.path().join(DIR);
    std::fs::create_dir(&folder).expect("a directory");
    std::fs::write(folder.join("1-00000000-0"), b"0\n").expect("written");
    // One that lives and has not said anything yet will look at the manifest after this.
    let silent = RealFs
        .try_lock(&folder.join("2-00000000-0"))
        .expect("locks");
    assert!(silent.is_some());
    assert_eq!(oldest(&RealFs, dir.path()).expect("asked"), None);
    assert_eq!(RealFs.list(&folder).expect("listed"), ["2-00000000-0"]);
}

#[test]
fn a_commit_while_a_reader_registers_makes_it_begin_again() {
    let (dir, first) = store();
    let fs = FaultFs::default();
    let data = dir.path().to_path_buf();
    let version = first.manifest.version;
    // The writer commits and looks for readers: this one has not said its version yet.
    fs.before(Op::Write, "readers", move || {
        next(&data, &first);
        assert_eq!(oldest(&RealFs, &data).expect("asked"), None);
    });
    let fs: Arc<dyn Fs> = Arc::new(fs);
    let _reader = register(&fs, dir.path()).expect("registers");
    let seen = oldest(&RealFs, dir.path()).expect("asked");
    assert_eq!(
        seen,
        Some(version + 1),
        "a version is read that the writer took for unread"
    );
}

#[test]
fn a_place_without_a_store_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let error = register(&fs, dir.path()).expect_err("no store");
    assert!(matches!(error, Error::NotAStore { .. }), "{error}");
    assert_eq!(RealFs.list(dir.path()).expect("listed").len(), 0);
}
