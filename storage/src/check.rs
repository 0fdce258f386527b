//! Check: reads every file that the manifest names and compares it with the manifest.
//!
//! Opening the store for reading checks manifest and journal, and refuses damaged ones. This
//! module checks the files, and both copies of the manifest, since one is enough to open the
//! store. It changes nothing, and one damaged file does not hide the next. The folder of a
//! detached partition may have been moved away: the check reports it, but not as damage.

use std::path::PathBuf;

use arrow::array::{Array, RecordBatch, TimestampMicrosecondArray, UInt64Array};
use bytes::Bytes;

use crate::access_file;
use crate::detached::{self, Card};
use crate::env::IoContext;
use crate::error::Error;
use crate::manifest::{self, DetachedPartition, PartMeta, TileFile};
use crate::memtable::column;
use crate::model::{ColumnType, Name, SEQ, TIME};
use crate::part::read_part;
use crate::rollup_hook::Section;
use crate::snapshot::Snapshot;

/// Result of a check.
#[derive(Debug, Clone, Default)]
pub struct CheckReport {
    /// Number of files read.
    pub files: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// Number of events in parts.
    pub events: u64,
    /// Damaged files, each with a description of its damage.
    pub damage: Vec<(PathBuf, String)>,
    /// True when both copies of the manifest are as they were written.
    pub manifest_is_whole: bool,
    /// Folders of detached partitions that are missing: an operator has moved them away.
    pub away: Vec<PathBuf>,
}

/// Reads every file of a snapshot's manifest and compares it with the manifest.
pub fn check(snapshot: &Snapshot) -> CheckReport {
    let mut report = CheckReport::default();
    let manifest = snapshot.manifest();
    match manifest::damaged(&*snapshot.fs, snapshot.data_dir()) {
        Ok(damaged) => {
            let damaged = damaged.into_iter().map(|d| (d.path, d.what));
            report.damage.extend(damaged);
        }
        Err(error) => {
            let dir = snapshot.data_dir().join(manifest::DIR);
            report.damage.push((dir, error.to_string()));
        }
    }
    report.manifest_is_whole = report.damage.is_empty();
    if let Err(error) = access_file::read(&*snapshot.fs, snapshot.data_dir()) {
        let path = snapshot.data_dir().join(access_file::FILE);
        report.damage.push((path, error.to_string()));
    }
    for part in &manifest.parts {
        report.check_part(snapshot, part);
    }
    for file in manifest.tiles.iter().flat_map(|t| &t.files) {
        report.read(snapshot, &file.file, |_, bytes| check_tile(file, bytes));
    }
    for file in &manifest.identities {
        report.read(snapshot, file, |_, bytes| {
            let read = crate::identity::decode(snapshot.data_dir(), file, bytes);
            read.map(|_| ()).map_err(|e| e.to_string())
        });
    }
    for partition in &manifest.detached {
        report.check_detached(snapshot, partition);
    }
    report
}

/// Reads every part of a stream and compares it with the manifest. Returns the number of events in
/// sound parts, and the damaged files, each with a description of its damage.
pub fn check_stream(snapshot: &Snapshot, stream: &Name) -> (u64, Vec<(PathBuf, String)>) {
    let mut report = CheckReport::default();
    for part in snapshot.manifest().parts_of(stream) {
        report.check_part(snapshot, part);
    }
    (report.events, report.damage)
}

impl CheckReport {
    fn check_part(&mut self, snapshot: &Snapshot, part: &PartMeta) {
        self.read(snapshot, &part.file, |report, bytes| {
            check_part(part, bytes).map(|rows| report.events += rows)
        });
    }

    fn check_detached(&mut self, snapshot: &Snapshot, partition: &DetachedPartition) {
        let folder = snapshot.data_dir().join(&partition.folder);
        if !snapshot.fs.exists(&folder) {
            self.away.push(folder);
            return;
        }
        for part in &partition.parts {
            self.read(snapshot, &part.file, |_, bytes| {
                check_part(part, bytes).map(|_| ())
            });
        }
        let card = snapshot
            .data_dir()
            .join(detached::card_path(&partition.folder));
        let read = snapshot.fs.read(&card).at("read", &card);
        let damage = match read.and_then(|bytes| Card::decode(&card, &bytes)) {
            Ok(content) if content.is_of(snapshot.manifest(), partition) => return,
            Ok(_) => "its content differs from the manifest".into(),
            Err(error) => error.to_string(),
        };
        self.damage.push((card, damage));
    }

    fn read(
        &mut self,
        snapshot: &Snapshot,
        file: &crate::file::FileRef,
        check: impl FnOnce(&mut Self, &Bytes) -> Result<(), String>,
    ) {
        self.files += 1;
        self.bytes += file.len;
        let found = match snapshot.read(file) {
            Ok(bytes) => check(self, &bytes),
            Err(Error::Corrupt { what, offset, .. }) => Err(format!("at byte {offset}: {what}")),
            Err(other) => Err(other.to_string()),
        };
        if let Err(what) = found {
            self.damage
                .push((snapshot.data_dir().join(&file.path), what));
        }
    }
}

/// Checks that a tile's file holds every section that the manifest names.
pub(crate) fn check_tile(file: &TileFile, bytes: &Bytes) -> Result<(), String> {
    let end = |s: &Section| s.offset.saturating_add(s.len);
    match file.sections.iter().find(|s| end(s) > bytes.len() as u64) {
        None => Ok(()),
        Some(s) => Err(format!(
            "a section of level {} ends past the end of the file",
            s.level
        )),
    }
}

/// Checks a part against the manifest and returns the number of its rows.
pub(crate) fn check_part(part: &PartMeta, bytes: &Bytes) -> Result<u64, String> {
    let batches = read_part(bytes.clone(), None).map_err(|e| e.to_string())?;
    let (mut rows, mut seq, mut time) = (0, (u64::MAX, 0), (i64::MAX, i64::MIN));
    for batch in &batches {
        if !has_own_columns(batch) {
            return Err(format!(
                "column {TIME} or {SEQ} is missing or has the wrong type"
            ));
        }
        rows += batch.num_rows() as u64;
        let seqs: &UInt64Array = column(batch, SEQ);
        let times: &TimestampMicrosecondArray = column(batch, TIME);
        if seqs.null_count() + times.null_count() > 0 {
            return Err("an event has no time or no sequence number".into());
        }
        for s in seqs.values() {
            seq = (seq.0.min(*s), seq.1.max(*s));
        }
        for t in times.values() {
            time = (time.0.min(*t), time.1.max(*t));
        }
    }
    if (rows, seq, time) != (part.rows, part.seq, part.time) {
        return Err(format!(
            "it holds {rows} events, sequence {seq:?}, time {time:?}; the manifest says {}, {:?}, {:?}",
            part.rows, part.seq, part.time
        ));
    }
    Ok(rows)
}

pub(crate) fn has_own_columns(batch: &RecordBatch) -> bool {
    let wanted = [(TIME, ColumnType::Time), (SEQ, ColumnType::Uint64)];
    wanted.iter().all(|(name, of)| {
        let found = batch.column_by_name(name);
        found.is_some_and(|c| ColumnType::of(c.data_type()) == Some(*of))
    })
}

#[cfg(test)]
mod tests;
