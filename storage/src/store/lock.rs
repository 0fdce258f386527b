//! One writer: the lock of the data directory, and the name of its holder.
//!
//! A writer locks the file `LOCK`, and the data directory itself where the file system allows it:
//! the directory stays locked when `LOCK` is removed by hand. Where only the file can be locked,
//! a second writer that starts after such a removal takes over, and the first stops.
//!
//! # Invariants
//! 1. A group is acknowledged, and a version of the manifest relied upon, only when the lock was
//!    in place after it was written (with `j` and for the manifest: after it was durable). A
//!    second writer has a `LOCK` of its own before it reads the journal. So while the first still
//!    finds its own there, the second has yet to read the groups that the first acknowledges. A
//!    starting writer checks its lock once more when it has read manifest and journal.
//! 2. A version of the manifest and a file that it names get their names only where no file has
//!    that name: the slower of two writers gets an error and replaces nothing.
//! 3. A writer that finds its lock gone, or another's version of the manifest, acknowledges
//!    nothing any more: outcomes are unknown, and the process ends.

use std::path::{Path, PathBuf};

use crate::env::{Fs, Guard, IoContext};
use crate::error::{Error, Kind, Result};
use crate::file::write_durably;
use crate::manifest;
use crate::seeded::{self, Bug};

const LOCK: &str = "LOCK";
const WRITER: &str = "WRITER";
/// Attempts to lock a file that was removed between opening and locking it.
const TRIES: usize = 8;

/// The lock of a data directory, held by its one writer.
#[derive(Debug)]
pub(crate) struct WriterLock {
    path: PathBuf,
    file: Box<dyn Guard>,
    /// None where directories cannot be locked.
    _directory: Option<Box<dyn Guard>>,
}

impl WriterLock {
    /// Checks that this process is still the one writer.
    ///
    /// # Errors
    /// [`Error::Unknown`] when that is not certain: nothing may be acknowledged any more.
    pub(crate) fn check(&self) -> Result<()> {
        let why = match self.file.is_in_place() {
            _ if seeded::is(Bug::LockUnchecked) => return Ok(()),
            Ok(true) => return Ok(()),
            Ok(false) => {
                "the lock file was removed or replaced while this process held it".to_owned()
            }
            Err(error) => format!("the lock file cannot be checked: {error}"),
        };
        Err(Error::Unknown {
            what: format!(
                "{}: {why}, so another process may be writing to the store; leave LOCK alone and run only one server",
                self.path.display()
            ),
        })
    }
}

/// Takes the lock. Creates the data directory when it does not exist.
///
/// # Errors
/// [`Error::Locked`] names the process that holds the lock. [`Error::FormatTooNew`] and
/// [`Error::FormatUnknown`] leave the directory as it was, but for the lock's file.
#[expect(
    clippy::disallowed_methods,
    reason = "above the data directory there is nothing of ours to sync but its name"
)]
pub(crate) fn take_lock(fs: &dyn Fs, data: &Path) -> Result<WriterLock> {
    fs.create_dir_all(data).at("create directory", data)?;
    if let Some(parent) = data.parent().filter(|p| !p.as_os_str().is_empty()) {
        fs.sync_dir(parent).at("sync", parent)?;
    }
    let directory = match fs.try_lock_dir(data) {
        Ok(None) => return Err(locked(fs, data)),
        Ok(some) => some,
        // The lock of the file alone must do.
        Err(error) => {
            tracing::debug!(data = %data.display(), %error, "the directory cannot be locked; the LOCK file alone protects the store");
            None
        }
    };
    let lock = WriterLock {
        path: data.join(LOCK),
        file: lock_file(fs, data)?,
        _directory: directory,
    };
    manifest::refuse_other_format(fs, data)?;
    match write_writer(fs, data, None) {
        // On a full disk no name is better than that of the previous writer.
        Err(error) if error.kind() == Kind::DiskFull => {
            tracing::warn!(%error, "could not record which process holds the store");
            let _ignored = fs.remove(&data.join(WRITER));
        }
        other => other?,
    }
    Ok(lock)
}

fn lock_file(fs: &dyn Fs, data: &Path) -> Result<Box<dyn Guard>> {
    let path = data.join(LOCK);
    for _ in 0..TRIES {
        let Some(lock) = fs.try_lock(&path).at("lock", &path)? else {
            break;
        };
        if lock.is_in_place().at("check", &path)? {
            return Ok(lock);
        }
    }
    Err(locked(fs, data))
}

fn locked(fs: &dyn Fs, data: &Path) -> Error {
    let (pid, url) = writer(fs, data);
    Error::Locked {
        path: data.into(),
        pid,
        url,
    }
}

/// Returns the process that last wrote to a store and the URL at which it answers or answered;
/// `None` if it recorded no URL. The process may have ended.
pub fn recorded_writer(fs: &dyn Fs, data: &Path) -> Option<(u32, String)> {
    let (process, url) = writer(fs, data);
    Some((process, url?))
}

fn writer(fs: &dyn Fs, data: &Path) -> (u32, Option<String>) {
    let text = fs.read(&data.join(WRITER)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut words = text.split_whitespace();
    let pid = words.next().and_then(|w| w.parse().ok()).unwrap_or(0);
    (pid, words.next().map(str::to_owned))
}

/// Records which process writes, and the URL at which it answers.
pub(crate) fn write_writer(fs: &dyn Fs, data: &Path, url: Option<&str>) -> Result<()> {
    let text = format!("{} {}\n", std::process::id(), url.unwrap_or(""));
    write_durably(fs, &data.join(WRITER), text.as_bytes()).map(|_| ())
}

#[cfg(test)]
mod tests;
