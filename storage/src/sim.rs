//! A simulated disk: when the power fails it may lose, tear, zero or reorder unsynced data.
//!
//! The disk has two layers. The *volatile* one is the view of a process: contents and names as last
//! written. The *durable* one is the synced state: contents by [`FsFile::sync_data`], names by
//! [`Fs::sync_dir`] on their directory. [`SimFs::kill`] ends the process and keeps the volatile
//! layer; [`SimFs::crash`] cuts the power and combines both layers into one disk according to an
//! [`Image`].
//!
//! # Invariants
//! 1. A sector of 512 bytes that no unsynced write has touched survives unchanged. A touched
//!    sector may have its old content, the new one, zeros or garbage, including the synced bytes
//!    in it.
//! 2. Each unsynced change of a directory survives or not, independently of the others and of the
//!    file's contents. A rename is one change, durable once the directory of either name is
//!    synced.
//! 3. After a failed sync the contents stay readable and never become durable by a later sync:
//!    the kernel has marked the pages as clean.
//! 4. Every decision follows from the image's seed, the file's number and the sector's: the same
//!    calls and the same image result in the same disk.

mod calls;
mod disk;
mod random;

pub use random::Random;

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use disk::Disk;

/// Kind of a call that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Any of the kinds below except reading.
    Any,
    /// Creation of a file or a directory.
    Create,
    /// Write to a file.
    Write,
    /// Change of a file's length.
    SetLen,
    /// Sync of a file.
    Sync,
    /// Sync of a directory.
    SyncDir,
    /// Rename of a file.
    Rename,
    /// Removal of a file or a directory.
    Remove,
    /// Opening for reading, reading, and listing of a directory.
    Read,
}

/// A rule by which calls fail.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// Kind of the calls.
    pub call: Call,
    /// Number of such calls that succeed before, from now on.
    pub after: u64,
    /// True when all later ones fail too.
    pub forever: bool,
    /// Error of the failing calls. A write that fails with a full disk, or with
    /// [`ErrorKind::WriteZero`], has written half of its bytes.
    pub error: ErrorKind,
}

/// Fate of unsynced data in a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Image {
    /// Nothing survives: the disk has the durable layer only.
    Nothing,
    /// Everything survives, as if it had been synced.
    Everything,
    /// All names and lengths survive, but unsynced contents are zeros.
    Zeros,
    /// All contents survive, but no name whose directory was not synced.
    NoNames,
    /// All names survive, but no unsynced contents.
    NoContents,
    /// A random mixture from this seed.
    Seed(u64),
}

#[derive(Debug, Default)]
struct State {
    disk: Disk,
    locks: BTreeSet<u64>,
    faults: Vec<Fault>,
    operations: u64,
    /// Operation before which everything stops.
    halt_at: Option<u64>,
    halted: bool,
    failed: bool,
    /// True while faults are suspended.
    suspended: bool,
    /// Interval of operations at which a copy of the disk is kept.
    keep_every: Option<u64>,
    kept: Vec<(u64, Disk)>,
    /// Writes to paths with this text in them wait.
    held: Option<String>,
    waiting: usize,
    log: Option<Vec<(Call, PathBuf)>>,
}

/// An in-memory disk. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct SimFs {
    shared: Arc<(Mutex<State>, Condvar)>,
}

impl SimFs {
    /// Returns an empty disk without a limit.
    pub fn new() -> Self {
        Self::default()
    }

    fn of(disk: Disk) -> Self {
        let fs = Self::new();
        fs.shared.0.lock().disk = disk;
        fs
    }

    /// Returns how many calls have changed or synced something, or have tried to.
    pub fn operations(&self) -> u64 {
        self.shared.0.lock().operations
    }

    /// Stops everything before the operation with this number, counted from 0: from then on each
    /// call fails and changes nothing, as for a process that has ended.
    pub fn halt_at(&self, operation: u64) {
        self.shared.0.lock().halt_at = Some(operation);
    }

    /// Returns true when everything has stopped.
    pub fn halted(&self) -> bool {
        self.shared.0.lock().halted
    }

    /// Adds a rule by which calls fail.
    pub fn fail(&self, fault: Fault) {
        self.shared.0.lock().faults.push(fault);
    }

    /// Removes all faults.
    pub fn mend(&self) {
        self.shared.0.lock().faults.clear();
    }

    /// Suspends faults while a check from outside the process reads the disk, or resumes them.
    pub fn suspend(&self, suspended: bool) {
        self.shared.0.lock().suspended = suspended;
    }

    /// Sets the size of the disk, bytes; `None` for no limit. Names take no space.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.0.lock().disk.capacity = bytes;
    }

    /// Returns the size of the disk, bytes.
    pub fn capacity(&self) -> Option<u64> {
        self.shared.0.lock().disk.capacity
    }

    /// Keeps a copy of the disk before every n-th operation from now on, for [`SimFs::kept`].
    pub fn keep_every(&self, n: u64) {
        self.shared.0.lock().keep_every = Some(n);
    }

    /// Returns the copies that were kept, each with the number of operations before it.
    pub fn kept(&self) -> Vec<(u64, Self)> {
        let kept = std::mem::take(&mut self.shared.0.lock().kept);
        kept.into_iter()
            .map(|(n, disk)| (n, Self::of(disk)))
            .collect()
    }

    /// Returns the bytes of the blocks in use.
    pub fn used(&self) -> u64 {
        self.shared.0.lock().disk.used()
    }

    /// Records each operation from now on, for [`SimFs::log`].
    pub fn record(&self) {
        self.shared.0.lock().log = Some(Vec::new());
    }

    /// Returns the recorded operations.
    pub fn log(&self) -> Vec<(Call, PathBuf)> {
        self.shared.0.lock().log.clone().unwrap_or_default()
    }

    /// Makes writes to paths with `path_part` in them wait until [`SimFs::release`].
    pub fn hold_writes(&self, path_part: &str) {
        self.shared.0.lock().held = Some(path_part.to_owned());
    }

    /// Returns true while a write waits.
    pub fn is_held(&self) -> bool {
        self.shared.0.lock().waiting > 0
    }

    /// Returns true when a call has failed by [`SimFs::fail`].
    pub fn failed(&self) -> bool {
        self.shared.0.lock().failed
    }

    /// Lets the waiting writes continue.
    pub fn release(&self) {
        self.shared.0.lock().held = None;
        self.shared.1.notify_all();
    }

    /// Returns the disk as the next process finds it when this one is killed: nothing is lost.
    /// All later calls on this disk fail.
    pub fn kill(&self) -> Self {
        let mut state = self.shared.0.lock();
        self.halt(&mut state);
        let mut disk = state.disk.clone();
        disk.forget_unnamed();
        Self::of(disk)
    }

    /// Returns the disk as it is after a power cut. All later calls on this disk fail, but
    /// further images can be taken of it.
    pub fn crash(&self, image: Image) -> Self {
        let mut state = self.shared.0.lock();
        self.halt(&mut state);
        Self::of(state.disk.after_power_cut(image))
    }

    fn halt(&self, state: &mut State) {
        state.halted = true;
        state.held = None;
        self.shared.1.notify_all();
    }

    /// Counts a call and returns its error if it is to fail.
    fn call(&self, state: &mut State, call: Call, path: &Path) -> io::Result<()> {
        if call != Call::Read {
            if state.halt_at.is_some_and(|at| state.operations >= at) {
                self.halt(state);
            }
            if !state.halted {
                state.count(call, path);
            }
        }
        if state.halted {
            return Err(gone());
        }
        state.fault(call).map_or(Ok(()), |kind| Err(kind.into()))
    }
}

impl State {
    fn count(&mut self, call: Call, path: &Path) {
        if self
            .keep_every
            .is_some_and(|n| self.operations.is_multiple_of(n))
        {
            self.kept.push((self.operations, self.disk.clone()));
        }
        self.operations += 1;
        if let Some(log) = &mut self.log {
            log.push((call, path.into()));
        }
    }

    fn fault(&mut self, call: Call) -> Option<ErrorKind> {
        if self.suspended {
            return None;
        }
        let mut error = None;
        for fault in &mut self.faults {
            if fault.call != call && (fault.call != Call::Any || call == Call::Read) {
                continue;
            }
            if fault.after > 0 {
                fault.after -= 1;
                continue;
            }
            error = Some(fault.error);
            if !fault.forever {
                // A fault that fired once is disabled: this count never reaches 0.
                fault.after = u64::MAX;
            }
        }
        self.failed |= error.is_some();
        error
    }
}

/// Returns the error of every call of a process that was killed.
fn gone() -> io::Error {
    io::Error::other("the process is no more")
}

#[cfg(test)]
mod tests;
