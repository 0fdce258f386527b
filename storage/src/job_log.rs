//! What maintenance did and why: a bounded log beside the store, and what is under way.
//!
//! # Invariants
//! * Nothing depends on it. It is written without a sync; what cannot be written is forgotten, and the
//!   program's own log says so; any of it may be lost, or removed by somebody, at any time.
//! * Only the store's one writer writes here; readers in other processes read.
//! * It is bounded: two files of a megabyte, give or take a line (`job_log/file.rs`).
//! * A failure that repeats itself is one line until the job succeeds or fails otherwise, so that a
//!   disk that is full for a night does not push the rest out. The counts count each.

mod file;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::env::{Clock, Fs};
use file::Folder;

/// An error is cut to so many characters.
const ERROR_CHARS_MAX: usize = 1000;

/// A kind of maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// A seal. Only those that failed are told.
    Seal,
    /// Parts that were alike became one.
    CompactParts,
    /// Sections of tiles that were alike became one.
    CompactTiles,
    /// Parts were indexed.
    BuildIndex,
    /// Partitions went for what their stream's retention says.
    Retain,
    /// Levels of rollups were cut for what their retention says.
    RetainLevels,
    /// Partitions were dropped by hand.
    Drop,
    /// Partitions were detached.
    Detach,
    /// Partitions were attached again.
    Attach,
    /// Partitions of the quarantine went, of which every item was settled.
    DropSettled,
    /// A rollup's partitions were made again from the raw events.
    Rebuild,
    /// The history of a new rollup was counted.
    Backfill,
    /// A share of the rollups was verified.
    Scrub,
    /// Items in quarantine were parsed again.
    Replay,
    /// Items in quarantine were given up.
    GiveUp,
    /// A backup was made by the server.
    Backup,
    /// Damage was given up.
    Repair,
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It is under way, in the process that was asked.
    Running,
    /// It did what it says.
    Done,
    /// It ended before that.
    Failed,
}

/// What a job did, as far as it can be said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// In a sentence.
    #[serde(default)]
    pub what: String,
    /// How many of what the sentence is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<u64>,
    /// Of how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Bytes of files that were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_read: Option<u64>,
    /// Bytes of files that were written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_written: Option<u64>,
}

/// One line of the log, or a job under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEntry {
    /// When it began, microseconds since 1970.
    pub started_us: i64,
    /// Which kind.
    pub job: Job,
    /// The stream or the rollup that it was about, when it was about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// Why it was begun, in a sentence.
    pub why: String,
    /// How far it is.
    pub state: JobState,
    /// What it did.
    #[serde(flatten)]
    pub said: Said,
    /// How long it took so far, milliseconds.
    pub ms: u64,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Counts of one kind of job since the store was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// Those that did something.
    pub done: u64,
    /// Those that failed.
    pub failed: u64,
    /// How long all of them took, microseconds.
    pub us: u64,
}

/// The log of a store and the jobs under way in this process. Clones are the same log.
#[derive(Debug, Clone)]
pub struct JobLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Arc<dyn Clock>,
    /// One line at a time. Nobody holds it who waits for another lock.
    folder: Mutex<Folder>,
    now: Mutex<Now>,
}

#[derive(Debug, Default)]
struct Now {
    next: u64,
    running: BTreeMap<u64, JobEntry>,
    counts: BTreeMap<Job, JobCounts>,
    /// The last failure of each, until it succeeds.
    failures: BTreeMap<(Job, Option<String>), String>,
}

impl JobLog {
    /// The log of the store in `data`. Nothing is opened or written before there is something to say,
    /// and nothing ever when it is not `kept`.
    pub fn of(fs: Arc<dyn Fs>, clock: Arc<dyn Clock>, data: &Path, kept: bool) -> Self {
        Self(Arc::new(Inner {
            clock,
            folder: Mutex::new(Folder::of(fs, data, kept)),
            now: Mutex::default(),
        }))
    }

    /// Begins a job: it is under way until what is returned is told how it ended, or is dropped, which
    /// is to say that there was nothing to do.
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
        let mut now = self.0.now.lock();
        now.next += 1;
        let id = now.next;
        now.running.insert(id, entry);
        Running {
            log: self.clone(),
            id,
            begun_us: self.0.clock.elapsed_us(),
        }
    }

    /// What was logged, oldest first, and then what is under way in this process.
    pub fn entries(&self) -> Vec<JobEntry> {
        let mut entries = self.0.folder.lock().lines();
        let now_us = self.0.clock.now_us();
        entries.extend(self.0.now.lock().running.values().cloned().map(|entry| {
            let us = now_us.saturating_sub(entry.started_us);
            JobEntry {
                ms: milliseconds(us),
                ..entry
            }
        }));
        entries
    }

    /// Counts since the store was opened.
    pub fn counts(&self) -> BTreeMap<Job, JobCounts> {
        self.0.now.lock().counts.clone()
    }

    /// Whether the last run of a job that is about no stream failed.
    pub(crate) fn is_failing(&self, job: Job) -> bool {
        self.0.now.lock().failures.contains_key(&(job, None))
    }

    /// Keeps a small text under a name, for a job that is to go on where it was: a help that may be
    /// lost.
    pub fn keep(&self, name: &str, text: &str) {
        self.0.folder.lock().keep(name, text);
    }

    /// What was kept under a name.
    pub fn kept(&self, name: &str) -> Option<String> {
        self.0.folder.lock().kept(name)
    }

    fn end(&self, running: &Running, outcome: Result<Said, String>) {
        let us = self.0.clock.elapsed_us().saturating_sub(running.begun_us);
        let mut now = self.0.now.lock();
        let Some(mut entry) = now.running.remove(&running.id) else {
            return;
        };
        entry.ms = milliseconds(us);
        let counts = now.counts.entry(entry.job).or_default();
        counts.us += u64::try_from(us).unwrap_or(0);
        let about = (entry.job, entry.stream.clone());
        match outcome {
            Ok(said) => {
                counts.done += 1;
                now.failures.remove(&about);
                (entry.state, entry.said) = (JobState::Done, said);
            }
            Err(error) => {
                counts.failed += 1;
                let before = now.failures.insert(about, error.clone());
                if before.as_ref() == Some(&error) {
                    return;
                }
                (entry.state, entry.error) = (JobState::Failed, Some(error));
            }
        }
        drop(now);
        self.0.folder.lock().append(&entry);
    }
}

/// A job under way.
#[derive(Debug)]
pub struct Running {
    log: JobLog,
    id: u64,
    begun_us: i64,
}

impl Running {
    /// Says how far it is.
    pub fn progress(&self, done: u64, total: Option<u64>) {
        if let Some(entry) = self.log.0.now.lock().running.get_mut(&self.id) {
            (entry.said.done, entry.said.total) = (Some(done), total);
        }
    }

    /// It is over and did this.
    pub fn done(self, said: Said) {
        self.log.end(&self, Ok(said));
    }

    /// It failed.
    pub fn failed(self, error: &dyn fmt::Display) {
        let error = error.to_string().chars().take(ERROR_CHARS_MAX).collect();
        self.log.end(&self, Err(error));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.log.0.now.lock().running.remove(&self.id);
    }
}

fn milliseconds(us: i64) -> u64 {
    u64::try_from(us / 1000).unwrap_or(0)
}

#[cfg(test)]
mod tests;
