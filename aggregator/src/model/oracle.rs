//! The expected contents of the store. The oracle takes only acknowledgements from the store, and
//! holds it to them. Which events are sealed, kept raw and below floors it works out by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use storage::{Ack, Rebuilt};

use super::calendar::Calendar;
use super::counted::{ExpectedLevel, ExpectedRollup};
use super::events::{Fate, SentBatch};
use super::rollups::Rollup;
use super::seen::StoreContents;
use crate::calendar::Level;
use crate::testing::AccessEvent;

/// Floors by rollup and level.
pub(super) type Floors = Vec<Vec<i64>>;

/// The operation under way, which may or may not have taken effect when the disk stops.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Pending {
    #[default]
    Nothing,
    /// Floors are raised to these.
    Retain(Floors),
    /// Floors are lowered to these, each by one time partition after the other.
    Lower(Floors),
    /// Partitions that begin in this range are dropped.
    Drop((i64, i64)),
    /// Partitions that begin in this range are detached.
    Detach((i64, i64)),
    /// Detached partitions that begin in this range are attached.
    Attach((i64, i64)),
}

#[derive(Debug)]
pub(super) struct RollupOracle {
    pub(super) rollups: Vec<ExpectedRollup>,
    pub(super) sent: Vec<SentBatch>,
    /// Width of the partitions of raw events.
    pub(super) width: Level,
    /// All live events, by sequence number.
    events: BTreeMap<u64, Rc<AccessEvent>>,
    /// End of the sequence numbers in parts and tiles.
    sealed_seq: u64,
    /// The least sequence number that the store may still assign.
    next_seq: u64,
    /// For each dropped partition, the sequence number from which on it is complete.
    dropped: BTreeMap<i64, u64>,
    /// The same for each detached partition.
    detached: BTreeMap<i64, u64>,
    pub(super) pending: Pending,
}

impl RollupOracle {
    pub(super) fn new(rollups: Vec<Rollup>, width: Level) -> Self {
        Self {
            rollups: rollups.into_iter().map(ExpectedRollup::new).collect(),
            sent: Vec::new(),
            width,
            events: BTreeMap::new(),
            sealed_seq: 0,
            next_seq: 0,
            dropped: BTreeMap::new(),
            detached: BTreeMap::new(),
            pending: Pending::Nothing,
        }
    }

    /// Notes a batch that is about to be sent, and returns its index in `sent`.
    pub(super) fn sends(
        &mut self,
        events: Vec<AccessEvent>,
        keyed: bool,
        received_us: i64,
    ) -> usize {
        let number = self.sent.len() as u64;
        self.sent.push(SentBatch {
            number,
            events,
            keyed,
            received_us,
            first_seq: 0,
            fate: Fate::Unknown,
        });
        self.sent.len() - 1
    }

    pub(super) fn acknowledged(&mut self, which: usize, ack: &Ack, j: bool) {
        let sent = &mut self.sent[which];
        let first = ack.first_seq.expect("there were events");
        if ack.duplicate {
            assert!(
                sent.lives(),
                "called a duplicate and is not there: {sent:?}"
            );
            assert_eq!(first, sent.first_seq, "another answer than to the first");
        } else {
            assert!(!sent.lives(), "stored again: {sent:?}");
            self.stored(which, first);
            self.sent[which].fate = Fate::Acknowledged;
        }
        if j {
            self.all_durable();
        }
    }

    fn stored(&mut self, which: usize, first_seq: u64) {
        assert!(first_seq >= self.next_seq, "{first_seq} was given before");
        let sent = &mut self.sent[which];
        sent.first_seq = first_seq;
        self.next_seq = sent.end_seq();
        for (seq, event) in (first_seq..).zip(&sent.events) {
            let event = Rc::new(event.clone());
            for rollup in &mut self.rollups {
                rollup.add(seq, &event);
            }
            self.events.insert(seq, event);
        }
    }

    pub(super) fn all_durable(&mut self) {
        for sent in &mut self.sent {
            if sent.fate == Fate::Acknowledged {
                sent.fate = Fate::Durable;
            }
        }
    }

    /// Marks the time partitions of the events in memory as changed: even where the events are the
    /// same, they are in other chunks.
    pub(super) fn memory_changed(&mut self) {
        for counts in self.rollups.iter_mut().flat_map(|r| &mut r.levels) {
            let partitions: Vec<i64> = counts
                .partitions_of(self.sealed_seq..)
                .map(|p| p.1)
                .collect();
            counts.changed.extend(partitions);
        }
    }

    /// Returns the start of the raw partition around an instant.
    pub(super) fn partition(&self, t_us: i64) -> i64 {
        Calendar::UTC.bucket(self.width, t_us).start_us
    }

    fn is_dropped(&self, seq: u64, event: &AccessEvent) -> bool {
        let from = self.dropped.get(&self.partition(event.time));
        from.is_some_and(|from| seq < *from)
    }

    fn is_detached(&self, seq: u64, event: &AccessEvent) -> bool {
        let from = self.detached.get(&self.partition(event.time));
        from.is_some_and(|from| seq < *from) && !self.is_dropped(seq, event)
    }

    fn raw_is_there(&self, seq: u64, event: &AccessEvent) -> bool {
        !self.is_dropped(seq, event) && !self.is_detached(seq, event)
    }

    /// Counts the events, in partitions that begin in a range, for which `holds` is true.
    fn in_range(&self, range: (i64, i64), holds: impl Fn(&Self, u64, &AccessEvent) -> bool) -> u64 {
        let there = |(seq, event): &(&u64, &Rc<AccessEvent>)| {
            let partition = self.partition(event.time);
            (range.0..range.1).contains(&partition) && holds(self, **seq, event)
        };
        self.events.iter().filter(there).count() as u64
    }

    /// Counts the events that go when the partitions that begin in a range are dropped.
    pub(super) fn to_be_dropped(&self, range: (i64, i64)) -> u64 {
        self.in_range(range, |oracle, seq, event| !oracle.is_dropped(seq, event))
    }

    /// Counts the events that go when the partitions that begin in a range are detached; `None`
    /// when one of them is detached already.
    pub(super) fn to_be_detached(&self, range: (i64, i64)) -> Option<u64> {
        let free = self.detached.range(range.0..range.1).next().is_none();
        free.then(|| self.in_range(range, Self::raw_is_there))
    }

    /// Counts the events that come back when the partitions that begin in a range are attached.
    pub(super) fn to_be_attached(&self, range: (i64, i64)) -> u64 {
        self.in_range(range, Self::is_detached)
    }

    /// Returns the floors that the retention of levels sets at `now_us`.
    pub(super) fn floors(&self, now_us: i64) -> Floors {
        let floors = |counted: &ExpectedRollup| {
            let newest_us = self.newest(counted);
            let floor = |counts: &ExpectedLevel| {
                let to = newest_us.and_then(|newest_us| {
                    let age_us = counted.rollup.age_us(counts.level)?;
                    let calendar = counted.rollup.calendar;
                    let bucket = calendar.bucket(counts.level, newest_us.min(now_us) - age_us);
                    Some(calendar.partition(counts.level, bucket.start_us))
                });
                let cuts = |to: &i64| {
                    let mut sealed = counts.partitions_of(..self.sealed_seq);
                    sealed.any(|(_, partition_us)| (counts.floor_us..*to).contains(&partition_us))
                };
                to.filter(cuts).unwrap_or(counts.floor_us)
            };
            counted.levels.iter().map(floor).collect()
        };
        self.rollups.iter().map(floors).collect()
    }

    /// Returns the time of the newest events in parts, or the start of the newest buckets where raw
    /// events are gone. A few events do not suffice: see [`usual_newest`].
    fn newest(&self, counted: &ExpectedRollup) -> Option<i64> {
        let sealed = || self.events.range(..self.sealed_seq);
        let raw = sealed().filter(|(seq, event)| self.raw_is_there(**seq, event));
        let raw = raw.map(|(_, event)| (self.partition(event.time), event.time));
        let (finest, calendar) = (&counted.levels[0], counted.rollup.calendar);
        let buckets = sealed().map(|(_, event)| {
            let start_us = calendar.bucket(finest.level, event.time).start_us;
            (calendar.partition(finest.level, start_us), start_us)
        });
        let buckets = buckets.filter(|(partition_us, _)| *partition_us >= finest.floor_us);
        usual_newest(raw).max(usual_newest(buckets))
    }

    /// Returns the floors after a rebuild of one rollup from `from_us` on: they come down over time
    /// partitions whose raw events are all there. `window` returns the time of a time partition.
    pub(super) fn lowered(
        &self,
        nth: usize,
        from_us: i64,
        window: impl Fn(Level, i64) -> (i64, i64),
    ) -> Floors {
        let mut floors = self.floors_before();
        let gone = self.dropped.keys().chain(self.detached.keys());
        let gone: Vec<_> = gone
            .map(|at| Calendar::UTC.bucket(self.width, *at))
            .collect();
        for (counts, floor) in self.rollups[nth].levels.iter().zip(&mut floors[nth]) {
            let before = *floor;
            let all = counts
                .partitions_of(..)
                .filter(|(_, partition_us)| *partition_us < before);
            let all: Vec<(u64, i64)> = all.collect();
            let there = all
                .iter()
                .filter(|(seq, _)| self.raw_is_there(*seq, &self.events[seq]));
            let partitions: BTreeSet<i64> = there.map(|(_, partition_us)| *partition_us).collect();
            for partition_us in partitions.into_iter().rev() {
                let (start_us, end_us) = window(counts.level, partition_us);
                let lacks = |b: &crate::calendar::Bucket| {
                    b.start_us < before.max(end_us) && b.end_us > start_us
                };
                if end_us <= from_us || gone.iter().any(lacks) {
                    break;
                }
                *floor = partition_us;
            }
            if *floor < before && !all.iter().any(|(_, partition_us)| *partition_us < *floor) {
                *floor = i64::MIN;
            }
        }
        floors
    }

    /// Counts the events that the levels lose when their floors rise to these.
    pub(super) fn lost_below(&self, floors: &Floors) -> u64 {
        let levels = self.rollups.iter().zip(floors);
        let levels = levels.flat_map(|(counted, floors)| counted.levels.iter().zip(floors));
        let lost = levels.map(|(counts, floor)| {
            let mut sealed = counts.partitions_of(..self.sealed_seq);
            let lost = |partition_us: i64| (counts.floor_us..*floor).contains(&partition_us);
            sealed
                .by_ref()
                .filter(|(_, partition_us)| lost(*partition_us))
                .count() as u64
        });
        lost.sum()
    }

    fn floors_before(&self) -> Floors {
        let floors = |c: &ExpectedRollup| c.levels.iter().map(|l| l.floor_us).collect();
        self.rollups.iter().map(floors).collect()
    }

    /// Checks the manifest against the pending operation: sealed events stay sealed, and floors and
    /// partitions change as the operation demands. After a crash it may have taken effect or not.
    pub(super) fn settle(&mut self, raw: &StoreContents, crashed: bool) {
        self.settle_sealed(raw);
        let pending = std::mem::take(&mut self.pending);
        let (before, wanted) = (
            self.floors_before(),
            match &pending {
                Pending::Retain(floors) | Pending::Lower(floors) => floors.clone(),
                _ => self.floors_before(),
            },
        );
        let on_the_way = || {
            let all = raw.floors.iter().flatten();
            let mut all = all.zip(wanted.iter().flatten().zip(before.iter().flatten()));
            matches!(pending, Pending::Lower(_)) && all.all(|(f, (to, from))| to <= f && f <= from)
        };
        assert!(
            raw.floors == wanted || crashed && (raw.floors == before || on_the_way()),
            "floors {:?}, expected {wanted:?}",
            raw.floors
        );
        for (counted, floors) in self.rollups.iter_mut().zip(&raw.floors) {
            let levels = counted.levels.iter_mut().zip(floors);
            for (counts, floor) in levels.filter(|(c, f)| c.floor_us != **f) {
                counts.cut(*floor);
                if *floor == i64::MIN {
                    counts.late = 0;
                }
            }
        }
        let wanted = self.partitions_after(&pending);
        let found = (raw.dropped.clone(), raw.detached.clone());
        let before = (self.dropped.clone(), self.detached.clone());
        assert!(
            found == wanted || crashed && found == before,
            "dropped and detached {found:?}, expected {wanted:?}"
        );
        (self.dropped, self.detached) = found;
        let late = |c: &ExpectedRollup| c.levels.iter().map(|l| l.late).collect();
        let late: Vec<Vec<u64>> = self.rollups.iter().map(late).collect();
        assert_eq!(raw.late, late, "events that came below a floor");
    }

    /// Returns the dropped and the detached partitions after an operation.
    fn partitions_after(&self, pending: &Pending) -> (BTreeMap<i64, u64>, BTreeMap<i64, u64>) {
        let (mut dropped, mut detached) = (self.dropped.clone(), self.detached.clone());
        let (Pending::Drop(range) | Pending::Detach(range) | Pending::Attach(range)) = pending
        else {
            return (dropped, detached);
        };
        for (seq, event) in self.events.range(..self.sealed_seq) {
            let partition = self.partition(event.time);
            let stays = !(range.0..range.1).contains(&partition);
            if stays || self.is_dropped(*seq, event) {
                continue;
            }
            match pending {
                Pending::Drop(_) => {
                    dropped.insert(partition, self.sealed_seq);
                    detached.remove(&partition);
                }
                Pending::Detach(_) => {
                    let known = detached.entry(partition);
                    known.or_insert(self.sealed_seq);
                }
                _ => {
                    detached.remove(&partition);
                }
            }
        }
        (dropped, detached)
    }

    fn settle_sealed(&mut self, raw: &StoreContents) {
        assert!(raw.sealed_seq >= self.sealed_seq, "less is sealed");
        let new = self.sealed_seq..raw.sealed_seq;
        for counts in self.rollups.iter_mut().flat_map(|r| &mut r.levels) {
            let floor_us = counts.floor_us;
            let late = counts.partitions_of(new.clone()).filter(|p| p.1 < floor_us);
            counts.late += late.count() as u64;
        }
        self.sealed_seq = raw.sealed_seq;
    }

    /// Checks that memory holds the live events that are not sealed.
    pub(super) fn check_memory(&self, raw: &StoreContents) {
        let there = self.events.range(self.sealed_seq..);
        let there: Vec<(u64, i64)> = there.map(|(seq, e)| (*seq, e.time)).collect();
        assert_eq!(raw.memory, there, "in memory: left is there");
    }

    /// Checks that parts hold the sealed events that are neither dropped nor detached.
    fn check_parts(&self, parts: &[(u64, i64)]) {
        let sealed = self.events.range(..self.sealed_seq);
        let kept = sealed.filter(|(seq, event)| self.raw_is_there(**seq, event));
        let kept: Vec<(u64, i64)> = kept.map(|(seq, e)| (*seq, e.time)).collect();
        assert_eq!(parts, kept, "in parts: left is there");
    }

    /// Settles the fates of batches after the store was opened again. If only the process ended,
    /// all acknowledged batches are there; after a power cut, all durable ones and a prefix of the
    /// others.
    pub(super) fn reopened(&mut self, raw: &StoreContents, parts: &[(u64, i64)], power: bool) {
        let memory: BTreeSet<u64> = raw.memory.iter().map(|(seq, _)| *seq).collect();
        let mut lost: Option<u64> = None;
        let mut living: Vec<&mut SentBatch> = self.sent.iter_mut().filter(|s| s.lives()).collect();
        living.sort_by_key(|s| s.first_seq);
        for sent in living {
            let there = |seq: &u64| *seq < raw.sealed_seq || memory.contains(seq);
            let count = (sent.first_seq..sent.end_seq()).filter(there).count();
            if count == sent.events.len() {
                assert!(
                    lost.is_none(),
                    "{lost:?} is lost and the later {sent:?} is not"
                );
                sent.fate = Fate::Durable;
            } else {
                assert_eq!(count, 0, "there in part: {sent:?}");
                assert!(sent.fate != Fate::Durable && power, "is lost: {sent:?}");
                lost = lost.or(Some(sent.number));
                sent.fate = Fate::Lost;
            }
        }
        if lost.is_some() {
            self.forget_lost_batches();
        }
        self.settle_unknown(raw, lost);
        self.settle(raw, true);
        self.check_memory(raw);
        self.check_parts(parts);
        for rollup in &mut self.rollups {
            rollup
                .levels
                .iter_mut()
                .for_each(ExpectedLevel::all_changed);
        }
    }

    /// Settles the batch under way at the crash, the last of all: it is there or not.
    fn settle_unknown(&mut self, raw: &StoreContents, lost: Option<u64>) {
        let Some(which) = self.sent.iter().position(|s| s.fate == Fate::Unknown) else {
            return;
        };
        let first = raw.memory.iter().find(|(seq, _)| *seq >= self.next_seq);
        if let Some((first, _)) = first {
            assert!(lost.is_none(), "{lost:?} is lost and a later batch is not");
            self.stored(which, *first);
            self.sent[which].fate = Fate::Durable;
        } else {
            self.sent[which].fate = Fate::Lost;
        }
    }

    fn forget_lost_batches(&mut self) {
        self.rollups.iter_mut().for_each(ExpectedRollup::forget);
        let living = self.sent.iter().filter(|s| s.lives());
        let seqs: BTreeSet<u64> = living.flat_map(|s| s.first_seq..s.end_seq()).collect();
        self.events.retain(|seq, _| seqs.contains(seq));
        for (seq, event) in &self.events {
            for rollup in &mut self.rollups {
                rollup.add(*seq, event);
            }
        }
    }

    /// Checks the report of a rebuild of one rollup: it lists every (level, time partition) with
    /// events in the range, each as rebuilt exactly where all of its raw events are there.
    pub(super) fn check_rebuilt(&self, nth: usize, range: (i64, i64), report: &[Rebuilt]) {
        for counts in &self.rollups[nth].levels {
            let mut all: BTreeMap<i64, (u64, bool, bool)> = BTreeMap::new();
            for (seq, partition_us) in counts.partitions_of(..self.sealed_seq) {
                let event = &self.events[&seq];
                let (events, in_range, whole) = all.entry(partition_us).or_insert((0, false, true));
                *events += 1;
                *in_range |= (range.0..range.1).contains(&event.time);
                *whole &= self.raw_is_there(seq, event);
            }
            let above = all.range(counts.floor_us..);
            let reported = |partition_us: i64| {
                let at = |r: &&Rebuilt| {
                    r.level == counts.level.as_str() && r.partition_us == partition_us
                };
                report.iter().find(at)
            };
            for (partition_us, (events, in_range, whole)) in above {
                let Some(rebuilt) = reported(*partition_us) else {
                    assert!(!in_range, "not rebuilt: {} {partition_us}", counts.level);
                    continue;
                };
                let found = (rebuilt.events, rebuilt.left.is_none());
                assert_eq!(found, (*events, *whole), "{rebuilt:?}: left is said");
            }
        }
    }
}

/// Returns the newest time of the latest partition that, together with all later ones, has as many
/// events as the median partition, and at least two. Of each partition no more than that number
/// counts.
fn usual_newest(all: impl Iterator<Item = (i64, i64)>) -> Option<i64> {
    let mut partitions: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for (partition, time) in all {
        partitions.entry(partition).or_default().push(time);
    }
    let mut sizes: Vec<usize> = partitions.values().map(Vec::len).collect();
    sizes.sort_unstable();
    let usual = 2.max(*sizes.get(sizes.len() / 2)?);
    let mut counted = 0;
    for times in partitions.values().rev() {
        counted += times.len().min(usual);
        if counted >= usual {
            return times.iter().max().copied();
        }
    }
    None
}
