//! Opens files when this process has no descriptor left.
//!
//! A directory is opened before it is synced. When the open fails for want of a descriptor, no
//! sync was tried and nothing is lost. So the open is tried again, with descriptors that were
//! kept back for this case and with those that other threads close meanwhile.

use std::fs::File;
use std::io;
use std::sync::LazyLock;
use std::time::Duration;

use parking_lot::Mutex;

use crate::error::is_out_of_descriptors;

/// Number of descriptors kept back. They are used one at a time, so a few are enough.
const KEPT: usize = 4;
/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

static KEPT_BACK: LazyLock<Mutex<Vec<File>>> = LazyLock::new(|| Mutex::new(refilled(Vec::new())));

/// Begins to keep descriptors back, for the life of the process.
pub(super) fn keep_some_back() {
    LazyLock::force(&KEPT_BACK);
}

fn refilled(mut kept: Vec<File>) -> Vec<File> {
    while kept.len() < KEPT
        && let Ok(file) = File::open("/dev/null")
    {
        kept.push(file);
    }
    kept
}

/// Opens a file or directory. Without a descriptor it tries again up to `tries` times; any other
/// error is returned at once.
pub(super) fn open<T>(tries: usize, open: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let first = open();
    if !first.as_ref().err().is_some_and(is_out_of_descriptors) {
        return first;
    }
    tracing::warn!("no file descriptor is left, using a reserved one; raise `ulimit -n`");
    let mut back = KEPT_BACK.lock();
    let mut outcome = first;
    for _ in 0..tries {
        drop(back.pop());
        outcome = open();
        if !outcome.as_ref().err().is_some_and(is_out_of_descriptors) {
            break;
        }
        std::thread::sleep(RETRY_PAUSE);
    }
    *back = refilled(std::mem::take(&mut *back));
    outcome
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn out() -> io::Error {
        io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error())
    }

    #[test]
    fn want_of_a_descriptor_is_tried_again() {
        let tried = Cell::new(0);
        let outcome = open(9, || {
            tried.set(tried.get() + 1);
            if tried.get() < 5 { Err(out()) } else { Ok(7) }
        });
        assert_eq!((outcome.expect("opened"), tried.get()), (7, 5));
        assert_eq!(KEPT_BACK.lock().len(), KEPT, "kept back again");
    }

    #[test]
    fn other_errors_are_not_and_no_try_is_the_last() {
        for (error, tries) in [(io::ErrorKind::NotFound.into(), 1), (out(), 4)] {
            let (tried, error) = (Cell::new(0), Cell::new(Some(error)));
            let outcome: io::Result<()> = open(3, || {
                tried.set(tried.get() + 1);
                Err(error.take().unwrap_or_else(out))
            });
            assert!(outcome.is_err());
            assert_eq!(tried.get(), tries);
        }
    }
}
