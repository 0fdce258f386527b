//! The journal in the rebuild of a manifest: its records name the kinds of the streams, and bring
//! the events that no part holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::compute::filter_record_batch;

use super::Rebuilder;
use crate::apply::ack_of;
use crate::error::Result;
use crate::journal::{self, Salvage};
use crate::memtable::Chunk;
use crate::model::{Name, QUARANTINE, StreamKind};
use crate::record::Record;
use crate::schema_evolution;

impl Rebuilder<'_> {
    /// Notes the kinds of the streams that journal records name.
    pub(super) fn note_kinds(&mut self, salvage: &Salvage) {
        let records = salvage.groups.iter().flat_map(|g| &g.records);
        for record in records.filter_map(|r| Record::decode(r).ok()) {
            if record.events.num_rows() > 0 {
                self.kinds.insert(record.stream.clone(), record.kind);
            }
        }
    }

    /// Takes the journal's events that no part holds.
    pub(super) fn take_journal(&mut self, salvage: &Salvage) -> Result<()> {
        let mut chunks: BTreeMap<Name, Vec<Arc<Chunk>>> = BTreeMap::new();
        let mut items = 0;
        for group in &salvage.groups {
            let mut seq = group.first_seq;
            for payload in &group.records {
                let Ok(record) = Record::decode(payload) else {
                    self.add_finding(format!(
                        "{}: a record at sequence {seq} cannot be read",
                        journal::DIR
                    ));
                    break;
                };
                let first_seq = seq;
                seq += record.items();
                items += self.take_record(record, first_seq, &mut chunks)?;
            }
        }
        for (stream, chunks) in chunks {
            self.draft.rest.entry(stream).or_default().push(chunks);
        }
        for hole in &salvage.holes {
            self.add_finding(format!(
                "{}: bytes {}..{} hold no readable record",
                journal::relative_path(hole.segment),
                hole.bytes.0,
                hole.bytes.1
            ));
        }
        let segments = salvage.segments.iter().map(|s| journal::relative_path(*s));
        let segments: Vec<String> = segments.collect();
        self.draft.last_segment = salvage
            .segments
            .iter()
            .fold(self.draft.last_segment, |a, b| a.max(*b));
        self.draft.evidence.extend(segments.iter().cloned());
        self.draft.leftovers.extend(segments);
        self.add_finding(format!(
            "{}: {items} items that no part holds are recovered from {} groups into new parts",
            journal::DIR,
            salvage.groups.len()
        ));
        Ok(())
    }

    fn take_record(
        &mut self,
        mut record: Record,
        first_seq: u64,
        chunks: &mut BTreeMap<Name, Vec<Arc<Chunk>>>,
    ) -> Result<u64> {
        let stream = record.stream.clone();
        let (event_seqs, bad_seqs) = record.sequence(first_seq);
        let ack = ack_of(&record, first_seq);
        if record.events.num_rows() > 0 {
            let meta = self.stream(&stream, record.kind);
            if let Some(fitted) = schema_evolution::reconcile(meta, &record)? {
                record.events = fitted;
            }
        }
        let quarantine = Name::new(QUARANTINE).expect("BUG: the quarantine has a good name");
        let mut taken = 0;
        for (name, rows, seqs) in [
            (stream, &record.events, event_seqs),
            (quarantine, &record.quarantine, bad_seqs),
        ] {
            let fresh: Vec<bool> = seqs.iter().map(|seq| !self.recent.contains(seq)).collect();
            let seqs: Vec<u64> = seqs
                .into_iter()
                .filter(|seq| !self.recent.contains(seq))
                .collect();
            if seqs.is_empty() {
                continue;
            }
            if name.as_str() == QUARANTINE {
                self.stream(&name, StreamKind::Quarantine);
            }
            taken += seqs.len() as u64;
            let rows = filter_record_batch(rows, &BooleanArray::from(fresh))?;
            let chunk = Arc::new(Chunk::new(&rows, seqs)?);
            chunks.entry(name).or_default().push(chunk);
        }
        if let Some(identity) = record.identity {
            self.draft
                .identities
                .remember(identity, &ack, record.received_us);
        }
        Ok(taken)
    }
}
