//! Import of generated lines by the real program: events per second, CPU by thread, peak memory,
//! bytes.
//!
//!     cargo bench --bench import -- --lines 10000000 [--dir target/bench] [--runs 1] [--keep]
//!
//! The lines come from `logmill demo --out`, the same for a seed. CPU and memory are the kernel's
//! own accounts of the process; its threads are distinguished by name, which shows the use of the
//! CPU: the main thread parses and encodes, `logmill-seal` builds parts, `logmill-tiles` builds
//! tiles.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LOGMILL: &str = env!("CARGO_BIN_EXE_logmill");
/// Unit of the times in /proc/PID/stat; Linux has had 100 for every user program.
const TICKS_PER_SECOND: f64 = 100.0;

struct Settings {
    lines: u64,
    days: u32,
    dir: PathBuf,
    runs: usize,
    keep: bool,
}

fn settings() -> Settings {
    let mut s = Settings {
        lines: 10_000_000,
        days: 14,
        dir: "target/bench".into(),
        runs: 1,
        keep: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            "--lines" => s.lines = value().parse().expect("a number"),
            "--days" => s.days = value().parse().expect("a number"),
            "--dir" => s.dir = value().into(),
            "--runs" => s.runs = value().parse().expect("a number"),
            "--keep" => s.keep = true,
            // cargo passes it to every bench.
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    s
}

fn main() {
    let s = settings();
    std::fs::create_dir_all(&s.dir).expect("a directory");
    let log = s.dir.join(format!("access-{}-{}.log", s.lines, s.days));
    if !log.exists() {
        let (lines, days) = (s.lines.to_string(), s.days.to_string());
        let args = ["demo", "--lines", &lines, "--days", &days, "--out"];
        let status = Command::new(LOGMILL)
            .args(args)
            .arg(&log)
            .status()
            .expect("runs");
        assert!(status.success(), "generating failed");
    }
    let raw = std::fs::metadata(&log).expect("the log").len();
    println!(
        "{} lines over {} days, {raw} bytes, {:.1} B/line",
        s.lines,
        s.days,
        raw as f64 / s.lines as f64
    );
    if let Some(compressed) = zstd_bytes(&log) {
        println!(
            "zstd -3 of the log: {:.1} B/line",
            compressed as f64 / s.lines as f64
        );
    }
    for run in 1..=s.runs {
        let data = s.dir.join(format!("store-{}-{}", s.lines, s.days));
        if data.exists() {
            std::fs::remove_dir_all(&data).expect("removed");
        }
        report(run, &measure(&log, &data), s.lines, &data);
        if !s.keep && run < s.runs {
            std::fs::remove_dir_all(&data).expect("removed");
        }
    }
}

fn zstd_bytes(log: &Path) -> Option<u64> {
    let mut source = std::fs::File::open(log).ok()?;
    let mut encoder = zstd::stream::Encoder::new(Counted(0), 3).ok()?;
    std::io::copy(&mut source, &mut encoder).ok()?;
    Some(encoder.finish().ok()?.0)
}

struct Counted(u64);

impl std::io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct Measured {
    seconds: f64,
    cpu_seconds: f64,
    peak_kib: u64,
    by_thread: BTreeMap<String, f64>,
    summary: String,
}

fn measure(log: &Path, data: &Path) -> Measured {
    let before = children_cpu();
    let started = Instant::now();
    let mut child = Command::new(LOGMILL)
        .args(["import", "--stream", "access", "--output", "json", "--data"])
        .arg(data)
        .arg(log)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("runs");
    let mut threads: BTreeMap<u64, (String, f64)> = BTreeMap::new();
    let mut peak_kib = 0;
    while child.try_wait().expect("waits").is_none() {
        look(&child, &mut threads, &mut peak_kib);
        std::thread::sleep(Duration::from_millis(20));
    }
    let seconds = started.elapsed().as_secs_f64();
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success(), "import failed");
    let mut by_thread: BTreeMap<String, f64> = BTreeMap::new();
    for (name, cpu) in threads.into_values() {
        *by_thread.entry(name).or_default() += cpu;
    }
    Measured {
        seconds,
        cpu_seconds: children_cpu() - before,
        peak_kib,
        by_thread,
        summary: String::from_utf8_lossy(&output.stdout).into_owned(),
    }
}

/// Reads utime + stime of every thread, and the peak of resident memory.
fn look(child: &Child, threads: &mut BTreeMap<u64, (String, f64)>, peak_kib: &mut u64) {
    let root = format!("/proc/{}", child.id());
    if let Ok(status) = std::fs::read_to_string(format!("{root}/status")) {
        let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|l| l.split_whitespace().next()?.parse().ok());
        *peak_kib = (*peak_kib).max(peak.unwrap_or(0));
    }
    let Ok(tasks) = std::fs::read_dir(format!("{root}/task")) else {
        return;
    };
    for task in tasks.flatten() {
        let Ok(stat) = std::fs::read_to_string(task.path().join("stat")) else {
            continue;
        };
        let (Some(open), Some(close)) = (stat.find('('), stat.rfind(')')) else {
            continue;
        };
        let fields: Vec<&str> = stat[close + 2..].split(' ').collect();
        let ticks = |i: usize| {
            fields
                .get(i)
                .and_then(|f| f.parse::<f64>().ok())
                .unwrap_or(0.0)
        };
        let id = task.file_name().to_string_lossy().parse().unwrap_or(0);
        threads.insert(
            id,
            (
                stat[open + 1..close].to_owned(),
                (ticks(11) + ticks(12)) / TICKS_PER_SECOND,
            ),
        );
    }
}

/// Returns the CPU seconds of children that have ended.
fn children_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let close = stat.rfind(')').map_or(0, |at| at + 2);
    let fields: Vec<&str> = stat[close..].split(' ').collect();
    let ticks = |i: usize| {
        fields
            .get(i)
            .and_then(|f| f.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    (ticks(13) + ticks(14)) / TICKS_PER_SECOND
}

fn bytes_below(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    entries
        .flatten()
        .map(|e| match e.metadata() {
            Ok(m) if m.is_dir() => bytes_below(&e.path()),
            Ok(m) => m.len(),
            Err(_) => 0,
        })
        .sum()
}

fn report(run: usize, m: &Measured, lines: u64, data: &Path) {
    let per_line = |seconds: f64| seconds * 1e6 / lines as f64;
    println!("\nrun {run}: {}", m.summary.trim());
    println!(
        "  {:.2} s wall, {:.0} lines/s",
        m.seconds,
        lines as f64 / m.seconds
    );
    println!(
        "  {:.2} s CPU, {:.2} CPU-us per line",
        m.cpu_seconds,
        per_line(m.cpu_seconds)
    );
    let mut threads: Vec<_> = m.by_thread.iter().collect();
    threads.sort_by(|a, b| b.1.total_cmp(a.1));
    for (name, cpu) in threads.into_iter().filter(|t| *t.1 > 0.0) {
        println!("    {name:<16} {:.3} CPU-us per line", per_line(*cpu));
    }
    println!("  {:.0} MiB peak resident", m.peak_kib as f64 / 1024.0);
    let per_event = |bytes: u64| bytes as f64 / lines as f64;
    println!(
        "  parts {:.2} B/line",
        per_event(bytes_below(&data.join("streams")))
    );
    for rollup in ["stats", "traffic"] {
        println!(
            "  tiles of {rollup} {:.2} B/line",
            per_event(bytes_below(&data.join("rollups").join(rollup)))
        );
    }
    println!(
        "  journal left {} B, manifest {} B",
        bytes_below(&data.join("journal")),
        bytes_below(&data.join("manifest"))
    );
}
