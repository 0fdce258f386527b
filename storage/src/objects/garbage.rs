//! Objects that nobody needs any more.
//!
//! # Invariants
//! 1. A dropped file is deleted by the writer whose certain commit dropped it, or by a later one,
//!    after the grace by its own clock. Names are never given twice, so a writer that was
//!    superseded meanwhile deletes what nobody names.
//! 2. An orphan is deleted only when its epoch is below that of this writer, which has committed:
//!    then no writer can commit it any more. Files of this epoch may be on their way to a commit.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::commit;
use super::current::ManifestBody;
use crate::depot::{Depot, failed};
use crate::error::Result;
use crate::file_id::FileId;
use crate::manifest::{Manifest, Pending};
use crate::seeded::{self, Bug};

/// Folders of sealed files.
const FOLDERS: [&str; 3] = ["streams/", "rollups/", "identities/"];
/// Bodies of earlier versions that are kept: a reader reads `CURRENT` first and its body then.
const BODIES: usize = 16;

/// Returns whether a file of this name may be in an object store.
fn is_sealed_file(name: &str) -> bool {
    FOLDERS.iter().any(|folder| name.starts_with(folder))
}

/// Objects that this writer has dropped.
#[derive(Debug, Default)]
pub(crate) struct Dropped {
    /// When a manifest without the file was first seen committed, by the clock of the process.
    since_us: BTreeMap<String, i64>,
    /// Files that are deleted, and still pending in the manifest.
    gone: BTreeSet<String>,
    /// Bodies of earlier versions, oldest first, and when the next one was committed.
    bodies: VecDeque<(String, i64)>,
    /// Files of edits that failed for certain.
    strays: BTreeSet<String>,
}

impl Dropped {
    /// Returns whether nothing of a pending file is left in the object store.
    pub(crate) fn is_gone(&self, path: &str) -> bool {
        !is_sealed_file(path) || self.gone.contains(path)
    }

    /// Notes files that no manifest will name.
    pub(crate) fn stray(&mut self, names: Vec<String>) {
        self.strays.extend(names);
    }

    /// Notes that a version was followed by another one.
    pub(crate) fn follow(&mut self, old: &Manifest, now_us: i64) {
        if let Some(nonce) = &old.commit {
            let body = ManifestBody::of(old.version, nonce, &[]);
            self.bodies.push_back((body.name, now_us));
        }
        let is_pending = |path: &String| old.pending.iter().any(|p| &p.path == path);
        self.gone.retain(is_pending);
        self.since_us.retain(|path, _| is_pending(path));
    }

    /// Returns the objects to delete now, given a manifest whose commit is certain; `is_needed`
    /// tells the files that readers of this directory have.
    pub(crate) fn due(
        &mut self,
        manifest: &Manifest,
        (now_us, grace_us): (i64, i64),
        is_needed: impl Fn(&Pending) -> bool,
    ) -> Vec<String> {
        let mut due: Vec<String> = self.strays.iter().cloned().collect();
        for pending in manifest.pending.iter().filter(|p| is_sealed_file(&p.path)) {
            let since = *self.since_us.entry(pending.path.clone()).or_insert(now_us);
            let is_over = now_us - since >= grace_us && !is_needed(pending);
            if is_over && !self.gone.contains(&pending.path) {
                due.push(pending.path.clone());
            }
        }
        let old = self.bodies.len().saturating_sub(BODIES);
        let old = self.bodies.iter().take(old);
        let old = old.filter(|(_, since)| now_us - since >= grace_us);
        due.extend(old.map(|(body, _)| body.clone()));
        due
    }

    /// Notes bodies that were there before this writer, as if their successors came now.
    pub(crate) fn inherit(&mut self, mut bodies: Vec<String>, now_us: i64) {
        bodies.retain(|body| !self.bodies.iter().any(|(known, _)| known == body));
        bodies.sort_unstable();
        let old = bodies.into_iter().map(|body| (body, now_us));
        self.bodies = old.chain(self.bodies.drain(..)).collect();
    }

    /// Notes that objects are deleted.
    pub(crate) fn deleted(&mut self, names: Vec<String>) {
        self.bodies.retain(|(body, _)| !names.contains(body));
        self.strays.retain(|stray| !names.contains(stray));
        self.gone
            .extend(names.into_iter().filter(|n| is_sealed_file(n)));
    }
}

/// Deletes the files of earlier writers that the manifest of this one does not know. Returns their
/// number.
pub(crate) fn delete_orphans(depot: &dyn Depot, manifest: &Manifest) -> Result<usize> {
    let known: BTreeSet<&str> = manifest
        .files()
        .map(|file| file.path.as_str())
        .chain(manifest.pending.iter().map(|p| p.path.as_str()))
        .collect();
    let of_earlier = |name: &str| {
        let id = FileId::of_path(name);
        id.is_some_and(|id| id.epoch < manifest.writer_epoch || seeded::is(Bug::OrphansOfAnyEpoch))
    };
    let mut orphans = Vec::new();
    for folder in FOLDERS {
        let names = depot
            .list(folder)
            .map_err(|e| failed(depot, "list", folder, e))?;
        orphans.extend(
            names
                .into_iter()
                .filter(|n| of_earlier(n) && !known.contains(n.as_str())),
        );
    }
    let count = orphans.len();
    if count > 0 {
        depot
            .delete(&orphans)
            .map_err(|e| failed(depot, "delete", "orphans", e))?;
    }
    Ok(count)
}

/// Returns the bodies of versions before this one.
pub(crate) fn earlier_bodies(depot: &dyn Depot, version: u64) -> Result<Vec<String>> {
    let mut bodies = depot
        .list("manifest/")
        .map_err(|e| failed(depot, "list", "manifest", e))?;
    bodies.retain(|name| commit::version_of(name).is_some_and(|of| of < version));
    Ok(bodies)
}
