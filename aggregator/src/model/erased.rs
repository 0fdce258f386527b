//! Erases events over random histories. Every level must then have the bytes that it has in a
//! second store, to which the erased events were never sent; but for events that lack other raw
//! events of their days, which a rule written here once more finds.
//!
//! `LOGMILL_ERASED=1000` runs as many histories; `LOGMILL_ERASED_SEED` begins with one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use serde_json::{Value, json};
use storage::sim::{Image, Random, SimFs};
use storage::{
    Config, ManualClock, Name, Options, RollupMeta, SEQ, Snapshot, Store, WriteConcern, read_part,
};

use super::STREAM;
use super::events::{Fate, SentBatch, event};
use crate::calendar::Level;
use crate::cascade::chunk_cells;
use crate::cells::{Cells, Filter, Projection};
use crate::definition::Definition;
use crate::rollup_hook::Cascade;
use crate::testing::AccessEvent;
use crate::tile::{TileFile, merge_sections};
use crate::verify::{Sample, verify};

const DAY_US: i64 = 86_400_000_000;
/// 2024-12-27: the days span a new year, months and weeks.
const START_US: i64 = 1_735_257_600_000_000;
const DAYS: u64 = 8;

/// Rollups in two zones, with few admitted keys, with a floor, and without a day level. One that
/// only the history's seed adds has a measure from the month on, so that it can be counted again
/// only as a whole.
fn configuration(has_late: bool) -> Value {
    let size = json!({ "histogram": "response_size", "from": "hour" });
    let mut all = json!({
        "first": { "stream": STREAM, "by": ["path"], "retention": { "minute": "3d" },
            "measures": { "hits": "count", "size": size, "most": "max(response_size)" } },
        "berlin": { "stream": STREAM, "by": ["path", "host"], "timezone": "Europe/Berlin",
            "max_keys": 3, "week": "monday", "measures": { "hits": "count",
                "bytes": "sum(response_size)", "visitors": { "distinct": "host", "from": "hour" } } },
        "plain": { "stream": STREAM, "levels": ["hour", "month"], "measures": { "hits": "count" } },
    });
    if has_late {
        all["late"] = json!({ "stream": STREAM, "by": ["site"], "measures": { "hits": "count",
            "visitors": { "distinct": "host", "from": "month" } } });
    }
    json!({ "rollups": all })
}

fn open(fs: &SimFs, has_late: bool) -> storage::Result<Store> {
    let config = serde_json::from_value(configuration(has_late)).expect("a configuration");
    let options = Options {
        depot: None,
        journal: None,
        shard: None,
        fs: Arc::new(fs.clone()),
        clock: Arc::new(ManualClock::at(START_US + 30 * DAY_US)),
        rollup_hook: Arc::new(Cascade::new(config).expect("a cascade")),
        config: Config {
            tends: false,
            lag_us: i64::MAX,
            ..Config::default()
        },
        on_poison: None,
    };
    Store::open(Path::new("/data"), options)
}

fn stream() -> Name {
    Name::new(STREAM).expect("a name")
}

fn send(store: &Store, number: u64, events: &[AccessEvent]) -> Option<u64> {
    let sent = SentBatch {
        number,
        events: events.to_vec(),
        keyed: false,
        received_us: START_US,
        first_seq: 0,
        fate: Fate::Unknown,
    };
    let ack = store.write(sent.build(), WriteConcern::JOURNALED);
    ack.expect("is taken").first_seq
}

/// A store, and what was sent to it.
struct ErasedHistory {
    fs: SimFs,
    random: Random,
    store: Option<Store>,
    has_late: bool,
    sent: Vec<(u64, Vec<AccessEvent>)>,
    /// Sequence numbers that are in no part any more, and those of them that stay counted.
    erased: BTreeSet<u64>,
    kept: BTreeSet<u64>,
    /// First complete sequence number of UTC days whose raw events are gone.
    dropped: BTreeMap<i64, u64>,
    detached: BTreeMap<i64, u64>,
    /// Other UTC days of which a raw event is gone.
    incomplete: BTreeSet<i64>,
    erasures: u64,
}

impl ErasedHistory {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let (fs, has_late) = (SimFs::new(), random.below(4) == 0);
        Self {
            store: Some(open(&fs, has_late).expect("opens")),
            fs,
            random,
            has_late,
            sent: Vec::new(),
            erased: BTreeSet::new(),
            kept: BTreeSet::new(),
            dropped: BTreeMap::new(),
            detached: BTreeMap::new(),
            incomplete: BTreeSet::new(),
            erasures: 0,
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn write(&mut self) {
        let events = (0..1 + self.random.below(12)).map(|_| {
            let time = START_US + self.random.below(DAYS * 86_400) as i64 * 1_000_000;
            event(&mut self.random, time)
        });
        let events: Vec<AccessEvent> = events.collect();
        let number = self.sent.len() as u64;
        let first = send(self.store(), number, &events).expect("events");
        self.sent.push((first, events));
    }

    fn events(&self) -> impl Iterator<Item = (u64, &AccessEvent)> {
        let batches = self.sent.iter();
        batches.flat_map(|(first, events)| (*first..).zip(events))
    }

    fn is_live(&self, seq: u64, time: i64) -> bool {
        let day = time.div_euclid(DAY_US);
        let gone = |days: &BTreeMap<i64, u64>| days.get(&day).is_some_and(|from| seq < *from);
        !self.erased.contains(&seq) && !gone(&self.dropped) && !gone(&self.detached)
    }

    /// Takes a random step: a write, a seal, a drop, a detach, an attach, a compaction, a cut of a
    /// level or an erasure.
    fn step(&mut self) {
        let day = START_US.div_euclid(DAY_US) + self.random.below(DAYS) as i64;
        let range = (day * DAY_US, (day + 1) * DAY_US);
        match self.random.below(18) {
            0..6 => self.write(),
            6..9 => drop(self.store().seal().expect("seals")),
            9 => {
                let report = self.store().drop_partitions(&stream(), range, false);
                if report.expect("drops").events > 0 {
                    self.detached.remove(&day);
                    self.dropped.insert(day, self.sealed_seq());
                }
            }
            10 => {
                // The store refuses when the day is detached already.
                let report = self.store().detach_partitions(&stream(), range, false);
                if report.is_ok_and(|r| r.events > 0) {
                    self.detached.insert(day, self.sealed_seq());
                }
            }
            11 | 12 => {
                if self.store().attach_partitions(&stream(), range).is_ok() {
                    self.detached.remove(&day);
                }
            }
            13 => {
                self.store().retain_levels().expect("cuts");
            }
            14 => {
                self.store().compact_tiles(true).expect("compacts");
                self.store().compact_parts(None, true).expect("compacts");
            }
            _ => self.erase(),
        }
    }

    fn sealed_seq(&self) -> u64 {
        self.store().snapshot().manifest().sealed_seq
    }

    /// Erases events of a host, of a path or of any kind; perhaps until the disk stops.
    fn erase(&mut self) {
        let (which, among) = (self.random.below(4), 1 + self.random.below(4));
        let mut picks = Random::new(self.random.next_u64());
        let host = format!("10.0.0.{}", 1 + self.random.below(12));
        let chosen = self.events().filter(|(_, e)| match which {
            0 | 1 => e.host.as_ref() == Some(&host),
            2 => e.path.is_none(),
            _ => picks.below(among) == 0,
        });
        let chosen: Vec<(u64, i64)> = chosen.map(|(seq, e)| (seq, e.time)).collect();
        let live = chosen.iter().filter(|(s, time)| self.is_live(*s, *time));
        let live: BTreeMap<u64, i64> = live.copied().collect();
        let kept = self.stay_counted(&live);
        let seqs: Vec<u64> = chosen.iter().map(|(seq, _)| *seq).collect();
        let may_stop = self.random.below(3) == 0;
        if may_stop {
            let at = self.fs.operations() + self.random.below(160);
            self.fs.halt_at(at);
        }
        let outcome = self.store().erase(&stream(), seqs, false);
        if self.fs.halted() {
            self.recover();
        } else {
            self.fs.halt_at(u64::MAX);
            let report = outcome.expect("erases");
            let events = (report.events, report.still_counted);
            assert_eq!(events, (live.len() as u64, kept.len() as u64));
        }
        let erasures = self.recorded();
        let is_done = erasures > self.erasures;
        assert!(is_done || may_stop || live.is_empty(), "nothing on record");
        self.erasures = erasures;
        if is_done {
            let days = kept.iter().map(|seq| live[seq].div_euclid(DAY_US));
            self.incomplete.extend(days);
            self.erased.extend(live.keys());
            self.kept.extend(kept);
        }
        self.check();
    }

    /// Returns the events that stay counted: those of a day of some rollup, or of all time where a
    /// rollup is counted as a whole, of which a raw event is gone or stays counted.
    fn stay_counted(&self, live: &BTreeMap<u64, i64>) -> BTreeSet<u64> {
        let days = self.dropped.keys().chain(self.detached.keys());
        let incomplete: BTreeSet<i64> = days.chain(&self.incomplete).copied().collect();
        let snapshot = self.store().snapshot();
        let rollups = snapshot.manifest().rollups.iter();
        let units = rollups.map(|meta| {
            let calendar = Definition::from_meta(meta)
                .expect("a definition")
                .calendar();
            let is_whole = meta.name.as_str() == "late";
            move |time: i64| match is_whole {
                true => (i64::MIN, i64::MAX),
                false => {
                    let day = calendar.bucket(Level::Day, time);
                    (day.start_us, day.end_us)
                }
            }
        });
        let units: Vec<_> = units.collect();
        let mut kept: BTreeSet<u64> = BTreeSet::new();
        loop {
            let lacks = |(from, to): (i64, i64)| {
                let gone = incomplete
                    .iter()
                    .any(|d| d * DAY_US < to && (d + 1) * DAY_US > from);
                gone || kept.iter().any(|seq| (from..to).contains(&live[seq]))
            };
            let more = live
                .iter()
                .filter(|(_, t)| units.iter().any(|unit| lacks(unit(**t))));
            let more: BTreeSet<u64> = more.map(|(seq, _)| *seq).collect();
            if more == kept {
                return kept;
            }
            kept = more;
        }
    }

    fn recorded(&self) -> u64 {
        let snapshot = self.store().snapshot();
        let meta = snapshot.manifest().streams.get(&stream());
        meta.map_or(0, |m| m.erasures.len() as u64)
    }

    fn recover(&mut self) {
        let fs = match self.random.below(3) {
            0 => self.fs.kill(),
            _ => self.fs.crash(Image::Seed(self.random.next_u64())),
        };
        self.store = None;
        self.fs = fs;
        self.store = Some(open(&self.fs, self.has_late).expect("opens after a crash"));
    }

    /// Compares the parts with the events that are live, and every level with that of a store that
    /// never got the erased events.
    fn check(&self) {
        let snapshot = self.store().snapshot();
        let live = self.events().filter(|(seq, e)| self.is_live(*seq, e.time));
        let live: Vec<u64> = live.map(|(seq, _)| seq).collect();
        assert_eq!(rows(&snapshot), live, "raw events: left is there");
        let twin = open(&SimFs::new(), self.has_late).expect("opens");
        for (number, (first, events)) in self.sent.iter().enumerate() {
            let stays = |seq: &u64| !self.erased.contains(seq) || self.kept.contains(seq);
            let events = (*first..).zip(events).filter(|(seq, _)| stays(seq));
            let events: Vec<AccessEvent> = events.map(|(_, e)| e.clone()).collect();
            if !events.is_empty() {
                send(&twin, number as u64, &events);
            }
        }
        let expected = twin.snapshot();
        for meta in &snapshot.manifest().rollups {
            let verified = verify(&snapshot, meta, Sample::ALL).expect("verifies");
            assert_eq!(verified.differences(), 0, "{verified:?}");
            let definition = Definition::from_meta(meta).expect("a definition");
            let mut others = expected.manifest().rollups.iter();
            let other = others.find(|r| r.name == meta.name);
            for level in &meta.levels {
                let from_us = meta.floor_us(level);
                let level = Level::from_name(level).expect("a level");
                let found = bytes_of(&snapshot, meta, level, from_us);
                // Of events that were all erased, the other store has not even a stream.
                let expected = match other {
                    Some(other) => bytes_of(&expected, other, level, from_us),
                    None => merge_sections(&definition, level, Vec::new()).bytes,
                };
                assert_eq!(found, expected, "{} by {level}", meta.name);
            }
        }
    }
}

/// Returns the sequence numbers of the live rows, rising.
fn rows(snapshot: &Snapshot) -> Vec<u64> {
    let mut rows = Vec::new();
    let mut add = |batch: &RecordBatch| {
        let seqs = batch[SEQ].as_primitive::<UInt64Type>().values();
        rows.extend(seqs.iter().copied());
    };
    for part in snapshot.manifest().parts_of(&stream()) {
        let bytes = snapshot.read(&part.file).expect("reads");
        let batches = read_part(bytes, Some(&[SEQ])).expect("a part");
        batches.iter().for_each(&mut add);
    }
    for chunk in snapshot.chunks(STREAM) {
        add(&chunk.events);
    }
    rows.sort_unstable();
    rows
}

/// Returns the cells of a level from a time on, merged and encoded.
fn bytes_of(snapshot: &Snapshot, meta: &RollupMeta, level: Level, from_us: i64) -> Vec<u8> {
    let definition = Arc::new(Definition::from_meta(meta).expect("a definition"));
    let filter = Filter {
        from_us,
        ..Filter::ALL
    };
    let all = Projection::all(&definition);
    let mut cells: Vec<Cells> = Vec::new();
    for file in snapshot.manifest().tiles_of(meta.id).flat_map(|t| &t.files) {
        let bytes = snapshot.read(&file.file).expect("reads");
        let tile = TileFile::open(Arc::clone(&definition), bytes).expect("a tile");
        for section in file.sections.iter().filter(|s| s.level == level.as_str()) {
            cells.push(tile.read(section, &all, &filter).expect("cells"));
        }
    }
    for set in chunk_cells(&definition, meta.id, snapshot) {
        let set = set.expect("cells");
        cells.extend(set.level(level).map(|cells| cells.filter(&filter, &all)));
    }
    merge_sections(&definition, level, cells).bytes
}

fn run(seed: u64) {
    let mut history = ErasedHistory::new(seed);
    history.write();
    for _ in 0..12 + history.random.below(30) {
        history.step();
    }
    history.check();
    let store = history.store.take().expect("it is open");
    store.close().expect("closes");
    history.store = Some(open(&history.fs, history.has_late).expect("opens"));
    history.check();
}

#[test]
fn after_an_erasure_every_level_is_as_if_the_events_had_never_come() {
    let setting = |name| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let first: u64 =
        setting("LOGMILL_ERASED_SEED").unwrap_or_else(|| now.map_or(0, |t| t.as_nanos() as u64));
    for seed in first..first + setting("LOGMILL_ERASED").unwrap_or(30) {
        let run = std::panic::AssertUnwindSafe(|| run(seed));
        if let Err(panic) = std::panic::catch_unwind(run) {
            println!("LOGMILL_ERASED_SEED={seed} runs this history first");
            std::panic::resume_unwind(panic);
        }
    }
}
