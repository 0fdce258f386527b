//! Costs of rollups: a seal whatever the history, a late event, a minute of a long day, a cell.
//!
//!     cargo bench --bench rollups -- [--sections seal,late,day,size,memory] [--dir target/bench]
//!         [--events 20000000] [--days 400] [--keep]
//!
//! In this process, on the real disk, with the cascade of the two default rollups; nothing is
//! sealed or compacted unless a section asks for it, so each is accounted by itself. `seal`
//! leaves the store that `late` copies; `size` and `memory` use the one that
//! `--bench import -- --lines 10000000 --keep` leaves in the same `--dir`, and never change it.
//! Plots are written beside the stores.

mod account;
#[path = "../common/mod.rs"]
mod common;
mod cpu;
mod day;
mod events;
mod late;
mod memory;
mod metered;
mod plot;
mod seal;
mod size;

use common::generator::draw;
use common::{counted, files, machine};

use std::path::PathBuf;

const SECTIONS: [&str; 5] = ["seal", "late", "day", "size", "memory"];

/// Settings from the command line.
struct Settings {
    sections: Vec<String>,
    dir: PathBuf,
    events: u64,
    days: u64,
    keep: bool,
}

impl Settings {
    fn events_per_day(&self) -> usize {
        (self.events / self.days) as usize
    }

    /// Returns the store that `seal` leaves.
    fn history(&self) -> PathBuf {
        self.dir
            .join(format!("history-{}-{}", self.events, self.days))
    }

    /// Returns the store that the bench `import` leaves.
    fn imported(&self) -> PathBuf {
        let data = self.dir.join("store-10000000-14");
        assert!(
            data.exists(),
            "{} is missing: run --bench import -- --lines 10000000 --keep first",
            data.display()
        );
        data
    }
}

fn settings() -> Settings {
    let mut s = Settings {
        sections: SECTIONS.map(str::to_owned).to_vec(),
        dir: "target/bench".into(),
        events: 20_000_000,
        days: 400,
        keep: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            "--sections" => s.sections = value().split(',').map(str::to_owned).collect(),
            "--dir" => s.dir = value().into(),
            "--events" => s.events = value().parse().expect("a number"),
            "--days" => s.days = value().parse().expect("a number"),
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
    for section in &s.sections {
        println!("\n{section}; load average {}", machine::load());
        match section.as_str() {
            "seal" => seal::measure(&s),
            "late" => late::measure(&s),
            "day" => day::measure(&s),
            "size" => size::measure(&s),
            "memory" => memory::measure(&s),
            other => panic!("there is no section {other}"),
        }
        println!("load average {}", machine::load());
    }
    if !s.keep && s.history().exists() {
        std::fs::remove_dir_all(s.history()).expect("removed");
    }
}
