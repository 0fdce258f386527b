//! Parts in the rebuild of a manifest: live ones, detached ones, and the rows of those that cannot
//! stay as they are.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, BooleanArray, RecordBatch, TimestampMicrosecondArray, UInt64Array};
use arrow::compute::{
    SortOptions, concat_batches, filter_record_batch, sort_to_indices, take_record_batch,
};
use bytes::Bytes;

use super::{Rebuilder, files};
use crate::check::has_own_columns;
use crate::detached::{self, Card};
use crate::env::IoContext;
use crate::error::Result;
use crate::file::FileRef;
use crate::file_id::FileId;
use crate::manifest::{DetachedPartition, PartMeta};
use crate::memtable::{Chunk, column};
use crate::model::{Name, SEQ, TIME};
use crate::part::{self, Bounds};

/// A readable part file; its stream and partition follow from its path.
struct PartFile {
    id: FileId,
    path: String,
    bytes: Bytes,
    rows: Vec<RecordBatch>,
}

/// Parts by stream and partition folder.
pub(super) type Places = BTreeMap<(Name, String), Vec<(FileId, String)>>;

impl Rebuilder<'_> {
    /// Takes every part that can be read. `from` is the first sequence number of the journal.
    pub(super) fn take_parts(&mut self, from: u64, cards: &BTreeMap<String, Card>) -> Result<()> {
        let mut places = Places::new();
        for path in files(self.fs, &self.data.join("streams"))? {
            let path = self.relative(&path);
            let words: Vec<&str> = path.split('/').collect();
            let ["streams", stream, folder, file] = words[..] else {
                continue;
            };
            let id = file.strip_suffix(".parquet").and_then(FileId::parse);
            if let (Ok(stream), Some(id)) = (Name::new(stream), id) {
                let place = (stream, folder.to_owned());
                places.entry(place).or_default().push((id, path));
            }
        }
        self.take_streams(&places, cards);
        for ((stream, folder), mut parts) in places {
            parts.sort_unstable_by_key(|(id, _)| std::cmp::Reverse(*id));
            let mut held: HashSet<u64> = HashSet::new();
            for (id, path) in parts {
                if let Some(part) = self.read_part(id, path) {
                    self.take_part(&stream, &folder, part, &mut held)?;
                }
            }
            self.end_seq = held.iter().fold(self.end_seq, |end, seq| end.max(seq + 1));
            self.recent
                .extend(held.into_iter().filter(|seq| *seq >= from));
        }
        Ok(())
    }

    fn read_part(&mut self, id: FileId, path: String) -> Option<PartFile> {
        let full = self.data.join(&path);
        let read = self.fs.read(&full).at("read", &full);
        let read = read.map(Bytes::from).map_err(|e| e.to_string());
        match read.and_then(|bytes| Ok((readable(&bytes)?, bytes))) {
            Ok((rows, bytes)) => Some(PartFile {
                id,
                path,
                bytes,
                rows,
            }),
            Err(what) => {
                self.add_finding(format!("{path}: {what}; its events are lost"));
                self.draft.evidence.push(path.clone());
                self.draft.leftovers.push(path);
                None
            }
        }
    }

    /// Takes a part, or those of its rows that no other part holds.
    fn take_part(
        &mut self,
        stream: &Name,
        folder: &str,
        part: PartFile,
        held: &mut HashSet<u64>,
    ) -> Result<()> {
        let meta = self.draft.manifest.streams[stream].clone();
        let Some(rows) = in_sequence(&part.rows)? else {
            return Ok(());
        };
        let seqs = column::<UInt64Array>(&rows, SEQ).values().to_vec();
        let fresh: Vec<bool> = seqs.iter().map(|seq| held.insert(*seq)).collect();
        let count = fresh.iter().filter(|new| **new).count();
        if count == 0 {
            self.add_finding(format!("{}: another part holds all its events", part.path));
            self.draft.leftovers.push(part.path);
            return Ok(());
        }
        let whole = Arc::new(Chunk::new(&without_seq(&rows)?, seqs)?);
        let partition_us = part::partition_start(meta.partition, whole.time.0);
        let one_place = partition_us == part::partition_start(meta.partition, whole.time.1)
            && part::partition_folder(meta.partition, partition_us) == folder;
        let order: Vec<u64> = part
            .rows
            .iter()
            .flat_map(|batch| column::<UInt64Array>(batch, SEQ).values().to_vec())
            .collect();
        // A writer that stopped before its commit may have used the number of a later file.
        let differs = |p: &PartMeta| p.id != part.id.number;
        let is_new = self.draft.manifest.parts.iter().all(differs);
        let complete = one_place && is_new && count == order.len();
        if complete && part::order_of(&meta, &whole)? == order {
            let bounds = Bounds::of(&part.rows, &meta.order_by);
            let file = FileRef::of(part.path, &part.bytes);
            let part = bounds.part(part.id.number, stream, partition_us, file);
            self.draft.manifest.parts.push(part);
            return Ok(());
        }
        self.add_finding(format!(
            "{}: {count} of its {} events are rewritten into a new part, because another part holds the others or has its number, or its order is not the stream's",
            part.path,
            order.len()
        ));
        let rest = filter_record_batch(&whole.events, &BooleanArray::from(fresh))?;
        let seqs = column::<UInt64Array>(&rest, SEQ).values().to_vec();
        let chunk = Arc::new(Chunk::new(&without_seq(&rest)?, seqs)?);
        self.draft
            .rest
            .entry(stream.clone())
            .or_default()
            .push(vec![chunk]);
        self.draft.leftovers.push(part.path);
        Ok(())
    }

    /// Keeps detached partitions detached when none of their files is among the live ones.
    pub(super) fn take_detached(&mut self, cards: BTreeMap<String, Card>) {
        for (folder, card) in cards {
            let twin = |p: &PartMeta| detached::place(&p.file.path);
            let live: HashSet<String> = self.draft.manifest.parts.iter().map(twin).collect();
            let mut parts = card.parts;
            for part in &mut parts {
                part.file.path = format!("{folder}/{}", part.file.path);
            }
            let whole = |p: &PartMeta| p.file.verify(self.fs, self.data).is_ok();
            // A part that was attached again has another file number and is the same otherwise.
            let same = |a: &PartMeta, b: &PartMeta| {
                (&a.stream, a.partition_us, a.seq, a.rows, a.time)
                    == (&b.stream, b.partition_us, b.seq, b.rows, b.time)
            };
            let known = &self.draft.manifest.parts;
            let apart = |p: &PartMeta| {
                !live.contains(&p.file.path) && !known.iter().any(|live| same(live, p))
            };
            let ours = card.store_id == self.draft.manifest.store_id && !parts.is_empty();
            if !(ours && parts.iter().all(whole) && parts.iter().all(apart)) {
                self.add_finding(format!(
                    "{folder}: the folder stays in place but belongs to no stream any more"
                ));
                continue;
            }
            let last = parts.iter().map(|p| p.seq.1).max().unwrap_or(0);
            self.end_seq = self.end_seq.max(last + 1);
            self.draft.manifest.detached.push(DetachedPartition {
                stream: card.stream,
                partition_us: card.partition_us,
                complete_from: last + 1,
                folder,
                parts,
            });
        }
    }
}

/// Reads the rows of a part that can be read in full.
fn readable(bytes: &Bytes) -> Result<Vec<RecordBatch>, String> {
    let rows = part::read_part(bytes.clone(), None).map_err(|e| e.to_string())?;
    let sound = |batch: &RecordBatch| {
        has_own_columns(batch)
            && column::<UInt64Array>(batch, SEQ).null_count() == 0
            && column::<TimestampMicrosecondArray>(batch, TIME).null_count() == 0
    };
    match rows.iter().all(sound) {
        true => Ok(rows),
        false => Err(format!(
            "column {TIME} or {SEQ} is missing, has the wrong type or contains nulls"
        )),
    }
}

/// Returns the rows of a part in the order of their sequence numbers; `None` for an empty part.
fn in_sequence(batches: &[RecordBatch]) -> Result<Option<RecordBatch>> {
    let Some(first) = batches.first() else {
        return Ok(None);
    };
    let all = concat_batches(&first.schema(), batches)?;
    if all.num_rows() == 0 {
        return Ok(None);
    }
    let seqs = all.column_by_name(SEQ).expect("BUG: it was looked for");
    let order = sort_to_indices(seqs, Some(SortOptions::default()), None)?;
    Ok(Some(take_record_batch(&all, &order)?))
}

fn without_seq(rows: &RecordBatch) -> Result<RecordBatch> {
    let kept: Vec<usize> = (0..rows.num_columns())
        .filter(|i| rows.schema_ref().field(*i).name() != SEQ)
        .collect();
    Ok(rows.project(&kept)?)
}
