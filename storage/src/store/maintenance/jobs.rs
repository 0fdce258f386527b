//! The job runner: every job of maintenance runs here, and leaves a line in the job log with its
//! reason and its outcome in a sentence.

use chrono::{DateTime, SecondsFormat};

use super::PartitionReport;
use crate::error::{Error, Result};
use crate::job_log::{Job, Running, Said};
use crate::model::Name;
use crate::store::Shared;

const DAY_US: i64 = 86_400_000_000;
const HOUR_US: i64 = 3_600_000_000;

impl Shared {
    /// Runs a job about a stream or a rollup, if it has one, and logs it. `describe` makes the
    /// line from the job's report: none when there was nothing to do. A job that the close of the
    /// store has ended is not logged either.
    pub(super) fn run_job<T>(
        &self,
        job: Job,
        about: Option<&Name>,
        why: impl Into<String>,
        work: impl FnOnce(&Running) -> Result<T>,
        describe: impl FnOnce(&T) -> Option<Said>,
    ) -> Result<T> {
        let run = self.log.begin(job, about.map(Name::as_str), why);
        let outcome = work(&run);
        match &outcome {
            Ok(report) => {
                if let Some(said) = describe(report) {
                    run.done(said);
                }
            }
            Err(Error::Closed) => {}
            Err(error) => run.failed(error),
        }
        outcome
    }

    /// Runs an operator's job on the partitions that begin in a range; a dry run is not logged.
    pub(super) fn run_by_hand(
        &self,
        job: Job,
        stream: &Name,
        (from_us, to_us): (i64, i64),
        dry: bool,
        work: impl FnOnce() -> Result<PartitionReport>,
    ) -> Result<PartitionReport> {
        if dry {
            return work();
        }
        let (from, to) = (moment(from_us), moment(to_us));
        let why = format!("requested by an operator: partitions that begin from {from} to {to}");
        let verb = match job {
            Job::Detach => "detached",
            Job::Attach => "attached",
            _ => "dropped",
        };
        let describe = |report: &PartitionReport| of_partitions(verb, report);
        self.run_job(job, Some(stream), why, |_| work(), describe)
    }
}

/// Describes a job on partitions, if there were any.
pub(super) fn of_partitions(verb: &str, report: &PartitionReport) -> Option<Said> {
    let PartitionReport {
        partitions,
        parts,
        events,
        bytes,
    } = report;
    (*partitions > 0).then(|| Said {
        what: format!(
            "{verb} {partitions} partitions: {events} events, {parts} parts, {bytes} bytes"
        ),
        done: Some(*partitions as u64),
        total: Some(*partitions as u64),
        ..Said::default()
    })
}

/// Formats a moment for people: midnight is a date.
pub(super) fn moment(us: i64) -> String {
    match DateTime::from_timestamp_micros(us) {
        Some(at) if us.rem_euclid(DAY_US) == 0 => at.format("%Y-%m-%d").to_string(),
        Some(at) => at.to_rfc3339_opts(SecondsFormat::Secs, true),
        None => us.to_string(),
    }
}

/// Formats a span as the configuration spells it: whole days, or hours.
pub(super) fn span(us: i64) -> String {
    if us % DAY_US == 0 {
        format!("{}d", us / DAY_US)
    } else {
        format!("{}h", us / HOUR_US)
    }
}

#[cfg(test)]
mod tests;
