//! Applies a journal record to the memory of a store: its rows go to the memtable, its identity
//! to the remembered ones. The log thread applies the records that it has written, and recovery
//! those that it reads back, so both reach the same state. It follows from the records alone: this
//! module reads no clock and no configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::identity::Identities;
use crate::journal;
use crate::manifest::StreamMeta;
use crate::memtable::{Memtable, RowBuffer};
use crate::model::{Ack, Name, QUARANTINE, StreamKind};
use crate::record::Record;
use crate::schema_evolution;
use crate::seeded::{self, Bug};
use crate::shard_key::Division;

/// The state that a record is applied to.
#[derive(Debug)]
pub(crate) struct RecordTarget<'a> {
    pub(crate) memtable: &'a mut Memtable,
    /// Rows on their way to the memtable.
    pub(crate) rows: &'a mut RowBuffer,
    pub(crate) streams: &'a mut BTreeMap<Name, StreamMeta>,
    pub(crate) identities: &'a mut Identities,
}

/// Applies a journal record whose items have the sequence numbers from `first_seq` on.
pub(crate) fn apply(target: &mut RecordTarget<'_>, record: &Record, first_seq: u64) -> Result<Ack> {
    let RecordTarget {
        memtable,
        rows,
        streams,
        identities,
    } = target;
    // A record without events adds no columns.
    if record.events.num_rows() > 0
        && let Some(meta) = streams.get_mut(&record.stream)
        // The integers in a record of documents may change the type of their column, so it is
        // always checked.
        && (meta.kind == StreamKind::Documents
            || !rows.has_like(&record.stream, &record.events))
        && schema_evolution::reconcile(meta, record)?.is_some()
    {
        return Err(Error::Corrupt {
            path: PathBuf::from(journal::DIR),
            offset: 0,
            what: format!(
                "the record at sequence {first_seq} has a column whose type differs from that of stream {}",
                record.stream
            ),
        });
    }
    if record.events.num_rows() > 0
        && let Some(meta) = streams.get_mut(&record.stream)
        && !seeded::is(Bug::DivisionKept)
    {
        Division::weaken(&mut meta.divided_by, &record.events);
    }
    memtable.count_record();
    let ack = ack_of(record, first_seq);
    let (event_seqs, quarantine_seqs) = record.sequence(first_seq);
    let received_us = record.received_us;
    if !event_seqs.is_empty() {
        let (stream, events) = (&record.stream, &record.events);
        rows.add(memtable, stream, events, event_seqs, received_us)?;
    }
    if !quarantine_seqs.is_empty() {
        let stream = Name::new(QUARANTINE).expect("BUG: the quarantine has a good name");
        let items = &record.quarantine;
        rows.add(memtable, &stream, items, quarantine_seqs, received_us)?;
    }
    if let Some(identity) = &record.identity {
        identities.remember(identity.clone(), &ack, received_us);
    }
    Ok(ack)
}

/// Returns the acknowledgement of the first copy of a batch.
pub(crate) fn ack_of(record: &Record, first_seq: u64) -> Ack {
    let items = record.items();
    Ack {
        accepted: record.events.num_rows() as u64,
        quarantined: record.ranks.len() as u64,
        first_seq: (items > 0).then_some(first_seq),
        last_seq: (items > 0).then(|| first_seq + items - 1),
        duplicate: false,
        shard: None,
    }
}
