//! State that the threads of a store and its callers share.
//!
//! # Invariant
//! [`State`] is held for short, never across I/O. The other locks admit one piece of work of a kind
//! at a time, and may be held across I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crossbeam_channel::Sender;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{Arrived, Counters, Options, WriterLock, index, log, reserve};
use crate::background_permits::BackgroundPermits;
use crate::env::Fs;
use crate::error::{Error, Kind, Result};
use crate::file::create_dir_durably;
use crate::identity::Identities;
use crate::job_log::JobLog;
use crate::journal::Syncer;
use crate::manifest::Committed;
use crate::memo::Memo;
use crate::memtable::{Chunks, Memtable};
use crate::model::Name;
use crate::read_only_store::Held;
use crate::reader_registry::Hold;
use crate::recover::Streams;
use crate::snapshot::Snapshot;

/// The state that a snapshot is taken of. Held for short, never across I/O.
#[derive(Debug)]
pub(super) struct State {
    pub(super) committed: Committed,
    pub(super) pin: Arc<Pin>,
    pub(super) old_pins: Vec<(Hold, Weak<Pin>)>,
    pub(super) streams: Streams,
    pub(super) memtable: Memtable,
    pub(super) identities: Identities,
    pub(super) next_seq: u64,
    pub(super) counters: BTreeMap<Name, Counters>,
    /// The next group begins a new segment: a seal wants the journal cut there.
    pub(super) rotate: bool,
    /// First sequence number of each segment, oldest first.
    pub(super) segments: Vec<(u64, u64)>,
    /// The first segment with a batch that took no sequence number and whose identity is in no
    /// checkpoint yet: by its number it would seem to be sealed.
    pub(super) empty_from: Option<u64>,
    /// Why the last seal failed, and what can be done about it.
    pub(super) seal_error: Option<(Kind, String)>,
    /// Why tiles could not be tended.
    pub(super) tend_error: Option<String>,
    pub(super) closing: bool,
    /// Somebody wants to be tended to before the next seal.
    pub(super) maintenance_asked: bool,
    /// Those who follow what comes in.
    pub(super) followers: Vec<Sender<Arrived>>,
}

impl State {
    /// The state of a store that has been opened and holds nothing but a manifest.
    pub(super) fn of(committed: Committed) -> Self {
        Self {
            committed,
            pin: Arc::new(Pin),
            old_pins: Vec::new(),
            streams: Streams::default(),
            memtable: Memtable::default(),
            identities: Identities::default(),
            next_seq: 0,
            counters: BTreeMap::new(),
            rotate: false,
            segments: Vec::new(),
            empty_from: None,
            seal_error: None,
            tend_error: None,
            closing: false,
            maintenance_asked: false,
            followers: Vec::new(),
        }
    }
}

/// Says that somebody reads this version.
#[derive(Debug)]
pub(super) struct Pin;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) data: PathBuf,
    pub(super) options: Options,
    pub(super) state: Mutex<State>,
    /// One manifest edit at a time; held across its I/O.
    pub(super) edits: Mutex<()>,
    pub(super) syncer: Arc<Syncer>,
    /// Wakes the seal thread, and those who wait for a seal.
    pub(super) sealing: Condvar,
    /// One seal at a time.
    pub(super) sealer: Mutex<()>,
    /// One at a time of what replaces or gives up sections of tiles.
    pub(super) tiles: Mutex<()>,
    /// One at a time of what replaces parts, gives them up or brings them back.
    pub(super) parts: Mutex<()>,
    /// One merge of parts at a time; it holds `parts` only while it commits.
    pub(super) merging: Mutex<()>,
    /// One maker of indexes at a time.
    pub(super) indexing: Mutex<()>,
    /// Which indexes are wanted. Whoever holds it may take `state`, and nothing else.
    pub(super) indexes: Mutex<index::Indexes>,
    /// The next number for parts, tiles and checkpoints: seals and compactions write at once.
    pub(super) next_file: AtomicU64,
    /// Directories whose names are known to be durable.
    pub(super) directories: Mutex<BTreeSet<PathBuf>>,
    pub(super) derived: Arc<Memo>,
    /// True once [`Options::on_poison`] has been told.
    pub(super) told: AtomicBool,
    pub(super) torn_bytes: u64,
    pub(super) replayed: u64,
    /// Which rollups the configuration does not want, and of which generations that was said.
    pub(super) unwanted: Mutex<(Vec<u32>, Vec<Name>)>,
    /// Figures of maintenance.
    pub(super) log: JobLog,
    /// Turns on the processor for what nobody waits for.
    pub(super) background_permits: BackgroundPermits,
    /// Kept until the last thread of the store has ended; none of a store that is only read.
    pub(super) lock: Option<WriterLock>,
    /// The registration of a store that is only read.
    _registration: Held,
    pub(super) reserve: reserve::Reserve,
    /// The last batch found no room.
    pub(super) refuses_for_room: AtomicBool,
}

/// A store that has been recovered, and what it is held by.
pub(super) struct Opened<'a> {
    pub(super) data: &'a Path,
    pub(super) options: Options,
    pub(super) state: State,
    pub(super) next_file: u64,
    pub(super) syncer: Arc<Syncer>,
    pub(super) reserve: reserve::Reserve,
    pub(super) torn_bytes: u64,
    pub(super) replayed: u64,
    pub(super) log: JobLog,
    pub(super) lock: Option<WriterLock>,
    pub(super) registration: Held,
}

impl Shared {
    pub(super) fn of(opened: Opened<'_>) -> Self {
        Self {
            data: opened.data.into(),
            state: Mutex::new(opened.state),
            edits: Mutex::new(()),
            syncer: opened.syncer,
            sealing: Condvar::new(),
            sealer: Mutex::new(()),
            tiles: Mutex::new(()),
            parts: Mutex::new(()),
            merging: Mutex::new(()),
            indexing: Mutex::new(()),
            indexes: Mutex::default(),
            next_file: AtomicU64::new(opened.next_file),
            directories: Mutex::default(),
            derived: Arc::default(),
            told: AtomicBool::new(false),
            torn_bytes: opened.torn_bytes,
            replayed: opened.replayed,
            unwanted: Mutex::default(),
            log: opened.log,
            background_permits: BackgroundPermits::new(Arc::clone(&opened.options.clock)),
            lock: opened.lock,
            _registration: opened.registration,
            reserve: opened.reserve,
            refuses_for_room: AtomicBool::new(false),
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

    /// Has what tends the store look now, and not at the next seal.
    pub(super) fn ask_to_tend(&self) {
        self.state.lock().maintenance_asked = true;
        self.sealing.notify_all();
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let state = self.state.lock();
        Snapshot {
            chunks: state.memtable.chunks(),
            ..self.sealed(&state)
        }
    }

    /// The rows of parts and tiles, and nothing of the memtable.
    pub(super) fn sealed(&self, state: &State) -> Snapshot {
        Snapshot {
            data: self.data.clone(),
            fs: Arc::clone(&self.options.fs),
            manifest: Arc::clone(&state.committed.manifest),
            streams: Arc::clone(&state.streams),
            chunks: Chunks::new(),
            next_seq: state.next_seq,
            settled: Arc::clone(state.identities.settled()),
            derived: Arc::clone(&self.derived),
            pin: Arc::clone(&state.pin) as Arc<dyn std::any::Any + Send + Sync>,
        }
    }

    /// A number for a new file, given once.
    pub(super) fn new_file(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::SeqCst)
    }

    /// Makes a directory durable, once in the life of this process.
    pub(super) fn create_dir(&self, directory: &Path) -> Result<()> {
        if !self.directories.lock().contains(directory) {
            create_dir_durably(self.fs(), &self.data, directory)?;
            self.directories.lock().insert(directory.to_path_buf());
        }
        Ok(())
    }

    /// Returns true while batches are refused for want of room, as far as the disk says now.
    pub(super) fn is_disk_full(&self) -> bool {
        if self.reserve.is_given_up() {
            return true;
        }
        let free = || {
            self.fs()
                .space(&self.data)
                .map_or(u64::MAX, |space| space.free)
        };
        self.refuses_for_room.load(Ordering::SeqCst) && free() < log::GROUP_ROOM
    }

    /// Checks that this process is still the one writer; stops the store when it is not.
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

    /// Takes nothing any more and tells the process.
    pub(super) fn poison(&self, error: &Error) {
        self.syncer.poison(&error.to_string());
        if let Some(tell) = &self.options.on_poison
            && !self.told.swap(true, Ordering::SeqCst)
        {
            tell(error);
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
