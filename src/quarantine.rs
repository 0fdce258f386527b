//! Work on what is in quarantine: its waiting items are read, parsed again, or given up.
//!
//! # Invariants
//! * Every batch from here names the items that it settles, and the store takes it once (storage's
//!   `settled.rs`): a replay may be broken off anywhere, begun again, and run beside another.
//! * What does not parse stays as it is: nothing enters the quarantine from here.
//! * An item is read as if it had just come, at the time at which it came: by what the configuration
//!   says of its stream today, `keep`, `drop` and `raw_line` included.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use ingest::{Format, ParseOptions, Parser, TimeZone};
use serde::{Deserialize, Serialize};
use storage::{
    Batch, Clock, Identity, Job, Name, Ranges, Running, Said, Settlement, Snapshot, Store,
    StreamKind, StreamMeta, SystemClock, WriteConcern,
};

use crate::config::Config;
use crate::failure::{FAILED, Failure, Result};

mod asked;
mod explain;
mod items;

pub(crate) use asked::Asked;
pub(crate) use explain::explain;
pub(crate) use items::Choice;
use items::Item;

/// A batch has at most so many items and bytes: what is lost when it is broken off is small.
const ITEMS_MAX: usize = 4096;
const BYTES_MAX: usize = 4 << 20;
/// Of these only the beginning was kept.
const TOO_LONG: &str = "line_too_long";

/// How items are to be read: as their stream says today where nothing else is said.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reading {
    pub(crate) format: Option<Format>,
    pub(crate) tz: Option<TimeZone>,
    pub(crate) site: Option<String>,
}

impl Reading {
    fn options(&self, config: &Config, snapshot: &Snapshot, stream: &Name) -> ParseOptions {
        let known = snapshot.streams().get(stream);
        ParseOptions {
            format: self.format.unwrap_or_else(|| {
                let known = known.map(|meta| meta.kind);
                of_kind(config.format(stream.as_str()), known)
            }),
            site: self.site.clone(),
            tz: self.tz.clone(),
            max_future_us: config.ingest.max_future.micros(),
            schema: known.map(StreamMeta::schema).unwrap_or_default(),
            columns_max: config.ingest.columns_max,
            selection: config.selection(stream.as_str()),
            ..ParseOptions::default()
        }
    }
}

/// The format for what waits of a stream: `auto` has nothing but bad lines to decide from, and what the
/// stream holds says more than these.
fn of_kind(format: Format, known: Option<StreamKind>) -> Format {
    match (format, known) {
        (Format::Auto, Some(StreamKind::Access)) => Format::Combined,
        (Format::Auto, Some(StreamKind::Documents)) => Format::Json,
        (format, _) => format,
    }
}

/// What became of the items that a replay looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplayReport {
    /// Items that waited: replayed + still bad + settled meanwhile.
    pub(crate) looked_at: u64,
    /// Items that are events now, or would be.
    pub(crate) replayed: u64,
    /// Items that wait on, by the reason that was found now.
    pub(crate) still_bad: BTreeMap<String, u64>,
    /// Items that somebody else has settled meanwhile.
    pub(crate) settled_meanwhile: u64,
}

/// What was given up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DropReport {
    /// Items that waited and are given up, or would be.
    pub(crate) dropped: u64,
    /// Items that somebody else has settled meanwhile.
    pub(crate) settled_meanwhile: u64,
}

/// Where settled items are written to, and when to stop.
pub(crate) struct Work<'a> {
    pub(crate) config: &'a Config,
    /// `None`: only say what would be done.
    pub(crate) store: Option<&'a Store>,
    pub(crate) stop: &'a dyn Fn() -> bool,
    /// Told of the items looked at, now and then.
    pub(crate) progress: &'a dyn Fn(u64),
}

impl Work<'_> {
    /// Parses every waiting item of the choice again; those that parse become events.
    pub(crate) fn replay(
        &self,
        snapshot: &Arc<Snapshot>,
        choice: &Choice,
        reading: &Reading,
    ) -> Result<ReplayReport> {
        let run = self.begin(Job::Replay, choice);
        let outcome = self.replay_all(snapshot, choice, reading, run.as_ref());
        end(run, &outcome, |report| Said {
            what: format!(
                "{} of {} items became events",
                report.replayed, report.looked_at
            ),
            done: Some(report.replayed),
            total: Some(report.looked_at),
            ..Said::default()
        });
        outcome
    }

    fn replay_all(
        &self,
        snapshot: &Arc<Snapshot>,
        choice: &Choice,
        reading: &Reading,
        run: Option<&Running>,
    ) -> Result<ReplayReport> {
        let mut report = ReplayReport::default();
        items::in_pieces(snapshot, choice, (ITEMS_MAX, BYTES_MAX), |stream, items| {
            self.go_on()?;
            for of_one_source in items.chunk_by(|a, b| a.source == b.source) {
                self.replay_piece(snapshot, stream, of_one_source, reading, &mut report)?;
            }
            (self.progress)(report.looked_at);
            run.inspect(|run| run.progress(report.looked_at, None));
            Ok(())
        })?;
        self.give_space_back()?;
        Ok(report)
    }

    /// One batch: again from the beginning when somebody else has settled one of its items meanwhile.
    fn replay_piece(
        &self,
        snapshot: &Arc<Snapshot>,
        stream: &Name,
        items: &[Item],
        reading: &Reading,
        report: &mut ReplayReport,
    ) -> Result<()> {
        report.looked_at += items.len() as u64;
        loop {
            let now = self
                .store
                .map_or_else(|| Arc::clone(snapshot), Store::snapshot);
            let waiting = |item: &&Item| now.settled().how(item.seq).is_none();
            let waiting: Vec<&Item> = items.iter().filter(waiting).collect();
            let attempt = Attempt::at(&waiting, reading.options(self.config, &now, stream))?;
            let replayed = attempt.seqs.len() as u64;
            let settled = match self.store {
                Some(store) if replayed > 0 => {
                    let batch = attempt.batch(stream, &now);
                    // Who holds a snapshot makes the log thread copy the set of what is settled.
                    drop(now);
                    settle(store, batch)?
                }
                _ => true,
            };
            if settled {
                report.replayed += replayed;
                report.settled_meanwhile += (items.len() - waiting.len()) as u64;
                for reason in attempt.still_bad {
                    *report.still_bad.entry(reason).or_default() += 1;
                }
                return Ok(());
            }
        }
    }

    /// Gives up every waiting item of the choice.
    pub(crate) fn drop(&self, snapshot: &Arc<Snapshot>, choice: &Choice) -> Result<DropReport> {
        let run = self.begin(Job::GiveUp, choice);
        let outcome = self.drop_all(snapshot, choice, run.as_ref());
        end(run, &outcome, |report| Said {
            what: format!("gave up {} items", report.dropped),
            done: Some(report.dropped),
            total: Some(report.dropped + report.settled_meanwhile),
            ..Said::default()
        });
        outcome
    }

    fn drop_all(
        &self,
        snapshot: &Arc<Snapshot>,
        choice: &Choice,
        run: Option<&Running>,
    ) -> Result<DropReport> {
        let mut report = DropReport::default();
        items::in_pieces(snapshot, choice, (ITEMS_MAX, BYTES_MAX), |stream, items| {
            self.go_on()?;
            let seqs: Vec<u64> = items.iter().map(|item| item.seq).collect();
            let dropped = match self.store {
                Some(store) => drop_piece(store, stream, &seqs)?,
                None => seqs.len() as u64,
            };
            report.dropped += dropped;
            report.settled_meanwhile += seqs.len() as u64 - dropped;
            (self.progress)(report.dropped);
            run.inspect(|run| run.progress(report.dropped, None));
            Ok(())
        })?;
        self.give_space_back()?;
        Ok(report)
    }

    /// What is only tried is not told.
    fn begin(&self, job: Job, choice: &Choice) -> Option<Running> {
        let log = self.store?.maintenance();
        let stream = choice.stream.as_ref().map(Name::as_str);
        let why = match &choice.reason {
            Some(reason) => format!("asked for by hand: what waits for {reason}"),
            None => "asked for by hand".to_owned(),
        };
        Some(log.begin(job, stream, why))
    }

    fn go_on(&self) -> Result<()> {
        if (self.stop)() {
            return Err(Failure::new(
                FAILED,
                "stopped; what was done is kept, and the same command does the rest",
            ));
        }
        Ok(())
    }

    fn give_space_back(&self) -> Result<()> {
        if let Some(store) = self.store {
            store.drop_settled()?;
        }
        Ok(())
    }
}

/// Tells the log of maintenance how work ended.
fn end<T>(run: Option<Running>, outcome: &Result<T>, say: impl FnOnce(&T) -> Said) {
    match (run, outcome) {
        (Some(run), Ok(report)) => run.done(say(report)),
        (Some(run), Err(failure)) => run.failed(failure),
        (None, _) => {}
    }
}

/// Items of one source, parsed again.
struct Attempt {
    kind: StreamKind,
    source: Arc<str>,
    events: RecordBatch,
    /// The items that are events now.
    seqs: Vec<u64>,
    /// The reasons of the others.
    still_bad: Vec<String>,
}

impl Attempt {
    fn at(waiting: &[&Item], options: ParseOptions) -> Result<Self> {
        let (cut, whole): (Vec<&Item>, Vec<&Item>) =
            waiting.iter().partition(|item| item.reason == TOO_LONG);
        let lines = whole.iter().map(|item| (&*item.raw, item.time_us));
        let parsed = Parser::new(options).parse_kept(lines)?;
        let mut still_bad = vec![TOO_LONG.to_owned(); cut.len()];
        still_bad.extend(parsed.quarantine.iter().map(|bad| bad.reason.to_owned()));
        let mut bad = parsed.quarantine.iter().map(|bad| bad.index).peekable();
        let good = |(index, _): &(u64, &Item)| bad.next_if_eq(index).is_none();
        let numbered = (0..).zip(whole.iter().copied());
        Ok(Self {
            kind: parsed.kind,
            source: waiting
                .first()
                .map_or_else(|| "".into(), |i| (*i.source).into()),
            seqs: numbered.filter(good).map(|(_, item)| item.seq).collect(),
            events: parsed.events,
            still_bad,
        })
    }

    fn batch(&self, stream: &Name, snapshot: &Snapshot) -> Batch {
        let known = snapshot.streams().get(stream);
        Batch {
            stream: stream.clone(),
            kind: known.map_or(self.kind, |meta| meta.kind),
            received_us: SystemClock.now_us(),
            source: Arc::clone(&self.source),
            events: self.events.clone(),
            quarantine: Vec::new(),
            identity: Some(Identity::Settles {
                items: Ranges::of(self.seqs.iter().copied()),
                how: Settlement::Replayed,
            }),
        }
    }
}

/// Gives items up; how many of them still waited.
fn drop_piece(store: &Store, stream: &Name, seqs: &[u64]) -> Result<u64> {
    loop {
        let now = store.snapshot();
        let waiting = seqs.iter().filter(|seq| now.settled().how(**seq).is_none());
        let items = Ranges::of(waiting.copied());
        drop(now);
        let count = items.count();
        if count == 0 {
            return Ok(0);
        }
        let batch = Batch {
            stream: stream.clone(),
            kind: StreamKind::Documents,
            received_us: SystemClock.now_us(),
            source: "quarantine".into(),
            events: RecordBatch::new_empty(Schema::empty().into()),
            quarantine: Vec::new(),
            identity: Some(Identity::Settles {
                items,
                how: Settlement::Dropped,
            }),
        };
        if settle(store, batch)? {
            return Ok(count);
        }
    }
}

/// Whether this batch has settled its items; `false` when somebody else was faster with one of them.
fn settle(store: &Store, batch: Batch) -> Result<bool> {
    match store.write(batch, WriteConcern::JOURNALED) {
        Ok(ack) => Ok(!ack.duplicate),
        Err(storage::Error::Settled { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
