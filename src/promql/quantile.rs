//! Quantiles of numbers and of classic histograms.

use std::collections::BTreeMap;

use super::evaluate::VectorSample;
use super::labels::Labels;
use super::window::ordered;

/// Returns the quantile `q` of numbers, interpolated between ranks; infinite outside of 0 to 1.
pub(super) fn of(q: f64, mut values: Vec<f64>) -> f64 {
    if values.is_empty() || q.is_nan() {
        return f64::NAN;
    }
    if q < 0.0 {
        return f64::NEG_INFINITY;
    }
    if q > 1.0 {
        return f64::INFINITY;
    }
    values.sort_unstable_by(ordered);
    let rank = q * (values.len() - 1) as f64;
    let (low, high) = (rank.floor() as usize, rank.ceil() as usize);
    let weight = rank - rank.floor();
    if low == high {
        return values[low];
    }
    values[low] * (1.0 - weight) + values[high] * weight
}

/// Returns the quantile of each histogram among the series: their `le` are the bounds of buckets.
pub(super) fn of_histograms(q: f64, samples: Vec<VectorSample>) -> Vec<VectorSample> {
    let mut histograms: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
    for sample in samples {
        let Ok(bound) = sample.labels.get("le").parse::<f64>() else {
            continue;
        };
        let labels = sample.labels.nameless().with("le", "");
        histograms
            .entry(labels)
            .or_default()
            .push((bound, sample.value));
    }
    let histograms = histograms.into_iter();
    let value = |(labels, buckets)| VectorSample {
        labels,
        value: of_buckets(q, buckets),
    };
    histograms.map(value).collect()
}

/// Returns the quantile of buckets `(upper bound, values up to it)`.
pub(super) fn of_buckets(q: f64, mut buckets: Vec<(f64, f64)>) -> f64 {
    if q.is_nan() {
        return f64::NAN;
    }
    if q < 0.0 {
        return f64::NEG_INFINITY;
    }
    if q > 1.0 {
        return f64::INFINITY;
    }
    buckets.sort_unstable_by(|a, b| ordered(&a.0, &b.0));
    buckets.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0;
        if is_same {
            kept.1 += next.1;
        }
        is_same
    });
    if buckets.len() < 2 || buckets.last().map(|last| last.0) != Some(f64::INFINITY) {
        return f64::NAN;
    }
    let mut highest = 0.0_f64;
    for bucket in &mut buckets {
        highest = highest.max(bucket.1);
        bucket.1 = highest;
    }
    if highest == 0.0 {
        return f64::NAN;
    }
    let rank = q * highest;
    // The lowest value is in the first bucket with values, whatever empty ones there are before it.
    let is_below = |bucket: &(f64, f64)| bucket.1 < rank || bucket.1 == 0.0;
    let at = buckets.partition_point(is_below);
    if at >= buckets.len() - 1 {
        return buckets[buckets.len() - 2].0;
    }
    let (upper, up_to) = buckets[at];
    let (lower, before) = match at {
        0 if upper <= 0.0 => return upper,
        0 => (0.0, 0.0),
        at => buckets[at - 1],
    };
    lower + (upper - lower) * ((rank - before) / (up_to - before))
}
