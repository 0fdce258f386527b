//! Costs of the history for later work: quiet compaction, a start, rest, a drop.

use std::path::Path;
use std::time::{Duration, Instant};

use storage::{Name, ReadOnlyStore, RealFs, Store};

use crate::account::{Account, Cause};
use crate::child::{Child, resident_mib};
use crate::counted::CountedFs;
use crate::fill::{STREAM, most_parts, options};
use crate::machine::{load, median, peak_mib};
use crate::marks::at_most;
use crate::program::Server;
use crate::{RUNS, Settings, disk, files, generator, slice, stamp};

/// Share of the partitions that are dropped at the end.
const DROPPED: f64 = 0.75;
const PARTS_MAX: f64 = 4.0;
const PEAK_MIB_MAX: f64 = 500.0;
const REST_MIB_MAX: f64 = 300.0;
const START_MS_MAX: f64 = 2000.0;
const DROP_MS_MAX: f64 = 1000.0;

pub(crate) fn measure(s: &Settings, data: &Path, mut account: Account) {
    slice::measure(s, data, "before");
    starts(s, data, "before quiet compaction");
    compact(s, data, &mut account);
    slice::measure(s, data, "after");
    starts(s, data, "after it");
    rest(s, data);
    let copy = data.with_extension("copy");
    disk::copy(data, &copy);
    drop_here(s, &copy);
    std::fs::remove_dir_all(&copy).expect("removed");
    drop_by_server(s, data);
}

/// Compacts as if everything were quiet: by the real program on a second tree of names, for its
/// memory; then here, for its writes.
fn compact(s: &Settings, data: &Path, account: &mut Account) {
    let linked = data.with_extension("linked");
    files::link(data, &linked);
    for what in ["rollup", "partition"] {
        let ran = Child::run(s, &linked, &[what, "compact"]);
        println!("  {} ({:.1} s; load {})", ran.said, ran.seconds, load());
        let title = format!("memory of `logmill {what} compact` at its peak");
        at_most(&title, ran.peak_mib, PEAK_MIB_MAX, "MiB");
    }
    std::fs::remove_dir_all(&linked).expect("removed");

    let folders = ["streams", "rollups", "manifest"].map(|name| data.join(name));
    let before = folders.each_ref().map(|folder| files::bytes(folder));
    let store = Store::open(data, options(account.fs.clone())).expect("opened");
    account.skip();
    store.compact_tiles(true).expect("compacted");
    store.compact_parts(None, true).expect("compacted");
    account.charge(Cause::Quiet);
    store.close().expect("closed");
    let after = folders.each_ref().map(|folder| files::bytes(folder));
    for (nth, name) in ["parts", "tiles", "manifest"].iter().enumerate() {
        println!(
            "  bytes of {name}: {} before, {} after",
            before[nth], after[nth]
        );
    }
    let reader = ReadOnlyStore::open(std::sync::Arc::new(RealFs), data).expect("a reader");
    let snapshot = reader.snapshot();
    println!("  {} parts in all", snapshot.manifest().parts.len());
    let most = most_parts(snapshot.manifest()) as f64;
    at_most("parts of a partition after it", most, PARTS_MAX, "");
    account.print(after[0], after[1]);
}

/// Measures a server to its first answer of `/ready`, and a query by a program that ends with it.
fn starts(s: &Settings, data: &Path, when: &str) {
    let server = || {
        let began = Instant::now();
        let server = Server::start(&s.logmill, data, &[]);
        let ms = began.elapsed().as_secs_f64() * 1e3;
        (ms, peak_mib(server.process()))
    };
    let sql = || {
        let ran = Child::run(s, data, &["sql", "SELECT count(*) FROM access"]);
        (ran.seconds * 1e3, ran.peak_mib)
    };
    print_starts(&format!("`logmill serve` {when}, to /ready"), data, &server);
    print_starts(&format!("`logmill sql` {when}"), data, &sql);
}

fn print_starts(what: &str, data: &Path, start: &dyn Fn() -> (f64, f64)) {
    let warm: Vec<(f64, f64)> = (0..RUNS).map(|_| start()).collect();
    let cold = (0..RUNS).map(|_| {
        files::forget(data);
        start().0
    });
    let cold = median(cold.collect());
    println!(
        "  {what}: warm {:.0} ms, cold {cold:.0} (medians of {RUNS}); {:.0} MiB at the peak; load {}",
        median(warm.iter().map(|run| run.0).collect()),
        warm.iter().map(|run| run.1).fold(0.0, f64::max),
        load()
    );
    at_most(what, cold, START_MS_MAX, "ms");
}

/// Measures a server without requests.
fn rest(s: &Settings, data: &Path) {
    let server = Server::start(&s.logmill, data, &[]);
    std::thread::sleep(Duration::from_secs(s.rest_seconds));
    let resident = resident_mib(server.process());
    let title = format!("memory of a server at rest for {} s", s.rest_seconds);
    at_most(&title, resident, REST_MIB_MAX, "MiB");
}

/// Returns whole days from the first on, as seconds. A late line may lie before the first day.
fn oldest(s: &Settings) -> (i64, i64) {
    let days = (f64::from(s.days) * DROPPED) as i64;
    let start = generator::DEFAULT_START;
    (start - 86_400, start + days * 86_400)
}

/// Drops the oldest partitions in one edit, in this process.
fn drop_here(s: &Settings, data: &Path) {
    let store = Store::open(data, options(CountedFs::default())).expect("opened");
    let (from, to) = oldest(s);
    let stream = Name::new(STREAM).expect("a name");
    let before = disk::taken(data);
    let began = Instant::now();
    let report = store
        .drop_partitions(&stream, (from * 1_000_000, to * 1_000_000), false)
        .expect("dropped");
    let ms = began.elapsed().as_secs_f64() * 1e3;
    println!(
        "  {} partitions dropped: {} parts, {} events, {} bytes; on disk {before} before, {} after",
        report.partitions,
        report.parts,
        report.events,
        report.bytes,
        disk::taken(data)
    );
    at_most("a drop in this process", ms, DROP_MS_MAX, "ms");
    store.close().expect("closed");
}

/// Drops them by the command, through a running server.
fn drop_by_server(s: &Settings, data: &Path) {
    let server = Server::start(&s.logmill, data, &[]);
    let (from, to) = oldest(s);
    let range = format!("{}..{}", &stamp(from)[..10], &stamp(to)[..10]);
    let before = disk::taken(data);
    let address = format!("http://{}", server.address);
    let ran = Child::run_at(s, &address, &["partition", "drop", STREAM, &range]);
    println!(
        "  {}; on disk {before} before, {} as soon as the command has ended",
        ran.said,
        disk::taken(data)
    );
    at_most(
        "`logmill partition drop --server`",
        ran.seconds * 1e3,
        DROP_MS_MAX,
        "ms",
    );
}
