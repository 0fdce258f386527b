//! Takes each kind of step on the store, and checks the answer.

use storage::{Name, WriteConcern};

use super::{Fate, HeldSnapshot, HistoryStep, RollupWorld, STREAM, compare, instants};
use crate::calendar::Level;
use crate::model::counted::ExpectedRollup;
use crate::model::events::event;
use crate::model::oracle::Pending;
use crate::testing::AccessEvent;

const HOUR_US: i64 = 3_600_000_000;
/// The store keeps the identity of a batch for this time.
const KEPT_US: i64 = 24 * HOUR_US;
/// Hosts of a crowd: more than a distinct count keeps as coupons.
const CROWD: u64 = 135;

impl RollupWorld {
    /// Takes one step.
    pub(super) fn take(&mut self, step: HistoryStep) {
        match step {
            HistoryStep::Write { events, keyed, j } => {
                let events = (0..events).map(|_| self.event()).collect();
                self.send(events, keyed, j);
            }
            HistoryStep::Crowd => {
                let events = self.crowd();
                self.send(events, false, true);
            }
            HistoryStep::Retry { j } => self.retry(j),
            HistoryStep::Seal => {
                let sealed = self.store().seal().map(|_| ());
                self.durable_or_excused(sealed);
            }
            HistoryStep::Compact { quiet } => {
                if let Err(error) = self.store().compact_tiles(quiet) {
                    self.excuse(&error);
                }
                if let Err(error) = self.store().compact_parts(None, quiet) {
                    self.excuse(&error);
                }
            }
            HistoryStep::Retain => self.retain(),
            HistoryStep::Drop => self.drop_partitions(),
            HistoryStep::Detach => self.detach(),
            HistoryStep::Attach => self.attach(),
            HistoryStep::Rebuild => self.rebuild(),
            HistoryStep::Hold => self.hold(),
            HistoryStep::Pass => self.pass(),
            HistoryStep::Close => {
                self.held = None;
                let store = self.store.take().expect("it is open");
                let closed = store.close();
                self.durable_or_excused(closed);
            }
        }
    }

    fn event(&mut self) -> AccessEvent {
        let now_us = self.now_us();
        let time = instants::instant(&mut self.random, &self.rollups, now_us);
        event(&mut self.random, time)
    }

    fn crowd(&mut self) -> Vec<AccessEvent> {
        let mut one = self.event();
        // All events have the same key, and most filters let them pass.
        (one.site, one.path, one.status) = (None, None, Some(500));
        let from = self.random.below(3) * CROWD / 2;
        let events = (0..CROWD).map(|nth| {
            one.time += 1_000_000;
            one.host = Some(format!("10.1.0.{}", from + nth));
            one.clone()
        });
        events.collect()
    }

    fn send(&mut self, events: Vec<AccessEvent>, keyed: bool, j: bool) {
        let now_us = self.now_us();
        let which = self.oracle.sends(events, keyed, now_us);
        self.write(which, j);
    }

    fn write(&mut self, which: usize, j: bool) {
        let concern = match j {
            true => WriteConcern::JOURNALED,
            false => WriteConcern::ACKNOWLEDGED,
        };
        let batch = self.oracle.sent[which].build();
        self.print(|| format!("{:?}", self.oracle.sent[which]));
        match self.store().write(batch, concern) {
            Ok(ack) => self.oracle.acknowledged(which, &ack, j),
            Err(error) => self.excuse(&error),
        }
    }

    /// Writes an earlier batch again. The store recognises it when it holds it; one that a power
    /// cut has taken is as new.
    fn retry(&mut self, j: bool) {
        let now_us = self.now_us();
        let known = |nth: &usize| {
            let sent = &self.oracle.sent[*nth];
            let young = now_us - sent.received_us <= KEPT_US;
            sent.keyed && (sent.fate == Fate::Lost || young)
        };
        let known: Vec<usize> = (0..self.oracle.sent.len()).filter(known).collect();
        if known.is_empty() {
            return;
        }
        let which = known[self.random.below(known.len() as u64) as usize];
        let sent = &mut self.oracle.sent[which];
        if sent.fate == Fate::Lost {
            (sent.fate, sent.received_us) = (Fate::Unknown, now_us);
        }
        self.write(which, j);
    }

    fn durable_or_excused(&mut self, outcome: storage::Result<()>) {
        match outcome {
            Ok(()) => self.oracle.all_durable(),
            Err(error) => self.excuse(&error),
        }
    }

    fn retain(&mut self) {
        let floors = self.oracle.floors(self.now_us());
        let lost = self.oracle.lost_below(&floors);
        self.oracle.pending = Pending::Retain(floors);
        match self.store().retain_levels() {
            Ok(events) => assert_eq!(events, lost, "events that levels have given up"),
            Err(error) => self.excuse(&error),
        }
    }

    /// Returns a range of partitions that begins at a random time of an event.
    fn range(&mut self) -> (i64, i64) {
        let time = self.event().time;
        let start = self.oracle.partition(time);
        let width = 1 + self.random.below(10) as i64;
        (start, start + width * 24 * HOUR_US)
    }

    fn drop_partitions(&mut self) {
        let stream = Name::new(STREAM).expect("a name");
        let range = self.range();
        if !self.store().snapshot().streams().contains_key(&stream) {
            return;
        }
        let there = self.oracle.to_be_dropped(range);
        self.oracle.pending = Pending::Drop(range);
        match self.store().drop_partitions(&stream, range, false) {
            Ok(report) => {
                assert_eq!(report.events, there, "{report:?}");
                self.oracle.all_durable();
            }
            Err(error) => self.excuse(&error),
        }
    }

    fn detach(&mut self) {
        let stream = Name::new(STREAM).expect("a name");
        let range = self.range();
        let there = self.oracle.to_be_detached(range);
        let Some(there) = there.filter(|_| self.store().snapshot().streams().contains_key(&stream))
        else {
            return;
        };
        self.oracle.pending = Pending::Detach(range);
        match self.store().detach_partitions(&stream, range, false) {
            Ok(report) => {
                assert_eq!(report.events, there, "{report:?}");
                self.oracle.all_durable();
            }
            Err(error) => self.excuse(&error),
        }
    }

    /// Attaches all detached partitions, or those in a range.
    fn attach(&mut self) {
        let stream = Name::new(STREAM).expect("a name");
        let range = match self.random.below(2) {
            0 => self.range(),
            _ => (i64::MIN, i64::MAX),
        };
        let there = self.oracle.to_be_attached(range);
        if there == 0 {
            return;
        }
        self.oracle.pending = Pending::Attach(range);
        match self.store().attach_partitions(&stream, range) {
            Ok(report) => assert_eq!(report.events, there, "{report:?}"),
            Err(error) => self.excuse(&error),
        }
    }

    fn rebuild(&mut self) {
        let nth = self.random.below(self.readers.len() as u64) as usize;
        let (range, name) = (self.range(), self.readers[nth].name());
        let snapshot = self.store().snapshot();
        if self.readers[nth].meta(snapshot.manifest()).is_none() {
            return;
        }
        let calendar = self.readers[nth].definition.calendar();
        let floors = self.oracle.lowered(nth, range.0, |level, partition_us| {
            let window = calendar.partition_window(level, partition_us);
            // The first week of a year may have begun in the year before.
            let earlier = if level == Level::Week {
                7 * 24 * HOUR_US
            } else {
                0
            };
            (partition_us - earlier, window.end_us)
        });
        self.oracle.pending = Pending::Lower(floors);
        match self.store().rebuild(&name, range) {
            Ok(report) => {
                self.oracle.all_durable();
                if !self.fs.halted() {
                    self.check();
                    self.oracle.check_rebuilt(nth, range, &report);
                }
            }
            Err(error) => self.excuse(&error),
        }
    }

    /// Takes a snapshot, or reads every file of the held one again: it must not have changed.
    fn hold(&mut self) {
        let Some(HeldSnapshot(snapshot, wanted)) = self.held.take() else {
            let wanted =
                |c: &mut ExpectedRollup| (0..c.levels.len()).map(|nth| c.all_rows(nth)).collect();
            let wanted = self.oracle.rollups.iter_mut().map(wanted).collect();
            self.held = Some(HeldSnapshot(self.store().snapshot(), wanted));
            return;
        };
        for (reader, wanted) in self.readers.iter().zip(&wanted) {
            for (nth, wanted) in wanted.iter().enumerate() {
                let found = reader.all_rows(&snapshot, nth);
                compare(&reader.rollup, nth, &found, wanted);
                self.counters.reads += 1;
                self.counters.rows += wanted.len() as u64;
            }
        }
        if self.random.below(2) == 0 {
            self.held = Some(HeldSnapshot(snapshot, wanted));
        }
    }

    /// Advances the clock by minutes, days, or some months.
    fn pass(&mut self) {
        let hours = match self.random.below(4) {
            0 | 1 => 1,
            2 => 24,
            _ => 24 * 60,
        };
        let us = self.random.below((hours * HOUR_US).cast_unsigned());
        self.clock.advance(us.cast_signed());
    }
}
