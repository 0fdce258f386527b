//! The history: lines, seals, and compaction after each. What is written is counted by who wrote it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use aggregator::Cascade;
use ingest::{Format, ParseOptions, Parser};
use storage::{Batch, Config, Manifest, Name, Options, Store, WriteConcern};

use crate::counted::{CountedFs, Counts, Kind};
use crate::generator::Generator;
use crate::{Settings, generator, machine};

pub(crate) const STREAM: &str = "access";
const KINDS: [(Kind, &str); 4] = [
    (Kind::Journal, "journal"),
    (Kind::Part, "parts"),
    (Kind::Tile, "tiles"),
    (Kind::Manifest, "manifest"),
];
/// How often a line about the progress is printed.
const PROGRESS: u64 = 10;

/// Bytes written of each kind.
#[derive(Default, Clone, Copy)]
struct Written([Counts; KINDS.len()]);

impl Written {
    fn of(fs: &CountedFs) -> Self {
        Self(KINDS.map(|(kind, _)| fs.counts(kind)))
    }

    fn add_since(&mut self, before: Self, now: Self) {
        for (nth, all) in self.0.iter_mut().enumerate() {
            *all += now.0[nth] - before.0[nth];
        }
    }
}

/// What has been done.
#[derive(Default)]
struct Done {
    events: u64,
    seals: u64,
    lines_bytes: u64,
    by_seals: Written,
    by_compaction: Written,
    most_parts: usize,
    longest_compaction_ms: f64,
}

pub(crate) fn options(fs: CountedFs) -> Options {
    let cascade = Cascade::new(aggregator::Config::default());
    Options {
        fs: Arc::new(fs),
        roller: Arc::new(cascade.expect("the defaults are right")),
        config: Config {
            tends: false,
            // Sealed when told to.
            lag_us: i64::MAX / 2,
            memtable_bytes_max: 1 << 30,
            ..Config::default()
        },
        ..Options::default()
    }
}

/// Parts of the partition of events that has most.
pub(crate) fn most_parts(manifest: &Manifest) -> usize {
    let mut parts: BTreeMap<i64, usize> = BTreeMap::new();
    for part in manifest.parts_of(&Name::new(STREAM).expect("a name")) {
        *parts.entry(part.partition_us).or_default() += 1;
    }
    parts.into_values().max().unwrap_or(0)
}

/// Fills the store and prints what that took.
pub(crate) fn measure(s: &Settings, data: &Path) {
    let fs = CountedFs::default();
    let store = Store::open(data, options(fs.clone())).expect("opened");
    let began = Instant::now();
    let mut generator = Generator::new(generator::Settings {
        lines: s.events,
        days: s.days,
        ..generator::Settings::default()
    });
    let mut parser = Parser::new(ParseOptions {
        format: Format::Auto,
        ..ParseOptions::default()
    });
    // What is stamped later than it was received would go to the quarantine.
    let end_s = generator::DEFAULT_START + (i64::from(s.days) + 1) * 86_400;
    parser.set_received(end_s * 1_000_000);
    let mut done = Done::default();
    let mut lines = Vec::new();
    let mut more = true;
    while more {
        lines.clear();
        more = (0..s.rows_per_seal).all(|_| generator.next_line(&mut lines));
        if lines.is_empty() {
            break;
        }
        let before = Written::of(&fs);
        write(&store, &mut parser, &lines, &mut done);
        store.seal().expect("sealed");
        done.seals += 1;
        let sealed = Written::of(&fs);
        let started = Instant::now();
        store.compact_tiles(false).expect("compacted");
        store.compact_parts(None, false).expect("compacted");
        let ms = started.elapsed().as_secs_f64() * 1e3;
        done.longest_compaction_ms = done.longest_compaction_ms.max(ms);
        done.by_seals.add_since(before, sealed);
        done.by_compaction.add_since(sealed, Written::of(&fs));
        done.most_parts = done.most_parts.max(most_parts(store.snapshot().manifest()));
        let tenth = s.events.div_ceil(PROGRESS);
        if done.events / tenth
            != (done.events - s.rows_per_seal.min(done.events as usize) as u64) / tenth
        {
            let parts = store.snapshot().manifest().parts.len();
            println!(
                "  {} events after {:.0?}, {parts} parts",
                done.events,
                began.elapsed()
            );
        }
    }
    print(&store, &done, began.elapsed().as_secs_f64());
    store.close().expect("closed");
}

fn write(store: &Store, parser: &mut Parser, lines: &[u8], done: &mut Done) {
    let parsed = parser.parse(lines).expect("parsed");
    done.lines_bytes += lines.len() as u64;
    done.events += parsed.events.num_rows() as u64;
    let batch = Batch {
        stream: Name::new(STREAM).expect("a name"),
        kind: parsed.kind,
        received_us: 0,
        source: "bench".into(),
        events: parsed.events,
        quarantine: parsed.quarantine,
        identity: None,
    };
    store
        .write(batch, WriteConcern::ACKNOWLEDGED)
        .expect("taken");
}

fn print(store: &Store, done: &Done, seconds: f64) {
    let snapshot = store.snapshot();
    let manifest = snapshot.manifest();
    println!(
        "  {} events, {} bytes of lines, in {} seals and {} edits; {seconds:.0} s, {:.0} MiB at the peak",
        done.events,
        done.lines_bytes,
        done.seals,
        manifest.version,
        machine::peak_mib(std::process::id())
    );
    println!(
        "  {} parts, at most {} in a partition of events at any time; the longest compaction {:.0} ms",
        manifest.parts.len(),
        done.most_parts,
        done.longest_compaction_ms
    );
    println!("  bytes written        by seals   by compaction   of the lines");
    let mut all = 0;
    for (nth, (_, name)) in KINDS.iter().enumerate() {
        let (seals, compaction) = (
            done.by_seals.0[nth].written,
            done.by_compaction.0[nth].written,
        );
        all += seals + compaction;
        println!(
            "  {name:<10} {seals:>18} {compaction:>15} {:>14.3}",
            (seals + compaction) as f64 / done.lines_bytes as f64
        );
    }
    println!("  together {:>51.3}", all as f64 / done.lines_bytes as f64);
}
