//! State shared by the threads of a store and its callers.
//!
//! # Locks
//! A thread that holds a lock takes only locks to the right of it:
//!
//! ```text
//! merging > parts > tiles > sealer > edits > state > the syncer's own
//! indexing > indexes                       > state
//! creations                                > state
//! ```
//! * `state` guards [`State`]. It is held briefly and never across I/O. The condition `sealing`
//!   belongs to it.
//! * `edits`, `sealer`, `tiles`, `parts`, `merging` and `indexing` guard no field: each admits one
//!   piece of work of its kind at a time, and is held across its I/O.
//! * `access` admits one writer of `ACCESS` and `CATALOG`, and is held across its I/O. Its holder
//!   takes only the syncer's own lock.
//! * `directories`, `unwanted`, `dropped`, and the locks inside `derived`, `log` and
//!   `background_permits` are leaves: their holder takes no other lock of the store, and any other
//!   may be held when one of them is taken.
//! * A background permit is waited for while one of the locks before `edits` is held. So the
//!   holder of a permit takes only `indexes`, `state` and the leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::creation::Creations;
use super::followers::Followers;
use super::reserve::Reserve;
use super::{Counters, Options, WriterLock};
use crate::background_permits::BackgroundPermits;
use crate::env::Fs;
use crate::error::{Error, Kind, Result};
use crate::file::create_dir_durably;
use crate::file_id::FileId;
use crate::identity::Identities;
use crate::index::IndexName;
use crate::job_log::JobLog;
use crate::journal::Syncer;
use crate::manifest::Committed;
use crate::memo::Memo;
use crate::memtable::{Chunks, Memtable};
use crate::model::Name;
use crate::objects::{DepotOwner, Dropped};
use crate::read_only_store::Held;
use crate::reader_registry::Hold;
use crate::seeded::{self, Bug};
use crate::shared_journal::JournalPosition;
use crate::snapshot::{Snapshot, Streams};

/// Free bytes below which a disk still counts as full after it has refused a batch.
const GROUP_ROOM: u64 = 1 << 20;

/// State from which snapshots are taken, guarded by `Shared.state`.
#[derive(Debug)]
pub(super) struct State {
    pub(super) committed: Committed,
    pub(super) pin: Arc<Pin>,
    pub(super) old_pins: Vec<(Hold, Weak<Pin>)>,
    pub(super) streams: Streams,
    pub(super) memtable: Memtable,
    pub(super) identities: Identities,
    pub(super) next_seq: u64,
    /// Position in the shared journal up to which messages are decided, if the store has one.
    pub(super) position: Option<JournalPosition>,
    pub(super) counters: BTreeMap<Name, Counters>,
    /// The next group begins a new segment: a seal needs the journal cut there.
    pub(super) rotate: bool,
    /// Number and first sequence number of each segment, oldest first.
    pub(super) segments: Vec<(u64, u64)>,
    /// First segment with a batch that took no sequence number and whose identity is in no
    /// checkpoint yet. By the numbers alone this segment would seem to be sealed.
    pub(super) empty_from: Option<u64>,
    /// Kind and text of the last seal's error; the kind decides how writes are refused.
    pub(super) seal_error: Option<(Kind, String)>,
    /// Error of the last maintenance run.
    pub(super) tend_error: Option<String>,
    pub(super) closing: bool,
    /// True while a seal has what it froze, and has not committed it.
    pub(super) is_sealing: bool,
    /// A request to run maintenance before the next seal.
    pub(super) maintenance_requested: bool,
    pub(super) followers: Followers,
}

impl State {
    /// Returns the state of an opened store that holds nothing but a manifest.
    pub(super) fn of(committed: Committed) -> Self {
        Self {
            committed,
            pin: Arc::new(Pin),
            old_pins: Vec::new(),
            streams: Streams::default(),
            memtable: Memtable::default(),
            identities: Identities::default(),
            next_seq: 0,
            position: None,
            counters: BTreeMap::new(),
            rotate: false,
            segments: Vec::new(),
            empty_from: None,
            seal_error: None,
            tend_error: None,
            closing: false,
            is_sealing: false,
            maintenance_requested: false,
            followers: Followers::default(),
        }
    }
}

impl State {
    /// Returns the position in the shared journal if everything before it is sealed.
    pub(super) fn sealed_to(&self) -> Option<JournalPosition> {
        let is_sealed =
            self.memtable.is_empty() && !self.identities.has_fresh() && !self.is_sealing;
        self.position.filter(|_| is_sealed)
    }
}

/// The wanted indexes, and the state of building them, guarded by `Shared.indexes`.
#[derive(Debug, Default)]
pub(super) struct IndexState {
    pub(super) wanted: BTreeSet<IndexName>,
    /// Parts and columns to skip: the part cannot be read, or its values cannot be indexed.
    pub(super) skipped: BTreeSet<(u64, String)>,
    /// True once the index files that existed at the start have been verified.
    pub(super) verified: bool,
}

/// Marks a manifest version as in use while a snapshot holds it.
#[derive(Debug)]
pub(super) struct Pin;

#[derive(Debug)]
pub(super) struct Shared {
    // Constant while the store is open.
    pub(super) data: PathBuf,
    pub(super) options: Options,
    pub(super) torn_bytes: u64,
    pub(super) replayed: AtomicU64,
    /// Epoch of this writer, in the names of its files.
    pub(super) epoch: u32,
    /// The object store of which this is the writer, if there is one.
    pub(super) depot: Option<DepotOwner>,

    // Locks, as the header of this file orders them.
    /// Admits one merge of parts; it holds `parts` only while it commits.
    pub(super) merging: Mutex<()>,
    /// Admits one job that replaces, drops, detaches or attaches parts.
    pub(super) parts: Mutex<()>,
    /// Admits one job that replaces or drops sections of tiles.
    pub(super) tiles: Mutex<()>,
    /// Admits one seal. A job that holds it keeps seals out between its last check and its edit.
    pub(super) sealer: Mutex<()>,
    /// Admits one manifest edit, or removal of the files that no version names.
    pub(super) edits: Mutex<()>,
    /// Admits one build of indexes.
    pub(super) indexing: Mutex<()>,
    /// Its holder may write the list of wanted indexes and remove index files.
    pub(super) indexes: Mutex<IndexState>,
    pub(super) state: Mutex<State>,
    /// Wakes the seal and maintenance threads, and clients that wait for a seal.
    pub(super) sealing: Condvar,
    /// Admits one writer of the users and tokens.
    pub(super) access: Mutex<()>,
    /// Directories whose names are durable.
    pub(super) directories: Mutex<BTreeSet<PathBuf>>,
    /// Ids of the rollups last checked, and the names of those that the configuration does not
    /// want.
    pub(super) unwanted: Mutex<(Vec<u32>, Vec<Name>)>,

    // Fields that synchronise themselves.
    pub(super) syncer: Arc<Syncer>,
    /// Next number of a part, tile or checkpoint; atomic because seals and compactions run
    /// concurrently.
    pub(super) next_file: AtomicU64,
    pub(super) derived: Arc<Memo>,
    /// True once [`Options::on_poison`] has been called.
    pub(super) poison_reported: AtomicBool,
    /// Streams that are being created in the object store. Its holder takes `state`.
    pub(super) creations: Mutex<Creations>,
    /// Tells that a stream was created, or not. It belongs to `creations`.
    pub(super) created: Condvar,
    /// Objects that this writer has dropped.
    pub(super) dropped: Mutex<Dropped>,
    /// True once the orphans of earlier writers are deleted from the object store.
    pub(super) swept: AtomicBool,
    /// Log of maintenance.
    pub(super) log: JobLog,
    /// Permits for background work.
    pub(super) background_permits: BackgroundPermits,
    pub(super) reserve: Reserve,
    /// The disk was full at the last write.
    pub(super) refused_disk_full: AtomicBool,

    // Dropped last.
    /// The writer's lock, held until the last thread of the store has ended; none in a read-only
    /// store.
    pub(super) lock: Option<WriterLock>,
    /// The reader's registration of a read-only store.
    _registration: Held,
}

/// A recovered store, and its lock or registration.
pub(super) struct Opened<'a> {
    pub(super) data: &'a Path,
    pub(super) options: Options,
    pub(super) depot: Option<DepotOwner>,
    pub(super) state: State,
    pub(super) syncer: Arc<Syncer>,
    pub(super) reserve: Reserve,
    pub(super) torn_bytes: u64,
    pub(super) replayed: u64,
    pub(super) log: JobLog,
    pub(super) lock: Option<WriterLock>,
    pub(super) registration: Held,
}

impl Shared {
    pub(super) fn of(opened: Opened<'_>) -> Self {
        let manifest = &opened.state.committed.manifest;
        Self {
            epoch: manifest.writer_epoch,
            depot: opened.depot,
            next_file: AtomicU64::new(manifest.next_file),
            data: opened.data.into(),
            torn_bytes: opened.torn_bytes,
            replayed: AtomicU64::new(opened.replayed),
            merging: Mutex::new(()),
            creations: Mutex::default(),
            created: Condvar::new(),
            access: Mutex::new(()),
            parts: Mutex::new(()),
            tiles: Mutex::new(()),
            sealer: Mutex::new(()),
            edits: Mutex::new(()),
            indexing: Mutex::new(()),
            indexes: Mutex::default(),
            state: Mutex::new(opened.state),
            sealing: Condvar::new(),
            directories: Mutex::default(),
            unwanted: Mutex::default(),
            syncer: opened.syncer,
            derived: Arc::default(),
            poison_reported: AtomicBool::new(false),
            dropped: Mutex::default(),
            swept: AtomicBool::new(false),
            log: opened.log,
            background_permits: BackgroundPermits::new(Arc::clone(&opened.options.clock)),
            reserve: opened.reserve,
            refused_disk_full: AtomicBool::new(false),
            lock: opened.lock,
            _registration: opened.registration,
            options: opened.options,
        }
    }
}

impl Shared {
    pub(super) fn fs(&self) -> &dyn Fs {
        &*self.options.fs
    }

    pub(super) fn now_us(&self) -> i64 {
        self.options.clock.now_us()
    }

    /// Wakes maintenance now instead of at the next seal.
    pub(super) fn request_maintenance(&self) {
        self.state.lock().maintenance_requested = true;
        self.sealing.notify_all();
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let state = self.state.lock();
        Snapshot {
            chunks: state.memtable.chunks(),
            ..self.sealed(&state)
        }
    }

    /// Returns a snapshot of parts and tiles, without the memtable.
    pub(super) fn sealed(&self, state: &State) -> Snapshot {
        Snapshot {
            data: self.data.clone(),
            fs: Arc::clone(&self.options.fs),
            depot: self.options.depot.clone(),
            manifest: Arc::clone(&state.committed.manifest),
            streams: Arc::clone(&state.streams),
            chunks: Chunks::new(),
            next_seq: state.next_seq,
            settled: Arc::clone(state.identities.settled()),
            derived: Arc::clone(&self.derived),
            pin: Arc::clone(&state.pin) as Arc<dyn std::any::Any + Send + Sync>,
        }
    }

    /// Returns a new file id, each only once.
    pub(super) fn new_file(&self) -> FileId {
        let epoch = if seeded::is(Bug::EpochUnnamed) {
            1
        } else {
            self.epoch
        };
        FileId {
            epoch,
            number: self.next_file.fetch_add(1, Ordering::SeqCst),
        }
    }

    /// Creates a directory durably, once in the life of this process.
    pub(super) fn create_dir(&self, directory: &Path) -> Result<()> {
        if !self.directories.lock().contains(directory) {
            create_dir_durably(self.fs(), &self.data, directory)?;
            self.directories.lock().insert(directory.to_path_buf());
        }
        Ok(())
    }

    /// Returns true while batches are refused because the disk is full, by the free space of this
    /// moment.
    pub(super) fn is_disk_full(&self) -> bool {
        if self.reserve.is_given_up() {
            return true;
        }
        let free = || {
            self.fs()
                .space(&self.data)
                .map_or(u64::MAX, |space| space.free)
        };
        self.refused_disk_full.load(Ordering::SeqCst) && free() < GROUP_ROOM
    }

    /// Checks that this process is still the one writer; poisons the store when it is not.
    pub(super) fn check_lock(&self) -> Result<()> {
        let Some(lock) = &self.lock else {
            return self.check_writable();
        };
        let checked = lock.check();
        if let Err(error) = &checked {
            self.poison(error);
        }
        checked
    }

    /// Stops accepting writes and notifies the process.
    pub(super) fn poison(&self, error: &Error) {
        self.syncer.poison(&error.to_string());
        if let Some(report) = &self.options.on_poison
            && !self.poison_reported.swap(true, Ordering::SeqCst)
        {
            report(error);
        }
    }

    pub(super) fn thread_died(&self, name: &str) {
        self.poison(&Error::Unknown {
            what: format!("the {name} thread panicked"),
        });
    }
}

/// Waits on the state's condition for at most `us` microseconds.
pub(super) fn wait_for(condition: &Condvar, state: &mut MutexGuard<'_, State>, us: i64) {
    let us = u64::try_from(us.max(1)).unwrap_or(1);
    condition.wait_for(state, std::time::Duration::from_micros(us));
}
