//! Binary operations: arithmetic, comparisons and sets, and the matching of series.

use std::collections::{HashMap, HashSet};

use promql_parser::label::METRIC_NAME;
use promql_parser::parser::token::{
    T_ADD, T_ATAN2, T_DIV, T_EQLC, T_GTE, T_GTR, T_LAND, T_LOR, T_LSS, T_LTE, T_LUNLESS, T_MOD,
    T_MUL, T_NEQ, T_POW, T_SUB, TokenId,
};
use promql_parser::parser::{BinModifier, BinaryExpr, LabelModifier, VectorMatchCardinality};

use super::error::{PromqlError, Result};
use super::evaluate::{Evaluator, PromqlValue, VectorSample, unique};
use super::labels::Labels;

/// Checks that an operation can be evaluated.
pub(super) fn check(b: &BinaryExpr) -> Result<()> {
    if let Some(modifier) = &b.modifier
        && (modifier.fill_values.lhs.is_some() || modifier.fill_values.rhs.is_some())
    {
        return Err(PromqlError::execution("the modifier fill is not supported"));
    }
    match b.op.id() {
        T_ADD | T_ATAN2 | T_DIV | T_EQLC | T_GTE | T_GTR | T_LAND | T_LOR | T_LSS | T_LTE
        | T_LUNLESS | T_MOD | T_MUL | T_NEQ | T_POW | T_SUB => Ok(()),
        _ => Err(PromqlError::execution(format!(
            "the operator {} is not supported",
            b.op
        ))),
    }
}

/// Returns the value of an operation at an instant.
pub(super) fn value(evaluator: &Evaluator, b: &BinaryExpr, t: i64) -> Result<PromqlValue> {
    let (left, right) = (evaluator.value(&b.lhs, t)?, evaluator.value(&b.rhs, t)?);
    let (op, is_bool) = (b.op.id(), b.return_bool());
    let is_comparison = b.op.is_comparison_operator();
    // A comparison without `bool` keeps the samples that pass it, with their names.
    let with_scalar = |samples: Vec<VectorSample>, apply: &dyn Fn(f64) -> f64| {
        let samples = samples.into_iter().filter_map(|sample| {
            let result = apply(sample.value);
            if is_comparison && !is_bool {
                return (result != 0.0).then_some(sample);
            }
            let labels = sample.labels.nameless();
            Some(VectorSample {
                labels,
                value: result,
            })
        });
        unique(samples.collect()).map(PromqlValue::Vector)
    };
    match (left, right) {
        (PromqlValue::Scalar(left), PromqlValue::Scalar(right)) => {
            Ok(PromqlValue::Scalar(apply(op, left, right)))
        }
        (PromqlValue::Vector(left), PromqlValue::Scalar(right)) => {
            evaluator.count(left.len())?;
            with_scalar(left, &|left| apply(op, left, right))
        }
        (PromqlValue::Scalar(left), PromqlValue::Vector(right)) => {
            evaluator.count(right.len())?;
            with_scalar(right, &|right| apply(op, left, right))
        }
        (PromqlValue::Vector(left), PromqlValue::Vector(right)) => {
            evaluator.count(left.len() + right.len())?;
            let modifier = b.modifier.as_ref();
            match op {
                T_LAND | T_LOR | T_LUNLESS => {
                    Ok(PromqlValue::Vector(sets(op, modifier, left, right)))
                }
                _ => matched(op, modifier, left, right).map(PromqlValue::Vector),
            }
        }
        _ => Err(PromqlError::execution(
            "an operator stands between values that are neither numbers nor vectors",
        )),
    }
}

/// Returns the result of an operator on numbers; a comparison is 1 or 0.
fn apply(op: TokenId, left: f64, right: f64) -> f64 {
    let truth = |is: bool| if is { 1.0 } else { 0.0 };
    match op {
        T_ADD => left + right,
        T_SUB => left - right,
        T_MUL => left * right,
        T_DIV => left / right,
        T_MOD => left % right,
        T_POW => left.powf(right),
        T_ATAN2 => left.atan2(right),
        T_EQLC => truth(left == right),
        T_NEQ => truth(left != right),
        T_GTR => truth(left > right),
        T_LSS => truth(left < right),
        T_GTE => truth(left >= right),
        _ => truth(left <= right),
    }
}

/// Returns the labels by which series match.
fn signature(labels: &Labels, modifier: Option<&BinModifier>) -> Labels {
    match modifier.and_then(|modifier| modifier.matching.as_ref()) {
        None => labels.nameless(),
        Some(LabelModifier::Include(on)) => {
            labels.filtered(|name| on.labels.iter().any(|label| label == name))
        }
        Some(LabelModifier::Exclude(ignored)) => labels.filtered(|name| {
            name != METRIC_NAME && !ignored.labels.iter().any(|label| label == name)
        }),
    }
}

fn sets(
    op: TokenId,
    modifier: Option<&BinModifier>,
    left: Vec<VectorSample>,
    right: Vec<VectorSample>,
) -> Vec<VectorSample> {
    let signatures = |samples: &[VectorSample]| -> HashSet<Labels> {
        let samples = samples.iter();
        samples.map(|s| signature(&s.labels, modifier)).collect()
    };
    let mut left = left;
    if op == T_LOR {
        let known = signatures(&left);
        let more = right.into_iter();
        left.extend(more.filter(|s| !known.contains(&signature(&s.labels, modifier))));
        return left;
    }
    let known = signatures(&right);
    left.retain(|s| known.contains(&signature(&s.labels, modifier)) == (op == T_LAND));
    left
}

/// Returns the result of an operator on the series that match.
fn matched(
    op: TokenId,
    modifier: Option<&BinModifier>,
    left: Vec<VectorSample>,
    right: Vec<VectorSample>,
) -> Result<Vec<VectorSample>> {
    let card = modifier.map_or(&VectorMatchCardinality::OneToOne, |m| &m.card);
    let is_swapped = matches!(card, VectorMatchCardinality::OneToMany(_));
    let (many, one) = if is_swapped {
        (right, left)
    } else {
        (left, right)
    };
    if many.is_empty() || one.is_empty() {
        return Ok(Vec::new());
    }
    let mut ones: HashMap<Labels, VectorSample> = HashMap::with_capacity(one.len());
    for sample in one {
        let group = signature(&sample.labels, modifier);
        if ones.insert(group, sample).is_some() {
            let side = if is_swapped { "left" } else { "right" };
            return Err(PromqlError::execution(format!(
                "found duplicate series for the match group on the {side} side of the operation; many-to-many matching not allowed: matching labels must be unique on one side"
            )));
        }
    }
    let is_comparison = matches!(op, T_EQLC | T_NEQ | T_GTR | T_LSS | T_GTE | T_LTE);
    let is_filter = is_comparison && !modifier.is_some_and(|m| m.return_bool);
    let mut out = Vec::new();
    let mut used = HashSet::new();
    for sample in many {
        let group = signature(&sample.labels, modifier);
        let Some(other) = ones.get(&group) else {
            continue;
        };
        let (l, r) = match is_swapped {
            true => (other.value, sample.value),
            false => (sample.value, other.value),
        };
        let value = apply(op, l, r);
        if is_filter && value == 0.0 {
            continue;
        }
        let is_one = matches!(card, VectorMatchCardinality::OneToOne);
        if is_one && !used.insert(group) {
            return Err(PromqlError::execution(
                "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)",
            ));
        }
        let labels = result_labels(&sample.labels, &other.labels, modifier, is_filter);
        let value = if is_filter { l } else { value };
        out.push(VectorSample { labels, value });
    }
    unique(out).map_err(|_| {
        PromqlError::execution(
            "multiple matches for labels: grouping labels must ensure unique matches",
        )
    })
}

/// Returns the labels of a result: those of the many side, with the included ones of the other.
fn result_labels(
    many: &Labels,
    one: &Labels,
    modifier: Option<&BinModifier>,
    is_filter: bool,
) -> Labels {
    let mut labels = if is_filter {
        many.clone()
    } else {
        many.nameless()
    };
    let Some(modifier) = modifier else {
        return labels;
    };
    match &modifier.card {
        VectorMatchCardinality::OneToOne => match &modifier.matching {
            None => labels,
            Some(LabelModifier::Include(on)) => {
                labels.filtered(|name| on.labels.iter().any(|label| label == name))
            }
            Some(LabelModifier::Exclude(ignored)) => {
                labels.filtered(|name| !ignored.labels.iter().any(|label| label == name))
            }
        },
        card => {
            for name in card.labels().map_or(&[][..], |included| &included.labels) {
                labels = labels.with(name, one.get(name));
            }
            labels
        }
    }
}
