//! `GET /metrics`: the figures of the server and its store for Prometheus.

mod arrivals;
mod durations;
mod exposition;
mod process;
pub(super) mod requests;
mod shards;
mod shippers;
mod sources;
mod upkeep;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::app::App;
use exposition::Exposition;

pub(super) async fn metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let mut text = Exposition::default();
    events(&mut text, &app);
    rollups(&mut text, &app);
    upkeep::jobs(&mut text, &app);
    upkeep::uncounted(&mut text, &app);
    sources::write(&mut text, &app.serving.sources);
    arrivals::write(&mut text, &app.serving.arrivals);
    let mut text = upkeep::with_disk(text, &app).await;
    let status = app.serving.store.status();
    text.single(
        "logmill_memtable_bytes",
        "gauge",
        "Memory held by events not yet in parts.",
        status.memtable_bytes,
    );
    text.single(
        "logmill_durable_seq",
        "gauge",
        "End of the sequence numbers synced in the journal.",
        status.durable_seq,
    );
    if let Some(journal) = &status.journal {
        shared_journal(&mut text, journal);
    }
    if let Some(cluster) = &app.serving.shards {
        shards::write(&mut text, &cluster.seen());
    }
    text.single(
        "logmill_poisoned",
        "gauge",
        "1 after a disk error that stopped writes.",
        u8::from(status.poisoned.is_some()),
    );
    text.single(
        "logmill_seal_failing",
        "gauge",
        "1 while the last seal has failed.",
        u8::from(status.seal_error.is_some()),
    );
    app.requests.write(&mut text);
    listener(&mut text, &app);
    shippers::write(&mut text, &app.serving.shippers);
    text.single(
        "logmill_queries_running",
        "gauge",
        "Queries that are running.",
        app.serving.queries().len(),
    );
    text.single(
        "logmill_cluster_snapshots",
        "gauge",
        "States of the store that are held for the questions of peers.",
        app.snapshots.count(),
    );
    text.single(
        "logmill_uptime_seconds",
        "gauge",
        "Time since the start.",
        app.serving.started.elapsed().as_secs(),
    );
    process::write(&mut text, app.serving.started_at);
    text.response(&headers)
}

fn listener(text: &mut Exposition, app: &App) {
    text.family(
        "logmill_build_info",
        "gauge",
        "The program that runs: always 1.",
    );
    let version = env!("CARGO_PKG_VERSION");
    text.sample(&[("version", version)], 1);
    text.single(
        "logmill_http_connections",
        "gauge",
        "Connections that are open.",
        app.serving.connections.open.load(Ordering::Relaxed),
    );
    text.single(
        "logmill_tails",
        "gauge",
        "Clients that follow a stream.",
        app.tails.clients(),
    );
    text.single(
        "logmill_http_body_bytes",
        "gauge",
        "Bytes of the bodies of requests under way.",
        app.bodies.held(),
    );
}

fn events(text: &mut Exposition, app: &App) {
    let counters = app.serving.store.counters();
    for (what, help) in [
        (
            "received",
            "Items received: stored, quarantined, refused and duplicate.",
        ),
        ("stored", "Events stored."),
        (
            "quarantined",
            "Items that could not be parsed and are kept.",
        ),
        ("refused", "Items of batches that were refused."),
        ("duplicate", "Items of batches that had been stored before."),
    ] {
        let name = format!("logmill_events_{what}_total");
        text.family(&name, "counter", help);
        for (stream, c) in &counters {
            let value = match what {
                "received" => c.received,
                "stored" => c.stored,
                "quarantined" => c.quarantined,
                "refused" => c.refused,
                _ => c.duplicate,
            };
            text.sample(&[("stream", stream.as_str())], value);
        }
    }
}

/// Writes the state of a journal in Kafka.
fn shared_journal(text: &mut Exposition, journal: &storage::JournalStatus) {
    text.single(
        "logmill_journal_offset",
        "gauge",
        "Offset of the partition up to which it was read.",
        journal.position.next_offset,
    );
    text.single(
        "logmill_journal_sealed_offset",
        "gauge",
        "Offset of the partition from which a start reads it.",
        journal.sealed_offset,
    );
    text.single(
        "logmill_journal_bytes_under_way",
        "gauge",
        "Bytes of batches that were appended to the partition and not read back.",
        journal.bytes_under_way,
    );
    text.single(
        "logmill_journal_refusing",
        "gauge",
        "1 while batches are refused since the partition takes none.",
        u8::from(journal.error.is_some()),
    );
}

fn rollups(text: &mut Exposition, app: &App) {
    let snapshot = app.serving.store.snapshot();
    let manifest = snapshot.manifest();
    text.family(
        "logmill_rollup_waiting",
        "gauge",
        "Events that are in no tile yet; reads count them all the same.",
    );
    for rollup in &manifest.rollups {
        let waiting: usize = snapshot
            .chunks(rollup.stream.as_str())
            .iter()
            .map(|c| c.events.num_rows())
            .sum();
        let levels = rollup
            .definition
            .get("levels")
            .and_then(|l| l.as_array())
            .cloned()
            .unwrap_or_default();
        for level in levels.iter().filter_map(|l| l.as_str()) {
            let labels = [("rollup", rollup.name.as_str()), ("level", level)];
            text.sample(&labels, waiting);
        }
    }
    let mismatches = app.serving.scrub.mismatches.load(Ordering::Relaxed);
    text.single(
        "logmill_rollup_mismatch_total",
        "counter",
        "Differences from the raw events that verify and the scrub have found.",
        mismatches,
    );
    text.single(
        "logmill_scrub_windows_total",
        "counter",
        "Windows of rollups that the scrub has verified.",
        app.serving.scrub.windows.load(Ordering::Relaxed),
    );
    text.single(
        "logmill_scrub_failures_total",
        "counter",
        "Rollups that the scrub could not verify.",
        app.serving.scrub.failures.load(Ordering::Relaxed),
    );
    text.family(
        "logmill_rollup_late_total",
        "counter",
        "Events that arrived below a level's floor and are counted by the other levels only.",
    );
    for rollup in &manifest.rollups {
        for (level, floor) in &rollup.floors {
            let labels = [("rollup", rollup.name.as_str()), ("level", level.as_str())];
            text.sample(&labels, floor.late);
        }
    }
    text.single("logmill_parts", "gauge", "Parts.", manifest.parts.len());
    let part_bytes: u64 = manifest.parts.iter().map(|p| p.file.len).sum();
    text.single("logmill_part_bytes", "gauge", "Bytes of parts.", part_bytes);
    let files = || manifest.tiles.iter().flat_map(|t| &t.files);
    text.single(
        "logmill_tile_files",
        "gauge",
        "Tile files.",
        files().count(),
    );
    text.single(
        "logmill_tile_bytes",
        "gauge",
        "Bytes of tile files.",
        files().map(|f| f.file.len).sum::<u64>(),
    );
    text.single(
        "logmill_last_run",
        "gauge",
        "End of the sequence numbers in tiles.",
        manifest.sealed_seq,
    );
}
