//! The store as its one writer has it: open, write, seal, read, close.
//!
//! Four threads work behind it. The *log thread* gives sequence numbers, writes groups to the
//! journal and makes them visible. The *sync thread* makes the journal durable, at once for those
//! who wait and every interval otherwise. The *seal thread* turns the memtable into parts and tiles.
//!
//! # Invariants
//! 1. A batch is visible only after it is in the journal file, and acknowledged only after it is
//!    visible: what an acknowledgement promises is what a query shows.
//! 2. The state's memtable holds exactly the sequence numbers in `[sealed_seq, next_seq)` that were
//!    given; a seal's commit and the release of what it sealed are one change of the state.
//! 3. Nothing is sealed that is not synced in the journal.
//! 4. A file is removed only after the manifest that does without it is durable, and only when no
//!    snapshot, here or in another process, is of an older version.

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

/// Batches that wait for the log thread before a sender waits too.
const QUEUE: usize = 256;
/// Batches kept for a follower that is slow.
const FOLLOW_QUEUE: usize = 1024;
/// Counts since the store was opened, by stream. What is replayed from the quarantine counts as any
/// batch does: as received and stored once more, after it was received and quarantined. What is given up
/// there is no item of a batch, and counts nowhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Items that came: stored + quarantined + refused + duplicate.
    pub received: u64,
    /// Events stored.
    pub stored: u64,
    /// Items kept in quarantine.
    pub quarantined: u64,
    /// Items of batches that were refused.
    pub refused: u64,
    /// Items of batches that were stored before.
    pub duplicate: u64,
}

/// What the store says of itself.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// Why the last seal failed, until one succeeds.
    pub seal_error: Option<String>,
    /// Why tiles could not be tended, until they could.
    pub tend_error: Option<String>,
    /// Why nothing is taken any more.
    pub poisoned: Option<String>,
    /// The store is only read.
    pub read_only: bool,
    /// The disk is full: nothing is taken until there is room again, and reads go on.
    pub disk_full: bool,
    /// Bytes of memory held by the memtable.
    pub memtable_bytes: usize,
    /// Exclusive end of what is synced in the journal.
    pub durable_seq: u64,
    /// Bytes of a torn tail that were cut off when the store was opened.
    pub torn_bytes: u64,
    /// Items replayed from the journal when it was opened.
    pub replayed: u64,
}

/// Events that have just become visible: the stream and its rows with `_seq`.
#[derive(Debug, Clone)]
pub struct Arrived {
    /// Their stream.
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
    /// Names the address at which this process answers, for others that find the store locked.
    ///
    /// # Errors
    /// What the file system says.
    pub fn announce(&self, address: &str) -> Result<()> {
        if self.shared.lock.is_none() {
            return Ok(());
        }
        lock::write_writer(&*self.shared.options.fs, &self.shared.data, Some(address))
    }

    /// Hands a batch to the log thread; `reply` is called once, from another thread, when the write
    /// concern is reached or has failed. Waits while the queue is full.
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
    /// As [`Store::submit`], and what became of the batch.
    pub fn write(&self, batch: Batch, concern: WriteConcern) -> Result<Ack> {
        let (send, receive) = crossbeam_channel::bounded(1);
        self.submit(batch, concern, move |outcome| {
            // The waiter below is always there; if it were not, nobody would care.
            let _ignored = send.send(outcome);
        })?;
        receive.recv().map_err(|_| Error::Closed)?
    }

    /// Waits while the memtable is so full that what comes now might have to wait for a seal: for
    /// those who bring much, and let others go first. Goes on at once when the store closes or takes
    /// nothing any more.
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

    /// Somebody waits for an acknowledgement or an answer: for a second, work that nobody waits for
    /// leaves them a core.
    pub fn note_foreground(&self) {
        self.shared.background_permits.note_foreground();
    }

    /// Waits for a turn on the processor, for work that nobody waits for. While it is out nothing is to
    /// be waited for that may need a turn itself, as a seal does.
    pub fn spare_turn(&self) -> BackgroundPermit<'_> {
        self.shared.background_permits.acquire()
    }

    /// Seals what has been acknowledged: parts and tiles, one manifest edit.
    ///
    /// # Errors
    /// Why it could not; what was to be sealed stays in journal and memtable.
    pub fn seal(&self) -> Result<SealReport> {
        self.shared.check_writable()?;
        seal::seal(&self.shared)
    }

    /// Drops the raw events of every partition of `stream` that begins in `[from_us, to_us)`,
    /// microseconds since 1970, in one edit, detached ones too; its rollups keep counting them. `dry`
    /// only says what would go; either way what is in the memtable is sealed first, so that it is counted.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no such stream, or why it could not seal or commit.
    pub fn drop_partitions(
        &self,
        stream: &Name,
        (from_us, to_us): (i64, i64),
        dry: bool,
    ) -> Result<PartitionReport> {
        self.shared.check_writable()?;
        let work = || drop::drop_partitions(&self.shared, stream, (from_us, to_us), dry);
        self.shared
            .by_hand(Job::Drop, stream, (from_us, to_us), dry, work)
    }

    /// Moves the raw events of every partition of `stream` that begins in `[from_us, to_us)`,
    /// microseconds since 1970, into folders of their own, `detached/NAME/date=…/`, in one edit: they
    /// are part of no answer then, and its rollups keep counting them. `dry` only says what would go;
    /// either way what is in the memtable is sealed first.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no such stream or one of the partitions is detached already,
    /// or why it could not seal, write or commit.
    pub fn detach_partitions(
        &self,
        stream: &Name,
        range_us: (i64, i64),
        dry: bool,
    ) -> Result<PartitionReport> {
        self.shared.check_writable()?;
        let work = || detach::detach(&self.shared, stream, range_us, dry);
        self.shared
            .by_hand(Job::Detach, stream, range_us, dry, work)
    }

    /// Brings back every detached partition of `stream` that begins in `[from_us, to_us)`, in one
    /// edit, when its folder is as it was.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is none, or a file of its folder is missing or was changed; or
    /// why it could not write or commit.
    pub fn attach_partitions(
        &self,
        stream: &Name,
        range_us: (i64, i64),
    ) -> Result<PartitionReport> {
        self.shared.check_writable()?;
        let work = || detach::attach(&self.shared, stream, range_us);
        let report = self
            .shared
            .by_hand(Job::Attach, stream, range_us, false, work);
        self.shared.ask_to_tend();
        report
    }

    /// Drops what is beyond the retention of one stream, or of all, as the store does by itself; here
    /// the clock is taken at its word. `dry` only says what would go.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no such stream, or why it could not seal or commit.
    pub fn retain(&self, only: Option<&Name>, dry: bool) -> Result<Vec<Leaving>> {
        self.shared.check_writable()?;
        let work = || retain::retain(&self.shared, only, dry);
        if dry {
            return work();
        }
        self.shared.tell_retain(work)
    }

    /// Gives up every partition of the quarantine that is over and whose items are all settled, as the
    /// store does by itself.
    ///
    /// # Errors
    /// Why it could not; the partitions stay as they are.
    pub fn drop_settled(&self) -> Result<PartitionReport> {
        self.shared.check_writable()?;
        self.shared.tell_drop_settled()
    }

    /// Merges sections of tiles until nothing is left to merge, as the store does by itself. `quiet`
    /// takes every time partition for one to which nothing will be added: then fewer sections stay,
    /// and what is added after all costs more.
    ///
    /// # Errors
    /// Why it could not; what was not merged stays as it is.
    pub fn compact_tiles(&self, quiet: bool) -> Result<CompactReport> {
        self.shared.check_writable()?;
        compact::compact_tiles(&self.shared, &|_| quiet)
    }

    /// Merges parts of `stream`, or of all streams, until nothing is left to merge, as the store does by
    /// itself. `quiet` takes every partition for one to which nothing will be added, as above.
    ///
    /// # Errors
    /// Why it could not, all or some of it; what was not merged stays as it is.
    pub fn compact_parts(&self, stream: Option<&Name>, quiet: bool) -> Result<PartsReport> {
        self.shared.check_writable()?;
        let report = compact::compact_parts(&self.shared, stream, &|_| quiet, Pace::Asked);
        // What was merged has no indexes yet.
        self.shared.ask_to_tend();
        report
    }

    /// Wants an index of a column, for as long as the store lives; it is made in the background. Returns
    /// whether it is a new one.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no such stream, the column cannot have one or has one of the other kind,
    /// or what the file system says.
    pub fn create_index(&self, stream: &Name, field: &str, kind: IndexKind) -> Result<bool> {
        self.shared.check_writable()?;
        index::create(&self.shared, stream, field, kind)
    }

    /// Gives up an index and its files.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is none or the configuration asks for it, or what the file system
    /// says.
    pub fn drop_index(&self, stream: &Name, field: &str) -> Result<()> {
        self.shared.check_writable()?;
        index::drop(&self.shared, stream, field)
    }

    /// Makes the indexes that are wanted, as the store does by itself.
    ///
    /// # Errors
    /// Why it could not, all or some of it; queries scan what has none.
    pub fn build_indexes(&self) -> Result<IndexReport> {
        self.shared.check_writable()?;
        index::build(&self.shared, Pace::Asked).map(|(report, _)| report)
    }

    /// Gives up what the retention of the rollups' levels says, as the store does by itself. Returns
    /// how many events those levels no longer count.
    ///
    /// # Errors
    /// Why it could not; the levels stay as they are.
    pub fn retain_levels(&self) -> Result<u64> {
        self.shared.check_writable()?;
        self.shared.tell_retain_levels(self.shared.now_us())
    }

    /// Counts some of the history of rollups that were added to streams with events, as the store
    /// does by itself. Whether there is more.
    pub fn backfill(&self) -> bool {
        self.shared.lock.is_some() && backfill::step(&self.shared)
    }

    /// Gives up a rollup that the configuration does not want any more, with everything that it has
    /// counted. Returns how many events that were.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no such rollup or the configuration wants it, or what the
    /// file system says.
    pub fn drop_rollup(&self, rollup: &Name) -> Result<u64> {
        self.shared.check_writable()?;
        backfill::drop_rollup(&self.shared, rollup)
    }

    /// The rollups of the store that its configuration does not want: they are fed until they are
    /// dropped.
    pub fn unwanted_rollups(&self) -> Vec<Name> {
        let manifest = Arc::clone(&self.shared.state.lock().committed.manifest);
        let ids: Vec<u32> = manifest.rollups.iter().map(|r| r.id).collect();
        let mut known = self.shared.unwanted.lock();
        if known.0 != ids {
            *known = (ids, self.look_for_unwanted(&manifest));
        }
        known.1.clone()
    }

    fn look_for_unwanted(&self, manifest: &Manifest) -> Vec<Name> {
        let is_unwanted = |r: &&RollupMeta| {
            let kind = manifest.streams.get(&r.stream).map(|s| s.kind);
            let rollup_hook = &self.shared.options.rollup_hook;
            kind.is_some_and(|kind| !rollup_hook.wants(r, kind, &manifest.rollups))
        };
        let unwanted = manifest.rollups.iter().filter(is_unwanted);
        unwanted.map(|r| r.name.clone()).collect()
    }

    /// Makes every (level, time partition) of a rollup that reaches into `[from_us, to_us)`,
    /// microseconds since 1970, again from the raw events, where all of them are there; says what
    /// became of each.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no such rollup, or why it could not seal, read or commit.
    pub fn rebuild(&self, rollup: &Name, range: (i64, i64)) -> Result<Vec<Rebuilt>> {
        self.shared.check_writable()?;
        let work = || rebuild::rebuild(&self.shared, rollup, range);
        self.shared.tell_rebuild(rollup, range, work)
    }

    /// What maintenance did and does, and where those tell of it who do more of it than the store itself.
    pub fn maintenance(&self) -> &JobLog {
        &self.shared.log
    }

    /// The room on the disk, and for how long it lasts.
    pub fn disk_forecast(&self) -> DiskForecast {
        disk_forecast::look(&self.shared)
    }

    /// What there is to see now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::new(self.shared.snapshot())
    }

    /// Follows what comes in from now on. A follower that does not keep up misses batches rather than
    /// hold up the log thread; one that is dropped is forgotten.
    pub fn follow(&self) -> Receiver<Arrived> {
        let (send, receive) = crossbeam_channel::bounded(FOLLOW_QUEUE);
        self.shared.state.lock().followers.push(send);
        receive
    }

    /// Adds items that never became a batch: refused before they could be read.
    pub fn count_refused(&self, stream: &Name, items: u64) {
        let mut state = self.shared.state.lock();
        let counters = state.counters_of(stream);
        counters.received += items;
        counters.refused += items;
    }

    /// Counts since the store was opened.
    pub fn counters(&self) -> BTreeMap<Name, Counters> {
        self.shared.state.lock().counters.clone()
    }

    /// How far an ordered source has been taken.
    pub fn position(&self, producer: &str) -> Option<SourcePosition> {
        self.shared.state.lock().identities.position(producer)
    }

    /// The states of an ordered source that are remembered: after each of its last batches, the
    /// newest last. Empty when the source is not known.
    pub fn source_states(&self, producer: &str) -> Vec<SourcePosition> {
        self.shared.state.lock().identities.states(producer)
    }

    /// The ordered sources whose names begin with `prefix`, sorted.
    pub fn source_names(&self, prefix: &str) -> Vec<String> {
        self.shared.state.lock().identities.producers(prefix)
    }

    /// The fingerprint under which a caller's key is remembered, `None` for an unknown key.
    pub fn key_fingerprint(&self, key: &str) -> Option<u64> {
        self.shared.state.lock().identities.key_fingerprint(key)
    }

    /// Every ordered source and how far it has been taken.
    pub fn positions(&self) -> Vec<(String, SourcePosition)> {
        self.shared.state.lock().identities.positions()
    }

    /// What the store says of itself.
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

    /// Takes nothing more, seals what there is and marks the store as closed. On a full disk what
    /// is in memory stays in the journal, from which the next start reads it.
    ///
    /// # Errors
    /// Why the last seal failed; everything acknowledged is in the journal then.
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
                // The log thread has begun an empty segment as its last act: readers of a closed
                // store have nothing to replay.
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
        // The log thread ends when the queue is empty, the sync thread when the log thread has ended.
        self.commands = None;
        self.shared.state.lock().closing = true;
        self.shared.sealing.notify_all();
        for thread in self.threads.drain(..) {
            // A panic there has poisoned the store; nothing is lost by going on.
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
