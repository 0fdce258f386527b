//! The seal: the memtable becomes parts and one tile of every rollup, committed in one manifest
//! edit.
//!
//! Order: freeze at a batch boundary; sync the journal up to there; build and write the files;
//! sync their directories; one edit; release the frozen rows. A crash before the edit leaves
//! files that no manifest names; after the edit the seal is complete.

mod checkpoint;
mod commit;

pub(super) use commit::{drop_journal, set_position};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;

use super::pace::Pace;
use super::staged_files::StagedFiles;
use super::{Shared, wait_for};
use crate::env::aside;
use crate::error::{Error, Result};
use crate::identity::Entry;
use crate::job_log::{Job, Said};
use crate::manifest::StreamMeta;
use crate::memtable::{Chunk, Chunks};
use crate::model::Name;
use crate::part::{self, PartImage};
use crate::rollup_hook::{BoxError, RollupMeta, TileImage};
use crate::seeded::{self, Bug};
use crate::shared_journal::JournalPosition;
use crate::snapshot::Snapshot;
use commit::commit;

/// Foreground requests go before a seal; the memtable has slack for the writes that arrive
/// meanwhile.
const SEAL_NICE: i32 = 15;

/// Result of a seal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SealReport {
    /// The new `last_run` of every rollup.
    pub cutoff: u64,
    /// Events that went into parts and tiles.
    pub events: u64,
    /// Parts written.
    pub parts: usize,
    /// Bytes of those parts.
    pub part_bytes: u64,
    /// Tile files written.
    pub tile_files: usize,
    /// Bytes of those files.
    pub tile_bytes: u64,
}

/// The frozen input of a seal; later batches belong to the next one.
struct Frozen {
    chunks: Chunks,
    cutoff: u64,
    streams: Arc<BTreeMap<Name, StreamMeta>>,
    /// Snapshot of the events sealed before.
    sealed: Snapshot,
    fresh: Vec<Entry>,
    /// The value of [`super::State::empty_from`] at the freeze.
    empty_from: Option<u64>,
    /// The value of [`super::State::position`] at the freeze.
    position: Option<JournalPosition>,
}

pub(super) fn seal_loop(shared: &Arc<Shared>) {
    let config = &shared.options.config;
    loop {
        {
            let mut state = shared.state.lock();
            loop {
                if state.closing {
                    return;
                }
                let age = state
                    .memtable
                    .oldest_us
                    .map(|since| shared.now_us() - since);
                let old = age.is_some_and(|age| age >= config.lag_us);
                if old || state.memtable.is_full(config.memtable_bytes_max) {
                    break;
                }
                // The wait is a quarter of a second at most, since a test may set the clock.
                wait_for(
                    &shared.sealing,
                    &mut state,
                    config
                        .lag_us
                        .saturating_sub(age.unwrap_or(0))
                        .clamp(1_000, 250_000),
                );
            }
        }
        if let Err(error) = seal_at(shared, Pace::Background) {
            tracing::error!(%error, "seal failed; the events stay in journal and memtable, the seal is retried");
            if shared.syncer.poisoned().is_some() {
                return;
            }
            let mut state = shared.state.lock();
            wait_for(&shared.sealing, &mut state, 1_000_000);
        }
    }
}

/// Seals everything acknowledged so far.
pub(super) fn seal(shared: &Shared) -> Result<SealReport> {
    seal_at(shared, Pace::Foreground)
}

fn seal_at(shared: &Shared, pace: Pace) -> Result<SealReport> {
    let _one_at_a_time = shared.sealer.lock();
    let started = Instant::now();
    let Some(frozen) = freeze(shared) else {
        let cutoff = shared.state.lock().committed.manifest.sealed_seq;
        return Ok(SealReport {
            cutoff,
            ..SealReport::default()
        });
    };
    let synced = if seeded::is(Bug::SealPastSync) {
        Ok(0)
    } else {
        shared.syncer.sync_written()
    };
    let mut written = StagedFiles::default();
    let outcome = synced
        .and_then(|_| write_files(shared, &frozen, pace, &mut written))
        .and_then(|()| commit(shared, &frozen, &mut written, started));
    log_outcome(shared, &outcome);
    if let Err(error) = &outcome {
        written.discard(shared, error);
        let mut state = shared.state.lock();
        state.memtable.thaw(shared.now_us());
        state.identities.restore_fresh(frozen.fresh);
        state.empty_from = frozen.empty_from.or(state.empty_from);
        state.is_sealing = false;
        state.seal_error = Some((error.kind(), error.to_string()));
        drop(state);
        if shared.syncer.poisoned().is_some() {
            shared.poison(error);
        }
    }
    shared.sealing.notify_all();
    outcome
}

/// Logs a seal that failed, and the first one that succeeds after a failure.
fn log_outcome(shared: &Shared, outcome: &Result<SealReport>) {
    let begin = || {
        let why = "the memtable is written to parts and tiles";
        shared.log.begin(Job::Seal, None, why)
    };
    match outcome {
        Ok(report) if shared.log.is_failing(Job::Seal) => begin().done(Said {
            what: format!("sealed {} events after a failure", report.events),
            done: Some(report.events),
            total: Some(report.events),
            bytes_written: Some(report.part_bytes + report.tile_bytes),
            bytes_read: None,
        }),
        Ok(_) => {}
        Err(error) => begin().failed(error),
    }
}

fn freeze(shared: &Shared) -> Option<Frozen> {
    let mut state = shared.state.lock();
    // A batch without items leaves only its identity, which must not be lost with the journal
    // either.
    if state.memtable.is_empty() && !state.identities.has_fresh() {
        return None;
    }
    state.rotate = true;
    state.is_sealing = true;
    Some(Frozen {
        chunks: state.memtable.freeze(),
        cutoff: state.next_seq,
        streams: Arc::clone(&state.streams),
        sealed: shared.sealed(&state),
        fresh: state.identities.take_fresh(),
        empty_from: state.empty_from.take(),
        position: state.position,
    })
}

fn write_files(
    shared: &Shared,
    frozen: &Frozen,
    pace: Pace,
    written: &mut StagedFiles,
) -> Result<()> {
    for (stream, chunks) in &frozen.chunks {
        let meta = frozen
            .streams
            .get(stream)
            .expect("BUG: a stream is created before its events");
        let rollups: Vec<&RollupMeta> = frozen.sealed.manifest.rollups_of(stream).collect();
        let build = || build_images(shared, (stream, meta), &rollups, chunks, &frozen.sealed);
        let (parts, tiles) = match pace {
            Pace::Foreground => build(),
            Pace::Background => aside(SEAL_NICE, "logmill-part", build),
        };
        for image in parts? {
            let folder = part::partition_folder(meta.partition, image.partition_us);
            let place = (folder.as_str(), image.partition_us);
            written.write_part(shared, stream, place, |file| {
                file.put(&image.bytes)?;
                Ok::<_, Error>(image.bounds)
            })?;
        }
        for (rollup, image) in rollups.iter().zip(tiles?) {
            let events = image.events;
            let mut files = Vec::new();
            if events > 0 {
                files.push(written.write_tile(shared, rollup, image)?);
            }
            written.tiles.insert(rollup.id, (events, files));
        }
    }
    if seeded::is(Bug::DirectorySyncSkipped) {
        return Ok(());
    }
    written.publish(shared)
}

/// Builds the parts and tiles of a stream's events in memory. Nothing is written at low priority,
/// which would hold up other threads inside the file system.
fn build_images(
    shared: &Shared,
    (stream, meta): (&Name, &StreamMeta),
    rollups: &[&RollupMeta],
    chunks: &[Arc<Chunk>],
    sealed: &Snapshot,
) -> (Result<Vec<PartImage>>, Result<Vec<TileImage>>) {
    // Parts and tiles of the same events are independent.
    std::thread::scope(|scope| {
        let tiles = std::thread::Builder::new()
            .name("logmill-tiles".into())
            .spawn_scoped(scope, || {
                let _permit = shared.background_permits.acquire();
                cascade(shared, rollups, chunks, sealed)
            });
        let permit = shared.background_permits.acquire();
        let parts = part::build(meta, chunks);
        drop(permit);
        let failed = |source: BoxError| Error::Rollup {
            rollup: stream.to_string(),
            source,
        };
        let tiles = match tiles.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(tiles)) => tiles,
            Ok(Err(_)) => Err(failed("the rollup cascade panicked".into())),
            Err(error) => Err(failed(error.into())),
        };
        (parts, tiles)
    })
}

fn cascade(
    shared: &Shared,
    rollups: &[&RollupMeta],
    chunks: &[Arc<Chunk>],
    sealed: &Snapshot,
) -> Result<Vec<TileImage>> {
    if rollups.is_empty() {
        return Ok(Vec::new());
    }
    let events: Vec<RecordBatch> = chunks.iter().map(|c| c.events.clone()).collect();
    shared
        .options
        .rollup_hook
        .tiles(rollups, &events, sealed)
        .map_err(|source| Error::Rollup {
            rollup: rollups[0].name.to_string(),
            source,
        })
}
