//! Readers in other processes: what they read is not deleted under them.
//!
//! A reader holds the lock of a file `readers/<name>` that names the manifest version it reads.
//!
//! # Invariant
//! A reader writes its version first and only then looks which manifest is the newest; a writer
//! commits first and only then looks at the readers. So either the writer sees the reader's
//! version, or the reader sees the writer's and starts again. A dead reader holds no lock.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::env::{Fs, Guard, IoContext};
use crate::error::{Error, Result};
use crate::manifest::newest_version;

const DIR: &str = "readers";
/// A reader that loses the race against this many commits in a row gives up.
const TRIES: usize = 1000;

/// A reader's word on which version it reads; taken back when dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    _lock: Box<dyn Guard>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        // A writer removes it otherwise: without its lock it counts for nothing.
        let _ignored = self.fs.remove(&self.path);
    }
}

/// Registers a reader of the newest version.
pub(crate) fn register(fs: &Arc<dyn Fs>, data: &Path) -> Result<Registration> {
    let dir = data.join(DIR);
    let Some(mut version) = newest_version(&**fs, data)? else {
        return Err(Error::NotAStore { path: data.into() });
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
        let file = fs.open(&path).at("open", &path);
        let registration = Registration {
            fs: Arc::clone(fs),
            path,
            _lock: lock,
        };
        let Ok(file) = file else { continue };
        file.write_all_at(format!("{version}\n").as_bytes(), 0)
            .at("write", &registration.path)?;
        let newest = newest_version(&**fs, data)?.unwrap_or(version);
        // A writer that met the file before its lock was taken has removed it.
        if newest == version && fs.exists(&registration.path) {
            return Ok(registration);
        }
        version = newest;
    }
    Err(Error::Overloaded {
        what: format!("the manifest changed {TRIES} times while a reader registered"),
    })
}

/// The oldest version that a live reader in another process reads. Files of dead readers are removed.
pub(crate) fn oldest(fs: &dyn Fs, data: &Path) -> Result<Option<u64>> {
    let dir = data.join(DIR);
    if !fs.exists(&dir) {
        return Ok(None);
    }
    let mut oldest: Option<u64> = None;
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
        let text = fs.read(&path).unwrap_or_default();
        // A live reader that has not written its version yet will look at the manifest after this.
        if let Ok(version) = String::from_utf8_lossy(&text).trim().parse() {
            oldest = Some(oldest.map_or(version, |o: u64| o.min(version)));
        }
    }
    Ok(oldest)
}

#[cfg(test)]
mod tests;
