//! Backup: a second store beside the first, with everything acknowledged before it began.
//!
//! It is a reader that keeps what it reads. Files that a manifest names never change, so a second
//! name is as good as a copy; where the disk gives none, the file is copied against its checksum.
//! Journal segments are still written to and therefore copied, to the end of the last whole group.
//!
//! # Invariants
//! 1. The manifest is written last, when everything that it names is durable in its place: a backup
//!    that was cut short has none, and a directory of files without a manifest is no store to anybody
//!    ([`manifest::refuse_headless`]).
//! 2. What is read is held from before the manifest is looked for until the last file is taken, as
//!    for any reader; nothing in the store is written to.
//! 3. Nobody ever writes into a file that a manifest names, in the store or in its backup: what both
//!    have is the same for ever. Lock, writer's name, manifest and journal are each store's own.
//! 4. A backup was not closed: its next writer skips ahead past the numbers that the store went on to
//!    give, some millions of them.
//!
//! A backup *is* the store as it was: the same id, the same `_id`s, the same known batches. It is to
//! be used instead of the store; where both take events, two of them may bear one `_id`.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::detached::{Card, card_path};
use crate::env::{Clock, Fs, IoContext};
use crate::error::{Error, Result, is_full};
use crate::file::{FileRef, create_dir_durably, write_durably};
use crate::journal;
use crate::manifest::{self, DetachedPartition, Manifest};
use crate::read_only_store;
use crate::seeded::{self, Bug};
use crate::store::take_lock;

/// What a backup holds and how it came to be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupReport {
    /// The version of its manifest.
    pub version: u64,
    /// Everything of the store below this sequence number is in it.
    pub next_seq: u64,
    /// Files that got a second name.
    pub linked_files: u64,
    /// Bytes of those files, which take no room of their own while the store has them too.
    pub linked_bytes: u64,
    /// Files that were copied: the journal's segments, and what could not be linked.
    pub copied_files: u64,
    /// Bytes of those files.
    pub copied_bytes: u64,
    /// How long it took, milliseconds.
    pub ms: u64,
}

/// Makes a backup of the store in `data`, whoever writes to it, in `to`: an absolute path at which
/// there is nothing yet, or an empty directory. Detached partitions come along as far as their folders
/// are there.
///
/// # Errors
/// [`Error::Invalid`] when there is something at `to`, [`Error::NotAStore`], [`Error::Corrupt`] for
/// what is damaged and was to be copied, or what the disk says. What was made so far stays: it is no
/// store, and may be removed.
pub fn backup(fs: &Arc<dyn Fs>, clock: &dyn Clock, data: &Path, to: &Path) -> Result<BackupReport> {
    make(fs, clock, data, to).map_err(|error| match error {
        // Nothing was acknowledged there: what failed is the place, and the store is as it was.
        Error::Io { op, path, source } if path.starts_with(to) && !is_full(&source) => {
            Error::invalid(format!(
                "{op} {}: {source}; no backup was made, name another directory",
                path.display()
            ))
        }
        other => other,
    })
}

fn make(fs: &Arc<dyn Fs>, clock: &dyn Clock, data: &Path, to: &Path) -> Result<BackupReport> {
    let begun_us = clock.elapsed_us();
    check_place(&**fs, data, to)?;
    let (held, committed) = read_only_store::hold(fs, data, clock.now_us())?;
    let mut work = Backup {
        fs: &**fs,
        data,
        to,
        directories: BTreeSet::new(),
        report: BackupReport::default(),
    };
    let above = to.ancestors().skip(1).find(|p| fs.exists(p));
    create_dir_durably(&**fs, above.unwrap_or(to), to)?;
    let _lock = take_lock(&**fs, to)?;
    work.copy_journal(&committed.manifest)?;
    // As for any reader: the journal is not needed any more, however long the rest takes.
    if let Some(held) = &held {
        held.loaded(&committed.manifest)?;
    }
    for file in committed.manifest.files() {
        work.take(file)?;
    }
    for detached in &committed.manifest.detached {
        work.take_detached(&committed.manifest, detached)?;
    }
    work.commit(&committed.manifest)?;
    drop(held);
    let ms = clock.elapsed_us().saturating_sub(begun_us) / 1000;
    work.report.ms = u64::try_from(ms).unwrap_or(0);
    Ok(work.report)
}

fn check_place(fs: &dyn Fs, data: &Path, to: &Path) -> Result<()> {
    let wrong = |what: &str| Err(Error::invalid(format!("{}: {what}", to.display())));
    if !to.is_absolute() {
        return wrong("name the backup's directory by its whole path");
    }
    // Through whichever links they are named.
    let (inside, store) = (resolved(fs, to)?, resolved(fs, data)?);
    if inside.starts_with(store) {
        return wrong("this lies within the store; name a directory beside it");
    }
    if fs.exists(to) && !fs.is_dir(to) {
        return wrong("this is a file; name a directory that is empty or not there yet");
    }
    if fs.exists(to) && !fs.list(to).at("list", to)?.is_empty() {
        return wrong("there is something in it; name a directory that is empty or not there yet");
    }
    Ok(())
}

/// A path without links and dots: what is not there yet lies below what is.
fn resolved(fs: &dyn Fs, path: &Path) -> Result<PathBuf> {
    let there = path.ancestors().find(|p| fs.exists(p)).unwrap_or(path);
    let known = fs.resolve(there).at("look at", there)?;
    let rest = path.strip_prefix(there).unwrap_or(Path::new(""));
    let goes_up = |part: Component<'_>| part == Component::ParentDir;
    if rest.components().any(goes_up) {
        return Err(Error::invalid(format!(
            "{}: write it without `..`",
            path.display()
        )));
    }
    Ok(known.join(rest))
}

struct Backup<'a> {
    fs: &'a dyn Fs,
    data: &'a Path,
    to: &'a Path,
    /// Those made so far, of which the names in them are not durable yet.
    directories: BTreeSet<PathBuf>,
    report: BackupReport,
}

impl Backup<'_> {
    fn copied(&mut self, bytes: u64) {
        self.report.copied_files += 1;
        self.report.copied_bytes += bytes;
    }

    fn create_dir(&mut self, dir: &Path) -> Result<()> {
        if self.directories.insert(dir.to_path_buf()) {
            create_dir_durably(self.fs, self.to, dir)?;
        }
        Ok(())
    }

    fn copy_journal(&mut self, manifest: &Manifest) -> Result<()> {
        let dir = self.to.join(journal::DIR);
        self.create_dir(&dir)?;
        let (id, floor) = (&manifest.store_id, manifest.journal_floor);
        let (found, segments) = journal::copy(self.fs, self.data, self.to, id, floor)?;
        segments.into_iter().for_each(|bytes| self.copied(bytes));
        self.report.next_seq = found.next_seq.max(manifest.next_seq);
        Ok(())
    }

    /// Gives a file a second name, or makes a copy of it.
    fn take(&mut self, file: &FileRef) -> Result<()> {
        let (from, to) = (self.data.join(&file.path), self.to.join(&file.path));
        self.create_dir(to.parent().expect("BUG: a file lies in a directory"))?;
        let opened = self.fs.open_read(&from).and_then(|f| f.len());
        file.compare_len(&from, opened.at("open", &from)?)?;
        // Another disk, or one without links: whatever the reason, a copy is as good.
        if self.fs.link(&from, &to).is_ok() {
            self.report.linked_files += 1;
            self.report.linked_bytes += file.len;
            return Ok(());
        }
        let bytes = file.read(self.fs, self.data)?;
        write_durably(self.fs, &to, &bytes)?;
        self.copied(file.len);
        Ok(())
    }

    /// Takes the folder of a detached partition along, unless an operator has taken it away. While it is
    /// held its parts stay, but its card goes with the record, which may be attached or dropped
    /// meanwhile: the card is written as the manifest says.
    fn take_detached(&mut self, manifest: &Manifest, detached: &DetachedPartition) -> Result<()> {
        let is_there = |file: &FileRef| self.fs.exists(&self.data.join(&file.path));
        if !detached.parts.iter().any(|part| is_there(&part.file)) {
            return Ok(());
        }
        for part in &detached.parts {
            self.take(&part.file)?;
        }
        let bytes = Card::of(manifest, detached).encode();
        write_durably(self.fs, &self.to.join(card_path(&detached.folder)), &bytes)?;
        self.copied(bytes.len() as u64);
        Ok(())
    }

    fn commit(&mut self, manifest: &Manifest) -> Result<()> {
        let unsynced = seeded::is(Bug::BackupUnsynced);
        for dir in self.directories.iter().filter(|_| !unsynced) {
            self.fs.sync_dir(dir).at("sync", dir)?;
        }
        self.create_dir(&self.to.join(manifest::DIR))?;
        let mut manifest = manifest.clone();
        manifest.pending.clear();
        manifest.clean = false;
        self.report.version = manifest.version;
        manifest::commit(self.fs, self.to, None, manifest).map(|_| ())
    }
}

#[cfg(test)]
mod tests;
