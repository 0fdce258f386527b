//! Computes the expected columns of a cell from its events alone: exact integers over sorted
//! values, states from their written formulas.

use std::collections::BTreeSet;

use xxhash_rust::xxh3::xxh3_64;

use super::rollups::{Measure, StateKind};
use crate::state::Distinct;
use crate::testing::AccessEvent;

/// A value of a column.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ColumnValue {
    Null,
    Int(i64),
    Float(f64),
    Bytes(Vec<u8>),
}

impl ColumnValue {
    fn int(value: Option<i128>) -> Self {
        value.map_or(Self::Null, |v| {
            Self::Int(v.try_into().expect("values are small enough"))
        })
    }

    fn float(value: Option<f64>) -> Self {
        value.map_or(Self::Null, Self::Float)
    }

    fn count(values: usize) -> Self {
        Self::Int(values as i64)
    }
}

/// Appends the columns of a measure.
pub(super) fn columns<'a>(
    measure: &Measure,
    events: impl Iterator<Item = &'a AccessEvent>,
    out: &mut Vec<ColumnValue>,
) {
    let events: Vec<&AccessEvent> = events.filter(|e| measure.passes(e)).collect();
    let values = || {
        let mut values: Vec<i64> = events.iter().filter_map(|e| e.size).collect();
        values.sort_unstable();
        values
    };
    match measure.kind {
        StateKind::Count => out.push(ColumnValue::count(events.len())),
        StateKind::Sum => out.push(ColumnValue::int(sum(&values()))),
        StateKind::Min => out.push(ColumnValue::int(values().first().map(|v| (*v).into()))),
        StateKind::Max => out.push(ColumnValue::int(values().last().map(|v| (*v).into()))),
        StateKind::Mean => out.push(ColumnValue::float(mean(&values()))),
        StateKind::Variance => out.push(ColumnValue::float(variance(&values()))),
        StateKind::Histogram { digits, max } => {
            histogram(&values(), &NaiveLayout { digits, max }, out)
        }
        StateKind::Distinct => distinct(&events, out),
    }
}

fn sum(values: &[i64]) -> Option<i128> {
    (!values.is_empty()).then(|| values.iter().map(|v| i128::from(*v)).sum())
}

fn mean(values: &[i64]) -> Option<f64> {
    Some(sum(values)? as f64 / values.len() as f64)
}

/// Returns half the mean of the squared distances between every two values.
fn variance(values: &[i64]) -> Option<f64> {
    let n = values.len() as i128;
    let mut squares = 0_i128;
    for (nth, a) in values.iter().enumerate() {
        let distances = values[..nth].iter().map(|b| i128::from(a - b));
        squares += distances.map(|d| d * d).sum::<i128>();
    }
    (n > 1).then(|| squares as f64 / (n * (n - 1)) as f64)
}

/// Buckets of values as the head of `state/histogram.rs` describes them.
struct NaiveLayout {
    digits: u8,
    max: i64,
}

impl NaiveLayout {
    /// Returns how many values, from 0 on, have a bucket each: the least power of two that is at
    /// least `2 * 10^digits`.
    fn single(&self) -> i64 {
        (2 * 10_i64.pow(self.digits.into()))
            .cast_unsigned()
            .next_power_of_two()
            .cast_signed()
    }

    /// Returns the number of a value's bucket and the highest value in it.
    fn bucket(&self, value: i64) -> (i64, i64) {
        let (mut width, mut before) = (1, 0);
        while value / width >= self.single() {
            width *= 2;
            before += self.single() / 2;
        }
        (before + value / width, (value / width + 1) * width - 1)
    }
}

fn histogram(values: &[i64], layout: &NaiveLayout, out: &mut Vec<ColumnValue>) {
    let largest = values.last().copied();
    let recorded: Vec<i64> = values.iter().copied().filter(|v| *v >= 0).collect();
    let quantile = |percent: usize| {
        let rank = (recorded.len() * percent).div_ceil(100).max(1);
        let value = *recorded.get(rank - 1)?;
        let above = value > layout.max;
        Some(i128::from(if above {
            largest?
        } else {
            layout.bucket(value).1
        }))
    };
    let overflow = recorded.iter().filter(|v| **v > layout.max).count();
    out.extend([
        ColumnValue::count(values.len()),
        ColumnValue::int(sum(values)),
        ColumnValue::float(mean(values)),
        ColumnValue::int(values.first().map(|v| (*v).into())),
        ColumnValue::int(largest.map(Into::into)),
    ]);
    out.extend([50, 90, 95, 99].map(|p| ColumnValue::int(quantile(p))));
    out.push(ColumnValue::count(overflow));
    let mut bytes = vec![b'H', 1, layout.digits, 0];
    varint(&mut bytes, layout.max as u128);
    varint(&mut bytes, values.len() as u128);
    // No value is unfit: every size is an integer.
    varint(&mut bytes, 0);
    if let (Some(sum), Some(least), Some(most)) = (sum(values), values.first(), largest) {
        for value in [sum, i128::from(*least), i128::from(most)] {
            varint(&mut bytes, ((value << 1) ^ (value >> 127)) as u128);
        }
        varint(&mut bytes, overflow as u128);
        let kept = recorded.iter().filter(|v| **v <= layout.max);
        let buckets: Vec<i64> = kept.map(|v| layout.bucket(*v).0).collect();
        let entries: Vec<&[i64]> = buckets.chunk_by(|a, b| a == b).collect();
        varint(&mut bytes, entries.len() as u128);
        let mut before = -1;
        for entry in entries {
            varint(&mut bytes, (entry[0] - before) as u128);
            varint(&mut bytes, entry.len() as u128);
            before = entry[0];
        }
    }
    out.push(ColumnValue::Bytes(bytes));
}

/// Appends the columns of a distinct count, as the head of `state/distinct.rs` describes it.
fn distinct(events: &[&AccessEvent], out: &mut Vec<ColumnValue>) {
    let hosts = events.iter().filter_map(|e| e.host.as_ref());
    let hashes: BTreeSet<u64> = hosts.map(|h| xxh3_64(h.as_bytes())).collect();
    let mut bytes = vec![b'D', 1];
    if hashes.len() <= 128 {
        bytes.push(0);
        varint(&mut bytes, hashes.len() as u128);
        bytes.extend(hashes.iter().flat_map(|h| h.to_le_bytes()));
        out.extend([ColumnValue::count(hashes.len()), ColumnValue::Bytes(bytes)]);
        return;
    }
    let mut registers = [0_u8; 4096];
    for hash in &hashes {
        let rest = (hash & ((1 << 52) - 1)) << 12 | 1 << 11;
        let register = &mut registers[(hash >> 52) as usize];
        *register = (*register).max(rest.leading_zeros() as u8 + 1);
    }
    // Few registers are raised here, so the form that lists them (body 2) is the shorter one.
    let raised = registers.iter().enumerate().filter(|(_, r)| **r > 0);
    let raised: Vec<(usize, u8)> = raised.map(|(i, r)| (i, *r)).collect();
    bytes.push(2);
    varint(&mut bytes, raised.len() as u128);
    let mut next = 0;
    for (index, rho) in raised {
        varint(&mut bytes, (index + 1 - next) as u128);
        bytes.push(rho);
        next = index + 1;
    }
    // The estimator has its own test; here it reads the expected state.
    let state = Distinct::decode(&bytes).expect("a state");
    let off = state.count().abs_diff(hashes.len() as u64);
    assert!(off * 10 < hashes.len() as u64, "estimated {state:?}");
    out.extend([
        ColumnValue::count(state.count() as usize),
        ColumnValue::Bytes(bytes),
    ]);
}

/// Appends a varint: groups of seven bits, the lowest first.
fn varint(out: &mut Vec<u8>, mut value: u128) {
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}
