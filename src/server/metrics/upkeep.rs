//! Metrics of maintenance: the work done, the work left, and the disk space of the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use storage::{Debt, Name, Store, compaction_debt, disk_use};

use super::exposition::Exposition;
use crate::server::app::App;

/// Writes the counts of jobs since the store was opened, and the amount that compaction would
/// merge.
pub(super) fn jobs(text: &mut Exposition, app: &App) {
    let counts = app.serving.store.maintenance().counts();
    for (what, help) in [
        ("runs", "Runs of maintenance that changed something."),
        ("failures", "Runs of maintenance that failed."),
        ("seconds", "Time that maintenance took, in all those runs."),
    ] {
        let name = format!("logmill_maintenance_{what}_total");
        text.family(&name, "counter", help);
        for (job, counts) in &counts {
            let value = match what {
                "runs" => counts.done as f64,
                "failures" => counts.failed as f64,
                _ => counts.us as f64 / 1e6,
            };
            text.sample(&[("job", &job.to_string())], value);
        }
    }
    let (parts, tiles) = compaction_debt(app.serving.store.snapshot().manifest());
    debt(text, "logmill_compaction_debt", "stream", "parts", &parts);
    let name = "logmill_tile_compaction_debt";
    debt(text, name, "rollup", "sections", &tiles);
}

/// Writes the number of events that rollups added later have not counted.
pub(super) fn uncounted(text: &mut Exposition, app: &App) {
    let name = "logmill_rollup_uncounted_events";
    let help = "Sealed events that a rollup does not count: they wait for the backfill, or their raw events were dropped or detached.";
    text.family(name, "gauge", help);
    for rollup in &app.serving.store.snapshot().manifest().rollups {
        text.sample(&[("rollup", rollup.name.as_str())], rollup.missing());
    }
}

fn debt(text: &mut Exposition, name: &str, label: &str, files: &str, all: &BTreeMap<Name, Debt>) {
    let what = "that compaction would merge if no data arrived";
    for unit in [files, "bytes"] {
        let help = match unit {
            "bytes" => format!("Bytes of the {files} {what}."),
            _ => format!("Number of {files} {what}."),
        };
        let name = format!("{name}_{unit}");
        text.family(&name, "gauge", &help);
        for (of, debt) in all {
            let value = if unit == "bytes" {
                debt.bytes
            } else {
                debt.count
            };
            text.sample(&[(label, of.as_str())], value);
        }
    }
}

/// Adds the metrics that need the disk, on a thread that may block.
pub(super) async fn with_disk(mut text: Exposition, app: &App) -> Exposition {
    let store = Arc::clone(&app.serving.store);
    let asked = tokio::task::spawn_blocking(move || {
        let mut of_disk = Exposition::default();
        disk(&mut of_disk, &store);
        of_disk
    });
    // If the thread fails, the other metrics are still valid.
    text.append(asked.await.unwrap_or_default());
    text
}

fn disk(text: &mut Exposition, store: &Store) {
    let mut bytes: BTreeMap<(String, &str), u64> = BTreeMap::new();
    for used in disk_use(&store.snapshot()) {
        let stream = used.stream.map_or_else(String::new, |s| s.to_string());
        *bytes.entry((stream, used.kind)).or_default() += used.bytes;
    }
    let name = "logmill_disk_bytes";
    let help = "Bytes on the disk, by stream and kind of file; no stream is the store's own.";
    text.family(name, "gauge", help);
    for ((stream, kind), bytes) in bytes {
        text.sample(&[("stream", &*stream), ("kind", kind)], bytes);
    }
    let room = store.disk_forecast();
    if let Some(space) = room.space {
        let free = "Bytes that may still be written on the disk of the store.";
        text.single("logmill_disk_free_bytes", "gauge", free, space.free);
        let total = "Bytes of the disk of the store.";
        text.single("logmill_disk_total_bytes", "gauge", total, space.total);
    }
    if let Some(days) = room.full_days {
        // The text format spells infinity this way: the disk never fills up.
        let days = if days.is_infinite() {
            "+Inf".into()
        } else {
            days.to_string()
        };
        let help = "Days until the disk is full, as the store grew in the last seven days.";
        text.single("logmill_disk_full_days", "gauge", help, days);
    }
}
