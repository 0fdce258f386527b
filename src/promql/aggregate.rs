//! Aggregations over the series of a vector.

use std::collections::BTreeMap;

use promql_parser::parser::AggregateExpr;
use promql_parser::parser::token::{
    T_AVG, T_BOTTOMK, T_COUNT, T_COUNT_VALUES, T_GROUP, T_MAX, T_MIN, T_QUANTILE, T_STDDEV,
    T_STDVAR, T_SUM, T_TOPK,
};

use super::error::{PromqlError, Result};
use super::evaluate::{Evaluator, PromqlValue, VectorSample, unique};
use super::labels::Labels;
use super::window::{ordered, variance};
use super::{function, quantile};

/// Checks that an aggregation can be evaluated.
pub(super) fn check(a: &AggregateExpr) -> Result<()> {
    match a.op.id() {
        T_AVG | T_BOTTOMK | T_COUNT | T_COUNT_VALUES | T_GROUP | T_MAX | T_MIN | T_QUANTILE
        | T_STDDEV | T_STDVAR | T_SUM | T_TOPK => Ok(()),
        _ => Err(PromqlError::execution(format!(
            "the aggregation {} is not supported",
            a.op
        ))),
    }
}

/// Returns the value of an aggregation at an instant.
pub(super) fn value(evaluator: &Evaluator, a: &AggregateExpr, t: i64) -> Result<PromqlValue> {
    let samples = evaluator.vector(&a.expr, t)?;
    evaluator.count(samples.len())?;
    let mut groups: BTreeMap<Labels, Vec<VectorSample>> = BTreeMap::new();
    for sample in samples {
        let group = sample.labels.grouped(a.modifier.as_ref());
        groups.entry(group).or_default().push(sample);
    }
    let op = a.op.id();
    let number = match (&a.param, op) {
        (Some(param), T_TOPK | T_BOTTOMK | T_QUANTILE) => evaluator.scalar(param, t)?,
        _ => 0.0,
    };
    let mut out = Vec::with_capacity(groups.len());
    match op {
        T_TOPK | T_BOTTOMK => {
            for samples in groups.into_values() {
                out.extend(first_k(samples, number, op == T_TOPK));
            }
        }
        T_COUNT_VALUES => {
            let label = match a
                .param
                .as_deref()
                .map(|p| evaluator.value(p, t))
                .transpose()?
            {
                Some(PromqlValue::Text(label)) => function::label_name(&label)?,
                _ => return Err(PromqlError::execution("count_values needs a label")),
            };
            for (labels, samples) in groups {
                let mut counts: BTreeMap<String, f64> = BTreeMap::new();
                for sample in samples {
                    *counts
                        .entry(function::number_text(sample.value))
                        .or_default() += 1.0;
                }
                out.extend(counts.into_iter().map(|(text, value)| VectorSample {
                    labels: labels.with(&label, &text),
                    value,
                }));
            }
        }
        _ => {
            for (labels, samples) in groups {
                let values: Vec<f64> = samples.iter().map(|s| s.value).collect();
                let value = one(op, number, values);
                out.push(VectorSample { labels, value });
            }
        }
    }
    Ok(PromqlValue::Vector(unique(out)?))
}

/// Returns the value of one group, which is not empty.
fn one(op: u16, parameter: f64, values: Vec<f64>) -> f64 {
    let count = values.len() as f64;
    match op {
        T_SUM => values.iter().sum(),
        T_AVG => values.iter().sum::<f64>() / count,
        T_MIN => values.iter().copied().fold(f64::NAN, f64::min),
        T_MAX => values.iter().copied().fold(f64::NAN, f64::max),
        T_COUNT => count,
        T_QUANTILE => quantile::of(parameter, values),
        T_STDDEV => variance(values.into_iter()).sqrt(),
        T_STDVAR => variance(values.into_iter()),
        _ => 1.0,
    }
}

/// Returns the `k` highest or lowest samples, in this order. NaN comes last; equal ones are in the
/// order of their labels.
fn first_k(mut samples: Vec<VectorSample>, k: f64, is_top: bool) -> Vec<VectorSample> {
    samples.sort_by(|a, b| {
        let by_value = match (a.value.is_nan(), b.value.is_nan()) {
            (false, false) if is_top => ordered(&b.value, &a.value),
            (false, false) => ordered(&a.value, &b.value),
            (a, b) => a.cmp(&b),
        };
        by_value.then_with(|| a.labels.cmp(&b.labels))
    });
    // A conversion of a float saturates, and NaN is 0.
    samples.truncate(k as usize);
    samples
}
