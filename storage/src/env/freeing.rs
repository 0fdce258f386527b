//! Frees the blocks of large files piece by piece.
//!
//! A file system frees the blocks of a file within one of its transactions, and a sync of another
//! file waits for it: 35 to 50 ms for a segment of 64 MiB on ext4 with `discard`. So the name is
//! removed at once, and a thread truncates the file piece by piece.
//!
//! # Invariants
//! Only a file without a name is truncated. A second name (of a backup, of a detached partition)
//! keeps it whole. After a crash the file system itself frees files without a name.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;

/// Bytes truncated in one step, which takes about a millisecond.
const PIECE: u64 = 1 << 20;
/// Size up to which a file is freed in one step.
const SMALL: u64 = 4 * PIECE;
/// Pause between two steps, in which other files are synced.
const PAUSE: Duration = Duration::from_millis(2);
/// Bytes in the queue past which a file is freed at once: disk space is needed sooner than steps
/// return it.
const WAITING_MAX: u64 = 1 << 30;

static WAITING: AtomicU64 = AtomicU64::new(0);

static FILES: LazyLock<Option<Mutex<Sender<File>>>> = LazyLock::new(|| {
    let (sender, files) = channel();
    let thread = std::thread::Builder::new().name("logmill-freeing".into());
    let started = thread.spawn(move || files.into_iter().for_each(|file| free(&file)));
    started.is_ok().then(|| Mutex::new(sender))
});

/// Removes a file. The blocks of a large one are freed in the background.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let is_large = path.symlink_metadata()?.len() > SMALL;
    // A file that cannot be opened can still be removed.
    let file = is_large.then(|| OpenOptions::new().write(true).open(path).ok());
    std::fs::remove_file(path)?;
    if let Some(file) = file.flatten()
        && let Ok(metadata) = file.metadata()
        && metadata.is_file()
        && metadata.nlink() == 0
        && WAITING.load(Ordering::Relaxed) < WAITING_MAX
        && let Some(files) = &*FILES
    {
        WAITING.fetch_add(metadata.len(), Ordering::Relaxed);
        // If the thread has ended, the file is closed here, which frees it too.
        let _ignored = files.lock().send(file);
    }
    Ok(())
}

fn free(file: &File) {
    let len = file.metadata().map_or(0, |m| m.len());
    let mut left = len;
    while left > 0 {
        left = left.saturating_sub(PIECE);
        if file.set_len(left).is_err() {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    WAITING.fetch_sub(len, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn file(path: &Path, len: u64) -> File {
        std::fs::write(path, vec![7; len as usize]).expect("written");
        File::open(path).expect("opened")
    }

    #[test]
    fn a_large_file_loses_its_name_at_once_and_its_bytes_soon() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("large");
        let seen = file(&path, 3 * SMALL);
        remove(&path).expect("removed");
        assert!(!path.exists());
        let began = Instant::now();
        while seen.metadata().expect("open").len() > 0 {
            assert!(began.elapsed() < Duration::from_secs(20), "still there");
            std::thread::sleep(PAUSE);
        }
    }

    #[test]
    fn what_has_another_name_stays_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, other) = (dir.path().join("large"), dir.path().join("other"));
        drop(file(&path, 2 * SMALL));
        std::fs::hard_link(&path, &other).expect("linked");
        remove(&path).expect("removed");
        // Files are freed in turn: once the last is free, the first would be.
        let last = dir.path().join("last");
        let seen = file(&last, 2 * SMALL);
        remove(&last).expect("removed");
        while seen.metadata().expect("open").len() > 0 {
            std::thread::sleep(PAUSE);
        }
        let whole = std::fs::read(&other).expect("read");
        assert_eq!(whole, vec![7; (2 * SMALL) as usize]);
    }

    #[test]
    fn a_file_that_is_not_there_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let error = remove(&dir.path().join("none")).expect_err("none");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
