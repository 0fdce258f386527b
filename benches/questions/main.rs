//! Rows that the on-call questions scan, with indexes and without.
//!
//!     cargo bench --bench questions -- [--lines 20000000] [--days 14] [--dir target/bench]
//!         [--runs 9]
//!
//! The store is imported and compacted by the real program, and stays. Each question runs in this
//! process over one snapshot: rows scanned beside rows returned, the first run (cold for our
//! caches, not for the kernel's), and the median of the others. A client of a real server on the
//! same store then measures it over HTTP. All of this runs before indexes of `path` and `user`
//! are made, and after. The costs of the indexes come last.

#[path = "../common/mod.rs"]
mod common;

use common::{ask, client, imported};
use std::path::{Path, PathBuf};
use std::time::Instant;

use ask::{Answer, Asker};
use client::{Client, Taken};
use imported::STREAM;
use storage::{Config, IndexKind, Name, Options, Store};

const FIELDS: [&str; 2] = ["path", "user"];
/// The days of generated lines begin on Monday 2026-11-02.
const DAY: &str = "time >= '2026-11-09' AND time < '2026-11-10'";

struct Settings {
    lines: u64,
    days: u32,
    runs: usize,
    dir: PathBuf,
}

fn settings() -> Settings {
    let mut s = Settings {
        lines: 20_000_000,
        days: 14,
        runs: 9,
        dir: "target/bench".into(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            "--lines" => s.lines = value().parse().expect("a number"),
            "--days" => s.days = value().parse().expect("a number"),
            "--runs" => s.runs = value().parse().expect("a number"),
            "--dir" => s.dir = value().into(),
            // cargo passes it to every bench.
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    s
}

fn main() {
    let s = settings();
    let data = imported::store(&s.dir, s.lines, s.days);
    let mut bench = Bench {
        store: Some(open(&data)),
        data,
        asker: Asker::new(),
        runs: s.runs,
    };
    let access = Name::new(STREAM).expect("a name");
    for field in FIELDS {
        bench.drop(&access, field);
    }
    let questions = bench.questions();
    println!("\nby order, text and pattern");
    bench.ask(&first_rows());
    println!("\nwithout indexes");
    bench.ask(&questions);
    for kind in [IndexKind::Inverted, IndexKind::Covering] {
        for field in FIELDS {
            bench.make(&access, field, kind);
        }
        println!("\nwith {kind} indexes of {}", FIELDS.join(" and "));
        bench.ask(&questions);
        bench.costs();
    }
    bench.close();
}

fn open(data: &Path) -> Store {
    let options = Options {
        config: Config {
            tends: false,
            ..Config::default()
        },
        ..Options::default()
    };
    Store::open(data, options).expect("opens")
}

/// Returns queries of the last lines and of those that hold a text, as a user pages through them.
fn first_rows() -> Vec<(&'static str, String)> {
    let last = |hint: &str, condition: &str, limit: u32| {
        format!("SELECT {hint} * FROM access {condition} ORDER BY time DESC LIMIT {limit}")
    };
    let count = |text: &str| format!("SELECT count(*) FROM access WHERE {DAY} AND {text}");
    vec![
        ("the last 100 lines", last("", "", 100)),
        ("  by a plain sort", last("/*+ no_top_k */", "", 100)),
        ("the last 20 errors", last("", "WHERE status = 500", 20)),
        (
            "  by a plain sort",
            last("/*+ no_top_k */", "WHERE status = 500", 20),
        ),
        (
            "the last 20 with a text",
            last("", "WHERE request ILIKE '%/PAGE/77%'", 20),
        ),
        (
            "the first 1,000 of a day",
            format!("SELECT * FROM access WHERE {DAY} ORDER BY time LIMIT 1000"),
        ),
        (
            "a day's agents with a text",
            count("user_agent LIKE '%bingbot%'"),
        ),
        ("  in any case", count("user_agent ILIKE '%BINGBOT%'")),
        ("  as a word", count("user_agent ~ '\\bbingbot\\b'")),
        (
            "  by a pattern",
            count("user_agent ~* '(bing|google)bot/[0-9]'"),
        ),
        (
            "a day's requests with a text",
            count("request ILIKE '%/page/77%'"),
        ),
        (
            "a day's paths with a text, raw",
            format!(
                "SELECT /*+ no_rollup */ count(*) FROM access WHERE {DAY} AND path LIKE '%/77%'"
            ),
        ),
    ]
}

struct Bench {
    data: PathBuf,
    /// `None` while a server has the store.
    store: Option<Store>,
    asker: Asker,
    runs: usize,
}

impl Bench {
    fn store(&self) -> &Store {
        self.store.as_ref().expect("BUG: no server has it now")
    }

    fn close(&mut self) {
        let store = self.store.take().expect("BUG: no server has it now");
        store.close().expect("closes");
    }

    /// Returns the times of each question at a client of a server on the same store.
    fn as_client(&mut self, questions: &[(&'static str, String)]) -> Vec<Taken> {
        self.close();
        let client = Client::start(&self.data, false);
        let asked = questions.iter().map(|(_, sql)| client.ask(sql, self.runs));
        let taken = asked.collect();
        drop(client);
        self.store = Some(open(&self.data));
        taken
    }

    /// Makes an index of a column; one of another kind is dropped first.
    fn make(&self, stream: &Name, field: &str, kind: IndexKind) {
        self.drop(stream, field);
        let started = Instant::now();
        let created = self.store().create_index(stream, field, kind);
        created.expect("suits");
        let report = self.store().build_indexes().expect("builds");
        println!(
            "\n{kind} index of {field}: {} parts, {} rows in {:.2} s",
            report.parts,
            report.rows,
            started.elapsed().as_secs_f64()
        );
    }

    /// Drops an index that an earlier run may have left.
    fn drop(&self, stream: &Name, field: &str) {
        if let Err(error) = self.store().drop_index(stream, field) {
            println!("({error})");
        }
    }

    fn run(&self, sql: &str) -> Answer {
        self.asker.ask(self.store().snapshot(), sql)
    }

    fn text(&self, sql: &str) -> String {
        self.run(sql).text()
    }

    fn questions(&self) -> Vec<(&'static str, String)> {
        let ranked = |column: &str, offset: u32| {
            self.text(&format!("SELECT {column} FROM access WHERE {column} IS NOT NULL GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1 OFFSET {offset}"))
        };
        let host = self.text(&format!("SELECT host FROM access WHERE {DAY} GROUP BY host HAVING count(*) >= 10 ORDER BY count(*), host LIMIT 1"));
        let rare = self.text(
            "SELECT path FROM access GROUP BY path HAVING count(*) >= 10 ORDER BY count(*), path LIMIT 1",
        );
        let [hot, tenth, mid, low] = [0, 10, 100, 2_000].map(|rank| ranked("path", rank));
        let users = self.text("SELECT count(DISTINCT user) FROM access");
        let user = ranked("user", users.parse::<u32>().expect("a number") / 2);
        let all = |condition: String| format!("SELECT * FROM access WHERE {condition}");
        vec![
            ("host and date", all(format!("host = '{host}' AND {DAY}"))),
            ("a rare path", all(format!("path = '{rare}'"))),
            (
                "a rare path of a date",
                all(format!("path = '{rare}' AND {DAY}")),
            ),
            (
                "a path nobody asked for",
                all("path = '/no/such/page'".into()),
            ),
            (
                "three rare paths",
                all(format!("path IN ('{rare}', '{rare}x', '{low}')")),
            ),
            ("path of rank 2,000", all(format!("path = '{low}'"))),
            ("path of rank 100", all(format!("path = '{mid}'"))),
            (
                "path of rank 100, a date",
                all(format!("path = '{mid}' AND {DAY}")),
            ),
            ("path of rank 10", all(format!("path = '{tenth}'"))),
            ("path of rank 1", all(format!("path = '{hot}'"))),
            (
                "count of path of rank 100",
                format!("SELECT count(*) FROM access WHERE path = '{mid}'"),
            ),
            ("a user", all(format!("\"user\" = '{user}'"))),
            (
                "a user of a date",
                all(format!("\"user\" = '{user}' AND {DAY}")),
            ),
            (
                "path and user",
                all(format!("path = '{mid}' AND \"user\" = '{user}'")),
            ),
            ("one date", all(DAY.into())),
        ]
    }

    fn ask(&mut self, questions: &[(&'static str, String)]) {
        let taken = self.as_client(questions);
        println!(
            "{:<28} {:>9} {:>10} {:>9} {:>7} {:>9} {:>9} {}",
            "",
            "rows",
            "looked at",
            "ratio",
            "parts",
            "first ms",
            "median ms",
            client::COLUMNS
        );
        for ((what, sql), taken) in questions.iter().zip(taken) {
            let first = self.run(sql);
            let figures = &first.figures;
            let mut times: Vec<f64> = (0..self.runs).map(|_| self.run(sql).ms).collect();
            times.sort_by(f64::total_cmp);
            println!(
                "{what:<28} {:>9} {:>10} {:>9.1} {:>7} {:>9.2} {:>9.2} {}  {}",
                first.rows,
                figures.rows_examined,
                figures.rows_examined as f64 / first.rows.max(1) as f64,
                figures.parts.to_string(),
                first.ms,
                times[times.len() / 2],
                taken.columns(),
                figures.answered_by.join(", ")
            );
        }
    }

    /// Prints the bytes of the indexes, and of the Parquet bloom filters that would know less:
    /// only the parts in which a value is not.
    fn costs(&self) {
        let snapshot = self.store().snapshot();
        let rows: u64 = snapshot.manifest().parts.iter().map(|p| p.rows).sum();
        println!();
        for field in FIELDS {
            let of = |column: &str| -> f64 {
                let sql = format!("SELECT {column} FROM system.indexes WHERE field = '{field}'");
                self.text(&sql).parse().expect("a number")
            };
            let sql = format!(
                "SELECT sum(n) FROM (SELECT count(DISTINCT \"{field}\") AS n FROM access GROUP BY date_trunc('day', time))"
            );
            let distinct: f64 = self.text(&sql).parse().expect("a number");
            // Size of a split-block filter that errs for one value in a hundred.
            let bloom = distinct * -8.0 / (1.0 - 0.01_f64.powf(1.0 / 8.0)).ln() / 8.0;
            let per_event = |bytes: f64| bytes / rows as f64;
            println!(
                "index of {field}: {:.3} B/event on the disk, {:.5} in memory; {:.1} distinct values a day, whose bloom filters would take {:.3} B/event",
                per_event(of("disk_bytes")),
                per_event(of("memory_bytes")),
                distinct / f64::from(u32::try_from(snapshot.manifest().parts.len()).unwrap_or(1)),
                per_event(bloom)
            );
        }
        let parts: u64 = snapshot.manifest().parts.iter().map(|p| p.file.len).sum();
        println!("parts: {:.2} B/event", parts as f64 / rows as f64);
    }
}
