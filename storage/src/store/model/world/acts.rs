//! The calls of each step, and the check of their results.

use std::path::Path;
use std::sync::Arc;

use super::{DATA, OLD_DAYS, World};
use crate::concern::{Durability, WriteConcern};
use crate::error::{Error, Result};
use crate::model::{Ack, Identity, Name};
use crate::read_only_store::ReadOnlyStore;
use crate::record::Record;
use crate::resolutions::{Ranges, Settlement};
use crate::shard_key::Division;
use crate::sim::Random;
use crate::store::log::{Command, Reply, Request};
use crate::store::maintenance::quarantine;
use crate::store::model::oracle::{Fate, Move};
use crate::store::model::seen::{self, DAY_US, STREAM};
use crate::store::model::steps::Step;

fn concern(j: bool) -> WriteConcern {
    if j {
        WriteConcern::JOURNALED
    } else {
        WriteConcern::ACKNOWLEDGED
    }
}

impl World {
    /// Takes one step.
    pub(super) fn take(&mut self, step: Step) {
        match step {
            Step::Write {
                events,
                bad,
                producer,
                keyed,
                j,
            } => {
                let which = self.oracle.new_batch(events, bad, producer, keyed);
                self.write(which, j);
            }
            Step::Burst { batches, j } => self.burst(batches, j),
            Step::Retry { times, seed } => self.retry(times, Random::new(seed)),
            Step::ReuseKey(which) => self.reuse_key(which),
            Step::Hole { producer, overlaps } => self.hole(producer, overlaps),
            Step::Drop { days, dry } => self.drop_partitions(days, dry),
            Step::Detach { days, dry } => self.detach(days, dry),
            Step::Attach { days } => self.attach(days),
            Step::Erase { one_in, seed } => self.erase(one_in, Random::new(seed)),
            Step::Expire => self.expire(),
            Step::Full(blocks) => self.fs.set_capacity(Some(self.fs.used() + blocks * 4096)),
            Step::Room => self.room(),
            Step::Settle {
                items,
                replay,
                twice,
                seed,
            } => self.settle(items, replay, twice, Random::new(seed)),
            Step::DropSettled => self.drop_settled(),
            Step::Sync => {
                let synced = self.store().shared.syncer.sync_written();
                self.promised(synced.map(|_| ()));
            }
            Step::Seal => self.seal(),
            Step::Compact { quiet } => self.compact(quiet),
            Step::Retain => self.retain(),
            Step::Rebuild { days } => self.rebuild(days),
            Step::Read => self.read(),
            Step::Backup { opens } => self.backup(opens),
            Step::Close => {
                let store = self.store.take().expect("it is open");
                let closed = store.close();
                self.promised(closed);
            }
        }
    }

    fn answered(&mut self, which: usize, answer: Result<Ack>, j: bool) {
        self.trace(|| format!("{:?}: {answer:?}", self.oracle.sent[which]));
        let error = match answer {
            Ok(ack) => return self.oracle.acknowledged(which, &ack, j),
            Err(error) => error,
        };
        let gap = matches!(error, Error::Gap { .. }) && self.oracle.follows_a_refusal(which);
        let settled =
            matches!(error, Error::Settled { .. }) && self.oracle.is_settled_in_part(which);
        if !gap && !settled {
            self.excuse(&error);
        }
        // A batch that a running store refuses was not stored, whatever the error.
        let is_running = !self.fs.halted() && self.store().status().poisoned.is_none();
        if is_running && self.oracle.sent[which].fate == Fate::Unknown {
            self.oracle.refused(which);
        }
    }

    fn write(&mut self, which: usize, j: bool) {
        self.moment();
        let batch = self.oracle.sent[which].build();
        // One of two shards of a cluster; no sender divides batches.
        let shard = if which.is_multiple_of(2) { 0 } else { 1 };
        let key = "x1".parse().expect("a key");
        let division = Division::of(shard, 2, &key, &[]);
        let created = self
            .store()
            .create_stream(&batch.stream, batch.kind, division);
        if let Err(error) = created {
            self.excuse(&error);
        }
        let answer = self.store().write(batch, concern(j));
        self.answered(which, answer, j);
    }

    fn burst(&mut self, batches: u64, j: bool) {
        let whole: Vec<usize> = (0..batches)
            .map(|i| {
                let producer = (i % 2 == 1).then_some((i % 3) as u8);
                self.oracle
                    .new_batch(1 + i % 3, i % 2, producer, i % 4 == 0)
            })
            .collect();
        self.group(&whole, j);
    }

    /// Sends batches that go into one group, the last perhaps with `j`.
    fn group(&mut self, whole: &[usize], j: bool) {
        self.moment();
        let (send, receive) = crossbeam_channel::unbounded();
        let last = whole.last().copied();
        let requests = whole.iter().map(|which| {
            let record = Record::of(self.oracle.sent[*which].build());
            let (which, j, send) = (*which, j && Some(*which) == last, send.clone());
            Request {
                payload: record.encode(),
                record,
                durability: if j {
                    Durability::Synced
                } else {
                    Durability::Written
                },
                counts: true,
                reply: Reply::new(move |answer| {
                    send.send((which, j, answer)).expect("somebody waits");
                }),
            }
        });
        let commands = self.store().commands.as_ref().expect("it is open");
        let sent = commands.send(Command::Write(requests.collect()));
        sent.expect("the log thread lives");
        let answers = whole.iter().map(|_| receive.recv().expect("answered"));
        let mut answers: Vec<_> = answers.collect();
        answers.sort_by_key(|(which, ..)| *which);
        for (which, j, answer) in answers {
            self.answered(which, answer, j);
        }
    }

    /// Sends batches again, whatever the result of their first copies.
    fn retry(&mut self, times: u64, mut seed: Random) {
        for _ in 0..times {
            let known = self.oracle.known_batches();
            if known.is_empty() {
                return;
            }
            let which = known[seed.below(known.len() as u64) as usize];
            let which = self.oracle.again(which);
            self.write(which, seed.below(2) == 0);
        }
    }

    fn settle(&mut self, count: u64, replay: bool, twice: bool, mut seed: Random) {
        let seen = self.read_content();
        let mut whole = Vec::new();
        let mut items = Ranges::default();
        for _ in 0..1 + u64::from(twice) {
            // The second batch resolves the items of the first, and perhaps more.
            items.add(&self.oracle.some_items(&seen, count, &mut seed));
            if !items.is_empty() {
                let how = Settlement::ALL[usize::from(!replay)];
                whole.push(self.oracle.new_settling(items.clone(), how));
            }
        }
        if !whole.is_empty() {
            self.group(&whole, seed.below(3) == 0);
        }
    }

    /// Drops the sealed items, which lie in one partition, when all of them are resolved.
    fn drop_settled(&mut self) {
        let seen = self.read_content();
        let sealed_seq = self.store().snapshot().manifest().sealed_seq;
        let sealed = seen.bad.range(..sealed_seq);
        let settled = sealed.clone().all(|seq| seen.settled.how(*seq).is_some());
        let there = if settled { sealed.count() as u64 } else { 0 };
        self.oracle.may_drop_settled();
        self.moment();
        match quarantine::drop_settled(&self.store().shared, i64::MAX) {
            Ok(report) => {
                assert_eq!(report.events, there, "{report:?}");
                if report.events > 0 {
                    self.oracle.all_durable();
                }
            }
            Err(error) => self.excuse(&error),
        }
    }

    /// Sends a batch that must be refused, for this reason.
    fn wrong(&self, identity: Identity, reason: impl Fn(&Error) -> bool) {
        let batch = self.oracle.never_sent(2, 0, Some(identity)).build();
        match self.store().write(batch, WriteConcern::ACKNOWLEDGED) {
            Ok(ack) => panic!("taken: {ack:?}"),
            Err(error) => assert!(reason(&error) || self.excused(&error), "{error}"),
        }
    }

    fn reuse_key(&self, which: u64) {
        if let Some(key) = self.oracle.known_key(which) {
            let body_hash = u64::MAX;
            let reused = |e: &Error| matches!(e, Error::KeyReused { .. });
            self.wrong(Identity::Key { key, body_hash }, reused);
        }
    }

    fn hole(&self, producer: u8, overlaps: bool) {
        let producer = format!("p{producer}");
        let at = self.oracle.producers.get(&producer).copied().unwrap_or(0);
        if at == 0 {
            return;
        }
        let from = if overlaps { at - 1 } else { at + 1 };
        let identity = Identity::Range {
            producer,
            from,
            to: at + 4,
            content: 0,
        };
        self.wrong(identity, |e| match e {
            Error::Gap { known, .. } => !overlaps && *known == at,
            Error::Invalid { .. } => overlaps,
            _ => false,
        });
    }

    fn drop_partitions(&mut self, days: (i64, i64), dry: bool) {
        let stream = Name::new(STREAM).expect("a name");
        let known = self.store().snapshot().streams().contains_key(&stream);
        let seen = self.read_content();
        let there = self.oracle.to_be_dropped(days, &seen);
        if !dry {
            self.oracle.moves(Move::Drop, days);
        }
        self.moment();
        let range = (days.0 * DAY_US, days.1 * DAY_US);
        match self.store().drop_partitions(&stream, range, dry) {
            Ok(report) => {
                assert_eq!(report.events, there, "{days:?}: {report:?}");
                if !dry {
                    self.oracle.has_moved(report.events);
                }
                self.oracle.all_durable();
            }
            Err(Error::Missing { .. }) if !known => {}
            Err(error) => self.excuse(&error),
        }
    }

    fn detach(&mut self, days: (i64, i64), dry: bool) {
        let stream = Name::new(STREAM).expect("a name");
        let known = self.store().snapshot().streams().contains_key(&stream);
        let seen = self.read_content();
        let there = self.oracle.to_be_detached(days, &seen);
        if !dry && there.is_some() {
            self.oracle.moves(Move::Detach, days);
        }
        self.moment();
        let range = (days.0 * DAY_US, days.1 * DAY_US);
        match self.store().detach_partitions(&stream, range, dry) {
            Ok(report) => {
                assert_eq!(Some(report.events), there, "{days:?}: {report:?}");
                if !dry {
                    self.oracle.has_moved(report.events);
                }
                self.oracle.all_durable();
            }
            Err(Error::Missing { .. }) if !known => {}
            // Events in the memtable were sealed before the partitions were checked.
            Err(Error::Invalid { .. }) if there.is_none() => self.oracle.all_durable(),
            Err(error) => self.excuse(&error),
        }
    }

    fn attach(&mut self, days: (i64, i64)) {
        let stream = Name::new(STREAM).expect("a name");
        let seen = self.read_content();
        let there = self.oracle.to_be_attached(days, &seen);
        if there > 0 {
            self.oracle.moves(Move::Attach, days);
        }
        self.moment();
        let range = (days.0 * DAY_US, days.1 * DAY_US);
        match self.store().attach_partitions(&stream, range) {
            Ok(report) => {
                assert_eq!(report.events, there, "{days:?}: {report:?}");
                self.oracle.has_moved(report.events);
            }
            Err(Error::Missing { .. }) if there == 0 => {}
            Err(error) => self.excuse(&error),
        }
    }

    /// Erases some events, which may be in the memtable. The rollup of the model is counted again
    /// as a whole, so without all raw events only a dry run is made.
    fn erase(&mut self, one_in: u64, mut seed: Random) {
        let stream = Name::new(STREAM).expect("a name");
        let known = self.store().snapshot().streams().contains_key(&stream);
        let mut events = self.read_content().events;
        events.retain(|_, _| seed.below(one_in) == 0);
        let dry = !self.oracle.has_all_raw();
        // Numbers that no event has are no error.
        let seqs = events.keys().copied().chain([1 << 40]).collect();
        if !dry {
            self.oracle.erases(events.clone());
        }
        self.moment();
        match self.store().erase(&stream, seqs, dry) {
            Ok(report) => {
                if !dry {
                    assert_eq!(report.events, events.len() as u64, "{report:?}");
                    assert_eq!(report.still_counted, 0, "{report:?}");
                    self.oracle.has_erased(report.events);
                }
                self.oracle.all_durable();
            }
            Err(Error::Missing { .. }) if !known => {}
            Err(error) => self.excuse(&error),
        }
    }

    /// Applies retention: only the first day is old enough. All its live events are dropped, or
    /// none.
    fn expire(&mut self) {
        let seen = self.read_content();
        let there = self.oracle.to_be_detached(OLD_DAYS, &seen);
        if there.is_some() {
            self.oracle.moves(Move::Drop, OLD_DAYS);
        }
        self.moment();
        match self.store().retain(None, false) {
            Ok(gone) => {
                let events: u64 = gone.iter().map(|l| l.events).sum();
                assert!(events == 0 || Some(events) == there, "{gone:?}, {there:?}");
                self.oracle.has_moved(events);
                self.oracle.all_durable();
            }
            Err(error) => self.excuse(&error),
        }
    }

    /// Removes the limit of the disk: writes that were refused on a full disk succeed again.
    fn room(&mut self) {
        self.fs.set_capacity(None);
        let which = self.oracle.new_batch(2, 0, None, true);
        self.write(which, false);
        self.seal();
    }

    fn seal(&mut self) {
        self.moment();
        let sealed = self.store().seal();
        self.promised(sealed.map(|_| ()));
    }

    fn compact(&mut self, quiet: bool) {
        self.moment();
        if let Err(error) = self.store().compact_tiles(quiet) {
            self.excuse(&error);
        }
        if let Err(error) = self.store().compact_parts(None, quiet) {
            self.excuse(&error);
        }
    }

    fn retain(&mut self) {
        self.moment();
        if let Err(error) = self.store().retain_levels() {
            self.excuse(&error);
        }
    }

    fn rebuild(&mut self, days: (i64, i64)) {
        let rollup = Name::new("stats").expect("a name");
        let known = !self.store().snapshot().manifest().rollups.is_empty();
        self.moment();
        let range = (days.0 * DAY_US, days.1 * DAY_US);
        match self.store().rebuild(&rollup, range) {
            Ok(_) => self.oracle.all_durable(),
            Err(Error::Missing { .. }) if !known => {}
            Err(error) => self.excuse(&error),
        }
    }

    /// Checks a call that makes everything durable or fails.
    fn promised(&mut self, outcome: Result<()>) {
        match outcome {
            Ok(()) => self.oracle.all_durable(),
            Err(error) => self.excuse(&error),
        }
    }

    fn read(&mut self) {
        if self.reader.take().is_some() {
            return;
        }
        match ReadOnlyStore::open(Arc::new(self.fs.clone()), Path::new(DATA)) {
            // An unregistered reader holds no files, so it is checked at once and not kept.
            Ok(reader) if !reader.is_registered() => {
                self.fs.suspend(true);
                let seen = seen::by_reader(&reader, &mut self.oracle.known);
                self.fs.suspend(false);
                self.oracle.check(&seen);
            }
            Ok(reader) => {
                self.fs.suspend(true);
                let seen = seen::by_reader(&reader, &mut self.oracle.known);
                self.fs.suspend(false);
                self.oracle.check(&seen);
                self.reader = Some((reader, seen));
            }
            Err(error) => self.excuse(&error),
        }
    }
}
