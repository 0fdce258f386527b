//! Functions over the samples of a window.

use std::cmp::Ordering;

use super::quantile;
use super::series::{Kind, Series};

/// Returns the increase of a counter over `(from, to]`: the sum of the cells that end there; `None`
/// without one.
pub(super) fn increase(series: &Series, from: i64, to: i64) -> Option<f64> {
    let cells = series.cells(from, to);
    (!cells.is_empty()).then(|| series.values[cells].iter().sum())
}

/// Returns the increase in the last cell of a window divided by the seconds of its bucket. A later
/// bucket without a cell of this series counts as 0; `last` is the newest end in the window.
pub(super) fn last_rate(series: &Series, from: i64, to: i64, ends: &[i64]) -> Option<f64> {
    let cells = series.cells(from, to);
    let cell = cells.clone().next_back()?;
    let next = ends.partition_point(|end| *end <= to);
    let last = next.checked_sub(1).map(|at| ends[at]);
    if last.is_some_and(|last| last > series.ends[cell]) {
        return Some(0.0);
    }
    let length = (series.untils[cell] - series.ends[cell]) as f64 / 1e3;
    Some(series.values[cell] / length)
}

/// Returns whether the cells of a series are what is added to a counter.
pub(super) fn is_counter(series: &Series) -> bool {
    matches!(series.kind, Kind::Counter { .. })
}

/// Returns the increase of samples of any kind: the last less the first, and each fall counts from
/// zero. `None` for fewer than two.
pub(super) fn sampled_increase(points: &[(i64, f64)]) -> Option<f64> {
    let pairs = points.windows(2);
    let mut sum = points.last()?.1 - points.first()?.1;
    for pair in pairs {
        if pair[1].1 < pair[0].1 {
            sum += pair[0].1;
        }
    }
    (points.len() > 1).then_some(sum)
}

/// Returns the rate of the last two samples, per second.
pub(super) fn sampled_last_rate(points: &[(i64, f64)]) -> Option<f64> {
    let [.., (t0, v0), (t1, v1)] = points else {
        return None;
    };
    let rise = if v1 < v0 { *v1 } else { v1 - v0 };
    Some(rise / ((t1 - t0) as f64 / 1e3))
}

/// Returns the result of `name` over the samples of a window; `parameter` is the quantile.
pub(super) fn over_time(name: &str, points: &[(i64, f64)], parameter: f64) -> Option<f64> {
    let values = || points.iter().map(|(_, value)| *value);
    let count = points.len() as f64;
    let pairs = |test: fn(f64, f64) -> bool| {
        let pairs = points.windows(2);
        pairs.filter(|pair| test(pair[0].1, pair[1].1)).count() as f64
    };
    if points.is_empty() {
        return None;
    }
    Some(match name {
        "sum_over_time" => values().sum(),
        "avg_over_time" => values().sum::<f64>() / count,
        "min_over_time" => values().fold(f64::NAN, f64::min),
        "max_over_time" => values().fold(f64::NAN, f64::max),
        "count_over_time" => count,
        "last_over_time" => points.last()?.1,
        "present_over_time" => 1.0,
        "stddev_over_time" => variance(values()).sqrt(),
        "quantile_over_time" => quantile::of(parameter, values().collect()),
        "changes" => pairs(|a, b| a != b && !(a.is_nan() && b.is_nan())),
        "resets" => pairs(|a, b| b < a),
        "delta" if points.len() > 1 => points.last()?.1 - points.first()?.1,
        _ => return None,
    })
}

/// Returns the population variance.
pub(super) fn variance(values: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        count += 1.0;
        let delta = value - mean;
        mean += delta / count;
        squares += delta * (value - mean);
    }
    squares / count
}

/// Orders numbers with NaN first.
pub(super) fn ordered(a: &f64, b: &f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => a.total_cmp(b),
    }
}
