//! The time partition of a week is the year in which it begins, but the first day of a year may
//! lie in a week of the year before. The model found both mistakes that these tests repeat.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use storage::sim::{Random, SimFs};
use storage::{Config, ManualClock, Name, Options, Store, WriteConcern};

use super::STREAM;
use super::events::{Fate, SentBatch, event};
use crate::calendar::{Calendar, Level, WeekStart};
use crate::rollup_hook::Cascade;
use crate::verify::{Sample, verify};

const DAY_US: i64 = 86_400_000_000;
/// 1 January 2006, a Sunday.
const YEAR_US: i64 = 13_149 * DAY_US;
const MONDAY_US: i64 = YEAR_US + DAY_US;

/// Returns a store with events of these times, which keeps weeks from Monday for a day.
fn store(times: &[i64]) -> Store {
    let table = json!({
        "stream": STREAM, "week": "monday", "levels": ["day", "week"],
        "retention": { "week": "1d" }, "measures": { "hits": "count" },
    });
    let config = serde_json::from_value(json!({ "rollups": { "weeks": table } }));
    let cascade = Cascade::new(config.expect("a configuration")).expect("a cascade");
    let options = Options {
        depot: None,
        journal: None,
        shard: None,
        fs: Arc::new(SimFs::new()),
        clock: Arc::new(ManualClock::at(YEAR_US + 365 * DAY_US)),
        rollup_hook: Arc::new(cascade),
        config: Config {
            tends: false,
            ..Config::default()
        },
        on_poison: None,
    };
    let store = Store::open(Path::new("/data"), options).expect("opens");
    let mut random = Random::new(0);
    let sent = SentBatch {
        number: 0,
        events: times.iter().map(|t| event(&mut random, *t)).collect(),
        keyed: false,
        received_us: YEAR_US,
        first_seq: 0,
        fate: Fate::Unknown,
    };
    let ack = store.write(sent.build(), WriteConcern::ACKNOWLEDGED);
    ack.expect("is taken");
    store.seal().expect("seals");
    store
}

#[test]
fn the_year_begins_in_a_week_of_the_year_before() {
    let calendar = Calendar::new(chrono_tz::Tz::UTC, WeekStart::Monday);
    assert_eq!(calendar.bucket(Level::Year, MONDAY_US).start_us, YEAR_US);
    let week_us = |t_us| calendar.bucket(Level::Week, t_us).start_us;
    assert_eq!(week_us(YEAR_US), MONDAY_US - 7 * DAY_US);
    assert_eq!(week_us(MONDAY_US), MONDAY_US);
}

#[test]
fn weeks_are_rebuilt_with_the_year_in_which_they_begin() {
    let store = store(&[MONDAY_US]);
    let name = Name::new("weeks").expect("a name");
    let report = store.rebuild(&name, (MONDAY_US, MONDAY_US + DAY_US));
    let report = report.expect("rebuilds");
    let week = report.iter().find(|r| r.level == "week");
    let week = week.expect("the week is rebuilt");
    assert_eq!((week.partition_us, week.events), (YEAR_US, 1));
    assert_eq!(week.left, None);
}

#[test]
fn verify_does_not_miss_a_week_that_began_below_the_floor() {
    let store = store(&[YEAR_US, YEAR_US + 200 * DAY_US, YEAR_US + 200 * DAY_US]);
    assert_eq!(store.retain_levels().expect("retains"), 1);
    let snapshot = store.snapshot();
    let meta = &snapshot.manifest().rollups[0];
    assert_eq!(meta.floor_us("week"), YEAR_US);
    let found = verify(&snapshot, meta, Sample::ALL).expect("verifies");
    assert_eq!(found.differences(), 0, "{found:?}");
}
