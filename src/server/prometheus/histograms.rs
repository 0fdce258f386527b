//! The cells of a histogram as series: one for each upper bound.

use std::collections::BTreeSet;

use aggregator::state::Histogram;
use promql_parser::label::{MatchOp, Matcher};

use super::cells::{Part, Reader, Result, SERIES_MAX};
use super::families::LE;
use super::rows::{CellsWithBase, FoundCells};
use crate::promql::{GridCells, PromqlError, Series, SeriesKind, number_text};

impl Part<'_> {
    /// Adds the series of the bounds of buckets that hold values, for each key.
    pub(super) fn histograms(
        &self,
        reader: &Reader<'_>,
        cells: FoundCells<Histogram>,
        base: FoundCells<Histogram>,
        series: &mut Vec<Series>,
    ) -> Result<()> {
        let mut all = CellsWithBase::<Histogram>::new();
        for (key, mut sums) in base {
            all.entry(key).or_default().0 = sums.pop().map(|(_, sum)| sum);
        }
        for (key, cells) in cells {
            all.entry(key).or_default().1 = cells;
        }
        let states = all.values().flat_map(|(base, cells)| {
            let cells = cells.iter().map(|(_, state)| state);
            base.iter().chain(cells)
        });
        let bounds = bounds(states, &self.need.matchers);
        if series.len() + bounds.len().saturating_mul(all.len()) > SERIES_MAX {
            return Err(PromqlError::execution(format!(
                "a histogram has more than {SERIES_MAX} series: {} keys with {} bounds each; take sum by (le) around rate or increase, or a shorter range",
                all.len(),
                bounds.len()
            )));
        }
        for (key, (base, cells)) in all {
            reader.hold(bounds.len().saturating_mul(cells.len() + 1))?;
            let curves = cells.iter();
            let curves = curves.map(|(end, state)| Ok((self.bucket(*end)?, curve(state))));
            let curves = curves.collect::<Result<Vec<_>>>()?;
            let base = base.map(|state| curve(&state));
            for bound in &bounds {
                let base = base.as_ref().map(|curve| up_to(curve, *bound));
                let cells = curves.iter();
                let cells: GridCells = cells
                    .map(|(bucket, curve)| (*bucket, up_to(curve, *bound)))
                    .collect();
                let labels = self.labels(&key, Some((LE, number_text(*bound))));
                series.push(self.series(labels, SeriesKind::Counter { base }, cells));
            }
        }
        Ok(())
    }
}

/// Returns the upper bounds of the buckets that hold values and of the buckets before them, and
/// those that a matcher names.
fn bounds<'a>(states: impl Iterator<Item = &'a Histogram>, matchers: &[Matcher]) -> Vec<f64> {
    let mut whole = BTreeSet::new();
    for state in states {
        for bucket in state.buckets() {
            whole.extend(bucket.below);
            whole.insert(bucket.highest);
        }
    }
    let mut bounds: Vec<f64> = whole.into_iter().map(|bound| bound as f64).collect();
    let of_le = || matchers.iter().filter(|matcher| matcher.name == LE);
    for matcher in of_le() {
        if let (MatchOp::Equal, Ok(bound)) = (&matcher.op, matcher.value.parse::<f64>()) {
            bounds.push(bound);
        }
    }
    bounds.push(f64::INFINITY);
    bounds.retain(|bound| !bound.is_nan());
    bounds.sort_unstable_by(f64::total_cmp);
    bounds.dedup();
    let passes = |bound: &f64| {
        let text = number_text(*bound);
        of_le().all(
            |matcher| match (&matcher.op, matcher.value.parse::<f64>()) {
                (MatchOp::Equal, Ok(value)) => value == *bound,
                _ => matcher.is_match(&text),
            },
        )
    };
    bounds.retain(passes);
    bounds
}

/// Returns the running sums of a histogram: upper bound, values up to it. Values below zero are in
/// no bucket of the state, and lie below all bounds.
fn curve(state: &Histogram) -> Vec<(f64, f64)> {
    let count: u64 = state.buckets().map(|bucket| bucket.count).sum();
    let negative = state.count().saturating_sub(count + state.overflow());
    let mut sum = negative;
    let mut curve = vec![(0.0, negative as f64)];
    for bucket in state.buckets() {
        sum += bucket.count;
        curve.push((bucket.highest as f64, sum as f64));
    }
    curve.push((f64::INFINITY, (sum + state.overflow()) as f64));
    curve
}

fn up_to(curve: &[(f64, f64)], bound: f64) -> f64 {
    let next = curve.partition_point(|(highest, _)| *highest <= bound);
    next.checked_sub(1).map_or(0.0, |at| curve[at].1)
}

#[cfg(test)]
mod tests {
    use aggregator::state::Layout;

    use super::*;

    fn state(values: &[i128]) -> Histogram {
        let mut state = Histogram::new(Layout::DEFAULT, false);
        for value in values {
            state.record(*value);
        }
        state
    }

    #[test]
    fn bounds_enclose_every_bucket_with_values_and_infinity_counts_all() {
        let state = state(&[0, 7, 7, 300, 1 << 41, -5]);
        let bounds = bounds([&state].into_iter(), &[]);
        assert_eq!(bounds, [0.0, 6.0, 7.0, 299.0, 301.0, f64::INFINITY]);
        let curve = curve(&state);
        let counts: Vec<f64> = bounds.iter().map(|bound| up_to(&curve, *bound)).collect();
        assert_eq!(counts, [2.0, 2.0, 4.0, 4.0, 5.0, 6.0]);
    }

    #[test]
    fn a_matcher_names_a_bound_and_others_choose_among_them() {
        let state = state(&[7]);
        let of = |op, value: &str| bounds([&state].into_iter(), &[Matcher::new(op, LE, value)]);
        assert_eq!(of(MatchOp::Equal, "100"), [100.0]);
        assert_eq!(of(MatchOp::Equal, "7.0"), [7.0]);
        assert_eq!(of(MatchOp::Equal, "+Inf"), [f64::INFINITY]);
        assert_eq!(of(MatchOp::NotEqual, "+Inf"), [6.0, 7.0]);
        assert_eq!(of(MatchOp::Equal, "none"), [0.0; 0]);
    }
}
