//! Directories: their size, cheap copies, and the page cache.

use std::fs::{DirEntry, File};
use std::path::Path;

use rustix::fs::{Advice, fadvise};

fn entries(dir: &Path) -> Vec<DirEntry> {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    entries.map(|e| e.expect("an entry")).collect()
}

fn is_dir(entry: &DirEntry) -> bool {
    entry.file_type().expect("a type").is_dir()
}

/// Returns the bytes of all files below.
pub(crate) fn bytes(dir: &Path) -> u64 {
    let of = |e: &DirEntry| {
        if is_dir(e) {
            bytes(&e.path())
        } else {
            e.metadata().expect("a length").len()
        }
    };
    entries(dir).iter().map(of).sum()
}

/// Makes a second tree of names for the same files. A store never changes a file that it has
/// finished: it replaces it, so the first tree stays as it was.
pub(crate) fn link(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in entries(from) {
        let into = to.join(entry.file_name());
        if is_dir(&entry) {
            link(&entry.path(), &into);
        } else {
            std::fs::hard_link(entry.path(), &into).expect("linked");
        }
    }
}

/// Takes the files below out of the page cache.
pub(crate) fn forget(dir: &Path) {
    for entry in entries(dir) {
        if is_dir(&entry) {
            forget(&entry.path());
        } else {
            let file = File::open(entry.path()).expect("opened");
            // Only what is on disk can be dropped.
            file.sync_all().expect("synced");
            fadvise(&file, 0, None, Advice::DontNeed).expect("advised");
        }
    }
}
