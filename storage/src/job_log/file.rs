//! The folder `maintenance/`: the log, one JSON object per line, and small texts under names of
//! their own.
//!
//! A line that a crash has torn, or that another program has written, is skipped. An entry that
//! follows a torn line begins on a new one.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::JobEntry;
use crate::env::Fs;

/// The folder, below the data directory.
const DIR: &str = "maintenance";
/// The current log. When it is full it is renamed to [`OLDER`] and replaces the one before.
const LOG: &str = "log";
const OLDER: &str = "log.1";
/// Bytes at which a log is full: some thousand lines.
const BYTES_MAX: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Folder {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    /// False when nothing is written.
    is_kept: bool,
}

impl Folder {
    pub(super) fn of(fs: Arc<dyn Fs>, data: &Path, is_kept: bool) -> Self {
        let dir = data.join(DIR);
        Self { fs, dir, is_kept }
    }

    /// Appends a line, or logs a warning.
    pub(super) fn append(&self, entry: &JobEntry) {
        if !self.is_kept {
            return;
        }
        let line = serde_json::to_string(entry).map_err(io::Error::other);
        if let Err(error) = line.and_then(|line| self.write_line(&line)) {
            tracing::warn!(%error, ?entry, "could not write a line of the job log; the line is lost, the job is not affected");
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "no file of the store: nothing depends on it, and it is never synced"
    )]
    fn write_line(&self, line: &str) -> io::Result<()> {
        let log = self.dir.join(LOG);
        self.fs.create_dir_all(&self.dir)?;
        let mut file = match self.fs.open(&log) {
            Err(error) if error.kind() == ErrorKind::NotFound => self.fs.create_new(&log)?,
            other => other?,
        };
        let mut len = file.len()?;
        if len >= BYTES_MAX {
            self.fs.rename(&log, &self.dir.join(OLDER))?;
            (file, len) = (self.fs.create_new(&log)?, 0);
        }
        let mut last = [b'\n'];
        if len > 0 {
            file.read_exact_at(&mut last, len - 1)?;
        }
        let torn = if last == [b'\n'] { "" } else { "\n" };
        file.write_all_at(format!("{torn}{line}\n").as_bytes(), len)
    }

    /// Returns the entries, oldest first.
    pub(super) fn lines(&self) -> Vec<JobEntry> {
        let mut entries = Vec::new();
        for name in [OLDER, LOG] {
            let path = self.dir.join(name);
            match self.fs.read(&path) {
                Ok(bytes) => {
                    let lines = bytes.split(|byte| *byte == b'\n');
                    entries.extend(lines.filter_map(|line| serde_json::from_slice(line).ok()));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "could not read the job log");
                }
            }
        }
        entries
    }

    pub(super) fn keep(&self, name: &str, text: &str) {
        if !self.is_kept {
            return;
        }
        if let Err(error) = self.replace(name, text) {
            tracing::warn!(%name, %error, "could not write the progress of a job; after a restart it continues from an older position");
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "no file of the store: nothing depends on it, and it is never synced"
    )]
    fn replace(&self, name: &str, text: &str) -> io::Result<()> {
        self.fs.create_dir_all(&self.dir)?;
        let temporary = self.dir.join(format!("{name}.tmp"));
        if self.fs.exists(&temporary) {
            self.fs.remove(&temporary)?;
        }
        let file = self.fs.create_new(&temporary)?;
        file.write_all_at(text.as_bytes(), 0)?;
        self.fs.rename(&temporary, &self.dir.join(name))
    }

    pub(super) fn kept(&self, name: &str) -> Option<String> {
        let bytes = self.fs.read(&self.dir.join(name)).ok()?;
        String::from_utf8(bytes).ok()
    }
}
