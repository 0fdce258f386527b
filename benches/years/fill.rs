//! The history: lines, seals, and compaction after each.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use aggregator::Cascade;
use ingest::{Format, ParseOptions, Parser};
use storage::{Batch, Config, Identity, Manifest, Name, Options, Store, WriteConcern};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::account::{Account, Cause};
use crate::counted::CountedFs;
use crate::generator::Generator;
use crate::marks::at_most;
use crate::{Settings, generator, machine};

pub(crate) const STREAM: &str = "access";
/// Lines of a request.
const REQUEST: usize = 100;
/// Number of lines about the progress.
const PROGRESS: u64 = 10;
/// Parts that compaction may leave in a partition that is written to.
const PARTS_MAX: f64 = 36.0;
const PEAK_MIB_MAX: f64 = 500.0;

/// Averages of a stretch of the history.
#[derive(Default, Clone, Copy)]
struct Stretch {
    seals: u64,
    seal_ms: f64,
    tiles_ms: f64,
    parts_ms: f64,
    edits: (u64, u64),
}

struct Fill<'a> {
    settings: &'a Settings,
    store: Store,
    account: Account,
    generator: Generator,
    parser: Parser,
    lines: Vec<u8>,
    events: u64,
    requests: u64,
    lines_bytes: u64,
    seals: u64,
    day: i64,
    parts_max: usize,
    compaction_ms_max: f64,
    stretch: Stretch,
}

pub(crate) fn options(fs: CountedFs) -> Options {
    let cascade = Cascade::new(aggregator::CascadeConfig::default());
    Options {
        fs: Arc::new(fs),
        rollup_hook: Arc::new(cascade.expect("the defaults are right")),
        config: Config {
            tends: false,
            // Seals happen on request only.
            lag_us: i64::MAX / 2,
            memtable_bytes_max: 1 << 30,
            ..Config::default()
        },
        ..Options::default()
    }
}

/// Returns the parts of the partition of events that has most.
pub(crate) fn most_parts(manifest: &Manifest) -> usize {
    let mut parts: BTreeMap<i64, usize> = BTreeMap::new();
    for part in manifest.parts_of(&Name::new(STREAM).expect("a name")) {
        *parts.entry(part.partition_us).or_default() += 1;
    }
    parts.into_values().max().unwrap_or(0)
}

/// Fills the store and prints the costs.
pub(crate) fn measure(s: &Settings, data: &Path) -> Account {
    let began = Instant::now();
    let mut fill = Fill::begin(s, data);
    println!("  events        after   seal ms  tiles ms  parts ms  edits  kB each   parts");
    let tenth = s.events.div_ceil(PROGRESS);
    let mut next = tenth;
    while fill.step() {
        if fill.events >= next {
            next += tenth;
            fill.print_stretch(began.elapsed().as_secs_f64());
        }
    }
    fill.print(began.elapsed().as_secs_f64());
    fill.store.close().expect("closed");
    fill.account.skip();
    fill.account
}

fn ms(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}

impl<'a> Fill<'a> {
    fn begin(settings: &'a Settings, data: &Path) -> Self {
        let mut account = Account::new();
        let store = Store::open(data, options(account.fs.clone())).expect("opened");
        account.skip();
        Self {
            settings,
            store,
            account,
            generator: Generator::new(generator::Settings {
                lines: settings.events,
                days: settings.days,
                ..generator::Settings::default()
            }),
            parser: Parser::new(ParseOptions {
                format: Format::Auto,
                ..ParseOptions::default()
            }),
            lines: Vec::new(),
            events: 0,
            requests: 0,
            lines_bytes: 0,
            seals: 0,
            day: 0,
            parts_max: 0,
            compaction_ms_max: 0.0,
            stretch: Stretch::default(),
        }
    }

    /// Makes one seal and the compaction after it; returns whether there was something to seal.
    fn step(&mut self) -> bool {
        let mut left = self.settings.rows_per_seal;
        while left > 0 {
            let taken = self.request(left.min(REQUEST));
            if taken == 0 {
                break;
            }
            left -= taken;
        }
        if left == self.settings.rows_per_seal {
            return false;
        }
        let began = Instant::now();
        self.store.seal().expect("sealed");
        self.account.charge(Cause::Seal);
        self.stretch.seal_ms += ms(began);
        self.seals += 1;
        self.stretch.seals += 1;
        self.look();
        let began = Instant::now();
        self.store.compact_tiles(false).expect("compacted");
        self.account.charge(Cause::Tiles);
        let tiles = ms(began);
        self.store.compact_parts(None, false).expect("compacted");
        self.account.charge(Cause::Parts);
        let both = ms(began);
        self.stretch.tiles_ms += tiles;
        self.stretch.parts_ms += both - tiles;
        self.compaction_ms_max = self.compaction_ms_max.max(both);
        self.sleep();
        true
    }

    /// Compacts the quiet history once a day, when no events come for ten minutes.
    fn sleep(&mut self) {
        let day = self.received_us().div_euclid(86_400_000_000);
        if std::mem::replace(&mut self.day, day) == day || self.settings.restless {
            return;
        }
        let began = Instant::now();
        self.store.compact_tiles(true).expect("compacted");
        self.store.compact_parts(None, true).expect("compacted");
        self.account.charge(Cause::Quiet);
        self.compaction_ms_max = self.compaction_ms_max.max(ms(began));
    }

    /// Returns the time at which the last line written came: no line is stamped later than it
    /// comes.
    fn received_us(&self) -> i64 {
        let span = u128::from(self.settings.days) * 86_400_000_000;
        let elapsed_us =
            u128::from(self.generator.written()) * span / u128::from(self.settings.events);
        generator::DEFAULT_START * 1_000_000 + elapsed_us as i64
    }

    /// Records the number of parts; before compaction there are most.
    fn look(&mut self) {
        let parts = most_parts(self.store.snapshot().manifest());
        self.parts_max = self.parts_max.max(parts);
    }

    /// Sends a few lines under a key of their own; returns their number.
    fn request(&mut self, lines: usize) -> usize {
        self.lines.clear();
        let taken = (0..lines)
            .take_while(|_| self.generator.next_line(&mut self.lines))
            .count();
        if taken == 0 {
            return 0;
        }
        let received_us = self.received_us();
        self.parser.set_received(received_us);
        let parsed = self.parser.parse(&self.lines).expect("parsed");
        self.requests += 1;
        self.events += parsed.events.num_rows() as u64;
        self.lines_bytes += self.lines.len() as u64;
        let batch = Batch {
            stream: Name::new(STREAM).expect("a name"),
            kind: parsed.kind,
            received_us,
            source: "bench".into(),
            events: parsed.events,
            quarantine: parsed.quarantine,
            identity: Some(Identity::Key {
                key: format!("{:032x}", xxh3_128(&self.requests.to_le_bytes())),
                body_hash: xxh3_64(&self.lines),
            }),
        };
        self.store
            .write(batch, WriteConcern::ACKNOWLEDGED)
            .expect("taken");
        taken
    }

    fn print_stretch(&mut self, seconds: f64) {
        let edits = self.account.edits();
        let Stretch {
            seals,
            seal_ms,
            tiles_ms,
            parts_ms,
            edits: before,
        } = std::mem::take(&mut self.stretch);
        let each = |sum: f64| sum / seals as f64;
        println!(
            "  {:<10} {seconds:>6.0} s {:>9.2} {:>9.2} {:>9.2} {:>6.2} {:>8.1} {:>7}",
            self.events,
            each(seal_ms),
            each(tiles_ms),
            each(parts_ms),
            each((edits.0 - before.0) as f64),
            (edits.1 - before.1) as f64 / 1e3 / (edits.0 - before.0) as f64,
            self.store.snapshot().manifest().parts.len(),
        );
        self.stretch.edits = edits;
    }

    fn print(&self, seconds: f64) {
        let (edits, _) = self.account.edits();
        println!(
            "  {} events, {} bytes of lines, in {} requests, {} seals and {edits} edits; {seconds:.0} s; the longest compaction {:.0} ms; load {}",
            self.events,
            self.lines_bytes,
            self.requests,
            self.seals,
            self.compaction_ms_max,
            machine::load()
        );
        let peak = machine::peak_mib(std::process::id());
        at_most("memory of the fill at its peak", peak, PEAK_MIB_MAX, "MiB");
        let parts = self.parts_max as f64;
        at_most("parts of a partition at any time", parts, PARTS_MAX, "");
    }
}
