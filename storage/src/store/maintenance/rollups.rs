//! Rollups that the configuration adds or does not want any more.
//!
//! # Invariants
//! * An edit adds a rollup without counts; a [`History`] records what it does not count yet
//!   (`backfill`).
//! * A new generation of a rollup takes the name in the same edit that drops the old one.

use std::sync::Arc;

use super::backfill;
use crate::error::{Error, Result};
use crate::manifest::{Manifest, TileMeta};
use crate::model::{Name, StreamKind};
use crate::rollup_hook::{History, NewRollup, Replaces, RollupMeta};
use crate::store::Shared;

/// Adds the rollups that the configuration wants and the store does not have yet. A short history
/// is counted at once.
pub(in crate::store) fn new_rollups(shared: &Shared) -> Result<()> {
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    let mut next_id = manifest.next_rollup;
    let mut rollups = manifest.rollups.clone();
    let mut added: Vec<RollupMeta> = Vec::new();
    for (stream, meta) in &manifest.streams {
        if meta.kind == StreamKind::Quarantine {
            continue;
        }
        let failed = |source| Error::Rollup {
            rollup: stream.to_string(),
            source,
        };
        let rollup_hook = &shared.options.rollup_hook;
        let new = rollup_hook.rollups_for(stream, meta.kind, &rollups);
        for new in new.map_err(failed)? {
            let rollup = begin(shared, &manifest, stream, new, next_id)?;
            next_id += 1;
            rollups.retain(|known| known.name != rollup.name);
            rollups.push(rollup.clone());
            added.push(rollup);
        }
    }
    if added.is_empty() {
        return Ok(());
    }
    let ids: Vec<u32> = added.iter().map(|r| r.id).collect();
    shared.edit(|manifest| {
        manifest.next_rollup = next_id;
        for rollup in added {
            let same = |r: &&RollupMeta| r.name == rollup.name;
            let before: Vec<u32> = manifest.rollups.iter().filter(same).map(|r| r.id).collect();
            before.into_iter().for_each(|id| manifest.drop_rollup(id));
            if manifest.sealed_seq > 0 {
                manifest.tiles.push(TileMeta {
                    rollup: rollup.id,
                    first_seq: 0,
                    cutoff: manifest.sealed_seq,
                    events: 0,
                    files: Vec::new(),
                    dropped: Default::default(),
                });
            }
            manifest.rollups.push(rollup);
        }
    })?;
    backfill::count_short(shared, &ids);
    Ok(())
}

/// Returns a rollup that has counted nothing yet.
fn begin(
    shared: &Shared,
    manifest: &Manifest,
    stream: &Name,
    new: NewRollup,
    id: u32,
) -> Result<RollupMeta> {
    let NewRollup {
        name,
        definition,
        levels,
        zone_data,
        replaces,
    } = new;
    if replaces == Some(Replaces::Counted) && manifest.incomplete(stream).next().is_some() {
        return Err(Error::invalid(format!(
            "rollup {name}: raw events of {stream} were dropped or are detached, and their \
             counts by the present definition would be lost; attach the detached partitions, or \
             accept the loss with --accept-loss"
        )));
    }
    let mut rollup = RollupMeta {
        id,
        name,
        stream: stream.clone(),
        definition,
        levels,
        first_seq: 0,
        created_us: shared.now_us(),
        floors: Default::default(),
        history: None,
        zone_data,
    };
    let sealed = manifest.streams.get(stream).map_or(0, |s| s.sealed_events);
    if sealed > 0 {
        let newest = manifest.parts_of(stream).map(|p| p.time.1).max();
        // Without raw events there is nothing to count; the first step finds that out.
        let until_us = match newest {
            Some(at_us) => backfill::day(shared, &rollup, at_us)?.end_us,
            None => i64::MIN,
        };
        let mut history = History {
            until_us: Some(until_us),
            missing: sealed,
            ..History::default()
        };
        // The missing raw events may be newer than all that remain.
        backfill::note_missing(manifest, &rollup, &mut history, (until_us, i64::MAX));
        rollup.history = Some(history);
    }
    Ok(rollup)
}

/// Drops every generation of a rollup that the configuration does not want any more.
pub(super) fn drop_rollup(shared: &Shared, name: &Name) -> Result<u64> {
    let _one_at_a_time = shared.tiles.lock();
    let _no_seal = shared.sealer.lock();
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    let same = manifest.rollups.iter().filter(|r| &r.name == name);
    let gone: Vec<&RollupMeta> = same.collect();
    let Some(last) = gone.last() else {
        return Err(Error::missing(format!("there is no rollup {name}")));
    };
    let kind = manifest.streams.get(&last.stream).map(|s| s.kind);
    let rollup_hook = &shared.options.rollup_hook;
    if kind.is_some_and(|kind| rollup_hook.wants(last, kind, &manifest.rollups)) {
        let stream = &last.stream;
        return Err(Error::invalid(format!(
            "rollup {name} is still configured; remove [rollup.{name}] from the configuration, \
             or for a default rollup write rollups = [] under [stream.{stream}], then drop it"
        )));
    }
    let ids: Vec<u32> = gone.iter().map(|r| r.id).collect();
    let events = ids.iter().flat_map(|id| manifest.tiles_of(*id));
    let events = events.map(|t| t.events).sum();
    shared.edit(|manifest| ids.iter().for_each(|id| manifest.drop_rollup(*id)))?;
    shared.remove_unreferenced();
    Ok(events)
}

/// Returns the rollups that the configuration does not want.
pub(super) fn unwanted(shared: &Shared) -> Vec<Name> {
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    let ids: Vec<u32> = manifest.rollups.iter().map(|r| r.id).collect();
    let mut known = shared.unwanted.lock();
    if known.0 != ids {
        *known = (ids, find_unwanted(shared, &manifest));
    }
    known.1.clone()
}

fn find_unwanted(shared: &Shared, manifest: &Manifest) -> Vec<Name> {
    let is_unwanted = |r: &&RollupMeta| {
        let kind = manifest.streams.get(&r.stream).map(|s| s.kind);
        let rollup_hook = &shared.options.rollup_hook;
        kind.is_some_and(|kind| !rollup_hook.wants(r, kind, &manifest.rollups))
    };
    let unwanted = manifest.rollups.iter().filter(is_unwanted);
    unwanted.map(|r| r.name.clone()).collect()
}
