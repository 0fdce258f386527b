//! The store as its one writer has it: open, write, seal, read, close.
//!
//! Four threads work behind it. The *log thread* assigns sequence numbers, writes groups to the
//! journal and makes them visible. The *sync thread* makes the journal durable, at once for `j`
//! writes and every interval otherwise. The *seal thread* turns the memtable into parts and
//! tiles. The *maintenance thread* compacts, applies retention and builds indexes (`maintenance`,
//! which also has the public methods for such jobs). Their locks, and the order in which they are
//! taken, are listed in `shared`.
//!
//! # Invariants
//! 1. A batch is visible only after it is in the journal file, and acknowledged only after it is
//!    visible: queries show every acknowledged event.
//! 2. The state's memtable holds exactly the assigned sequence numbers in
//!    `[sealed_seq, next_seq)`. One change of the state both commits a seal and releases the
//!    sealed rows from the memtable.
//! 3. Only data that is synced in the journal is sealed.
//! 4. A file is removed only after the manifest that no longer names it is durable, and only when
//!    no snapshot, in this or in another process, is of an older version.

mod access;
mod catalog;
mod config;
mod creation;
mod edit;
mod followers;
mod lock;
mod log;
mod maintenance;
mod open;
mod pace;
mod read_only;
mod reader;
pub(crate) mod reserve;
mod seal;
mod shared;
mod sources;
mod staged_files;
mod status;
mod tail;

pub use config::{Config, Options, StreamConfig};
pub use followers::Arrived;
pub use lock::recorded_writer;
pub(crate) use lock::{WriterLock, take_lock};
pub(crate) use maintenance::LevelRebuild;
pub use maintenance::{
    CompactReport, Debt, DiskForecast, EraseReport, IndexReport, PartitionReport, PartsReport,
    Rebuilt, compaction_debt,
};
pub use seal::SealReport;
pub use status::{Counters, JournalStatus, Status};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender};

use crate::access_file;
use crate::background_permits::BackgroundPermit;
use crate::concern::{Durability, WriteConcern};
use crate::encoded_batch::EncodedBatch;
use crate::error::{Error, Kind, Result};
use crate::manifest::Manifest;
use crate::model::{Ack, Batch, Name, StreamKind};
use crate::record::Record;
use crate::shard_key::Division;
use crate::snapshot::Snapshot;
use edit::View;
use log::{Command, Reply, Request, Waiter};
use shared::{Opened, Pin, Shared, State, wait_for};
use tail::Tail;

/// Batches in the queue of the log thread. A client that finds it full waits.
const QUEUE: usize = 256;
/// Bytes of the journal that may be on their way to the disk when a long batch comes: about one
/// body of the largest size.
const UNSYNCED_BYTES_MAX: u64 = 32 << 20;

/// Wakes the sync thread, for writes that wait for it, or none.
type Syncs = Sender<Vec<Waiter>>;

/// An open store and its writer.
#[derive(Debug)]
pub struct Store {
    shared: Arc<Shared>,
    commands: Option<Sender<Command>>,
    syncs: Option<Syncs>,
    tail: Option<Arc<Tail>>,
    threads: Vec<JoinHandle<()>>,
}

impl Store {
    /// Records the URL at which this process answers, for others that find the store locked,
    /// and a secret by which it recognises them: only the owner of the store can read it.
    ///
    /// # Errors
    /// Any error of the file system.
    pub fn announce(&self, url: &str, secret: &str) -> Result<()> {
        if self.shared.lock.is_none() {
            return Ok(());
        }
        let (fs, data) = (&*self.shared.options.fs, &self.shared.data);
        access_file::write_operator(fs, data, secret, self.shared.epoch.into())?;
        lock::write_writer(fs, data, Some(url))
    }

    /// Returns the durability that the store gives a batch for a write concern.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it cannot give what the concern asks for.
    pub fn gives(&self, concern: WriteConcern) -> Result<Durability> {
        match &self.shared.options.journal {
            Some(journal) => journal.replication().gives(concern),
            None => Durability::of_one_node(concern),
        }
    }

    /// Queues a batch for the log thread. `reply` is called once, from another thread, when the
    /// write concern is reached or has failed. Waits while the queue is full.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the batch breaks its invariants or the store cannot give the write
    /// concern, [`Error::Closed`].
    pub fn submit(
        &self,
        batch: Batch,
        concern: WriteConcern,
        reply: impl FnOnce(Result<Ack>) + Send + 'static,
    ) -> Result<()> {
        batch.validate()?;
        self.submit_record(Record::of(batch), concern, reply)
    }

    /// Queues a batch that another server has encoded, as [`Store::submit`] does.
    ///
    /// # Errors
    /// The errors of [`Store::submit`].
    pub fn submit_encoded(
        &self,
        batch: EncodedBatch,
        concern: WriteConcern,
        reply: impl FnOnce(Result<Ack>) + Send + 'static,
    ) -> Result<()> {
        self.submit_record(batch.into_record(), concern, reply)
    }

    fn submit_record(
        &self,
        record: Record,
        concern: WriteConcern,
        reply: impl FnOnce(Result<Ack>) + Send + 'static,
    ) -> Result<()> {
        let durability = self.gives(concern)?;
        self.shared.check_writable()?;
        self.shared.syncer.check()?;
        self.shared.create_streams_of(&record)?;
        let payload = record.encode();
        let request = Request {
            record,
            payload,
            durability,
            counts: true,
            reply: Reply::new(reply),
        };
        let commands = self.commands.as_ref().ok_or(Error::Closed)?;
        commands
            .send(Command::Write(vec![request]))
            .map_err(|_| Error::Closed)
    }

    /// Writes a batch and waits until the write concern is reached.
    ///
    /// # Errors
    /// The errors of [`Store::submit`], and of the write itself.
    pub fn write(&self, batch: Batch, concern: WriteConcern) -> Result<Ack> {
        let (send, receive) = crossbeam_channel::bounded(1);
        self.submit(batch, concern, move |outcome| {
            // The receiver below outlives the send, so there is no error to handle.
            let _ignored = send.send(outcome);
        })?;
        receive.recv().map_err(|_| Error::Closed)?
    }

    /// Creates a stream of this kind, with its rollups, unless there is one of that name. In a
    /// cluster, `divided_by` is the rule by which its events will come.
    ///
    /// # Errors
    /// [`Error::Overloaded`] while the object store does not take it, [`Error::Rollup`], and the
    /// errors of an edit of the manifest.
    pub fn create_stream(
        &self,
        name: &Name,
        kind: StreamKind,
        divided_by: Option<Division>,
    ) -> Result<()> {
        self.shared.check_writable()?;
        self.shared.create_one(name, (kind, divided_by))
    }

    /// Waits while rows of so many bytes would leave the memtable so full that the next write might
    /// have to wait for a seal, or while a long batch before it is not on the disk, for which the
    /// next sync would wait. Writers of long batches call it to let others go first. Returns when
    /// the store closes or accepts no more writes.
    pub fn wait_for_bulk_room(&self, bytes: usize) {
        let shared = &self.shared;
        if shared.syncer.unsynced_bytes() >= UNSYNCED_BYTES_MAX
            && let Some(syncs) = &self.syncs
        {
            // The sync thread does it, since others wait for a sync: the priority of this thread
            // may be low. It has ended only if the journal is poisoned.
            let _ignored = syncs.send(Vec::new());
            shared.syncer.wait_for_sync();
        }
        let limit = shared.options.config.memtable_bytes_max;
        let mut state = shared.state.lock();
        while state.memtable.bytes() >= limit
            && state.memtable.bytes().saturating_add(bytes) > limit.saturating_add(limit / 2)
            && !state.closing
            && state.seal_error.is_none()
            && shared.syncer.poisoned().is_none()
        {
            wait_for(&shared.sealing, &mut state, 20_000);
        }
    }

    /// Notes a foreground request: a client waits for an acknowledgement or an answer. For a
    /// second, background work leaves one core to such requests.
    pub fn note_foreground(&self) {
        self.shared.background_permits.note_foreground();
    }

    /// Waits for a permit for background work. The holder must not wait for anything that may
    /// need a permit itself, as a seal does.
    pub fn spare_turn(&self) -> BackgroundPermit<'_> {
        self.shared.background_permits.acquire()
    }

    /// Seals all acknowledged events into parts and tiles, in one manifest edit.
    ///
    /// # Errors
    /// The error of a write or of the commit; the events stay in journal and memtable.
    pub fn seal(&self) -> Result<SealReport> {
        self.shared.check_writable()?;
        seal::seal(&self.shared)
    }

    /// Makes the log thread begin a new segment of the journal, so that the next edit can drop the
    /// one before.
    fn cut_journal(&self) {
        let (done, wait) = crossbeam_channel::bounded(1);
        let sent = self.commands.as_ref().map(|c| c.send(Command::Cut(done)));
        if matches!(sent, Some(Ok(()))) {
            // The log thread has ended if it does not answer; the journal stays as it is.
            let _ignored = wait.recv();
        }
    }

    /// Takes a snapshot of all visible events.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::new(self.shared.snapshot())
    }

    /// Follows new events from now on. A slow follower misses batches; it does not hold up the
    /// log thread. A dropped receiver is removed.
    pub fn follow(&self) -> Receiver<Arrived> {
        self.shared.state.lock().followers.add()
    }

    /// Counts items that never became a batch because they were refused before they could be
    /// parsed.
    pub fn count_refused(&self, stream: &Name, items: u64) {
        self.shared.state.lock().count_refused(stream, items);
    }

    /// Returns the counts since the store was opened.
    pub fn counters(&self) -> BTreeMap<Name, Counters> {
        self.shared.state.lock().counters.clone()
    }

    /// Returns the health of the store.
    pub fn status(&self) -> Status {
        let disk_full = self.shared.is_disk_full();
        let tail = self.tail.as_ref();
        let journal = tail.map(|tail| tail.status(&self.shared));
        let state = self.shared.state.lock();
        Status {
            journal,
            read_only: self.shared.lock.is_none(),
            disk_full,
            seal_error: state.seal_error.as_ref().map(|(_, why)| why.clone()),
            tend_error: state.tend_error.clone(),
            poisoned: self.shared.syncer.poisoned().map(str::to_owned),
            memtable_bytes: state.memtable.bytes(),
            durable_seq: self.shared.syncer.durable_seq(),
            torn_bytes: self.shared.torn_bytes,
            replayed: self.shared.replayed.load(Ordering::Relaxed),
        }
    }

    /// Stops accepting writes, seals the memtable and marks the store as closed. On a full disk
    /// the memtable stays in the journal, from which the next start reads it.
    ///
    /// # Errors
    /// The error of the last seal; everything acknowledged is in the journal then.
    pub fn close(mut self) -> Result<()> {
        self.stop();
        if self.shared.lock.is_none() {
            return Ok(());
        }
        let shared = &self.shared;
        let closed = shared.with_reserve(|| {
            seal::seal(shared)?;
            let close = |manifest: &mut Manifest, view: &View| {
                manifest.clean = view.memtable_is_empty;
                // The log thread has begun an empty segment as its last act, so that readers of a
                // closed store have nothing to replay.
                seal::drop_journal(manifest, view);
                seal::set_position(manifest, view.sealed_to);
            };
            shared.edit_and(close, |_| ())
        });
        match closed {
            Ok(()) => shared.remove_unreferenced(),
            Err(error) if error.kind() == Kind::DiskFull => {
                shared.syncer.sync_written()?;
                shared.check_lock()?;
                tracing::warn!(%error, "the disk is full: the memtable was not sealed; its events are in the journal, from which the next start reads them");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn stop(&mut self) {
        // The log thread ends when the queue is empty, the sync thread after the log thread.
        self.commands = None;
        self.syncs = None;
        if let Some(owner) = &self.shared.depot {
            owner.close();
        }
        self.shared.state.lock().closing = true;
        self.shared.sealing.notify_all();
        for thread in self.threads.drain(..) {
            // A panic in the thread has poisoned the store; ignoring it here loses nothing.
            let _ignored = thread.join();
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod faults;
#[cfg(test)]
pub(crate) mod model;
#[cfg(test)]
mod tests;
