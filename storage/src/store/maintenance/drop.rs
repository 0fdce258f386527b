//! Dropping whole time partitions: one manifest edit and the pending list.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::job_log::Job;
use crate::manifest::{DetachedPartition, Manifest, PartMeta, Pending};
use crate::model::Name;
use crate::store::{Shared, seal};

/// Partitions of a stream and their contents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionReport {
    /// Partitions with events in them.
    pub partitions: usize,
    /// Parts of these partitions.
    pub parts: usize,
    /// Events of those parts. The rollups keep counting them.
    pub events: u64,
    /// Bytes of those parts.
    pub bytes: u64,
}

impl PartitionReport {
    /// Sums up detached partitions.
    pub(super) fn of<'a>(all: impl IntoIterator<Item = &'a DetachedPartition>) -> Self {
        let mut report = Self::default();
        for detached in all {
            report.partitions += 1;
            detached.parts.iter().for_each(|part| report.add(part));
        }
        report
    }

    fn add(&mut self, part: &PartMeta) {
        self.parts += 1;
        self.events += part.rows;
        self.bytes += part.file.len;
    }
}

/// Drops all events acknowledged so far in every partition of `stream` that begins in `range_us`;
/// `dry` only reports what would be dropped.
pub(super) fn run_drop(
    shared: &Shared,
    stream: &Name,
    range_us: (i64, i64),
    dry: bool,
) -> Result<PartitionReport> {
    let work = || drop_partitions(shared, stream, range_us, dry);
    shared.run_by_hand(Job::Drop, stream, range_us, dry, work)
}

/// The memtable is sealed first. So every event acknowledged before is dropped with its
/// partition, and later events stay, since `complete_from` is the end of that seal.
fn drop_partitions(
    shared: &Shared,
    stream: &Name,
    (from_us, to_us): (i64, i64),
    dry: bool,
) -> Result<PartitionReport> {
    shared.check_stream(stream)?;
    let _one_at_a_time = shared.parts.lock();
    shared.with_reserve(|| seal::seal(shared))?;
    let gone = |partition_us: i64| (from_us..to_us).contains(&partition_us);
    if dry {
        let mut manifest = (*shared.state.lock().committed.manifest).clone();
        return Ok(take_out(&mut manifest, stream, gone));
    }
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    let detached = || {
        let detached = manifest.detached_of(stream);
        detached.filter(|d| gone(d.partition_us))
    };
    if !manifest.parts_of(stream).any(|p| gone(p.partition_us)) && detached().next().is_none() {
        return Ok(PartitionReport::default());
    }
    let mut report = PartitionReport::default();
    commit(shared, |manifest| report = take_out(manifest, stream, gone))?;
    shared.remove_folders(detached());
    Ok(report)
}

/// Commits an edit that drops parts, and copies what was dropped to the live streams too.
pub(super) fn commit(shared: &Shared, change: impl FnOnce(&mut Manifest)) -> Result<()> {
    shared.edit_freeing_space(
        |manifest, _| change(manifest),
        |state| {
            let committed = Arc::clone(&state.committed.manifest);
            for (name, live) in Arc::make_mut(&mut state.streams) {
                if let Some(known) = committed.streams.get(name) {
                    live.dropped.clone_from(&known.dropped);
                }
            }
        },
    )?;
    shared.remove_unreferenced();
    Ok(())
}

/// Takes all parts of some partitions out of a manifest, detached or not.
pub(super) fn take_out(
    manifest: &mut Manifest,
    stream: &Name,
    gone: impl Fn(i64) -> bool,
) -> PartitionReport {
    let since = manifest.version + 1;
    let complete_from = manifest.sealed_seq;
    let mut report = PartitionReport::default();
    let (mut taken, kept): (Vec<PartMeta>, Vec<PartMeta>) = std::mem::take(&mut manifest.parts)
        .into_iter()
        .partition(|p| &p.stream == stream && gone(p.partition_us));
    manifest.parts = kept;
    // A detached partition is dropped too: its folder holds the only copy.
    for detached in std::mem::take(&mut manifest.detached) {
        if &detached.stream == stream && gone(detached.partition_us) {
            taken.extend(detached.parts);
        } else {
            manifest.detached.push(detached);
        }
    }
    let Some(meta) = manifest.streams.get_mut(stream) else {
        return report;
    };
    let partitions: BTreeSet<i64> = taken.iter().map(|p| p.partition_us).collect();
    report.partitions = partitions.len();
    for part in taken {
        report.add(&part);
        meta.lose(part.partition_us, complete_from, part.rows);
        manifest.pending.push(Pending {
            path: part.file.path,
            since,
        });
    }
    report
}
