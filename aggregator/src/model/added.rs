//! Adds rollups to streams that hold events, over random histories: at any moment a rollup must
//! show the events of the days that it claims to count, and count no event twice.
//!
//! `LOGMILL_ADDED=1000` runs as many histories.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use storage::sim::{Random, SimFs};
use storage::{
    Config, ManualClock, Name, Options, Replaces, RollupMeta, Snapshot, Store, WriteConcern,
};

use super::STREAM;
use super::events::{Fate, SentBatch, event};
use crate::calendar::Level;
use crate::cascade::chunk_cells;
use crate::cells::{Cells, Filter, Projection};
use crate::definition::Definition;
use crate::rollup_hook::Cascade;
use crate::tile::TileFile;
use crate::verify::{Sample, verify};

const DAY_US: i64 = 86_400_000_000;
/// 2024-10-25: two days before Europe leaves summer time.
const START_US: i64 = 1_729_814_400_000_000;
const DAYS: u64 = 6;

/// Returns the configuration of the rollup that exists from the beginning; with `added`, also of
/// those added later.
fn configuration(added: bool) -> Value {
    let all = json!({
        "first": { "stream": STREAM, "by": ["path"], "measures": { "hits": "count" } },
        "added": { "stream": STREAM, "by": ["path", "host"], "timezone": "Europe/Berlin", "max_keys": 3,
            "measures": { "hits": "count", "bytes": "sum(response_size)",
                "visitors": { "distinct": "host", "from": "hour" } } },
        "plain": { "stream": STREAM, "levels": ["hour", "month"], "measures": { "hits": "count" } },
    });
    let kept = all.as_object().expect("tables").iter();
    let kept = kept.filter(|(name, _)| added || *name == "first");
    let kept: serde_json::Map<String, Value> = kept
        .map(|(name, table)| (name.clone(), table.clone()))
        .collect();
    json!({ "rollups": kept })
}

fn cascade(configuration: &Value) -> Cascade {
    let config = serde_json::from_value(configuration.clone()).expect("a configuration");
    Cascade::new(config).expect("a cascade")
}

/// A store and the time of every event written to it.
struct AddedHistory {
    fs: SimFs,
    random: Random,
    store: Option<Store>,
    times: Vec<i64>,
    sent: u64,
}

impl AddedHistory {
    fn new(seed: u64) -> Self {
        let mut history = Self {
            fs: SimFs::new(),
            random: Random::new(seed),
            store: None,
            times: Vec::new(),
            sent: 0,
        };
        history.open(cascade(&configuration(false)));
        history
    }

    fn open(&mut self, cascade: Cascade) {
        let step_rows = 1 + self.random.below(40);
        let options = Options {
            depot: None,
            journal: None,
            shard: None,
            fs: Arc::new(self.fs.clone()),
            clock: Arc::new(ManualClock::at(START_US + 30 * DAY_US)),
            rollup_hook: Arc::new(cascade),
            config: Config {
                tends: false,
                lag_us: i64::MAX,
                backfill_at_once: 0,
                backfill_step_rows: step_rows,
                ..Config::default()
            },
            on_poison: None,
        };
        self.store = None;
        self.store = Some(Store::open(Path::new("/data"), options).expect("opens"));
    }

    fn close(&mut self) {
        let store = self.store.take().expect("it is open");
        store.close().expect("closes");
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn write(&mut self) {
        let events = (0..1 + self.random.below(12)).map(|_| {
            let time = START_US + self.random.below(DAYS * 86_400) as i64 * 1_000_000;
            event(&mut self.random, time)
        });
        let sent = SentBatch {
            number: self.sent,
            events: events.collect(),
            keyed: false,
            received_us: START_US,
            first_seq: 0,
            fate: Fate::Unknown,
        };
        self.sent += 1;
        self.times.extend(sent.events.iter().map(|e| e.time));
        let ack = self.store().write(sent.build(), WriteConcern::ACKNOWLEDGED);
        ack.expect("is taken");
    }

    /// Takes a random step: a write, a seal, a drop, a detach, an attach or a compaction.
    fn step(&mut self) {
        let day = START_US + self.random.below(DAYS) as i64 * DAY_US;
        let (range, name) = ((day, day + DAY_US), Name::new(STREAM).expect("a name"));
        match self.random.below(12) {
            0..5 => self.write(),
            5..8 => drop(self.store().seal().expect("seals")),
            8 => {
                let dropped = self.store().drop_partitions(&name, range, false);
                dropped.expect("drops");
            }
            // The store refuses when some of the range is detached already.
            9 => drop(self.store().detach_partitions(&name, range, false)),
            10 => drop(self.store().attach_partitions(&name, range)),
            _ => {
                self.store().compact_tiles(true).expect("compacts");
                self.store().compact_parts(None, true).expect("compacts");
            }
        }
    }

    /// Checks that every rollup shows the events that it claims to count.
    fn check(&self) {
        let snapshot = self.store().snapshot();
        for meta in &snapshot.manifest().rollups {
            let found = verify(&snapshot, meta, Sample::ALL).expect("verifies");
            assert_eq!(found.differences(), 0, "{found:?}");
            self.check_days(&snapshot, meta);
        }
    }

    /// Checks that each hour of a complete day counts every event written, and no hour more.
    fn check_days(&self, snapshot: &Snapshot, meta: &RollupMeta) {
        let mut written: BTreeMap<i64, u64> = BTreeMap::new();
        for time in &self.times {
            *written
                .entry(time.div_euclid(3_600_000_000) * 3_600_000_000)
                .or_default() += 1;
        }
        let from_us = meta.complete_from_us().unwrap_or(i64::MIN);
        let counted = hours(snapshot, meta);
        for (hour, events) in &written {
            let counted = counted.get(hour).copied().unwrap_or(0);
            assert!(
                counted <= *events,
                "{} {hour}: {counted} of {events}",
                meta.name
            );
            if *hour >= from_us {
                assert_eq!(counted, *events, "{} {hour}, from {from_us}", meta.name);
            }
        }
        assert!(counted.keys().all(|hour| written.contains_key(hour)));
    }
}

/// Returns the events that a rollup counts in each hour, in its tiles and in the memtable.
fn hours(snapshot: &Snapshot, meta: &RollupMeta) -> BTreeMap<i64, u64> {
    let definition = Arc::new(Definition::from_meta(meta).expect("a definition"));
    let mut counted: BTreeMap<i64, u64> = BTreeMap::new();
    let mut add = |cells: &Cells| {
        for (bucket, count) in cells.bucket.iter().zip(&cells.count) {
            *counted.entry(*bucket).or_default() += count;
        }
    };
    for file in snapshot.manifest().tiles_of(meta.id).flat_map(|t| &t.files) {
        let bytes = snapshot.read(&file.file).expect("reads");
        let tile = TileFile::open(Arc::clone(&definition), bytes).expect("a tile");
        for section in file.sections.iter().filter(|s| s.level == "hour") {
            let all = Projection::all(&definition);
            add(&tile.read(section, &all, &Filter::ALL).expect("cells"));
        }
    }
    for set in chunk_cells(&definition, meta.id, snapshot) {
        if let Some(cells) = set.expect("cells").level(Level::Hour) {
            add(cells);
        }
    }
    counted
}

fn run(seed: u64) {
    let mut history = AddedHistory::new(seed);
    history.write();
    for _ in 0..4 + history.random.below(12) {
        history.step();
    }
    history.close();
    history.open(cascade(&configuration(true)));
    history.check();
    let mut steps = 0;
    loop {
        match history.random.below(6) {
            0 => {
                history.close();
                history.open(cascade(&configuration(true)));
            }
            1..3 => history.step(),
            _ if !history.store().backfill() => break,
            _ => steps += 1,
        }
        history.check();
    }
    assert!(
        steps <= 2 * (DAYS + 3),
        "a step takes a day at least: {steps}"
    );
    let snapshot = history.store().snapshot();
    let waits = |r: &&RollupMeta| r.counts_from_us().is_some();
    assert_eq!(snapshot.manifest().rollups.iter().find(waits), None);
    for _ in 0..6 {
        history.step();
        history.check();
    }
}

#[test]
fn what_an_added_rollup_shows_is_what_it_says_that_it_counts() {
    let wanted = std::env::var("LOGMILL_ADDED")
        .ok()
        .and_then(|n| n.parse().ok());
    let first: u64 = rand_seed();
    for seed in first..first + wanted.unwrap_or(25) {
        let run = std::panic::AssertUnwindSafe(|| run(seed));
        if let Err(panic) = std::panic::catch_unwind(run) {
            println!("LOGMILL_ADDED_SEED={seed} runs this history first");
            std::panic::resume_unwind(panic);
        }
    }
}

/// Returns the seed of `LOGMILL_ADDED_SEED`; without it, a new one for each run.
fn rand_seed() -> u64 {
    let given = std::env::var("LOGMILL_ADDED_SEED").ok();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |t| t.as_nanos() as u64);
    given.and_then(|seed| seed.parse().ok()).unwrap_or(now)
}

/// Returns a history of six sealed batches over some days, of which the second day is dropped.
fn some_days() -> AddedHistory {
    let mut history = AddedHistory::new(7);
    for _ in 0..6 {
        history.write();
        history.store().seal().expect("seals");
    }
    let (name, day) = (Name::new(STREAM).expect("a name"), START_US + DAY_US);
    let dropped = history
        .store()
        .drop_partitions(&name, (day, day + DAY_US), false);
    assert!(dropped.expect("drops").events > 0);
    history.close();
    history
}

#[test]
fn after_a_drop_a_rollup_is_added_and_says_from_when_it_is_complete() {
    let mut history = some_days();
    history.open(cascade(&configuration(true)));
    while history.store().backfill() {
        history.check();
    }
    let snapshot = history.store().snapshot();
    let rollups = &snapshot.manifest().rollups;
    let added = rollups.iter().find(|r| r.name.as_str() == "added");
    let added = added.expect("it was added");
    assert_eq!(added.complete_from_us(), Some(START_US + 2 * DAY_US));
    let lost = snapshot.manifest().streams[&added.stream].dropped_events();
    assert_eq!((added.missing(), added.counts_from_us()), (lost, None));
}

#[test]
fn a_definition_that_differs_is_taken_when_it_is_accepted_and_counts_anew() {
    let mut history = some_days();
    let mut changed = configuration(false);
    changed["rollups"]["first"]["by"] = json!(["host"]);
    let options = |cascade: Cascade| Options {
        fs: Arc::new(history.fs.clone()),
        rollup_hook: Arc::new(cascade),
        ..Options::default()
    };
    let open = |cascade: Cascade| Store::open(Path::new("/data"), options(cascade));
    let error = open(cascade(&changed)).expect_err("it differs").to_string();
    assert!(error.contains("logmill rollup redefine first"), "{error}");
    let name = || Name::new("first").expect("a name");
    // The raw events of a day that the old definition has counted are gone.
    let counted = cascade(&changed).redefining(name(), Replaces::Counted);
    let error = open(counted)
        .expect_err("some would be forgotten")
        .to_string();
    assert!(error.contains("--accept-loss"), "{error}");
    history.open(cascade(&changed).redefining(name(), Replaces::Anything));
    while history.store().backfill() {}
    history.check();
    let ids = |history: &AddedHistory| -> Vec<u32> {
        let snapshot = history.store().snapshot();
        snapshot.manifest().rollups.iter().map(|r| r.id).collect()
    };
    let before = ids(&history);
    assert_eq!(before.len(), 1);
    history.close();
    // Accepting the same definition again adds no generation.
    history.open(cascade(&changed).redefining(name(), Replaces::Anything));
    assert_eq!(ids(&history), before);
}

#[test]
fn a_rollup_is_dropped_once_the_configuration_does_not_want_it() {
    let mut history = some_days();
    history.open(cascade(&configuration(true)));
    let name = Name::new("added").expect("a name");
    let error = history
        .store()
        .drop_rollup(&name)
        .expect_err("it is wanted");
    assert!(error.to_string().contains("[rollup.added]"), "{error}");
    assert!(history.store().unwanted_rollups().is_empty());
    history.close();
    history.open(cascade(&configuration(false)));
    let unwanted: Vec<String> = history
        .store()
        .unwanted_rollups()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(unwanted, ["added", "plain"]);
    // The rollup counts new events until it is dropped.
    history.write();
    history.store().seal().expect("seals");
    history.check();
    history.store().drop_rollup(&name).expect("drops");
    let error = history.store().drop_rollup(&name).expect_err("it is gone");
    assert!(error.to_string().contains("no rollup"), "{error}");
    history.write();
    history.store().seal().expect("seals");
    history.check();
    let fs = history.fs.clone();
    history.close();
    let files = storage::Fs::list(&fs, Path::new("/data/rollups/added"));
    assert!(files.unwrap_or_default().is_empty());
}
