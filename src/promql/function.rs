//! Calls of functions.

use promql_parser::label::{METRIC_NAME, MatchOp};
use promql_parser::parser::{Call, Expr};

use super::error::{PromqlError, Result};
use super::evaluate::{Evaluator, Sample, Value, mapped, unique};
use super::labels::Labels;
use super::needs::matchers_of;
use super::window::{self, ordered};
use super::{date, quantile, relabel};

const SUPPORTED: [&str; 52] = [
    "abs",
    "absent",
    "absent_over_time",
    "avg_over_time",
    "ceil",
    "changes",
    "clamp",
    "clamp_max",
    "clamp_min",
    "count_over_time",
    "day_of_month",
    "day_of_week",
    "day_of_year",
    "delta",
    "exp",
    "floor",
    "histogram_quantile",
    "hour",
    "increase",
    "irate",
    "label_join",
    "label_replace",
    "last_over_time",
    "ln",
    "log10",
    "log2",
    "max_over_time",
    "min_over_time",
    "minute",
    "month",
    "pi",
    "present_over_time",
    "quantile_over_time",
    "rate",
    "resets",
    "round",
    "scalar",
    "sgn",
    "sort",
    "sort_desc",
    "sqrt",
    "stddev_over_time",
    "sum_over_time",
    "time",
    "timestamp",
    "vector",
    "year",
    "cos",
    "sin",
    "tan",
    "deg",
    "rad",
];

/// Checks that a function can be evaluated.
pub(super) fn check(call: &Call) -> Result<()> {
    let name = call.func.name;
    if !SUPPORTED.contains(&name) {
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
pub(super) fn label_name(name: &str) -> Result<String> {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_valid = name.chars().next().is_some_and(is_first)
        && name.chars().all(|c| is_first(c) || c.is_ascii_digit());
    match is_valid {
        true => Ok(name.to_owned()),
        false => Err(PromqlError::execution(format!(
            "invalid label name {name:?}"
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
pub(super) fn value(evaluator: &Evaluator, call: &Call, t: i64) -> Result<Value> {
    let name = call.func.name;
    let scalar = |at: usize| evaluator.scalar(argument(call, at)?, t);
    let vector = |at: usize| evaluator.vector(argument(call, at)?, t);
    let out = match name {
        "time" => return Ok(Value::Scalar(t as f64 / 1e3)),
        "pi" => return Ok(Value::Scalar(std::f64::consts::PI)),
        "scalar" => {
            return Ok(Value::Scalar(match &vector(0)?[..] {
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
        "changes" | "resets" | "delta" => {
            over_time(evaluator, name, argument(call, 0)?, f64::NAN, t)?
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
            samples.sort_by(|a, b| ordered(&a.value, &b.value));
            if name == "sort_desc" {
                samples.reverse();
            }
            return Ok(Value::Vector(samples));
        }
        "timestamp" => match evaluator.sample_times(argument(call, 0)?, t)? {
            Some(times) => times,
            None => mapped(vector(0)?, |_| t as f64 / 1e3),
        },
        _ => pointwise(evaluator, call, t)?,
    };
    evaluator.count(out.len())?;
    Ok(Value::Vector(unique(out)?))
}

fn one(labels: Labels, value: f64) -> Vec<Sample> {
    vec![Sample { labels, value }]
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
fn increases(evaluator: &Evaluator, call: &Call, t: i64) -> Result<Vec<Sample>> {
    let (name, expr) = (call.func.name, argument(call, 0)?);
    let mut out = Vec::new();
    if let Some((series, from, to)) = evaluator.window(expr, t)?
        && series.iter().all(window::is_counter)
    {
        let seconds = (to - from) as f64 / 1e3;
        for one in series {
            evaluator.count(one.cells(from, to).len() + 1)?;
            let value = match name {
                "irate" => window::last_rate(one, from, to, evaluator.ends_of(expr)?),
                _ => window::increase(one, from, to),
            };
            if let Some(value) = value {
                let value = if name == "rate" {
                    value / seconds
                } else {
                    value
                };
                let labels = one.labels.nameless();
                out.push(Sample { labels, value });
            }
        }
        return Ok(out);
    }
    let seconds = evaluator.range_ms(expr) as f64 / 1e3;
    for one in evaluator.points(expr, t)? {
        let value = match name {
            "irate" => window::sampled_last_rate(&one.points),
            _ => window::sampled_increase(&one.points),
        };
        if let Some(value) = value {
            let value = if name == "rate" {
                value / seconds
            } else {
                value
            };
            let labels = one.labels.nameless();
            out.push(Sample { labels, value });
        }
    }
    Ok(out)
}

fn over_time(
    evaluator: &Evaluator,
    name: &str,
    expr: &Expr,
    parameter: f64,
    t: i64,
) -> Result<Vec<Sample>> {
    let mut out = Vec::new();
    for one in evaluator.points(expr, t)? {
        if let Some(value) = window::over_time(name, &one.points, parameter) {
            let labels = match name {
                "last_over_time" => one.labels,
                _ => one.labels.nameless(),
            };
            out.push(Sample { labels, value });
        }
    }
    Ok(out)
}

/// Returns a function of each value.
fn pointwise(evaluator: &Evaluator, call: &Call, t: i64) -> Result<Vec<Sample>> {
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
