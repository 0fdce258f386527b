//! The commit of a seal: one edit, with which the store takes over the files and drops their
//! journal.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::checkpoint::Checkpoint;
use super::{Frozen, SealReport};
use crate::error::Result;
use crate::journal;
use crate::manifest::{Manifest, PartMeta, Pending};
use crate::model::Name;
use crate::seeded::{self, Bug};
use crate::shared_journal::JournalPosition;
use crate::store::edit::View;
use crate::store::staged_files::StagedFiles;
use crate::store::{Shared, State};

pub(super) fn commit(
    shared: &Shared,
    frozen: &Frozen,
    written: &mut StagedFiles,
    started: Instant,
) -> Result<SealReport> {
    let report = report_of(frozen, written);
    let identities = Checkpoint::write(shared, frozen, written)?;
    let now_us = shared.now_us();
    let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let parts = std::mem::take(&mut written.parts);
    let mut rows: BTreeMap<Name, u64> = BTreeMap::new();
    for part in &parts {
        *rows.entry(part.stream.clone()).or_default() += part.rows;
    }
    let tiles = std::mem::take(&mut written.tiles);
    if seeded::is(Bug::TilesApart) {
        parts_apart(shared, parts.clone(), frozen.cutoff)?;
    }
    let (now, later) = match seeded::is(Bug::IdentitiesApart) {
        true => (Checkpoint::Nothing, identities),
        false => (identities, Checkpoint::Nothing),
    };
    shared.edit_and(
        |manifest, view| {
            if !seeded::is(Bug::TilesApart) {
                add_parts(manifest, view, parts);
            }
            manifest.add_tiles(&tiles, &rows, frozen.cutoff);
            now.add_to(manifest);
            if !seeded::is(Bug::PositionApart) {
                set_position(manifest, frozen.position);
            }
            if !seeded::is(Bug::DivisionUnsealed) {
                add_divisions(manifest, view);
            }
            manifest.sealed_seq = frozen.cutoff;
            manifest.sealed_at_us = now_us;
            manifest.sealed_ms = elapsed_ms;
            drop_journal(manifest, view);
        },
        release,
    )?;
    if seeded::is(Bug::PositionApart) || seeded::is(Bug::IdentitiesApart) {
        shared.edit(|manifest| {
            set_position(manifest, frozen.position);
            later.add_to(manifest);
        })?;
    }
    shared.remove_unreferenced();
    Ok(report)
}

fn report_of(frozen: &Frozen, written: &StagedFiles) -> SealReport {
    let tiles = written.tiles.values();
    SealReport {
        cutoff: frozen.cutoff,
        events: written.parts.iter().map(|p| p.rows).sum(),
        parts: written.parts.len(),
        part_bytes: written.parts.iter().map(|p| p.file.len).sum(),
        tile_files: tiles.clone().map(|t| t.1.len()).sum(),
        tile_bytes: tiles.flat_map(|t| &t.1).map(|f| f.file.len).sum(),
    }
}

/// Commits the parts of a seal alone, as a seeded bug does.
fn parts_apart(shared: &Shared, parts: Vec<PartMeta>, cutoff: u64) -> Result<()> {
    shared.edit_and(
        |manifest, view| {
            add_parts(manifest, view, parts);
            manifest.sealed_seq = cutoff;
        },
        |_| (),
    )
}

/// Releases the frozen rows, which the new version of the manifest has in its files.
fn release(state: &mut State) {
    state.memtable.release();
    let floor = state.committed.manifest.journal_floor;
    state.segments.retain(|(segment, _)| *segment >= floor);
    state.seal_error = None;
    state.is_sealing = false;
    // The live streams take over the totals of the new manifest.
    let sealed = Arc::clone(&state.committed.manifest);
    for (name, meta) in Arc::make_mut(&mut state.streams) {
        if let Some(known) = sealed.streams.get(name) {
            meta.sealed_events = known.sealed_events;
            meta.dropped.clone_from(&known.dropped);
        }
    }
}

/// Notes how far the shared journal is sealed.
pub(in crate::store) fn set_position(manifest: &mut Manifest, position: Option<JournalPosition>) {
    if let (Some(journal), Some(position)) = (&mut manifest.journal, position) {
        journal.position = position;
    }
}

fn add_parts(manifest: &mut Manifest, view: &View, parts: Vec<PartMeta>) {
    for part in parts {
        let columns = view.streams.get(&part.stream).map(|s| s.columns.clone());
        let meta = manifest
            .streams
            .get_mut(&part.stream)
            .expect("BUG: a stream is created before its events");
        meta.sealed_events += part.rows;
        if let Some(columns) = columns {
            meta.columns = columns;
        }
        manifest.parts.push(part);
    }
}

/// Records the rules by which the events came. Those of events that are not sealed yet may be among
/// them: such a rule says less, and holds all the same.
fn add_divisions(manifest: &mut Manifest, view: &View) {
    for (name, meta) in &mut manifest.streams {
        if let Some(live) = view.streams.get(name) {
            meta.divided_by.clone_from(&live.divided_by);
        }
    }
}

/// Raises the journal's floor to the last segment that begins at or below `sealed_seq`, but not
/// past a batch without items that arrived while the seal was under way.
pub(in crate::store) fn drop_journal(manifest: &mut Manifest, view: &View) {
    let sealed = manifest.sealed_seq;
    let floor = view
        .segments
        .iter()
        .rev()
        .find(|(_, first)| *first <= sealed)
        .map(|(segment, _)| *segment);
    let floor = floor
        .unwrap_or(manifest.journal_floor)
        .min(view.empty_from.unwrap_or(u64::MAX))
        .max(manifest.journal_floor);
    let oldest = view.segments.first().map_or(floor, |(segment, _)| *segment);
    let since = manifest.version + 1;
    for segment in oldest..floor {
        manifest.pending.push(Pending {
            path: journal::relative_path(segment),
            since,
        });
    }
    manifest.journal_floor = floor;
}
