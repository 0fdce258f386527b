//! Opening: the lock, the newest manifest, the journal replayed over it, and the threads.

mod own_or_shared;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::Receiver;

use super::log::Command;
use super::reserve::Reserve;
use super::tail::Tail;
use super::{
    Opened, Options, QUEUE, Shared, State, Store, Syncs, WriterLock, log, maintenance, seal, tail,
    take_lock,
};
use crate::birth::Birth;
use crate::env::Fs;
use crate::error::{Error, Kind, Result};
use crate::file::create_dir_durably;
use crate::identity::Identities;
use crate::job_log::JobLog;
use crate::journal::{self, Journal, Replay, Syncer};
use crate::manifest::{self, CommitPlace, Committed, KafkaJournal, Manifest, StreamMeta};
use crate::memtable::Memtable;
use crate::model::Name;
use crate::objects::{self, DepotOwner, Newcomer, Tenure};
use crate::recover::{Recovered, recover};
use crate::seeded::{self, Bug};
use crate::trash;
use own_or_shared::{leave_own_journal, shared_journal};

/// Sequence numbers skipped after an unclean stop, to get past any number that may have been
/// visible: more than can be journaled between two syncs.
pub(super) const SKIP: u64 = 1 << 24;

/// A writer that has started but has no threads yet. The next start may repeat each step, and so
/// may this one once the disk has space.
struct Begun {
    committed: Committed,
    memtable: Memtable,
    streams: BTreeMap<Name, StreamMeta>,
    identities: Identities,
    replay: Replay,
    items: u64,
    /// None if the journal is shared.
    journal: Option<Journal>,
    owner: Option<DepotOwner>,
}

impl Begun {
    /// Begins as [`Begun::of`] does; on a full disk with the reserve.
    fn within(
        data: &Path,
        options: &Options,
        lock: &WriterLock,
        reserve: &Reserve,
    ) -> Result<Self> {
        let fs = &*options.fs;
        let begun = match Self::of(data, options, lock) {
            Err(error) if error.kind() == Kind::DiskFull && reserve.release(fs) => {
                tracing::warn!(%error, "the disk is full; opening the store with its reserve");
                Self::of(data, options, lock)?
            }
            other => other?,
        };
        reserve.restore(fs);
        Ok(begun)
    }

    fn of(data: &Path, options: &Options, lock: &WriterLock) -> Result<Self> {
        let fs = Arc::clone(&options.fs);
        for dir in [manifest::DIR, journal::DIR] {
            create_dir_durably(&*fs, data, &data.join(dir))?;
        }
        let now_us = options.clock.now_us();
        let tenure = tenure(&fs, data, options)?;
        let owner = tenure
            .as_ref()
            .map(|tenure| &tenure.owner as &dyn CommitPlace);
        let now_s = now_us.div_euclid(1_000_000);
        let mut committed = newest(owner, &*fs, data, (now_s, options.shard))?;
        check_shard(&committed.manifest, options.shard)?;
        if let Some(tag) = tenure.as_ref().and_then(|tenure| tenure.tag.clone()) {
            committed.tag = Some(tag);
        }
        let Recovered {
            memtable,
            streams,
            identities,
            next_seq,
            replay,
            items,
        } = recover(&*fs, data, &committed.manifest)?;
        let end = (next_seq, !memtable.is_empty() || identities.has_fresh());
        let shared = shared_journal(&committed.manifest, options, end)?;
        // Up to here no other process has written. A writer that starts later commits a version
        // first.
        lock.check()?;
        if replay.last.segment > 0 && (!committed.manifest.clean || replay.torn_bytes > 0) {
            journal::settle_tail(&*fs, data, &replay.last)?;
        }
        let unclean = !committed.manifest.clean || items > 0 || replay.torn_bytes > 0;
        // A replay of a shared journal gives the numbers that were visible.
        let skips = unclean && shared.is_none() && !seeded::is(Bug::SequenceReused);
        let next_seq = if skips { next_seq + SKIP } else { next_seq };
        let opened = Manifest {
            shard: options.shard,
            ..opened(&committed.manifest, next_seq, shared)
        };
        let committed = manifest::commit_for(owner, &*fs, data, Some(&committed), opened)?;
        let owner = tenure.map(|tenure| tenure.committed(&*fs, data));
        let owner = owner.transpose()?;
        if let Err(error) = Birth::of(&committed.manifest).keep(&*fs, data) {
            tracing::warn!(%error, "could not write the store's id to STORE; the next start tries again");
        }
        // Files that another writer has created since must not be moved away.
        lock.check()?;
        trash::collect(&*fs, data, &committed.manifest, now_us)?;
        let manifest = &committed.manifest;
        if manifest.journal.is_some() {
            // The store has left its own journal, and sealed what was in it.
            objects::clear(&*fs, &data.join(journal::DIR))?;
        }
        let begin = || {
            let (id, epoch) = (&manifest.store_id, manifest.writer_epoch.into());
            Journal::begin(fs, data, id, epoch, replay.last, next_seq)
        };
        let journal = manifest.journal.is_none().then(begin).transpose()?;
        Ok(Self {
            committed,
            memtable,
            streams,
            identities,
            replay,
            items,
            journal,
            owner,
        })
    }
}

/// Returns the first version of a writer.
fn opened(committed: &Manifest, next_seq: u64, shared: Option<KafkaJournal>) -> Manifest {
    Manifest {
        // No file is named before this version is durable (`file_id.rs`).
        writer_epoch: committed.writer_epoch + 1,
        clean: false,
        next_seq: committed.next_seq.max(next_seq),
        journal: shared,
        ..committed.clone()
    }
}

/// Brings data directory and object store together, where the store has one.
fn tenure(fs: &Arc<dyn Fs>, data: &Path, options: &Options) -> Result<Option<Tenure>> {
    match &options.depot {
        Some(depot) => {
            let newcomer = Newcomer {
                adoption: options.config.adoption,
                shares_journal: options.journal.is_some(),
                address: options.config.address.as_deref(),
            };
            objects::settle(fs, data, depot, newcomer).map(Some)
        }
        None => objects::refuse_without_depot(&**fs, data).map(|()| None),
    }
}

/// Returns the newest manifest, or commits the first one of a new store.
fn newest(
    place: Option<&dyn CommitPlace>,
    fs: &dyn Fs,
    data: &Path,
    (now_s, shard): (i64, Option<u16>),
) -> Result<Committed> {
    let Some(found) = manifest::find_newest(fs, data)? else {
        manifest::refuse_headless(fs, data)?;
        let mut id = format!("{:032x}", rand::random::<u128>());
        if let Some(shard) = shard {
            // These digits are in every `_id`.
            id.replace_range(..4, &format!("{shard:04x}"));
        }
        let mut new = Manifest::new(id, u32::try_from(now_s).unwrap_or(0));
        new.shard = shard;
        return manifest::commit_for(place, fs, data, None, new);
    };
    if let Some(damaged) = &found.damaged {
        tracing::warn!(path = %damaged.path.display(), what = damaged.what, "the manifest was damaged; it is restored from its copy, the damaged file goes to the trash");
        // The damaged file is kept for an analysis of the cause; the next edit writes both
        // copies.
        if fs.exists(&damaged.path) {
            trash::move_away(fs, data, &damaged.path, now_s);
        }
    }
    Ok(found.committed)
}

/// Checks that the store is the shard that it is to be. The ids of its events tell the shard, so
/// that another store cannot become one.
fn check_shard(manifest: &Manifest, shard: Option<u16>) -> Result<()> {
    let why = match (manifest.shard, shard) {
        (known, wanted) if known == wanted => return Ok(()),
        // A repair rebuilds the manifest from the id and the parts.
        (None, Some(wanted)) if manifest.id_prefix()[4..] == wanted.to_be_bytes() => return Ok(()),
        (Some(known), Some(wanted)) => {
            format!("this store is shard {known}, and [cluster] names shard {wanted}")
        }
        (Some(known), None) => format!(
            "this store is shard {known} of a cluster; set `shards` and `shard` of [cluster]"
        ),
        (None, _) => "this store is no shard of a cluster: begin one in an empty directory, and name the server of this store among the peers".to_owned(),
    };
    Err(Error::invalid(why))
}

impl Store {
    /// Opens the store in `data` for writing, creating it when there is none.
    ///
    /// # Errors
    /// [`Error::Locked`] when another process writes to it; [`Error::Corrupt`] when acknowledged
    /// data cannot be read back; [`Error::Rollup`] when a configured rollup differs from the
    /// store's.
    pub fn open(data: &Path, options: Options) -> Result<Self> {
        let fs = Arc::clone(&options.fs);
        leave_own_journal(data, &options)?;
        let lock = take_lock(&*fs, data)?;
        let reserve = Reserve::of(&*fs, data, options.config.reserve_bytes);
        let Begun {
            committed,
            memtable,
            streams,
            identities,
            replay,
            items,
            journal,
            owner,
        } = Begun::within(data, &options, &lock, &reserve)?;
        let manifest = &committed.manifest;
        let position = manifest.journal.as_ref().map(|journal| journal.position);
        let next_seq = position.map_or(manifest.next_seq, |position| position.next_seq);
        let segments = journal.as_ref().map_or_else(Vec::new, |journal| {
            segments(manifest, &replay, (journal.segment(), next_seq))
        });
        let syncer = journal.as_ref().map(|journal| Arc::clone(journal.syncer()));
        let syncer = syncer.unwrap_or_else(|| Syncer::idle(data, next_seq));
        let (commands, inbox) = crossbeam_channel::bounded(QUEUE);
        let log = JobLog::of(
            Arc::clone(&fs),
            Arc::clone(&options.clock),
            data,
            options.config.keeps_log,
        );
        let shared = Arc::new(Shared::of(Opened {
            data,
            syncer,
            reserve,
            options,
            depot: owner,
            state: State {
                streams: streams.into(),
                memtable,
                identities,
                next_seq,
                segments,
                position,
                ..State::of(committed)
            },
            torn_bytes: replay.torn_bytes,
            replayed: items,
            log,
            lock: Some(lock),
            registration: None,
        }));
        let open = match journal {
            Some(journal) => OpenJournal::Own(journal),
            None => OpenJournal::Shared(Tail::take_over(&shared)?),
        };
        shared.note_position()?;
        maintenance::new_rollups(&shared)?;
        maintenance::open_indexes(&shared)?;
        shared.remove_unreferenced();
        let tail = open.tail();
        let (threads, syncs) = start_threads(&shared, open, inbox)?;
        Ok(Self {
            shared,
            commands: Some(commands),
            syncs,
            tail,
            threads,
        })
    }
}

/// Returns the segments that are there, with the one that begins now.
fn segments(manifest: &Manifest, replay: &Replay, begun: (u64, u64)) -> Vec<(u64, u64)> {
    let last = replay.last.segment;
    let old = (last > 0).then(|| (last.min(manifest.journal_floor.max(1)), 0));
    old.into_iter().chain([begun]).collect()
}

/// The journal of a writer.
enum OpenJournal {
    Own(Journal),
    Shared(Arc<Tail>),
}

impl OpenJournal {
    fn tail(&self) -> Option<Arc<Tail>> {
        match self {
            Self::Own(_) => None,
            Self::Shared(tail) => Some(Arc::clone(tail)),
        }
    }
}

/// Starts the threads of a store, and returns the sender that wakes the sync thread, if there is
/// one.
fn start_threads(
    shared: &Arc<Shared>,
    journal: OpenJournal,
    inbox: Receiver<Command>,
) -> Result<(Vec<JoinHandle<()>>, Option<Syncs>)> {
    let mut threads = Vec::new();
    let syncs = match journal {
        OpenJournal::Own(journal) => {
            let (waiters, waiting) = crossbeam_channel::unbounded();
            let syncs = waiters.clone();
            threads.push(spawn(shared, "sync", move |s| log::sync_loop(s, &waiting))?);
            threads.push(spawn(shared, "log", move |s| {
                log::run_log(s, journal, &inbox, &waiters);
            })?);
            Some(syncs)
        }
        OpenJournal::Shared(tail) => {
            let reads = Arc::clone(&tail);
            threads.push(spawn(shared, "tail", move |s| tail::run_tail(s, &reads))?);
            threads.push(spawn(shared, "append", move |s| {
                tail::append_loop(s, &tail, &inbox);
            })?);
            None
        }
    };
    threads.push(spawn(shared, "seal", seal::seal_loop)?);
    if shared.options.config.tends {
        threads.push(spawn(shared, "tend", maintenance::maintenance_loop)?);
    }
    Ok((threads, syncs))
}

/// Poisons the store when its thread panics. A dead thread must be noticed, and the others must
/// not continue from the half-done state that it left.
struct Watch {
    shared: Arc<Shared>,
    name: &'static str,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.thread_died(self.name);
        }
    }
}

pub(super) fn spawn(
    shared: &Arc<Shared>,
    name: &'static str,
    run: impl FnOnce(&Arc<Shared>) + Send + 'static,
) -> Result<JoinHandle<()>> {
    let watch = Watch {
        shared: Arc::clone(shared),
        name,
    };
    let builder = std::thread::Builder::new().name(format!("logmill-{name}"));
    builder
        .spawn(move || run(&watch.shared))
        .map_err(|source| Error::Io {
            op: "start thread",
            path: name.into(),
            source,
        })
}
