//! Batches on their way to the store, and its answers.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use storage::Ack;

use super::{AGAIN_AFTER, BATCH_BYTES, BatchMaker, GroupSession};
use crate::kafka::batch::RangeOrigin;
use crate::serve::SHORT_BYTES_MAX;

/// Time before a partition is begun again that another reader has read on.
const AFTER_OTHER: Duration = Duration::from_millis(200);

/// The answer of the store to a batch.
pub(super) struct StoreAnswer {
    partition: u64,
    attempt: u64,
    /// End of the batch's range.
    to: u64,
    counts: BatchCounts,
    answer: storage::Result<Vec<Ack>>,
}

#[derive(Debug, Clone, Copy)]
struct BatchCounts {
    records: u64,
    tombstones: u64,
    bytes: u64,
}

impl GroupSession<'_> {
    /// Hands the records of a partition to the store.
    pub(super) fn send(&mut self, i: usize, batches: &mut BatchMaker) {
        let all = 0..self.partitions[i].records.len();
        match self.send_range(i, all, batches) {
            Ok(()) => {
                self.partitions[i].records.clear(BATCH_BYTES);
                self.partitions[i].since = None;
            }
            Err(why) => self.again(i, &why, AGAIN_AFTER),
        }
    }

    fn send_range(
        &mut self,
        i: usize,
        range: Range<usize>,
        batches: &mut BatchMaker,
    ) -> Result<(), String> {
        let partition = &mut self.partitions[i];
        let origin = RangeOrigin {
            source: Arc::clone(&partition.source),
            producer: partition.place.producer(),
            from: partition.chain.start(),
        };
        let batch = match batches.make(origin, &partition.records, range.clone()) {
            Ok(batch) => batch,
            Err(ingest::Error::TooMuch { .. }) if range.len() > 1 => {
                let middle = range.start + range.len() / 2;
                self.send_range(i, range.start..middle, batches)?;
                return self.send_range(i, middle..range.end, batches);
            }
            Err(error) => return Err(error.to_string()),
        };
        let last = partition.records.last(&range).offset;
        let counts = BatchCounts {
            records: range.len() as u64,
            tombstones: partition.records.tombstones(range.clone()) as u64,
            bytes: partition.records.value_bytes(range.clone()) as u64,
        };
        let intake = &self.source.serving.intake;
        let bytes = batch
            .events
            .get_array_memory_size()
            .max(counts.bytes as usize);
        if bytes > SHORT_BYTES_MAX {
            intake.wait_for_bulk_room(bytes);
        }
        let size = partition.records.size() * range.len() / partition.records.len();
        let (flow, send) = (Arc::clone(&self.flow), self.outcomes.0.clone());
        let (id, attempt) = (partition.id, partition.attempt);
        let reply = Box::new(move |answer| {
            // A session that has ended reads the position from the store.
            let _ignored = send.send(StoreAnswer {
                partition: id,
                attempt,
                to: last + 1,
                counts,
                answer,
            });
            flow.remove(size);
        });
        self.flow.add(size);
        if let Err(error) = intake.submit(batch, batches.concern, reply) {
            self.flow.remove(size);
            return Err(error.to_string());
        }
        partition.chain.cut(last);
        partition.under_way += 1;
        Ok(())
    }

    /// Takes the answers of the store that are there.
    pub(super) fn take_outcomes(&mut self) {
        while let Ok(outcome) = self.outcomes.1.try_recv() {
            let of_partition = |p: &super::Partition| p.id == outcome.partition;
            let Some(i) = self.partitions.iter().position(of_partition) else {
                continue;
            };
            self.partitions[i].under_way -= 1;
            match &outcome.answer {
                Ok(acks) => self.stored(i, &outcome, acks),
                // The others behind it are refused because of the first one.
                Err(_) if outcome.attempt != self.partitions[i].attempt => {}
                Err(error) => {
                    let wait = match error {
                        storage::Error::Gap { .. }
                        | storage::Error::Invalid { .. }
                        | storage::Error::KeyReused { .. } => AFTER_OTHER,
                        _ => AGAIN_AFTER,
                    };
                    let why = error.to_string();
                    self.again(i, &why, wait);
                }
            }
        }
    }

    fn stored(&mut self, i: usize, outcome: &StoreAnswer, acks: &[Ack]) {
        if std::mem::take(&mut self.is_troubled) {
            self.source.report(None);
        }
        let partition = &mut self.partitions[i];
        // After a reset, the position is read from the store.
        if outcome.attempt == partition.attempt {
            partition.stored = Some(outcome.to);
        }
        let is_repeated = acks.iter().all(|ack| ack.duplicate);
        let counts = outcome.counts;
        partition.report(
            &self.source.name,
            &self.source.serving.sources,
            |report| match is_repeated {
                true => report.repeated += counts.records,
                false => {
                    report.records += counts.records;
                    report.tombstones += counts.tombstones;
                    report.bytes += counts.bytes;
                }
            },
        );
    }
}
