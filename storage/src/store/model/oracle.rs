//! What must be there, and the comparison with what is. The oracle knows batches by their numbers,
//! which their events carry; of the store it believes acknowledgements, and holds it to them.

use std::collections::{BTreeMap, BTreeSet};

use super::motley;
use super::seen::{DAY_US, Known, Seen, day};
use crate::model::{Ack, Identity};
use crate::resolutions::{Ranges, Settlement};
use crate::testing::batch;

/// Items of a batch at most.
const ITEMS_MAX: i64 = 8;

/// What is known of a batch's fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Acknowledged: visible until power is cut, and then the rest is a prefix.
    Acknowledged,
    /// Acknowledged, and everything it was promised with says that it outlives a power cut.
    Durable,
    /// No answer, or one that says that it is not known.
    Unknown,
    /// Not there, and never to be seen.
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

    /// The ranks of what is bad: even as long as there are events between them.
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

    /// The sequence numbers of what is bad.
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

/// Each batch is spread over three days.
fn payload(number: i64, event: i64) -> i64 {
    ((number + event / 2) % 3 - 1) * DAY_US + number * ITEMS_MAX + event
}

/// The number of the batch that an event belongs to.
pub(super) fn number_of(payload: i64) -> i64 {
    payload.rem_euclid(DAY_US) / ITEMS_MAX
}

/// What is done to partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Move {
    Drop,
    Detach,
    Attach,
}

/// Something that is done to partitions and of which it is not known whether it was.
#[derive(Debug, Clone, Copy)]
struct Moving {
    what: Move,
    days: (i64, i64),
    /// Everything below was acknowledged before.
    acknowledged: u64,
    /// The store has said that it was.
    done: bool,
}

/// Partitions of which raw events are elsewhere: from which sequence number on they are complete.
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

    /// What this becomes by something that is done as a whole; the sequence numbers are the store's.
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

/// Everything sent so far, in the order of sending.
#[derive(Debug, Clone, Default)]
pub(super) struct Oracle {
    pub(super) sent: Vec<Sent>,
    /// Where each producer's next range begins.
    pub(super) producers: BTreeMap<String, u64>,
    gone: Gone,
    moving: Option<Moving>,
    /// Items of the quarantine that need not be there any more.
    pub(super) may_be_gone: Ranges,
    next_number: i64,
    /// No sequence number below this may be given any more.
    next_seq: u64,
    pub(super) known: Known,
}

impl Oracle {
    /// A new batch; `producer` when it is a range of one, a key when there is none and `keyed`.
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

    /// A batch with this identity is about to be sent.
    pub(super) fn sends(&mut self, events: u64, bad: u64, identity: Option<Identity>) -> usize {
        let new = self.never_sent(events, bad, identity);
        self.next_number += 1;
        self.sent.push(new);
        self.sent.len() - 1
    }

    /// A batch with the next number that is not taken note of.
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

    /// A batch is about to be sent again. One that was gone is as new: its place is that of now.
    pub(super) fn again(&mut self, which: usize) -> usize {
        if self.sent[which].fate != Fate::Gone {
            return which;
        }
        let mut sent = self.sent.remove(which);
        (sent.fate, sent.first_seq) = (Fate::Unknown, None);
        self.sent.push(sent);
        self.sent.len() - 1
    }

    /// A batch was acknowledged, with `j` or without.
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

    /// Whether later ranges of the same producer were taken: its figures may be forgotten.
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

    /// A batch was refused cleanly: it is not there, and its source goes back.
    pub(super) fn refused(&mut self, which: usize) {
        let sent = &mut self.sent[which];
        sent.fate = Fate::Gone;
        if let Some((producer, from, _)) = sent.range()
            && let Some(at) = self.producers.get_mut(producer)
        {
            *at = from.min(*at);
        }
    }

    /// Whether the range of this batch begins after one that was refused.
    pub(super) fn follows_a_refusal(&self, which: usize) -> bool {
        let range = self.sent[which].range();
        range.is_some_and(|(producer, from, _)| from > self.producers[producer])
    }

    /// A sync that covers everything has succeeded.
    pub(super) fn all_durable(&mut self) {
        for sent in &mut self.sent {
            if sent.fate == Fate::Acknowledged {
                sent.fate = Fate::Durable;
            }
        }
    }

    /// The batches of which it is known what a second copy is to be answered.
    pub(super) fn known_batches(&self) -> Vec<usize> {
        let known = |sent: &Sent| match (&sent.identity, sent.fate) {
            (None, _) | (_, Fate::Unknown) => false,
            (Some(_), Fate::Acknowledged | Fate::Durable) => true,
            (Some(Identity::Key { .. }), Fate::Gone) => true,
            // The range may have been given to others since.
            (Some(Identity::Range { .. }), Fate::Gone) => false,
            // The items may be gone with the batch that brought them.
            (Some(Identity::Settles { .. }), Fate::Gone) => false,
        };
        let all = self.sent.iter().enumerate();
        all.filter(|(_, s)| known(s)).map(|(i, _)| i).collect()
    }

    /// A key of a batch that is there, whatever `which` of them.
    pub(super) fn known_key(&self, which: u64) -> Option<String> {
        let key = |sent: &Sent| match &sent.identity {
            Some(Identity::Key { key, .. }) if sent.lives() => Some(key.clone()),
            _ => None,
        };
        let keys: Vec<String> = self.sent.iter().filter_map(key).collect();
        let which = which.checked_rem(keys.len() as u64)?;
        Some(keys[which as usize].clone())
    }

    /// Something is about to be done to partitions.
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

    /// The store has done it and says that it concerned this many events.
    pub(super) fn has_moved(&mut self, events: u64) {
        if let Some(moving) = &mut self.moving {
            moving.done = events > 0;
        }
    }

    /// How many events of these days are there to be dropped.
    pub(super) fn to_be_dropped(&self, days: (i64, i64), seen: &Seen) -> u64 {
        let of_days = |payload| (days.0..days.1).contains(&day(payload));
        let there = |(seq, payload): &(&u64, &i64)| {
            of_days(**payload) && !self.gone.is_dropped(**seq, **payload)
        };
        seen.events.iter().filter(there).count() as u64
    }

    /// How many events of these days are there to be detached; none when that is to be refused.
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

    /// How many events of these days are there to be attached.
    pub(super) fn to_be_attached(&self, days: (i64, i64), seen: &Seen) -> u64 {
        let detached = |(seq, payload): &(&u64, &i64)| {
            let of_days = (days.0..days.1).contains(&day(**payload));
            of_days && self.gone.is_detached(**seq, **payload)
        };
        seen.events.iter().filter(detached).count() as u64
    }

    /// What is dropped and detached is what was, or with what is under way the whole of it.
    fn settle_move(&mut self, seen: &Seen) {
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

    /// Settles what became of the batches of a store that was opened again, and checks that it is
    /// what was promised: all that was acknowledged when only the process ended; when the power was
    /// cut, all that is durable and of the others a prefix.
    pub(super) fn reopened(&mut self, seen: &Seen, power: bool) {
        let mut first_event: BTreeMap<i64, u64> = BTreeMap::new();
        for (seq, payload) in &seen.events {
            first_event.entry(number_of(*payload)).or_insert(*seq);
        }
        let mut missing: Option<i64> = None;
        let dropped = seen.settled.items(Settlement::Dropped).iter();
        let mut given_up: BTreeSet<u64> = dropped.flat_map(|(from, to)| from..to).collect();
        for sent in self.sent.iter_mut().filter(|s| s.fate != Fate::Gone) {
            if sent.is_there(seen, &first_event, &mut given_up, self.next_seq) {
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
        self.moving = None;
    }

    /// Everything that was acknowledged is there, once, and nothing else but what is unknown.
    pub(super) fn check(&mut self, seen: &Seen) {
        self.settle_move(seen);
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
    /// Whether the batch is in a store that was opened again; where, is taken note of.
    fn is_there(
        &mut self,
        seen: &Seen,
        first_event: &BTreeMap<i64, u64>,
        given_up: &mut BTreeSet<u64>,
        next_seq: u64,
    ) -> bool {
        if let Some(first) = first_event.get(&self.number) {
            // What is bad may come before: the ranks tell where the batch begins.
            let ranks = self.ranks();
            let before = (0..).take_while(|rank| ranks.contains(rank)).count();
            let begins = first - before as u64;
            if self.fate != Fate::Unknown {
                assert_eq!(self.first_seq, Some(begins), "{self:?} has moved");
            }
            self.first_seq = Some(begins);
            return true;
        }
        // Without events what it settled tells, or its source's position.
        if let Some(there) = self.has_given_up(given_up) {
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
