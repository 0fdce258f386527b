//! Repair: discards damaged data that cannot be recovered, reports exactly what it discarded, and
//! keeps the evidence.
//!
//! Order: copies of all damaged files and a report are written to `damaged/<seconds>/`; an edit
//! commits the epoch of the new files' names (`file_id.rs`); the salvaged journal is written to a
//! new segment, and tiles that can be recomputed from raw events to new files; then one manifest
//! edit commits. A crash before that edit leaves the store unchanged but for its epoch, and
//! repair can be run again.
//! When one of the two manifest folders is damaged, the other counts, and the edit writes both.
//! When both are damaged, the manifest is rebuilt from the files (`rebuild`).
//!
//! # Invariant
//! No sequence number is assigned twice. It is unknown how many were assigned in the lost part of
//! the journal, so numbers continue [`GAP`] past the last known one.

mod rebuild;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::check::{check_part, check_tile};
use crate::env::{Fs, IoContext};
use crate::error::{Error, Result};
use crate::file::{FileRef, create_dir_durably, write_durably};
use crate::identity;
use crate::job_log::{Job, JobLog, Said};
use crate::journal::{self, Group, Journal, Salvage, salvage};
use crate::manifest::{self, Committed, Found, Manifest, PartMeta, Pending, TileFile};
use crate::objects;
use crate::record::Record;
use crate::recover::recover;
use crate::rollup_hook::{RollupHook, RollupMeta};
use crate::seeded::{self, Bug};
use crate::snapshot::Snapshot;
use crate::store::{LevelRebuild, Options, take_lock};

const DIR: &str = "damaged";
/// Upper bound of the sequence numbers in a lost journal. A journal holds the unsealed events, a
/// few memtables at most, in which each event takes tens of bytes. An `_id` can represent 2^48
/// numbers.
const GAP: u64 = 1 << 32;
/// Upper bound of the segments begun between two seals: no new segment gets the number of one in
/// a lost journal.
const SEGMENTS: u64 = 1 << 16;

/// Findings and losses of a repair.
#[derive(Debug, Clone, Default)]
pub struct RepairReport {
    /// Folder with copies of the damaged files and this report; `None` when nothing was damaged.
    pub evidence: Option<PathBuf>,
    /// Damages and their consequences, one sentence each.
    pub findings: Vec<String>,
    /// Events of damaged parts that are lost. The rollups still count them.
    pub events_lost: u64,
}

/// Repairs the store in `data`, which no other process may have open.
///
/// # Errors
/// [`Error::NotAStore`], [`Error::Locked`], [`Error::FormatTooNew`], [`Error::FormatUnknown`], or
/// an error of the disk; the store is unchanged then.
pub fn repair(data: &Path, options: &Options) -> Result<RepairReport> {
    let fs = &*options.fs;
    if manifest::newest_version(fs, data)?.is_none()
        && let error @ Error::NotAStore { .. } = manifest::absent(fs, data)
    {
        return Err(error);
    }
    let remedy = "start in an empty directory with --take-over, which leaves the unsealed events of this one behind";
    objects::refuse_marked(fs, data, ("a repair", remedy))?;
    let _lock = take_lock(fs, data)?;
    match manifest::find_newest(fs, data) {
        Ok(Some(found)) => repair_files(data, options, found),
        Ok(None) | Err(Error::Corrupt { .. }) => repair_manifest(data, options),
        Err(Error::Io { source, .. }) if is_lost(&source) => repair_manifest(data, options),
        Err(error) => Err(error),
    }
}

/// Returns true when a file is missing or the disk cannot read it; other errors may be temporary.
fn is_lost(error: &std::io::Error) -> bool {
    const EIO: i32 = 5;
    error.kind() == std::io::ErrorKind::NotFound || error.raw_os_error() == Some(EIO)
}

/// Repairs a store by rebuilding its manifest from its files.
fn repair_manifest(data: &Path, options: &Options) -> Result<RepairReport> {
    let fs = &*options.fs;
    let mut found = rebuild::rebuild(data, options)?;
    let base = Committed {
        manifest: Arc::new(found.manifest.clone()),
        crc: 0,
        tag: None,
    };
    let mut repair = Repair {
        fs: Arc::clone(&options.fs),
        data,
        rollup_hook: &*options.rollup_hook,
        next: (*base.manifest).clone(),
        report: RepairReport {
            findings: std::mem::take(&mut found.findings),
            ..RepairReport::default()
        },
        evidence: std::mem::take(&mut found.evidence),
        released: Vec::new(),
    };
    repair.keep_evidence(options.clock.now_us())?;
    let leftovers = std::mem::take(&mut found.leftovers);
    let segment = found.write(fs, data)?;
    repair.next = found.manifest;
    repair
        .begin_journal(segment, repair.next.next_seq)?
        .syncer()
        .sync_written()?;
    let evidence = repair.report.evidence.clone();
    let report = repair.finish(&base, options)?;
    if let Some(folder) = evidence {
        keep_leftovers(fs, data, &folder, &leftovers);
    }
    Ok(report)
}

/// Moves files that the new manifest does not use to the evidence. A file that cannot be moved
/// goes to the trash at the next start.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing that is moved there is a file of the store any more"
)]
fn keep_leftovers(fs: &dyn Fs, data: &Path, folder: &Path, leftovers: &[String]) {
    for path in leftovers {
        let to = folder.join(path.replace('/', "+"));
        if let Err(error) = fs.rename(&data.join(path), &to) {
            tracing::warn!(path, %error, "could not move an unused file to the evidence; the next start moves it to the trash");
        }
    }
}

/// Repairs a store whose manifest is whole in at least one folder.
fn repair_files(data: &Path, options: &Options, found: Found) -> Result<RepairReport> {
    let committed = found.committed;
    let mut repair = Repair {
        fs: Arc::clone(&options.fs),
        data,
        rollup_hook: &*options.rollup_hook,
        next: (*committed.manifest).clone(),
        report: RepairReport::default(),
        evidence: Vec::new(),
        released: Vec::new(),
    };
    for damaged in manifest::damaged(&*options.fs, data)? {
        let path = damaged.path.strip_prefix(data).unwrap_or(&damaged.path);
        let what = format!("{}; rewritten from its other copy", damaged.what);
        repair.add_finding(&path.to_string_lossy(), what);
    }
    let journal = repair.check_journal()?;
    repair.check_parts();
    let tiles = repair.check_tiles();
    if repair.report.findings.is_empty() {
        return Ok(repair.report);
    }
    repair.keep_evidence(options.clock.now_us())?;
    let committed = repair.begin_epoch(&committed)?;
    if let Some(salvage) = journal {
        repair.write_journal(&salvage)?;
    }
    for (rollup, made) in tiles {
        repair.write_tiles(rollup, made)?;
    }
    repair.finish(&committed, options)
}

struct Repair<'a> {
    fs: Arc<dyn Fs>,
    data: &'a Path,
    rollup_hook: &'a dyn RollupHook,
    next: Manifest,
    report: RepairReport,
    /// Paths to copy before anything is changed, relative to the data directory.
    evidence: Vec<String>,
    /// Files that the new version does not list any more.
    released: Vec<String>,
}

impl Repair<'_> {
    fn add_finding(&mut self, path: &str, what: impl std::fmt::Display) {
        self.report.findings.push(format!("{path}: {what}"));
        self.evidence.push(path.to_owned());
    }

    /// Commits the epoch of the files that the repair writes.
    fn begin_epoch(&mut self, current: &Committed) -> Result<Committed> {
        let mut next = (*current.manifest).clone();
        next.writer_epoch += 1;
        let committed = manifest::commit(&*self.fs, self.data, Some(current), next)?;
        self.next.version = committed.manifest.version;
        self.next.writer_epoch = committed.manifest.writer_epoch;
        Ok(committed)
    }

    /// Checks checkpoints of identities and journal: discards checkpoints that cannot be read,
    /// and salvages a journal that cannot be replayed.
    fn check_journal(&mut self) -> Result<Option<Salvage>> {
        for file in std::mem::take(&mut self.next.identities) {
            let read = file.read(&*self.fs, self.data);
            match read.and_then(|bytes| identity::decode(self.data, &file, &bytes)) {
                Ok(_) => self.next.identities.push(file),
                Err(error @ Error::FormatTooNew { .. }) => return Err(error),
                Err(error) => {
                    self.add_finding(&file.path, format!("{}; its batch identities are lost: a batch that is sent again is stored a second time, and quarantined items that it listed as replayed or dropped are waiting again", error.without_advice()));
                    self.released.push(file.path);
                }
            }
        }
        let error = match recover(&*self.fs, self.data, &self.next) {
            Ok(_) => return Ok(None),
            Err(error) => error,
        };
        if let Error::FormatTooNew { .. } = error {
            return Err(error);
        }
        let mut found = salvage(
            &*self.fs,
            self.data,
            &self.next.store_id,
            self.next.journal_floor,
            self.next.sealed_seq,
        )?;
        found.groups.retain(is_readable);
        self.report.findings.push(error.without_advice());
        for hole in &found.holes {
            self.report.findings.push(format!(
                "{}: bytes {}..{} hold no readable record",
                journal::relative_path(hole.segment),
                hole.bytes.0,
                hole.bytes.1
            ));
        }
        let items: u64 = found.groups.iter().map(|g| u64::from(g.items)).sum();
        self.report.findings.push(format!(
            "{}: {items} items in {} groups are recovered into a new segment; sequence numbers continue at {}",
            journal::DIR,
            found.groups.len(),
            self.unused_seq(&found)
        ));
        let segments = found.segments.iter();
        self.evidence
            .extend(segments.map(|s| journal::relative_path(*s)));
        Ok(Some(found))
    }

    /// Returns a sequence number that was never assigned, whatever the journal has lost.
    fn unused_seq(&self, found: &Salvage) -> u64 {
        let gap = if seeded::is(Bug::GapForgotten) {
            0
        } else {
            GAP
        };
        found.next_seq().max(self.next.next_seq) + gap
    }

    /// Discards parts that cannot be read.
    fn check_parts(&mut self) {
        for part in std::mem::take(&mut self.next.parts) {
            let read = part.file.read(&*self.fs, self.data);
            let sound = read
                .map_err(|e| e.without_advice())
                .and_then(|bytes| check_part(&part, &bytes));
            match sound {
                Ok(_) => self.next.parts.push(part),
                Err(what) => self.drop_part(part, &what),
            }
        }
    }

    fn drop_part(&mut self, part: PartMeta, what: &str) {
        self.add_finding(
            &part.file.path,
            format!(
                "{what}; its {} events of {}, sequence {} to {}, are lost; the rollups still count them",
                part.rows, part.stream, part.seq.0, part.seq.1
            ),
        );
        self.report.events_lost += part.rows;
        if let Some(stream) = self.next.streams.get_mut(&part.stream) {
            stream.lose(part.partition_us, part.seq.1 + 1, part.rows);
        }
        self.released.push(part.file.path);
    }

    /// Recomputes the sections of unreadable tile files from the raw events, when all of these
    /// still exist.
    fn check_tiles(&mut self) -> Vec<(u32, LevelRebuild)> {
        let sealed = Arc::new(self.next.clone());
        let sealed = Snapshot::of_manifest(Arc::clone(&self.fs), self.data, sealed);
        let mut again = Vec::new();
        for rollup in &sealed.manifest().rollups {
            let mut made: BTreeMap<(String, i64), Result<LevelRebuild, String>> = BTreeMap::new();
            let tiles = sealed.manifest().tiles_of(rollup.id);
            for file in tiles.flat_map(|t| &t.files) {
                let Some(what) = self.tile_damage(file) else {
                    continue;
                };
                let mut outcome = "rebuilt from the raw events".to_owned();
                for section in &file.sections {
                    let place = (section.level.clone(), section.partition_us);
                    let made = made.entry(place).or_insert_with_key(|(level, at)| {
                        self.recompute(&sealed, rollup, level, *at)
                    });
                    if let Err(why) = made {
                        outcome = format!("not rebuilt, it stays damaged: {why}");
                    }
                }
                self.add_finding(&file.file.path, format!("{what}; {outcome}"));
            }
            let made = made.into_values().filter_map(Result::ok);
            again.extend(made.map(|made| (rollup.id, made)));
        }
        again
    }

    fn recompute(
        &self,
        sealed: &Snapshot,
        rollup: &RollupMeta,
        level: &str,
        partition_us: i64,
    ) -> Result<LevelRebuild, String> {
        let made = LevelRebuild::of(self.rollup_hook, sealed, rollup, level, partition_us);
        let made = made.map_err(|e| e.to_string())?;
        made.lacks().map_or(Ok(made), Err)
    }

    fn tile_damage(&self, file: &TileFile) -> Option<String> {
        let read = file.file.read(&*self.fs, self.data);
        let sound = read
            .map_err(|e| e.without_advice())
            .and_then(|bytes| check_tile(file, &bytes));
        sound.err()
    }

    fn keep_evidence(&mut self, now_us: i64) -> Result<()> {
        let now_s = now_us.div_euclid(1_000_000);
        let folder = self.data.join(format!("{DIR}/{now_s:012}"));
        create_dir_durably(&*self.fs, self.data, &folder)?;
        for path in &self.evidence {
            // A file that cannot be read at all cannot be copied; the report lists it.
            if let Ok(bytes) = self.fs.read(&self.data.join(path)) {
                write_durably(&*self.fs, &folder.join(path.replace('/', "+")), &bytes)?;
            }
        }
        let mut text = format!(
            "repair of {} with --accept-loss\nmanifest version {}\n\n",
            self.data.display(),
            self.next.version
        );
        for finding in &self.report.findings {
            let _ignored = writeln!(text, "{finding}");
        }
        write_durably(&*self.fs, &folder.join("report.txt"), text.as_bytes())?;
        self.fs.sync_dir(&folder).at("sync", &folder)?;
        self.report.evidence = Some(folder);
        Ok(())
    }

    /// Writes the salvaged journal to a segment after all others, which becomes the floor.
    fn write_journal(&mut self, found: &Salvage) -> Result<()> {
        let first_seq = found
            .groups
            .first()
            .map_or(self.next.sealed_seq, |g| g.first_seq);
        // Use a number past every earlier segment, including lost ones.
        let lost = self.next.journal_floor + SEGMENTS;
        let last = found.last_segment().unwrap_or(lost).max(lost);
        let next_seq = self.unused_seq(found);
        let mut journal = self.begin_journal(last, first_seq)?;
        for group in &found.groups {
            let payloads: Vec<Vec<u8>> = group.records.iter().map(|r| r.to_vec()).collect();
            journal.append(group.first_seq, u64::from(group.items), &payloads)?;
        }
        journal.syncer().sync_written()?;
        for segment in &found.segments {
            self.released.push(journal::relative_path(*segment));
        }
        self.next.next_seq = next_seq;
        Ok(())
    }

    /// Begins a segment after the one of this number; the new segment becomes the floor.
    fn begin_journal(&mut self, last: u64, first_seq: u64) -> Result<Journal> {
        create_dir_durably(&*self.fs, self.data, &self.data.join(journal::DIR))?;
        let journal = Journal::begin(
            Arc::clone(&self.fs),
            self.data,
            &self.next.store_id,
            self.next.writer_epoch.into(),
            journal::Previous {
                segment: last,
                ..journal::Previous::default()
            },
            first_seq,
        )?;
        self.next.journal_floor = journal.segment();
        self.next.clean = false;
        Ok(journal)
    }

    fn write_tiles(&mut self, rollup: u32, made: LevelRebuild) -> Result<()> {
        let known = self.next.rollups.iter().find(|r| r.id == rollup);
        let name = known.expect("BUG: it is of this manifest").name.clone();
        let folder = self.data.join(format!("rollups/{name}"));
        create_dir_durably(&*self.fs, self.data, &folder)?;
        let mut files = Vec::new();
        for image in made.images {
            let path = format!("rollups/{name}/{}.tile", self.next.new_file());
            let file = FileRef::write_new(&*self.fs, self.data, path, &image.bytes)?;
            let sections = image.sections;
            files.push(TileFile { file, sections });
        }
        self.fs.sync_dir(&folder).at("sync", &folder)?;
        self.next.replace_sections(rollup, &made.gone, files);
        Ok(())
    }

    /// Commits, and records the repair in the job log.
    fn finish(mut self, current: &Committed, options: &Options) -> Result<RepairReport> {
        let log = JobLog::of(
            Arc::clone(&options.fs),
            Arc::clone(&options.clock),
            self.data,
            options.config.keeps_log,
        );
        let run = log.begin(Job::Repair, None, "requested by an operator");
        let since = current.manifest.version + 1;
        let released = self.released.into_iter();
        let released = released.map(|path| Pending { path, since });
        self.next.pending.extend(released);
        manifest::commit(&*options.fs, self.data, Some(current), self.next)?;
        run.done(Said {
            what: format!(
                "repaired {} findings; {} events are lost",
                self.report.findings.len(),
                self.report.events_lost
            ),
            ..Said::default()
        });
        Ok(self.report)
    }
}

/// Checks whether the records of a group can be read and are as many as its head counts.
fn is_readable(group: &Group) -> bool {
    let records = group.records.iter().map(|r| Record::decode(r).ok());
    let items: Option<u64> = records.map(|r| Some(r?.items())).sum();
    items == Some(u64::from(group.items))
}

#[cfg(test)]
mod tests;
