//! Check: read everything that the manifest names and hold it against what the manifest says.
//!
//! Manifest and journal are checked by opening the store for reading, which refuses what is damaged;
//! here follow both places of the manifest, of which one is enough to open, and the files. Nothing
//! is changed, and one damaged file does not hide the next. The folder of a detached partition may
//! have been carried away: that is told and is no damage.

use std::path::PathBuf;

use arrow::array::{Array, RecordBatch, TimestampMicrosecondArray, UInt64Array};
use bytes::Bytes;

use crate::detached::{self, Card};
use crate::env::IoContext;
use crate::error::Error;
use crate::manifest::{self, DetachedPartition, PartMeta, TileFile};
use crate::memtable::column;
use crate::model::{ColumnType, SEQ, TIME};
use crate::part::read_part;
use crate::rollup_hook::Section;
use crate::snapshot::Snapshot;

/// What a check found.
#[derive(Debug, Clone, Default)]
pub struct CheckReport {
    /// Files read.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Events found in parts.
    pub events: u64,
    /// What is damaged, file by file, in words.
    pub damage: Vec<(PathBuf, String)>,
    /// Both places of the manifest are as they were written.
    pub manifest_is_whole: bool,
    /// Folders of detached partitions that are not where they were detached to.
    pub away: Vec<PathBuf>,
}

/// Reads every file of a snapshot's manifest.
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
    for part in &manifest.parts {
        report.read(snapshot, &part.file, |report, bytes| {
            check_part(part, bytes).map(|rows| report.events += rows)
        });
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
        report.look_at_detached(snapshot, partition);
    }
    report
}

impl CheckReport {
    fn look_at_detached(&mut self, snapshot: &Snapshot, partition: &DetachedPartition) {
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
        let said = match read.and_then(|bytes| Card::decode(&card, &bytes)) {
            Ok(said) if said.is_of(snapshot.manifest(), partition) => return,
            Ok(_) => "it says something else than the manifest".into(),
            Err(error) => error.to_string(),
        };
        self.damage.push((card, said));
    }

    fn read(
        &mut self,
        snapshot: &Snapshot,
        file: &crate::file::FileRef,
        look: impl FnOnce(&mut Self, &Bytes) -> Result<(), String>,
    ) {
        self.files += 1;
        self.bytes += file.len;
        let found = match snapshot.read(file) {
            Ok(bytes) => look(self, &bytes),
            Err(Error::Corrupt { what, offset, .. }) => Err(format!("at byte {offset}: {what}")),
            Err(other) => Err(other.to_string()),
        };
        if let Err(what) = found {
            self.damage
                .push((snapshot.data_dir().join(&file.path), what));
        }
    }
}

/// Whether a tile's file holds every section that the manifest names.
pub(crate) fn check_tile(file: &TileFile, bytes: &Bytes) -> Result<(), String> {
    let end = |s: &Section| s.offset.saturating_add(s.len);
    match file.sections.iter().find(|s| end(s) > bytes.len() as u64) {
        None => Ok(()),
        Some(s) => Err(format!(
            "a section of level {} lies beyond its end",
            s.level
        )),
    }
}

/// The rows of a part, when they are as the manifest says.
pub(crate) fn check_part(part: &PartMeta, bytes: &Bytes) -> Result<u64, String> {
    let batches = read_part(bytes.clone(), None).map_err(|e| e.to_string())?;
    let (mut rows, mut seq, mut time) = (0, (u64::MAX, 0), (i64::MAX, i64::MIN));
    for batch in &batches {
        if !has_own_columns(batch) {
            return Err(format!("it has no columns {TIME} and {SEQ} of their types"));
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
