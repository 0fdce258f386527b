//! Backup: makes a second store beside the first, with everything acknowledged before it began.
//!
//! A backup is a reader that keeps the files it reads. A file that a manifest names never
//! changes, so it is hard-linked; where linking fails, it is copied and compared with its
//! checksum. Journal segments are still written to and are therefore copied, up to the end of the
//! last whole group.
//!
//! # Invariants
//! 1. The manifest is written last, when every file that it names is durable in its place. A
//!    backup that was cut short has no manifest, and a directory of files without a manifest is
//!    refused as a store ([`manifest::refuse_headless`]).
//! 2. The reader registration is held from before the manifest is read until the last file is
//!    taken, as in any reader, so the writer removes none of the files. Nothing else is written
//!    to the store.
//! 3. No process ever writes to a file that a manifest names, in the store or in the backup, so a
//!    file that both share never changes. Lock, writer's name, manifest and journal are separate
//!    in each store.
//! 4. A backup counts as not closed: its next writer skips some millions of sequence numbers,
//!    past those that the store went on to assign.
//!
//! A backup *is* the store as it was: the same id, the same `_id`s, the same known batches. It
//! replaces the store. When both take events, two events may get the same `_id`.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::access_file;
use crate::detached::{Card, card_path};
use crate::env::{Clock, Fs, IoContext};
use crate::error::{Error, Result, is_full};
use crate::file::{FileRef, create_dir_durably, write_durably};
use crate::journal;
use crate::kept_text::CATALOG;
use crate::manifest::{self, DetachedPartition, Manifest};
use crate::objects;
use crate::read_only_store;
use crate::seeded::{self, Bug};
use crate::store::take_lock;

/// Content of a finished backup, and the way its files were made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupReport {
    /// Version of the backup's manifest.
    pub version: u64,
    /// Exclusive end of the sequence numbers of the store that the backup holds.
    pub next_seq: u64,
    /// Number of files that were hard-linked.
    pub linked_files: u64,
    /// Bytes of the linked files. They take no disk space of their own while the store has them
    /// too.
    pub linked_bytes: u64,
    /// Number of files that were copied: journal segments, the `partition.json` of detached
    /// partitions, and files that could not be linked.
    pub copied_files: u64,
    /// Bytes of the copied files.
    pub copied_bytes: u64,
    /// Duration, milliseconds.
    pub ms: u64,
}

/// Makes a backup of the store in `data` at `to`, even while another process writes to the store.
/// `to` is an absolute path at which there is nothing yet, or an empty directory. Detached
/// partitions are included if their folders are still in the store.
///
/// # Errors
/// [`Error::Invalid`] when `to` cannot take a backup, [`Error::NotAStore`], [`Error::Corrupt`]
/// when a file to be copied is damaged, or the error of the disk. The files made so far stay:
/// they are no store, and may be removed.
pub fn backup(fs: &Arc<dyn Fs>, clock: &dyn Clock, data: &Path, to: &Path) -> Result<BackupReport> {
    make(fs, clock, data, to).map_err(|error| match error {
        // Nothing was acknowledged at `to`: the error is that of the request, and the store is
        // intact.
        Error::Io { op, path, source } if path.starts_with(to) && !is_full(&source) => {
            Error::invalid(format!(
                "{op} {}: {source}; no backup was made; give another directory",
                path.display()
            ))
        }
        other => other,
    })
}

fn make(fs: &Arc<dyn Fs>, clock: &dyn Clock, data: &Path, to: &Path) -> Result<BackupReport> {
    let begun_us = clock.elapsed_us();
    check_place(&**fs, data, to)?;
    let remedy = "copy the objects of that prefix instead, CURRENT first";
    objects::refuse_marked(&**fs, data, ("a backup", remedy))?;
    let (mut held, mut committed) = read_only_store::hold(fs, data, clock.now_us())?;
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
    // Streams that were created since may have records in the copy.
    while !has_streams_of(&committed.manifest, &newest(&**fs, data)?) {
        (held, committed) = read_only_store::hold(fs, data, clock.now_us())?;
        work.forget_journal()?;
        work.copy_journal(&committed.manifest)?;
    }
    // As in any reader: the journal is not needed any more, however long the other files take.
    if let Some(held) = &held {
        held.loaded(&committed.manifest)?;
    }
    for file in committed.manifest.files() {
        work.link_or_copy(file)?;
    }
    for detached in &committed.manifest.detached {
        work.add_detached(&committed.manifest, detached)?;
    }
    work.copy_texts()?;
    work.commit(&committed.manifest)?;
    drop(held);
    let ms = clock.elapsed_us().saturating_sub(begun_us) / 1000;
    work.report.ms = u64::try_from(ms).unwrap_or(0);
    Ok(work.report)
}

fn newest(fs: &dyn Fs, data: &Path) -> Result<Manifest> {
    let newest = manifest::read_newest(fs, data)?;
    let newest = newest.ok_or_else(|| manifest::absent(fs, data))?;
    Ok(Manifest::clone(&newest.manifest))
}

fn has_streams_of(manifest: &Manifest, newer: &Manifest) -> bool {
    let mut streams = newer.streams.keys();
    streams.all(|stream| manifest.streams.contains_key(stream))
}

fn check_place(fs: &dyn Fs, data: &Path, to: &Path) -> Result<()> {
    let wrong = |what: &str| Err(Error::invalid(format!("{}: {what}", to.display())));
    if !to.is_absolute() {
        return wrong("give the backup directory as an absolute path");
    }
    // Either path may contain symbolic links.
    let (inside, store) = (resolved(fs, to)?, resolved(fs, data)?);
    if inside.starts_with(store) {
        return wrong("the directory lies inside the store; give one outside it");
    }
    if fs.exists(to) && !fs.is_dir(to) {
        return wrong("this is a file; give a directory that is empty or does not exist yet");
    }
    if fs.exists(to) && !fs.list(to).at("list", to)?.is_empty() {
        return wrong("the directory is not empty; give one that is empty or does not exist yet");
    }
    Ok(())
}

/// Returns the path without links and dots. The end of a path that does not exist yet is kept as
/// it is.
fn resolved(fs: &dyn Fs, path: &Path) -> Result<PathBuf> {
    let there = path.ancestors().find(|p| fs.exists(p)).unwrap_or(path);
    let known = fs.resolve(there).at("resolve", there)?;
    let rest = path.strip_prefix(there).unwrap_or(Path::new(""));
    let goes_up = |part: Component<'_>| part == Component::ParentDir;
    if rest.components().any(goes_up) {
        return Err(Error::invalid(format!(
            "{}: write the path without `..`",
            path.display()
        )));
    }
    Ok(known.join(rest))
}

struct Backup<'a> {
    fs: &'a dyn Fs,
    data: &'a Path,
    to: &'a Path,
    /// Directories made so far, which are synced before the manifest is written.
    directories: BTreeSet<PathBuf>,
    report: BackupReport,
}

impl Backup<'_> {
    fn count_copied(&mut self, bytes: u64) {
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
        segments
            .into_iter()
            .for_each(|bytes| self.count_copied(bytes));
        self.report.next_seq = found.next_seq.max(manifest.next_seq);
        Ok(())
    }

    /// Removes the copy of the journal, before anything else was copied.
    fn forget_journal(&mut self) -> Result<()> {
        let dir = self.to.join(journal::DIR);
        for name in self.fs.list(&dir).at("list", &dir)? {
            let path = dir.join(name);
            self.fs.remove(&path).at("remove", &path)?;
        }
        self.report = BackupReport::default();
        Ok(())
    }

    /// Links a file into the backup, or copies it.
    fn link_or_copy(&mut self, file: &FileRef) -> Result<()> {
        let (from, to) = (self.data.join(&file.path), self.to.join(&file.path));
        self.create_dir(to.parent().expect("BUG: a file lies in a directory"))?;
        let opened = self.fs.open_read(&from).and_then(|f| f.len());
        file.compare_len(&from, opened.at("open", &from)?)?;
        // Linking fails between two disks and on file systems without links. Whatever the reason,
        // a copy is as good.
        if self.fs.link(&from, &to).is_ok() {
            self.report.linked_files += 1;
            self.report.linked_bytes += file.len;
            return Ok(());
        }
        let bytes = file.read(self.fs, self.data)?;
        write_durably(self.fs, &to, &bytes)?;
        self.count_copied(file.len);
        Ok(())
    }

    /// Adds the folder of a detached partition, unless an operator has moved it away. The
    /// registration keeps its parts, but not its card, which is removed when the partition is
    /// attached or dropped meanwhile. So the card is written anew from the manifest.
    fn add_detached(&mut self, manifest: &Manifest, detached: &DetachedPartition) -> Result<()> {
        let is_there = |file: &FileRef| self.fs.exists(&self.data.join(&file.path));
        if !detached.parts.iter().any(|part| is_there(&part.file)) {
            return Ok(());
        }
        for part in &detached.parts {
            self.link_or_copy(&part.file)?;
        }
        let bytes = Card::of(manifest, detached).encode();
        write_durably(self.fs, &self.to.join(card_path(&detached.folder)), &bytes)?;
        self.count_copied(bytes.len() as u64);
        Ok(())
    }

    /// Copies the users and tokens, without which a restored store would be open to everyone, and
    /// the catalog of a cluster.
    fn copy_texts(&mut self) -> Result<()> {
        if let Some(text) = access_file::read(self.fs, self.data)? {
            access_file::replace(self.fs, self.to, &text, 0)?;
            self.count_copied(text.len() as u64);
        }
        if let Some(text) = CATALOG.read(self.fs, self.data)? {
            CATALOG.replace(self.fs, self.to, &text, 0)?;
            self.count_copied(text.len() as u64);
        }
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
