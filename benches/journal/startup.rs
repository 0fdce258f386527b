//! Start-up of the real program on a large store whose journal is full: until `/ready` is answered.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::machine::{Account, median, peak_mib};
use crate::program::Server;
use crate::{Settings, events, files};

/// The default of `memtable_bytes_max`; the journal is full just before a seal would begin.
const MEMTABLE_BYTES: f64 = (128 << 20) as f64;
const FULL: f64 = 0.97;
/// Nothing is sealed while the journal is being filled.
const NO_SEAL: [(&str, &str); 2] = [
    ("LOGMILL_STORAGE__LAG", "1h"),
    ("LOGMILL_STORAGE__MEMTABLE_BYTES_MAX", "1GiB"),
];
const BATCH: usize = 1000;
const EVENTS: usize = 20_000;

/// Prints how long each start took.
pub(crate) fn measure(s: &Settings) {
    let clean = store(s);
    let temporary = tempfile::tempdir_in(&s.dir).expect("a directory");
    let left = temporary.path().join("left");
    files::link(&clean, &left);
    let unsealed = fill(s, &left);
    println!(
        "  {} lines in {} daily partitions, {:.0} MB; {unsealed} events in {:.1} MB of journal",
        s.lines,
        s.days,
        files::bytes(&left) as f64 / 1e6,
        files::bytes(&left.join("journal")) as f64 / 1e6,
    );
    println!("  journal  page cache  ms to /ready: each; median    peak MiB  cores busy");
    for (journal, from) in [("full", &left), ("empty", &clean)] {
        for cold in [false, true] {
            let data = temporary.path().join("copy");
            let starts = (0..s.runs).map(|_| {
                files::link(from, &data);
                let start = start(s, &data, cold);
                std::fs::remove_dir_all(&data).expect("removed");
                start
            });
            print(journal, cold, &starts.collect::<Vec<_>>());
        }
    }
    if !s.keep {
        std::fs::remove_dir_all(&clean).expect("removed");
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
    let server = Server::start(s, data, &[]);
    Start {
        ms: began.elapsed().as_secs_f64() * 1e3,
        peak_mib: peak_mib(server.process()),
        cores: account.close().cores,
    }
}

fn print(journal: &str, cold: bool, starts: &[Start]) {
    let each: Vec<String> = starts.iter().map(|s| format!("{:.0}", s.ms)).collect();
    println!(
        "  {journal:<7}  {:<10}  {}; {:.0} {:>8.0} {:>8.2}",
        if cold { "cold" } else { "warm" },
        each.join(" "),
        median(starts.iter().map(|s| s.ms).collect()),
        starts.iter().map(|s| s.peak_mib).fold(0.0, f64::max),
        median(starts.iter().map(|s| s.cores).collect()),
    );
}

/// The imported store, made when it is not there.
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

/// Fills the journal through a server, which is killed; the events that are in no part.
fn fill(s: &Settings, data: &Path) -> usize {
    let lines = events::lines(&s.logmill, EVENTS);
    let server = Server::start(s, data, &NO_SEAL);
    let mut unsealed = 0;
    for some in lines.chunks(BATCH).cycle() {
        if server.metric("logmill_memtable_bytes") >= MEMTABLE_BYTES * FULL {
            break;
        }
        server.ingest(events::STREAM, &some.concat());
        unsealed += some.len();
    }
    unsealed
}
