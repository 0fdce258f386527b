//! Retention over a year: late events, wrong clocks, restarts.

use std::path::Path;

use super::*;
use crate::concern::WriteConcern;
use crate::env::{Clock, ManualClock};
use crate::model::Batch;
use crate::retention::Why;
use crate::sim::{Image, Random, SimFs};
use crate::store::{Config, Options, Store, StreamConfig};
use crate::testing::batch;

const HOUR_US: i64 = 3_600_000_000;
const DAY_US: i64 = 24 * HOUR_US;
const AGE_US: i64 = 30 * DAY_US;
const BYTES: u64 = 40_000;
const START_US: i64 = 20_000 * DAY_US;

fn name(name: &str) -> Name {
    Name::new(name).expect("a name")
}

/// A store with one stream limited by age and one by bytes; its clock may be wrong.
struct Year {
    fs: SimFs,
    clock: Arc<ManualClock>,
    store: Option<Store>,
    trust: Trust,
    /// Error of the clock.
    wrong_us: i64,
    dropped: usize,
    /// The limits are set by commands, and not by the configuration.
    by_command: bool,
}

impl Year {
    fn new(by_command: bool) -> Self {
        let mut year = Self {
            fs: SimFs::new(),
            clock: Arc::new(ManualClock::at(START_US)),
            store: None,
            trust: Trust::default(),
            wrong_us: 0,
            dropped: 0,
            by_command,
        };
        year.restart();
        if by_command {
            let set = |stream, limits| year.store().set_retention(&name(stream), |_| limits);
            set("aged", limits(Some(AGE_US), None)).expect("sets");
            // Each change keeps what the one before it has set.
            set("capped", limits(Some(1), Some(1))).expect("sets");
            let change = |now: Retention| Retention {
                bytes: Some(BYTES),
                age_us: now.age_us.filter(|age| *age != 1),
            };
            let store = year.store();
            let changed = store.set_retention(&name("capped"), change);
            assert_eq!(changed.expect("sets"), limits(None, Some(BYTES)));
        }
        year
    }

    fn restart(&mut self) {
        if let Some(store) = self.store.take() {
            store.close().expect("closes");
        }
        let stream = |age_us, bytes| StreamConfig {
            retention: match self.by_command {
                true => Retention::default(),
                false => limits(age_us, bytes),
            },
            ..StreamConfig::default()
        };
        let streams = [
            (name("aged"), stream(Some(AGE_US), None)),
            (name("capped"), stream(None, Some(BYTES))),
        ];
        let options = Options {
            fs: Arc::new(self.fs.clone()),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            config: Config {
                lag_us: i64::MAX,
                tends: false,
                streams: BTreeMap::from(streams),
                ..Config::default()
            },
            ..Options::default()
        };
        self.store = Some(Store::open(Path::new("/data"), options).expect("opens"));
        self.trust = Trust::default();
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    fn true_us(&self) -> i64 {
        self.clock.now_us() - self.wrong_us
    }

    fn set_wrong(&mut self, wrong_us: i64) {
        self.clock.jump(wrong_us - self.wrong_us);
        self.wrong_us = wrong_us;
    }

    /// Writes events with these times to both streams and seals them.
    fn write(&self, times: &[i64]) {
        for stream in ["aged", "capped"] {
            let events = Batch {
                stream: name(stream),
                ..batch(times, &[], None)
            };
            let ack = self.store().write(events, WriteConcern::ACKNOWLEDGED);
            ack.expect("taken");
        }
        self.store().seal().expect("seals");
    }

    /// Runs retention as maintenance does, and checks that it drops only what it should.
    fn look(&mut self) -> Vec<Leaving> {
        let shared = Arc::clone(&self.store().shared);
        let gone = retain_in_background(&shared, &mut self.trust).expect("tends");
        for partition in gone.iter().filter(|l| l.why == Why::Age) {
            let end_us = partition.partition_us + DAY_US;
            assert!(end_us <= self.true_us() - AGE_US, "{partition:?} is young");
        }
        self.dropped += gone.len();
        let manifest = Arc::clone(self.store().snapshot().manifest());
        let capped = name("capped");
        let bytes = |at: Option<i64>| -> u64 {
            let parts = manifest.parts_of(&capped);
            let parts = parts.filter(|p| at.is_none_or(|at| p.partition_us == at));
            parts.map(|p| p.file.len).sum()
        };
        let newest = manifest.parts_of(&capped).map(|p| p.partition_us).max();
        assert!(bytes(None) <= BYTES.max(bytes(newest)), "{}", bytes(None));
        gone
    }
}

fn limits(age_us: Option<i64>, bytes: Option<u64>) -> Retention {
    Retention { age_us, bytes }
}

fn of_age(gone: &[Leaving]) -> usize {
    gone.iter().filter(|l| l.why == Why::Age).count()
}

#[test]
fn a_year_of_late_events_wrong_clocks_and_restarts() {
    for by_command in [false, true] {
        live_a_year(Year::new(by_command));
    }
}

fn live_a_year(mut year: Year) {
    let mut random = Random::new(1);
    for day in 0..365 {
        for _ in 0..4 {
            year.clock.advance(6 * HOUR_US);
            year.look();
        }
        let now_us = year.true_us();
        let mut times: Vec<i64> = (0..24).map(|hour| now_us - hour * HOUR_US).collect();
        // Some events are late, by up to a year.
        if random.below(3) == 0 {
            times.push(now_us - random.below(365 * 24) as i64 * HOUR_US);
        }
        year.write(&times);
        year.look();
        match random.below(40) {
            0 | 1 => year.restart(),
            // The clock is wrong by years for three hours, long enough to be trusted, and events
            // with its timestamps arrive.
            2 => {
                let years = 1 + random.below(8) as i64;
                let sign = if random.below(2) == 0 { 1 } else { -1 };
                year.set_wrong(sign * years * 365 * DAY_US);
                assert_eq!(of_age(&year.look()), 0, "day {day}: set, and trusted");
                for _ in 0..3 {
                    year.clock.advance(HOUR_US);
                    year.write(&[year.clock.now_us()]);
                    year.look();
                }
                year.set_wrong(0);
                assert_eq!(of_age(&year.look()), 0, "day {day}: set back, and trusted");
            }
            _ => {}
        }
    }
    let snapshot = year.store().snapshot();
    let (aged, capped) = (name("aged"), name("capped"));
    let partitions = |stream| -> BTreeSet<i64> {
        let parts = snapshot.manifest().parts_of(stream);
        let starts = parts.map(|p| p.partition_us);
        starts.filter(|at| *at <= year.true_us()).collect()
    };
    let (aged, capped) = (partitions(&aged), partitions(&capped));
    let oldest = aged.first().expect("some are left");
    assert!(
        *oldest >= year.true_us() - AGE_US - 4 * DAY_US,
        "too much was kept"
    );
    assert!((30..36).contains(&aged.len()), "{} days", aged.len());
    assert!((5..40).contains(&capped.len()), "{} days", capped.len());
    assert!(year.dropped > 600, "{} were dropped", year.dropped);
}

#[test]
fn a_clock_is_trusted_after_an_hour_and_no_more_once_it_is_set() {
    let mut trust = Trust::default();
    assert!(!trust.observe(0, 0));
    assert!(!trust.observe(HOUR_US - 1, HOUR_US - 1));
    assert!(trust.observe(HOUR_US, HOUR_US));
    // The clock is corrected by a minute, then by more than that.
    assert!(trust.observe(HOUR_US + JUMP_US, HOUR_US));
    for jump in [JUMP_US + 1, -JUMP_US - 1, 100 * 365 * DAY_US, i64::MIN / 2] {
        let mut trust = Trust::default();
        trust.observe(0, 0);
        assert!(trust.observe(HOUR_US, HOUR_US));
        assert!(!trust.observe(HOUR_US + jump, HOUR_US), "{jump}");
        let later = |us: i64| (HOUR_US + jump + us, HOUR_US + us);
        let (now, elapsed) = later(HOUR_US - 1);
        assert!(!trust.observe(now, elapsed), "{jump}");
        let (now, elapsed) = later(HOUR_US);
        assert!(trust.observe(now, elapsed), "{jump}");
    }
}

#[test]
fn by_hand_the_clock_is_taken_at_its_word_and_a_dry_run_drops_nothing() {
    let year = Year::new(false);
    year.write(&[START_US - 60 * DAY_US, START_US, START_US + 1]);
    let aged = name("aged");
    let would = year.store().retain(Some(&aged), true).expect("says");
    assert_eq!(would.len(), 1);
    assert_eq!((would[0].events, would[0].why), (1, Why::Age));
    assert_eq!(year.store().retain(None, true).expect("says"), would);
    assert_eq!(year.store().retain(None, false).expect("drops"), would);
    assert_eq!(year.store().retain(None, false).expect("drops"), []);
    let snapshot = year.store().snapshot();
    let dropped = &snapshot.streams()["aged"].dropped;
    assert_eq!((dropped.len(), dropped[0].events), (1, 1));
    assert!(year.store().retain(Some(&name("nowhere")), true).is_err());
}

#[test]
fn a_retention_that_a_command_has_set_is_there_after_a_crash_and_the_configured_one_stays() {
    let mut year = Year::new(true);
    let aged = name("aged");
    // Power fails behind the command; nothing else was written.
    year.fs = year.fs.crash(Image::Nothing);
    year.store = None;
    year.restart();
    year.write(&[START_US - 60 * DAY_US, START_US, START_US + 1]);
    let gone = year.store().retain(Some(&aged), false).expect("drops");
    assert_eq!(of_age(&gone), 1);
    // No limit is the same as none, and a stream needs not be there.
    for stream in ["aged", "capped", "nowhere"] {
        let set = year
            .store()
            .set_retention(&name(stream), |_| limits(None, None));
        assert_eq!(set.expect("sets"), Retention::default());
    }
    assert!(year.store().snapshot().manifest().retention.is_empty());

    let year = Year::new(false);
    let refused = year.store().set_retention(&aged, |_| limits(None, None));
    let refused = refused.expect_err("it is configured").to_string();
    assert!(refused.contains("[stream.aged]"), "{refused}");
}
