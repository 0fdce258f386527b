//! Names of the files that a manifest lists: parts, tiles and checkpoints of identities.
//!
//! A name is `{epoch:08x}-{number:016x}` with an ending. The epoch is that of the writer which
//! gives the name ([`Manifest::writer_epoch`]), the number comes from `next_file` of the
//! manifest. A name of a number alone is read as one of epoch 0.
//!
//! # Invariants
//! 1. No two writers ever give one name, so no name ever stands for different bytes:
//!    * A writer takes the epoch after that of the manifest which it opened, and commits a
//!      version with that epoch before it names a file (`store/open.rs`; a repair does the same).
//!      Of several writers that open the same version one commits, and the others stop.
//!    * A rebuild of the manifest has no version to commit first. It takes the epoch after the
//!      highest one in any file, so an attempt that was cut short is counted by the files that
//!      it has left.
//!    * A writer gives each number once.
//! 2. An orphan, a file that no manifest lists, is never confused with a later file, which has a
//!    higher epoch. The orphan may be moved to the trash, or be removed by its own writer, at
//!    any time. A file of an epoch below that of the newest manifest stays an orphan: its writer
//!    cannot commit any more. Neither clocks nor the ages of files decide that.
//! 3. Among the files of manifests a higher number is a later file: `next_file` never falls, and
//!    numbers of files that were not committed are given again, in a higher epoch.
//!
//! Files that are named otherwise: the copy of a live part in the folder of a detached partition
//! keeps the part's name and is the same file; an index has the name of its part's number and
//! checksum (`index.rs`); segments of the journal and versions of the manifest have numbers alone
//! and appear only where no file is (`store/lock.rs`).

use std::fmt;

use crate::manifest::Manifest;

/// Epoch and number of a file, as its name has them. Files that were committed are ordered by the
/// time at which they were named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId {
    pub(crate) epoch: u32,
    pub(crate) number: u64,
}

impl FileId {
    /// Returns the id in the name of a file at this path; `None` for names without one.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        Self::parse(name.split('.').next().unwrap_or(name))
    }

    /// Parses a name without its ending.
    pub(crate) fn parse(stem: &str) -> Option<Self> {
        let (epoch, number) = stem.split_once('-').unwrap_or(("0", stem));
        let id = Self {
            epoch: u32::try_from(digits(epoch)?).ok()?,
            number: digits(number)?,
        };
        id.is_assignable().then_some(id)
    }

    /// Checks that the store can have got this far: its next epochs and numbers exist.
    pub(crate) fn is_assignable(self) -> bool {
        self.epoch < 1 << 31 && self.number < 1 << 62
    }
}

impl Manifest {
    /// Returns the id of the next file of the writer of this version.
    pub(crate) fn next_file_id(&self) -> FileId {
        FileId {
            epoch: self.writer_epoch,
            number: self.next_file,
        }
    }

    /// Returns a new file id, for a repair, which is a writer of one thread.
    pub(crate) fn new_file(&mut self) -> FileId {
        let id = self.next_file_id();
        self.next_file += 1;
        id
    }
}

/// Parses hexadecimal digits, without the sign that the standard library accepts.
fn digits(text: &str) -> Option<u64> {
    let is_hex = text.bytes().all(|b| b.is_ascii_hexdigit());
    is_hex.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{:016x}", self.epoch, self.number)
    }
}

#[cfg(test)]
mod tests;
