//! Functions over the samples of a window.

use std::cmp::Ordering;

use super::quantile;
use super::series::Series;

/// The instants of a window `(from, to]`, milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RangeWindow {
    pub(super) from: i64,
    pub(super) to: i64,
}

impl RangeWindow {
    /// Returns the length in seconds.
    pub(super) fn seconds(self) -> f64 {
        self.to.saturating_sub(self.from) as f64 / 1e3
    }
}

/// Returns the increase of a counter: the sum of the cells that end in the window. Where these
/// buckets are longer or shorter than the window, the sum is scaled to its length. `None` without a
/// cell, or if a bucket is not known.
pub(super) fn increase(series: &Series, window: RangeWindow) -> Option<f64> {
    let buckets = series.grid.within(window.from, window.to);
    let sum = series.sum(&buckets)?;
    if !series.grid.is_complete_after(window.from) {
        return None;
    }
    let (span, length) = (series.grid.span(&buckets), window.to - window.from);
    match span == length {
        true => Some(sum),
        false => Some(sum / span as f64 * length as f64),
    }
}

/// Returns the rate of a counter in the last bucket that ends in the window, per second; `None` if
/// no cell ends in the window.
pub(super) fn last_rate(series: &Series, window: RangeWindow) -> Option<f64> {
    let buckets = series.grid.within(window.from, window.to);
    series.sum(&buckets)?;
    if !series.grid.is_complete_after(window.from) {
        return None;
    }
    let last = buckets.end - 1..buckets.end;
    let seconds = series.grid.span(&last) as f64 / 1e3;
    Some(series.sum(&last).unwrap_or(0.0) / seconds)
}

/// Returns the difference of the last and the first sample, extrapolated to the ends of the window
/// as Prometheus does (<https://prometheus.io/docs/prometheus/latest/querying/functions/#rate>): to
/// an end that is nearer than 1.1 average distances of samples, or else by half a distance. Each
/// fall of a counter counts from zero, and a counter is not extrapolated below zero. `None` for
/// fewer than two samples.
pub(super) fn difference(
    points: &[(i64, f64)],
    window: RangeWindow,
    is_counter: bool,
) -> Option<f64> {
    let ([(first_at, first), ..], [.., (last_at, last)]) = (points, points) else {
        return None;
    };
    let mut sum = last - first;
    if is_counter {
        let falls = points.windows(2).filter(|pair| pair[1].1 < pair[0].1);
        sum += falls.map(|pair| pair[0].1).sum::<f64>();
    }
    let sampled = (last_at - first_at) as f64;
    if sampled <= 0.0 {
        return None;
    }
    let distance = sampled / (points.len() - 1) as f64;
    let near = |gap: f64| match gap < distance * 1.1 {
        true => gap,
        false => distance / 2.0,
    };
    let mut before = near((first_at - window.from) as f64);
    let after = near((window.to - last_at) as f64);
    if is_counter && sum > 0.0 && *first >= 0.0 {
        before = before.min(sampled * (first / sum));
    }
    Some(sum * ((sampled + before + after) / sampled))
}

/// Returns the rate of the last two samples of a counter, per second.
pub(super) fn sampled_last_rate(points: &[(i64, f64)]) -> Option<f64> {
    let [.., (t0, v0), (t1, v1)] = points else {
        return None;
    };
    let rise = if v1 < v0 { *v1 } else { v1 - v0 };
    Some(rise / ((t1 - t0) as f64 / 1e3))
}

/// Returns the slope per second and the value at `at` of the line of least squares; `None` for
/// fewer than two samples.
fn line(points: &[(i64, f64)], at: i64) -> Option<(f64, f64)> {
    if points.len() < 2 {
        return None;
    }
    let count = points.len() as f64;
    let x = |t: i64| (t - at) as f64 / 1e3;
    let mean_x = points.iter().map(|(t, _)| x(*t)).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, value)| value).sum::<f64>() / count;
    let (mut xy, mut xx) = (0.0, 0.0);
    for (t, value) in points {
        let dx = x(*t) - mean_x;
        xy += dx * (value - mean_y);
        xx += dx * dx;
    }
    let slope = xy / xx;
    Some((slope, mean_y - slope * mean_x))
}

/// Returns the value that the line of least squares has `seconds` after `t`.
pub(super) fn predicted(points: &[(i64, f64)], t: i64, seconds: f64) -> Option<f64> {
    let (slope, value) = line(points, t)?;
    Some(value + slope * seconds)
}

/// Returns the result of `name` over the samples of a window; `parameter` is the quantile.
pub(super) fn over_time(
    name: &str,
    points: &[(i64, f64)],
    window: RangeWindow,
    parameter: f64,
) -> Option<f64> {
    let values = || points.iter().map(|(_, value)| *value);
    let count = points.len() as f64;
    let pairs = |test: fn(f64, f64) -> bool| {
        let pairs = points.windows(2);
        pairs.filter(|pair| test(pair[0].1, pair[1].1)).count() as f64
    };
    let (first, last) = (points.first()?, points.last()?);
    Some(match name {
        "sum_over_time" => values().sum(),
        "avg_over_time" => values().sum::<f64>() / count,
        "min_over_time" => values().fold(f64::NAN, f64::min),
        "max_over_time" => values().fold(f64::NAN, f64::max),
        "count_over_time" => count,
        "last_over_time" => last.1,
        "present_over_time" => 1.0,
        "stddev_over_time" => variance(values()).sqrt(),
        "stdvar_over_time" => variance(values()),
        "quantile_over_time" => quantile::of(parameter, values().collect()),
        "changes" => pairs(|a, b| a != b && !(a.is_nan() && b.is_nan())),
        "resets" => pairs(|a, b| b < a),
        "delta" => difference(points, window, false)?,
        "idelta" if points.len() > 1 => last.1 - points[points.len() - 2].1,
        "deriv" => line(points, first.0)?.0,
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
