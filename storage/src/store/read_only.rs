//! A store that a server only reads: on read-only media, on a full disk, or another user's.
//!
//! # Invariant
//! Nothing is written but a reader's registration, where that is possible. No lock is taken, and
//! nothing is recovered on the disk: queries see what a [`crate::ReadOnlyStore`] sees. Every
//! change of the store is refused with [`Error::ReadOnly`] before it begins.

use std::path::Path;
use std::sync::Arc;

use super::reserve::Reserve;
use super::{Opened, Options, Shared, State, Store};
use crate::error::{Error, Result};
use crate::job_log::JobLog;
use crate::journal::Syncer;
use crate::read_only_store::{self, Read};

impl Store {
    /// Opens the store in `data` as it is now, for reading only. Later writes of another process
    /// are not visible.
    ///
    /// # Errors
    /// The errors of [`crate::ReadOnlyStore::open`].
    pub fn open_read_only(data: &Path, options: Options) -> Result<Self> {
        let fs = Arc::clone(&options.fs);
        let Read {
            held,
            committed,
            recovered,
        } = read_only_store::read(&fs, data, options.clock.now_us())?;
        let state = State {
            streams: recovered.streams.into(),
            memtable: recovered.memtable,
            identities: recovered.identities,
            next_seq: recovered.next_seq,
            ..State::of(committed)
        };
        let shared = Arc::new(Shared::of(Opened {
            torn_bytes: recovered.replay.torn_bytes,
            replayed: recovered.items,
            registration: held,
            ..Opened::for_reading(data, options, state)
        }));
        Ok(Self {
            shared,
            commands: None,
            syncs: None,
            tail: None,
            threads: Vec::new(),
        })
    }
}

impl<'a> Opened<'a> {
    /// Returns a store that nothing is written to, with this state.
    pub(super) fn for_reading(data: &'a Path, mut options: Options, state: State) -> Self {
        options.config.keeps_log = false;
        options.config.tends = false;
        let (fs, clock) = (Arc::clone(&options.fs), Arc::clone(&options.clock));
        Self {
            data,
            syncer: Syncer::idle(data, state.next_seq),
            reserve: Reserve::of(&*fs, data, 0),
            options,
            depot: None,
            state,
            torn_bytes: 0,
            replayed: 0,
            log: JobLog::of(fs, clock, data, false),
            lock: None,
            registration: None,
        }
    }
}

impl Shared {
    /// Refuses changes of a store opened for reading only.
    pub(super) fn check_writable(&self) -> Result<()> {
        match &self.lock {
            Some(_) => Ok(()),
            None => Err(Error::ReadOnly {
                path: self.data.clone(),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
