//! A simulated disk: what it has not synced it may lose, tear, zero or reorder when the power fails.
//!
//! Two layers. The *volatile* one is what a process reads: contents and names as last written. The
//! *durable* one is what was synced: contents by [`FsFile::sync_data`], names by [`Fs::sync_dir`] on
//! their directory. [`SimFs::kill`] ends the process and keeps the volatile layer; [`SimFs::crash`]
//! ends the power and makes of both layers one disk, as an [`Image`] says.
//!
//! # Invariants
//! 1. A sector of 512 bytes that no unsynced write has touched survives as it is. One that was
//!    touched may be as before, as written, zeros or garbage, the synced bytes in it included.
//! 2. Each unsynced change of a directory survives or not, independently of the others and of the
//!    file's contents. A rename is one change, durable once the directory of either name is synced.
//! 3. After a failed sync the contents stay readable and never become durable by a later sync: the
//!    kernel has marked the pages as clean.
//! 4. Every decision follows from the image's seed, the file's number and the sector's: the same
//!    calls and the same image give the same disk.

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

/// The kinds of calls that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Any of those below but reading.
    Any,
    /// Creating a file or a directory.
    Create,
    /// Writing.
    Write,
    /// Setting the length.
    SetLen,
    /// Syncing a file.
    Sync,
    /// Syncing a directory.
    SyncDir,
    /// Renaming.
    Rename,
    /// Removing a file or a directory.
    Remove,
    /// Opening for reading, reading, and listing a directory.
    Read,
}

/// A call that fails.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// Which kind of call.
    pub call: Call,
    /// How many such calls succeed before, from now on.
    pub after: u64,
    /// Whether all later ones fail too.
    pub forever: bool,
    /// What they fail with. A write that fails for want of room, or with
    /// [`ErrorKind::WriteZero`], has written half of its bytes.
    pub error: ErrorKind,
}

/// What a power cut leaves of what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Image {
    /// Nothing: the durable layer alone.
    Nothing,
    /// Everything, as if it had been synced.
    Everything,
    /// All names and all lengths, but zeros where contents were not synced.
    Zeros,
    /// All contents, but no name whose directory was not synced.
    NoNames,
    /// All names, but no contents that were not synced.
    NoContents,
    /// A mixture, by this seed.
    Seed(u64),
}

#[derive(Debug, Default)]
struct State {
    disk: Disk,
    locks: BTreeSet<u64>,
    faults: Vec<Fault>,
    operations: u64,
    /// The operation before which everything stops.
    halt_at: Option<u64>,
    halted: bool,
    failed: bool,
    /// Faults wait.
    suspended: bool,
    /// Which operations the disk is kept before: each that this divides.
    keep_every: Option<u64>,
    kept: Vec<(u64, Disk)>,
    /// Writes to paths with this in them wait.
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
    /// An empty disk without limit.
    pub fn new() -> Self {
        Self::default()
    }

    fn of(disk: Disk) -> Self {
        let fs = Self::new();
        fs.shared.0.lock().disk = disk;
        fs
    }

    /// How many calls have changed or synced something, or have tried to.
    pub fn operations(&self) -> u64 {
        self.shared.0.lock().operations
    }

    /// Stops everything before the operation with this number, counted from 0: from then on each call
    /// fails and changes nothing, as for a process that is no more.
    pub fn halt_at(&self, operation: u64) {
        self.shared.0.lock().halt_at = Some(operation);
    }

    /// Whether everything has stopped.
    pub fn halted(&self) -> bool {
        self.shared.0.lock().halted
    }

    /// Makes a call fail.
    pub fn fail(&self, fault: Fault) {
        self.shared.0.lock().faults.push(fault);
    }

    /// Takes all faults back.
    pub fn mend(&self) {
        self.shared.0.lock().faults.clear();
    }

    /// Lets faults wait while somebody looks who is not part of the process, or takes that back.
    pub fn suspend(&self, suspended: bool) {
        self.shared.0.lock().suspended = suspended;
    }

    /// Sets the size of the disk, bytes; `None` for no limit. Names take no room.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.0.lock().disk.capacity = bytes;
    }

    /// The size of the disk.
    pub fn capacity(&self) -> Option<u64> {
        self.shared.0.lock().disk.capacity
    }

    /// Keeps the disk as it is before every n-th operation from now on, for [`SimFs::kept`].
    pub fn keep_every(&self, n: u64) {
        self.shared.0.lock().keep_every = Some(n);
    }

    /// The disks that were kept, each with the number of operations before it.
    pub fn kept(&self) -> Vec<(u64, Self)> {
        let kept = std::mem::take(&mut self.shared.0.lock().kept);
        kept.into_iter()
            .map(|(n, disk)| (n, Self::of(disk)))
            .collect()
    }

    /// Bytes of the blocks that are in use.
    pub fn used(&self) -> u64 {
        self.shared.0.lock().disk.used()
    }

    /// Writes down each operation from now on, for [`SimFs::log`].
    pub fn record(&self) {
        self.shared.0.lock().log = Some(Vec::new());
    }

    /// What was written down.
    pub fn log(&self) -> Vec<(Call, PathBuf)> {
        self.shared.0.lock().log.clone().unwrap_or_default()
    }

    /// Lets writes to paths with `path_part` in them wait, until [`SimFs::release`].
    pub fn hold_writes(&self, path_part: &str) {
        self.shared.0.lock().held = Some(path_part.to_owned());
    }

    /// Whether a write waits.
    pub fn is_held(&self) -> bool {
        self.shared.0.lock().waiting > 0
    }

    /// Whether a call has failed as [`SimFs::fail`] asked for.
    pub fn failed(&self) -> bool {
        self.shared.0.lock().failed
    }

    /// Lets writes go on.
    pub fn release(&self) {
        self.shared.0.lock().held = None;
        self.shared.1.notify_all();
    }

    /// The disk as the next process finds it when this one is killed: nothing is lost. This one's
    /// calls fail from now on.
    pub fn kill(&self) -> Self {
        let mut state = self.shared.0.lock();
        self.halt(&mut state);
        let mut disk = state.disk.clone();
        disk.forget_unnamed();
        Self::of(disk)
    }

    /// The disk as it is found after a power cut. This one's calls fail from now on; it can be asked
    /// for other images.
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

    /// Counts a call, and says whether it fails.
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
                // It has run out: this is never counted down to 0.
                fault.after = u64::MAX;
            }
        }
        self.failed |= error.is_some();
        error
    }
}

/// What a call of a process gets that was killed.
fn gone() -> io::Error {
    io::Error::other("the process is no more")
}

#[cfg(test)]
mod tests;
