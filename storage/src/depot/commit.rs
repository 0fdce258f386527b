//! The commit of a version of the manifest in an object store, and its reading.
//!
//! # Invariant
//! [`DepotOwner::commit`] returns `Ok` only if `CURRENT` had the content of this commit, and an
//! error other than [`Error::Unknown`] only if it never will have. An answer to the swap alone
//! decides nothing but success: a time-out may have happened or happen later, and a refusal may
//! be the answer to the second attempt of a request whose first attempt succeeded. `CURRENT`
//! itself tells, by its nonce:
//! * the nonce of this commit: it has happened;
//! * the tag that was expected: it has not happened yet. The same content is sent again, so
//!   whichever attempt comes first makes all others fail, and all of them mean the same;
//! * anything else: another writer has committed. Whether this commit came before that one is not
//!   known, so this writer stops and deletes nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::adopt::put_files;
use super::current::{Current, ManifestBody};
use super::{Content, Depot, Swap, Tag};
use crate::env::{Fs, host_name};
use crate::error::{Error, Result};
use crate::manifest::{Committed, Manifest};
use crate::seeded::{self, Bug};

/// Attempts after which the outcome of a commit stays unknown, ten minutes of them.
const TRIES: u32 = 200;
/// Attempts to read a manifest whose body was deleted after a later commit.
const READ_TRIES: u32 = 20;

/// An object store, and the data directory whose writer this is.
#[derive(Debug)]
pub(crate) struct DepotOwner {
    pub(crate) depot: Arc<dyn Depot>,
    /// Random id of the data directory, 32 hex digits.
    pub(crate) id: String,
    /// Files that are there before a commit names them.
    put: Mutex<BTreeSet<String>>,
}

/// `CURRENT` as it was read.
#[derive(Debug, Clone)]
pub(crate) struct Pointer {
    pub(crate) current: Current,
    pub(crate) tag: Tag,
}

/// A version of the manifest as the object store has it.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) pointer: Pointer,
    pub(crate) committed: Committed,
    /// The bytes of the version.
    pub(crate) bytes: Bytes,
}

/// Adds the call and the object to an error.
pub(crate) fn failed(
    depot: &dyn Depot,
    op: &'static str,
    name: &str,
    source: std::io::Error,
) -> Error {
    let path = object_path(depot, name);
    // Its text may begin with the address.
    let text = source.to_string();
    let bare = text.strip_prefix(&format!("{}: ", path.display()));
    let source = match bare {
        Some(reason) => std::io::Error::new(source.kind(), reason.to_owned()),
        None => source,
    };
    Error::Io { op, path, source }
}

fn object_path(depot: &dyn Depot, name: &str) -> PathBuf {
    PathBuf::from(format!("{}/{name}", depot.url()))
}

fn corrupt(depot: &dyn Depot, name: &str, what: String) -> Error {
    Error::Corrupt {
        path: object_path(depot, name),
        offset: 0,
        what,
    }
}

/// Reads `CURRENT`; `None` if there is none.
pub(crate) fn pointer(depot: &dyn Depot) -> Result<Option<Pointer>> {
    let found = depot
        .load_current()
        .map_err(|e| failed(depot, "get", "CURRENT", e))?;
    let Some((bytes, tag)) = found else {
        return Ok(None);
    };
    let current = Current::decode(&bytes).map_err(|what| corrupt(depot, "CURRENT", what))?;
    Ok(Some(Pointer { current, tag }))
}

/// Returns the version in the name of a body.
pub(super) fn version_of(name: &str) -> Option<u64> {
    let (version, _) = name.strip_prefix("manifest/")?.split_once('-')?;
    u64::from_str_radix(version, 16).ok()
}

/// Reads the manifest to which `CURRENT` points, with its bytes.
fn published(depot: &dyn Depot, pointer: Pointer) -> Result<Published> {
    let body = &pointer.current.body;
    let whole: Vec<_> = std::iter::once(0..body.len).collect();
    let mut read = depot
        .get(&body.name, &whole)
        .map_err(|e| failed(depot, "get", &body.name, e))?;
    let bytes = read.pop().unwrap_or_default();
    if crc32c::crc32c(&bytes) != body.crc {
        return Err(corrupt(depot, &body.name, "its checksum is wrong".into()));
    }
    let mut committed = Committed::decode(&object_path(depot, &body.name), &bytes)?;
    committed.tag = Some(pointer.tag.clone());
    Ok(Published {
        pointer,
        committed,
        bytes,
    })
}

/// Reads the newest manifest; `None` if there is no store.
pub(crate) fn newest(depot: &dyn Depot) -> Result<Option<Published>> {
    let mut tries = 0;
    loop {
        let Some(found) = pointer(depot)? else {
            return Ok(None);
        };
        let tag = found.tag.clone();
        match published(depot, found) {
            Ok(published) => return Ok(Some(published)),
            // A later commit may have deleted this body.
            Err(_) if tries < READ_TRIES && pointer(depot)?.is_some_and(|p| p.tag != tag) => {
                tries += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

impl DepotOwner {
    pub(crate) fn new(depot: Arc<dyn Depot>, id: String) -> Self {
        Self {
            depot,
            id,
            put: Mutex::default(),
        }
    }

    /// Puts files of the data directory that the next commit will name, so that it need not wait
    /// for them.
    pub(crate) fn put_early(&self, fs: &dyn Fs, data: &Path, names: &[&str]) -> Result<()> {
        if seeded::is(Bug::PutAfterCommit) {
            return Ok(());
        }
        put_files(fs, data, &*self.depot, names)?;
        self.put
            .lock()
            .extend(names.iter().map(|name| (*name).to_owned()));
        Ok(())
    }

    /// Puts the files that a version names and the one before it does not, unless they are there.
    pub(crate) fn put_new_files(
        &self,
        fs: &dyn Fs,
        data: &Path,
        current: Option<&Committed>,
        next: &Manifest,
    ) -> Result<()> {
        // A version that is not in the object store has no files there.
        let current = current.filter(|current| current.tag.is_some());
        let known: BTreeSet<&str> = current
            .iter()
            .flat_map(|current| current.manifest.files())
            .map(|file| &*file.path)
            .collect();
        let new: BTreeSet<&str> = next.files().map(|file| &*file.path).collect();
        let mut put = self.put.lock();
        let missing = |name: &&str| !known.contains(name) && !put.contains(*name);
        let missing: Vec<&str> = new.iter().copied().filter(missing).collect();
        if !seeded::is(Bug::PutAfterCommit) {
            put_files(fs, data, &*self.depot, &missing)?;
        }
        // They are known from here on, or belong to an edit that has yet to come.
        put.retain(|name| !new.contains(name.as_str()));
        Ok(())
    }

    /// Commits a version after the one whose tag is `expected`, or the first one. `bytes` is its
    /// encoding.
    ///
    /// # Errors
    /// [`Error::Unknown`] when the outcome is not known, or another writer has committed: this
    /// writer must stop. After any other error nothing was committed.
    pub(crate) fn commit(
        &self,
        expected: Option<&Tag>,
        manifest: &Manifest,
        bytes: Vec<u8>,
    ) -> Result<Tag> {
        let depot = &*self.depot;
        let nonce = manifest
            .commit
            .as_deref()
            .expect("BUG: a commit has a nonce");
        let body = ManifestBody::of(manifest.version, nonce, &bytes);
        let name = body.name.clone();
        depot
            .put(&name, Content::Bytes(&bytes.into()))
            .map_err(|e| failed(depot, "put", &name, e))?;
        let ids = (nonce, manifest.store_id.as_str());
        let versions = (manifest.version, manifest.writer_epoch);
        let current = Current::new(versions, ids, (&self.id, &host_name()), body);
        self.swap(expected, &current)
    }

    fn swap(&self, expected: Option<&Tag>, current: &Current) -> Result<Tag> {
        let (depot, content) = (&*self.depot, current.encode());
        let mut reason = String::new();
        for attempt in 1..=TRIES {
            match depot.swap_current(expected, &content) {
                Ok(Swap::Done(tag)) => return Ok(tag),
                Ok(Swap::Refused) if seeded::is(Bug::RefusalBelieved) => {
                    return Err(Error::invalid("refused"));
                }
                Err(error) if seeded::is(Bug::TimeoutBelieved) => {
                    return Err(failed(depot, "swap", "CURRENT", error));
                }
                Ok(Swap::Refused) => reason = "it is not as expected".into(),
                Err(error) => reason = error.to_string(),
            }
            match pointer(depot) {
                Ok(Some(there)) if there.current.nonce == current.nonce => return Ok(there.tag),
                Ok(there) if there.as_ref().map(|p| &p.tag) == expected => {}
                Ok(Some(there)) => return Err(self.superseded(&there.current)),
                Ok(None) => reason = "it is not there any more".into(),
                Err(error @ Error::Corrupt { .. }) => {
                    return Err(Error::Unknown {
                        what: error.to_string(),
                    });
                }
                Err(error) => reason = error.to_string(),
            }
            depot.pause(attempt);
        }
        Err(Error::Unknown {
            what: format!("{}/CURRENT: {reason}", depot.url()),
        })
    }

    fn superseded(&self, there: &Current) -> Error {
        Error::Unknown {
            what: format!(
                "{}: a writer on {} has taken over with version {} and epoch {}; this one stops, and its unsealed events are in its journal alone",
                self.depot.url(),
                there.host,
                there.version,
                there.epoch
            ),
        }
    }
}
