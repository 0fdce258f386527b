//! Entries of the maintenance log: each job in a sentence, and its reason.

use chrono::{DateTime, SecondsFormat};

use super::{PartitionReport, Rebuilt, SealReport, Shared, maintenance, quarantine};
use crate::error::{Error, Result};
use crate::job_log::{Job, Said};
use crate::model::{Name, QUARANTINE};
use crate::part::partition_end;
use crate::retention::{Leaving, Why};

const DAY_US: i64 = 86_400_000_000;
const HOUR_US: i64 = 3_600_000_000;

impl Shared {
    /// Runs a job and logs it. `describe` makes the entry from the job's report, or none when
    /// there was nothing to do.
    fn run_job<T>(
        &self,
        job: Job,
        about: Option<&Name>,
        why: &str,
        work: impl FnOnce() -> Result<T>,
        describe: impl FnOnce(&T) -> Option<Said>,
    ) -> Result<T> {
        let run = self.log.begin(job, about.map(Name::as_str), why);
        let outcome = work();
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

    /// Runs and logs an operator's job on the partitions that begin in a range; a dry run is not
    /// logged.
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
        let why = format!("asked for by hand: what begins from {from} to {to}");
        self.run_job(job, Some(stream), &why, work, |report| {
            let verb = match job {
                Job::Detach => "detached",
                Job::Attach => "attached",
                _ => "dropped",
            };
            (report.partitions > 0).then(|| partitions(verb, report))
        })
    }

    /// Runs and logs retention: one entry for each dropped partition.
    pub(super) fn run_retain(
        &self,
        work: impl FnOnce() -> Result<Vec<Leaving>>,
    ) -> Result<Vec<Leaving>> {
        let run = self
            .log
            .begin(Job::Retain, None, "the retention of the streams");
        let outcome = work();
        match &outcome {
            Ok(leaving) => leaving.iter().for_each(|gone| self.log_dropped(gone)),
            Err(error) => run.failed(error),
        }
        outcome
    }

    fn log_dropped(&self, gone: &Leaving) {
        let config = self.options.config.streams.get(&gone.stream);
        let limits = config.map(|c| c.retention).unwrap_or_default();
        let why = match gone.why {
            Why::Age => {
                let streams = &self.state.lock().committed.manifest.streams;
                let width = streams.get(&gone.stream).map(|s| s.partition);
                let end = partition_end(width.unwrap_or_default(), gone.partition_us);
                let age = span(limits.age_us.unwrap_or(0));
                format!("age {age}: it ends {}", moment(end))
            }
            Why::Bytes => {
                let bytes = limits.bytes.unwrap_or(0);
                format!("the stream has more than {bytes} bytes of parts")
            }
        };
        let start = moment(gone.partition_us);
        let run = self.log.begin(Job::Retain, Some(gone.stream.as_str()), why);
        run.done(Said {
            what: format!(
                "dropped the partition of {start}: {} events, {} parts, {} bytes",
                gone.events, gone.parts, gone.bytes
            ),
            done: Some(1),
            total: Some(1),
            ..Said::default()
        });
    }

    pub(super) fn run_retain_levels(&self, now_us: i64) -> Result<u64> {
        let why = "the retention of the levels";
        self.run_job(
            Job::RetainLevels,
            None,
            why,
            || maintenance::retain(self, now_us),
            |events| {
                (*events > 0).then(|| Said {
                    what: format!(
                        "raised floors of levels, below which {events} events were counted"
                    ),
                    ..Said::default()
                })
            },
        )
    }

    pub(super) fn run_drop_settled(&self) -> Result<PartitionReport> {
        let stream = Name::new(QUARANTINE).expect("BUG: the quarantine has a good name");
        let why = "it is over, and every item in it is settled";
        let work = || quarantine::drop_settled(self, self.now_us());
        self.run_job(Job::DropSettled, Some(&stream), why, work, |report| {
            (report.partitions > 0).then(|| partitions("dropped", report))
        })
    }

    pub(super) fn run_rebuild(
        &self,
        rollup: &Name,
        (from_us, to_us): (i64, i64),
        work: impl FnOnce() -> Result<Vec<Rebuilt>>,
    ) -> Result<Vec<Rebuilt>> {
        let (from, to) = (moment(from_us), moment(to_us));
        let why = format!("asked for by hand: what reaches into {from} to {to}");
        self.run_job(Job::Rebuild, Some(rollup), &why, work, |report| {
            let left = report.iter().filter(|r| r.left.is_some()).count();
            let made = report.len() - left;
            Some(Said {
                what: format!("made {made} partitions of levels again from the raw events, left {left} as they were"),
                done: Some(made as u64),
                total: Some(report.len() as u64),
                ..Said::default()
            })
        })
    }

    /// Logs a seal that failed, and the first one that succeeds after a failure.
    pub(super) fn log_seal(&self, outcome: &Result<SealReport>) {
        let why = "what is in memory goes into parts and tiles";
        match outcome {
            Ok(report) if self.log.is_failing(Job::Seal) => {
                self.log.begin(Job::Seal, None, why).done(Said {
                    what: format!("sealed {} events after it had failed", report.events),
                    done: Some(report.events),
                    total: Some(report.events),
                    bytes_written: Some(report.part_bytes + report.tile_bytes),
                    bytes_read: None,
                });
            }
            Ok(_) => {}
            Err(error) => self.log.begin(Job::Seal, None, why).failed(error),
        }
    }
}

fn partitions(verb: &str, report: &PartitionReport) -> Said {
    let PartitionReport {
        partitions,
        parts,
        events,
        bytes,
    } = report;
    Said {
        what: format!(
            "{verb} {partitions} partitions: {events} events, {parts} parts, {bytes} bytes"
        ),
        done: Some(*partitions as u64),
        total: Some(*partitions as u64),
        ..Said::default()
    }
}

/// Formats a moment for people: midnight is a date.
fn moment(us: i64) -> String {
    match DateTime::from_timestamp_micros(us) {
        Some(at) if us.rem_euclid(DAY_US) == 0 => at.format("%Y-%m-%d").to_string(),
        Some(at) => at.to_rfc3339_opts(SecondsFormat::Secs, true),
        None => us.to_string(),
    }
}

/// Formats a span as the configuration spells it: whole days, or hours.
fn span(us: i64) -> String {
    if us % DAY_US == 0 {
        format!("{}d", us / DAY_US)
    } else {
        format!("{}h", us / HOUR_US)
    }
}

#[cfg(test)]
mod tests;
