//! Years of growth: many small seals over many days, and what compaction makes of their parts.
//!
//!     cargo bench --bench years -- [--events 20000000] [--days 400] [--rows-per-seal 2000]
//!         [--restless] [--rest 60] [--part-rows 40000] [--dir target/bench] [--keep]
//!     cargo test --bench years -- --small
//!
//! The demo's lines in their order, with its share of late ones, in requests of 100 lines with a
//! key each, parsed and sealed in this process on the real disk with the two default rollups.
//! Tiles and parts are compacted as the store does by itself: after each seal by the rule for
//! partitions that are written to, and once a day, when no events come for a while, by the rule
//! for quiet ones; with `--restless` the latter never before the end. The maintenance thread is
//! off, so that each byte has a seal or a compaction that wrote it. The program ends with an
//! error when a mark is missed.

mod account;
mod after;
mod child;
#[path = "../common/mod.rs"]
mod common;
mod disk;
mod fill;
mod marks;
mod merge;
mod slice;

use common::{ask, counted, files, generator, machine, program};

use std::path::PathBuf;

/// Runs of which the median is printed.
const RUNS: usize = 5;

/// Settings from the command line.
struct Settings {
    events: u64,
    days: u32,
    rows_per_seal: usize,
    /// Events come without a pause.
    restless: bool,
    /// Seconds that a server is left alone before its memory is measured.
    rest_seconds: u64,
    /// Rows of each of the large parts that are merged.
    part_rows: u64,
    dir: PathBuf,
    keep: bool,
    logmill: PathBuf,
}

impl Settings {
    fn data(&self) -> PathBuf {
        let Self {
            events,
            days,
            rows_per_seal,
            ..
        } = self;
        self.dir
            .join(format!("years-{events}-{days}-{rows_per_seal}"))
    }
}

fn settings() -> Settings {
    let mut s = Settings {
        events: 20_000_000,
        days: 400,
        rows_per_seal: 2_000,
        restless: false,
        rest_seconds: 60,
        part_rows: 40_000,
        dir: "target/bench".into(),
        keep: false,
        logmill: env!("CARGO_BIN_EXE_logmill").into(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            "--events" => s.events = value().parse().expect("a number"),
            "--days" => s.days = value().parse().expect("a number"),
            "--rows-per-seal" => s.rows_per_seal = value().parse().expect("a number"),
            "--rest" => s.rest_seconds = value().parse().expect("a number"),
            "--part-rows" => s.part_rows = value().parse().expect("a number"),
            // The size of the tests: every mark, in seconds.
            "--small" => {
                (s.events, s.days, s.rows_per_seal) = (20_000, 20, 250);
                (s.rest_seconds, s.part_rows) = (1, 1_000);
            }
            "--dir" => s.dir = value().into(),
            "--restless" => s.restless = true,
            "--keep" => s.keep = true,
            // cargo passes it to every bench.
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    s
}

/// Returns a moment as SQL and documents write it.
fn stamp(epoch_seconds: i64) -> String {
    let time = chrono::DateTime::from_timestamp(epoch_seconds, 0).expect("a time");
    time.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn main() {
    let s = settings();
    let data = s.data();
    if data.exists() {
        std::fs::remove_dir_all(&data).expect("removed");
    }
    std::fs::create_dir_all(&data).expect("a directory");
    println!("load average {}", machine::load());
    println!("large parts");
    merge::measure(&s);
    println!("filling");
    let account = fill::measure(&s, &data);
    println!("afterwards");
    after::measure(&s, &data, account);
    println!("load average {}", machine::load());
    if !s.keep {
        std::fs::remove_dir_all(&data).expect("removed");
    }
    marks::conclude();
}
