//! Access events, the same for a seed: pages and clients by Zipf's law.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int16Array, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow::record_batch::RecordBatch;
use storage::{Batch, Name, StreamKind};

use crate::draw::{Alias, Random};

pub(crate) const STREAM: &str = "access";
/// 2025-01-01.
pub(crate) const START_US: i64 = 1_735_689_600_000_000;
pub(crate) const MINUTE_US: i64 = 60_000_000;
pub(crate) const DAY_US: i64 = 1_440 * MINUTE_US;
const BATCH: usize = 1_000;
const PATHS: u32 = 50_000;
const HOSTS: u32 = 100_000;
const ZIPF_EXPONENT: f64 = 1.1;
/// Statuses and their weights among a thousand requests.
const STATUSES: [(i16, u64); 6] = [
    (200, 830),
    (304, 85),
    (404, 55),
    (301, 15),
    (500, 11),
    (403, 4),
];
const METHODS: [(&str, u64); 3] = [("GET", 930), ("POST", 50), ("HEAD", 20)];
const FOLDERS: [&str; 8] = [
    "news", "products", "images", "help", "blog", "api/v1", "account", "docs",
];

/// A site and its clients.
pub(crate) struct Traffic {
    paths: Vec<String>,
    path_ranks: Alias,
    hosts: Vec<String>,
    host_ranks: Alias,
    statuses: Alias,
    methods: Alias,
}

impl Traffic {
    pub(crate) fn new() -> Self {
        let path = |n: u32| format!("/{}/page-{n}", FOLDERS[n as usize % FOLDERS.len()]);
        // An odd factor spreads the numbers and makes none twice.
        let address = |n: u32| std::net::Ipv4Addr::from(n.wrapping_mul(0x9e37_79b1)).to_string();
        Self {
            paths: (0..PATHS).map(path).collect(),
            path_ranks: Alias::zipf(PATHS as usize, ZIPF_EXPONENT),
            hosts: (0..HOSTS).map(address).collect(),
            host_ranks: Alias::zipf(HOSTS as usize, ZIPF_EXPONENT),
            statuses: Alias::new(&STATUSES.map(|(_, weight)| weight)),
            methods: Alias::new(&METHODS.map(|(_, weight)| weight)),
        }
    }

    /// Returns events evenly over `[from_us, from_us + span_us)`, in batches as a server has them.
    pub(crate) fn batches(
        &self,
        seed: u64,
        (from_us, span_us): (i64, i64),
        count: usize,
    ) -> Vec<Batch> {
        let mut random = Random::new(seed);
        let time = |nth: usize| from_us + (span_us as i128 * nth as i128 / count as i128) as i64;
        let times: Vec<i64> = (0..count).map(time).collect();
        times
            .chunks(BATCH)
            .map(|times| self.batch(&mut random, times))
            .collect()
    }

    /// Returns the events of the nth day.
    pub(crate) fn day(&self, nth: u64, count: usize) -> Vec<Batch> {
        self.batches(nth, (START_US + nth as i64 * DAY_US, DAY_US), count)
    }

    fn batch(&self, random: &mut Random, times: &[i64]) -> Batch {
        let time = TimestampMicrosecondArray::from(times.to_vec()).with_timezone("UTC");
        let mut text = |texts: &[String], ranks: &Alias| -> ArrayRef {
            let drawn = times.iter().map(|_| Some(&*texts[ranks.draw(random)]));
            Arc::new(drawn.collect::<StringArray>())
        };
        let (host, path) = (
            text(&self.hosts, &self.host_ranks),
            text(&self.paths, &self.path_ranks),
        );
        let method = times
            .iter()
            .map(|_| Some(METHODS[self.methods.draw(random)].0));
        let method: StringArray = method.collect();
        let status = times
            .iter()
            .map(|_| Some(STATUSES[self.statuses.draw(random)].0));
        let status: Int16Array = status.collect();
        let size: Int64Array = times.iter().map(|_| Some(size(random))).collect();
        let columns: [(&str, ArrayRef); 6] = [
            ("host", host),
            ("time", Arc::new(time)),
            ("method", Arc::new(method)),
            ("path", path),
            ("status", Arc::new(status)),
            ("response_size", Arc::new(size)),
        ];
        Batch {
            stream: Name::new(STREAM).expect("a good name"),
            kind: StreamKind::Access,
            received_us: times[0],
            source: Arc::from("bench"),
            events: RecordBatch::try_from_iter(columns).expect("equal lengths"),
            quarantine: Vec::new(),
            identity: None,
        }
    }
}

/// Returns bytes, close to log-normal around 8 kB.
fn size(random: &mut Random) -> i64 {
    let deviate = (0..4).map(|_| random.unit()).sum::<f64>() - 2.0;
    (13.0 + 3.0 * deviate).exp2() as i64
}
