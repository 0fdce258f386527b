//! A store opened for reading only, beside whoever writes to it.

use std::path::Path;
use std::sync::Arc;

use crate::env::{Clock, Fs, SystemClock};
use crate::error::Result;
use crate::identity::{Identities, SourcePosition};
use crate::manifest::{self, Committed};
use crate::readers::{self, Registration};
use crate::recover::{Recovered, recover};
use crate::snapshot::Snapshot;

/// Reads the newest manifest; nothing that belongs to it, its journal included, is deleted while
/// the registration lives. `now_us` is the time, microseconds since 1970.
pub(crate) fn hold(
    fs: &Arc<dyn Fs>,
    data: &Path,
    now_us: i64,
) -> Result<(Registration, Committed)> {
    manifest::refuse_newer(&**fs, data)?;
    let held = readers::register(fs, data, now_us)?;
    let committed = manifest::read_newest(&**fs, data)?;
    Ok((
        held,
        committed.ok_or_else(|| manifest::absent(&**fs, data))?,
    ))
}

/// What a process that does not write sees: one manifest and the journal up to its last whole
/// group, so everything acknowledged with w≥1 before it was opened. It runs no recovery, and what it
/// reads is not deleted under it while it lives.
#[derive(Debug)]
pub struct Reader {
    snapshot: Arc<Snapshot>,
    identities: Identities,
}

impl Reader {
    /// Opens the store in `data`.
    ///
    /// # Errors
    /// [`crate::Error::NotAStore`], [`crate::Error::Corrupt`], or what the file system says.
    pub fn open(fs: Arc<dyn Fs>, data: &Path) -> Result<Self> {
        let (pin, committed) = hold(&fs, data, SystemClock.now_us())?;
        let Recovered {
            memtable,
            streams,
            identities,
            next_seq,
            ..
        } = recover(&*fs, data, &committed.manifest)?;
        pin.loaded(&committed.manifest)?;
        let snapshot = Snapshot {
            data: data.into(),
            fs,
            manifest: committed.manifest,
            streams: streams.into(),
            chunks: memtable.chunks(),
            next_seq,
            settled: Arc::clone(identities.settled()),
            derived: Arc::default(),
            pin: Arc::new(pin),
        };
        Ok(Self {
            snapshot: Arc::new(snapshot),
            identities,
        })
    }

    /// What it sees.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot)
    }

    /// Every ordered source and how far it has been taken.
    pub fn positions(&self) -> Vec<(String, SourcePosition)> {
        self.identities.positions()
    }
}
