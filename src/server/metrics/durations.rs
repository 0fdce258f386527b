//! A histogram of durations, with classic buckets and those of a native histogram.

use std::collections::BTreeMap;
use std::time::Duration;

/// Upper ends of the classic buckets, seconds.
const SECONDS: [f64; 12] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0, 60.0,
];
/// The resolution of native buckets: each ends at 2^(1/2^SCHEMA) times the end of the one before
/// it, 9 % beyond it.
pub(super) const SCHEMA: i32 = 3;
/// Native buckets of which the last ends at 2^0 = 1 s has number 0. Those from a microsecond to a
/// day have numbers in this range; other durations count in the nearest.
const INDEXES: std::ops::RangeInclusive<i32> = -160..=136;

/// Durations, by buckets.
#[derive(Debug, Clone, Default)]
pub(super) struct Durations {
    /// The count of each classic bucket alone; a duration beyond the last is in none.
    classic: [u64; SECONDS.len()],
    native: BTreeMap<i32, u64>,
    zeros: u64,
    count: u64,
    sum_s: f64,
}

impl Durations {
    pub(super) fn add(&mut self, took: Duration) {
        let took_s = took.as_secs_f64();
        if let Some(bucket) = SECONDS.iter().position(|end| took_s <= *end) {
            self.classic[bucket] += 1;
        }
        match took.is_zero() {
            true => self.zeros += 1,
            false => *self.native.entry(index(took_s)).or_default() += 1,
        }
        self.count += 1;
        self.sum_s += took_s;
    }

    /// Returns the end of each classic bucket, in seconds, and the durations up to it.
    pub(super) fn below(&self) -> impl Iterator<Item = (f64, u64)> {
        let counts = self.classic.iter().scan(0, |below, count| {
            *below += count;
            Some(*below)
        });
        SECONDS.into_iter().zip(counts)
    }

    /// Returns the number of each native bucket that is not empty, in order, and its count.
    pub(super) fn native(&self) -> impl Iterator<Item = (i32, u64)> {
        self.native.iter().map(|(index, count)| (*index, *count))
    }

    pub(super) fn zeros(&self) -> u64 {
        self.zeros
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn sum_s(&self) -> f64 {
        self.sum_s
    }
}

/// Returns the native bucket of a positive duration: that with the number `i` holds those above
/// `2^((i-1)/2^SCHEMA)` seconds, up to `2^(i/2^SCHEMA)`.
fn index(took_s: f64) -> i32 {
    let index = (took_s.log2() * f64::from(1 << SCHEMA)).ceil() as i32;
    index.clamp(*INDEXES.start(), *INDEXES.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_buckets_hold_durations_up_to_their_ends() {
        for us in (1..5_000_000)
            .step_by(997)
            .chain([1_000_000, 500_000, 2_000_000])
        {
            let took_s = Duration::from_micros(us).as_secs_f64();
            let index = index(took_s);
            let end = |index: i32| 2_f64.powf(f64::from(index) / 8.0);
            let slack = 1.0 + 1e-12;
            assert!(took_s <= end(index) * slack, "{us} µs: {index}");
            assert!(took_s * slack > end(index - 1), "{us} µs: {index}");
        }
        assert_eq!(index(1.0), 0);
        assert_eq!(index(0.5), -8);
        assert_eq!(index(1e-12), *INDEXES.start());
        assert_eq!(index(1e12), *INDEXES.end());
    }
}
