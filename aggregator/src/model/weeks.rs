//! Weeks are kept by the year in which they begin, whose first day may lie in a week of the year before.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use storage::sim::{Random, SimFs};
use storage::{Config, ManualClock, Name, Options, Store, WriteConcern};

use super::STREAM;
use super::events::{Fate, Sent, event};
use crate::calendar::{Calendar, Level, WeekStart};
use crate::roller::Cascade;

#[test]
fn weeks_are_rebuilt_with_the_year_in_which_they_begin() {
    const DAY_US: i64 = 86_400_000_000;
    // Monday, 2 January 2006.
    const MONDAY_US: i64 = 13_150 * DAY_US;
    let table = json!({
        "stream": STREAM, "week": "monday", "levels": ["week"], "measures": { "hits": "count" },
    });
    let config = serde_json::from_value(json!({ "rollups": { "weeks": table } }));
    let cascade = Cascade::new(config.expect("a configuration")).expect("a cascade");
    let options = Options {
        fs: Arc::new(SimFs::new()),
        clock: Arc::new(ManualClock::at(MONDAY_US)),
        roller: Arc::new(cascade),
        config: Config {
            tends: false,
            ..Config::default()
        },
        on_poison: None,
    };
    let store = Store::open(Path::new("/data"), options).expect("opens");
    let sent = Sent {
        number: 0,
        events: vec![event(&mut Random::new(0), MONDAY_US)],
        keyed: false,
        received_us: MONDAY_US,
        first_seq: 0,
        fate: Fate::Unknown,
    };
    let ack = store.write(sent.build(), WriteConcern::ACKNOWLEDGED);
    ack.expect("is taken");
    let calendar = Calendar::new(chrono_tz::Tz::UTC, WeekStart::Monday);
    let year_us = calendar.bucket(Level::Year, MONDAY_US).start_us;
    assert_eq!(calendar.bucket(Level::Week, MONDAY_US).start_us, MONDAY_US);
    assert!(calendar.bucket(Level::Week, year_us).start_us < year_us);
    let name = Name::new("weeks").expect("a name");
    let report = store.rebuild(&name, (MONDAY_US, MONDAY_US + DAY_US));
    let report = report.expect("rebuilds");
    let rebuilt: Vec<_> = report.iter().map(|r| (r.partition_us, r.events)).collect();
    assert_eq!(rebuilt, [(year_us, 1)]);
    assert_eq!(report[0].left, None);
}
