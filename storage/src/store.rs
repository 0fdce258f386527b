//! The store as its one writer has it: open, write, seal, read, close.
//!
//! Four threads work behind it. The *log thread* assigns sequence numbers, writes groups to the
//! journal and makes them visible. The *sync thread* makes the journal durable, at once for `j`
//! writes and every interval otherwise. The *seal thread* turns the memtable into parts and
//! tiles. The *maintenance thread* compacts, applies retention and builds indexes.
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

mod backfill;
mod compact;
mod config;
mod detach;
mod disk_forecast;
mod drop;
mod edit;
mod index;
mod jobs;
mod lock;
mod log;
mod maintenance;
mod open;
mod quarantine;
mod read_only;
mod rebuild;
pub(crate) mod reserve;
mod retain;
mod seal;
mod shared;
mod staged_files;

pub use compact::{CompactReport, Debt, PartsReport, compaction_debt};
pub use config::{COLUMNS_MAX, Config, Options, StreamConfig};
pub use disk_forecast::DiskForecast;
pub use drop::PartitionReport;
pub use index::IndexReport;
pub(crate) use lock::{WriterLock, take_lock};
pub use rebuild::Rebuilt;
pub(crate) use rebuild::Remade;
pub use seal::SealReport;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use arrow::array::RecordBatch;
use crossbeam_channel::{Receiver, Sender};

use crate::background_permits::BackgroundPermit;
use crate::error::{Error, Kind, Result};
use crate::identity::SourcePosition;
use crate::index::IndexKind;
use crate::job_log::{Job, JobLog};
use crate::manifest::Manifest;
use crate::model::{Ack, Batch, Name, WriteConcern};
use crate::record::Record;
use crate::retention::Leaving;
use crate::rollup_hook::RollupMeta;
use crate::snapshot::Snapshot;
use compact::Pace;
use edit::View;
use log::{Command, Reply, Request};
use shared::{Opened, Pin, Shared, State, wait_for};

/// Batches in the queue of the log thread. A client that finds it full waits.
const QUEUE: usize = 256;
/// Batches buffered for a slow follower.
const FOLLOW_QUEUE: usize = 1024;
/// Counts since the store was opened, by stream. A replay from the quarantine counts as any batch
/// does: its items are received and stored once more, after they were received and quarantined. A
/// discarded item of the quarantine is no item of a batch and is not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Items received: stored + quarantined + refused + duplicate.
    pub received: u64,
    /// Events stored.
    pub stored: u64,
    /// Items written to the quarantine.
    pub quarantined: u64,
    /// Items of refused batches.
    pub refused: u64,
    /// Items of batches that were stored before.
    pub duplicate: u64,
}

/// Health of the store.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// Reason of the last failed seal, until a seal succeeds.
    pub seal_error: Option<String>,
    /// Reason of the last failed maintenance run, until a run succeeds.
    pub tend_error: Option<String>,
    /// Reason for which the store accepts no more writes.
    pub poisoned: Option<String>,
    /// True for a store opened for reading only.
    pub read_only: bool,
    /// The disk is full: writes are refused until disk space is free again, and reads go on.
    pub disk_full: bool,
    /// Bytes of memory held by the memtable.
    pub memtable_bytes: usize,
    /// Exclusive end of the sequence numbers that are synced in the journal.
    pub durable_seq: u64,
    /// Bytes of a torn journal tail that were cut off when the store was opened.
    pub torn_bytes: u64,
    /// Items replayed from the journal when the store was opened.
    pub replayed: u64,
}

/// Events that have just become visible: the stream and its rows with `_seq`.
#[derive(Debug, Clone)]
pub struct Arrived {
    /// Stream of the events.
    pub stream: Name,
    /// Typed columns with `time` and `_seq`.
    pub events: RecordBatch,
}

/// An open store and its writer.
#[derive(Debug)]
pub struct Store {
    shared: Arc<Shared>,
    commands: Option<Sender<Command>>,
    threads: Vec<JoinHandle<()>>,
}

impl Store {
    /// Records the address at which this process answers, for others that find the store locked.
    ///
    /// # Errors
    /// Any error of the file system.
    pub fn announce(&self, address: &str) -> Result<()> {
        if self.shared.lock.is_none() {
            return Ok(());
        }
        lock::write_writer(&*self.shared.options.fs, &self.shared.data, Some(address))
    }

    /// Queues a batch for the log thread. `reply` is called once, from another thread, when the
    /// write concern is reached or has failed. Waits while the queue is full.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the batch breaks its invariants, [`Error::Closed`].
    pub fn submit(
        &self,
        batch: Batch,
        concern: WriteConcern,
        reply: impl FnOnce(Result<Ack>) + Send + 'static,
    ) -> Result<()> {
        batch.validate()?;
        self.shared.check_writable()?;
        self.shared.syncer.check()?;
        let record = Record::of(batch);
        let payload = record.encode();
        let request = Request {
            record,
            payload,
            concern,
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

    /// Waits while the memtable is so full that a write might have to wait for a seal. Bulk
    /// writers call it to let others go first. Returns at once when the store closes or accepts
    /// no more writes.
    pub fn wait_for_bulk_room(&self) {
        let shared = &self.shared;
        let limit = shared.options.config.memtable_bytes_max;
        let mut state = shared.state.lock();
        while state.memtable.bytes() >= limit.saturating_add(limit / 4)
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

    /// Drops the raw events of every partition of `stream` that begins in `[from_us, to_us)`,
    /// microseconds since 1970, in one edit, detached ones too; its rollups keep counting them.
    /// `dry` only reports what would be dropped. In both cases the memtable is sealed first, so
    /// that its events are counted.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no such stream, or the error of the seal or the commit.
    pub fn drop_partitions(
        &self,
        stream: &Name,
        (from_us, to_us): (i64, i64),
        dry: bool,
    ) -> Result<PartitionReport> {
        self.shared.check_writable()?;
        let work = || drop::drop_partitions(&self.shared, stream, (from_us, to_us), dry);
        self.shared
            .run_by_hand(Job::Drop, stream, (from_us, to_us), dry, work)
    }

    /// Moves the raw events of every partition of `stream` that begins in `[from_us, to_us)`,
    /// microseconds since 1970, into folders of their own, `detached/NAME/date=…/`, in one edit.
    /// Queries no longer see these events; the rollups of the stream keep counting them. `dry`
    /// only reports what would be moved. In both cases the memtable is sealed first.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no such stream, when a detached partition of the range has
    /// live events again, or when the range has detached partitions only; or the error of the
    /// seal, a write or the commit.
    pub fn detach_partitions(
        &self,
        stream: &Name,
        range_us: (i64, i64),
        dry: bool,
    ) -> Result<PartitionReport> {
        self.shared.check_writable()?;
        let work = || detach::detach(&self.shared, stream, range_us, dry);
        self.shared
            .run_by_hand(Job::Detach, stream, range_us, dry, work)
    }

    /// Attaches every detached partition of `stream` that begins in `[from_us, to_us)` again, in
    /// one edit, provided that its folder is unchanged.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is none, or a file of its folder is missing or was changed;
    /// or the error of a write or the commit.
    pub fn attach_partitions(
        &self,
        stream: &Name,
        range_us: (i64, i64),
    ) -> Result<PartitionReport> {
        self.shared.check_writable()?;
        let work = || detach::attach(&self.shared, stream, range_us);
        let report = self
            .shared
            .run_by_hand(Job::Attach, stream, range_us, false, work);
        self.shared.request_maintenance();
        report
    }

    /// Drops partitions beyond the retention of one stream, or of all. Maintenance does the same;
    /// here the wall clock is trusted without a check. `dry` only reports what would be dropped.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no such stream, or the error of the seal or the commit.
    pub fn retain(&self, only: Option<&Name>, dry: bool) -> Result<Vec<Leaving>> {
        self.shared.check_writable()?;
        let work = || retain::retain(&self.shared, only, dry);
        if dry {
            return work();
        }
        self.shared.run_retain(work)
    }

    /// Drops every partition of the quarantine that is over and whose items are all settled.
    /// Maintenance does the same.
    ///
    /// # Errors
    /// The error of a read or the commit; the partitions stay as they are.
    pub fn drop_settled(&self) -> Result<PartitionReport> {
        self.shared.check_writable()?;
        self.shared.run_drop_settled()
    }

    /// Merges sections of tiles until there is nothing to merge. Maintenance does the same.
    /// `quiet` treats every time partition as one that gets no more events: then fewer sections
    /// remain, and later events cost more to merge.
    ///
    /// # Errors
    /// The error of a merge; sections not merged stay as they are.
    pub fn compact_tiles(&self, quiet: bool) -> Result<CompactReport> {
        self.shared.check_writable()?;
        compact::compact_tiles(&self.shared, &|_| quiet)
    }

    /// Merges parts of `stream`, or of all streams, until there is nothing to merge. Maintenance
    /// does the same. `quiet` treats every partition as one that gets no more events, as above.
    ///
    /// # Errors
    /// The error of a merge; other merges may have succeeded, and parts not merged stay as they
    /// are.
    pub fn compact_parts(&self, stream: Option<&Name>, quiet: bool) -> Result<PartsReport> {
        self.shared.check_writable()?;
        let report = compact::compact_parts(&self.shared, stream, &|_| quiet, Pace::Foreground);
        // The merged parts have no indexes yet.
        self.shared.request_maintenance();
        report
    }

    /// Creates an index of a column, which is kept until it is dropped and built in the
    /// background. Returns whether it is a new one.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no such stream, or the column cannot have an index or has
    /// one of the other kind; or an error of the file system.
    pub fn create_index(&self, stream: &Name, field: &str, kind: IndexKind) -> Result<bool> {
        self.shared.check_writable()?;
        index::create(&self.shared, stream, field, kind)
    }

    /// Drops an index and its files.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is none or it is configured; or an error of the file system.
    pub fn drop_index(&self, stream: &Name, field: &str) -> Result<()> {
        self.shared.check_writable()?;
        index::drop(&self.shared, stream, field)
    }

    /// Builds the wanted indexes that are missing. Maintenance does the same.
    ///
    /// # Errors
    /// The error of a build; other builds may have succeeded. Queries scan parts without an
    /// index.
    pub fn build_indexes(&self) -> Result<IndexReport> {
        self.shared.check_writable()?;
        index::build(&self.shared, Pace::Foreground).map(|(report, _)| report)
    }

    /// Drops the buckets beyond the retention of the rollups' levels. Maintenance does the same.
    /// Returns the number of events that those levels no longer count.
    ///
    /// # Errors
    /// The error of the edit; the levels stay as they are.
    pub fn retain_levels(&self) -> Result<u64> {
        self.shared.check_writable()?;
        self.shared.run_retain_levels(self.shared.now_us())
    }

    /// Counts one step of the history of rollups that were added to streams with events.
    /// Maintenance does the same. Returns whether more remains.
    pub fn backfill(&self) -> bool {
        self.shared.lock.is_some() && backfill::step(&self.shared)
    }

    /// Drops a rollup that the configuration does not want any more, with everything that it has
    /// counted. Returns the number of events that it counted.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no such rollup or the configuration wants it; or an error
    /// of the file system.
    pub fn drop_rollup(&self, rollup: &Name) -> Result<u64> {
        self.shared.check_writable()?;
        backfill::drop_rollup(&self.shared, rollup)
    }

    /// Returns the rollups of the store that its configuration does not want. New events still
    /// feed them until they are dropped.
    pub fn unwanted_rollups(&self) -> Vec<Name> {
        let manifest = Arc::clone(&self.shared.state.lock().committed.manifest);
        let ids: Vec<u32> = manifest.rollups.iter().map(|r| r.id).collect();
        let mut known = self.shared.unwanted.lock();
        if known.0 != ids {
            *known = (ids, self.find_unwanted(&manifest));
        }
        known.1.clone()
    }

    fn find_unwanted(&self, manifest: &Manifest) -> Vec<Name> {
        let is_unwanted = |r: &&RollupMeta| {
            let kind = manifest.streams.get(&r.stream).map(|s| s.kind);
            let rollup_hook = &self.shared.options.rollup_hook;
            kind.is_some_and(|kind| !rollup_hook.wants(r, kind, &manifest.rollups))
        };
        let unwanted = manifest.rollups.iter().filter(is_unwanted);
        unwanted.map(|r| r.name.clone()).collect()
    }

    /// Rebuilds from raw events every (level, time partition) of a rollup that reaches into
    /// `[from_us, to_us)`, microseconds since 1970, where all of its raw events are there.
    /// Returns the outcome of each.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no such rollup, or the error of the seal, a read or the
    /// commit.
    pub fn rebuild(&self, rollup: &Name, range: (i64, i64)) -> Result<Vec<Rebuilt>> {
        self.shared.check_writable()?;
        let work = || rebuild::rebuild(&self.shared, rollup, range);
        self.shared.run_rebuild(rollup, range, work)
    }

    /// Returns the log of maintenance jobs, past and running. Callers that do maintenance beyond
    /// the store's own (scrub, replay, backup) record their jobs in it too.
    pub fn maintenance(&self) -> &JobLog {
        &self.shared.log
    }

    /// Returns the disk space, and the time until it is used up.
    pub fn disk_forecast(&self) -> DiskForecast {
        disk_forecast::forecast(&self.shared)
    }

    /// Takes a snapshot of all visible events.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::new(self.shared.snapshot())
    }

    /// Follows new events from now on. A slow follower misses batches; it does not hold up the
    /// log thread. A dropped receiver is removed.
    pub fn follow(&self) -> Receiver<Arrived> {
        let (send, receive) = crossbeam_channel::bounded(FOLLOW_QUEUE);
        self.shared.state.lock().followers.push(send);
        receive
    }

    /// Counts items that never became a batch because they were refused before they could be
    /// parsed.
    pub fn count_refused(&self, stream: &Name, items: u64) {
        let mut state = self.shared.state.lock();
        let counters = state.counters_of(stream);
        counters.received += items;
        counters.refused += items;
    }

    /// Returns the counts since the store was opened.
    pub fn counters(&self) -> BTreeMap<Name, Counters> {
        self.shared.state.lock().counters.clone()
    }

    /// Returns the position up to which an ordered source has been stored.
    pub fn position(&self, producer: &str) -> Option<SourcePosition> {
        self.shared.state.lock().identities.position(producer)
    }

    /// Returns the remembered positions of an ordered source: one after each of its last batches,
    /// the newest last. Empty for an unknown source.
    pub fn source_states(&self, producer: &str) -> Vec<SourcePosition> {
        self.shared.state.lock().identities.states(producer)
    }

    /// Returns the ordered sources whose names begin with `prefix`, sorted.
    pub fn source_names(&self, prefix: &str) -> Vec<String> {
        self.shared.state.lock().identities.producers(prefix)
    }

    /// Returns the fingerprint remembered for a client's key, `None` for an unknown key.
    pub fn key_fingerprint(&self, key: &str) -> Option<u64> {
        self.shared.state.lock().identities.key_fingerprint(key)
    }

    /// Returns every ordered source and its position.
    pub fn positions(&self) -> Vec<(String, SourcePosition)> {
        self.shared.state.lock().identities.positions()
    }

    /// Returns the health of the store.
    pub fn status(&self) -> Status {
        let disk_full = self.shared.is_disk_full();
        let state = self.shared.state.lock();
        Status {
            read_only: self.shared.lock.is_none(),
            disk_full,
            seal_error: state.seal_error.as_ref().map(|(_, why)| why.clone()),
            tend_error: state.tend_error.clone(),
            poisoned: self.shared.syncer.poisoned().map(str::to_owned),
            memtable_bytes: state.memtable.bytes(),
            durable_seq: self.shared.syncer.durable_seq(),
            torn_bytes: self.shared.torn_bytes,
            replayed: self.shared.replayed,
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
            };
            shared.edit_and(close, |_| ())
        });
        match closed {
            Ok(()) => shared.remove_unreferenced(),
            Err(error) if error.kind() == Kind::DiskFull => {
                shared.syncer.sync_written()?;
                shared.check_lock()?;
                tracing::warn!(%error, "the disk is full: what is in memory was not sealed; it is in the journal, from which the next start reads it");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn stop(&mut self) {
        // The log thread ends when the queue is empty, the sync thread after the log thread.
        self.commands = None;
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
