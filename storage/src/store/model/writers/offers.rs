//! The batches that were sent, the answers to them, and what was seen of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};

use super::super::motley;
use super::super::oracle::number_of;
use super::super::seen::{DAY_US, Events, Seen};
use crate::error::{Error, Kind, Result};
use crate::model::{Ack, Batch, Identity};
use crate::testing;

/// Distance of the times of two batches.
const ITEMS: i64 = 8;
/// Producer whose ranges follow each other; each other batch is of a producer of its own.
const SHIPPER: &str = "shipper";
/// Longest wait for an answer: only a fault in the store takes so long.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A batch, and the answers to it so far.
#[derive(Debug)]
struct Offer {
    times: Vec<i64>,
    /// It ends with an item for the quarantine.
    has_bad: bool,
    identity: Option<Identity>,
    /// Its first acknowledgement.
    ack: Option<Ack>,
    /// Acknowledgements that say it was not stored before.
    first_copies: u64,
    /// Attempts that were not refused: the batch may be stored.
    hopes: u64,
}

/// An answer that a machine has yet to give.
#[derive(Debug)]
pub(super) struct PendingAnswer {
    offer: usize,
    answer: Receiver<Result<Ack>>,
    /// The batch had been acknowledged when it was sent.
    is_repeat: bool,
}

#[derive(Debug, Default)]
pub(super) struct Offers {
    all: Vec<Offer>,
    /// Every acknowledged event, by its number.
    pub(super) acknowledged: Events,
    /// Numbers of acknowledged items in the quarantine.
    bad: BTreeSet<u64>,
    /// Every event that was acknowledged or seen anywhere, by its number.
    given: Events,
    /// Its reverse.
    numbers: BTreeMap<i64, u64>,
    shipped: u64,
    pub(super) acks: u64,
    pub(super) refusals: u64,
    pub(super) unknown: u64,
}

impl PendingAnswer {
    /// Returns the answer if it is there, or waits for it.
    pub(super) fn take(&self, waits: bool) -> Option<Result<Ack>> {
        let outcome = match self.answer.try_recv() {
            Err(TryRecvError::Empty) if waits => match self.answer.recv_timeout(ANSWER_MAX) {
                Err(RecvTimeoutError::Timeout) => return None,
                other => other.ok(),
            },
            Err(TryRecvError::Empty) => return None,
            other => other.ok(),
        };
        Some(outcome.expect("every reply has an answer"))
    }
}

impl Offers {
    /// Makes a batch of `count` events, and perhaps an item for the quarantine, with an identity of
    /// the kind `kind`.
    pub(super) fn add(&mut self, (count, has_bad): (i64, bool), day: i64, kind: u64) -> usize {
        let number = self.all.len() as i64;
        let times: Vec<i64> = (0..count)
            .map(|i| DAY_US * day + ITEMS * number + i)
            .collect();
        let range = |producer: String, from| Identity::Range {
            producer,
            from,
            to: from + 1 + count as u64,
            content: 1,
        };
        let identity = match kind {
            0 => None,
            1 => Some(Identity::Key {
                key: format!("k{number}"),
                body_hash: 1,
            }),
            2 => Some(range(format!("p{number}"), 0)),
            _ => {
                let from = self.shipped;
                self.shipped += 1 + count as u64;
                Some(range(SHIPPER.into(), from))
            }
        };
        self.all.push(Offer {
            times,
            has_bad,
            identity,
            ack: None,
            first_copies: 0,
            hopes: 0,
        });
        number as usize
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns whether a batch may be sent again: without an identity it would be another one.
    pub(super) fn has_identity(&self, offer: usize) -> bool {
        self.all[offer].identity.is_some()
    }

    pub(super) fn is_acknowledged(&self, offer: usize) -> bool {
        self.all[offer].ack.is_some()
    }

    /// Returns the first batch of the shipper that is not acknowledged, if it waits for that. It
    /// always waits for its first batch: a store takes any position from a source that it does not
    /// know, and then no earlier one.
    pub(super) fn to_ship(&self, is_patient: bool) -> Option<usize> {
        let of_shipper = |o: &Offer| match &o.identity {
            Some(Identity::Range { producer, .. }) => producer == SHIPPER,
            _ => false,
        };
        let is_known = |o: &Offer| of_shipper(o) && o.ack.is_some();
        let waits = is_patient || !self.all.iter().any(is_known);
        let is_due = |o: &Offer| waits && of_shipper(o) && o.ack.is_none();
        self.all.iter().position(is_due)
    }

    pub(super) fn batch(&self, offer: usize) -> Batch {
        let Offer {
            times,
            has_bad,
            identity,
            ..
        } = &self.all[offer];
        let bad: Vec<u32> = has_bad.then_some(times.len() as u32).into_iter().collect();
        let mut batch = testing::batch(times, &bad, identity.clone());
        batch.events = motley::extend(&batch.events, offer as i64);
        batch
    }

    /// Notes that a batch is sent.
    pub(super) fn send(&mut self, offer: usize, answer: Receiver<Result<Ack>>) -> PendingAnswer {
        self.all[offer].hopes += 1;
        PendingAnswer {
            offer,
            answer,
            is_repeat: self.is_acknowledged(offer),
        }
    }

    /// Notes an answer.
    pub(super) fn answered(&mut self, pending: &PendingAnswer, outcome: Result<Ack>) {
        let is_repeat = pending.is_repeat;
        match outcome {
            Ok(ack) => self.accept(pending.offer, is_repeat, &ack),
            Err(Error::Unknown { .. }) => self.unknown += 1,
            Err(error) => {
                // The shipper's batches need those before them.
                let is_gap = matches!(error, Error::Gap { .. }) && !is_repeat;
                let may_pass = matches!(error.kind(), Kind::Overloaded | Kind::Closed);
                assert!(is_gap || may_pass, "a batch is answered: {error}");
                self.refusals += 1;
                self.all[pending.offer].hopes -= 1;
            }
        }
    }

    /// Notes that a batch was not even queued.
    pub(super) fn refused(&mut self, pending: &PendingAnswer) {
        self.all[pending.offer].hopes -= 1;
    }

    fn accept(&mut self, nth: usize, is_repeat: bool, ack: &Ack) {
        self.acks += 1;
        let offer = &mut self.all[nth];
        let items = (offer.times.len() as u64, u64::from(offer.has_bad));
        assert_eq!((ack.accepted, ack.quarantined), items, "{offer:?}");
        let first = offer.ack.get_or_insert_with(|| ack.clone());
        let is_same = first.first_seq == ack.first_seq && first.last_seq == ack.last_seq;
        assert!(is_same, "{first:?} was acknowledged, then {ack:?}");
        if !ack.duplicate {
            offer.first_copies += 1;
            let is_first = offer.first_copies == 1 && !is_repeat;
            assert!(is_first, "it is stored again: {ack:?} for {offer:?}");
        }
        let first_seq = ack.first_seq.unwrap_or(0);
        let events: Events = (first_seq..).zip(offer.times.iter().copied()).collect();
        if offer.has_bad {
            self.bad.extend(ack.last_seq);
        }
        self.give(&events);
        self.acknowledged.extend(events);
    }

    /// Notes the content of a store that joins the others with what it has.
    pub(super) fn bring(&mut self, offers: &[(usize, Ack)]) {
        for (nth, ack) in offers {
            self.all[*nth].hopes += 1;
            self.accept(*nth, false, ack);
        }
    }

    /// Checks that all stores give the same number to the same event, and each only once.
    fn give(&mut self, events: &Events) {
        for (seq, time) in events {
            let other = *self.given.entry(*seq).or_insert(*time);
            assert_eq!(other, *time, "two events have number {seq}");
            let other = *self.numbers.entry(*time).or_insert(*seq);
            assert_eq!(other, *seq, "two numbers are of event {time}");
        }
    }

    /// Notes the events of a store, or those in its memory.
    pub(super) fn see(&mut self, events: &Events) {
        self.give(events);
        for (seq, time) in events {
            let offer = &self.all[number_of(*time) as usize];
            assert!(offer.hopes > 0, "it was refused, and is stored: {offer:?}");
            let rank = offer.times.iter().position(|t| t == time);
            let first = seq - rank.expect("an event that was sent") as u64;
            let is_whole = (first..)
                .zip(&offer.times)
                .all(|(seq, time)| events.get(&seq) == Some(time));
            assert!(is_whole, "{seq} is there without the others: {offer:?}");
        }
    }

    /// Checks that a store has all that was acknowledged anywhere, and nothing twice.
    pub(super) fn check_all(&mut self, held: &Seen) {
        self.see(&held.events);
        for (seq, time) in &self.acknowledged {
            let found = held.events.get(seq);
            assert_eq!(found, Some(time), "{seq} was acknowledged and is lost");
        }
        assert!(
            self.bad.is_subset(&held.bad),
            "{:?} are in the quarantine, and some of {:?} are lost",
            held.bad,
            self.bad
        );
        let may_be = self.all.iter().filter(|o| o.has_bad && o.hopes > 0);
        assert!(held.bad.len() <= may_be.count(), "{:?}", held.bad);
    }
}
