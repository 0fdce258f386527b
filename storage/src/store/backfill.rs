//! Rollups that the configuration has gained since the store was last opened: their history is
//! built from the parts and committed in one edit.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Shared, seal};
use crate::error::{Error, Result};
use crate::maintenance::{Job, Said};
use crate::manifest::{TileFile, TileMeta};
use crate::model::StreamKind;
use crate::rolling::RollupMeta;

/// Adds the rollups that streams of the store are to have and do not have yet.
pub(super) fn new_rollups(shared: &Shared) -> Result<()> {
    let manifest = Arc::clone(&shared.state.lock().committed.manifest);
    let mut next_id = manifest.next_rollup;
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
            if let Some(detached) = manifest.detached_of(stream).next() {
                return Err(Error::invalid(format!(
                    "rollup {}: {} is detached and cannot be counted; attach it first, with a configuration without this rollup",
                    rollup.name, detached.folder
                )));
            }
            let rollup = RollupMeta {
                id: next_id,
                name: rollup.name,
                stream: stream.clone(),
                definition: rollup.definition,
                levels: rollup.levels,
                first_seq: 0,
                created_us: shared.now_us(),
                floors: BTreeMap::new(),
            };
            next_id += 1;
            let tile = told(shared, &rollup, manifest.sealed_seq)?;
            rollups.push(rollup.clone());
            added.push((rollup, tile));
        }
    }
    if added.is_empty() {
        return Ok(());
    }
    shared.edit(|manifest| {
        manifest.next_rollup = next_id;
        for (rollup, tile) in added {
            manifest.rollups.push(rollup);
            manifest.tiles.extend(tile);
        }
    })
}

/// Counts the history, and tells of it: what a crash breaks off is begun anew at the next start, since
/// nothing knows of the rollup before the edit.
fn told(shared: &Shared, rollup: &RollupMeta, cutoff: u64) -> Result<Option<TileMeta>> {
    let why = format!("the configuration has gained it for {}", rollup.stream);
    let run = shared
        .log
        .begin(Job::Backfill, Some(rollup.name.as_str()), why);
    let tile = backfill(shared, rollup, cutoff);
    match &tile {
        Ok(Some(tile)) => run.done(Said {
            what: format!(
                "counted {} events into {} files",
                tile.events,
                tile.files.len()
            ),
            done: Some(tile.events),
            total: Some(tile.events),
            bytes_written: Some(tile.files.iter().map(|f| f.file.len).sum()),
            bytes_read: None,
        }),
        Ok(None) => {}
        Err(error) => run.failed(error),
    }
    tile
}

fn backfill(shared: &Shared, rollup: &RollupMeta, cutoff: u64) -> Result<Option<TileMeta>> {
    if cutoff == 0 {
        return Ok(None);
    }
    let mut tile = TileMeta {
        rollup: rollup.id,
        first_seq: 0,
        cutoff,
        events: 0,
        files: Vec::new(),
        dropped: BTreeMap::new(),
    };
    let sealed = shared.sealed(&shared.state.lock());
    let mut failed = None;
    let done = shared
        .options
        .roller
        .backfill(rollup, &sealed, &mut |image| {
            tile.events += image.events;
            let take = |files: Vec<TileFile>| {
                tile.files.extend(files);
                Ok(())
            };
            seal::write_images(shared, rollup, vec![image], take).map_err(|error| {
                let what = error.to_string();
                failed = Some(error);
                what.into()
            })
        });
    match (failed, done) {
        (Some(error), _) => Err(error),
        (None, Err(source)) => Err(Error::Rollup {
            rollup: rollup.name.to_string(),
            source,
        }),
        (None, Ok(())) => Ok(Some(tile)),
    }
}
