//! The start of a writer: data directory and object store are brought together.
//!
//! # Invariants
//! 1. Only the data directory that `CURRENT` names goes on with what it holds. Its manifest is
//!    that of `CURRENT` or the one before it, which the version in the object store follows.
//! 2. A directory whose writer was superseded is refused: its journal has events that the store
//!    does not know, and none of the numbers in it are its own any more.
//! 3. An empty directory takes over what is sealed. The unsealed events of the writer before are
//!    in that one's journal alone, so this needs consent unless there are none. The sequence goes
//!    on past every number that they may have.
//! 4. Each step may be the last: the mark (`objects/mark.rs`) says how far the directory has come,
//!    and a directory that adopts holds nothing of its own until its first commit.

use std::path::Path;
use std::sync::Arc;

use super::commit::{self, DepotOwner, Pointer, Published};
use super::files::bring;
use super::mark::{AttachStage, Mark};
use crate::depot::{Depot, Tag, failed};
use crate::env::{Fs, IoContext};
use crate::error::{Error, Result};
use crate::file::create_dir_durably;
use crate::journal::{self, Journal, Previous};
use crate::manifest::{self, Committed, Manifest};
use crate::seeded::{self, Bug};

/// Sequence numbers skipped by a take-over: more than a writer can have given since its last
/// commit, since a memtable has room for far fewer events.
const TAKEN_OVER_SKIP: u64 = 1 << 32;

/// Permission to take over a store that another data directory has committed last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Adoption {
    /// None.
    #[default]
    No,
    /// If its writer has stopped after a seal, so that nothing is left behind.
    Sealed,
    /// Also if its writer has unsealed events, which are left behind in its journal.
    Any,
}

/// A writer's hold of an object store, before its first commit there.
#[derive(Debug)]
pub(crate) struct Tenure {
    pub(crate) owner: DepotOwner,
    /// The `CURRENT` that its first commit replaces.
    pub(crate) tag: Option<Tag>,
    mark: Mark,
}

impl Tenure {
    /// Records that the writer has committed.
    pub(crate) fn committed(mut self, fs: &dyn Fs, data: &Path) -> Result<DepotOwner> {
        if self.mark.stage != AttachStage::Attached {
            self.mark.stage = AttachStage::Attached;
            self.mark.keep(fs, data)?;
        }
        Ok(self.owner)
    }
}

/// A writer that begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Newcomer<'a> {
    pub(crate) adoption: Adoption,
    /// Its journal is not in its data directory.
    pub(crate) shares_journal: bool,
    /// URL of its server.
    pub(crate) address: Option<&'a str>,
}

/// Brings a data directory, of which the caller has the lock, to where a writer can begin.
///
/// # Errors
/// [`Error::Invalid`] with the remedy when the directory and the object store do not belong
/// together, or `adoption` does not permit what is needed.
pub(crate) fn settle(
    fs: &Arc<dyn Fs>,
    data: &Path,
    depot: &Arc<dyn Depot>,
    newcomer: Newcomer<'_>,
) -> Result<Tenure> {
    let marked = Mark::read(&**fs, data)?;
    if let Some(mark) = marked.as_ref().filter(|mark| mark.url != depot.url()) {
        return Err(Error::invalid(format!(
            "{} keeps its sealed files in {}, and objects of [storage] is {}",
            data.display(),
            mark.url,
            depot.url()
        )));
    }
    let here = manifest::find_newest(&**fs, data)?.map(|found| found.committed);
    let pointer = commit::pointer(&**depot)?;
    let claim = pointer.filter(|pointer| pointer.current.is_claim());
    let there = commit::newest(&**depot)?;
    let side = Side {
        fs,
        data,
        depot,
        address: newcomer.address,
        marked,
    };
    match (here, there) {
        (here, None) => side.attach(here.as_ref(), claim),
        (here, Some(there)) if side.is_owner(&there.pointer) => side.go_on(here.as_ref(), &there),
        (here, Some(there)) => {
            side.check_journal(&there, newcomer.shares_journal)?;
            side.check_adoption(here.as_ref(), &there, newcomer.adoption)?;
            side.adopt(&there)
        }
    }
}

/// The two sides, and the mark of the directory.
struct Side<'a> {
    fs: &'a Arc<dyn Fs>,
    data: &'a Path,
    depot: &'a Arc<dyn Depot>,
    address: Option<&'a str>,
    marked: Option<Mark>,
}

impl Side<'_> {
    fn is_owner(&self, pointer: &Pointer) -> bool {
        let id = self.marked.as_ref().map(|mark| &mark.id);
        id == Some(&pointer.current.owner)
    }

    fn invalid(&self, what: &str) -> Error {
        Error::invalid(format!(
            "{} and {}: {what}",
            self.data.display(),
            self.depot.url()
        ))
    }

    /// Returns the hold, and records its stage first.
    fn tenure(self, stage: AttachStage, tag: Option<Tag>) -> Result<Tenure> {
        let url = self.depot.url().to_owned();
        let new = || Mark {
            id: format!("{:032x}", rand::random::<u128>()),
            stage,
            url,
        };
        let mut mark = self.marked.unwrap_or_else(new);
        mark.stage = stage;
        mark.keep(&**self.fs, self.data)?;
        let address = self.address.map(str::to_owned);
        let owner = DepotOwner::new(Arc::clone(self.depot), mark.id.clone(), address);
        Ok(Tenure { owner, tag, mark })
    }

    /// Brings a store, or none yet, to an object store that holds nothing.
    fn attach(self, here: Option<&Committed>, claim: Option<Pointer>) -> Result<Tenure> {
        if let Some(claim) = &claim
            && !self.is_owner(claim)
            && !seeded::is(Bug::ClaimIgnored)
        {
            return Err(self.invalid(&format!(
                "another store, on {}, is being brought to this prefix; give this one a prefix of its own, or delete CURRENT there if that store has gone for good",
                claim.current.host
            )));
        }
        let stage = self.marked.as_ref().map(|mark| mark.stage);
        if matches!(stage, Some(AttachStage::Attached | AttachStage::Adopting)) {
            return Err(self.invalid(
                "CURRENT is missing in the object store, and this store has committed there; restore the object from a version or a copy of the bucket",
            ));
        }
        let refused = |e| failed(&**self.depot, "check", "CURRENT", e);
        self.depot.check_conditions().map_err(refused)?;
        // The first commit puts all files.
        if here.is_some() {
            tracing::info!(
                url = self.depot.url(),
                "bringing all sealed files to the object store"
            );
        }
        let tenure = self.tenure(AttachStage::Attaching, None)?;
        tenure.owner.claim(claim.map(|claim| claim.tag))?;
        Ok(tenure)
    }

    /// Goes on as the writer that has committed last.
    fn go_on(self, here: Option<&Committed>, there: &Published) -> Result<Tenure> {
        let committed = &there.committed;
        let is_same = here.is_some_and(|here| here.crc == committed.crc);
        let follows = here.is_some_and(|here| {
            let next = (here.manifest.version + 1, here.crc);
            next == (committed.manifest.version, committed.manifest.previous_crc)
        });
        // Without a manifest there is nothing that could contradict.
        if here.is_some() && !is_same && !follows {
            return Err(self.invalid(
                "the manifest of the directory is not of the version in the object store, nor the one before; restore the directory as it was, or start in an empty one",
            ));
        }
        if !is_same {
            self.write_here(there)?;
        }
        self.tenure(AttachStage::Attached, Some(there.pointer.tag.clone()))
    }

    /// Checks that a store which is to have a shared journal leaves nothing in that of another
    /// directory.
    fn check_journal(&self, there: &Published, shares_journal: bool) -> Result<()> {
        let manifest = &there.committed.manifest;
        if !shares_journal || manifest.journal.is_some() || is_sealed(manifest) {
            return Ok(());
        }
        Err(self.invalid(&format!(
            "the writer on {} has events in its own journal alone; start it there with the shared journal first",
            there.pointer.current.host
        )))
    }

    fn check_adoption(
        &self,
        here: Option<&Committed>,
        there: &Published,
        adoption: Adoption,
    ) -> Result<()> {
        let stage = self.marked.as_ref().map(|mark| mark.stage);
        let host = &there.pointer.current.host;
        match stage {
            Some(AttachStage::Adopting) => {}
            None if here.is_none() => manifest::refuse_headless(&**self.fs, self.data)?,
            None => {
                return Err(self.invalid(
                    "there is another store in each; use an empty directory, or another prefix",
                ));
            }
            Some(_) if here.is_some_and(|here| leaves_nothing(&here.manifest)) => {}
            Some(_) => {
                return Err(self.invalid(&format!(
                    "a writer on {host} has taken over; the unsealed events of this directory are in its journal alone. Keep it, and serve from an empty directory"
                )));
            }
        }
        let is_sealed = is_sealed(&there.committed.manifest);
        match adoption {
            Adoption::Any => return Ok(()),
            Adoption::Sealed if is_sealed => return Ok(()),
            Adoption::No if is_sealed => {
                return Err(self.invalid(
                    "the directory holds no store, and the one in the object store is not of it; `logmill serve` in the directory takes it over",
                ));
            }
            Adoption::Sealed | Adoption::No => {}
        }
        if there.committed.manifest.journal.is_some() {
            return Err(self.invalid(&format!(
                "a writer on {host} has not stopped, or was killed; stop it, or take over from it with --take-over. Nothing is left behind"
            )));
        }
        Err(self.invalid(&format!(
            "the writer on {host} has events that are not sealed, in its journal alone. Stop it and serve there, or leave them behind with --take-over"
        )))
    }

    /// Makes a store of the directory that holds what is sealed, and a journal that begins behind
    /// all numbers of the writer before.
    fn adopt(self, there: &Published) -> Result<Tenure> {
        let (fs, data, depot) = (self.fs, self.data, self.depot);
        let manifest = &there.committed.manifest;
        let tenure = self.tenure(AttachStage::Adopting, Some(there.pointer.tag.clone()))?;
        // Another attempt may have left these; nothing in them was acknowledged.
        for folder in [manifest::DIR, manifest::COPY_DIR, journal::DIR] {
            clear(&**fs, &data.join(folder))?;
        }
        if manifest.journal.is_none() {
            begin_journal(fs, data, manifest)?;
        }
        let side = Side {
            fs,
            data,
            depot,
            address: None,
            marked: None,
        };
        side.write_here(there)?;
        Ok(tenure)
    }

    /// Writes the version of the object store into the directory, and the files that a start
    /// reads.
    fn write_here(&self, there: &Published) -> Result<()> {
        let manifest = &there.committed.manifest;
        for file in &manifest.identities {
            bring(&**self.fs, self.data, &**self.depot, file)?;
        }
        manifest::write_version(&**self.fs, self.data, manifest, &there.bytes)
    }
}

/// Begins the journal of a directory that takes over what is sealed.
fn begin_journal(fs: &Arc<dyn Fs>, data: &Path, manifest: &Manifest) -> Result<()> {
    let skipped = if is_sealed(manifest) {
        0
    } else {
        TAKEN_OVER_SKIP
    };
    create_dir_durably(&**fs, data, &data.join(journal::DIR))?;
    let previous = Previous {
        segment: manifest.journal_floor.max(1) - 1,
        ..Previous::default()
    };
    Journal::begin(
        Arc::clone(fs),
        data,
        &manifest.store_id,
        manifest.writer_epoch.into(),
        previous,
        manifest.next_seq + skipped,
    )?;
    Ok(())
}

/// Returns whether a directory has nothing that is not in the object store, or in a shared journal.
fn leaves_nothing(here: &Manifest) -> bool {
    here.journal.is_some() || here.streams.is_empty()
}

/// Returns whether the last writer has stopped and left no event in a journal of its own.
fn is_sealed(manifest: &Manifest) -> bool {
    manifest.clean && (manifest.journal.is_some() || manifest.next_seq == manifest.sealed_seq)
}

/// Removes the files of a folder.
pub(crate) fn clear(fs: &dyn Fs, folder: &Path) -> Result<()> {
    if !fs.exists(folder) {
        return Ok(());
    }
    for name in fs.list(folder).at("list", folder)? {
        let path = folder.join(name);
        fs.remove(&path).at("remove", &path)?;
    }
    fs.sync_dir(folder).at("sync", folder)
}
