//! A simulation at size: clusters of 64 and 256 shards with manifests of a month and a year.
//!
//!     cargo bench --bench cluster -- --simulate [--blocks 2000000] [--hourly] [--dir target/bench]
//!
//! No data of that size is written. A manifest of one shard is made as compaction would leave it,
//! with the real types; the store itself encodes, reads and commits it, the engine itself plans
//! over it, and a small store with an object store in memory counts its requests. A manifest has
//! at most `--blocks` checksums of blocks: a longer one is made of fewer days, and its figures,
//! marked with `~`, are scaled by the days. Limits then tell which figure breaks first at each
//! size, and each of them names the next step.

mod base;
mod bill;
#[allow(dead_code, reason = "another bench needs the rest")]
#[path = "../rollups/cpu.rs"]
mod cpu;
mod levels;
mod limits;
mod measured;
mod memory_depot;
mod merges;
mod peers;
mod planning;
mod report;
mod requests;
mod shape;
mod synthetic;
mod table;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use storage::PartitionWidth;

use crate::common::machine;
use base::Base;
use measured::Measured;
use merges::Merges;
use peers::Tokens;
use requests::Trial;
use shape::{DAYS, PARTS_BYTES_ASKED, SIZES, Shape, Size};

/// Settings from the command line.
struct Settings {
    /// Most checksums of blocks in one manifest.
    blocks: u64,
    width: PartitionWidth,
    dir: PathBuf,
}

/// The parts of a shard at rest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartRule {
    name: &'static str,
    /// Most rows of a part.
    rows: u64,
}

/// A shard that was measured.
pub(crate) struct Case {
    size: Size,
    rule: PartRule,
    days: u32,
    measured: Measured,
}

fn settings(mut args: impl Iterator<Item = String>) -> Settings {
    let mut s = Settings {
        blocks: 2_000_000,
        width: PartitionWidth::Day,
        dir: "target/bench".into(),
    };
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            "--blocks" => s.blocks = value().parse().expect("a number"),
            "--hourly" => s.width = PartitionWidth::Hour,
            "--dir" => s.dir = value().into(),
            // The first one brought us here, and cargo passes the other to every bench.
            "--simulate" | "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    s
}

/// Runs the simulation with these arguments.
pub(crate) fn run(args: impl Iterator<Item = String>) {
    let (s, began) = (settings(args), Instant::now());
    println!("load average {}", machine::load());
    std::fs::create_dir_all(&s.dir).expect("a directory");
    let base = Base::new(&s.dir);
    let trial = Trial::run(&base);
    let merges = Merges::find(&base);
    report::requests(&trial);
    let rules = rules(&merges);
    report::rules(&rules, s.width);
    let tokens = SIZES.map(|size| Tokens::measure(&base, size));
    let mut cases = Vec::new();
    for size in SIZES {
        for rule in rules {
            cases.extend(measure(&s, &base, &merges, (size, rule)));
        }
    }
    report::manifests(&cases);
    report::planning(&cases);
    report::tokens(&tokens);
    let bills = bill::all(&cases, &trial);
    report::load(&bills);
    report::bills(&bills);
    limits::conclude(&cases, &bills, &tokens);
    println!(
        "{:.0} s; load average {}",
        began.elapsed().as_secs_f64(),
        machine::load()
    );
}

/// Returns the parts as compaction makes them now, and those that the study assumes.
fn rules(merges: &Merges) -> [PartRule; 2] {
    let of_study = PARTS_BYTES_ASKED as f64 / shape::PART_BYTES_PER_EVENT;
    [
        PartRule {
            name: "as merged now",
            rows: merges.part_rows,
        },
        PartRule {
            name: "of 512 MiB",
            rows: of_study as u64,
        },
    ]
}

/// Measures a shard that keeps a month, and a year. Both have the figures of one manifest if only
/// its days fit.
fn measure(s: &Settings, base: &Base, merges: &Merges, of: (Size, PartRule)) -> [Case; 2] {
    let (size, rule) = of;
    let mut known: BTreeMap<u32, Measured> = BTreeMap::new();
    DAYS.map(|days| {
        let asked = Shape {
            events_per_second: size.events_per_shard(),
            part_rows: rule.rows,
            width: s.width,
            days,
        };
        let made = asked.within(s.blocks);
        let measured = known
            .entry(made.days)
            .or_insert_with(|| measured::measure(base, merges, &made));
        let of_days = (size.name, rule.name, made.days);
        eprintln!("{of_days:?} days measured for {days}");
        Case {
            size,
            rule,
            days,
            measured: measured.scaled(f64::from(days) / f64::from(made.days)),
        }
    })
}
