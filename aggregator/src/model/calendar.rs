//! The calendar that the model believes: `calendar/oracle.rs`, which shares nothing with ours, and a
//! memory of what it has said.

use std::collections::BTreeMap;
use std::sync::{LazyLock, RwLock};

use crate::calendar::oracle::Oracle;
use crate::calendar::{Bucket, Level, WeekStart};

/// Zones with and without summer time, with odd offsets, changes at midnight and half an hour wide,
/// and a day that was left out. The two releases of the zone data agree about them.
pub(super) const ZONES: [&str; 12] = [
    "UTC",
    "Europe/Berlin",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "America/St_Johns",
    "America/New_York",
    "America/Sao_Paulo",
    "America/Havana",
    "Asia/Beirut",
    "Pacific/Apia",
    "Pacific/Chatham",
];

static ORACLES: LazyLock<BTreeMap<&str, Oracle>> =
    LazyLock::new(|| ZONES.iter().map(|z| (*z, Oracle::new(z))).collect());

type Asked = (&'static str, bool, Level);

/// Buckets of days and longer that were asked for, by their starts.
static KNOWN: RwLock<BTreeMap<Asked, BTreeMap<i64, i64>>> = RwLock::new(BTreeMap::new());

/// A zone, and where its weeks begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Calendar {
    pub(super) zone: &'static str,
    pub(super) week: WeekStart,
}

impl Calendar {
    pub(super) const UTC: Self = Self {
        zone: "UTC",
        week: WeekStart::Sunday,
    };

    pub(super) fn oracle(self) -> &'static Oracle {
        &ORACLES[self.zone]
    }

    /// The bucket around an instant.
    pub(super) fn bucket(self, level: Level, t_us: i64) -> Bucket {
        if level < Level::Day {
            return self.oracle().bucket(self.week, level, t_us);
        }
        let asked = (self.zone, self.week == WeekStart::Monday, level);
        if let Some(known) = KNOWN.read().expect("no panic").get(&asked)
            && let Some((start_us, end_us)) = known.range(..=t_us).next_back()
            && t_us < *end_us
        {
            return Bucket {
                start_us: *start_us,
                end_us: *end_us,
            };
        }
        let found = self.oracle().bucket(self.week, level, t_us);
        let mut known = KNOWN.write().expect("no panic");
        let known = known.entry(asked).or_default();
        known.insert(found.start_us, found.end_us);
        found
    }

    /// The start of the time partition that keeps the bucket: minutes by day; hours, days and months
    /// by month; weeks, by where they begin, and years by year.
    pub(super) fn place(self, level: Level, bucket_us: i64) -> i64 {
        let by = match level {
            Level::Minute => Level::Day,
            Level::Hour | Level::Day | Level::Month => Level::Month,
            Level::Week | Level::Year => Level::Year,
        };
        self.bucket(by, bucket_us).start_us
    }
}
