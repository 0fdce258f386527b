//! The file over every flipped byte, every power cut and every failed call, on the simulated and
//! on the machine's own disk.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::*;
use crate::backup::backup;
use crate::env::{RealFs, SystemClock};
use crate::error::Error;
use crate::sim::{Image, SimFs};
use crate::store::{Options, Store};
use crate::testing::{FaultFs, Op};

const TEXT: &str = "{\"users\":[\"Zoë\"]}\nsecond line\n";

fn mode(path: &Path) -> u32 {
    let metadata = std::fs::metadata(path).expect("the file");
    metadata.permissions().mode() & 0o777
}

#[test]
fn a_store_keeps_the_last_text_and_begins_without_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path(), Options::default()).expect("opens");
    assert_eq!(store.access().expect("reads"), None);
    for text in ["", TEXT, "third"] {
        store.replace_access(text).expect("writes");
        assert_eq!(store.access().expect("reads").as_deref(), Some(text));
        assert_eq!(mode(&dir.path().join(FILE)), 0o600, "{text:?}");
    }
    store.close().expect("closes");
    let reader = Store::open_read_only(dir.path(), Options::default()).expect("opens");
    assert_eq!(reader.access().expect("reads").as_deref(), Some("third"));
    assert!(matches!(
        reader.replace_access("x"),
        Err(Error::ReadOnly { .. })
    ));
}

#[test]
fn a_changed_byte_is_damage_and_never_another_text() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join(FILE);
    replace(&RealFs, dir.path(), TEXT, 1).expect("writes");
    let whole = std::fs::read(&path).expect("the file");
    let is_damage = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("writes");
        matches!(read(&RealFs, dir.path()), Err(Error::Corrupt { .. }))
    };
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            assert!(is_damage(&bytes), "byte {at} bit {bit}");
        }
        assert!(is_damage(&whole[..at]), "cut at {at}");
    }
    assert!(is_damage(&[&whole[..], b"x"].concat()), "longer");
    assert!(!is_damage(&whole));
}

#[test]
fn check_reports_a_damaged_file_and_a_backup_refuses_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, copy) = (dir.path().join("data"), dir.path().join("copy"));
    let store = Store::open(&data, Options::default()).expect("opens");
    store.replace_access(TEXT).expect("writes");
    assert_eq!(crate::check::check(&store.snapshot()).damage, []);
    std::fs::write(data.join(FILE), "logmill access 1 00000000\nopen").expect("writes");
    let damage = crate::check::check(&store.snapshot()).damage;
    let damaged: Vec<PathBuf> = damage.into_iter().map(|(path, _)| path).collect();
    assert_eq!(damaged, [data.join(FILE)]);
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let refused = backup(&fs, &SystemClock, &data, &copy);
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
}

#[test]
fn a_backup_has_the_text_and_keeps_it_private() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, copy) = (dir.path().join("data"), dir.path().join("copy"));
    let store = Store::open(&data, Options::default()).expect("opens");
    store.replace_access(TEXT).expect("writes");
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    backup(&fs, &SystemClock, &data, &copy).expect("a backup");
    store.replace_access("later").expect("writes");
    assert_eq!(read(&RealFs, &copy).expect("reads").as_deref(), Some(TEXT));
    assert_eq!(mode(&copy.join(FILE)), 0o600);
    let restored = Store::open(&copy, Options::default()).expect("opens");
    assert_eq!(restored.access().expect("reads").as_deref(), Some(TEXT));
}

#[test]
fn a_failed_call_leaves_the_old_text_or_the_new_one() {
    for op in [Op::Create, Op::Write, Op::Sync, Op::Rename, Op::SyncDir] {
        let dir = tempfile::tempdir().expect("a directory");
        let fs = FaultFs::default();
        replace(&fs, dir.path(), "old", 1).expect("writes");
        fs.fail(op, "", ErrorKind::StorageFull, 1);
        assert!(replace(&fs, dir.path(), "new", 1).is_err(), "{op:?}");
        let found = read(&fs, dir.path()).expect("reads");
        let expected = if op == Op::SyncDir { "new" } else { "old" };
        assert_eq!(found.as_deref(), Some(expected), "{op:?}");
        replace(&fs, dir.path(), "newer", 2).expect("writes beside the rest of the failed one");
        assert_eq!(
            read(&fs, dir.path()).expect("reads").as_deref(),
            Some("newer")
        );
    }
}

#[test]
fn a_power_cut_leaves_one_whole_text_and_never_an_older_one_than_returned() {
    let data = Path::new("/data");
    let texts = ["first", TEXT, "a third text"];
    let fs = SimFs::new();
    fs.create_dir_all(data).expect("a directory");
    fs.sync_dir(Path::new("/")).expect("syncs");
    fs.keep_every(1);
    let mut returned = Vec::new();
    for text in texts {
        replace(&fs, data, text, 1).expect("writes");
        returned.push(fs.operations());
    }
    let (end, mut cuts) = (fs.operations(), fs.kept());
    assert!(cuts.len() > 3 * texts.len(), "a cut before each call");
    cuts.push((end, fs));
    let fixed = [
        Image::Nothing,
        Image::Everything,
        Image::Zeros,
        Image::NoNames,
        Image::NoContents,
    ];
    let seeds = (0..20).map(Image::Seed);
    let images: Vec<Image> = fixed.into_iter().chain(seeds).collect();
    for (operations, disk) in &cuts {
        // Texts that were written by then, and the one under way.
        let done = returned.iter().filter(|at| **at <= *operations).count();
        for image in &images {
            let found = read(&disk.crash(*image), data).expect("never damaged");
            let at = found
                .as_ref()
                .map(|found| texts.iter().position(|t| t == found));
            let at = at.map_or(0, |at| at.expect("one of the texts") + 1);
            assert!(
                at == done || at == done + 1,
                "before call {operations}, {image:?}: text {at} of {done} returned"
            );
        }
    }
}
