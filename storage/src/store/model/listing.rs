//! A rollup hook whose cells are the events themselves, so that the model can check each of them.

use std::collections::BTreeMap;
use std::ops::Range;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, UInt64Type};
use bytes::Bytes;

use super::seen::{DAY_US, day};
use crate::model::{Name, SEQ, StreamKind};
use crate::part::read_part;
use crate::rollup_hook::{
    BoxError, Merge, NewRollup, Partition, RollupHook, RollupMeta, Section, TileImage,
};
use crate::snapshot::Snapshot;

/// Sequence number and payload of an event.
pub(super) type Row = (u64, i64);

/// Names of the levels: one partitioned by day, and one with a single partition.
pub(super) const LEVELS: [&str; 2] = ["fine", "coarse"];

/// Retention of the fine level. The clock stands in the second of three days, so the floor is the
/// start of that day.
const KEPT_US: i64 = 0;

/// Hook that lists events: sequence number and payload, 16 bytes each.
#[derive(Debug, Default)]
pub(crate) struct Listing;

impl RollupHook for Listing {
    fn rollups_for(
        &self,
        stream: &Name,
        kind: StreamKind,
        existing: &[RollupMeta],
    ) -> Result<Vec<NewRollup>, BoxError> {
        if kind == StreamKind::Quarantine || existing.iter().any(|r| &r.stream == stream) {
            return Ok(Vec::new());
        }
        Ok(vec![NewRollup {
            name: Name::new("stats")?,
            definition: serde_json::Value::Null,
            levels: LEVELS.map(str::to_owned).into(),
            zone_data: None,
            replaces: None,
        }])
    }

    fn tiles(
        &self,
        rollups: &[&RollupMeta],
        events: &[RecordBatch],
        _: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError> {
        let rows: Vec<Row> = events.iter().flat_map(rows).collect();
        Ok(vec![image(&rows, &LEVELS); rollups.len()])
    }

    fn backfill(
        &self,
        _: &RollupMeta,
        sealed: &Snapshot,
        window: Partition,
        write: &mut dyn FnMut(TileImage) -> Result<(), BoxError>,
    ) -> Result<(), BoxError> {
        let mut rows = raw(sealed)?;
        rows.retain(|row| (window.start_us..window.end_us).contains(&row.1));
        write(image(&rows, &LEVELS))
    }

    fn day(&self, _: &RollupMeta, at_us: i64) -> Result<Partition, BoxError> {
        let start_us = day(at_us) * DAY_US;
        Ok(Partition {
            start_us,
            end_us: start_us + DAY_US,
        })
    }

    fn wants(&self, _: &RollupMeta, _: StreamKind, _: &[RollupMeta]) -> bool {
        true
    }

    fn recompute(
        &self,
        _: &RollupMeta,
        level: &str,
        partition_us: i64,
        sealed: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError> {
        let mut rows = raw(sealed)?;
        rows.retain(|row| start(level, row.1) == partition_us);
        Ok(vec![image(&rows, &[level])])
    }

    fn merge(
        &self,
        _: &RollupMeta,
        merges: &[Merge<'_>],
        sealed: &Snapshot,
    ) -> Result<Vec<TileImage>, BoxError> {
        let mut images = Vec::new();
        for merge in merges {
            let mut rows = Vec::new();
            for (file, section) in &merge.sections {
                let bytes = sealed.read(file)?;
                rows.extend(listed(&bytes, section));
            }
            images.push(image(&rows, &[merge.level]));
        }
        Ok(images)
    }

    fn partition(&self, _: &RollupMeta, level: &str, at_us: i64) -> Result<Partition, BoxError> {
        let start_us = start(level, at_us);
        let width = if level == "fine" { DAY_US } else { i64::MAX };
        Ok(Partition {
            start_us,
            end_us: start_us.saturating_add(width),
        })
    }

    fn retention(&self, _: &RollupMeta) -> BTreeMap<String, i64> {
        BTreeMap::from([("fine".to_owned(), KEPT_US)])
    }
}

/// Returns the start of a level's partition that holds this payload, which is also the event's
/// time.
fn start(level: &str, payload: i64) -> i64 {
    if level == "fine" {
        day(payload) * DAY_US
    } else {
        0
    }
}

fn image(rows: &[Row], levels: &[&str]) -> TileImage {
    let (mut bytes, mut sections) = (Vec::new(), Vec::new());
    for level in levels {
        let mut partitions: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
        for row in rows {
            let partition_us = start(level, row.1);
            partitions.entry(partition_us).or_default().push(*row);
        }
        for (partition_us, rows) in partitions {
            let offset = bytes.len() as u64;
            for (seq, payload) in &rows {
                bytes.extend_from_slice(&seq.to_le_bytes());
                bytes.extend_from_slice(&payload.to_le_bytes());
            }
            sections.push(Section {
                level: (*level).to_owned(),
                partition_us,
                bucket_min_us: partition_us,
                bucket_max_us: partition_us,
                cells: rows.len() as u64,
                densest: rows.len() as u64,
                events: rows.len() as u64,
                offset,
                len: bytes.len() as u64 - offset,
            });
        }
    }
    TileImage {
        bytes,
        sections,
        events: rows.len() as u64,
    }
}

/// Returns the events of a section.
pub(super) fn listed(bytes: &Bytes, section: &Section) -> Vec<Row> {
    let at: Range<usize> = section.offset as usize..(section.offset + section.len) as usize;
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    let pairs = bytes[at].chunks_exact(16);
    pairs
        .map(|pair| (number(&pair[..8]), number(&pair[8..]) as i64))
        .collect()
}

/// Returns every sealed event whose part exists.
fn raw(sealed: &Snapshot) -> Result<Vec<Row>, BoxError> {
    let mut all = Vec::new();
    for part in sealed.manifest().parts_of(&Name::new(super::seen::STREAM)?) {
        let batches = read_part(sealed.read(&part.file)?, None)?;
        all.extend(batches.iter().flat_map(rows));
    }
    Ok(all)
}

/// Returns sequence numbers and payloads; the payload is 0 for events without one.
pub(super) fn rows(batch: &RecordBatch) -> Vec<Row> {
    let seqs = batch[SEQ].as_primitive::<UInt64Type>().values();
    let payloads = batch
        .column_by_name("n")
        .map(|n| n.as_primitive::<Int64Type>());
    let payload = |row: usize| payloads.map_or(0, |p| p.value(row));
    seqs.iter()
        .enumerate()
        .map(|(row, seq)| (*seq, payload(row)))
        .collect()
}
