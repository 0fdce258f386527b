//! Latency of the thirteen queries over a store that `--bench import -- --keep` has left.
//!
//!     cargo bench --bench queries -- [--data target/bench/store-10000000-14] [--runs 5]
//!
//! The queries run in this process, over one snapshot: the first run of each is its cold one for
//! our caches (the kernel's page cache is not dropped), then the median of the others. Beside it
//! are the figures of a client of a real server, over HTTP. Each answer is read whole.

mod common;

use common::{ask, client, statements};
use std::path::PathBuf;
use std::sync::Arc;

use ask::{Answer, Asker};
use client::Client;
use storage::{ReadOnlyStore, RealFs, Snapshot};

struct Bench {
    asker: Asker,
    snapshot: Arc<Snapshot>,
    client: Client,
    runs: usize,
}

fn main() {
    let mut data = PathBuf::from("target/bench/store-10000000-14");
    let mut runs = 5;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            "--data" => data = value().into(),
            "--runs" => runs = value().parse().expect("a number"),
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    let reader = ReadOnlyStore::open(Arc::new(RealFs), &data)
        .expect("a store: run --bench import -- --keep first");
    let bench = Bench {
        asker: Asker::new(),
        snapshot: reader.snapshot(),
        client: Client::start(&data, false),
        runs,
    };
    let host = bench.text("SELECT host FROM access WHERE time >= '2026-11-09' AND time < '2026-11-10' GROUP BY host ORDER BY count(*) DESC, host LIMIT 1 OFFSET 150");
    let path = bench.text("SELECT path FROM stats.monthly GROUP BY path ORDER BY sum(hits) DESC, path LIMIT 1 OFFSET 100");
    let hot = bench
        .text("SELECT path FROM stats.monthly GROUP BY path ORDER BY sum(hits) DESC, path LIMIT 1");
    println!("host {host}, path {path}, hot path {hot}");
    println!(
        "{:<4} {:<42} {:>9} {:>9} {} {:>10} {:>11}  answered by",
        "",
        "",
        "first ms",
        "median ms",
        client::COLUMNS,
        "rows",
        "examined"
    );
    let raw = statements::raw(&host, &path, &hot);
    let rollups = statements::rollups(&hot);
    let mut product = 1.0_f64;
    for (name, what, sql) in &raw {
        product *= bench.measure(name, what, sql).powf(1.0 / raw.len() as f64);
    }
    println!(
        "geometric mean of {} queries of events, whatever answered: {product:.1} ms",
        raw.len()
    );
    for (name, what, sql) in &rollups {
        bench.measure(name, what, sql);
    }
}

impl Bench {
    fn run(&self, sql: &str) -> Answer {
        self.asker.ask(self.snapshot.clone(), sql)
    }

    fn text(&self, sql: &str) -> String {
        self.run(sql).text()
    }

    fn measure(&self, name: &str, what: &str, sql: &str) -> f64 {
        let first = self.run(sql);
        let mut times: Vec<f64> = (0..self.runs).map(|_| self.run(sql).ms).collect();
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        println!(
            "{name:<4} {what:<42} {:>9.1} {median:>9.1} {} {:>10} {:>11}  {}",
            first.ms,
            self.client.ask(sql, self.runs).columns(),
            first.rows,
            first.figures.rows_examined,
            first.figures.answered_by.join(", ")
        );
        median
    }
}
