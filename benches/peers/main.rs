//! Thirteen questions to our engine and to two that people use for such questions: DuckDB and chdb.
//!
//!     cargo bench --bench peers -- --venv DIR [--lines 20000000] [--days 14] [--runs 7]
//!         [--dir target/bench] [--only Q1,Q13]
//!
//! The store is that of `--bench questions`, with the two default rollups of an access log, one
//! of the hosts of each day (for Q9) and an index of `path`. The peers load the rows of its
//! parts, once, and keep them in `--dir`. Every engine has all cores. The engines take turns in
//! one run: each question once, and then `--runs` times, of which the median is printed. An
//! answer is read whole, as Arrow. Our engine runs in this process, as DuckDB and chdb do, and
//! beside that over HTTP as for a client of a server. The parts have no column for `request`,
//! which we put together, nor for a field that no line has, so `{columns}` are the others.
//!
//! Where a rollup answers, we query the raw events too: peers have no rollups.
//!
//! Answers are compared: exact ones row by row, approximate ones with an exact one of DuckDB. A
//! difference is printed, and ends the program with 1.
//!
//! Only our engine and chdb have indexes; those of chdb are bloom filters of `path`, and of
//! `host` where that is not the order. The peers may keep data from one run of a question to the
//! next: chdb notes which granules a condition left out.

#[path = "../common/mod.rs"]
mod common;
mod content;
mod ours;
mod peer;
mod questions;

use common::{ask, client, imported, machine};

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use arrow::array::RecordBatch;
use chrono::{Days, NaiveDate, NaiveDateTime, TimeDelta};
use client::{Client, Taken};
use imported::STREAM;
use machine::{load, median};
use ours::Ours;
use peer::{EXACT, FORMS, Form, Load, PEERS, Peer};
use questions::{Question, Same, Values, questions, spelled};
use storage::{Config, IndexKind, Name, Options, Snapshot, Store};

/// A rollup of the events of each host on each day.
const HOSTS: &str = r#"
[rollup.hosts]
stream = "access"
by = ["host"]
levels = ["day"]
max_keys = 1000000

[rollup.hosts.measures]
hits = "count"
"#;
/// Rank of the host and the path in the questions: neither the most frequent nor rare.
const RANK: u32 = 100;
/// Rows of a difference that are printed.
const SHOWN: usize = 6;
/// Columns that we compute, or that no other engine has.
const OWN_COLUMNS: [&str; 3] = ["_id", "_rest", "request"];

struct Settings {
    lines: u64,
    days: u32,
    runs: usize,
    dir: PathBuf,
    venv: Option<PathBuf>,
    /// The questions by name; all when there is none.
    only: Vec<String>,
}

fn settings() -> Settings {
    let mut s = Settings {
        lines: 20_000_000,
        days: 14,
        runs: 7,
        dir: "target/bench".into(),
        venv: None,
        only: Vec::new(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            "--lines" => s.lines = value().parse().expect("a number"),
            "--days" => s.days = value().parse().expect("a number"),
            "--runs" => s.runs = value().parse().expect("a number"),
            "--dir" => s.dir = value().into(),
            "--venv" => s.venv = Some(value().into()),
            "--only" => s.only = value().split(',').map(str::to_owned).collect(),
            // cargo passes it to every bench.
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    assert!(s.runs > 0, "--runs 0 has no median");
    s
}

fn main() -> ExitCode {
    let s = settings();
    let Some(python) = peer::python(s.venv.as_deref()) else {
        peer::print_commands();
        return ExitCode::SUCCESS;
    };
    std::fs::create_dir_all(&s.dir).expect("a directory");
    // The peers need whole paths.
    let dir = s.dir.canonicalize().expect("a directory");
    let data = imported::store(&dir, s.lines, s.days);
    let hosts = (start(), start() + Days::new(s.days.into()));
    imported::add_rollup(&data, "hosts", HOSTS, hosts);
    let store = open(&data);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let ours = Ours::new(store.snapshot());
    let columns = columns(&ours);
    let loaded = Load {
        dir: dir.join(format!("peers-{}-{}", s.lines, s.days)),
        threads,
        columns: columns.clone(),
        ..of_parts(&ours)
    };
    std::fs::create_dir_all(&loaded.dir).expect("a directory");
    let values = values(&ours, &columns, s.days);
    drop(ours);
    store.close().expect("closes");
    let asked = asked(&s.only);
    let client = as_client(&data, &asked, &values, s.runs);
    let store = open(&data);
    let ours = Ours::new(store.snapshot());
    let started = PEERS.map(|name| (name, Peer::start(&python, name, &loaded)));
    let mut bench = Bench {
        values,
        ours,
        peers: started,
        runs: s.runs,
    };
    println!(
        "{} events, {threads} threads, median of {} runs, ms; load average {}\n",
        loaded.rows,
        s.runs,
        load()
    );
    let told = bench.ask_all(asked.iter().zip(client));
    println!("\nload average {}", load());
    drop(bench);
    store.close().expect("closes");
    for difference in &told {
        println!("\nDIFFERENCE: {difference}");
    }
    if told.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Returns the questions that `only` names, or all.
fn asked(only: &[String]) -> Vec<Question> {
    let is_asked = |name: &str| only.is_empty() || only.iter().any(|o| o == name);
    let asked: Vec<Question> = questions()
        .into_iter()
        .filter(|q| is_asked(q.name))
        .collect();
    assert!(!asked.is_empty(), "--only names no question: Q1, Q3a, …");
    asked
}

/// Returns the times of each question at a client of a server on the same store.
fn as_client(data: &Path, asked: &[Question], values: &Values, runs: usize) -> Vec<Taken> {
    let client = Client::start(data, false);
    let of = |question: &Question| {
        let sql = spelled(&question.ours.replace("{t}", STREAM), values);
        client.ask(&sql, runs)
    };
    asked.iter().map(of).collect()
}

/// Opens the store with a covering index of `path` and without background work.
fn open(data: &Path) -> Store {
    let options = Options {
        config: Config {
            tends: false,
            ..Config::default()
        },
        ..Options::default()
    };
    let store = Store::open(data, options).expect("opens");
    let access = Name::new(STREAM).expect("a name");
    // An earlier run may have left an index of the other kind.
    if store
        .create_index(&access, "path", IndexKind::Covering)
        .is_err()
    {
        store.drop_index(&access, "path").expect("there");
        let created = store.create_index(&access, "path", IndexKind::Covering);
        created.expect("suits");
    }
    let report = store.build_indexes().expect("builds");
    println!("index of path: {} parts made now", report.parts);
    store
}

/// Returns the parts as something to load; the caller sets folder, threads and columns.
fn of_parts(ours: &Ours) -> Load {
    let snapshot: &Snapshot = &ours.snapshot;
    let access = Name::new(STREAM).expect("a name");
    let parts: Vec<_> = snapshot.manifest().parts_of(&access).collect();
    let rows: u64 = parts.iter().map(|p| p.rows).sum();
    let events = ours.row("SELECT count(*) FROM access").remove(0);
    assert_eq!(events, rows.to_string(), "all events are in parts");
    let sums: Vec<String> = parts
        .iter()
        .map(|p| format!("{:08x}", p.file.crc))
        .collect();
    Load {
        dir: PathBuf::new(),
        threads: 1,
        files: parts
            .iter()
            .map(|p| snapshot.data_dir().join(&p.file.path))
            .collect(),
        of: sums.join(" "),
        columns: Vec::new(),
        rows,
    }
}

/// Returns the first day of generated lines, a Monday.
fn start() -> NaiveDate {
    NaiveDate::from_ymd_opt(2026, 11, 2).expect("a date")
}

/// Returns the stored columns that have a value somewhere: parts leave out the others.
fn columns(ours: &Ours) -> Vec<String> {
    let mut names = ours.columns("SELECT * FROM access LIMIT 1");
    names.retain(|name| !OWN_COLUMNS.contains(&name.as_str()));
    let counts: Vec<String> = names.iter().map(|n| format!("count(\"{n}\")")).collect();
    let counts = ours.row(&format!("SELECT {} FROM access", counts.join(", ")));
    let found = names.into_iter().zip(counts);
    found
        .filter(|(_, n)| n != "0")
        .map(|(name, _)| name)
        .collect()
}

/// Returns the constants of the questions: they are chosen by rank, so that any number of lines
/// has them.
fn values(ours: &Ours, columns: &[String], days: u32) -> Values {
    let start = start();
    let end = start + Days::new(days.into());
    let day = start + Days::new((days / 2).into());
    let midnight = |date: NaiveDate| NaiveDateTime::from(date);
    let text = |at: NaiveDateTime| at.format("%Y-%m-%d %H:%M:%S").to_string();
    let next = day + Days::new(1);
    let of_day = format!("time >= '{day}' AND time < '{next}'");
    let ranked = |column: &str, condition: &str, rank: u32| {
        ours.row(&format!(
            "SELECT {column} FROM access WHERE {condition} GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1 OFFSET {rank}"
        ))
        .remove(0)
    };
    let quoted: Vec<String> = columns.iter().map(|name| format!("\"{name}\"")).collect();
    let values = vec![
        ("columns", quoted.join(", ")),
        ("host", ranked("host", &of_day, RANK)),
        ("path", ranked("path", "path IS NOT NULL", RANK)),
        ("hot", ranked("path", "path IS NOT NULL", 0)),
        ("day", text(midnight(day))),
        ("next", text(midnight(next))),
        ("hour", text(midnight(end) - TimeDelta::hours(1))),
        ("last", text(midnight(end) - TimeDelta::days(1))),
        ("week", text(midnight(end) - TimeDelta::days(7))),
        ("end", text(midnight(end))),
    ];
    for (name, value) in &values {
        println!("{name}: {value}");
    }
    values
}

struct Bench {
    ours: Ours,
    peers: [(&'static str, Peer); PEERS.len()],
    values: Values,
    runs: usize,
}

/// The times of one question, milliseconds.
struct Times {
    first: f64,
    ours: f64,
    /// Time of our engine over HTTP.
    client: f64,
    /// Time of our engine on raw events alone, where a rollup answers.
    raw: Option<f64>,
    /// Times of the peers, in the order of [`FORMS`].
    peers: Vec<f64>,
}

impl Times {
    fn best(&self) -> f64 {
        self.peers.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

impl Bench {
    /// Prints the table; returns the differences.
    fn ask_all<'a>(&mut self, asked: impl Iterator<Item = (&'a Question, Taken)>) -> Vec<String> {
        let titles = FORMS.map(|form| form.title);
        println!(
            "| | | ours, first | ours | ours over HTTP | Arrow ÷ NDJSON | ours, raw | answered by | rows | looked at | {} | ours ÷ best peer | same |",
            titles.join(" | ")
        );
        println!(
            "|---|---|---:|---:|---:|---:|---:|---|---:|---:|{}---:|---|",
            "---:|".repeat(titles.len())
        );
        let mut told = Vec::new();
        let mut all = Vec::new();
        for (question, taken) in asked {
            all.push(self.ask(question, taken, &mut told));
        }
        let mean = |of: &dyn Fn(&Times) -> f64| {
            let logs: f64 = all.iter().map(|times| of(times).ln()).sum();
            (logs / all.len() as f64).exp()
        };
        let peers: Vec<String> = (0..FORMS.len())
            .map(|nth| figure(mean(&|times| times.peers[nth])))
            .collect();
        println!(
            "| | geometric mean | {} | {} | {} | | {} | | | | {} | {:.2} | |",
            figure(mean(&|times| times.first)),
            figure(mean(&|times| times.ours)),
            figure(mean(&|times| times.client)),
            figure(mean(&|times| times.raw.unwrap_or(times.ours))),
            peers.join(" | "),
            mean(&|times| times.ours / times.best())
        );
        told
    }

    /// Runs a question on every engine in turn and prints a row of the table.
    fn ask(&mut self, question: &Question, taken: Taken, told: &mut Vec<String>) -> Times {
        let only = match question.same {
            Same::Column(name) => Some(name),
            Same::Rows | Same::Nearly(_) => None,
        };
        let near = match question.same {
            Same::Nearly(share) => share,
            Same::Rows | Same::Column(_) => 0.0,
        };
        let exact = question.exact.map(|sql| self.ask_peer(EXACT, sql, 0).1);
        let sql = spelled(&question.ours.replace("{t}", STREAM), &self.values);
        let ours = self.ours.ask(&sql, self.runs);
        let digest = content::digest(&ours.batches, only);
        let mut same = Vec::new();
        if let Some(exact) = &exact {
            let off = content::worst(&ours.batches, exact);
            same.push(format!("ours off by at most {:.1} %", off * 100.0));
            if off > near {
                told.push(format!(
                    "{}: ours is off by {:.1} %: {sql}",
                    question.name,
                    off * 100.0
                ));
            }
        }
        let raw = self.raw(question, &sql, &ours, told);
        let mut peers = Vec::new();
        for form in &FORMS {
            let text = match form.peer {
                "duckdb" => question.duckdb,
                _ => question.chdb,
            };
            let (ms, batches) = self.ask_peer(form, text, self.runs);
            peers.push(median(ms[1..].to_vec()));
            if let Some(exact) = &exact {
                // A peer's deviation is printed only: it is not ours to mend.
                let off = content::worst(&batches, exact);
                if off > near {
                    same.push(format!("{} off by {:.1} %", form.title, off * 100.0));
                }
            } else if content::digest(&batches, only) != digest {
                same.push(format!("NOT {}", form.title));
                told.push(format!(
                    "{}: + ours, - {}\n{sql}\n{text}\n{}",
                    question.name,
                    form.title,
                    content::difference(&ours.batches, &batches, only, SHOWN).join("\n")
                ));
            }
        }
        let times = Times {
            first: ours.ms[0],
            ours: median(ours.ms[1..].to_vec()),
            client: taken.ms,
            raw,
            peers,
        };
        if same.is_empty() {
            same.push("yes".to_owned());
        }
        let figures: Vec<String> = times.peers.iter().copied().map(figure).collect();
        println!(
            "| {} | {} | {} | {} | {} | {:.2} | {} | {} | {} | {} | {} | {:.2} | {} |",
            question.name,
            question.what,
            figure(times.first),
            figure(times.ours),
            figure(times.client),
            taken.arrow_bytes as f64 / taken.ndjson_bytes.max(1) as f64,
            times.raw.map(figure).unwrap_or_default(),
            ours.figures.answered_by.join(", "),
            ours.batches
                .iter()
                .map(RecordBatch::num_rows)
                .sum::<usize>(),
            ours.figures.rows_examined,
            figures.join(" | "),
            times.ours / times.best(),
            same.join("; ")
        );
        times
    }

    /// Runs the same on raw events, when a rollup answered: an exact answer does not depend on
    /// its source.
    fn raw(
        &self,
        question: &Question,
        sql: &str,
        answered: &ours::Asked,
        told: &mut Vec<String>,
    ) -> Option<f64> {
        let by = &answered.figures.answered_by;
        if !by.iter().any(|by| by.starts_with("rollup")) {
            return None;
        }
        let sql = sql.replacen("SELECT", "SELECT /*+ no_rollup */", 1);
        let raw = self.ours.ask(&sql, self.runs);
        if question.same == Same::Rows
            && content::digest(&raw.batches, None) != content::digest(&answered.batches, None)
        {
            told.push(format!(
                "{}: + {}, - raw events\n{sql}\n{}",
                question.name,
                by.join(", "),
                content::difference(&answered.batches, &raw.batches, None, SHOWN).join("\n")
            ));
        }
        Some(median(raw.ms[1..].to_vec()))
    }

    fn ask_peer(&mut self, form: &Form, text: &str, runs: usize) -> (Vec<f64>, Vec<RecordBatch>) {
        let sql = text.replace("{t}", form.table).replace("{at}", form.at);
        let sql = spelled(&sql, &self.values);
        let mut peers = self.peers.iter_mut();
        let peer = peers.find(|(name, _)| *name == form.peer);
        let (_, peer) = peer.expect("BUG: each form has its peer");
        let asked = peer.ask(&sql, runs);
        (asked.ms, asked.batches)
    }
}

/// Returns milliseconds with as many digits as are significant.
fn figure(ms: f64) -> String {
    if ms < 9.95 {
        format!("{ms:.2}")
    } else {
        format!("{ms:.1}")
    }
}
