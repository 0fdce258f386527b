//! The calendar of the model: `calendar/oracle.rs`, which shares no code with the crate's calendar,
//! and a cache of its buckets.

use std::collections::BTreeMap;
use std::sync::{LazyLock, RwLock};

use crate::calendar::oracle::ZoneOracle;
use crate::calendar::{Bucket, Level, WeekStart};

/// Zones with and without summer time, with odd offsets, with changes at midnight and of half an
/// hour, and one that skipped a day. The two releases of the zone data agree about them.
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

static ORACLES: LazyLock<BTreeMap<&str, ZoneOracle>> =
    LazyLock::new(|| ZONES.iter().map(|z| (*z, ZoneOracle::new(z))).collect());

/// Zone, whether weeks begin on Monday, level.
type CacheKey = (&'static str, bool, Level);

/// Buckets of days and longer that were computed before: their ends by their starts.
static CACHE: RwLock<BTreeMap<CacheKey, BTreeMap<i64, i64>>> = RwLock::new(BTreeMap::new());

/// A zone and the first day of its weeks.
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

    pub(super) fn oracle(self) -> &'static ZoneOracle {
        &ORACLES[self.zone]
    }

    /// Returns the bucket around an instant.
    pub(super) fn bucket(self, level: Level, t_us: i64) -> Bucket {
        if level < Level::Day {
            return self.oracle().bucket(self.week, level, t_us);
        }
        let key = (self.zone, self.week == WeekStart::Monday, level);
        if let Some(buckets) = CACHE.read().expect("no panic").get(&key)
            && let Some((start_us, end_us)) = buckets.range(..=t_us).next_back()
            && t_us < *end_us
        {
            return Bucket {
                start_us: *start_us,
                end_us: *end_us,
            };
        }
        let bucket = self.oracle().bucket(self.week, level, t_us);
        let mut cache = CACHE.write().expect("no panic");
        let buckets = cache.entry(key).or_default();
        buckets.insert(bucket.start_us, bucket.end_us);
        bucket
    }

    /// Returns the start of the time partition that holds the bucket: minutes by day; hours, days
    /// and months by month; weeks by the year in which they begin, and years by year.
    pub(super) fn partition(self, level: Level, bucket_us: i64) -> i64 {
        let by = match level {
            Level::Minute => Level::Day,
            Level::Hour | Level::Day | Level::Month => Level::Month,
            Level::Week | Level::Year => Level::Year,
        };
        self.bucket(by, bucket_us).start_us
    }
}
