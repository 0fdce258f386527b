//! Dropping whole time partitions by hand: one manifest edit and the pending list.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Shared, seal};
use crate::error::{Error, Result};
use crate::manifest::{Manifest, Pending};
use crate::model::Name;

/// What is given up when partitions are dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropReport {
    /// Partitions with events in them.
    pub partitions: usize,
    /// Their parts.
    pub parts: usize,
    /// Events of those parts. The rollups still count them.
    pub events: u64,
    /// Bytes of those parts.
    pub bytes: u64,
}

/// Drops what was acknowledged so far in every partition of `stream` that begins in
/// `[from_us, to_us)`; `dry` only says what that would be.
///
/// What is in the memtable is sealed first: an event that was acknowledged before goes with its
/// partition, and what comes later stays, since `complete_from` is where that seal ended.
pub(super) fn drop_partitions(
    shared: &Shared,
    stream: &Name,
    (from_us, to_us): (i64, i64),
    dry: bool,
) -> Result<DropReport> {
    if !shared.state.lock().streams.contains_key(stream) {
        return Err(Error::invalid(format!("there is no stream {stream}")));
    }
    let _one_at_a_time = shared.parts.lock();
    seal::seal(shared)?;
    let mut report = DropReport::default();
    let gone = |partition_us: i64| (from_us..to_us).contains(&partition_us);
    if dry {
        let mut manifest = (*shared.state.lock().committed.manifest).clone();
        return Ok(take_out(&mut manifest, stream, gone));
    }
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    if !manifest.parts_of(stream).any(|p| gone(p.partition_us)) {
        return Ok(report);
    }
    shared.edit_and(
        |manifest, _| report = take_out(manifest, stream, gone),
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

pub(super) fn take_out(
    manifest: &mut Manifest,
    stream: &Name,
    gone: impl Fn(i64) -> bool,
) -> DropReport {
    let since = manifest.version + 1;
    let complete_from = manifest.sealed_seq;
    let (taken, kept) = std::mem::take(&mut manifest.parts)
        .into_iter()
        .partition(|p| &p.stream == stream && gone(p.partition_us));
    manifest.parts = kept;
    let taken: Vec<_> = taken;
    let mut report = DropReport::default();
    let Some(meta) = manifest.streams.get_mut(stream) else {
        return report;
    };
    let mut partitions: Vec<i64> = taken.iter().map(|p| p.partition_us).collect();
    partitions.sort_unstable();
    partitions.dedup();
    report.partitions = partitions.len();
    for part in taken {
        report.parts += 1;
        report.events += part.rows;
        report.bytes += part.file.len;
        meta.lose(part.partition_us, complete_from, part.rows);
        manifest.pending.push(Pending {
            path: part.file.path,
            since,
        });
    }
    report
}
