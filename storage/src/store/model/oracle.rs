//! The oracle: the expected content of the store, and the comparison with the actual one. It
//! identifies batches by their numbers, which their events carry. It trusts the store's
//! acknowledgements, and checks that the store honours them.

use std::collections::{BTreeMap, BTreeSet};

use super::motley;
use super::seen::{DAY_US, Events, Known, Seen, day};
use crate::model::{Ack, Identity};
use crate::resolutions::{Ranges, Settlement};
use crate::testing::batch;

/// Maximum of items of a batch.
const ITEMS_MAX: i64 = 8;

/// Known state of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Acknowledged: visible until power is cut; then a prefix of such batches remains.
    Acknowledged,
    /// Acknowledged, and a sync that covers it has succeeded: it survives a power cut.
    Durable,
    /// No answer, or an answer that the result is unknown.
    Unknown,
    /// Not stored, and never to become visible.
    Gone,
}

/// A batch that was sent.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) number: i64,
    pub(super) events: u64,
    pub(super) bad: u64,
    pub(super) identity: Option<Identity>,
    pub(super) first_seq: Option<u64>,
    pub(super) fate: Fate,
}

impl Sent {
    pub(super) fn build(&self) -> crate::Batch {
        let events = 0..self.events as i64;
        let times: Vec<i64> = events.map(|e| payload(self.number, e)).collect();
        let mut batch = batch(&times, &self.ranks(), self.identity.clone());
        batch.events = motley::extend(&batch.events, self.number);
        batch
    }

    /// Returns the ranks of quarantined items: even numbers, as long as events lie between them.
    fn ranks(&self) -> Vec<u32> {
        let step = if self.bad <= self.events + 1 { 2 } else { 1 };
        (0..self.bad as u32).map(|i| i * step).collect()
    }

    fn items(&self) -> u64 {
        self.events + self.bad
    }

    pub(super) fn lives(&self) -> bool {
        matches!(self.fate, Fate::Acknowledged | Fate::Durable)
    }

    /// Returns the sequence numbers of quarantined items.
    pub(super) fn bad_seqs(&self) -> impl Iterator<Item = u64> {
        let ranks = self.ranks().into_iter();
        let first = self.first_seq.unwrap_or(0);
        ranks.map(move |rank| first + u64::from(rank))
    }

    fn range(&self) -> Option<(&String, u64, u64)> {
        match &self.identity {
            Some(Identity::Range {
                producer, from, to, ..
            }) => Some((producer, *from, *to)),
            _ => None,
        }
    }
}

/// Returns the time and payload of an event: each batch is spread over three days.
fn payload(number: i64, event: i64) -> i64 {
    ((number + event / 2) % 3 - 1) * DAY_US + number * ITEMS_MAX + event
}

/// Returns the number of the batch that an event belongs to.
pub(super) fn number_of(payload: i64) -> i64 {
    payload.rem_euclid(DAY_US) / ITEMS_MAX
}

/// An operation on partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    Drop,
    Detach,
    Attach,
}

/// An operation on partitions whose outcome is not checked yet.
#[derive(Debug, Clone, Copy)]
struct Moving {
    what: Move,
    days: (i64, i64),
    /// Exclusive end of the sequence numbers acknowledged before the operation.
    acknowledged: u64,
    /// True when the store has reported success.
    done: bool,
}

/// Dropped and detached partitions, with the first sequence number from which each is complete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Gone {
    dropped: BTreeMap<i64, u64>,
    detached: BTreeMap<i64, u64>,
}

impl Gone {
    fn is_dropped(&self, seq: u64, payload: i64) -> bool {
        let from = self.dropped.get(&day(payload));
        from.is_some_and(|from| seq < *from)
    }

    fn is_detached(&self, seq: u64, payload: i64) -> bool {
        let from = self.detached.get(&day(payload));
        from.is_some_and(|from| seq < *from) && !self.is_dropped(seq, payload)
    }

    /// Returns the state after an operation that is applied as a whole; the sequence numbers are
    /// the store's.
    fn after(&self, moving: Moving, seen: &Seen) -> Self {
        let mut wanted = self.clone();
        let days = moving.days.0..moving.days.1;
        if moving.what == Move::Attach {
            wanted.detached.retain(|day, _| !days.contains(day));
            return wanted;
        }
        for (seq, payload) in seen.events.range(..moving.acknowledged) {
            let (at, stays) = (day(*payload), self.is_dropped(*seq, *payload));
            if stays || !days.contains(&at) {
                continue;
            }
            let from = match moving.what {
                Move::Drop => {
                    wanted.detached.remove(&at);
                    (&seen.dropped, &mut wanted.dropped)
                }
                _ if self.is_detached(*seq, *payload) => continue,
                _ => (&seen.detached, &mut wanted.detached),
            };
            let (seen, wanted) = from;
            let from = seen.get(&at).copied().unwrap_or(0);
            assert!(from >= moving.acknowledged, "{seq} stayed after {moving:?}");
            wanted.insert(at, from);
        }
        wanted
    }
}

/// All batches sent so far, in the order of sending.
#[derive(Debug, Clone, Default)]
pub(super) struct Oracle {
    pub(super) sent: Vec<Sent>,
    /// Start of each producer's next range.
    pub(super) producers: BTreeMap<String, u64>,
    gone: Gone,
    moving: Option<Moving>,
    /// Payloads of erased events.
    erased: Events,
    /// Events of an erasure whose outcome is not checked yet, and true when the store has reported
    /// success.
    erasing: Option<(Events, bool)>,
    /// Quarantined items that may have been dropped.
    pub(super) may_be_gone: Ranges,
    next_number: i64,
    /// Lowest sequence number that may still be assigned.
    next_seq: u64,
    pub(super) known: Known,
}

impl Oracle {
    /// Adds a new batch. Its identity is a range if there is a `producer`, else a key if `keyed`.
    pub(super) fn new_batch(
        &mut self,
        events: u64,
        bad: u64,
        producer: Option<u8>,
        keyed: bool,
    ) -> usize {
        let number = self.next_number;
        let identity = match producer {
            Some(producer) => {
                let producer = format!("p{producer}");
                let from = self.producers.get(&producer).copied().unwrap_or(0);
                let to = from + events + bad + 1;
                self.producers.insert(producer.clone(), to);
                Some(Identity::Range {
                    producer,
                    from,
                    to,
                    content: to,
                })
            }
            None => keyed.then(|| Identity::Key {
                key: format!("events\0{number}"),
                body_hash: number as u64,
            }),
        };
        self.sends(events, bad, identity)
    }

    /// Adds a batch with this identity, which is about to be sent.
    pub(super) fn sends(&mut self, events: u64, bad: u64, identity: Option<Identity>) -> usize {
        let new = self.never_sent(events, bad, identity);
        self.next_number += 1;
        self.sent.push(new);
        self.sent.len() - 1
    }

    /// Returns a batch with the next number without adding it.
    pub(super) fn never_sent(&self, events: u64, bad: u64, identity: Option<Identity>) -> Sent {
        Sent {
            number: self.next_number,
            events,
            bad,
            identity,
            first_seq: None,
            fate: Fate::Unknown,
        }
    }

    /// Prepares a batch that is about to be sent again. A batch that was not stored counts as
    /// new: its place in the order is the last.
    pub(super) fn again(&mut self, which: usize) -> usize {
        if self.sent[which].fate != Fate::Gone {
            return which;
        }
        let mut sent = self.sent.remove(which);
        (sent.fate, sent.first_seq) = (Fate::Unknown, None);
        self.sent.push(sent);
        self.sent.len() - 1
    }

    /// Records that a batch was acknowledged, with `j` or without.
    pub(super) fn acknowledged(&mut self, which: usize, ack: &Ack, j: bool) {
        let forgotten = self.is_older_range(which);
        if ack.duplicate && self.sent[which].settles().is_some() {
            self.settles_nothing(which);
            return;
        }
        let sent = &mut self.sent[which];
        if ack.duplicate {
            assert!(
                sent.lives(),
                "{sent:?} was not stored, and is called a duplicate"
            );
            let figures = (ack.accepted, ack.quarantined, ack.first_seq);
            let first = (sent.events, sent.bad, sent.first_seq);
            assert!(
                figures == first || forgotten && figures == (0, 0, None),
                "{figures:?}: another answer than to the first of {sent:?}"
            );
        } else {
            assert_eq!(sent.fate, Fate::Unknown, "{sent:?} was stored again");
            assert_eq!((ack.accepted, ack.quarantined), (sent.events, sent.bad));
            if let Some(first) = ack.first_seq {
                assert!(first >= self.next_seq, "sequence {first} was given before");
                self.next_seq = first + sent.items();
                assert_eq!(ack.last_seq, Some(self.next_seq - 1));
            }
            sent.first_seq = ack.first_seq;
            sent.fate = Fate::Acknowledged;
        }
        if j {
            self.all_durable();
        }
    }

    /// Returns true when later ranges of the same producer are stored: the store may forget the
    /// figures of this one.
    fn is_older_range(&self, which: usize) -> bool {
        let range = |sent: &Sent| sent.range().map(|(p, from, _)| (p.clone(), from));
        let Some((producer, from)) = range(&self.sent[which]) else {
            return false;
        };
        let lives = self.sent.iter().filter(|s| s.lives());
        lives
            .filter_map(range)
            .any(|(p, f)| p == producer && f > from)
    }

    /// Records that a batch was refused with certainty: it is not stored, and the next
    /// range of its source begins where this one did.
    pub(super) fn refused(&mut self, which: usize) {
        let sent = &mut self.sent[which];
        sent.fate = Fate::Gone;
        if let Some((producer, from, _)) = sent.range()
            && let Some(at) = self.producers.get_mut(producer)
        {
            *at = from.min(*at);
        }
    }

    /// Returns true when the range of this batch begins after one that was refused.
    pub(super) fn follows_a_refusal(&self, which: usize) -> bool {
        let range = self.sent[which].range();
        range.is_some_and(|(producer, from, _)| from > self.producers[producer])
    }

    /// Records that a sync covering everything has succeeded.
    pub(super) fn all_durable(&mut self) {
        for sent in &mut self.sent {
            if sent.fate == Fate::Acknowledged {
                sent.fate = Fate::Durable;
            }
        }
    }

    /// Returns the batches for which the answer to a second copy is known.
    pub(super) fn known_batches(&self) -> Vec<usize> {
        let known = |sent: &Sent| match (&sent.identity, sent.fate) {
            (None, _) | (_, Fate::Unknown) => false,
            (Some(_), Fate::Acknowledged | Fate::Durable) => true,
            (Some(Identity::Key { .. }), Fate::Gone) => true,
            // The range may have been assigned to others since.
            (Some(Identity::Range { .. }), Fate::Gone) => false,
            // The items may be lost with the batch that introduced them.
            (Some(Identity::Settles { .. }), Fate::Gone) => false,
        };
        let all = self.sent.iter().enumerate();
        all.filter(|(_, s)| known(s)).map(|(i, _)| i).collect()
    }

    /// Returns the key of a stored batch, chosen by `which`.
    pub(super) fn known_key(&self, which: u64) -> Option<String> {
        let key = |sent: &Sent| match &sent.identity {
            Some(Identity::Key { key, .. }) if sent.lives() => Some(key.clone()),
            _ => None,
        };
        let keys: Vec<String> = self.sent.iter().filter_map(key).collect();
        let which = which.checked_rem(keys.len() as u64)?;
        Some(keys[which as usize].clone())
    }

    /// Records that an operation on partitions is about to start.
    pub(super) fn moves(&mut self, what: Move, days: (i64, i64)) {
        let end = |s: &Sent| s.first_seq.map_or(0, |first| first + s.items());
        let there = self.sent.iter().filter(|s| s.lives());
        let acknowledged = there.map(end).max().unwrap_or(0);
        self.moving = Some(Moving {
            what,
            days,
            acknowledged,
            done: false,
        });
    }

    /// Records that the store has reported success for this many events.
    pub(super) fn has_moved(&mut self, events: u64) {
        if let Some(moving) = &mut self.moving {
            moving.done = events > 0;
        }
    }

    /// Returns the number of events of these days to be dropped.
    pub(super) fn to_be_dropped(&self, days: (i64, i64), seen: &Seen) -> u64 {
        let of_days = |payload| (days.0..days.1).contains(&day(payload));
        let there = |(seq, payload): &(&u64, &i64)| {
            of_days(**payload) && !self.gone.is_dropped(**seq, **payload)
        };
        seen.events.iter().filter(there).count() as u64
    }

    /// Returns the number of events of these days to be detached; `None` when the request must be
    /// refused.
    pub(super) fn to_be_detached(&self, days: (i64, i64), seen: &Seen) -> Option<u64> {
        let of_days = |at: &i64| (days.0..days.1).contains(at);
        let live = |(seq, payload): &(&u64, &i64)| {
            let (seq, payload) = (**seq, **payload);
            let elsewhere =
                self.gone.is_dropped(seq, payload) || self.gone.is_detached(seq, payload);
            of_days(&day(payload)) && !elsewhere
        };
        let live = seen.events.iter().filter(live).map(|(_, p)| day(*p));
        let live: Vec<i64> = live.collect();
        let mut detached = self.gone.detached.keys().filter(|at| of_days(at));
        let refused = detached.any(|at| live.is_empty() || live.contains(at));
        (!refused).then_some(live.len() as u64)
    }

    /// Returns the number of events of these days to be attached.
    pub(super) fn to_be_attached(&self, days: (i64, i64), seen: &Seen) -> u64 {
        let detached = |(seq, payload): &(&u64, &i64)| {
            let of_days = (days.0..days.1).contains(&day(**payload));
            of_days && self.gone.is_detached(**seq, **payload)
        };
        seen.events.iter().filter(detached).count() as u64
    }

    /// Checks that dropped and detached partitions are unchanged, or that the current operation
    /// was applied as a whole.
    fn check_move(&mut self, seen: &Seen) {
        let found = Gone {
            dropped: seen.dropped.clone(),
            detached: seen.detached.clone(),
        };
        if found == self.gone {
            let done = self.moving.is_some_and(|d| d.done);
            assert!(!done, "said, but not done: {:?}", self.moving);
            return;
        }
        let Some(moving) = self.moving.take() else {
            panic!("gone: {found:?}, expected {:?}", self.gone);
        };
        assert_eq!(found, self.gone.after(moving, seen), "by {moving:?}");
        self.gone = found;
    }

    /// Returns true when all raw events exist, so that the rollup can stop counting any of them.
    pub(super) fn has_all_raw(&self) -> bool {
        self.gone == Gone::default()
    }

    /// Records that an erasure is about to start.
    pub(super) fn erases(&mut self, events: Events) {
        self.erasing = Some((events, false));
    }

    /// Records that the store has reported success for this many events.
    pub(super) fn has_erased(&mut self, events: u64) {
        if let Some((_, done)) = &mut self.erasing {
            *done = events > 0;
        }
    }

    /// Checks that the current erasure was applied as a whole or not at all.
    fn check_erasure(&mut self, seen: &Seen) {
        let Some((events, done)) = self.erasing.take() else {
            return;
        };
        let before = self.erased.len() as u64;
        if seen.erased == before {
            assert!(!done, "said, but not erased: {events:?}");
            self.erasing = Some((events, done));
            return;
        }
        assert_eq!(seen.erased, before + events.len() as u64);
        let left = events.keys().find(|s| seen.events.contains_key(s));
        assert_eq!(left, None, "an erasure was applied in part");
        self.erased.extend(events);
    }

    /// Determines the fate of the batches after the store was opened again, and checks it: after
    /// the end of the process all acknowledged batches must exist; after a power cut all durable
    /// ones, and of the others a prefix.
    pub(super) fn reopened(&mut self, seen: &Seen, power: bool) {
        let mut first_event: BTreeMap<i64, u64> = BTreeMap::new();
        self.check_erasure(seen);
        let erased = self
            .erased
            .iter()
            .filter(|(s, _)| !seen.events.contains_key(s));
        let ever: Events = seen
            .events
            .iter()
            .chain(erased)
            .map(|(s, p)| (*s, *p))
            .collect();
        for (seq, payload) in &ever {
            first_event.entry(number_of(*payload)).or_insert(*seq);
        }
        let mut missing: Option<i64> = None;
        let dropped = seen.settled.items(Settlement::Dropped).iter();
        let mut discarded: BTreeSet<u64> = dropped.flat_map(|(from, to)| from..to).collect();
        for sent in self.sent.iter_mut().filter(|s| s.fate != Fate::Gone) {
            if sent.is_there(seen, &first_event, &mut discarded, self.next_seq) {
                let number = sent.number;
                assert!(
                    missing.is_none(),
                    "batch {missing:?} is lost and the later {number} is not"
                );
                if sent.fate == Fate::Unknown
                    && let Some(first) = sent.first_seq
                {
                    assert!(first >= self.next_seq, "sequence {first} was given before");
                    self.next_seq = first + sent.items();
                }
                sent.fate = Fate::Durable;
            } else {
                assert!(sent.fate != Fate::Durable, "{sent:?} is lost");
                assert!(
                    power || sent.fate == Fate::Unknown,
                    "{sent:?} is lost by a kill"
                );
                missing = missing.or(Some(sent.number));
                sent.fate = Fate::Gone;
            }
        }
        for (producer, to) in &mut self.producers {
            *to = seen.positions.get(producer).copied().unwrap_or(0);
        }
        self.check(seen);
        (self.moving, self.erasing) = (None, None);
    }

    /// Checks that every acknowledged event exists once, and no other event except those of
    /// batches with an unknown result.
    pub(super) fn check(&mut self, seen: &Seen) {
        self.check_move(seen);
        self.check_erasure(seen);
        let (mut events, mut bad) = (seen.events.clone(), seen.bad.clone());
        let mut positions = BTreeMap::new();
        for sent in self.sent.iter().filter(|s| s.lives()) {
            if let Some((producer, _, to)) = sent.range() {
                positions.insert(producer.clone(), to);
            }
            let Some(first) = sent.first_seq else {
                continue;
            };
            let ranks = sent.ranks();
            let mut event = 0;
            for rank in 0..sent.items() {
                if ranks.contains(&(rank as u32)) {
                    let gone = self.may_be_gone.contains(first + rank);
                    let found = bad.remove(&(first + rank));
                    assert!(found || gone, "{sent:?} is not all there");
                } else {
                    let found = events.remove(&(first + rank));
                    let wanted = Some(payload(sent.number, event));
                    let wanted = wanted.filter(|_| !self.erased.contains_key(&(first + rank)));
                    assert_eq!(found, wanted, "{sent:?} is not all there");
                    event += 1;
                }
            }
        }
        let unknown = self.sent.iter().filter(|s| s.fate == Fate::Unknown);
        let unknown: BTreeSet<i64> = unknown.map(|s| s.number).collect();
        events.retain(|_, payload| !unknown.contains(&number_of(*payload)));
        assert!(events.is_empty(), "not acknowledged, or twice: {events:?}");
        if unknown.is_empty() {
            assert!(bad.is_empty(), "not acknowledged, or twice: {bad:?}");
            assert_eq!(seen.positions, positions, "how far the sources were taken");
            self.check_settled(seen);
        }
    }
}

impl Sent {
    /// Returns true when the batch is in a store that was opened again; records its sequence
    /// number.
    fn is_there(
        &mut self,
        seen: &Seen,
        first_event: &BTreeMap<i64, u64>,
        discarded: &mut BTreeSet<u64>,
        next_seq: u64,
    ) -> bool {
        if let Some(first) = first_event.get(&self.number) {
            // Quarantined items may come before the first event: the ranks determine where the
            // batch begins.
            let ranks = self.ranks();
            let before = (0..).take_while(|rank| ranks.contains(rank)).count();
            let begins = first - before as u64;
            if self.fate != Fate::Unknown {
                assert_eq!(self.first_seq, Some(begins), "{self:?} has moved");
            }
            self.first_seq = Some(begins);
            return true;
        }
        // A batch without events is recognised by the items it discarded, or by its source's
        // position.
        if let Some(there) = self.has_discarded(discarded) {
            return there;
        }
        let Some((producer, _, to)) = self.range() else {
            return false;
        };
        let there = self.events == 0 && seen.positions.get(producer).is_some_and(|at| *at >= to);
        if there && self.first_seq.is_none() && self.items() > 0 {
            self.first_seq = seen.bad.range(next_seq..).next().copied();
        }
        there
    }
}
