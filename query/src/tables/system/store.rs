//! The table `system.store`: one row about the whole store.

use super::streams::memtable_sums;
use super::{SystemColumn, SystemInputs, int, number, stamp, text};

/// Progress of journal and seals, and space on the disk. Columns that only the process that writes
/// the store knows are null elsewhere.
pub(super) fn store(view: &SystemInputs<'_>) -> Vec<SystemColumn> {
    let snapshot = view.snapshot;
    let manifest = snapshot.manifest();
    let state = view.system.store();
    let next_seq = snapshot.next_seq();
    let space = state.and_then(|s| s.disk.space);
    // A sync may have passed the snapshot that this query reads.
    let unsynced = state.map(|s| next_seq.saturating_sub(s.durable_seq));
    let memtable = snapshot.streams().keys();
    let memtable_events = memtable.map(|name| memtable_sums(snapshot, name).rows);
    vec![
        int("next_seq", vec![Some(next_seq)]),
        int("durable_seq", vec![state.map(|s| s.durable_seq)]),
        int("sealed_seq", vec![Some(manifest.sealed_seq)]),
        stamp("sealed_at", vec![Some(manifest.sealed_at_us)]),
        int("unsynced", vec![unsynced]),
        int("memtable_events", vec![Some(memtable_events.sum())]),
        int("disk_free_bytes", vec![space.map(|s| s.free)]),
        int("disk_total_bytes", vec![space.map(|s| s.total)]),
        number("disk_full_days", vec![state.and_then(|s| s.disk.full_days)]),
        text("last_error", vec![view.system.last_error()]),
    ]
}
