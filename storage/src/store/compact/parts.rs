//! Compaction of parts: within one partition of a stream, parts of like size become one.
//!
//! # Invariants
//! * The choice is a pure function of the manifest and of which partitions are quiet; one edit puts the
//!   new part in the place of those it was made of. The manifest's proof says that their rows add up,
//!   and [`Census`] that they are the same rows.
//! * A part is merged again only with others that hold at least as many rows together as it does (a
//!   quarter, once the partition is quiet): its rewrites grow with the logarithm of the history, and a
//!   few late rows do not rewrite a day.
//! * A merge reads at most [`INPUTS_MAX`] parts of [`ROWS_MAX`] rows and [`BYTES_MAX`] bytes together,
//!   and keeps some thousand rows of each in memory, and the dictionaries: few large parts are open at a
//!   time ([`OPEN_BYTES_MAX`]).
//! * A part that cannot be read is left alone; the others are merged, and the error is told.
//! * `Shared.parts` is held only while inputs are looked for once more and the edit is committed. What
//!   was dropped meanwhile makes the merge void.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::debt::why_parts;
use crate::background_permits::BackgroundPermit;
use crate::env::IoContext;
use crate::error::{Error, Result};
use crate::job_log::{Job, Running, Said};
use crate::manifest::{Manifest, PartMeta, StreamMeta};
use crate::model::Name;
use crate::part::{self, Census, Stop};
use crate::snapshot::Snapshot;
use crate::store::staged_files::StagedFiles;
use crate::store::{Shared, wait_for};

/// Rows of a merged part at most: what reads a part as a whole (a rebuild, a verification) holds some
/// hundred bytes of each. A day of two million events is one part.
const ROWS_MAX: u64 = 1 << 21;
/// Bytes that one merge reads at most: some seconds of one core and of the disk.
const BYTES_MAX: u64 = 128 << 20;
/// Parts that one merge reads at most; an open one takes two megabytes or so.
const INPUTS_MAX: usize = 32;
/// What the inputs of a merge may count together, each with its bytes up to [`OPEN_BYTES`]: an open part
/// has its dictionaries in memory, which for long texts that do not repeat take more than the part does.
/// Four fit in always, as many as there must be.
const OPEN_BYTES_MAX: u64 = 4 * OPEN_BYTES;
const OPEN_BYTES: u64 = 8 << 20;
/// Parts of fewer rows are alike: as long as a footer outweighs the rows.
const SMALL: u64 = 256;
/// Merges of one edit, and the bytes that they read before no further is begun: a manifest is written
/// with each edit.
const MERGES_MAX: usize = 64;
const EDIT_BYTES: u64 = 32 << 20;
/// How long a merge pauses after some thousand rows while others need the machine more.
const PAUSE_US: i64 = 100_000;

/// A partition of a stream.
pub(in crate::store) type Partition<'a> = (&'a Name, i64);

/// What compaction of parts did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartsReport {
    /// Parts that were merged.
    pub merged: usize,
    /// Parts that they became.
    pub into: usize,
    /// Rows that were written again.
    pub rows: u64,
    /// Bytes of the parts that were merged.
    pub bytes_read: u64,
    /// Bytes of the parts that they became.
    pub bytes_written: u64,
    /// Edits of the manifest.
    pub edits: usize,
}

impl PartsReport {
    fn said(&self) -> Said {
        let Self {
            merged, into, rows, ..
        } = self;
        Said {
            what: format!("merged {merged} parts into {into}: {rows} rows"),
            done: Some(*merged as u64),
            total: Some(*merged as u64),
            bytes_read: Some(self.bytes_read),
            bytes_written: Some(self.bytes_written),
        }
    }
}

/// Who waits for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Pace {
    /// Somebody has asked for it.
    Asked,
    /// Nobody waits for it. A merge gives way to a seal, and to ingest once the memtable is half full.
    Background,
}

/// The parts of each partition.
pub(in crate::store) fn by_partition(
    manifest: &Manifest,
) -> BTreeMap<Partition<'_>, Vec<&PartMeta>> {
    let mut partitions: BTreeMap<Partition<'_>, Vec<&PartMeta>> = BTreeMap::new();
    for part in &manifest.parts {
        let partition = (&part.stream, part.partition_us);
        partitions.entry(partition).or_default().push(part);
    }
    partitions
}

/// What is to be merged next, or nothing; `left` are to stay.
fn choose<'a>(
    manifest: &'a Manifest,
    only: Option<&Name>,
    quiet: &dyn Fn(Partition<'_>) -> bool,
    left: &BTreeSet<u64>,
) -> Vec<Vec<&'a PartMeta>> {
    let (mut merges, mut bytes) = (Vec::new(), 0);
    for (partition, mut parts) in by_partition(manifest) {
        if merges.len() == MERGES_MAX || bytes >= EDIT_BYTES {
            break;
        }
        if only.is_some_and(|only| only != partition.0) {
            continue;
        }
        parts.retain(|part| !left.contains(&part.id));
        let alike = alike(&mut parts, quiet(partition));
        if alike > 0 {
            parts.truncate(alike);
            bytes += parts.iter().map(|p| p.file.len).sum::<u64>();
            merges.push(parts);
        }
    }
    merges
}

/// Sorts parts by their rows. How many of the first are to be merged: as many as there are such that the
/// last has at most as many rows as the others together (or four times as many, in a quiet partition).
/// Those between are smaller than it, so what holds for it holds for each.
pub(super) fn alike(parts: &mut [&PartMeta], quiet: bool) -> usize {
    let (enough, ratio) = if quiet { (2, 4) } else { (4, 1) };
    parts.sort_by_key(|p| (p.rows, p.id));
    let (mut rows, mut bytes, mut open, mut alike) = (0, 0, 0, 0);
    for (before, part) in parts.iter().enumerate().take(INPUTS_MAX) {
        let is_alike = part.rows <= SMALL.max(rows * ratio);
        rows += part.rows;
        bytes += part.file.len;
        open += part.file.len.min(OPEN_BYTES);
        if rows > ROWS_MAX || bytes > BYTES_MAX || open > OPEN_BYTES_MAX {
            break;
        }
        if is_alike && before + 1 >= enough {
            alike = before + 1;
        }
    }
    alike
}

/// Merges until nothing is left to do, or the store is closing.
pub(in crate::store) fn compact(
    shared: &Shared,
    only: Option<&Name>,
    quiet: &dyn Fn(Partition<'_>) -> bool,
    pace: Pace,
) -> Result<PartsReport> {
    let _one_at_a_time = shared.merging.lock();
    let sealed = Arc::clone(&shared.state.lock().committed.manifest);
    let (parts, why) = why_parts(&sealed, only, quiet);
    drop(sealed);
    let run = shared
        .log
        .begin(Job::CompactParts, only.map(Name::as_str), why);
    let work = Work {
        shared,
        run: &run,
        parts,
        pace,
        left: BTreeSet::new(),
        told: None,
        report: PartsReport::default(),
        permit: None,
    };
    let (outcome, report) = work.done(only, quiet);
    match outcome {
        Ok(()) if report.merged == 0 => {}
        Ok(()) => run.done(report.said()),
        Err(error) => {
            run.failed(&error);
            return Err(error);
        }
    }
    Ok(report)
}

struct Work<'a> {
    shared: &'a Shared,
    run: &'a Running,
    /// Parts that were alike at first; their merges may be merged again.
    parts: u64,
    pace: Pace,
    /// Parts that cannot be read.
    left: BTreeSet<u64>,
    /// Why the first of them could not.
    told: Option<Error>,
    report: PartsReport,
    /// The turn of what is merged now.
    permit: Option<BackgroundPermit<'a>>,
}

impl Work<'_> {
    /// What came of it, and what was merged all the same.
    fn done(
        mut self,
        only: Option<&Name>,
        quiet: &dyn Fn(Partition<'_>) -> bool,
    ) -> (Result<()>, PartsReport) {
        let outcome = self.all(only, quiet);
        (outcome.and(self.told.map_or(Ok(()), Err)), self.report)
    }

    /// Merges until nothing is left to do, or the store is closing.
    fn all(&mut self, only: Option<&Name>, quiet: &dyn Fn(Partition<'_>) -> bool) -> Result<()> {
        let shared = self.shared;
        while !shared.state.lock().closing {
            let sealed = shared.sealed(&shared.state.lock());
            let merges = choose(&sealed.manifest, only, quiet, &self.left);
            if merges.is_empty() {
                break;
            }
            let done = self.step(&sealed, &merges);
            // What was merged stays on the disk as long as its snapshot lives.
            drop(merges);
            drop(sealed);
            match done {
                Err(Error::Closed) => break,
                other => other?,
            }
            shared.remove_unreferenced();
        }
        Ok(())
    }

    /// Some merges and one edit.
    fn step(&mut self, sealed: &Snapshot, merges: &[Vec<&PartMeta>]) -> Result<()> {
        self.has_room(merges)?;
        self.permit = Some(self.shared.background_permits.acquire());
        let mut written = StagedFiles::default();
        let mut gone: Vec<&PartMeta> = Vec::new();
        let mut work = || {
            for parts in merges {
                gone.extend(self.merge(sealed, parts, &mut written)?);
            }
            written.sync_directories(self.shared)
        };
        let worked = work();
        self.permit = None;
        let outcome = worked.and_then(|()| self.commit(&gone, &mut written));
        if let Err(error) = &outcome {
            written.take_away(self.shared, error);
        }
        outcome
    }

    /// Merges parts of one partition and returns those that are replaced: none when one cannot be read.
    fn merge<'p>(
        &mut self,
        sealed: &Snapshot,
        parts: &[&'p PartMeta],
        written: &mut StagedFiles,
    ) -> Result<Vec<&'p PartMeta>> {
        let before = written.parts.len();
        match self.write(sealed, parts, written) {
            Ok((replaced, read)) => {
                compare(sealed, read, &written.parts[before..])?;
                Ok(replaced)
            }
            Err(Stop::Unread(id, error)) => {
                tracing::error!(%error, "a part cannot be read; it is not merged with others");
                written.undo(self.shared, before);
                self.left.insert(id);
                self.told.get_or_insert(error);
                Ok(Vec::new())
            }
            Err(Stop::Unsorted(id)) => panic!("BUG: part {id} was sorted in pieces"),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    /// Writes what parts become, and says which of them that replaces: all, or one that was not sorted.
    fn write<'p>(
        &self,
        sealed: &Snapshot,
        parts: &[&'p PartMeta],
        written: &mut StagedFiles,
    ) -> Result<(Vec<&'p PartMeta>, Census), Stop> {
        match self.write_merged(sealed, parts, written) {
            Err(Stop::Unsorted(id)) => {
                let part = parts
                    .iter()
                    .find(|p| p.id == id)
                    .expect("BUG: one of these");
                let read = self.write_sorted(sealed, part, written)?;
                Ok((vec![*part], read))
            }
            other => other.map(|read| (parts.to_vec(), read)),
        }
    }

    fn write_merged(
        &self,
        sealed: &Snapshot,
        parts: &[&PartMeta],
        written: &mut StagedFiles,
    ) -> Result<Census, Stop> {
        let (meta, folder) = place(sealed, parts[0]);
        let inputs = parts.iter().map(|p| (*p, sealed.open(&p.file))).collect();
        let mut read = Census::default();
        let place = (folder.as_str(), parts[0].partition_us);
        written.write_part(self.shared, &parts[0].stream, place, |file| {
            let (bounds, census) = part::merge(meta, inputs, file, &|| self.pause())?;
            read = census;
            Ok::<_, Stop>(bounds)
        })?;
        Ok(read)
    }

    fn write_sorted(
        &self,
        sealed: &Snapshot,
        one: &PartMeta,
        written: &mut StagedFiles,
    ) -> Result<Census, Stop> {
        let (meta, folder) = place(sealed, one);
        let place = (folder.as_str(), one.partition_us);
        part::rewrite(meta, one, sealed.open(&one.file), &mut |rows| {
            self.pause()?;
            written.write_part(self.shared, &one.stream, place, |file| {
                part::write_sorted(meta, &rows, file)
            })
        })
    }

    /// Puts what was written in the place of what is gone, unless something of that was dropped meanwhile.
    fn commit(&mut self, gone: &[&PartMeta], written: &mut StagedFiles) -> Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        let _one_at_a_time = self.shared.parts.lock();
        let current = Arc::clone(&self.shared.state.lock().committed.manifest);
        let live: BTreeSet<u64> = current.parts.iter().map(|p| p.id).collect();
        let ids: BTreeSet<u64> = gone.iter().map(|p| p.id).collect();
        if !ids.is_subset(&live) {
            written.remove(self.shared);
            return Ok(());
        }
        let new = written.parts.clone();
        let bytes =
            |parts: &mut dyn Iterator<Item = &PartMeta>| parts.map(|p| p.file.len).sum::<u64>();
        self.shared
            .edit(|manifest| manifest.replace_parts(&ids, new))?;
        self.shared.remove_unreferenced();
        self.report.merged += gone.len();
        self.report.into += written.parts.len();
        self.report.rows += gone.iter().map(|p| p.rows).sum::<u64>();
        self.report.bytes_read += bytes(&mut gone.iter().copied());
        self.report.bytes_written += bytes(&mut written.parts.iter());
        self.report.edits += 1;
        let merged = self.report.merged as u64;
        self.run.progress(merged, Some(self.parts.max(merged)));
        Ok(())
    }

    /// The inputs stay until the merge is committed, and longer while somebody reads them. A disk that is
    /// nearly full is left to ingest.
    fn has_room(&self, merges: &[Vec<&PartMeta>]) -> Result<()> {
        let data = &self.shared.data;
        let free = self.shared.fs().space(data).at("measure", data)?.free;
        let bytes: u64 = merges.iter().flatten().map(|p| p.file.len).sum();
        if free / 2 >= bytes {
            return Ok(());
        }
        Err(Error::DiskFull { path: data.clone() })
    }

    /// Lets others go first.
    fn pause(&self) -> Result<()> {
        let permit = self.permit.as_ref().expect("BUG: a merge has its turn");
        permit.pass(|| wait_for_others(self.shared, self.pace))
    }
}

/// Ends what is done when the store closes, and waits while ingest is pressed.
pub(in crate::store) fn wait_for_others(shared: &Shared, pace: Pace) -> Result<()> {
    let mut state = shared.state.lock();
    let half = shared.options.config.memtable_bytes_max / 2;
    let is_pressed = state.memtable.bytes() > half || shared.sealer.is_locked();
    if pace == Pace::Background && is_pressed && !state.closing {
        wait_for(&shared.sealing, &mut state, PAUSE_US);
    }
    if state.closing {
        Err(Error::Closed)
    } else {
        Ok(())
    }
}

/// The stream of a part as its manifest knows it, and the folder of its partition.
fn place<'a>(sealed: &'a Snapshot, of: &PartMeta) -> (&'a StreamMeta, String) {
    let meta = sealed.manifest.streams.get(&of.stream);
    let meta = meta.expect("BUG: a part's stream is in its manifest");
    (
        meta,
        part::partition_folder(meta.partition, of.partition_us),
    )
}

/// The files hold the rows that were read, each once.
fn compare(sealed: &Snapshot, read: Census, written: &[PartMeta]) -> Result<()> {
    let mut found = Census::default();
    for part in written {
        found.add(part::census(&part.file.path, sealed.open(&part.file))?);
    }
    if found == read {
        return Ok(());
    }
    Err(Error::Corrupt {
        path: written
            .first()
            .map_or_else(PathBuf::new, |p| (&p.file.path).into()),
        offset: 0,
        what: format!("its rows are not the rows that were merged: {found:?}, {read:?}"),
    })
}

#[cfg(test)]
mod tests;
