//! What the history costs those who come after: quiet compaction, a slice, a start, a drop.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::util::display::array_value_to_string;
use query::{Engine, EngineOptions, Figures, NoSystemInfo};
use storage::{Name, Reader, RealFs, Store};

use crate::counted::CountedFs;
use crate::fill::{STREAM, most_parts, options};
use crate::machine::{load, median, peak_mib};
use crate::program::Server;
use crate::{Settings, files};

const RUNS: usize = 5;
const DAY_S: i64 = 86_400;
/// Share of the partitions that are dropped at the end.
const DROPPED: f64 = 0.75;

pub(crate) fn measure(s: &Settings, data: &Path) {
    slice(s, data, "before");
    compact(s, data);
    slice(s, data, "after");
    start(s, data);
    drop_oldest(s, data);
}

/// One client on one day, as the page asks for it.
fn slice(s: &Settings, data: &Path, when: &str) {
    let reader = Reader::open(Arc::new(RealFs), data).expect("a reader");
    let snapshot = reader.snapshot();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(8 << 20)
        .build()
        .expect("a runtime");
    let engine = Engine::new(EngineOptions::default()).expect("an engine");
    let run = |sql: &str| -> (usize, Figures, f64, String) {
        let began = Instant::now();
        let answer = engine.sql(Arc::clone(&snapshot), Arc::new(NoSystemInfo), sql, None);
        let (_, batches, figures) = runtime
            .block_on(async { answer.await?.collect().await })
            .expect("answered");
        let ms = began.elapsed().as_secs_f64() * 1e3;
        let rows = batches.iter().map(|b| b.num_rows()).sum();
        let first = array_value_to_string(batches[0].column(0), 0).unwrap_or_default();
        (rows, figures, ms, first)
    };
    let middle = crate::generator::DEFAULT_START + i64::from(s.days / 2) * DAY_S;
    let stamp = |at: i64| {
        let time = chrono::DateTime::from_timestamp(at, 0).expect("a time");
        time.format("%Y-%m-%dT%H:%M:%SZ").to_string()
    };
    let day = format!(
        "time >= '{}' AND time < '{}'",
        stamp(middle),
        stamp(middle + DAY_S)
    );
    let (_, _, _, host) = run(&format!("SELECT min(host) FROM {STREAM} WHERE {day}"));
    let sql = format!("SELECT * FROM {STREAM} WHERE host = '{host}' AND {day}");
    let runs: Vec<_> = (0..RUNS).map(|_| run(&sql)).collect();
    let (rows, figures, first, _) = &runs[0];
    println!(
        "  host and day {when} quiet compaction: first {first:.1} ms, median {:.1} of {RUNS}; {rows} rows, looked at {} in {} of {} parts",
        median(runs.iter().map(|r| r.2).collect()),
        figures.rows_examined,
        figures.parts.examined,
        figures.parts.total
    );
}

/// Everything is taken for quiet, by the real program.
fn compact(s: &Settings, data: &Path) {
    let before = files::bytes(&data.join("streams"));
    let began = Instant::now();
    let mut child = Command::new(&s.logmill)
        .args(["partition", "compact", "--data"])
        .arg(data)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut peak = 0.0_f64;
    while child.try_wait().expect("waits").is_none() {
        peak = peak.max(peak_mib(child.id()));
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success(), "compaction failed");
    let manifest = files::bytes(&data.join("manifest"));
    println!(
        "  {}; {:.1?}, {peak:.0} MiB at the peak; bytes of parts {before} before, {} after; a manifest of {manifest}",
        String::from_utf8_lossy(&output.stdout).trim(),
        began.elapsed(),
        files::bytes(&data.join("streams"))
    );
    let reader = Reader::open(Arc::new(RealFs), data).expect("a reader");
    let snapshot = reader.snapshot();
    println!(
        "  {} parts, at most {} in a partition of events",
        snapshot.manifest().parts.len(),
        most_parts(snapshot.manifest())
    );
}

/// The server on the compacted store.
fn start(s: &Settings, data: &Path) {
    let starts = (0..RUNS).map(|_| {
        let began = Instant::now();
        let server = Server::start(s, data, &[]);
        (
            began.elapsed().as_secs_f64() * 1e3,
            peak_mib(server.process()),
        )
    });
    let starts: Vec<(f64, f64)> = starts.collect();
    println!(
        "  a server is ready after {:.0} ms (median of {RUNS}; most {:.0}); {:.0} MiB at the peak; load {}",
        median(starts.iter().map(|s| s.0).collect()),
        starts.iter().map(|s| s.0).fold(0.0, f64::max),
        starts.iter().map(|s| s.1).fold(0.0, f64::max),
        load()
    );
}

/// The oldest partitions are dropped in one edit.
fn drop_oldest(s: &Settings, data: &Path) {
    let before = files::bytes(data);
    let store = Store::open(data, options(CountedFs::default())).expect("opened");
    let days = (f64::from(s.days) * DROPPED) as i64;
    // A late line may lie before the first day.
    let from = crate::generator::DEFAULT_START - DAY_S;
    let range = (from * 1_000_000, (from + (days + 1) * DAY_S) * 1_000_000);
    let stream = Name::new(STREAM).expect("a name");
    let began = Instant::now();
    let report = store
        .drop_partitions(&stream, range, false)
        .expect("dropped");
    let took = began.elapsed();
    store.close().expect("closed");
    println!(
        "  {} of {} partitions dropped in {took:.1?}: {} parts, {} events, {} bytes; {} bytes on disk before, {} after",
        report.partitions,
        s.days,
        report.parts,
        report.events,
        report.bytes,
        before,
        files::bytes(data)
    );
}
