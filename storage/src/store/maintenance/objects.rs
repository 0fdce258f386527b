//! The object store of a store: objects that nobody needs are deleted, and copies of files that are
//! there may be removed from the disk.
//!
//! # Invariant
//! A file of a committed manifest is in the object store, so its copy on the disk may go. The
//! checkpoints of identities stay, since a start reads them from the disk.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::depot::failed;
use crate::error::{Error, Result};
use crate::manifest::{Manifest, Pending};
use crate::objects::{delete_orphans, earlier_bodies};
use crate::seeded::{self, Bug};
use crate::store::Shared;
use crate::store::seal::{seal, set_position};

impl Shared {
    /// Refuses an operation that needs all files on the disk.
    pub(in crate::store) fn refuse_with_objects(&self, what: &str) -> Result<()> {
        match &self.depot {
            None => Ok(()),
            Some(owner) => Err(Error::invalid(format!(
                "{what} needs all files of the store on the disk, and this one has them in {}",
                owner.depot.url()
            ))),
        }
    }

    /// Notes how far the shared journal was read when all of that is sealed: messages that hold
    /// nothing new, as fences, are not needed any more, and retention may delete them.
    pub(in crate::store) fn note_position(&self) -> Result<()> {
        let is_behind = {
            let state = self.state.lock();
            // Identities without events do not wake the seal thread.
            let is_alone = state.memtable.is_empty() && state.identities.has_fresh();
            if state.position.is_some() && is_alone && !state.is_sealing {
                drop(state);
                return seal(self).map(|_| ());
            }
            let noted = state.committed.manifest.journal.as_ref();
            let noted = noted.map(|journal| journal.position);
            state.sealed_to().is_some_and(|to| Some(to) != noted)
        };
        match is_behind {
            true => self.edit_and(
                |manifest, view| set_position(manifest, view.sealed_to),
                |_| (),
            ),
            false => Ok(()),
        }
    }

    /// Deletes from the object store what nobody needs, and removes copies beyond the limit from
    /// the disk.
    pub(in crate::store) fn tend_objects(&self) -> Result<()> {
        let Some(owner) = &self.depot else {
            return Ok(());
        };
        let depot = &*owner.depot;
        // A writer without events would not find out otherwise.
        if !seeded::is(Bug::OrphansOfAnyEpoch)
            && let Err(error) = owner.check()
        {
            if matches!(error, Error::Unknown { .. }) {
                self.poison(&error);
            }
            return Err(error);
        }
        self.note_position()?;
        let manifest = Arc::clone(&self.state.lock().committed.manifest);
        let now_us = self.options.clock.elapsed_us();
        if !self.swept.load(Ordering::SeqCst) || seeded::is(Bug::OrphansOfAnyEpoch) {
            let count = delete_orphans(depot, &manifest)?;
            if count > 0 {
                tracing::info!(
                    count,
                    url = depot.url(),
                    "deleted objects of earlier writers that no manifest names"
                );
            }
            let bodies = earlier_bodies(depot, manifest.version)?;
            self.dropped.lock().inherit(bodies, now_us);
            self.swept.store(true, Ordering::SeqCst);
        }
        let grace_us = match seeded::is(Bug::DroppedAtOnce) {
            true => 0,
            false => self.options.config.grace_us,
        };
        let Some(holds) = self.holds() else {
            return Ok(());
        };
        let is_needed = |pending: &Pending| holds.iter().any(|hold| hold.needs(pending));
        let due = self
            .dropped
            .lock()
            .due(&manifest, (now_us, grace_us), is_needed);
        if !due.is_empty() {
            depot
                .delete(&due)
                .map_err(|e| failed(depot, "delete", "garbage", e))?;
            self.dropped.lock().deleted(due);
        }
        self.remove_copies(&manifest);
        Ok(())
    }

    /// Removes the copies of the oldest files beyond the limit of bytes.
    fn remove_copies(&self, manifest: &Manifest) {
        let Some(limit) = self.options.config.local_bytes_max else {
            return;
        };
        let tiles = manifest.tiles.iter().flat_map(|tile| &tile.files);
        let tiles = tiles.map(|tile| (i64::MAX, &tile.file));
        let parts = manifest.parts.iter().map(|part| (part.time.1, &part.file));
        let mut files: Vec<_> = parts.chain(tiles).collect();
        files.sort_by_key(|(until, file)| (Reverse(*until), Reverse(&file.path)));
        let mut bytes = 0;
        for (_, file) in files {
            bytes += file.len;
            let path = self.data.join(&file.path);
            if bytes > limit
                && self.fs().exists(&path)
                && let Err(error) = self.fs().remove(&path)
            {
                tracing::warn!(path = %path.display(), %error, "could not remove a copy of a file in the object store");
            }
        }
    }
}
