//! The reserve: a file of zeros that keeps disk space back, released when the disk is full.
//!
//! # Invariants
//! 1. Writes of events never use it. While it is released, batches are refused as on a full disk,
//!    until it is restored.
//! 2. It is released only for work that frees space or ends well: dropping, detaching, retention,
//!    the seal before them, a stop, and the start of a writer.
//! 3. The store does not depend on its contents. A missing reserve is created as soon as the disk
//!    has space for it and a little more. On a disk that never had that space no batch is refused
//!    for it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::Shared;
use crate::env::Fs;
use crate::error::{Error, Kind, Result};

pub(crate) const FILE: &str = "RESERVE";
/// The reserve takes at most one part in this many of the disk.
const PART_OF_DISK: u64 = 16;

/// The reserve of a store.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    data: PathBuf,
    bytes: u64,
    is_there: AtomicBool,
    /// True while this process has released the reserve and not yet restored it.
    is_given_up: AtomicBool,
}

impl Reserve {
    /// Returns the reserve, of `bytes` at most; 0 means none. Writes nothing yet.
    pub(super) fn of(fs: &dyn Fs, data: &Path, bytes: u64) -> Self {
        let path = data.join(FILE);
        let total = fs.space(data).map_or(u64::MAX, |space| space.total);
        let bytes = bytes.min(total / PART_OF_DISK);
        let len = fs.open_read(&path).and_then(|file| file.len());
        Self {
            path,
            data: data.into(),
            bytes,
            is_there: AtomicBool::new(bytes == 0 || len.is_ok_and(|len| len >= bytes)),
            is_given_up: AtomicBool::new(false),
        }
    }

    /// Returns true while writes must be refused.
    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::SeqCst)
    }

    /// Releases the reserve. Returns whether there was one.
    #[expect(
        clippy::disallowed_methods,
        reason = "no file of the store: it is cut at once, since large files are freed little by little"
    )]
    pub(super) fn release(&self, fs: &dyn Fs) -> bool {
        if self.bytes == 0 || !fs.exists(&self.path) {
            return false;
        }
        self.is_there.store(false, Ordering::SeqCst);
        self.is_given_up.store(true, Ordering::SeqCst);
        let cut = fs.open(&self.path).and_then(|file| file.set_len(0));
        match cut.and_then(|()| fs.remove(&self.path)) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "could not release the disk reserve");
                false
            }
        }
    }

    /// Restores the reserve when there is enough disk space. Returns whether it is there now.
    #[expect(
        clippy::disallowed_methods,
        reason = "no file of the store: nothing in it is ever read"
    )]
    pub(super) fn restore(&self, fs: &dyn Fs) -> bool {
        if self.is_there.load(Ordering::SeqCst) {
            return true;
        }
        let enough = |free: u64| free >= self.bytes.saturating_add(self.bytes / 4);
        if !fs.space(&self.data).is_ok_and(|space| enough(space.free)) {
            return false;
        }
        let make = || {
            if fs.exists(&self.path) {
                fs.remove(&self.path)?;
            }
            fs.create_new(&self.path)?.allocate(self.bytes)
        };
        match make() {
            Ok(()) => {
                self.is_there.store(true, Ordering::SeqCst);
                self.is_given_up.store(false, Ordering::SeqCst);
            }
            Err(error) => {
                tracing::debug!(path = %self.path.display(), %error, "not enough disk space for the reserve");
                // Half a reserve would take space and protect nothing.
                let _ignored = fs.remove(&self.path);
            }
        }
        self.is_there.load(Ordering::SeqCst)
    }
}

impl Shared {
    /// Runs work that frees space or ends the store; when the disk is full, once more with the
    /// reserve released.
    pub(super) fn with_reserve<T>(&self, work: impl Fn() -> Result<T>) -> Result<T> {
        let outcome = work();
        let is_full = |error: &Error| error.kind() == Kind::DiskFull;
        if !outcome.as_ref().is_err_and(is_full)
            || self.syncer.poisoned().is_some()
            || !self.reserve.release(self.fs())
        {
            return outcome;
        }
        tracing::warn!("the disk is full; releasing the reserve for work that frees space");
        let outcome = work();
        self.reserve.restore(self.fs());
        outcome
    }
}

#[cfg(test)]
mod tests;
