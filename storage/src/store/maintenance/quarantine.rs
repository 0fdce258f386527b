//! Freeing space of the quarantine: a partition is dropped once every row in it is settled.
//!
//! # Invariants
//! 1. Only the parts that were checked are dropped: when a seal has added a part to a partition
//!    meanwhile, the partition stays for the next time.
//! 2. The batches that settled the items are synced in the journal before the rows are dropped.
//!    Otherwise a power cut could lose the replayed events of dropped items, and leave neither.
//! 3. Only rows are dropped. Their resolutions are kept, so that no dropped item can be replayed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::UInt64Array;

use super::drop::{PartitionReport, take_out};
use super::jobs::of_partitions;
use crate::error::{Error, Result};
use crate::job_log::Job;
use crate::manifest::{Manifest, PartMeta};
use crate::memtable::column;
use crate::model::{Name, QUARANTINE, SEQ};
use crate::part::{partition_end, read_part};
use crate::snapshot::Snapshot;
use crate::store::Shared;

/// Drops every partition of the quarantine that is over and whose rows are all settled.
pub(super) fn run_drop_settled(shared: &Shared) -> Result<PartitionReport> {
    let stream = quarantine();
    let why = "the partition has ended, and every item in it is resolved";
    let work = |_: &_| drop_settled(shared, shared.now_us());
    let describe = |report: &_| of_partitions("dropped", report);
    shared.run_job(Job::DropSettled, Some(&stream), why, work, describe)
}

fn quarantine() -> Name {
    Name::new(QUARANTINE).expect("BUG: the quarantine has a good name")
}

/// Drops every partition of the quarantine that ends by `before_us` and whose rows are all
/// settled. The resolution of an item can be queried until its partition is over.
pub(in crate::store) fn drop_settled(shared: &Shared, before_us: i64) -> Result<PartitionReport> {
    let stream = quarantine();
    let _one_at_a_time = shared.parts.lock();
    let sealed = {
        let state = shared.state.lock();
        shared.sealed(&state)
    };
    let mut settled: BTreeMap<i64, BTreeSet<u64>> = BTreeMap::new();
    for (partition_us, parts) in partitions(&sealed.manifest, &stream, before_us) {
        if all_settled(&sealed, &parts)? {
            settled.insert(partition_us, parts.iter().map(|p| p.id).collect());
        }
    }
    if settled.is_empty() {
        return Ok(PartitionReport::default());
    }
    take(shared, &stream, settled)
}

/// Drops these partitions, each if its parts are still exactly these.
fn take(
    shared: &Shared,
    stream: &Name,
    mut settled: BTreeMap<i64, BTreeSet<u64>>,
) -> Result<PartitionReport> {
    let mut report = PartitionReport::default();
    shared.syncer.sync_written()?;
    shared.edit_freeing_space(
        |manifest, _| {
            settled.retain(|partition_us, known| {
                let parts = manifest.parts_of(stream);
                let now = parts.filter(|p| p.partition_us == *partition_us);
                let mut detached = manifest.detached_of(stream);
                now.map(|p| p.id).collect::<BTreeSet<u64>>() == *known
                    // Detached parts were not checked.
                    && !detached.any(|d| d.partition_us == *partition_us)
            });
            report = take_out(manifest, stream, |at| settled.contains_key(&at));
        },
        |state| {
            let dropped = state.committed.manifest.streams.get(stream);
            let live = Arc::make_mut(&mut state.streams).get_mut(stream);
            if let (Some(known), Some(meta)) = (dropped, live) {
                meta.dropped.clone_from(&known.dropped);
            }
        },
    )?;
    shared.remove_unreferenced();
    Ok(report)
}

/// Returns the parts of each partition that ends by `before_us`.
fn partitions<'a>(
    manifest: &'a Manifest,
    stream: &'a Name,
    before_us: i64,
) -> BTreeMap<i64, Vec<&'a PartMeta>> {
    let mut partitions: BTreeMap<i64, Vec<&PartMeta>> = BTreeMap::new();
    let Some(meta) = manifest.streams.get(stream) else {
        return partitions;
    };
    for part in manifest.parts_of(stream) {
        if partition_end(meta.partition, part.partition_us) <= before_us {
            partitions.entry(part.partition_us).or_default().push(part);
        }
    }
    partitions
}

/// Checks whether every row of these parts is settled. A part is read only when at least as many
/// settled sequence numbers as it has rows lie in its range.
fn all_settled(sealed: &Snapshot, parts: &[&PartMeta]) -> Result<bool> {
    let enough = |part: &&PartMeta| {
        let (first, last) = part.seq;
        sealed.settled.count_in((first, last + 1)) >= part.rows
    };
    if !parts.iter().all(enough) {
        return Ok(false);
    }
    for part in parts {
        let read = read_part(sealed.read(&part.file)?, Some(&[SEQ]));
        let batches = read.map_err(|source| Error::Parquet {
            path: sealed.data.join(&part.file.path),
            source,
        })?;
        let settled = |seq: &u64| sealed.settled.how(*seq).is_some();
        for batch in &batches {
            let seqs: &UInt64Array = column(batch, SEQ);
            if !seqs.values().iter().all(settled) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
