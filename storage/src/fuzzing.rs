//! Targets of the fuzzer: files of a store as a stranger may have written them.
//!
//! Each target takes any bytes, gives them the checksums that their reader compares first, reads
//! them, and panics if the result breaks a rule of its format. A target is a file `fuzzing.rs` of
//! the module whose reader it calls. Targets exist in fuzz builds (`tests/fuzz`) and in the tests
//! of this crate, which replay the corpora.

#![allow(
    clippy::disallowed_methods,
    reason = "targets arrange files on a simulated disk"
)]

mod backup;
mod small_files;

pub use crate::detached::fuzzing::detached_card;
pub use crate::identity::fuzzing::identities;
pub use crate::index::index_file;
pub use crate::journal::fuzzing::journal_segment;
pub use crate::manifest::fuzzing::manifest;
pub use crate::part::fuzzing::part;
pub use crate::record::fuzzing::journal_record;
pub use backup::backup;
pub use small_files::small_files;

use std::path::Path;
use std::sync::Once;

use crate::env::Fs;
use crate::sim::SimFs;

/// Data directory of the targets.
pub(crate) const DATA: &str = "/data";
/// Id of their store.
pub(crate) const STORE: &str = "0123456789abcdef0123456789abcdef";

/// Returns a disk with these files below [`DATA`].
pub(crate) fn disk(files: &[(&str, &[u8])]) -> SimFs {
    let fs = SimFs::new();
    fs.create_dir_all(Path::new(DATA)).expect("created");
    for (path, bytes) in files {
        put(&fs, path, bytes);
    }
    fs
}

/// Writes a file below [`DATA`], in the place of one that may be there.
pub(crate) fn put(fs: &SimFs, path: &str, bytes: &[u8]) {
    let path = Path::new(DATA).join(path);
    let folder = path.parent().expect("a file lies in a folder");
    fs.create_dir_all(folder).expect("created");
    if fs.exists(&path) {
        fs.remove(&path).expect("removed");
    }
    let file = fs.create_new(&path).expect("created");
    file.write_all_at(bytes, 0).expect("written");
}

/// Splits off the first byte, which chooses a variant of the target; 0 without one.
pub(crate) fn choice(bytes: &[u8]) -> (u8, &[u8]) {
    let split = bytes.split_first();
    split.map_or((0, bytes), |(first, rest)| (*first, rest))
}

/// Lets the Parquet reader panic, as `read_part` does: libFuzzer ends the process at any panic
/// unless its hook is replaced. A panic that reaches the target ends it all the same.
pub(crate) fn allow_caught_panics() {
    static HOOK: Once = Once::new();
    if cfg!(fuzzing) {
        HOOK.call_once(|| {
            std::panic::set_hook(Box::new(|panic| {
                let file = panic.location().map_or("", |place| place.file());
                if !file.contains("/parquet-") && !file.contains("/arrow-") {
                    eprintln!("{panic}");
                }
            }));
        });
    }
}

#[cfg(test)]
mod tests;
