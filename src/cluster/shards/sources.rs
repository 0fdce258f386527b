//! Ordered sources, whose ranges go to all shards.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use storage::{Batch, Error, Identity, SourcePosition, WriteConcern};

use super::Gateway;
use crate::intake::Reply;

impl Gateway {
    /// Tells the shards that do not know an ordered source where it begins, before its first range
    /// of this process: such a shard takes any range for the first one, though one before it may be
    /// lost on its way. Waits for them.
    ///
    /// # Errors
    /// [`Error::Gap`] if the source goes on at a place up to which a shard does not have it.
    pub(super) fn begin_source(self: &Arc<Self>, batch: &Batch) -> storage::Result<()> {
        let Some(Identity::Range { producer, from, .. }) = &batch.identity else {
            return Ok(());
        };
        if self.begun.lock().contains(producer) {
            return Ok(());
        }
        let own = self
            .own
            .map(|own| (own, self.store.source_states(producer)));
        let others = self.owners.positions(self.own, producer)?;
        let shards = (0..self.shards).filter(|shard| Some(*shard) != self.own);
        let states = own.into_iter().chain(shards.zip(others));
        let (known, unknown): (Vec<_>, Vec<_>) = states.partition(|(_, states)| !states.is_empty());
        if *from > 0 && !known.is_empty() && !unknown.is_empty() {
            return Err(Error::Gap {
                producer: producer.clone(),
                from: *from,
                known: 0,
            });
        }
        self.note_beginning(batch, unknown.into_iter().map(|(shard, _)| shard))?;
        self.begun.lock().insert(producer.clone());
        Ok(())
    }

    /// Stores the beginning of a batch's range in some shards.
    fn note_beginning(
        self: &Arc<Self>,
        batch: &Batch,
        shards: impl Iterator<Item = u16>,
    ) -> storage::Result<()> {
        let Some(Identity::Range { producer, from, .. }) = &batch.identity else {
            return Ok(());
        };
        let note = Batch {
            events: RecordBatch::new_empty(Schema::empty().into()),
            quarantine: Vec::new(),
            identity: Some(Identity::Range {
                producer: producer.clone(),
                from: *from,
                to: *from,
                content: 0,
            }),
            ..batch.clone()
        };
        let notes: Vec<(u16, Batch)> = shards.map(|shard| (shard, note.clone())).collect();
        if notes.is_empty() {
            return Ok(());
        }
        let (tell, told) = std::sync::mpsc::channel();
        let reply: Reply = Box::new(move |outcome| {
            // The receiver below waits.
            let _told = tell.send(outcome);
        });
        self.hand_over_all(notes, WriteConcern::ACKNOWLEDGED, reply);
        let outcome = told.recv().unwrap_or(Err(Error::Closed));
        outcome.map(drop)
    }
}

/// Returns the states of a source that all shards have reached: those of the shard that has taken
/// least, if all know the source.
pub(super) fn common(all: impl Iterator<Item = Vec<SourcePosition>>) -> Vec<SourcePosition> {
    let end = |states: &Vec<SourcePosition>| states.last().map(|state| state.to);
    let mut least = all.min_by_key(end).unwrap_or_default();
    // A note that the source begins is no state that it has reached.
    least.retain(|state| state.to > 0);
    least
}
