//! Floors of levels when clocks and times of events are wrong, and the rebuild that lowers a floor.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use storage::sim::{Random, SimFs};
use storage::{Config, ManualClock, Name, Options, Store, WriteConcern};

use super::STREAM;
use super::events::{Fate, SentBatch, event};
use crate::rollup_hook::Cascade;
use crate::verify::{Sample, verify};

const DAY_US: i64 = 86_400_000_000;
/// 2026-03-01.
const START_US: i64 = 20_513 * DAY_US;
/// Five years after [`START_US`].
const WRONG_US: i64 = START_US + 1_826 * DAY_US;

struct Days {
    store: Store,
    clock: Arc<ManualClock>,
    random: Random,
}

impl Days {
    fn new(seed: u64) -> Self {
        let table = json!({
            "stream": STREAM, "by": ["path"], "levels": ["minute", "hour", "day", "week"],
            "retention": { "minute": "1d", "hour": "40d" }, "measures": { "hits": "count" },
        });
        let config = serde_json::from_value(json!({ "rollups": { "days": table } }));
        let cascade = Cascade::new(config.expect("a configuration")).expect("a cascade");
        let clock = Arc::new(ManualClock::at(START_US));
        let options = Options {
            depot: None,
            journal: None,
            shard: None,
            fs: Arc::new(SimFs::new()),
            clock: Arc::clone(&clock) as Arc<dyn storage::Clock>,
            rollup_hook: Arc::new(cascade),
            config: Config {
                tends: false,
                lag_us: i64::MAX,
                ..Config::default()
            },
            on_poison: None,
        };
        Self {
            store: Store::open(Path::new("/data"), options).expect("opens"),
            clock,
            random: Random::new(seed),
        }
    }

    /// Writes and seals some events of one day.
    fn write(&mut self, day_us: i64, events: u64) {
        let random = &mut self.random;
        let events = (0..events).map(|_| {
            let time = day_us + random.below(86_400_000_000) as i64;
            event(random, time)
        });
        let sent = SentBatch {
            number: 0,
            events: events.collect(),
            keyed: false,
            received_us: START_US,
            first_seq: 0,
            fate: Fate::Unknown,
        };
        let ack = self.store.write(sent.build(), WriteConcern::ACKNOWLEDGED);
        ack.expect("is taken");
        self.store.seal().expect("seals");
    }

    fn floor_us(&self, level: &str) -> i64 {
        self.store.snapshot().manifest().rollups[0].floor_us(level)
    }

    /// Returns the number of events that a level counts.
    fn counted(&self, level: &str) -> u64 {
        let snapshot = self.store.snapshot();
        let tiles = snapshot.manifest().tiles.iter();
        let sections = tiles.flat_map(|t| &t.files).flat_map(|f| &f.sections);
        let of_level = sections.filter(|s| s.level == level);
        of_level.map(|s| s.events).sum()
    }

    fn rebuild(&self, from_us: i64) -> Vec<storage::Rebuilt> {
        let name = Name::new("days").expect("a name");
        let rebuilt = self.store.rebuild(&name, (from_us, i64::MAX));
        rebuilt.expect("rebuilds")
    }

    fn check(&self) {
        let snapshot = self.store.snapshot();
        let meta = &snapshot.manifest().rollups[0];
        let found = verify(&snapshot, meta, Sample::ALL).expect("verifies");
        assert_eq!(found.differences(), 0, "{found:?}");
    }
}

/// The clock leaps to 2031 for six seconds and back; in between, one event without a time of its
/// own arrives.
#[test]
fn a_few_wrong_stamps_raise_no_floor() {
    let mut days = Days::new(1);
    for day in 0..5 {
        days.write(START_US + day * DAY_US, 20);
    }
    days.clock.jump(5 * DAY_US);
    days.store.retain_levels().expect("retains");
    let floor_us = days.floor_us("minute");
    assert_eq!(floor_us, START_US + 3 * DAY_US);
    days.clock.jump(WRONG_US - START_US);
    days.write(WRONG_US, 1);
    assert_eq!(days.store.retain_levels().expect("retains"), 0);
    assert_eq!(days.floor_us("minute"), floor_us);
    days.clock.jump(START_US - WRONG_US);
    days.write(START_US + 5 * DAY_US, 20);
    days.store.retain_levels().expect("retains");
    assert_eq!(days.floor_us("minute"), START_US + 4 * DAY_US);
    assert_eq!(days.counted("minute"), 20 + 20 + 1);
    days.check();
}

/// A rebuild lowers a floor whatever has raised it: the level then counts every event whose raw
/// event is there, late ones too, and new events.
#[test]
fn a_rebuild_lowers_a_floor_over_complete_raw_events() {
    let mut days = Days::new(2);
    for day in 0..5 {
        days.write(START_US + day * DAY_US, 10);
    }
    for day in 0..3 {
        days.write(WRONG_US + day * DAY_US, 50);
    }
    days.clock.jump(WRONG_US - START_US + 3 * DAY_US);
    days.store.retain_levels().expect("retains");
    assert!(days.floor_us("minute") > WRONG_US);
    // These events are late for minutes and hours.
    days.write(START_US + 4 * DAY_US, 7);
    assert_eq!(days.counted("day"), 5 * 10 + 3 * 50 + 7);
    let name = Name::new(STREAM).expect("a name");
    let day = START_US + DAY_US;
    let dropped = days
        .store
        .drop_partitions(&name, (day, day + DAY_US), false);
    assert_eq!(dropped.expect("drops").events, 10);
    let report = days.rebuild(START_US);
    let left: Vec<&str> = report
        .iter()
        .filter(|r| r.left.is_some())
        .map(|r| r.level.as_str())
        .collect();
    assert!(left.contains(&"minute"), "{report:?}");
    // The dropped day and all days before it stay below the floor of the minutes.
    assert_eq!(days.floor_us("minute"), START_US + 2 * DAY_US);
    assert_eq!(days.counted("minute"), 3 * 10 + 3 * 50 + 7);
    days.check();
    days.write(START_US + 4 * DAY_US, 5);
    assert_eq!(days.counted("minute"), 3 * 10 + 3 * 50 + 7 + 5);
    days.check();
}

#[test]
fn where_all_raw_events_are_there_the_floor_goes() {
    for seed in 3..9 {
        let mut days = Days::new(seed);
        for _ in 0..8 {
            let day = days.random.below(12) as i64;
            let events = 1 + days.random.below(9);
            days.write(START_US + day * DAY_US, events);
        }
        for day in 0..2 {
            days.write(WRONG_US + day * DAY_US, 80);
        }
        days.clock.jump(WRONG_US - START_US + 3 * DAY_US);
        days.store.retain_levels().expect("retains");
        let all = days.counted("day");
        assert!(days.counted("minute") < all);
        assert!(days.rebuild(i64::MIN).iter().all(|r| r.left.is_none()));
        assert_eq!(days.floor_us("minute"), i64::MIN);
        assert_eq!(days.counted("minute"), all);
        days.check();
    }
}
