//! Admission of batches: decides about each batch of a group, in journal order and once, whether
//! it is a duplicate, is refused, or gets the next sequence numbers.
//!
//! # Invariants
//! 1. A decision is a function of the record and of the state that the records before it have
//!    led to. It reads no clock and no configuration, and does not depend on which records are in
//!    one group. So all programs that read one journal decide alike. (A stream is part of the
//!    state: the program that creates it does so by its configuration, in an edit of the
//!    manifest; with a shared journal before it appends the batch. A batch that is refused because
//!    the disk or the memtable is full was not decided about. Columns that later records have added
//!    change no decision and no value: they stay columns, of the same type or of floats that hold
//!    the same integers.)
//! 2. A decision changes nothing but the group. The state changes when the written group is
//!    applied, so a group that could not be written leaves no trace.

use std::collections::BTreeMap;

use super::request::Request;
use crate::apply::ack_of;
use crate::error::{Error, Result};
use crate::identity::{Entry, GroupIdentities};
use crate::manifest::StreamMeta;
use crate::model::{Ack, Identity, Name};
use crate::record::Record;
use crate::schema_evolution::{Fit, fit};
use crate::store::Shared;

/// A batch of a group, and the decision about it.
pub(in crate::store) struct GroupEntry {
    pub(in crate::store) request: Request,
    pub(in crate::store) decision: Decision,
}

pub(in crate::store) enum Decision {
    /// A first copy, with its first sequence number.
    First(u64),
    /// A duplicate; acknowledged like the first copy, once that is visible or synced.
    Duplicate(Ack),
    Refused(Error),
}

/// The batches of a group that are decided so far.
pub(in crate::store) struct AdmittedGroup {
    pub(in crate::store) entries: Vec<GroupEntry>,
    identities: GroupIdentities,
    /// Streams whose columns the group changes, as they are after it.
    streams: BTreeMap<Name, StreamMeta>,
    /// Exclusive end of the sequence numbers of the first copies.
    pub(in crate::store) next_seq: u64,
}

impl AdmittedGroup {
    /// Decides about the batches of a group, whose first sequence number is `first_seq`.
    pub(in crate::store) fn of(shared: &Shared, group: Vec<Request>, first_seq: u64) -> Self {
        let identities = GroupIdentities::after(&shared.state.lock().identities);
        let mut admitted = Self {
            entries: Vec::with_capacity(group.len()),
            identities,
            streams: BTreeMap::new(),
            next_seq: first_seq,
        };
        for mut request in group {
            let decision = admitted.decide(shared, &mut request);
            admitted.entries.push(GroupEntry { request, decision });
        }
        admitted
    }

    fn decide(&mut self, shared: &Shared, request: &mut Request) -> Decision {
        match self.earlier_answer(shared, &request.record) {
            Err(error) => return Decision::Refused(error),
            Ok(Some(ack)) => return Decision::Duplicate(ack),
            Ok(None) => {}
        }
        if let Err(error) = self.prepare(shared, request) {
            return Decision::Refused(error);
        }
        let (first_seq, record) = (self.next_seq, &request.record);
        self.next_seq += record.items();
        if let Some(identity) = record.identity.clone() {
            let ack = ack_of(record, first_seq);
            self.identities
                .add(Entry::new(identity, &ack, record.received_us));
        }
        Decision::First(first_seq)
    }

    /// Returns the answer to an earlier copy of a batch. Batches before it in its group count as
    /// well as those that the state remembers: a source may send its ranges one after the other
    /// without waiting.
    fn earlier_answer(&self, shared: &Shared, record: &Record) -> Result<Option<Ack>> {
        let Some(identity) = &record.identity else {
            return Ok(None);
        };
        if let Identity::Settles { items, .. } = identity
            && items.end() > self.next_seq
        {
            return Err(Error::invalid(format!(
                "no item has a sequence number of {} or more yet",
                self.next_seq
            )));
        }
        let state = shared.state.lock();
        state.identities.known(identity, &self.identities)
    }

    /// Creates the streams that the batch needs, and fits the batch to the columns of its stream.
    fn prepare(&mut self, shared: &Shared, request: &mut Request) -> Result<()> {
        shared.create_missing(&request.record, self.next_seq)?;
        // A batch without events does not determine the kind of its stream.
        if request.record.events.num_rows() == 0 {
            return Ok(());
        }
        let stream = &request.record.stream;
        let state = shared.state.lock();
        let meta = self
            .streams
            .get(stream)
            .or_else(|| state.streams.get(stream));
        let meta = meta.expect("BUG: the stream was created above");
        let Fit { columns, events } = fit(meta, &request.record, meta.columns_max)?;
        if let Some(columns) = columns {
            let changed = StreamMeta {
                columns,
                ..meta.clone()
            };
            self.streams.insert(stream.clone(), changed);
        }
        drop(state);
        if let Some(fitted) = events {
            request.record.events = fitted;
            request.payload = Vec::new();
        }
        Ok(())
    }
}
