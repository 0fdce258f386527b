//! Rollups that the configuration has gained since the store was last opened: their history is
//! built from the parts, one file for each part, and committed in one edit.

use std::sync::Arc;

use super::{Shared, seal};
use crate::error::{Error, Result};
use crate::manifest::TileMeta;
use crate::model::StreamKind;
use crate::part;
use crate::rolling::RollupMeta;

/// Adds the rollups that streams of the store are to have and do not have yet.
pub(super) fn new_rollups(shared: &Shared) -> Result<()> {
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    let mut next_id = manifest.next_rollup;
    let mut next_file = manifest.next_file;
    let mut rollups = manifest.rollups.clone();
    let mut added = Vec::new();
    for (stream, meta) in &manifest.streams {
        if meta.kind == StreamKind::Quarantine {
            continue;
        }
        let failed = |source| Error::Rollup {
            rollup: stream.to_string(),
            source,
        };
        let new = shared
            .options
            .roller
            .rollups_for(stream, meta.kind, &rollups)
            .map_err(failed)?;
        for rollup in new {
            if meta.dropped_events() > 0 {
                return Err(Error::invalid(format!(
                    "rollup {}: {} events of {stream} were dropped and cannot be counted any more",
                    rollup.name,
                    meta.dropped_events()
                )));
            }
            let rollup = RollupMeta {
                id: next_id,
                name: rollup.name,
                stream: stream.clone(),
                definition: rollup.definition,
                first_seq: 0,
                created_us: shared.now_us(),
            };
            next_id += 1;
            let tile = backfill(shared, &rollup, manifest.sealed_seq, &mut next_file)?;
            rollups.push(rollup.clone());
            added.push((rollup, tile));
        }
    }
    if added.is_empty() {
        return Ok(());
    }
    shared.edit(|manifest, _| {
        manifest.next_rollup = next_id;
        manifest.next_file = manifest.next_file.max(next_file);
        for (rollup, tile) in added {
            manifest.rollups.push(rollup);
            manifest.tiles.extend(tile);
        }
    })
}

fn backfill(
    shared: &Shared,
    rollup: &RollupMeta,
    cutoff: u64,
    next_file: &mut u64,
) -> Result<Option<TileMeta>> {
    if cutoff == 0 {
        return Ok(None);
    }
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    let mut tile = TileMeta {
        rollup: rollup.id,
        first_seq: 0,
        cutoff,
        events: 0,
        files: Vec::new(),
    };
    for part in manifest.parts_of(&rollup.stream) {
        let bytes = part.file.read(shared.fs(), &shared.data)?;
        let path = shared.data.join(&part.file.path);
        let events =
            part::read_part(bytes, None).map_err(|source| Error::Parquet { path, source })?;
        let images = shared
            .options
            .roller
            .tiles(&[rollup], &events)
            .map_err(|source| Error::Rollup {
                rollup: rollup.name.to_string(),
                source,
            })?;
        for image in images.into_iter().filter(|i| i.events > 0) {
            tile.events += image.events;
            tile.files
                .push(seal::write_backfill(shared, rollup, *next_file, image)?);
            *next_file += 1;
        }
    }
    Ok(Some(tile))
}
