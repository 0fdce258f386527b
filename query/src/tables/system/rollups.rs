//! The tables `system.rollups` and `system.tiles`.

use aggregator::Level;
use storage::{Floor, Manifest, Name};

use super::streams::memtable_sums;
use super::{SystemColumn, SystemInputs, int, of, stamp, text};
use crate::tables::level::Rollup;

pub(super) fn tiles(view: &SystemInputs<'_>) -> Vec<SystemColumn> {
    let manifest = view.snapshot.manifest();
    let name = |id: u32| {
        manifest
            .rollups
            .iter()
            .find(|r| r.id == id)
            .map(|r| r.name.to_string())
    };
    let mut rows = Vec::new();
    for tile in &manifest.tiles {
        for file in &tile.files {
            rows.extend(file.sections.iter().map(|section| (tile, file, section)));
        }
    }
    vec![
        text("rollup", of(&rows, |r| name(r.0.rollup))),
        int("generation", of(&rows, |r| Some(u64::from(r.0.rollup)))),
        text("level", of(&rows, |r| Some(r.2.level.clone()))),
        stamp("partition", of(&rows, |r| Some(r.2.partition_us))),
        stamp("first_bucket", of(&rows, |r| Some(r.2.bucket_min_us))),
        stamp("last_bucket", of(&rows, |r| Some(r.2.bucket_max_us))),
        int("cells", of(&rows, |r| Some(r.2.cells))),
        int("events", of(&rows, |r| Some(r.2.events))),
        int("bytes", of(&rows, |r| Some(r.2.len))),
        int("first_seq", of(&rows, |r| Some(r.0.first_seq))),
        int("cutoff", of(&rows, |r| Some(r.0.cutoff))),
        text("path", of(&rows, |r| Some(r.1.file.path.clone()))),
    ]
}

/// Rollup, level, waiting events, cells, bytes, and the time from which buckets are complete.
type LevelRow<'a> = (&'a Rollup, Level, u64, u64, u64, Option<i64>);

/// Returns the retention floor of the level, if retention has dropped any of its buckets.
fn floor(row: &LevelRow<'_>) -> Option<Floor> {
    row.0.meta.floors.get(row.1.as_str()).copied()
}

/// Returns notes for the operator: actions that the rollup needs, or work to wait for.
fn note(rollup: &Rollup, manifest: &Manifest, unwanted: &[Name]) -> Option<String> {
    let meta = &rollup.meta;
    let mut notes = Vec::new();
    let outdated = aggregator::outdated_levels(manifest, meta, &rollup.definition);
    if !outdated.is_empty() {
        let levels: Vec<&str> = outdated.iter().map(|level| level.as_str()).collect();
        notes.push(format!(
            "the rules of {} have changed since the levels {} were computed; \
             `logmill rollup redefine {}` recounts them by release {}",
            rollup.definition.timezone().name(),
            levels.join(", "),
            meta.name,
            aggregator::zone::release()
        ));
    }
    if meta.counts_from_us().is_some() {
        let missing = meta.missing();
        notes.push(format!(
            "backfill is running: {missing} events are not counted yet"
        ));
    }
    if unwanted.contains(&meta.name) {
        notes.push(format!(
            "it is no longer configured but still updated; `logmill rollup drop {}` removes it",
            meta.name
        ));
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Builds one row for each rollup and level. `complete_from` is null if the rollup counts every
/// event of its stream; otherwise no bucket before it is complete.
pub(super) fn rollups(view: &SystemInputs<'_>) -> Vec<SystemColumn> {
    let manifest = view.snapshot.manifest();
    let last_error = view.system.last_error();
    let unwanted = view.system.unwanted_rollups();
    let mut rows: Vec<LevelRow<'_>> = Vec::new();
    for rollup in view.rollups.values() {
        let waiting = memtable_sums(view.snapshot, &rollup.meta.stream).rows;
        let detached = manifest.detached_of(&rollup.meta.stream);
        let older = manifest
            .parts_of(&rollup.meta.stream)
            .chain(detached.flat_map(|d| &d.parts))
            .filter(|p| p.seq.0 < rollup.meta.first_seq);
        let complete_from = older.map(|p| p.time.1.saturating_add(1)).max();
        let complete_from = complete_from.max(rollup.meta.complete_from_us());
        for level in rollup.definition.levels() {
            let tiles = manifest.tiles_of(rollup.meta.id);
            let sections = tiles.flat_map(|t| &t.files).flat_map(|f| &f.sections);
            let (mut cells, mut bytes) = (0, 0);
            for section in sections.filter(|s| s.level == level.as_str()) {
                cells += section.cells;
                bytes += section.len;
            }
            rows.push((rollup, *level, waiting, cells, bytes, complete_from));
        }
    }
    vec![
        text("name", of(&rows, |r| Some(r.0.meta.name.to_string()))),
        text("level", of(&rows, |r| Some(r.1.as_str().to_owned()))),
        int(
            "last_run",
            of(&rows, |r| Some(manifest.sealed_seq.max(r.0.meta.first_seq))),
        ),
        stamp("last_run_at", of(&rows, |_| Some(manifest.sealed_at_us))),
        int("waiting", of(&rows, |r| Some(r.2))),
        int("rows", of(&rows, |r| Some(r.3))),
        int("bytes", of(&rows, |r| Some(r.4))),
        stamp("complete_from", of(&rows, |r| r.5)),
        text("last_error", of(&rows, |_| last_error.clone())),
        int("last_ms", of(&rows, |_| Some(manifest.sealed_ms))),
        text("stream", of(&rows, |r| Some(r.0.meta.stream.to_string()))),
        text(
            "by",
            of(&rows, |r| {
                Some(
                    r.0.definition
                        .by()
                        .iter()
                        .map(|k| k.name.as_str())
                        .collect::<Vec<_>>()
                        .join(", "),
                )
            }),
        ),
        text(
            "timezone",
            of(&rows, |r| Some(r.0.definition.timezone().name().to_owned())),
        ),
        int("generation", of(&rows, |r| Some(u64::from(r.0.meta.id)))),
        stamp("floor", of(&rows, |r| floor(r).map(|f| f.from_us))),
        int("late", of(&rows, |r| floor(r).map(|f| f.late))),
        int("uncounted", of(&rows, |r| Some(r.0.meta.missing()))),
        text("note", of(&rows, |r| note(r.0, manifest, &unwanted))),
    ]
}
