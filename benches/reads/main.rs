//! Chart queries on a store of 400 days while events come in: milliseconds of each, in this process
//! and as a client of a real server sees them.
//!
//!     cargo bench --bench reads -- [--lines 20000000] [--days 400] [--seconds 30] [--rate 50000]
//!         [--dir target/bench] [--keep]
//!
//! The store is imported and compacted by the real program and opened here for writing; events of
//! now come in at the given rate, and the store seals and compacts as it does in a server. Each
//! query takes a snapshot of its moment, is planned, run and read whole; queries take turns. Then
//! the same runs on a server on another copy of the store, over HTTP, with the events sent to it
//! as lines.

#[path = "../common/mod.rs"]
mod common;
mod load;

use common::{ask, client, events, files};

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Datelike, TimeDelta, Utc};
use query::QueryStats;
use storage::{Options, Store};

const LOGMILL: &str = env!("CARGO_BIN_EXE_logmill");

struct Settings {
    lines: u64,
    days: i64,
    seconds: u64,
    rate: usize,
    dir: PathBuf,
    keep: bool,
}

fn settings() -> Settings {
    let mut s = Settings {
        lines: 20_000_000,
        days: 400,
        seconds: 30,
        rate: 50_000,
        dir: "target/bench".into(),
        keep: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            "--lines" => s.lines = value().parse().expect("a number"),
            "--days" => s.days = value().parse().expect("a number"),
            "--seconds" => s.seconds = value().parse().expect("a number"),
            "--rate" => s.rate = value().parse().expect("a number"),
            "--dir" => s.dir = value().into(),
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
    let whole = store(&s);
    let data = s.dir.join("reads");
    link(&whole, &data);
    let bench = Bench::open(&data);
    let queries = bench.queries();
    println!("{} events, {}", bench.events(), bench.shape());
    for rate in [0, s.rate] {
        let load = load::Load::start(&bench.store, rate);
        let measured = bench.measure(&queries, Duration::from_secs(s.seconds));
        let (sent, seconds) = load.stop();
        println!(
            "{:.0} events/s came in over {seconds:.0} s ({rate} asked), {}",
            sent as f64 / seconds,
            bench.shape()
        );
        println!(
            "  {:<46} {:>9} {:>7} {:>7} {:>6} {:>10}  answered by",
            "", "median ms", "95th", "times", "rows", "examined"
        );
        for ((name, _), mut times) in queries.iter().zip(measured) {
            times.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (median, rows, figures) = &times[times.len() / 2];
            println!(
                "  {name:<46} {median:>9.2} {:>7.2} {:>7} {rows:>6} {:>10}  {}",
                times[times.len() * 95 / 100].0,
                times.len(),
                figures.rows_examined,
                figures.answered_by.join(", ")
            );
        }
    }
    drop(bench);
    link(&whole, &data);
    as_client(&s, &data, &queries);
    std::fs::remove_dir_all(&data).expect("removed");
    if !s.keep {
        std::fs::remove_dir_all(&whole).expect("removed");
    }
}

/// Makes a copy of the store that shares its files.
fn link(whole: &Path, data: &Path) {
    if data.exists() {
        std::fs::remove_dir_all(data).expect("removed");
    }
    files::link(whole, data);
}

/// Runs the same queries on a server.
fn as_client(s: &Settings, data: &Path, queries: &[(&'static str, String)]) {
    let client = Arc::new(client::Client::start(data, true));
    for rate in [0, s.rate] {
        let load = load::Load::over_http(&client, rate);
        let mut times: Vec<Vec<f64>> = queries.iter().map(|_| Vec::new()).collect();
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(s.seconds) {
            for ((_, sql), times) in queries.iter().zip(&mut times) {
                times.push(client.once(sql).0);
            }
        }
        let (sent, seconds) = load.stop();
        println!(
            "over HTTP, while {:.0} events/s came in over {seconds:.0} s ({rate} asked)\n  {:<46} {:>9} {:>7} {:>7} {}",
            sent as f64 / seconds,
            "",
            "median ms",
            "95th",
            "times",
            client::COLUMNS
        );
        for ((name, sql), mut times) in queries.iter().zip(times) {
            times.sort_by(f64::total_cmp);
            println!(
                "  {name:<46} {:>9.2} {:>7.2} {:>7} {}",
                times[times.len() / 2],
                times[times.len() * 95 / 100],
                times.len(),
                client.ask(sql, 3).columns()
            );
        }
    }
}

/// Returns the imported and compacted store, which is made when it is not there. Its last day is
/// today.
fn store(s: &Settings) -> PathBuf {
    std::fs::create_dir_all(&s.dir).expect("a directory");
    let name = format!("reads-{}-{}", s.lines, s.days);
    let (data, log) = (s.dir.join(&name), s.dir.join(format!("{name}.log")));
    if data.exists() {
        return data;
    }
    let start = (Utc::now() - TimeDelta::days(s.days))
        .timestamp()
        .to_string();
    let (lines, days) = (s.lines.to_string(), s.days.to_string());
    let generate = [
        "demo", "--lines", &lines, "--days", &days, "--start", &start, "--out",
    ];
    run(Command::new(LOGMILL).args(generate).arg(&log));
    let import = ["import", "--stream", events::STREAM, "--data"];
    run(Command::new(LOGMILL).args(import).arg(&data).arg(&log));
    run(Command::new(LOGMILL)
        .args(["rollup", "compact", "--data"])
        .arg(&data));
    std::fs::remove_file(&log).expect("removed");
    data
}

fn run(command: &mut Command) {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    assert!(quiet.status().expect("runs").success(), "{command:?}");
}

/// A query's milliseconds, rows and figures, each time.
type Times = Vec<(f64, usize, QueryStats)>;

struct Bench {
    store: Arc<Store>,
    asker: ask::Asker,
}

impl Bench {
    fn open(data: &Path) -> Self {
        let options = Options {
            rollup_hook: Arc::new(aggregator::Cascade::default()),
            ..Options::default()
        };
        Self {
            store: Arc::new(Store::open(data, options).expect("opens")),
            asker: ask::Asker::new(),
        }
    }

    fn events(&self) -> u64 {
        let snapshot = self.store.snapshot();
        snapshot.streams()[events::STREAM].sealed_events
    }

    fn shape(&self) -> String {
        let snapshot = self.store.snapshot();
        let files = || snapshot.manifest().tiles.iter().flat_map(|t| &t.files);
        let sections = files().map(|f| f.sections.len()).sum::<usize>();
        format!(
            "{} tile files with {sections} sections, {:.1} MB",
            files().count(),
            files().map(|f| f.file.len).sum::<u64>() as f64 / 1e6
        )
    }

    /// Returns the queries of a dashboard: the page is the hundredth of the last month.
    fn queries(&self) -> Vec<(&'static str, String)> {
        let now = Utc::now();
        let at = |t: DateTime<Utc>| t.format("'%Y-%m-%dT%H:%M:%SZ'").to_string();
        let (hour, day) = (at(now - TimeDelta::hours(1)), at(now - TimeDelta::days(1)));
        let year = at(now - TimeDelta::days(365));
        let month = (now - TimeDelta::days(i64::from(now.day()))).format("'%Y-%m-01'");
        let this_year = now.format("'%Y-01-01'");
        let page = self.text(&format!(
            "SELECT path FROM stats.monthly WHERE bucket = {month} ORDER BY hits DESC, path LIMIT 1 OFFSET 99"
        ));
        let page = format!("path = '{page}'");
        vec![
            (
                "last hour by minute, everything",
                format!(
                    "SELECT bucket, sum(hits) FROM traffic.minutely WHERE bucket >= {hour} GROUP BY 1 ORDER BY 1"
                ),
            ),
            (
                "last hour by minute, one page",
                format!(
                    "SELECT bucket, sum(hits) FROM stats.minutely WHERE {page} AND bucket >= {hour} GROUP BY 1 ORDER BY 1"
                ),
            ),
            (
                "last day by hour, everything",
                format!(
                    "SELECT bucket, sum(hits) FROM traffic.hourly WHERE bucket >= {day} GROUP BY 1 ORDER BY 1"
                ),
            ),
            (
                "last day by hour, one page",
                format!(
                    "SELECT bucket, sum(hits) FROM stats.hourly WHERE {page} AND bucket >= {day} GROUP BY 1 ORDER BY 1"
                ),
            ),
            (
                "a year by day, one page",
                format!(
                    "SELECT bucket, sum(hits) FROM stats.daily WHERE {page} AND bucket >= {year} GROUP BY 1 ORDER BY 1"
                ),
            ),
            (
                "top 20 pages of last month",
                format!(
                    "SELECT path, hits FROM stats.monthly WHERE bucket = {month} ORDER BY hits DESC LIMIT 20"
                ),
            ),
            (
                "totals of this year",
                format!(
                    "SELECT sum(hits), sum(bytes) FROM traffic.yearly WHERE bucket = {this_year}"
                ),
            ),
            (
                "totals of 365 days, by day",
                format!("SELECT sum(hits), sum(bytes) FROM traffic.daily WHERE bucket >= {year}"),
            ),
        ]
    }

    fn ask(&self, sql: &str) -> ask::Answer {
        self.asker.ask(self.store.snapshot(), sql)
    }

    fn text(&self, sql: &str) -> String {
        self.ask(sql).text()
    }

    fn measure(&self, queries: &[(&str, String)], time: Duration) -> Vec<Times> {
        let mut all: Vec<Times> = queries.iter().map(|_| Vec::new()).collect();
        let began = Instant::now();
        while began.elapsed() < time {
            for ((_, sql), times) in queries.iter().zip(&mut all) {
                let answer = self.ask(sql);
                times.push((answer.ms, answer.rows, answer.figures));
            }
        }
        all
    }
}
