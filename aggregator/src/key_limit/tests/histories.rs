//! Whole histories in a real store on a simulated disk: for any division into seals, and with any
//! maintenance of tiles between them, each level equals the naive implementation after every step.

use std::io::ErrorKind;
use std::path::Path;

use storage::sim::{Call, Fault, SimFs};
use storage::{Batch, Config as StoreConfig, Name, Options, RollupMeta, Snapshot, Store};
use storage::{StreamKind, WriteConcern};

use super::*;
use crate::cascade::chunk_cells;
use crate::cells::{Cells, Filter, Projection};
use crate::read::merge;
use crate::verify::{Sample, verify};
use crate::{Cascade, CascadeConfig, TileFile};

const DAY_US: i64 = 86_400_000_000;

/// A store with some rollups, and all events that were ever written to it.
struct KeyLimitHistory {
    fs: SimFs,
    store: Option<Store>,
    written: Vec<AccessEvent>,
    /// True once raw events were dropped.
    dropped: bool,
}

impl KeyLimitHistory {
    fn new(tables: &Value) -> Self {
        let mut history = Self {
            fs: SimFs::new(),
            store: None,
            written: Vec::new(),
            dropped: false,
        };
        history.open(tables);
        history
    }

    /// Opens the store with these rollups, and closes it before if it is open.
    fn open(&mut self, tables: &Value) {
        if let Some(store) = self.store.take() {
            store.close().expect("closes");
        }
        let streams = if tables == &json!({}) {
            json!({ "events": [] })
        } else {
            json!({})
        };
        let config: CascadeConfig =
            serde_json::from_value(json!({ "rollups": tables, "streams": streams }))
                .expect("a configuration");
        let options = Options {
            fs: Arc::new(self.fs.clone()),
            rollup_hook: Arc::new(Cascade::new(config).expect("a cascade")),
            config: StoreConfig {
                lag_us: i64::MAX,
                tends: false,
                ..StoreConfig::default()
            },
            ..Options::default()
        };
        self.store = Some(Store::open(Path::new("/data"), options).expect("opens"));
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("open")
    }

    fn write(&mut self, events: Vec<AccessEvent>) {
        let written = self.store().write(
            Batch {
                stream: Name::new("events").expect("a name"),
                kind: StreamKind::Access,
                received_us: 0,
                source: "test".into(),
                events: batch(&events),
                quarantine: Vec::new(),
                identity: None,
            },
            WriteConcern::default(),
        );
        written.expect("is written");
        self.written.extend(events);
    }

    fn seal(&self) {
        self.store().seal().expect("seals");
    }

    /// Drops the raw events of the `nth` day, counted from the first day of events.
    fn drop_day(&mut self, nth: i64) {
        let from_us = (1_729_814_400_000_000 / DAY_US + nth) * DAY_US;
        let stream = Name::new("events").expect("a name");
        let store = self.store();
        let report = store.drop_partitions(&stream, (from_us, from_us + DAY_US), false);
        self.dropped |= report.expect("drops").events > 0;
    }

    /// Compares every level of every rollup with the naive implementation, and runs `verify`.
    fn check(&self) {
        let snapshot = self.store().snapshot();
        self.check_levels(&snapshot, self.written.len());
        for meta in &snapshot.manifest().rollups {
            let verified = verify(&snapshot, meta, Sample::ALL).expect("is verified");
            assert_eq!(verified.differences(), 0, "{verified:?}");
            if !self.dropped {
                assert_eq!(verified.events, self.written.len() as u64);
            }
        }
    }

    /// Compares every level of a snapshot that was taken when `written` events were written.
    fn check_levels(&self, snapshot: &Snapshot, written: usize) {
        for meta in &snapshot.manifest().rollups {
            let definition = Arc::new(Definition::from_meta(meta).expect("a definition"));
            for level in definition.levels() {
                let found = read(snapshot, meta, &definition, *level);
                let found = rows(&definition, *level, &found);
                let expected = recompute(&definition, *level, &self.written[..written]);
                assert_eq!(found, expected, "{} {level}", meta.name);
            }
        }
    }

    /// Rebuilds every partition from the raw events.
    fn rebuild(&self) {
        for meta in &self.store().snapshot().manifest().rollups {
            let done = self.store().rebuild(&meta.name, (i64::MIN, i64::MAX));
            let done = done.expect("is rebuilt");
            assert!(
                self.dropped || done.iter().all(|r| r.left.is_none()),
                "{done:?}"
            );
        }
    }
}

/// Reads a level as a client does: tiles and memtable chunks, merged.
fn read(
    snapshot: &Snapshot,
    meta: &RollupMeta,
    definition: &Arc<Definition>,
    level: Level,
) -> Cells {
    let all = Projection::all(definition);
    let mut cells = Vec::new();
    for file in snapshot.manifest().tiles_of(meta.id).flat_map(|t| &t.files) {
        let bytes = snapshot.read(&file.file).expect("is read");
        let tile = TileFile::open(Arc::clone(definition), bytes).expect("a tile");
        let sections = file.sections.iter().filter(|s| s.level == level.as_str());
        cells.extend(sections.map(|s| tile.read(s, &all, &Filter::ALL).expect("cells")));
    }
    for set in chunk_cells(definition, meta.id, snapshot) {
        cells.push(set.expect("cells").level(level).expect("the level").clone());
    }
    merge(definition, level, &cells.iter().collect::<Vec<_>>())
}

/// Returns a rollup of each list of keys, each in a random zone.
fn three(random: &mut TestRandom) -> Value {
    let mut tables = json!({});
    for (nth, by) in keys().iter().enumerate() {
        let zone = Tz::named(ZONES[(nth + random.below(3) as usize) % 3]);
        tables[format!("by_{nth}")] = table(by, zone, 1 + random.below(10));
    }
    tables
}

fn some(random: &mut TestRandom) -> Vec<AccessEvent> {
    let len = 1 + random.below(40) as usize;
    let paths = 1 + random.below(30);
    with_others(random, len, 4, paths)
}

/// Runs a history of random steps.
fn run(seed: u64, steps: usize, drops: bool) {
    println!("history {seed}");
    let mut random = TestRandom(seed);
    let tables = three(&mut random);
    let mut history = KeyLimitHistory::new(&tables);
    history.write(some(&mut random));
    for _ in 0..steps {
        match random.below(16) {
            0..=7 => {
                history.write(some(&mut random));
            }
            8..=11 => history.seal(),
            12 => {
                history.store().compact_tiles(true).expect("is compacted");
            }
            13 => history.open(&tables),
            14 => history.rebuild(),
            _ if drops => history.drop_day(random.below(4) as i64),
            _ => {}
        }
        history.check();
    }
}

#[test]
fn every_history_reads_as_the_rule_says() {
    for seed in 0..15 {
        run(seed, 14, false);
    }
}

#[test]
fn admitted_keys_outlive_the_raw_events() {
    for seed in 100..110 {
        run(seed, 18, true);
    }
}

#[test]
fn readers_of_older_snapshots_find_the_admitted_keys_of_their_time() {
    for seed in 200..215 {
        println!("history {seed}");
        let mut random = TestRandom(seed);
        let mut history = KeyLimitHistory::new(&three(&mut random));
        let mut taken = Vec::new();
        for _ in 0..12 {
            // Small chunks are merged with those before: a new chunk then begins at earlier events.
            for _ in 0..1 + random.below(4) {
                let paths = 1 + random.below(30);
                let len = 1 + random.below(12) as usize;
                history.write(with_others(&mut random, len, 4, paths));
            }
            taken.push((history.store().snapshot(), history.written.len()));
            match random.below(4) {
                0 => history.seal(),
                1 => history
                    .store()
                    .compact_tiles(true)
                    .map(drop)
                    .expect("is compacted"),
                _ => {}
            }
            // The chunks of some snapshots have cached cells already, others have none.
            let nth = random.below(taken.len() as u64) as usize;
            let (snapshot, written) = &taken[nth];
            history.check_levels(snapshot, *written);
        }
        for (snapshot, written) in &taken {
            history.check_levels(snapshot, *written);
        }
    }
}

#[test]
fn late_events_of_a_day_without_raw_events_find_its_admitted_keys() {
    let mut random = TestRandom(5);
    let mut history = KeyLimitHistory::new(&three(&mut random));
    let first = with_others(&mut random, 60, 4, 30);
    history.write(first);
    history.seal();
    (0..4).for_each(|nth| history.drop_day(nth));
    assert!(history.dropped);
    let late = with_others(&mut random, 60, 4, 30);
    history.write(late);
    history.check();
    history.seal();
    history.check();
    // The remaining raw events would admit other keys: nothing may be rebuilt from them.
    history.rebuild();
    history.check();
}

#[test]
fn a_rollup_that_comes_later_admits_the_same_keys() {
    let mut random = TestRandom(6);
    let tables = three(&mut random);
    let mut history = KeyLimitHistory::new(&json!({}));
    for _ in 0..5 {
        let events = some(&mut random);
        history.write(events);
        history.seal();
    }
    let waiting = some(&mut random);
    history.write(waiting);
    history.open(&tables);
    assert_eq!(history.store().snapshot().manifest().rollups.len(), 3);
    history.check();
    let more = some(&mut random);
    history.write(more);
    history.check();
    history.seal();
    history.check();
}

/// Returns a sealed history of one rollup, with more events of its days in the memtable.
fn waiting(max_keys: u64) -> KeyLimitHistory {
    let tables = json!({ "pages": table(&json!(["path"]), Tz::UTC, max_keys) });
    let mut history = KeyLimitHistory::new(&tables);
    let mut random = TestRandom(9);
    for _ in 0..3 {
        history.write(events(&mut random, 50, 2, 20, 5));
        history.seal();
    }
    history.write(events(&mut random, 50, 2, 20, 5));
    history
}

/// Reads the cells of the chunks while every read of a file fails.
fn chunks_without_files(history: &KeyLimitHistory) -> Vec<Result<(), String>> {
    let snapshot = history.store().snapshot();
    let meta = &snapshot.manifest().rollups[0];
    let definition = Arc::new(Definition::from_meta(meta).expect("a definition"));
    history.fs.fail(Fault {
        call: Call::Read,
        after: 0,
        forever: true,
        error: ErrorKind::Other,
    });
    let sets = chunk_cells(&definition, meta.id, &snapshot);
    let sets = sets.map(|set| set.map(|_| ()).map_err(|e| e.to_string()));
    let sets = sets.collect();
    history.fs.mend();
    sets
}

#[test]
fn nothing_is_read_while_no_day_can_have_too_many_keys() {
    // At most twenty pages and null, in each of four batches.
    let history = waiting(4 * 21);
    assert_eq!(chunks_without_files(&history), [Ok(())]);
    history.check();
}

#[test]
fn a_chunk_keeps_no_error() {
    let history = waiting(4);
    let failed = chunks_without_files(&history);
    assert!(matches!(&failed[..], [Err(_)]), "{failed:?}");
    history.check();
    // The cells are cached, so no file is needed any more.
    assert_eq!(chunks_without_files(&history), [Ok(())]);
}
