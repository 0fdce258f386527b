//! The commit of a version of the manifest in an object store, and its reading.
//!
//! # Invariant
//! A commit of [`DepotOwner`] returns `Ok` only if `CURRENT` had the content of this commit, and an
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
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use super::current::{Current, ManifestBody};
use super::files::put_files;
use crate::depot::{Content, Depot, Swap, Tag, failed, object_path};
use crate::env::{Fs, host_name};
use crate::error::{Error, Result};
use crate::manifest::{CommitPlace, Committed, Manifest};
use crate::seeded::{self, Bug};

/// Attempts after which the outcome of a commit stays unknown when the store closes. Otherwise a
/// commit waits for the object store: its outcome decides what may be done next.
const TRIES: u32 = 3;
/// Attempts to read a manifest whose body was deleted after a later commit.
const READ_TRIES: u32 = 20;

/// An object store, and the data directory whose writer this is.
#[derive(Debug)]
pub(crate) struct DepotOwner {
    pub(crate) depot: Arc<dyn Depot>,
    /// Random id of the data directory, 32 hex digits.
    pub(crate) id: String,
    /// URL of the writer's server, for others that look for it.
    address: Option<String>,
    /// Files that are there before a commit names them.
    put: Mutex<BTreeSet<String>>,
    /// The claim that the first version replaces. Until then no file of an earlier one is there.
    claim: Mutex<Option<Tag>>,
    /// True when the store closes: then a commit without an answer is given up.
    closing: AtomicBool,
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
        let found = pointer(depot)?.filter(|found| !found.current.is_claim());
        let Some(found) = found else {
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
    /// Returns the owner for a data directory.
    pub(crate) fn new(depot: Arc<dyn Depot>, id: String, address: Option<String>) -> Self {
        Self {
            depot,
            id,
            address,
            put: Mutex::default(),
            claim: Mutex::default(),
            closing: AtomicBool::new(false),
        }
    }

    /// Claims a prefix that holds nothing, so that no other store is brought there before the first
    /// commit; `known` is a claim of this directory that is there.
    ///
    /// # Errors
    /// [`Error::Unknown`] if another directory has it.
    pub(crate) fn claim(&self, known: Option<Tag>) -> Result<()> {
        let claim = match known {
            Some(known) => known,
            None => {
                let nonce = format!("{:032x}", rand::random::<u128>());
                self.swap(None, &Current::claim(&nonce, (&self.id, &host_name())))?
            }
        };
        *self.claim.lock() = Some(claim);
        Ok(())
    }

    /// Gives commits up whose answer does not come: the store closes.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    /// Makes sure that no other writer has committed since this one.
    ///
    /// # Errors
    /// [`Error::Unknown`] if one has: this writer must stop. An error of the object store.
    pub(crate) fn check(&self) -> Result<()> {
        match pointer(&*self.depot)? {
            Some(there) if there.current.owner == self.id => Ok(()),
            Some(there) => Err(self.superseded(&there.current)),
            None => Err(self.gone()),
        }
    }

    fn gone(&self) -> Error {
        Error::Unknown {
            what: format!("{}/CURRENT is not there any more", self.depot.url()),
        }
    }

    /// Forgets files that no commit will name.
    pub(crate) fn forget_put(&self, names: &[String]) {
        self.put.lock().retain(|name| !names.contains(name));
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
    fn put_new_files(
        &self,
        (fs, data): (&dyn Fs, &Path),
        current: Option<&Committed>,
        named: &BTreeSet<&str>,
    ) -> Result<()> {
        let current = current.filter(|_| self.claim.lock().is_none());
        let known: BTreeSet<&str> = current
            .iter()
            .flat_map(|current| current.manifest.files())
            .map(|file| &*file.path)
            .collect();
        let mut missing: Vec<&str> = named.difference(&known).copied().collect();
        {
            let put = self.put.lock();
            missing.retain(|name| !put.contains(*name));
        }
        if !seeded::is(Bug::PutAfterCommit) {
            put_files(fs, data, &*self.depot, &missing)?;
        }
        Ok(())
    }

    fn publish(&self, expected: Option<&Tag>, manifest: &Manifest, bytes: Vec<u8>) -> Result<Tag> {
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
        let mut current = Current::new(versions, ids, (&self.id, &host_name()), body);
        current.address.clone_from(&self.address);
        self.swap(expected, &current)
    }

    fn swap(&self, expected: Option<&Tag>, current: &Current) -> Result<Tag> {
        let (depot, content) = (&*self.depot, current.encode());
        let mut reason = String::new();
        for attempt in 1.. {
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
                Ok(None) => return Err(self.gone()),
                Err(error @ Error::Corrupt { .. }) => {
                    return Err(Error::Unknown {
                        what: error.to_string(),
                    });
                }
                Err(error) => reason = error.to_string(),
            }
            if attempt % TRIES == 0 {
                tracing::warn!(
                    url = depot.url(),
                    attempt,
                    reason,
                    "a commit waits for the object store"
                );
            }
            if attempt >= TRIES && self.closing.load(Ordering::SeqCst) {
                break;
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
                "{}: a writer on {} has taken over with version {} and epoch {}; this one stops, and what it has not sealed is in its journal",
                self.depot.url(),
                there.host,
                there.version,
                there.epoch
            ),
        }
    }
}

impl CommitPlace for DepotOwner {
    fn commit(
        &self,
        directory: (&dyn Fs, &Path),
        current: Option<&Committed>,
        next: &Manifest,
        bytes: Vec<u8>,
    ) -> Result<Tag> {
        let named: BTreeSet<&str> = next.files().map(|file| &*file.path).collect();
        self.put_new_files(directory, current, &named)?;
        let claim = self.claim.lock().clone();
        let expected = current.and_then(|current| current.tag.as_ref());
        let tag = self.publish(claim.as_ref().or(expected), next, bytes)?;
        *self.claim.lock() = None;
        // Files of this version are known from here on; others are of an edit that has yet to come.
        self.put
            .lock()
            .retain(|name| !named.contains(name.as_str()));
        Ok(tag)
    }
}
