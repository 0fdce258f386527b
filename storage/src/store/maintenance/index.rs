//! Indexes: the set of wanted ones, and their construction in the background.
//!
//! # Invariants
//! * No request waits for an index. A part is indexed under one background permit, which is
//!   passed on every few thousand rows.
//! * Indexing comes after compaction: it stops as soon as the manifest changes, and continues
//!   after the next compaction.
//! * Files that belong to no wanted index of a live part are removed. (A reader of an older
//!   snapshot scans instead.)
//! * The newest partitions come first: they are queried most.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::env::IoContext;
use crate::error::{Error, Result};
use crate::file::{create_dir_durably, write_durably};
use crate::index::{self, IndexKind, IndexName};
use crate::job_log::{Job, Running, Said};
use crate::manifest::PartMeta;
use crate::model::{ID, Name, REST, SEQ, StreamKind, TIME};
use crate::snapshot::Snapshot;
use crate::store::Shared;
use crate::store::pace::{Pace, wait_for_others};
use crate::store::shared::IndexState;

/// Approximate maximum of an index's bytes for each row; twice as much must be free on the disk.
const ROW_BYTES_MAX: u64 = 16;

/// Disk space that building a covering index takes, as a multiple of its part: for the sorted
/// pieces, and for the merged file.
const COVERING_TIMES: u64 = 3;

/// Result of building indexes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexReport {
    /// Indexes built: one for each part and column.
    pub parts: usize,
    /// Rows of these parts.
    pub rows: u64,
    /// Bytes of the parts read.
    pub bytes_read: u64,
    /// Bytes of the indexes.
    pub bytes_written: u64,
    /// Index files removed because they belonged to no wanted index.
    pub removed: usize,
}

/// Reads the indexes wanted before and adds those of the configuration.
pub(in crate::store) fn open(shared: &Shared) -> Result<()> {
    let mut wanted = index::read_wanted(shared.fs(), &shared.data);
    let known = wanted.clone();
    for name in shared.options.config.indexes() {
        // The configuration overrides the kind of an index that was created by hand.
        wanted.retain(|other| (&other.stream, &other.field) != (&name.stream, &name.field));
        wanted.insert(name);
    }
    if wanted != known {
        index::write_wanted(shared.fs(), &shared.data, &wanted)?;
    }
    shared.indexes.lock().wanted = wanted;
    Ok(())
}

pub(super) fn create(shared: &Shared, stream: &Name, field: &str, kind: IndexKind) -> Result<bool> {
    {
        let state = shared.state.lock();
        let meta = state.streams.get(stream);
        let meta = meta.ok_or_else(|| Error::missing(format!("there is no stream {stream}")))?;
        index::suits(meta, field).map_err(|why| match why == index::NO_COLUMN {
            true => Error::missing(cannot_be(stream, field, &why)),
            false => unsuited(stream, field, &why),
        })?;
    }
    add(shared, stream, field, kind)
}

/// Creates an index of a column that may not be there yet.
pub(super) fn want(shared: &Shared, stream: &Name, field: &str, kind: IndexKind) -> Result<bool> {
    if [ID, REST, SEQ, TIME].contains(&field) {
        return Err(unsuited(stream, field, "it is a column of the store's own"));
    }
    {
        let state = shared.state.lock();
        // Only documents bring columns.
        let meta = state
            .streams
            .get(stream)
            .filter(|meta| meta.kind != StreamKind::Documents || meta.column_type(field).is_some());
        if let Some(meta) = meta {
            index::suits(meta, field).map_err(|why| unsuited(stream, field, &why))?;
        }
    }
    add(shared, stream, field, kind)
}

fn unsuited(stream: &Name, field: &str, why: &str) -> Error {
    Error::invalid(cannot_be(stream, field, why))
}

fn cannot_be(stream: &Name, field: &str, why: &str) -> String {
    format!("{field:?} of {stream} cannot be indexed: {why}")
}

fn add(shared: &Shared, stream: &Name, field: &str, kind: IndexKind) -> Result<bool> {
    let name = IndexName {
        stream: stream.clone(),
        field: field.to_owned(),
        kind,
    };
    let changed = change(shared, |wanted| match of_column(wanted, stream, field) {
        Some(other) if other.kind != kind => Err(Error::invalid(format!(
            "the index {name} already exists and is {}; drop it first",
            other.kind
        ))),
        _ => Ok(wanted.insert(name)),
    })?;
    shared.request_maintenance();
    Ok(changed)
}

pub(super) fn drop(shared: &Shared, stream: &Name, field: &str) -> Result<()> {
    change(shared, |wanted| {
        let Some(name) = of_column(wanted, stream, field) else {
            return Err(Error::missing(format!(
                "there is no index on {field:?} of {stream}"
            )));
        };
        if shared.options.config.indexes().any(|known| known == name) {
            let key = match name.kind {
                IndexKind::Inverted => "indexes",
                IndexKind::Covering => "covering",
            };
            return Err(Error::invalid(format!(
                "the index {name} is configured in [stream.{stream}] {key}; remove it there first"
            )));
        }
        Ok(wanted.remove(&name))
    })?;
    let mut indexes = shared.indexes.lock();
    remove_unwanted(shared, &mut indexes).map(|_| ())
}

/// Returns the index of a column, of which there is one at most.
fn of_column(wanted: &BTreeSet<IndexName>, stream: &Name, field: &str) -> Option<IndexName> {
    let of_it = |name: &&IndexName| name.stream == *stream && name.field == field;
    wanted.iter().find(of_it).cloned()
}

fn change(
    shared: &Shared,
    change: impl FnOnce(&mut BTreeSet<IndexName>) -> Result<bool>,
) -> Result<bool> {
    let mut indexes = shared.indexes.lock();
    let mut wanted = indexes.wanted.clone();
    let changed = change(&mut wanted)?;
    if changed {
        index::write_wanted(shared.fs(), &shared.data, &wanted)?;
        indexes.wanted = wanted;
    }
    Ok(changed)
}

/// Removes files that belong to no wanted index of a live part, and at the first call damaged
/// ones too. Returns the remaining files, and the number of those removed.
fn remove_unwanted(shared: &Shared, indexes: &mut IndexState) -> Result<(BTreeSet<String>, usize)> {
    let (fs, data) = (shared.fs(), &shared.data);
    let mut files = index::files(fs, data)?;
    if files.is_empty() {
        return Ok((files, 0));
    }
    let sealed = shared.sealed(&shared.state.lock());
    let mut kept = BTreeSet::new();
    for name in &indexes.wanted {
        for part in sealed.manifest.parts_of(&name.stream) {
            let is_there = files.contains(&index::place(part, name));
            if is_there && (indexes.verified || index::is_sound(&sealed, part, name)) {
                kept.extend(index::places(part, name));
            }
        }
    }
    indexes.verified = true;
    let unwanted: Vec<String> = files.difference(&kept).cloned().collect();
    for place in &unwanted {
        let path = data.join(place);
        fs.remove(&path).at("remove", &path)?;
        files.remove(place);
    }
    Ok((files, unwanted.len()))
}

/// Removes the index files of parts that the store has no more.
pub(super) fn remove_files(shared: &Shared) -> Result<()> {
    let _one_at_a_time = shared.indexing.lock();
    remove_unwanted(shared, &mut shared.indexes.lock()).map(|_| ())
}

/// Builds the wanted indexes that are missing, for maintenance and for `logmill index create`.
/// Returns a report, and whether more remains to do.
pub(super) fn build(shared: &Shared, pace: Pace) -> Result<(IndexReport, bool)> {
    let _one_at_a_time = shared.indexing.lock();
    let mut report = IndexReport::default();
    let files = {
        let mut indexes = shared.indexes.lock();
        let (files, removed) = remove_unwanted(shared, &mut indexes)?;
        report.removed = removed;
        files
    };
    let begun = shared.sealed(&shared.state.lock());
    index::covering::clear(shared.fs(), &shared.data)?;
    let waiting = waiting(shared, &begun, &files);
    if waiting.is_empty() {
        return Ok((report, false));
    }
    let why = "parts of a stream lack an index that was created or configured";
    let work = |run: &Running| {
        let mut build = IndexBuild {
            shared,
            pace,
            run,
            parts: waiting.len(),
            report,
        };
        let has_more = build.build_all(&begun, &waiting)?;
        Ok((build.report, has_more))
    };
    shared.run_job(Job::BuildIndex, None, why, work, |(report, _)| {
        (report.parts > 0).then(|| report.said())
    })
}

/// Returns the parts that lack a wanted index, the newest partitions first.
fn waiting<'a>(
    shared: &Shared,
    sealed: &'a Snapshot,
    files: &BTreeSet<String>,
) -> Vec<(&'a PartMeta, IndexName)> {
    let rows_min = shared.options.config.index_rows_min;
    let indexes = shared.indexes.lock();
    let mut waiting = Vec::new();
    for name in &indexes.wanted {
        let IndexName { stream, field, .. } = name;
        let Some(meta) = sealed.manifest.streams.get(stream) else {
            continue;
        };
        if let Err(why) = index::suits(meta, field) {
            tracing::debug!(%stream, ?field, %why, "an index cannot be built");
            continue;
        }
        let fits = |p: &&PartMeta| p.rows >= rows_min && u32::try_from(p.rows).is_ok();
        let parts = sealed.manifest.parts.iter();
        for part in parts.filter(|p| p.stream == *stream).filter(fits) {
            let is_skipped = indexes.skipped.contains(&(part.id, field.clone()));
            if !is_skipped && !files.contains(&index::place(part, name)) {
                waiting.push((part, name.clone()));
            }
        }
    }
    waiting.sort_by_key(|(part, _)| Reverse((part.partition_us, part.id)));
    waiting
}

struct IndexBuild<'a> {
    shared: &'a Shared,
    pace: Pace,
    run: &'a Running,
    parts: usize,
    report: IndexReport,
}

impl IndexBuild<'_> {
    /// Builds the indexes one by one. Returns whether more remains to do.
    fn build_all(&mut self, begun: &Snapshot, waiting: &[(&PartMeta, IndexName)]) -> Result<bool> {
        let shared = self.shared;
        let mut first_error = None;
        for (part, name) in waiting {
            let sealed = {
                let state = shared.state.lock();
                if state.closing {
                    return Ok(false);
                }
                shared.sealed(&state)
            };
            if self.pace == Pace::Background && sealed.manifest.version != begun.manifest.version {
                return Ok(true);
            }
            match self.build_one(begun, part, name) {
                Ok(()) => {}
                Err(Error::Closed) => return Ok(false),
                // This part is damaged; the others are not.
                Err(error @ (Error::Corrupt { .. } | Error::Parquet { .. })) => {
                    shared
                        .indexes
                        .lock()
                        .skipped
                        .insert((part.id, name.field.clone()));
                    first_error.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
            self.run
                .progress(self.report.parts as u64, Some(self.parts as u64));
        }
        first_error.map_or(Ok(false), Err)
    }

    fn build_one(&mut self, sealed: &Snapshot, part: &PartMeta, name: &IndexName) -> Result<()> {
        let (shared, data) = (self.shared, &self.shared.data);
        let free = shared.fs().space(data).at("measure", data)?.free;
        let needed = match name.kind {
            IndexKind::Inverted => part.rows * ROW_BYTES_MAX,
            IndexKind::Covering => part.file.len * COVERING_TIMES,
        };
        if free / 2 < needed {
            return Err(Error::DiskFull { path: data.clone() });
        }
        let permit = shared.background_permits.acquire();
        let pause = || permit.pass(|| wait_for_others(shared, self.pace));
        let written = match name.kind {
            IndexKind::Inverted => self.inverted(sealed, part, &name.field, &pause)?,
            IndexKind::Covering => {
                let (fs, field) = (shared.fs(), &name.field);
                Some(index::covering::build(fs, sealed, part, field, &pause)?)
            }
        };
        let Some(bytes) = written else {
            let column = (part.id, name.field.clone());
            shared.indexes.lock().skipped.insert(column);
            return Ok(());
        };
        self.report.parts += 1;
        self.report.rows += part.rows;
        self.report.bytes_read += part.file.len;
        self.report.bytes_written += bytes;
        Ok(())
    }

    /// Builds an inverted index and returns its length in bytes; `None` when the values have
    /// none.
    fn inverted(
        &self,
        sealed: &Snapshot,
        part: &PartMeta,
        field: &str,
        pause: &dyn Fn() -> Result<()>,
    ) -> Result<Option<u64>> {
        let (fs, data) = (self.shared.fs(), &self.shared.data);
        let Some(bytes) = index::build(sealed, part, field, pause)? else {
            return Ok(None);
        };
        let path = data.join(index::at(part, field, "index"));
        let dir = path.parent().expect("BUG: an index lies in a folder");
        // The folder may have been removed by hand.
        create_dir_durably(fs, data, dir)?;
        write_durably(fs, &path, &bytes)?;
        Ok(Some(bytes.len() as u64))
    }
}

impl IndexReport {
    fn said(&self) -> Said {
        let Self { parts, rows, .. } = self;
        Said {
            what: format!("indexed a column of {parts} parts: {rows} rows"),
            done: Some(*parts as u64),
            total: Some(*parts as u64),
            bytes_read: None,
            bytes_written: Some(self.bytes_written),
        }
    }
}

#[cfg(test)]
mod tests;
