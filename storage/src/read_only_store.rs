//! A store opened for reading only, beside its writer.

use std::path::Path;
use std::sync::Arc;

use crate::depot::Depot;
use crate::env::{Clock, Fs, SystemClock};
use crate::error::{Error, Result, is_full};
use crate::identity::{Identities, SourcePosition};
use crate::manifest::{self, Committed};
use crate::reader_registry::{self, Registration};
use crate::recover::{Recovered, recover};
use crate::snapshot::Snapshot;

/// Number of attempts to read a store whose writer removes files meanwhile.
const TRIES: usize = 100;

/// The registration of a reader; `None` where nothing can be written.
pub(crate) type Held = Option<Registration>;

/// Reads the newest manifest. None of its files, journal included, is deleted while the
/// registration lives. `now_us` is the time, microseconds since 1970.
///
/// On a full disk, on read-only media and in another user's store no reader can register. There
/// it reads without a registration, and reads the newest manifest again when a file is missing.
pub(crate) fn hold(fs: &Arc<dyn Fs>, data: &Path, now_us: i64) -> Result<(Held, Committed)> {
    manifest::refuse_other_format(&**fs, data)?;
    let held = match reader_registry::register(fs, data, now_us) {
        Ok(held) => Some(held),
        Err(error) if cannot_write(&error) => {
            tracing::debug!(%error, "could not register as a reader; reading without a registration");
            None
        }
        Err(error) => return Err(error),
    };
    let committed = manifest::read_newest(&**fs, data)?;
    Ok((
        held,
        committed.ok_or_else(|| manifest::absent(&**fs, data))?,
    ))
}

/// Returns true for an error that only means that nothing can be written here.
fn cannot_write(error: &Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    match error {
        Error::Io { source, .. } => {
            is_full(source) || matches!(source.kind(), PermissionDenied | ReadOnlyFilesystem)
        }
        Error::DiskFull { .. } => true,
        _ => false,
    }
}

/// The state of a store after it was read.
pub(crate) struct Read {
    pub(crate) held: Held,
    pub(crate) committed: Committed,
    pub(crate) recovered: Recovered,
}

/// Reads manifest and journal. It writes nothing but the registration.
pub(crate) fn read(fs: &Arc<dyn Fs>, data: &Path, now_us: i64) -> Result<Read> {
    let mut tries = 0;
    loop {
        let (held, committed) = hold(fs, data, now_us)?;
        let version = committed.manifest.version;
        match recover(&**fs, data, &committed.manifest) {
            Ok(recovered) => {
                if let Some(held) = &held {
                    held.loaded(&committed.manifest)?;
                }
                return Ok(Read {
                    held,
                    committed,
                    recovered,
                });
            }
            Err(error) => {
                tries += 1;
                // A writer that does not know of this reader may have removed a file that it was
                // reading.
                let newest = manifest::newest_version(&**fs, data)?;
                if held.is_some() || newest == Some(version) || tries == TRIES {
                    return Err(error);
                }
            }
        }
    }
}

/// The view of a process that does not write: one manifest and the journal up to its last whole
/// group, so everything acknowledged with w≥1 before the store was opened. It runs no recovery.
/// The files that it reads are not deleted while it lives, wherever it can register itself.
#[derive(Debug)]
pub struct ReadOnlyStore {
    snapshot: Arc<Snapshot>,
    identities: Identities,
    is_registered: bool,
}

impl ReadOnlyStore {
    /// Opens the store in `data`.
    ///
    /// # Errors
    /// [`crate::Error::NotAStore`], [`crate::Error::Corrupt`], or an error of the file system.
    pub fn open(fs: Arc<dyn Fs>, data: &Path) -> Result<Self> {
        Self::open_beside(fs, data, None)
    }

    /// Opens the store in `data`, of which some sealed files may be in an object store alone.
    ///
    /// # Errors
    /// As [`ReadOnlyStore::open`].
    pub fn open_beside(
        fs: Arc<dyn Fs>,
        data: &Path,
        depot: Option<Arc<dyn Depot>>,
    ) -> Result<Self> {
        let Read {
            held,
            committed,
            recovered,
        } = read(&fs, data, SystemClock.now_us())?;
        let Recovered {
            memtable,
            streams,
            identities,
            next_seq,
            ..
        } = recovered;
        let is_registered = held.is_some();
        let snapshot = Snapshot {
            data: data.into(),
            fs,
            depot,
            manifest: committed.manifest,
            streams: streams.into(),
            chunks: memtable.chunks(),
            next_seq,
            settled: Arc::clone(identities.settled()),
            derived: Arc::default(),
            pin: Arc::new(held),
        };
        Ok(Self {
            snapshot: Arc::new(snapshot),
            identities,
            is_registered,
        })
    }

    /// Returns true when the store's writer knows of this reader and keeps its files. Where
    /// nothing can be written the reader is not registered: when a file is missing, open the
    /// store again.
    pub fn is_registered(&self) -> bool {
        self.is_registered
    }

    /// Returns the snapshot of the store.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot)
    }

    /// Returns every ordered source with the position up to which it is stored.
    pub fn positions(&self) -> Vec<(String, SourcePosition)> {
        self.identities.positions()
    }
}

#[cfg(test)]
mod tests;
