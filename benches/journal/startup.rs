//! Start-up of the real program on a large store whose journal is full: until `/ready` is answered.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::machine::{Account, median, peak_mib};
use crate::program::Server;
use crate::{Settings, events, files, http};

/// The default of `memtable_bytes_max`; the journal is full just before a seal would begin.
const MEMTABLE_BYTES: f64 = (128 << 20) as f64;
const FULL: f64 = 0.9;
/// Nothing is sealed while the journal is being filled.
const NO_SEAL: [(&str, &str); 2] = [
    ("LOGMILL_STORAGE__LAG", "1h"),
    ("LOGMILL_STORAGE__MEMTABLE_BYTES_MAX", "1GiB"),
];
/// Records at which a memtable is sealed, as storage has it.
const RECORDS: f64 = 100_000.0;
/// Lines in a request.
const BATCHES: [usize; 2] = [1000, 1];
const CLIENTS: usize = 64;
const EVENTS: usize = 20_000;

/// Prints how long each start took.
pub(crate) fn measure(s: &Settings) {
    let clean = store(s);
    let temporary = tempfile::tempdir_in(&s.dir).expect("a directory");
    println!(
        "  {} lines in {} daily partitions, {:.0} MB",
        s.lines,
        s.days,
        files::bytes(&clean) as f64 / 1e6
    );
    println!(
        "  unsealed events  lines/request  journal MB  page cache  ms to /ready: each; median  peak MiB  cores"
    );
    measure_starts(s, &clean, "       0              -         0.0");
    for batch in BATCHES {
        let left = temporary.path().join("left");
        files::link(&clean, &left);
        let unsealed = fill(s, &left, batch);
        let journal = files::bytes(&left.join("journal")) as f64 / 1e6;
        measure_starts(
            s,
            &left,
            &format!("{unsealed:>8} {batch:>14} {journal:>11.1}"),
        );
        std::fs::remove_dir_all(&left).expect("removed");
    }
    if !s.keep {
        std::fs::remove_dir_all(&clean).expect("removed");
    }
}

fn measure_starts(s: &Settings, from: &Path, what: &str) {
    for cold in [false, true] {
        let data = from.with_extension("copy");
        let starts = (0..s.runs).map(|_| {
            files::link(from, &data);
            let start = start(s, &data, cold);
            std::fs::remove_dir_all(&data).expect("removed");
            start
        });
        print_starts(what, cold, &starts.collect::<Vec<_>>());
    }
}

struct Start {
    ms: f64,
    peak_mib: f64,
    cores: f64,
}

fn start(s: &Settings, data: &Path, cold: bool) -> Start {
    if cold {
        files::forget(data);
    }
    let account = Account::open("self");
    let began = Instant::now();
    let server = Server::start(&s.logmill, data, &[]);
    Start {
        ms: began.elapsed().as_secs_f64() * 1e3,
        peak_mib: peak_mib(server.process()),
        cores: account.close().cores,
    }
}

fn print_starts(what: &str, cold: bool, starts: &[Start]) {
    let each: Vec<String> = starts.iter().map(|s| format!("{:.0}", s.ms)).collect();
    println!(
        "         {what}  {:>10}  {}; {:.0} {:>8.0} {:>8.2}",
        if cold { "cold" } else { "warm" },
        each.join(" "),
        median(starts.iter().map(|s| s.ms).collect()),
        starts.iter().map(|s| s.peak_mib).fold(0.0, f64::max),
        median(starts.iter().map(|s| s.cores).collect()),
    );
}

/// Returns the imported store, which is made when it is not there.
fn store(s: &Settings) -> PathBuf {
    let name = format!("store-{}-{}", s.lines, s.days);
    let (data, log) = (s.dir.join(&name), s.dir.join(format!("{name}.log")));
    if data.exists() {
        return data;
    }
    let (lines, days) = (s.lines.to_string(), s.days.to_string());
    let generate = ["demo", "--lines", &lines, "--days", &days];
    let generate = [&generate[..], &["--start", events::START_S, "--out"]].concat();
    run(Command::new(&s.logmill).args(generate).arg(&log));
    let import = ["import", "--stream", events::STREAM, "--data"];
    run(Command::new(&s.logmill).args(import).arg(&data).arg(&log));
    std::fs::remove_file(&log).expect("removed");
    data
}

fn run(command: &mut Command) {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    assert!(quiet.status().expect("runs").success(), "{command:?}");
}

/// Fills the journal through a server, which is killed; returns the number of events in no part.
fn fill(s: &Settings, data: &Path, batch: usize) -> f64 {
    let lines = events::lines(&s.logmill, EVENTS);
    let server = Server::start(&s.logmill, data, &NO_SEAL);
    let bodies: Vec<Vec<u8>> = lines.chunks(batch).map(<[_]>::concat).collect();
    let requests = http::requests(&bodies, false);
    let stored = || {
        server.metric(&format!(
            "logmill_events_stored_total{{stream=\"{}\"}}",
            events::STREAM
        ))
    };
    // The journal is full by its bytes or by the records at which a seal begins, whichever comes
    // first.
    loop {
        http::drive(
            &server,
            requests,
            CLIENTS.min(requests.len()),
            Duration::from_millis(20),
        );
        let bytes = server.metric("logmill_memtable_bytes");
        if bytes >= MEMTABLE_BYTES * FULL || stored() / (batch as f64) >= RECORDS * FULL {
            return stored();
        }
    }
}
