//! Readers in other processes: what they read is not deleted under them.
//!
//! A reader holds the lock of a file `reader_registry/<name>`. In it are, each as sixteen hexadecimal digits
//! and a line feed: the moment of its registration (microseconds since 1970), the manifest version
//! it reads, and, once it has read manifest and journal, that manifest's `next_file`.
//!
//! # Invariants
//! 1. A reader writes its version first and only then looks which manifest is the newest; a writer
//!    commits first and only then looks at the readers. So either the writer sees the reader's
//!    version, or the reader sees the writer's and starts again.
//! 2. A reader holds what its own version refers to and nothing that came later: without the third
//!    line everything given up since its version, with it the files below that number, and no
//!    journal any more, which it has in memory.
//! 3. Nobody holds for ever: a dead reader holds no lock, and one that is older than
//!    [`AGE_MAX_US`] is passed over.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::env::{Fs, FsFile, Guard, IoContext};
use crate::error::{Error, Result};
use crate::journal;
use crate::manifest::{self, Manifest, Pending, newest_version};

const DIR: &str = "readers";
/// A reader that loses the race against this many commits in a row gives up.
const TRIES: usize = 1000;
/// What a reader older than this still refers to may be deleted. A process that hangs must not fill
/// the disk.
const AGE_MAX_US: i64 = 24 * 3600 * 1_000_000;
/// Sixteen digits and a line feed.
const LINE: usize = 17;

/// What one reader keeps from being deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hold {
    /// The manifest version that it reads.
    pub(crate) version: u64,
    /// That manifest's `next_file`, once the reader needs nothing but files below it.
    pub(crate) next_file: Option<u64>,
}

impl Hold {
    /// A reader in this process: it has its memtable and needs no journal.
    pub(crate) fn of(manifest: &Manifest) -> Self {
        Self {
            version: manifest.version,
            next_file: Some(manifest.next_file),
        }
    }

    /// Whether this reader may still open the file.
    pub(crate) fn needs(&self, pending: &Pending) -> bool {
        let referred = pending.since > self.version;
        let there_then = self.next_file.is_none_or(|end| {
            !pending.path.starts_with(journal::DIR) && file_number(&pending.path) < end
        });
        referred && there_then
    }
}

/// The number by which a part, a tile or a checkpoint is named; 0 when there is none, which every
/// reader may need.
pub(crate) fn file_number(path: &str) -> u64 {
    let name = path.rsplit('/').next().unwrap_or(path);
    let digits = name.split('.').next().unwrap_or(name);
    u64::from_str_radix(digits, 16).unwrap_or(0)
}

/// A reader's word on which version it reads; taken back when dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    fs: Arc<dyn Fs>,
    file: Box<dyn FsFile>,
    path: PathBuf,
    _lock: Box<dyn Guard>,
}

impl Registration {
    /// Says that manifest and journal are read: from now on only files that `manifest` names are
    /// needed. `manifest` is of the version registered or a later one.
    pub(crate) fn loaded(&self, manifest: &Manifest) -> Result<()> {
        // The version stays as it was registered: a writer may be reading that line.
        self.file
            .write_all_at(line(manifest.next_file).as_bytes(), 2 * LINE as u64)
            .at("write", &self.path)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // A writer removes it otherwise: without its lock it counts for nothing.
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
        // A writer that met the file before its lock was taken has removed it.
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

/// What the live readers in other processes hold. Files of dead readers are removed.
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
            // It may have gone by itself. The lock is held until then: a reader that is about to
            // take it must find its file gone.
            let _ignored = fs.remove(&path);
            drop(lock);
            continue;
        }
        let text = match fs.read(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            // What a live reader holds and cannot be asked about is not to be removed.
            other => other.at("read", &path)?,
        };
        // A live reader that has not written its version yet will look at the manifest after this.
        holds.extend(read_hold(&text, now_us));
    }
    Ok(holds)
}

fn read_hold(bytes: &[u8], now_us: i64) -> Option<Hold> {
    let text = std::str::from_utf8(bytes).ok()?;
    // Whole lines only: half a number would be another number.
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
