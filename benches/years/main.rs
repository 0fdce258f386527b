//! Years of growth: many small seals over many days, and what compaction makes of their parts.
//!
//!     cargo bench --bench years -- [--events 20000000] [--days 400] [--rows-per-seal 2000]
//!         [--dir target/bench] [--keep]
//!
//! The demo's lines in their order, with its share of late ones, parsed and sealed in this process on
//! the real disk with the two default rollups. After each seal tiles and parts are compacted as the
//! store does by itself while it is written to; the thread that does so is off, so that each byte has a
//! seal or a compaction that wrote it. Then the real program compacts all partitions as quiet ones.

mod after;
#[path = "../rollups/counted.rs"]
mod counted;
#[path = "../journal/files.rs"]
#[allow(dead_code, reason = "shared with the bench of the journal")]
mod files;
mod fill;
#[path = "../../src/demo/generator.rs"]
#[allow(unused_imports, reason = "its own tests are not run here")]
mod generator;
#[path = "../journal/machine.rs"]
#[allow(dead_code, reason = "shared with the bench of the journal")]
mod machine;
#[path = "../journal/program.rs"]
#[allow(dead_code, reason = "shared with the bench of the journal")]
mod program;

use std::path::PathBuf;

/// What the command line says.
struct Settings {
    events: u64,
    days: u32,
    rows_per_seal: usize,
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
    let data = s.data();
    if data.exists() {
        std::fs::remove_dir_all(&data).expect("removed");
    }
    std::fs::create_dir_all(&data).expect("a directory");
    println!("load average {}", machine::load());
    fill::measure(&s, &data);
    after::measure(&s, &data);
    println!("load average {}", machine::load());
    if !s.keep {
        std::fs::remove_dir_all(&data).expect("removed");
    }
}
