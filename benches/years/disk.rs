//! Directories: their size on the disk, and whole copies.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

fn each(dir: &Path, see: &mut dyn FnMut(&Path)) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            each(&path, see);
        } else {
            see(&path);
        }
    }
}

/// Returns the disk use of all files below, bytes, as `du` reports it.
pub(crate) fn taken(dir: &Path) -> u64 {
    let mut bytes = 0;
    each(dir, &mut |path| {
        bytes += path.metadata().expect("a length").blocks() * 512;
    });
    bytes
}

/// Makes a tree of its own with the same bytes.
pub(crate) fn copy(from: &Path, to: &Path) {
    each(from, &mut |path| {
        let into = to.join(path.strip_prefix(from).expect("BUG: it lies below"));
        std::fs::create_dir_all(into.parent().expect("a folder")).expect("a directory");
        std::fs::copy(path, into).expect("copied");
    });
}
