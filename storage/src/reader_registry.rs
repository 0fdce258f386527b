//! Readers in other processes: the files that they read are not deleted.
//!
//! A reader holds the lock of a file `readers/<name>`. The file contains, each as sixteen
//! hexadecimal digits and a line feed: the time of registration (microseconds since 1970), the
//! manifest version that the reader uses, and, once it has read manifest and journal, that
//! manifest's `next_file`.
//!
//! # Invariants
//! 1. A reader first writes its version and then checks which manifest is the newest; a writer
//!    first commits and then reads the registrations. So either the writer sees the reader's
//!    version, or the reader sees the writer's and starts again.
//! 2. A reader holds the files of its own version and nothing newer. Without the third line it
//!    holds every file that was released since its version. With that line it holds only files
//!    with a number below `next_file`, and no journal, which it has in memory.
//! 3. No reader holds files for ever: a dead reader holds no lock, and a registration older than
//!    [`AGE_MAX_US`] is ignored.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::env::{Fs, FsFile, Guard, IoContext};
use crate::error::{Error, Result};
use crate::file_id::FileId;
use crate::journal;
use crate::manifest::{self, Manifest, Pending, newest_version};

const DIR: &str = "readers";
/// Number of commits in a row against which a reader may lose the race before it fails.
const TRIES: usize = 1000;
/// Age from which the files of a reader may be deleted: a process that hangs must not fill the
/// disk.
const AGE_MAX_US: i64 = 24 * 3600 * 1_000_000;
/// Bytes of a line: sixteen digits and a line feed.
const LINE: usize = 17;

/// The files that one reader protects from deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hold {
    /// Manifest version that the reader uses.
    pub(crate) version: u64,
    /// The `next_file` of that manifest, once the reader needs nothing but files below it.
    pub(crate) next_file: Option<u64>,
}

impl Hold {
    /// Returns the hold of a reader in this process: it has its memtable and needs no journal.
    pub(crate) fn of(manifest: &Manifest) -> Self {
        Self {
            version: manifest.version,
            next_file: Some(manifest.next_file),
        }
    }

    /// Checks whether the reader may still open the file.
    pub(crate) fn needs(&self, pending: &Pending) -> bool {
        let referred = pending.since > self.version;
        let there_then = self.next_file.is_none_or(|end| {
            !pending.path.starts_with(journal::DIR) && file_number(&pending.path) < end
        });
        referred && there_then
    }
}

/// Returns the number in the name of a part, a tile or a checkpoint; 0 for names without one,
/// which every reader may need.
fn file_number(path: &str) -> u64 {
    FileId::of_path(path).map_or(0, |id| id.number)
}

/// The registration of a reader with its manifest version; removed when dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    fs: Arc<dyn Fs>,
    file: Box<dyn FsFile>,
    path: PathBuf,
    _lock: Box<dyn Guard>,
}

impl Registration {
    /// Records that manifest and journal are read: from now on the reader needs only files that
    /// `manifest` lists. `manifest` is of the registered version or a later one.
    pub(crate) fn loaded(&self, manifest: &Manifest) -> Result<()> {
        // The version stays as registered: a writer may be reading that line.
        self.file
            .write_all_at(line(manifest.next_file).as_bytes(), 2 * LINE as u64)
            .at("write", &self.path)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // A writer removes the file otherwise: without its lock it has no effect.
        let _ignored = self.fs.remove(&self.path);
    }
}

fn line(number: u64) -> String {
    format!("{number:016x}\n")
}

/// Registers a reader of the newest version. `now_us` is the time, microseconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "a registration says something of a living process and need not outlive it"
)]
pub(crate) fn register(fs: &Arc<dyn Fs>, data: &Path, now_us: i64) -> Result<Registration> {
    let dir = data.join(DIR);
    let Some(mut version) = newest_version(&**fs, data)? else {
        return Err(manifest::absent(&**fs, data));
    };
    fs.create_dir_all(&dir).at("create directory", &dir)?;
    for attempt in 0..TRIES {
        let path = dir.join(format!(
            "{}-{:08x}-{attempt}",
            std::process::id(),
            rand::random::<u32>()
        ));
        let Some(lock) = fs.try_lock(&path).at("lock", &path)? else {
            continue;
        };
        // A writer that found the file before its lock was taken has removed it.
        let Ok(file) = fs.open(&path) else { continue };
        let registration = Registration {
            fs: Arc::clone(fs),
            file,
            path,
            _lock: lock,
        };
        let text = line(u64::try_from(now_us).unwrap_or(0)) + &line(version);
        registration
            .file
            .write_all_at(text.as_bytes(), 0)
            .at("write", &registration.path)?;
        let newest = newest_version(&**fs, data)?.unwrap_or(version);
        if newest == version && fs.exists(&registration.path) {
            return Ok(registration);
        }
        version = newest;
    }
    Err(Error::Overloaded {
        what: format!("the manifest changed {TRIES} times while a reader registered"),
    })
}

/// Returns the holds of live readers in other processes, and removes the files of dead readers.
pub(crate) fn holds(fs: &dyn Fs, data: &Path, now_us: i64) -> Result<Vec<Hold>> {
    let dir = data.join(DIR);
    let mut holds = Vec::new();
    if !fs.exists(&dir) {
        return Ok(holds);
    }
    for name in fs.list(&dir).at("list", &dir)? {
        let path = dir.join(name);
        if !fs.exists(&path) {
            continue;
        }
        if let Some(lock) = fs.try_lock(&path).at("lock", &path)? {
            // The file may have been removed by its reader. The lock is held until here: a reader
            // that is about to take it must find its file gone.
            let _ignored = fs.remove(&path);
            drop(lock);
            continue;
        }
        let text = match fs.read(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            // A hold that cannot be read must not be ignored: its reader is alive.
            other => other.at("read", &path)?,
        };
        // A live reader that has not written its version yet will check the manifest after this.
        holds.extend(read_hold(&text, now_us));
    }
    Ok(holds)
}

fn read_hold(bytes: &[u8], now_us: i64) -> Option<Hold> {
    let text = std::str::from_utf8(bytes).ok()?;
    // Accept whole lines only: half a number would be another number.
    let number = |i: usize| {
        let line = text.get(i * LINE..(i + 1) * LINE)?;
        u64::from_str_radix(line.strip_suffix('\n')?, 16).ok()
    };
    let hold = Hold {
        version: number(1)?,
        next_file: number(2),
    };
    let since_us = i64::try_from(number(0)?).unwrap_or(i64::MAX);
    (now_us.saturating_sub(since_us) <= AGE_MAX_US).then_some(hold)
}

#[cfg(test)]
mod tests;
