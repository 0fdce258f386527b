//! Hostile statements against a real server, one after the other, beside normal queries.
//!
//!     cargo bench --bench hostile -- [--small] [--lines 500000] [--memory 256] [--seconds 20]
//!         [--only CLASS] [--dir target/bench]
//!
//! The server has a small memory limit (`--memory`, MiB) and gives each query five seconds. Ten
//! normal queries a second run all the time. It exits with 1 when a bound is broken:
//!
//! * a statement ends within its time and two seconds more;
//! * resident memory stays under what it was at the start, the limit and a quarter of it;
//! * nothing is left in the folder for temporary files, and no thread computes on;
//! * the 99th percentile of the normal queries is under three times that of a quiet server.
//!
//! `--small` takes few lines and 400 ms each, for a build without optimization: there a
//! percentile below [`SMALL_P99`] breaks no bound, nor do threads that compute on for less than
//! [`SMALL_TO_CALM`].

mod ask;
#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code, reason = "another bench needs the rest")]
mod normal;
mod statements;
mod watch;

use common::program;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use normal::Normal;
use program::Server;
use watch::Watch;

/// Time that a statement may take beyond the limit that the server sets.
const TO_END: Duration = Duration::from_secs(2);
/// A stopped statement returns its threads within this time.
const TO_CALM: Duration = Duration::from_millis(200);
/// Duration of the observation after that.
const CALM: Duration = Duration::from_millis(200);
/// Share of processor time that a server without queries may take.
const IDLE: f64 = 0.15;
const SMALL_P99: f64 = 250.0;
/// A plan that is being made does not stop, and the small run is that of a busy machine: the list
/// of 100,000 values takes it most of a second of processor time.
const SMALL_TO_CALM: Duration = Duration::from_secs(15);

struct Settings {
    small: bool,
    lines: u64,
    memory_mib: f64,
    time_max: Duration,
    seconds: u64,
    only: Option<String>,
    dir: PathBuf,
    logmill: PathBuf,
}

fn settings() -> Settings {
    let mut s = Settings {
        small: false,
        lines: 500_000,
        memory_mib: 256.0,
        time_max: Duration::from_secs(5),
        seconds: 20,
        only: None,
        dir: "target/bench".into(),
        logmill: env!("CARGO_BIN_EXE_logmill").into(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            "--small" => {
                s.small = true;
                s.lines = 50_000;
                s.time_max = Duration::from_millis(400);
                s.seconds = 3;
            }
            "--lines" => s.lines = value().parse().expect("a number"),
            "--memory" => s.memory_mib = value().parse().expect("a number"),
            "--seconds" => s.seconds = value().parse().expect("a number"),
            "--only" => s.only = Some(value()),
            "--dir" => s.dir = value().into(),
            // cargo passes it to every bench.
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    std::fs::create_dir_all(&s.dir).expect("a directory");
    s
}

fn main() -> ExitCode {
    let s = settings();
    let home = tempfile::tempdir_in(&s.dir).expect("a directory");
    let (data, temp) = (home.path().join("store"), home.path().join("temp"));
    std::fs::create_dir(&temp).expect("a directory");
    fill(&s, home.path(), &data);
    let memory = format!("{}MiB", s.memory_mib);
    let time = format!("{}ms", s.time_max.as_millis());
    let temp_dir = temp.display().to_string();
    let server = Server::start(
        &s.logmill,
        &data,
        &[
            ("LOGMILL_QUERY__MEMORY_BYTES_MAX", &*memory),
            ("LOGMILL_QUERY__TIME_MAX", &*time),
            ("TMPDIR", &*temp_dir),
        ],
    );
    let normal = Normal::start(&server.address);
    std::thread::sleep(Duration::from_secs(2));
    normal.take();
    std::thread::sleep(Duration::from_secs(s.seconds));
    let quiet = p99(normal.take());
    println!("normal queries on a quiet server: 99th percentile {quiet:.1} ms\n");
    println!(
        "class                     outcome              seconds  peak MiB  temp MiB  calm  normal max ms"
    );
    let watch = Watch::start(server.process(), temp.clone());
    let start_mib = watch::resident_mib(server.process());
    let (mut broken, mut all, mut peak) = (Vec::new(), Vec::new(), 0.0_f64);
    for (class, sql) in statements::all() {
        if s.only.as_ref().is_some_and(|only| !class.contains(&**only)) {
            continue;
        }
        watch.take();
        normal.take();
        let began = Instant::now();
        let outcome = ask::ask(&server.address, &sql);
        let took = began.elapsed();
        let (found, mut times) = (watch.take(), normal.take());
        // A statement that was refused at once has left nothing behind.
        let calm = match took > TO_CALM {
            true => busy_after(
                &server,
                &normal,
                if s.small { SMALL_TO_CALM } else { TO_CALM },
            ),
            false => 0.0,
        };
        let over_mib = found.resident_mib - start_mib;
        peak = peak.max(over_mib);
        times.sort_by(f64::total_cmp);
        println!(
            "{class:<25} {outcome:<20} {:>7.2} {over_mib:>9.0} {:>9.1} {calm:>5.2} {:>14.1}",
            took.as_secs_f64(),
            found.temp_mib,
            times.last().copied().unwrap_or(0.0)
        );
        let mut check = |holds: bool, what: String| {
            if !holds {
                println!("    BROKEN: {what}");
                broken.push(format!("{class}: {what}"));
            }
        };
        check(
            took < s.time_max + TO_END,
            format!("{took:.1?} for a query of at most {:?}", s.time_max),
        );
        check(
            over_mib < s.memory_mib * 1.25,
            format!("{over_mib:.0} MiB for a limit of {}", s.memory_mib),
        );
        check(!outcome.starts_with("no answer"), outcome.clone());
        check(calm < IDLE, format!("{calm:.2} cores busy afterwards"));
        check(is_emptied(&temp), "temporary files are left".to_owned());
        all.extend(times);
    }
    let loaded = p99(all);
    println!(
        "\npeak {peak:.0} MiB over {start_mib:.0} at the start; normal queries: 99th percentile {quiet:.1} ms quiet, {loaded:.1} ms"
    );
    let floor = if s.small { SMALL_P99 } else { 0.0 };
    if loaded >= (3.0 * quiet).max(floor) {
        broken.push(format!("normal queries take {loaded:.1} ms"));
    }
    for what in &broken {
        println!("BROKEN {what}");
    }
    ExitCode::from(u8::from(!broken.is_empty()))
}

/// Makes a store of generated lines.
fn fill(s: &Settings, home: &Path, data: &Path) {
    let log = home.join("access.log");
    let lines = s.lines.to_string();
    run(
        s,
        &["demo", "--lines", &lines, "--days", "14", "--out"],
        &[&log],
    );
    run(
        s,
        &["import", "--stream", "access", "--data"],
        &[data, &log],
    );
    std::fs::remove_file(log).expect("removed");
}

fn run(s: &Settings, args: &[&str], paths: &[&Path]) {
    let mut command = Command::new(&s.logmill);
    command.args(args).args(paths);
    let output = command
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .output();
    let output = output.expect("the program runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {told}");
}

/// Returns the cores that the server computes with after time to stop, while no query runs.
/// Kernel time is left out: the kernel frees the files and the memory of the stopped statement.
fn busy_after(server: &Server, normal: &Normal, to_calm: Duration) -> f64 {
    let _paused = normal.pause();
    let until = Instant::now() + to_calm;
    std::thread::sleep(TO_CALM);
    let process = server.process().to_string();
    loop {
        let before = watch::user_cpu(&process);
        std::thread::sleep(CALM);
        let busy = (watch::user_cpu(&process) - before) / CALM.as_secs_f64();
        if busy < IDLE || Instant::now() > until {
            return busy;
        }
    }
}

/// Returns whether the folder for temporary files becomes empty in time.
fn is_emptied(temp: &Path) -> bool {
    let until = Instant::now() + TO_CALM;
    while watch::temp_bytes(temp) > 0 {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

fn p99(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let at = (times.len() as f64 * 0.99) as usize;
    let found = times.get(at.min(times.len().saturating_sub(1)));
    found.copied().unwrap_or(f64::NAN)
}
