//! The states of single cells: histograms and distinct counts, as a column holds them.

use crate::column::{Buckets, Numeric, Sets, or_zero};
use crate::state::{Distinct, HistogramParts, REGISTERS, decode_registers, estimate};

/// Returns one cell's histogram.
pub(super) fn parts<'a>(
    numeric: &Numeric,
    buckets: &'a Buckets,
    scaled: bool,
    cell: usize,
) -> HistogramParts<'a> {
    let (index, counts) = buckets.entries(cell);
    let (min, max) = numeric
        .range
        .as_ref()
        .map_or((0, 0), |(min, max)| (min[cell], max[cell]));
    HistogramParts {
        layout: buckets.layout,
        scaled,
        n: numeric.n[cell],
        unfit: or_zero(&numeric.unfit, cell),
        sum: numeric.sum[cell],
        min,
        max,
        overflow: or_zero(&buckets.overflow, cell),
        index,
        counts,
    }
}

/// Returns one cell's distinct count.
pub(super) fn count_distinct(sets: &Sets, cell: usize) -> i64 {
    let Some(body) = sets.body(cell) else {
        return sets.coupons(cell).len() as i64;
    };
    let mut registers = [0; REGISTERS];
    decode_registers(body, &mut registers).expect("BUG: bodies are checked when they are read");
    estimate(&registers).round() as i64
}

/// Appends one cell's set as an encoded state.
pub(super) fn encode_distinct(sets: &Sets, coupons: &[u64], cell: usize, out: &mut Vec<u8>) {
    if let Some(body) = sets.body(cell) {
        return Distinct::encode_body(body, out);
    }
    let mut hashes: Vec<u64> = sets
        .coupons(cell)
        .iter()
        .map(|id| coupons[*id as usize])
        .collect();
    hashes.sort_unstable();
    Distinct::encode_coupons(&hashes, out);
}
