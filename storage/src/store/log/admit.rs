//! Admission of batches: decides about each batch of a group, in journal order and once, whether
//! it is a duplicate, is refused, or gets the next sequence numbers.

use std::sync::Arc;

use super::request::Request;
use crate::apply::ack_of;
use crate::error::{Error, Result};
use crate::identity;
use crate::model::{Ack, Identity, Name, QUARANTINE, StreamKind};
use crate::record::Record;
use crate::resolutions::Ranges;
use crate::schema_evolution;
use crate::seeded::{self, Bug};
use crate::store::Shared;

/// A batch of a group, and the decision about it.
pub(super) struct GroupEntry {
    pub(super) request: Request,
    pub(super) decision: Decision,
}

pub(super) enum Decision {
    /// A first copy, with its first sequence number.
    First(u64),
    /// A duplicate; acknowledged like the first copy, once that is visible or synced.
    Duplicate(Ack),
    Refused(Error),
}

/// The batches of a group that are decided so far.
pub(super) struct AdmittedGroup {
    pub(super) entries: Vec<GroupEntry>,
    /// First copies of this group that have an identity: a later copy may be in the same group.
    identified: Vec<usize>,
    /// Exclusive end of the sequence numbers of the first copies.
    pub(super) next_seq: u64,
}

impl AdmittedGroup {
    /// Decides about the batches of a group, whose first sequence number is `first_seq`.
    pub(super) fn of(shared: &Shared, group: Vec<Request>, first_seq: u64) -> Self {
        let mut admitted = Self {
            entries: Vec::with_capacity(group.len()),
            identified: Vec::new(),
            next_seq: first_seq,
        };
        for request in group {
            admitted.add(shared, request);
        }
        admitted
    }

    fn add(&mut self, shared: &Shared, mut request: Request) {
        let decision = self.decide(shared, &mut request);
        if matches!(decision, Decision::First(_)) && request.record.identity.is_some() {
            self.identified.push(self.entries.len());
        }
        self.entries.push(GroupEntry { request, decision });
    }

    fn decide(&mut self, shared: &Shared, request: &mut Request) -> Decision {
        match self.earlier_answer(shared, &request.record) {
            Err(error) => return Decision::Refused(error),
            Ok(Some(ack)) => return Decision::Duplicate(ack),
            Ok(None) => {}
        }
        if let Err(error) = prepare(shared, request, self.next_seq) {
            return Decision::Refused(error);
        }
        let first_seq = self.next_seq;
        self.next_seq += request.record.items();
        Decision::First(first_seq)
    }

    /// Returns the answer to an earlier copy of a batch. Batches before it in its group count as
    /// well as those that the state remembers: a source may send its ranges one after the other
    /// without waiting.
    fn earlier_answer(&self, shared: &Shared, record: &Record) -> Result<Option<Ack>> {
        let Some(identity) = &record.identity else {
            return Ok(None);
        };
        if let Identity::Settles { items, .. } = identity {
            let is_duplicate = self.are_resolved(shared, items)?;
            return Ok(is_duplicate.then_some(Ack::UNCOUNTED_DUPLICATE));
        }
        let mut pending_to = None;
        for earlier in self.identified.iter().rev().map(|i| &self.entries[*i]) {
            let Decision::First(seq) = earlier.decision else {
                unreachable!("BUG: only first copies are listed")
            };
            match (earlier.request.record.identity.as_ref(), identity) {
                (Some(same), _) if same == identity => {
                    return Ok(Some(Ack {
                        duplicate: true,
                        ..ack_of(&earlier.request.record, seq)
                    }));
                }
                (Some(other), _) if other.same_batch(identity) => {
                    return Err(identity::reused(identity));
                }
                (
                    Some(Identity::Range {
                        producer: a, to, ..
                    }),
                    Identity::Range { producer: b, .. },
                ) if a == b => pending_to = pending_to.or(Some(*to)),
                _ => {}
            }
        }
        let state = shared.state.lock();
        state
            .identities
            .known(identity, record.received_us, pending_to)
    }

    /// Checks whether these items of the quarantine are all resolved already, by earlier groups or
    /// by batches before this one in its group.
    fn are_resolved(&self, shared: &Shared, items: &Ranges) -> Result<bool> {
        let earlier = self.identified.iter();
        let earlier = earlier.map(|i| &self.entries[*i].request.record.identity);
        let taken = earlier.map(|identity| match identity {
            Some(Identity::Settles { items: other, .. }) => other.in_common(items),
            _ => 0,
        });
        let taken = if seeded::is(Bug::SettledInGroup) {
            0
        } else {
            taken.sum()
        };
        let state = shared.state.lock();
        if items.end() > state.next_seq {
            return Err(Error::invalid(format!(
                "no item has a sequence number of {} or more yet",
                state.next_seq
            )));
        }
        state.identities.settled().are_resolved(items, taken)
    }
}

/// Creates the streams that the batch needs and fits its columns to them.
fn prepare(shared: &Shared, request: &mut Request, next_seq: u64) -> Result<()> {
    let stream = request.record.stream.clone();
    let missing = |name: &Name| !shared.state.lock().streams.contains_key(name);
    // A batch without events does not determine the kind of its stream.
    let has_events = request.record.events.num_rows() > 0;
    if has_events && missing(&stream) {
        shared.create_stream(&stream, request.record.kind, next_seq)?;
    }
    if !request.record.ranks.is_empty() {
        let quarantine = Name::new(QUARANTINE).expect("BUG: the quarantine has a good name");
        if missing(&quarantine) {
            shared.create_stream(&quarantine, StreamKind::Quarantine, next_seq)?;
        }
    }
    if !has_events {
        return Ok(());
    }
    let columns_max = shared.options.config.columns_max;
    let mut state = shared.state.lock();
    let streams = Arc::make_mut(&mut state.streams);
    let meta = streams
        .get_mut(&stream)
        .expect("BUG: the stream was created above");
    if let Some(fitted) = schema_evolution::reconcile(meta, &request.record, columns_max)? {
        request.record.events = fitted;
        request.payload = request.record.encode();
    }
    Ok(())
}
