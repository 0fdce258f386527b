//! Counters of what came in, by protocol and stream, for metrics and `system.sources`.
//!
//! # Invariant
//! Items received = stored + quarantined + duplicates + those of deliveries that were refused or
//! are under way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use query::{Arrived, SourceInfo};
use storage::{Ack, Clock, Name, SystemClock};

/// Counted pairs of a protocol and a stream; of the streams beyond them each protocol has one sum.
const PAIRS_MAX: usize = 1000;
/// The stream of these sums. No stream can have this name.
const OTHERS: &str = "*";

/// The counters of all protocols.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(Mutex<BTreeMap<(&'static str, String), Arc<ArrivalCounts>>>);

/// The counters of one protocol and stream.
#[derive(Debug, Default)]
pub(crate) struct ArrivalCounts {
    received: AtomicU64,
    stored: AtomicU64,
    quarantined: AtomicU64,
    duplicates: AtomicU64,
    refused: AtomicU64,
    bytes: AtomicU64,
    last_us: AtomicI64,
    error: Mutex<Option<String>>,
}

impl Arrivals {
    /// Returns the counters of a protocol and a stream.
    pub(crate) fn of(&self, protocol: &'static str, stream: &Name) -> Arc<ArrivalCounts> {
        let mut pairs = self.0.lock();
        let is_full = pairs.len() >= PAIRS_MAX;
        let pair = (protocol, stream.to_string());
        if let Some(counts) = pairs.get(&pair) {
            return Arc::clone(counts);
        }
        let pair = match is_full {
            true => (protocol, OTHERS.to_owned()),
            false => pair,
        };
        Arc::clone(pairs.entry(pair).or_default())
    }

    /// Returns the present counts, sorted by protocol and stream.
    pub(crate) fn counts(&self) -> Vec<(&'static str, Arrived)> {
        let pairs = self.0.lock();
        let counts = pairs
            .iter()
            .map(|((protocol, stream), counts)| (*protocol, counts.arrived(stream)));
        counts.collect()
    }

    /// Adds a row for each protocol and stream.
    pub(crate) fn add_to(&self, sources: &mut Vec<SourceInfo>) {
        let pairs = self.0.lock();
        let rows = pairs.iter().map(|((protocol, stream), counts)| SourceInfo {
            producer: format!("{protocol}/{stream}"),
            state: Some("listening"),
            error: counts.error.lock().clone(),
            arrived: Some(counts.arrived(stream)),
            ..SourceInfo::default()
        });
        sources.extend(rows);
    }
}

impl ArrivalCounts {
    /// Counts the items of a delivery that goes to the store, and their bytes as they came.
    pub(super) fn receive(&self, items: u64, bytes: usize) {
        self.received.fetch_add(items, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.last_us
            .fetch_max(SystemClock.now_us(), Ordering::Relaxed);
    }

    /// Counts the outcome of a delivery of so many items.
    pub(super) fn finish(&self, items: u64, outcome: &storage::Result<Vec<Ack>>) {
        let acks = match outcome {
            Ok(acks) => acks,
            Err(error) => return self.refuse(error),
        };
        let new = acks.iter().filter(|ack| !ack.duplicate);
        let (stored, quarantined) = new.fold((0, 0), |(stored, quarantined), ack| {
            (stored + ack.accepted, quarantined + ack.quarantined)
        });
        self.stored.fetch_add(stored, Ordering::Relaxed);
        self.quarantined.fetch_add(quarantined, Ordering::Relaxed);
        // The answer to a duplicate counts the first copy, or nothing where that is long ago.
        if acks.iter().any(|ack| ack.duplicate) {
            let known = items.saturating_sub(stored + quarantined);
            self.duplicates.fetch_add(known, Ordering::Relaxed);
        }
        self.error.lock().take();
    }

    /// Counts a delivery of which nothing is stored.
    pub(super) fn refuse(&self, why: &dyn std::error::Error) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        *self.error.lock() = Some(why.to_string());
    }

    fn arrived(&self, stream: &str) -> Arrived {
        let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let last_us = self.last_us.load(Ordering::Relaxed);
        Arrived {
            stream: stream.to_owned(),
            received: now(&self.received),
            stored: now(&self.stored),
            quarantined: now(&self.quarantined),
            duplicates: now(&self.duplicates),
            refused: now(&self.refused),
            bytes: now(&self.bytes),
            last_us: Some(last_us).filter(|at| *at > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_beyond_the_limit_are_one_sum() {
        let arrivals = Arrivals::default();
        for nth in 0..PAIRS_MAX + 5 {
            let stream = Name::new(&format!("s{nth}")).expect("a name");
            arrivals.of("relp", &stream).receive(1, 10);
        }
        let counts = arrivals.counts();
        assert_eq!(counts.len(), PAIRS_MAX + 1);
        let (_, others) = &counts[0];
        assert_eq!((&*others.stream, others.received), (OTHERS, 5));
        let first = Name::new("s0").expect("a name");
        arrivals.of("relp", &first).receive(1, 10);
        let sum: u64 = arrivals.counts().iter().map(|(_, a)| a.received).sum();
        assert_eq!(sum, PAIRS_MAX as u64 + 6);
    }
}
