//! Work on the quarantine: its waiting items are read, parsed again, or given up.
//!
//! # Invariants
//! * Every batch from here names the items that it settles, and the store takes it once
//!   (`storage/src/resolutions.rs`): a replay may be broken off anywhere, begun again, and run
//!   beside another.
//! * An item that does not parse stays as it is: nothing enters the quarantine from here.
//! * An item is read as if it had just come, at the time at which it came: by today's configuration
//!   of
//!   its stream, `keep`, `drop` and `raw_line` included.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use ingest::{BatchOrigin, Format, ParseOptions, Parser, TimeZone};
use serde::{Deserialize, Serialize};
use storage::{
    Batch, Clock, Identity, Job, Name, Ranges, Running, Said, Settlement, Snapshot, Store,
    StreamKind, SystemClock, WriteConcern,
};

use crate::config::Config;
use crate::failure::{FAILED, Failure, Result};
use crate::intake;

mod explain;
mod items;
mod request;

pub(crate) use explain::explain;
pub(crate) use items::Choice;
use items::Item;
pub(crate) use request::QuarantineRequest;

/// The most items and bytes of a batch: little work is lost when one is broken off.
const ITEMS_MAX: usize = 4096;
const BYTES_MAX: usize = 4 << 20;

/// Options by which items are read, where they are not those of their stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reading {
    pub(crate) format: Option<Format>,
    pub(crate) tz: Option<TimeZone>,
    pub(crate) site: Option<String>,
}

impl Reading {
    /// Returns the format to read an item in. `auto` decides by the item's stream where it exists:
    /// bad lines alone say too little of their format.
    fn format(&self, config: &Config, snapshot: &Snapshot, stream: &Name, line: &[u8]) -> Format {
        if let Some(named) = &self.format {
            return named.clone();
        }
        match (
            config.format(stream.as_str()),
            intake::stream_kind(snapshot, stream),
        ) {
            (Format::Auto, Some(kind)) => ingest::detect_line(line, kind),
            (format, _) => format,
        }
    }

    fn options(
        &self,
        config: &Config,
        snapshot: &Snapshot,
        stream: &Name,
        format: Format,
    ) -> ParseOptions {
        ParseOptions {
            format,
            site: self.site.clone(),
            tz: self.tz.clone(),
            schema: intake::stream_schema(snapshot, stream),
            ..intake::stream_options(config, stream.as_str())
        }
    }
}

/// The result of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplayReport {
    /// Items that waited: replayed + still bad + settled meanwhile.
    pub(crate) looked_at: u64,
    /// Items that are events now, or would be.
    pub(crate) replayed: u64,
    /// Items that go on waiting, by the reason found now.
    pub(crate) still_bad: BTreeMap<String, u64>,
    /// Items that another request has settled meanwhile.
    pub(crate) settled_meanwhile: u64,
}

/// The result of giving items up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DropReport {
    /// Items that waited and are given up, or would be.
    pub(crate) dropped: u64,
    /// Items that another request has settled meanwhile.
    pub(crate) settled_meanwhile: u64,
}

/// Work on quarantined items: the store it goes to, and when to stop.
pub(crate) struct QuarantineWork<'a> {
    pub(crate) config: &'a Config,
    /// `None` only counts what would be done.
    pub(crate) store: Option<&'a Store>,
    /// Brings the columns of a batch of replayed items to those of the whole cluster.
    pub(crate) agree: &'a dyn Fn(&mut Batch) -> storage::Result<()>,
    pub(crate) stop: &'a dyn Fn() -> bool,
    /// Receives the number of items done, now and then.
    pub(crate) progress: &'a dyn Fn(u64),
}

impl QuarantineWork<'_> {
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
                let by_format = self.by_format(snapshot, stream, of_one_source, reading);
                for (format, items) in &by_format {
                    let piece = (stream, format, &items[..]);
                    self.replay_piece(snapshot, piece, reading, &mut report)?;
                }
            }
            (self.progress)(report.looked_at);
            run.inspect(|run| run.progress(report.looked_at, None));
            Ok(())
        })?;
        self.give_space_back()?;
        Ok(report)
    }

    /// Sorts items by the format to read them in.
    fn by_format<'a>(
        &self,
        snapshot: &Arc<Snapshot>,
        stream: &Name,
        items: &'a [Item],
        reading: &Reading,
    ) -> BTreeMap<Format, Vec<&'a Item>> {
        let now = self.now(snapshot);
        let mut by_format: BTreeMap<Format, Vec<&Item>> = BTreeMap::new();
        for item in items {
            let format = reading.format(self.config, &now, stream, &item.raw);
            by_format.entry(format).or_default().push(item);
        }
        by_format
    }

    /// Returns the store as it is now.
    fn now(&self, snapshot: &Arc<Snapshot>) -> Arc<Snapshot> {
        self.store
            .map_or_else(|| Arc::clone(snapshot), Store::snapshot)
    }

    /// Replays one batch: from the beginning when another request has settled one of its items
    /// meanwhile.
    fn replay_piece(
        &self,
        snapshot: &Arc<Snapshot>,
        (stream, format, items): (&Name, &Format, &[&Item]),
        reading: &Reading,
        report: &mut ReplayReport,
    ) -> Result<()> {
        report.looked_at += items.len() as u64;
        loop {
            let now = self.now(snapshot);
            let waiting = |item: &&Item| now.settled().how(item.seq).is_none();
            let waiting: Vec<&Item> = items.iter().copied().filter(waiting).collect();
            let options = reading.options(self.config, &now, stream, format.clone());
            let attempt = Attempt::at(&waiting, options)?;
            let replayed = attempt.seqs.len() as u64;
            let settled = match self.store {
                Some(store) if replayed > 0 => {
                    let mut batch = attempt.batch(stream, &now);
                    (self.agree)(&mut batch)?;
                    // A snapshot that is held makes the log thread copy the set of settled items.
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
            what: format!("discarded {} items", report.dropped),
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

    /// Begins an entry of the job log; a dry run has none.
    fn begin(&self, job: Job, choice: &Choice) -> Option<Running> {
        let log = self.store?.maintenance();
        let stream = choice.stream.as_ref().map(Name::as_str);
        let why = match &choice.reason {
            Some(reason) => format!("requested by an operator: items with reason {reason}"),
            None => "requested by an operator".to_owned(),
        };
        Some(log.begin(job, stream, why))
    }

    fn go_on(&self) -> Result<()> {
        if (self.stop)() {
            return Err(Failure::new(
                FAILED,
                "stopped; finished items are kept, run the same command again for the rest",
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

/// Ends the entry of the job log.
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
            waiting.iter().partition(|item| !item.is_whole());
        let items = whole.iter().map(|item| item.source_item());
        let parsed = Parser::new(options).parse_items(items)?;
        let mut still_bad: Vec<_> = cut.iter().map(|item| item.reason.clone()).collect();
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
        let origin = BatchOrigin {
            stream: stream.clone(),
            source: Arc::clone(&self.source),
            received_us: SystemClock.now_us(),
            identity: Some(Identity::Settles {
                items: Ranges::of(self.seqs.iter().copied()),
                how: Settlement::Replayed,
            }),
            kind: intake::stream_kind(snapshot, stream),
        };
        origin.batch_of_events(self.events.clone(), self.kind)
    }
}

/// Gives items up. Returns how many of them still waited.
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
        let origin = BatchOrigin {
            stream: stream.clone(),
            source: "quarantine".into(),
            received_us: SystemClock.now_us(),
            identity: Some(Identity::Settles {
                items,
                how: Settlement::Dropped,
            }),
            kind: None,
        };
        if settle(store, origin.batch_of_nothing())? {
            return Ok(count);
        }
    }
}

/// Writes a batch. Returns whether it has settled its items: not when another was faster with one.
fn settle(store: &Store, batch: Batch) -> Result<bool> {
    // A journal in Kafka may not sync; then all replicas in sync have the batch.
    let concern = match store.gives(WriteConcern::JOURNALED) {
        Ok(_) => WriteConcern::JOURNALED,
        Err(_) => WriteConcern::ACKNOWLEDGED,
    };
    match store.write(batch, concern) {
        Ok(ack) => Ok(!ack.duplicate),
        Err(storage::Error::Settled { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
