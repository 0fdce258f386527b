//! Evaluates a metric query over the series of its range aggregations.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::ast::{
    BinaryOp, LabelGrouping, Metric, RangeAggregation, RangeFunction, VectorAggregation,
};
use super::entry::Labels;
use super::matrix::{Matrix, Series, Steps};
use crate::error::{Error, Result};

/// The value of a metric query.
#[derive(Debug, Clone, PartialEq)]
pub enum MetricValue {
    /// A number.
    Scalar(f64),
    /// Series.
    Matrix(Matrix),
}

/// The labels of the series of a range aggregation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SeriesLabels {
    /// These alone: the series are added up by them.
    Only(Vec<String>),
    /// The labels of the stream and of the stages, with these metadata.
    With(Vec<String>),
}

impl Metric {
    /// Returns the query over the windows `[t - range, t)` in place of `(t - range, t]`: those that
    /// end one nanosecond earlier, since times are whole nanoseconds.
    ///
    /// Buckets of rollups have such ends, so that rollups can answer.
    pub fn half_open(mut self) -> Self {
        self.for_each_range(&mut |range| range.offset_ns = range.offset_ns.saturating_add(1));
        self
    }

    fn for_each_range(&mut self, change: &mut impl FnMut(&mut RangeAggregation)) {
        match self {
            Self::Number(_) | Self::Vector(_) => {}
            Self::Range(range) => change(range),
            Self::Aggregate { of, .. } => of.for_each_range(change),
            Self::Binary { left, right, .. } => {
                left.for_each_range(change);
                right.for_each_range(change);
            }
        }
    }
}

/// Returns the range aggregations of a query in the order of [`Metric::evaluate`], each with the
/// labels of its series.
///
/// An event has more metadata than its series: a series has those that the grouping around it
/// names.
pub fn leaves(metric: &Metric) -> Vec<(&RangeAggregation, SeriesLabels)> {
    let mut found = Vec::new();
    add_leaves(metric, &[], &mut found);
    found
}

fn add_leaves<'a>(
    metric: &'a Metric,
    named: &[String],
    found: &mut Vec<(&'a RangeAggregation, SeriesLabels)>,
) {
    match metric {
        Metric::Number(_) | Metric::Vector(_) => {}
        Metric::Range(range) => found.push((range, SeriesLabels::With(named.to_vec()))),
        Metric::Binary { left, right, .. } => {
            add_leaves(left, named, found);
            add_leaves(right, named, found);
        }
        Metric::Aggregate {
            function,
            grouping,
            of,
            ..
        } => match (summed(metric), &**of) {
            (Some(labels), Metric::Range(range)) => {
                found.push((range, SeriesLabels::Only(labels.to_vec())));
            }
            _ => {
                // These keep the labels of their series.
                let keeps = matches!(
                    function,
                    VectorAggregation::TopK | VectorAggregation::BottomK
                );
                let mut inside = match grouping {
                    Some(grouping) if !grouping.is_without => grouping.labels.clone(),
                    _ => Vec::new(),
                };
                if keeps || grouping.as_ref().is_some_and(|g| g.is_without) {
                    inside.extend_from_slice(named);
                }
                add_leaves(of, &inside, found);
            }
        },
    }
}

/// Returns the labels of a sum whose series add up as the lines of their windows do.
fn summed(metric: &Metric) -> Option<&[String]> {
    let Metric::Aggregate {
        function: VectorAggregation::Sum,
        grouping,
        of,
        ..
    } = metric
    else {
        return None;
    };
    let Metric::Range(range) = &**of else {
        return None;
    };
    use RangeFunction::{Bytes, BytesRate, Count, Rate, Sum};
    let adds_up = matches!(range.function, Count | Rate | Bytes | BytesRate | Sum);
    match grouping {
        _ if !adds_up || range.grouping.is_some() => None,
        None => Some(&[]),
        Some(grouping) if grouping.is_without => None,
        Some(grouping) => Some(&grouping.labels),
    }
}

impl Metric {
    /// Evaluates the query. `ranges` are the series of its [`leaves`], in order.
    ///
    /// # Errors
    /// [`Error::Invalid`] if an operator does not take its sides.
    pub fn evaluate(
        &self,
        steps: Steps,
        ranges: &mut dyn Iterator<Item = Matrix>,
    ) -> Result<MetricValue> {
        Ok(match self {
            Self::Number(number) => MetricValue::Scalar(*number),
            Self::Vector(number) => MetricValue::Matrix(vec![Series {
                labels: Labels::new(),
                points: vec![Some(*number); steps.count],
            }]),
            Self::Range(_) => MetricValue::Matrix(ranges.next().unwrap_or_default()),
            Self::Aggregate {
                function,
                count,
                grouping,
                of,
            } => match of.evaluate(steps, ranges)? {
                MetricValue::Scalar(_) => {
                    let name = function.text();
                    return Err(Error::invalid(format!("{name} takes series, not a number")));
                }
                MetricValue::Matrix(matrix) => {
                    let groups = grouped(matrix, grouping.as_ref());
                    MetricValue::Matrix(match count {
                        Some(count) => extremes(groups, *function, *count, steps),
                        None => aggregated(groups, *function, steps),
                    })
                }
            },
            Self::Binary {
                op,
                is_bool,
                left,
                right,
            } => {
                let (left, right) = (
                    left.evaluate(steps, ranges)?,
                    right.evaluate(steps, ranges)?,
                );
                binary(*op, *is_bool, left, right)?
            }
        })
    }
}

/// Returns the labels that remain.
pub(super) fn kept(labels: &Labels, grouping: Option<&LabelGrouping>) -> Labels {
    let Some(grouping) = grouping else {
        return Labels::new();
    };
    let keeps = |name: &&String| grouping.labels.contains(name) != grouping.is_without;
    let kept = labels.iter().filter(|(name, _)| keeps(name));
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn grouped(matrix: Matrix, grouping: Option<&LabelGrouping>) -> BTreeMap<Labels, Matrix> {
    let mut groups: BTreeMap<Labels, Matrix> = BTreeMap::new();
    for series in matrix {
        groups
            .entry(kept(&series.labels, grouping))
            .or_default()
            .push(series);
    }
    groups
}

fn aggregated(
    groups: BTreeMap<Labels, Matrix>,
    function: VectorAggregation,
    steps: Steps,
) -> Matrix {
    let series = groups.into_iter().map(|(labels, group)| {
        let at_step = |nth: usize| {
            let values = group.iter().filter_map(move |series| series.points[nth]);
            let count = values.clone().count() as f64;
            if count == 0.0 {
                return None;
            }
            Some(match function {
                VectorAggregation::Count => count,
                VectorAggregation::Avg => values.sum::<f64>() / count,
                VectorAggregation::Min => values.fold(f64::NAN, f64::min),
                VectorAggregation::Max => values.fold(f64::NAN, f64::max),
                _ => values.sum(),
            })
        };
        let points = (0..steps.count).map(at_step).collect();
        Series { labels, points }
    });
    series.collect()
}

/// Keeps the greatest or least values of each group at each step.
fn extremes(
    groups: BTreeMap<Labels, Matrix>,
    function: VectorAggregation,
    count: u64,
    steps: Steps,
) -> Matrix {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let mut all = Matrix::new();
    for mut group in groups.into_values() {
        for nth in 0..steps.count {
            let values = group.iter().enumerate();
            let values = values.filter_map(|(at, series)| Some((at, series.points[nth]?)));
            let mut values: Vec<(usize, f64)> = values.collect();
            values.sort_by(|(_, a), (_, b)| {
                let order = a.partial_cmp(b).unwrap_or(Ordering::Equal);
                match function {
                    VectorAggregation::TopK => order.reverse(),
                    _ => order,
                }
            });
            for (at, _) in values.iter().skip(count) {
                group[*at].points[nth] = None;
            }
        }
        all.extend(
            group
                .into_iter()
                .filter(|s| s.points.iter().any(Option::is_some)),
        );
    }
    all.sort_by(|a, b| a.labels.cmp(&b.labels));
    all
}

fn binary(
    op: BinaryOp,
    is_bool: bool,
    left: MetricValue,
    right: MetricValue,
) -> Result<MetricValue> {
    let filters = op.compares() && !is_bool;
    Ok(match (left, right) {
        (MetricValue::Scalar(_), MetricValue::Scalar(_)) if filters => {
            let name = op.text();
            return Err(Error::invalid(format!(
                "{name} between two numbers needs bool: {name} bool"
            )));
        }
        (MetricValue::Scalar(a), MetricValue::Scalar(b)) => MetricValue::Scalar(computed(op, a, b)),
        (MetricValue::Matrix(mut matrix), MetricValue::Scalar(b)) => {
            for point in matrix.iter_mut().flat_map(|series| &mut series.points) {
                *point = point.and_then(|a| chosen(op, filters, a, b, a));
            }
            MetricValue::Matrix(present(matrix))
        }
        (MetricValue::Scalar(a), MetricValue::Matrix(mut matrix)) => {
            for point in matrix.iter_mut().flat_map(|series| &mut series.points) {
                *point = point.and_then(|b| chosen(op, filters, a, b, b));
            }
            MetricValue::Matrix(present(matrix))
        }
        (MetricValue::Matrix(left), MetricValue::Matrix(right)) => {
            let mut others: BTreeMap<Labels, Vec<Option<f64>>> = right
                .into_iter()
                .map(|series| (series.labels, series.points))
                .collect();
            let mut matched = Matrix::new();
            for mut series in left {
                let Some(other) = others.remove(&series.labels) else {
                    continue;
                };
                for (point, b) in series.points.iter_mut().zip(other) {
                    *point = match (*point, b) {
                        (Some(a), Some(b)) => chosen(op, filters, a, b, a),
                        _ => None,
                    };
                }
                matched.push(series);
            }
            MetricValue::Matrix(present(matched))
        }
    })
}

fn present(mut matrix: Matrix) -> Matrix {
    matrix.retain(|series| series.points.iter().any(Option::is_some));
    matrix
}

/// Returns the result at one step; a comparison that filters returns `kept` where it holds.
fn chosen(op: BinaryOp, filters: bool, a: f64, b: f64, kept: f64) -> Option<f64> {
    let value = computed(op, a, b);
    match filters {
        true => (value == 1.0).then_some(kept),
        false => Some(value),
    }
}

fn computed(op: BinaryOp, a: f64, b: f64) -> f64 {
    let truth = |holds: bool| if holds { 1.0 } else { 0.0 };
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Subtract => a - b,
        BinaryOp::Multiply => a * b,
        BinaryOp::Divide => a / b,
        BinaryOp::Modulo => a % b,
        BinaryOp::Power => a.powf(b),
        BinaryOp::Equal => truth(a == b),
        BinaryOp::NotEqual => truth(a != b),
        BinaryOp::Above => truth(a > b),
        BinaryOp::AtLeast => truth(a >= b),
        BinaryOp::Below => truth(a < b),
        BinaryOp::AtMost => truth(a <= b),
    }
}
