//! Work of the journal: append, group commit, replay and start-up, beside the limits of the disk.
//!
//!     cargo bench --bench journal -- [disk append commit http replay startup] [--dir target/bench]
//!         [--seconds 4] [--rounds 3] [--runs 5] [--lines 20000000] [--days 400]
//!         [--logmill PROGRAM] [--keep]
//!
//! Without a name all six run. Runs that are compared alternate, and each line says how busy the
//! machine was meanwhile: compare within a round first. The store of `startup` is made once in
//! `--dir` and kept there with `--keep`; everything else is temporary.

mod append;
mod commit;
#[path = "../common/mod.rs"]
mod common;
mod disk;
mod http;
mod replay;
mod startup;

use common::{counted, events, files, machine, program};

use std::path::PathBuf;
use std::time::Duration;

const SECTIONS: [&str; 6] = ["disk", "append", "commit", "http", "replay", "startup"];

/// Settings from the command line.
struct Settings {
    sections: Vec<String>,
    dir: PathBuf,
    /// Duration of one run of append or commit.
    time: Duration,
    /// Number of runs of everything that is compared.
    rounds: usize,
    /// Recoveries and starts.
    runs: usize,
    lines: u64,
    days: u32,
    logmill: PathBuf,
    keep: bool,
}

fn settings() -> Settings {
    let mut s = Settings {
        sections: Vec::new(),
        dir: "target/bench".into(),
        time: Duration::from_secs(4),
        rounds: 3,
        runs: 5,
        lines: 20_000_000,
        days: 400,
        logmill: env!("CARGO_BIN_EXE_logmill").into(),
        keep: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        let number = |text: String| text.parse().expect("a number");
        match arg.as_str() {
            "--dir" => s.dir = value().into(),
            "--seconds" => s.time = Duration::from_secs_f64(value().parse().expect("a number")),
            "--rounds" => s.rounds = number(value()) as usize,
            "--runs" => s.runs = number(value()) as usize,
            "--lines" => s.lines = number(value()),
            "--days" => s.days = value().parse().expect("a number"),
            "--logmill" => s.logmill = value().into(),
            "--keep" => s.keep = true,
            // cargo passes it to every bench.
            "--bench" => {}
            name if SECTIONS.contains(&name) => s.sections.push(arg),
            other => panic!("unknown argument {other}"),
        }
    }
    if s.sections.is_empty() {
        s.sections = SECTIONS.map(str::to_owned).to_vec();
    }
    s
}

fn main() {
    // `replay` starts this program again, to be killed.
    if replay::is_victim() {
        return replay::be_victim();
    }
    let s = settings();
    std::fs::create_dir_all(&s.dir).expect("a directory");
    println!("load average {}", machine::load());
    let mut sequential = None;
    for section in &s.sections {
        println!("\n{section}");
        match section.as_str() {
            "disk" => sequential = Some(disk::measure(&s)),
            "append" => append::measure(&s, sequential.unwrap_or_else(|| disk::sequential(&s.dir))),
            "commit" => commit::measure(&s),
            "http" => http::measure(&s),
            "replay" => replay::measure(&s),
            _ => startup::measure(&s),
        }
    }
    println!("\nload average {}", machine::load());
}
