//! The way in for listeners: they submit batches to an [`Intake`] and wait for acknowledgements,
//! without knowledge of the store behind it.

use std::fmt::Debug;

use storage::{
    Ack, BackgroundPermit, Batch, Column, Durability, Name, SourcePosition, Store, StreamKind,
    WriteConcern,
};

use super::{stream_kind, stream_schema};

/// The callback of a batch: its acknowledgements, one from each store that took a part of it. It
/// is called once, from another thread.
pub(crate) type Reply = Box<dyn FnOnce(storage::Result<Vec<Ack>>) + Send>;

/// The present columns and kind of a stream, from which a parser begins.
#[derive(Debug, Default)]
pub(crate) struct StreamState {
    pub(crate) columns: Vec<Column>,
    /// `None` until the stream has events.
    pub(crate) kind: Option<StreamKind>,
}

/// The taker of batches: one store, or several behind a shard key (`crate::cluster`).
pub(crate) trait Intake: Debug + Send + Sync {
    fn stream(&self, stream: &Name) -> StreamState;

    /// Returns the durability that an acknowledgement under a write concern means.
    ///
    /// # Errors
    /// [`storage::Error::Invalid`] when the concern asks for more than there is.
    fn gives(&self, concern: WriteConcern) -> storage::Result<Durability>;

    /// Hands over a batch. Waits while too many others are queued.
    ///
    /// # Errors
    /// The errors of [`Store::submit`]; then there is no reply.
    fn submit(&self, batch: Batch, concern: WriteConcern, reply: Reply) -> storage::Result<()>;

    /// Returns whether [`Intake::is_synced`] tells of batches that are acknowledged without a sync.
    fn tells_syncs(&self) -> bool;

    /// Checks whether everything that these acknowledgements count is synced to disk.
    fn is_synced(&self, acks: &[Ack]) -> bool;

    /// Returns the remembered positions of an ordered source, the newest last. May block.
    ///
    /// # Errors
    /// [`storage::Error::Overloaded`] if another server has to be asked and does not answer.
    fn positions(&self, producer: &str) -> storage::Result<Vec<SourcePosition>>;

    /// Returns the ordered sources whose names begin with `prefix`. May block.
    ///
    /// # Errors
    /// As [`Intake::positions`].
    fn producers(&self, prefix: &str) -> storage::Result<Vec<String>>;

    /// Returns the fingerprint of the request that an idempotency key stands for. May block.
    ///
    /// # Errors
    /// As [`Intake::positions`].
    fn key_fingerprint(&self, key: &str) -> storage::Result<Option<u64>>;

    /// Counts items that were refused before they became a batch.
    fn count_refused(&self, stream: &Name, items: u64);

    /// Makes background work yield to the request that arrives now.
    fn note_foreground(&self);

    /// Waits for a permit of background work, for a request that yields to all others.
    fn background_permit(&self) -> BackgroundPermit<'_>;

    /// Waits until rows of so many bytes fit into memory beside those of clients that go first.
    fn wait_for_bulk_room(&self, bytes: usize);
}

impl Intake for Store {
    fn stream(&self, stream: &Name) -> StreamState {
        let snapshot = self.snapshot();
        StreamState {
            columns: stream_schema(&snapshot, stream),
            kind: stream_kind(&snapshot, stream),
        }
    }

    fn gives(&self, concern: WriteConcern) -> storage::Result<Durability> {
        Self::gives(self, concern)
    }

    fn submit(&self, batch: Batch, concern: WriteConcern, reply: Reply) -> storage::Result<()> {
        let reply = |outcome: storage::Result<Ack>| reply(outcome.map(|ack| vec![ack]));
        Self::submit(self, batch, concern, reply)
    }

    fn tells_syncs(&self) -> bool {
        true
    }

    fn is_synced(&self, acks: &[Ack]) -> bool {
        let last = acks.iter().filter_map(|ack| ack.last_seq).max();
        last.is_none_or(|last| self.status().durable_seq > last)
    }

    fn positions(&self, producer: &str) -> storage::Result<Vec<SourcePosition>> {
        Ok(self.source_states(producer))
    }

    fn producers(&self, prefix: &str) -> storage::Result<Vec<String>> {
        Ok(self.source_names(prefix))
    }

    fn key_fingerprint(&self, key: &str) -> storage::Result<Option<u64>> {
        Ok(Self::key_fingerprint(self, key))
    }

    fn count_refused(&self, stream: &Name, items: u64) {
        Self::count_refused(self, stream, items);
    }

    fn note_foreground(&self) {
        Self::note_foreground(self);
    }

    fn background_permit(&self) -> BackgroundPermit<'_> {
        self.spare_turn()
    }

    fn wait_for_bulk_room(&self, bytes: usize) {
        Self::wait_for_bulk_room(self, bytes);
    }
}
