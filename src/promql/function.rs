//! Calls of functions.

use promql_parser::label::{METRIC_NAME, MatchOp};
use promql_parser::parser::{Call, Expr};

use super::error::{PromqlError, Result};
use super::evaluate::{Evaluator, PromqlValue, VectorSample, mapped, unique};
use super::labels::Labels;
use super::needs::matchers_of;
use super::series::SeriesKind;
use super::window::{self, ordered};
use super::{date, quantile, relabel};

/// All functions, separated by spaces.
const SUPPORTED: &str = "abs absent absent_over_time acos acosh asin asinh atan atanh avg_over_time ceil \
    changes clamp clamp_max clamp_min cos cosh count_over_time day_of_month day_of_week \
    day_of_year days_in_month deg delta deriv exp floor histogram_quantile hour idelta \
    increase irate label_join label_replace last_over_time ln log10 log2 max_over_time \
    min_over_time minute month pi predict_linear present_over_time quantile_over_time \
    rad rate resets round scalar sgn sin sinh sort sort_desc sqrt stddev_over_time \
    stdvar_over_time sum_over_time tan tanh time timestamp vector year";

/// Checks that a function can be evaluated.
pub(super) fn check(call: &Call) -> Result<()> {
    let name = call.func.name;
    if !SUPPORTED.split(' ').any(|known| known == name) {
        return Err(PromqlError::execution(format!(
            "the function {name} is not supported"
        )));
    }
    if matches!(name, "label_replace" | "label_join") {
        relabel::check(call)?;
    }
    Ok(())
}

/// Returns a label's name, if it is one.
///
/// # Errors
/// If it is none.
pub(crate) fn label_name(name: &str) -> Result<String> {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_valid = name.chars().next().is_some_and(is_first)
        && name.chars().all(|c| is_first(c) || c.is_ascii_digit());
    match is_valid {
        true => Ok(name.to_owned()),
        false => Err(PromqlError::BadData(format!(
            "invalid label name {name:?}: it has letters, digits and _, and no digit at its beginning"
        ))),
    }
}

/// Returns a number as Prometheus writes it.
pub(crate) fn number_text(value: f64) -> String {
    match value {
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        value => value.to_string(),
    }
}

fn argument(call: &Call, at: usize) -> Result<&Expr> {
    let argument = call.args.args.get(at);
    argument.map(|argument| &**argument).ok_or_else(|| {
        PromqlError::execution(format!("{} needs {} arguments", call.func.name, at + 1))
    })
}

/// Returns the value of a call at an instant.
pub(super) fn value(evaluator: &Evaluator, call: &Call, t: i64) -> Result<PromqlValue> {
    let name = call.func.name;
    let scalar = |at: usize| evaluator.scalar(argument(call, at)?, t);
    let vector = |at: usize| evaluator.vector(argument(call, at)?, t);
    let out = match name {
        "time" => return Ok(PromqlValue::Scalar(t as f64 / 1e3)),
        "pi" => return Ok(PromqlValue::Scalar(std::f64::consts::PI)),
        "scalar" => {
            return Ok(PromqlValue::Scalar(match &vector(0)?[..] {
                [one] => one.value,
                _ => f64::NAN,
            }));
        }
        "vector" => one(Labels::default(), scalar(0)?),
        "rate" | "increase" | "irate" => increases(evaluator, call, t)?,
        "absent" => match vector(0)?.is_empty() {
            true => one(absent_labels(argument(call, 0)?), 1.0),
            false => Vec::new(),
        },
        "absent_over_time" => match evaluator.points(argument(call, 0)?, t)?.is_empty() {
            true => one(absent_labels(argument(call, 0)?), 1.0),
            false => Vec::new(),
        },
        "quantile_over_time" => over_time(evaluator, name, argument(call, 1)?, scalar(0)?, t)?,
        "changes" | "resets" | "delta" | "idelta" | "deriv" => {
            over_time(evaluator, name, argument(call, 0)?, f64::NAN, t)?
        }
        "predict_linear" => {
            let seconds = scalar(1)?;
            let points = evaluator.points(argument(call, 0)?, t)?.into_iter();
            let predicted = points.filter_map(|one| {
                let value = window::predicted(&one.points, t, seconds)?;
                let labels = one.labels.nameless();
                Some(VectorSample { labels, value })
            });
            predicted.collect()
        }
        name if name.ends_with("_over_time") => {
            over_time(evaluator, name, argument(call, 0)?, f64::NAN, t)?
        }
        "histogram_quantile" => {
            let (q, buckets) = (scalar(0)?, vector(1)?);
            evaluator.count(buckets.len())?;
            quantile::of_histograms(q, buckets)
        }
        "label_replace" | "label_join" => return relabel::value(evaluator, call, t),
        "sort" | "sort_desc" => {
            let mut samples = vector(0)?;
            // NaN comes last in both orders.
            samples.sort_by(|a, b| match (a.value.is_nan(), b.value.is_nan()) {
                (false, false) if name == "sort" => ordered(&a.value, &b.value),
                (false, false) => ordered(&b.value, &a.value),
                (a, b) => a.cmp(&b),
            });
            return Ok(PromqlValue::Vector(samples));
        }
        "timestamp" => match evaluator.sample_times(argument(call, 0)?, t)? {
            Some(times) => times,
            None => mapped(vector(0)?, |_| t as f64 / 1e3),
        },
        _ => pointwise(evaluator, call, t)?,
    };
    evaluator.count(out.len())?;
    Ok(PromqlValue::Vector(unique(out)?))
}

fn one(labels: Labels, value: f64) -> Vec<VectorSample> {
    vec![VectorSample { labels, value }]
}

/// Returns the labels that the equal matchers of a selector name.
fn absent_labels(expr: &Expr) -> Labels {
    let selector = match expr {
        Expr::Paren(paren) => return absent_labels(&paren.expr),
        Expr::VectorSelector(selector) => selector,
        Expr::MatrixSelector(matrix) => &matrix.vs,
        _ => return Labels::default(),
    };
    let matchers = matchers_of(selector);
    let named = matchers.iter().filter(|matcher| {
        let same = matchers.iter().filter(|other| other.name == matcher.name);
        matcher.name != METRIC_NAME && matches!(matcher.op, MatchOp::Equal) && same.count() == 1
    });
    named
        .map(|matcher| (matcher.name.clone(), matcher.value.clone()))
        .collect()
}

/// Returns `rate`, `increase` or `irate`.
fn increases(evaluator: &Evaluator, call: &Call, t: i64) -> Result<Vec<VectorSample>> {
    let (name, expr) = (call.func.name, argument(call, 0)?);
    let window = evaluator.window(expr, t)?;
    let of_points = |points: &[(i64, f64)]| match name {
        "irate" => window::sampled_last_rate(points),
        _ => window::difference(points, window, true),
    };
    let per = match name {
        "rate" => window.seconds(),
        _ => 1.0,
    };
    let mut out = Vec::new();
    let mut add = |labels: &Labels, value: Option<f64>| {
        out.extend(value.map(|value| VectorSample {
            labels: labels.clone(),
            value: value / per,
        }));
    };
    let Some(series) = evaluator.ranged(expr)? else {
        for one in evaluator.points(expr, t)? {
            add(&one.labels.nameless(), of_points(&one.points));
        }
        return Ok(out);
    };
    for one in series {
        let value = match (one.kind, name) {
            (SeriesKind::Counter { .. }, "irate") => window::last_rate(one, window),
            (SeriesKind::Counter { .. }, _) => window::increase(one, window),
            (SeriesKind::Gauge, _) => {
                evaluator.count(one.within(window.from, window.to).len())?;
                of_points(&one.samples(window.from, window.to))
            }
        };
        evaluator.count(1)?;
        add(&one.bare, value);
    }
    Ok(out)
}

fn over_time(
    evaluator: &Evaluator,
    name: &str,
    expr: &Expr,
    parameter: f64,
    t: i64,
) -> Result<Vec<VectorSample>> {
    let (mut out, window) = (Vec::new(), evaluator.window(expr, t)?);
    for one in evaluator.points(expr, t)? {
        if let Some(value) = window::over_time(name, &one.points, window, parameter) {
            let labels = match name {
                "last_over_time" => one.labels,
                _ => one.labels.nameless(),
            };
            out.push(VectorSample { labels, value });
        }
    }
    Ok(out)
}

/// Returns a function of each value.
fn pointwise(evaluator: &Evaluator, call: &Call, t: i64) -> Result<Vec<VectorSample>> {
    let name = call.func.name;
    let samples = match call.args.args.first() {
        // The functions of dates are about the present without an argument.
        None => one(Labels::default(), t as f64 / 1e3),
        Some(first) => evaluator.vector(first, t)?,
    };
    let parameter = |at: usize, default: f64| match call.args.args.get(at) {
        Some(expr) => evaluator.scalar(expr, t),
        None => Ok(default),
    };
    let (first, second) = (parameter(1, f64::NAN)?, parameter(2, f64::NAN)?);
    let simple: fn(f64) -> f64 = match name {
        "abs" => f64::abs,
        "ceil" => f64::ceil,
        "floor" => f64::floor,
        "exp" => f64::exp,
        "ln" => f64::ln,
        "log2" => f64::log2,
        "log10" => f64::log10,
        "sqrt" => f64::sqrt,
        "acos" => f64::acos,
        "acosh" => f64::acosh,
        "asin" => f64::asin,
        "asinh" => f64::asinh,
        "atan" => f64::atan,
        "atanh" => f64::atanh,
        "cosh" => f64::cosh,
        "sinh" => f64::sinh,
        "tanh" => f64::tanh,
        "sin" => f64::sin,
        "cos" => f64::cos,
        "tan" => f64::tan,
        "deg" => f64::to_degrees,
        "rad" => f64::to_radians,
        "sgn" => |value| {
            if value == 0.0 || value.is_nan() {
                value
            } else {
                value.signum()
            }
        },
        "round" => {
            let to = if call.args.args.len() > 1 {
                1.0 / first
            } else {
                1.0
            };
            return Ok(mapped(samples, |value| (value * to + 0.5).floor() / to));
        }
        "clamp" if first > second => return Ok(Vec::new()),
        "clamp" => {
            return Ok(mapped(samples, |value| {
                at_most(at_least(value, first), second)
            }));
        }
        "clamp_min" => return Ok(mapped(samples, |value| at_least(value, first))),
        "clamp_max" => return Ok(mapped(samples, |value| at_most(value, first))),
        _ => return Ok(mapped(samples, |value| date::part(name, value))),
    };
    Ok(mapped(samples, simple))
}

/// Returns the greater number; NaN if one is NaN.
fn at_least(value: f64, least: f64) -> f64 {
    if value.is_nan() || least.is_nan() {
        f64::NAN
    } else {
        value.max(least)
    }
}

fn at_most(value: f64, most: f64) -> f64 {
    if value.is_nan() || most.is_nan() {
        f64::NAN
    } else {
        value.min(most)
    }
}
