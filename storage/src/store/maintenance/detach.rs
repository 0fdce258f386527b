//! Detaching whole time partitions into folders of their own, and attaching them again.
//!
//! # Invariants
//! * The one edit decides. A folder is complete and durable before the edit that moves its parts
//!   from live to detached; attached parts are durable before the edit that removes the record. A
//!   crash before either edit leaves second names of files that are where they were. The next
//!   attempt or the next start removes those names.
//! * Attaching trusts the manifest's record and nothing in the folder. Each file is compared with
//!   the length and checksum that it was detached with, and synced, since an operator may have
//!   moved it away and back.
//! * Rollups are not changed. Events that arrive while a partition is detached are live and stay
//!   so; this is why a partition cannot be detached a second time before it is attached.
//! * Live, dropped and detached events together are the sealed events (`manifest/proof.rs`), so
//!   that none can be counted twice.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use super::drop::PartitionReport;
use crate::detached::{self, Card};
use crate::env::IoContext;
use crate::error::{Error, Result};
use crate::file::{FileRef, create_dir_durably, write_durably};
use crate::job_log::Job;
use crate::manifest::{DetachedPartition, Manifest, PartMeta, Pending};
use crate::model::Name;
use crate::seeded::{self, Bug};
use crate::store::staged_files::StagedFiles;
use crate::store::{Shared, seal};

/// Detaches all events acknowledged so far in every partition of `stream` that begins in
/// `range_us`, in one edit; `dry` only reports what would be detached.
pub(super) fn run_detach(
    shared: &Shared,
    stream: &Name,
    range_us: (i64, i64),
    dry: bool,
) -> Result<PartitionReport> {
    let work = || detach(shared, stream, range_us, dry);
    shared.run_by_hand(Job::Detach, stream, range_us, dry, work)
}

/// Brings back every detached partition of `stream` that begins in `range_us`, in one edit.
pub(super) fn run_attach(
    shared: &Shared,
    stream: &Name,
    range_us: (i64, i64),
) -> Result<PartitionReport> {
    let work = || attach(shared, stream, range_us);
    shared.run_by_hand(Job::Attach, stream, range_us, false, work)
}

fn detach(
    shared: &Shared,
    stream: &Name,
    range_us: (i64, i64),
    dry: bool,
) -> Result<PartitionReport> {
    shared.refuse_with_objects("detaching")?;
    shared.check_stream(stream)?;
    let _one_at_a_time = shared.parts.lock();
    shared.with_reserve(|| seal::seal(shared))?;
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    let leaving = choose(&manifest, stream, range_us)?;
    let report = PartitionReport::of(leaving.iter());
    if dry || leaving.is_empty() {
        return Ok(report);
    }
    shared.with_reserve(|| {
        let mut written = StagedFiles::default();
        let outcome = write_folders(shared, &manifest, &leaving, &mut written)
            .and_then(|()| shared.edit(|manifest| take_out(manifest, leaving.clone())));
        if let Err(error) = &outcome {
            written.discard(shared, error);
        }
        outcome
    })?;
    shared.remove_unreferenced();
    Ok(report)
}

/// Returns the partitions to detach, as the manifest will record them.
fn choose(
    manifest: &Manifest,
    stream: &Name,
    (from_us, to_us): (i64, i64),
) -> Result<Vec<DetachedPartition>> {
    let is_in_range = |partition_us: i64| (from_us..to_us).contains(&partition_us);
    let mut live: BTreeMap<i64, Vec<PartMeta>> = BTreeMap::new();
    for part in manifest.parts_of(stream) {
        if is_in_range(part.partition_us) {
            live.entry(part.partition_us)
                .or_default()
                .push(part.clone());
        }
    }
    let mut known = manifest.detached_of(stream);
    let again = known.find(|d| {
        is_in_range(d.partition_us) && (live.is_empty() || live.contains_key(&d.partition_us))
    });
    if let Some(known) = again {
        let late = live.get(&known.partition_us).into_iter().flatten();
        let late: u64 = late.map(|p| p.rows).sum();
        return Err(Error::invalid(match late {
            0 => format!("{} is already detached", known.folder),
            _ => format!(
                "{} is already detached, and {late} events have arrived for it since; attach it first",
                known.folder
            ),
        }));
    }
    Ok(live
        .into_iter()
        .map(|(partition_us, mut parts)| {
            let mut folder = String::new();
            for part in &mut parts {
                part.file.path = detached::place(&part.file.path);
                let parent = part.file.path.rsplit_once('/');
                folder = parent.expect("BUG: a part lies in a folder").0.to_owned();
            }
            DetachedPartition {
                stream: stream.clone(),
                partition_us,
                complete_from: manifest.sealed_seq,
                folder,
                parts,
            }
        })
        .collect())
}

/// Writes the folders, durably.
fn write_folders(
    shared: &Shared,
    manifest: &Manifest,
    leaving: &[DetachedPartition],
    written: &mut StagedFiles,
) -> Result<()> {
    let (fs, data) = (shared.fs(), &shared.data);
    let live: BTreeMap<u64, &FileRef> = manifest.parts.iter().map(|p| (p.id, &p.file)).collect();
    for partition in leaving {
        let folder = data.join(&partition.folder);
        create_dir_durably(fs, data, &folder)?;
        for part in &partition.parts {
            live[&part.id].link(fs, data, part.file.path.clone())?;
            written.paths.push(data.join(&part.file.path));
        }
        let card = data.join(detached::card_path(&partition.folder));
        write_durably(fs, &card, &Card::of(manifest, partition).encode())?;
        written.paths.push(card);
        if !seeded::is(Bug::DetachedUnsynced) {
            fs.sync_dir(&folder).at("sync", &folder)?;
        }
    }
    Ok(())
}

fn take_out(manifest: &mut Manifest, leaving: Vec<DetachedPartition>) {
    let since = manifest.version + 1;
    let parts = leaving.iter().flat_map(|d| &d.parts);
    let leave: BTreeSet<u64> = parts.map(|p| p.id).collect();
    let (gone, kept): (Vec<PartMeta>, Vec<PartMeta>) = std::mem::take(&mut manifest.parts)
        .into_iter()
        .partition(|p| leave.contains(&p.id));
    manifest.parts = kept;
    let gone = gone.into_iter().map(|p| p.file.path);
    manifest
        .pending
        .extend(gone.map(|path| Pending { path, since }));
    manifest.detached.extend(leaving);
}

fn attach(shared: &Shared, stream: &Name, (from_us, to_us): (i64, i64)) -> Result<PartitionReport> {
    shared.refuse_with_objects("attaching")?;
    shared.check_stream(stream)?;
    let _one_at_a_time = shared.parts.lock();
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    let back: Vec<&DetachedPartition> = manifest
        .detached_of(stream)
        .filter(|d| (from_us..to_us).contains(&d.partition_us))
        .collect();
    if back.is_empty() {
        return Err(Error::missing(format!(
            "no partition of {stream} in this range is detached; `logmill partition list {stream}` shows the detached ones"
        )));
    }
    for part in back.iter().flat_map(|d| &d.parts) {
        verify(shared, stream, &part.file)?;
    }
    let mut written = StagedFiles::default();
    let outcome = write_parts(shared, &back, &mut written)
        .and_then(|parts| shared.edit(|manifest| bring_back(manifest, &back, parts)));
    if let Err(error) = &outcome {
        written.discard(shared, error);
    }
    outcome?;
    shared.remove_unreferenced();
    shared.remove_folders(back.iter().copied());
    Ok(PartitionReport::of(back))
}

/// Checks that a file of the folder is as it was when it was detached, and syncs it.
fn verify(shared: &Shared, stream: &Name, file: &FileRef) -> Result<()> {
    let path = shared.data.join(&file.path);
    let synced = |()| {
        let opened = shared.fs().open_read(&path).at("open", &path)?;
        opened.sync_data().at("sync", &path)
    };
    let lost = |what: String| {
        Error::invalid(format!(
            "{}: {what}; restore the folder, or drop the partition with `logmill partition drop {stream} DATE`",
            path.display()
        ))
    };
    match file.verify(shared.fs(), &shared.data).and_then(synced) {
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
            Err(lost("the file is missing".into()))
        }
        Err(Error::Corrupt { what, .. }) => Err(lost(what)),
        other => other,
    }
}

/// Links each file under a new number among the live parts.
fn write_parts(
    shared: &Shared,
    back: &[&DetachedPartition],
    written: &mut StagedFiles,
) -> Result<Vec<PartMeta>> {
    let (fs, data) = (shared.fs(), &shared.data);
    let mut parts = Vec::new();
    let mut directories: BTreeSet<PathBuf> = BTreeSet::new();
    for partition in back {
        let within = partition.folder.strip_prefix(detached::DIR);
        let folder = format!("streams{}", within.unwrap_or_default());
        let directory = data.join(&folder);
        shared.create_dir(&directory)?;
        directories.insert(directory);
        for part in &partition.parts {
            let id = shared.new_file();
            let path = format!("{folder}/{id}.parquet");
            let file = part.file.link(fs, data, path)?;
            written.paths.push(data.join(&file.path));
            parts.push(PartMeta {
                id: id.number,
                file,
                ..part.clone()
            });
        }
    }
    for directory in &directories {
        fs.sync_dir(directory).at("sync", directory)?;
    }
    Ok(parts)
}

fn bring_back(manifest: &mut Manifest, back: &[&DetachedPartition], parts: Vec<PartMeta>) {
    let since = manifest.version + 1;
    if !seeded::is(Bug::AttachedTwice) {
        manifest.detached.retain(|d| !back.contains(&d));
        let files = back.iter().flat_map(|d| &d.parts);
        let paths = files.map(|p| p.file.path.clone());
        manifest
            .pending
            .extend(paths.map(|path| Pending { path, since }));
    }
    manifest.parts.extend(parts);
}

impl Shared {
    pub(super) fn check_stream(&self, stream: &Name) -> Result<()> {
        if self.state.lock().streams.contains_key(stream) {
            return Ok(());
        }
        Err(Error::missing(format!("there is no stream {stream}")))
    }

    /// Removes the cards and folders of partitions that no record names any more. Their parts are
    /// removed once no snapshot refers to them; a card or an empty folder that remains does no
    /// harm.
    pub(super) fn remove_folders<'a>(&self, gone: impl IntoIterator<Item = &'a DetachedPartition>) {
        for partition in gone {
            let card = self.data.join(detached::card_path(&partition.folder));
            let _ignored = self.fs().remove(&card);
            let _ignored = self.fs().remove_dir(&self.data.join(&partition.folder));
        }
    }
}

#[cfg(test)]
mod tests;
