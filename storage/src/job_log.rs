//! The job log: a bounded log, beside the store, of what maintenance did and why, and the jobs
//! that are running.
//!
//! # Invariants
//! * Nothing depends on the log. It is written without a sync. A line that cannot be written is
//!   dropped, with a warning in the program's own log. Any of it may be lost or removed at any
//!   time.
//! * Only the store's one writer writes the log; readers in other processes read it.
//! * The log is bounded: two files of a megabyte, give or take a line (`job_log/file.rs`).
//! * A failure that repeats itself is one line until the job succeeds or fails with another
//!   error, so that a disk that is full for a night does not push all other lines out. The
//!   counters count every failure.

mod file;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::env::{Clock, Fs};
use file::Folder;

/// Maximum characters of an error text; the rest is cut off.
const ERROR_CHARS_MAX: usize = 1000;

/// A kind of maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// A seal. Only failures are logged, and the first success after one.
    Seal,
    /// Parts of similar size became one.
    CompactParts,
    /// Sections of tiles of similar size became one.
    CompactTiles,
    /// Indexes of parts were built.
    BuildIndex,
    /// Partitions were dropped by their stream's retention.
    Retain,
    /// Levels of rollups were cut by their retention.
    RetainLevels,
    /// Partitions were dropped by hand.
    Drop,
    /// Events were erased.
    Erase,
    /// Partitions were detached.
    Detach,
    /// Partitions were attached again.
    Attach,
    /// Partitions of the quarantine were dropped, since all of their items were resolved.
    DropSettled,
    /// Partitions of a rollup were rebuilt from the raw events.
    Rebuild,
    /// Events from before a new rollup was created were counted into it.
    Backfill,
    /// A share of the rollups was verified.
    Scrub,
    /// Quarantined items were parsed again.
    Replay,
    /// Quarantined items were discarded.
    GiveUp,
    /// The server made a backup.
    Backup,
    /// Damaged data was given up.
    Repair,
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// State of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// The job is running, in the process that reports it.
    Running,
    /// The job succeeded.
    Done,
    /// The job ended with an error.
    Failed,
}

/// Outcome of a job, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Description, in a sentence.
    #[serde(default)]
    pub what: String,
    /// Number of the things that the sentence counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<u64>,
    /// Total number of those things.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Bytes of files that were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_read: Option<u64>,
    /// Bytes of files that were written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_written: Option<u64>,
}

/// One line of the log, or a running job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEntry {
    /// Start of the job, microseconds since 1970.
    pub started_us: i64,
    /// Kind of the job.
    pub job: Job,
    /// Stream or rollup of the job, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// Reason for the job, in a sentence.
    pub why: String,
    /// State of the job.
    pub state: JobState,
    /// Outcome of the job.
    #[serde(flatten)]
    pub said: Said,
    /// Duration so far, milliseconds.
    pub ms: u64,
    /// Error of a failed job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Counts of one kind of job since the store was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// Number of jobs that succeeded and had something to do.
    pub done: u64,
    /// Number of jobs that failed.
    pub failed: u64,
    /// Total duration of all these jobs, microseconds.
    pub us: u64,
}

/// The log of a store and the running jobs of this process. Clones share one log.
#[derive(Debug, Clone)]
pub struct JobLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Arc<dyn Clock>,
    /// Serialises access to the files. Its holder waits for no other lock.
    folder: Mutex<Folder>,
    state: Mutex<LogState>,
}

#[derive(Debug, Default)]
struct LogState {
    next: u64,
    running: BTreeMap<u64, JobEntry>,
    counts: BTreeMap<Job, JobCounts>,
    /// Last error of each job and stream, until the job succeeds.
    failures: BTreeMap<(Job, Option<String>), String>,
}

impl JobLog {
    /// Returns the log of the store in `data`. No file is opened or written before the first
    /// entry, and none is ever written when the log is not `kept`.
    pub fn of(fs: Arc<dyn Fs>, clock: Arc<dyn Clock>, data: &Path, kept: bool) -> Self {
        Self(Arc::new(Inner {
            clock,
            folder: Mutex::new(Folder::of(fs, data, kept)),
            state: Mutex::default(),
        }))
    }

    /// Begins a job, which runs until [`Running::done`] or [`Running::failed`] is called. A
    /// [`Running`] that is dropped means that there was nothing to do, and is not logged.
    pub fn begin(&self, job: Job, stream: Option<&str>, why: impl Into<String>) -> Running {
        let entry = JobEntry {
            started_us: self.0.clock.now_us(),
            job,
            stream: stream.map(str::to_owned),
            why: why.into(),
            state: JobState::Running,
            said: Said::default(),
            ms: 0,
            error: None,
        };
        let mut state = self.0.state.lock();
        state.next += 1;
        let id = state.next;
        state.running.insert(id, entry);
        Running {
            log: self.clone(),
            id,
            begun_us: self.0.clock.elapsed_us(),
        }
    }

    /// Returns the logged jobs, oldest first, and then the running jobs of this process.
    pub fn entries(&self) -> Vec<JobEntry> {
        let mut entries = self.0.folder.lock().lines();
        let now_us = self.0.clock.now_us();
        entries.extend(self.0.state.lock().running.values().cloned().map(|entry| {
            let us = now_us.saturating_sub(entry.started_us);
            JobEntry {
                ms: milliseconds(us),
                ..entry
            }
        }));
        entries
    }

    /// Returns the counts since the store was opened.
    pub fn counts(&self) -> BTreeMap<Job, JobCounts> {
        self.0.state.lock().counts.clone()
    }

    /// Checks whether the last run of a job without a stream failed.
    pub(crate) fn is_failing(&self, job: Job) -> bool {
        self.0.state.lock().failures.contains_key(&(job, None))
    }

    /// Stores a small text under a name, for a job that continues later. The text may be lost.
    pub fn keep(&self, name: &str, text: &str) {
        self.0.folder.lock().keep(name, text);
    }

    /// Returns the text that is stored under a name.
    pub fn kept(&self, name: &str) -> Option<String> {
        self.0.folder.lock().kept(name)
    }

    fn end(&self, running: &Running, outcome: Result<Said, String>) {
        let us = self.0.clock.elapsed_us().saturating_sub(running.begun_us);
        let mut state = self.0.state.lock();
        let Some(mut entry) = state.running.remove(&running.id) else {
            return;
        };
        entry.ms = milliseconds(us);
        let counts = state.counts.entry(entry.job).or_default();
        counts.us += u64::try_from(us).unwrap_or(0);
        let about = (entry.job, entry.stream.clone());
        match outcome {
            Ok(said) => {
                counts.done += 1;
                state.failures.remove(&about);
                (entry.state, entry.said) = (JobState::Done, said);
            }
            Err(error) => {
                counts.failed += 1;
                let before = state.failures.insert(about, error.clone());
                if before.as_ref() == Some(&error) {
                    return;
                }
                (entry.state, entry.error) = (JobState::Failed, Some(error));
            }
        }
        drop(state);
        self.0.folder.lock().append(&entry);
    }
}

/// A running job.
#[derive(Debug)]
pub struct Running {
    log: JobLog,
    id: u64,
    begun_us: i64,
}

impl Running {
    /// Sets the progress of the job.
    pub fn progress(&self, done: u64, total: Option<u64>) {
        if let Some(entry) = self.log.0.state.lock().running.get_mut(&self.id) {
            (entry.said.done, entry.said.total) = (Some(done), total);
        }
    }

    /// Ends the job and logs its outcome.
    pub fn done(self, said: Said) {
        self.log.end(&self, Ok(said));
    }

    /// Ends the job and logs its error.
    pub fn failed(self, error: &dyn fmt::Display) {
        let error = error.to_string().chars().take(ERROR_CHARS_MAX).collect();
        self.log.end(&self, Err(error));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.log.0.state.lock().running.remove(&self.id);
    }
}

fn milliseconds(us: i64) -> u64 {
    u64::try_from(us / 1000).unwrap_or(0)
}

#[cfg(test)]
mod tests;
