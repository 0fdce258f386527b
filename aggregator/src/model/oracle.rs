//! What must be there. Of the store the oracle believes acknowledgements, and holds it to them; what
//! is sealed, kept in raw and below floors it works out by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use storage::{Ack, Rebuilt};

use super::calendar::Calendar;
use super::counted::{Counted, Counts};
use super::events::{Fate, Sent};
use super::rollups::Rollup;
use super::seen::Raw;
use crate::calendar::Level;
use crate::testing::Event;

/// The floors that a level retention gives, by rollup and level.
pub(super) type Floors = Vec<Vec<i64>>;

/// What was begun and may have been done when the disk stopped.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Doing {
    #[default]
    Nothing,
    /// Floors are raised to these.
    Retain(Floors),
    /// Floors are lowered to these, each one time partition after the other.
    Lower(Floors),
    /// Partitions that begin in this range are dropped.
    Drop((i64, i64)),
    /// They are detached.
    Detach((i64, i64)),
    /// Those of them that are detached are attached.
    Attach((i64, i64)),
}

#[derive(Debug)]
pub(super) struct Oracle {
    pub(super) rollups: Vec<Counted>,
    pub(super) sent: Vec<Sent>,
    /// How wide the partitions of raw events are.
    pub(super) width: Level,
    /// Everything that lives, by sequence number.
    events: BTreeMap<u64, Rc<Event>>,
    /// What is in parts and tiles ends here.
    sealed_seq: u64,
    /// No sequence number below this may be given any more.
    next_seq: u64,
    /// For each partition that was dropped, from which sequence number on it is complete.
    dropped: BTreeMap<i64, u64>,
    /// The same for each that is detached.
    detached: BTreeMap<i64, u64>,
    pub(super) doing: Doing,
}

impl Oracle {
    pub(super) fn new(rollups: Vec<Rollup>, width: Level) -> Self {
        Self {
            rollups: rollups.into_iter().map(Counted::new).collect(),
            sent: Vec::new(),
            width,
            events: BTreeMap::new(),
            sealed_seq: 0,
            next_seq: 0,
            dropped: BTreeMap::new(),
            detached: BTreeMap::new(),
            doing: Doing::Nothing,
        }
    }

    /// A batch is about to be sent.
    pub(super) fn sends(&mut self, events: Vec<Event>, keyed: bool, received_us: i64) -> usize {
        let number = self.sent.len() as u64;
        self.sent.push(Sent {
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

    /// Events in memory, whose places may be read otherwise though they are the same.
    pub(super) fn memory_changed(&mut self) {
        for counts in self.rollups.iter_mut().flat_map(|r| &mut r.levels) {
            let places: Vec<i64> = counts.places_of(self.sealed_seq..).map(|p| p.1).collect();
            counts.changed.extend(places);
        }
    }

    /// A raw partition's start.
    pub(super) fn partition(&self, t_us: i64) -> i64 {
        Calendar::UTC.bucket(self.width, t_us).start_us
    }

    fn is_dropped(&self, seq: u64, event: &Event) -> bool {
        let from = self.dropped.get(&self.partition(event.time));
        from.is_some_and(|from| seq < *from)
    }

    fn is_detached(&self, seq: u64, event: &Event) -> bool {
        let from = self.detached.get(&self.partition(event.time));
        from.is_some_and(|from| seq < *from) && !self.is_dropped(seq, event)
    }

    fn raw_is_there(&self, seq: u64, event: &Event) -> bool {
        !self.is_dropped(seq, event) && !self.is_detached(seq, event)
    }

    /// How many events of the partitions that begin in a range are such.
    fn in_range(&self, range: (i64, i64), such: impl Fn(&Self, u64, &Event) -> bool) -> u64 {
        let there = |(seq, event): &(&u64, &Rc<Event>)| {
            let partition = self.partition(event.time);
            (range.0..range.1).contains(&partition) && such(self, **seq, event)
        };
        self.events.iter().filter(there).count() as u64
    }

    /// How many events are dropped with the partitions that begin in a range.
    pub(super) fn to_be_dropped(&self, range: (i64, i64)) -> u64 {
        self.in_range(range, |oracle, seq, event| !oracle.is_dropped(seq, event))
    }

    /// How many events are detached with the partitions that begin in a range; none when one of them
    /// is detached already.
    pub(super) fn to_be_detached(&self, range: (i64, i64)) -> Option<u64> {
        let free = self.detached.range(range.0..range.1).next().is_none();
        free.then(|| self.in_range(range, Self::raw_is_there))
    }

    /// How many events are attached with the partitions that begin in a range.
    pub(super) fn to_be_attached(&self, range: (i64, i64)) -> u64 {
        self.in_range(range, Self::is_detached)
    }

    /// The floors that the retention of levels gives now.
    pub(super) fn floors(&self, now_us: i64) -> Floors {
        let floors = |counted: &Counted| {
            let newest_us = self.newest(counted);
            let floor = |counts: &Counts| {
                let to = newest_us.and_then(|newest_us| {
                    let age_us = counted.rollup.age_us(counts.level)?;
                    let calendar = counted.rollup.calendar;
                    let bucket = calendar.bucket(counts.level, newest_us.min(now_us) - age_us);
                    Some(calendar.place(counts.level, bucket.start_us))
                });
                let cuts = |to: &i64| {
                    let mut sealed = counts.places_of(..self.sealed_seq);
                    sealed.any(|(_, place)| (counts.floor_us..*to).contains(&place))
                };
                to.filter(cuts).unwrap_or(counts.floor_us)
            };
            counted.levels.iter().map(floor).collect()
        };
        self.rollups.iter().map(floors).collect()
    }

    /// The newest events in parts, or where the newest buckets begin when their raw events are
    /// gone: as many of them as a usual partition has.
    fn newest(&self, counted: &Counted) -> Option<i64> {
        let sealed = || self.events.range(..self.sealed_seq);
        let raw = sealed().filter(|(seq, event)| self.raw_is_there(**seq, event));
        let raw = raw.map(|(_, event)| (self.partition(event.time), event.time));
        let (finest, calendar) = (&counted.levels[0], counted.rollup.calendar);
        let buckets = sealed().map(|(_, event)| {
            let start_us = calendar.bucket(finest.level, event.time).start_us;
            (calendar.place(finest.level, start_us), start_us)
        });
        let buckets = buckets.filter(|(place, _)| *place >= finest.floor_us);
        usual_newest(raw).max(usual_newest(buckets))
    }

    /// The floors once what reaches beyond `from_us` of one rollup is made again: they come down
    /// over what raw events give. `window` says what a time partition of its levels covers.
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
            let all = counts.places_of(..).filter(|(_, place)| *place < before);
            let all: Vec<(u64, i64)> = all.collect();
            let there = all
                .iter()
                .filter(|(seq, _)| self.raw_is_there(*seq, &self.events[seq]));
            let places: BTreeSet<i64> = there.map(|(_, place)| *place).collect();
            for place in places.into_iter().rev() {
                let (start_us, end_us) = window(counts.level, place);
                let lacks = |b: &crate::calendar::Bucket| {
                    b.start_us < before.max(end_us) && b.end_us > start_us
                };
                if end_us <= from_us || gone.iter().any(lacks) {
                    break;
                }
                *floor = place;
            }
            if *floor < before && !all.iter().any(|(_, place)| *place < *floor) {
                *floor = i64::MIN;
            }
        }
        floors
    }

    /// How many events the levels lose between their floors and these.
    pub(super) fn lost_below(&self, floors: &Floors) -> u64 {
        let levels = self.rollups.iter().zip(floors);
        let levels = levels.flat_map(|(counted, floors)| counted.levels.iter().zip(floors));
        let lost = levels.map(|(counts, floor)| {
            let mut sealed = counts.places_of(..self.sealed_seq);
            let lost = |place: i64| (counts.floor_us..*floor).contains(&place);
            sealed.by_ref().filter(|(_, place)| lost(*place)).count() as u64
        });
        lost.sum()
    }

    fn floors_before(&self) -> Floors {
        let floors = |c: &Counted| c.levels.iter().map(|l| l.floor_us).collect();
        self.rollups.iter().map(floors).collect()
    }

    /// What the manifest says, held against what was done: no more is sealed than was, floors rise
    /// and partitions go when they are told to. After a crash either may have been done or not.
    pub(super) fn settle(&mut self, raw: &Raw, crashed: bool) {
        self.settle_sealed(raw);
        let doing = std::mem::take(&mut self.doing);
        let (before, wanted) = (
            self.floors_before(),
            match &doing {
                Doing::Retain(floors) | Doing::Lower(floors) => floors.clone(),
                _ => self.floors_before(),
            },
        );
        let on_the_way = || {
            let all = raw.floors.iter().flatten();
            let mut all = all.zip(wanted.iter().flatten().zip(before.iter().flatten()));
            matches!(doing, Doing::Lower(_)) && all.all(|(f, (to, from))| to <= f && f <= from)
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
        let wanted = self.moved(&doing);
        let found = (raw.dropped.clone(), raw.detached.clone());
        let before = (self.dropped.clone(), self.detached.clone());
        assert!(
            found == wanted || crashed && found == before,
            "dropped and detached {found:?}, expected {wanted:?}"
        );
        (self.dropped, self.detached) = found;
        let late = |c: &Counted| c.levels.iter().map(|l| l.late).collect();
        let late: Vec<Vec<u64>> = self.rollups.iter().map(late).collect();
        assert_eq!(raw.late, late, "events that came below a floor");
    }

    /// What is dropped and what is detached once something is done.
    fn moved(&self, doing: &Doing) -> (BTreeMap<i64, u64>, BTreeMap<i64, u64>) {
        let (mut dropped, mut detached) = (self.dropped.clone(), self.detached.clone());
        let (Doing::Drop(range) | Doing::Detach(range) | Doing::Attach(range)) = doing else {
            return (dropped, detached);
        };
        for (seq, event) in self.events.range(..self.sealed_seq) {
            let partition = self.partition(event.time);
            let stays = !(range.0..range.1).contains(&partition);
            if stays || self.is_dropped(*seq, event) {
                continue;
            }
            match doing {
                Doing::Drop(_) => {
                    dropped.insert(partition, self.sealed_seq);
                    detached.remove(&partition);
                }
                Doing::Detach(_) => {
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

    fn settle_sealed(&mut self, raw: &Raw) {
        assert!(raw.sealed_seq >= self.sealed_seq, "less is sealed");
        let new = self.sealed_seq..raw.sealed_seq;
        for counts in self.rollups.iter_mut().flat_map(|r| &mut r.levels) {
            let floor_us = counts.floor_us;
            let late = counts.places_of(new.clone()).filter(|p| p.1 < floor_us);
            counts.late += late.count() as u64;
        }
        self.sealed_seq = raw.sealed_seq;
    }

    /// What is in memory is what was acknowledged and is not sealed.
    pub(super) fn check_memory(&self, raw: &Raw) {
        let there = self.events.range(self.sealed_seq..);
        let there: Vec<(u64, i64)> = there.map(|(seq, e)| (*seq, e.time)).collect();
        assert_eq!(raw.memory, there, "in memory: left is there");
    }

    /// What is in parts is what was sealed, less what was dropped.
    fn check_parts(&self, parts: &[(u64, i64)]) {
        let sealed = self.events.range(..self.sealed_seq);
        let kept = sealed.filter(|(seq, event)| self.raw_is_there(**seq, event));
        let kept: Vec<(u64, i64)> = kept.map(|(seq, e)| (*seq, e.time)).collect();
        assert_eq!(parts, kept, "in parts: left is there");
    }

    /// Settles what became of the batches of a store that was opened again: all that was
    /// acknowledged is there when only the process ended; when power was cut, all that is durable
    /// and of the others a prefix.
    pub(super) fn reopened(&mut self, raw: &Raw, parts: &[(u64, i64)], power: bool) {
        let memory: BTreeSet<u64> = raw.memory.iter().map(|(seq, _)| *seq).collect();
        let mut lost: Option<u64> = None;
        let mut living: Vec<&mut Sent> = self.sent.iter_mut().filter(|s| s.lives()).collect();
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
                sent.fate = Fate::Gone;
            }
        }
        if lost.is_some() {
            self.forget_what_is_gone();
        }
        self.settle_unknown(raw, lost);
        self.settle(raw, true);
        self.check_memory(raw);
        self.check_parts(parts);
        for rollup in &mut self.rollups {
            rollup.levels.iter_mut().for_each(Counts::all_changed);
        }
    }

    /// The batch under way at the crash, the last of all, is there or not.
    fn settle_unknown(&mut self, raw: &Raw, lost: Option<u64>) {
        let Some(which) = self.sent.iter().position(|s| s.fate == Fate::Unknown) else {
            return;
        };
        let first = raw.memory.iter().find(|(seq, _)| *seq >= self.next_seq);
        if let Some((first, _)) = first {
            assert!(lost.is_none(), "{lost:?} is lost and a later batch is not");
            self.stored(which, *first);
            self.sent[which].fate = Fate::Durable;
        } else {
            self.sent[which].fate = Fate::Gone;
        }
    }

    fn forget_what_is_gone(&mut self) {
        self.rollups.iter_mut().for_each(Counted::forget);
        let living = self.sent.iter().filter(|s| s.lives());
        let seqs: BTreeSet<u64> = living.flat_map(|s| s.first_seq..s.end_seq()).collect();
        self.events.retain(|seq, _| seqs.contains(seq));
        for (seq, event) in &self.events {
            for rollup in &mut self.rollups {
                rollup.add(*seq, event);
            }
        }
    }

    /// A rebuild has told what became of every (level, time partition) in a range of one rollup:
    /// those with events in it are there, and made again wherever all raw events were.
    pub(super) fn check_rebuilt(&self, nth: usize, range: (i64, i64), report: &[Rebuilt]) {
        for counts in &self.rollups[nth].levels {
            let mut all: BTreeMap<i64, (u64, bool, bool)> = BTreeMap::new();
            for (seq, place) in counts.places_of(..self.sealed_seq) {
                let event = &self.events[&seq];
                let (events, in_range, whole) = all.entry(place).or_insert((0, false, true));
                *events += 1;
                *in_range |= (range.0..range.1).contains(&event.time);
                *whole &= self.raw_is_there(seq, event);
            }
            let above = all.range(counts.floor_us..);
            let told = |place: i64| {
                let at = |r: &&Rebuilt| r.level == counts.level.as_str() && r.partition_us == place;
                report.iter().find(at)
            };
            for (place, (events, in_range, whole)) in above {
                let Some(told) = told(*place) else {
                    assert!(!in_range, "not rebuilt: {} {place}", counts.level);
                    continue;
                };
                let found = (told.events, told.left.is_none());
                assert_eq!(found, (*events, *whole), "{told:?}: left is said");
            }
        }
    }
}

/// Of partitions and times: the newest time of the partition that, with all later ones, has as many
/// as the middle one has; two at least, and of each no more than that count.
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
