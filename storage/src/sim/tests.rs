use std::collections::BTreeSet;

use super::*;
use crate::env::Fs;

fn disk_with(names: &[&str]) -> SimFs {
    let fs = SimFs::new();
    fs.create_dir_all(Path::new("/d")).expect("made");
    fs.sync_dir(Path::new("/")).expect("synced");
    for name in names {
        let file = fs.create_new(&Path::new("/d").join(name)).expect("made");
        file.write_all_at(&[7; 2000], 0).expect("written");
        file.sync_data().expect("synced");
    }
    fs.sync_dir(Path::new("/d")).expect("synced");
    fs
}

#[test]
fn what_was_synced_survives_every_power_cut() {
    let fs = disk_with(&["a"]);
    let file = fs.open(Path::new("/d/a")).expect("opened");
    file.write_all_at(&[9; 1024], 4096).expect("written");
    for seed in 0..200 {
        let after = fs.crash(Image::Seed(seed));
        let bytes = after.read(Path::new("/d/a")).expect("there");
        assert_eq!(bytes[..2000], [7; 2000]);
    }
}

#[test]
fn what_was_not_synced_is_lost_torn_zeroed_or_kept() {
    let fs = disk_with(&["a"]);
    let file = fs.open(Path::new("/d/a")).expect("opened");
    file.write_all_at(&[9; 1024], 2048).expect("written");
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let bytes = fs.crash(Image::Seed(seed)).read(Path::new("/d/a"));
        let bytes = bytes.expect("there");
        let half = |at: usize| bytes.get(at..at + 512).map(|b| (b[0], b[511]));
        seen.insert((half(2048), half(2560)));
    }
    let (written, zero) = (Some((9, 9)), Some((0, 0)));
    for wanted in [
        (None, None),
        (written, written),
        (written, zero),
        (zero, written),
    ] {
        assert!(seen.contains(&wanted), "{wanted:?} of {seen:?}");
    }
}

#[test]
fn a_name_lasts_when_its_directory_is_synced_and_a_kill_loses_nothing() {
    let fs = disk_with(&["a"]);
    fs.rename(Path::new("/d/a"), Path::new("/d/b"))
        .expect("renamed");
    let after = fs.crash(Image::Nothing);
    assert!(after.exists(Path::new("/d/a")) && !after.exists(Path::new("/d/b")));
    let after = fs.kill();
    assert!(!after.exists(Path::new("/d/a")) && after.exists(Path::new("/d/b")));
    after.sync_dir(Path::new("/d")).expect("synced");
    let after = after.crash(Image::Nothing);
    assert!(!after.exists(Path::new("/d/a")) && after.exists(Path::new("/d/b")));
    assert!(fs.sync_dir(Path::new("/d")).is_err(), "it was killed");
}

#[test]
fn a_failed_sync_is_not_made_good_by_another() {
    let fs = disk_with(&["a"]);
    let file = fs.open(Path::new("/d/a")).expect("opened");
    file.write_all_at(&[9; 512], 2048).expect("written");
    fs.fail(Fault {
        call: Call::Sync,
        after: 0,
        forever: false,
        error: ErrorKind::Other,
    });
    assert!(file.sync_data().is_err());
    file.sync_data().expect("the kernel says so");
    assert_eq!(fs.read(Path::new("/d/a")).expect("read")[2048], 9);
    let after = fs.crash(Image::Everything);
    assert_eq!(after.read(Path::new("/d/a")).expect("read")[2048], 0);
}

#[test]
fn a_full_disk_takes_what_fits() {
    let fs = disk_with(&["a", "b"]);
    fs.set_capacity(Some(3 * 4096));
    let file = fs.open(Path::new("/d/a")).expect("opened");
    let error = file.write_all_at(&[9; 5000], 4000).expect_err("no room");
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!((file.len().expect("known"), fs.used()), (8192, 3 * 4096));
    fs.remove(Path::new("/d/b")).expect("removed");
    file.write_all_at(&[9; 5000], 4000)
        .expect("there is room again");
}

#[test]
fn what_was_cut_off_and_written_again_is_not_as_before() {
    let fs = disk_with(&["a"]);
    let file = fs.open(Path::new("/d/a")).expect("opened");
    file.set_len(600).expect("cut");
    file.write_all_at(&[9; 10], 1990).expect("written");
    let mut wanted = [7; 2000];
    wanted[600..].fill(0);
    wanted[1990..].fill(9);
    let read = |fs: &SimFs| fs.read(Path::new("/d/a")).expect("read");
    assert_eq!(read(&fs), wanted);
    assert_eq!(read(&fs.kill()), wanted);
    assert_eq!(read(&fs.crash(Image::Everything)), wanted);
    assert_eq!(read(&fs.crash(Image::Nothing)), [7; 2000]);
}

#[test]
fn a_disk_that_was_kept_is_as_it_was_before_that_operation() {
    let fs = disk_with(&["a"]);
    fs.keep_every(1);
    let first = fs.operations();
    let file = fs.open(Path::new("/d/a")).expect("opened");
    file.write_all_at(&[9; 10], 0).expect("written");
    file.sync_data().expect("synced");
    fs.remove(Path::new("/d/a")).expect("removed");
    let kept = fs.kept();
    let first_bytes = kept.iter().map(|(n, disk)| {
        let read = |image| disk.crash(image).read(Path::new("/d/a")).expect("there")[0];
        (*n, read(Image::Nothing), read(Image::Everything))
    });
    let wanted = [(first, 7, 7), (first + 1, 7, 9), (first + 2, 9, 9)];
    assert_eq!(first_bytes.collect::<Vec<_>>(), wanted);
}

#[test]
fn faults_wait_while_they_are_suspended() {
    let fs = disk_with(&["a"]);
    fs.fail(Fault {
        call: Call::Read,
        after: 0,
        forever: true,
        error: ErrorKind::Other,
    });
    assert!(fs.read(Path::new("/d/a")).is_err());
    fs.suspend(true);
    fs.read(Path::new("/d/a")).expect("read");
    fs.suspend(false);
    assert!(fs.read(Path::new("/d/a")).is_err());
}

#[test]
fn a_rename_across_directories_is_whole_and_durable_by_either_of_them() {
    let (from, to) = (Path::new("/d/a"), Path::new("/e/b"));
    let moved = || {
        let fs = disk_with(&["a"]);
        fs.create_dir_all(Path::new("/e")).expect("made");
        fs.sync_dir(Path::new("/")).expect("synced");
        assert!(fs.is_dir(Path::new("/e")) && !fs.is_dir(from));
        fs.rename(from, to).expect("renamed");
        fs
    };
    let mut seen = BTreeSet::new();
    for seed in 0..20 {
        let after = moved().crash(Image::Seed(seed));
        seen.insert((after.exists(from), after.exists(to)));
    }
    assert_eq!(seen, BTreeSet::from([(true, false), (false, true)]));
    for directory in ["/d", "/e"] {
        let fs = moved();
        fs.sync_dir(Path::new(directory)).expect("synced");
        for image in [Image::Nothing, Image::Everything, Image::Seed(1)] {
            let after = fs.crash(image);
            assert!(!after.exists(from) && after.exists(to), "{directory}");
        }
    }
}

#[test]
fn a_file_that_was_new_does_not_come_back_where_it_was_moved_from() {
    let fs = disk_with(&[]);
    fs.create_dir_all(Path::new("/e")).expect("made");
    fs.sync_dir(Path::new("/")).expect("synced");
    let (new, from, to) = (Path::new("/d/n"), Path::new("/d/a"), Path::new("/e/b"));
    fs.create_new(new).expect("made");
    fs.rename(new, from).expect("renamed");
    fs.rename(from, to).expect("renamed");
    fs.sync_dir(Path::new("/e")).expect("synced");
    let after = fs.crash(Image::Everything);
    assert!(!after.exists(new) && !after.exists(from) && after.exists(to));
}
