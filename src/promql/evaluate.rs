//! The evaluation of a query, one step after the other.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use promql_parser::parser::Expr;

use super::error::{PromqlError, Result};
use super::labels::Labels;
use super::needs::{Need, key, shifted, subquery_steps};
use super::query::Query;
use super::series::{SelectorRead, Series, SeriesKind};
use super::window::RangeWindow;
use super::{aggregate, binary, function};

/// Most samples that one evaluation looks at.
pub(crate) const SAMPLES_MAX: u64 = 20_000_000;

/// Instants from `start` to `end`, both included, `step` apart. Milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Steps {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) step: i64,
}

impl Steps {
    /// Returns the number of instants.
    pub(crate) fn count(self) -> u64 {
        if self.end < self.start {
            return 0;
        }
        self.end.abs_diff(self.start) / self.step.max(1).unsigned_abs() + 1
    }

    /// Returns the instants.
    pub(crate) fn iter(self) -> impl Iterator<Item = i64> {
        let step = self.step.max(1);
        (0..self.count()).map(move |at| self.start.saturating_add(step.saturating_mul(at as i64)))
    }
}

/// A value of a series at one step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct VectorSample {
    pub(crate) labels: Labels,
    pub(crate) value: f64,
}

/// The answer of one step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PromqlValue {
    Scalar(f64),
    Text(String),
    Vector(Vec<VectorSample>),
    Matrix(Vec<Points>),
}

/// Samples of one series, `(milliseconds, value)`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Points {
    pub(crate) labels: Labels,
    pub(crate) points: Vec<(i64, f64)>,
}

/// Returns a duration in milliseconds.
pub(super) fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}

/// Most samples of an answer.
const ANSWER_MAX: usize = 2_000_000;
/// Samples between two looks at the clock.
const LOOK_SAMPLES: u64 = 4_096;

/// Evaluates a query at each of `steps`; `reads` are the series of its needs, in their order. The
/// evaluation ends at `until` at the latest.
///
/// # Errors
/// If the query cannot be evaluated, takes too long, or looks at too many samples.
pub(crate) fn evaluate(
    query: &Query,
    steps: Steps,
    needs: &[Need],
    reads: Vec<SelectorRead>,
    until: Option<Instant>,
) -> Result<Vec<(i64, PromqlValue)>> {
    let reads = needs.iter().map(|need| need.selector).zip(reads).collect();
    let evaluator = Evaluator {
        ends: (steps.start, steps.end),
        reads,
        samples: Cell::new(0),
        until,
    };
    let (mut answers, mut size) = (Vec::new(), 0);
    for t in steps.iter() {
        evaluator.look_at_the_clock()?;
        let value = evaluator.root(&query.expr, t)?;
        size += match &value {
            PromqlValue::Vector(samples) => samples.len(),
            PromqlValue::Matrix(series) => series.iter().map(|one| one.points.len()).sum(),
            PromqlValue::Scalar(_) | PromqlValue::Text(_) => 1,
        };
        if size > ANSWER_MAX {
            return Err(PromqlError::execution(format!(
                "the answer has more than {ANSWER_MAX} samples; take a greater step, a shorter range or fewer series"
            )));
        }
        answers.push((t, value));
    }
    Ok(answers)
}

/// The state of an evaluation.
pub(super) struct Evaluator {
    ends: (i64, i64),
    reads: HashMap<usize, SelectorRead>,
    samples: Cell<u64>,
    until: Option<Instant>,
}

impl Evaluator {
    /// Counts samples that are looked at.
    pub(super) fn count(&self, samples: usize) -> Result<()> {
        let before = self.samples.get();
        let sum = before + samples as u64;
        self.samples.set(sum);
        if sum > SAMPLES_MAX {
            return Err(PromqlError::execution(format!(
                "the query looks at more than {SAMPLES_MAX} samples; take a greater step, a shorter range or fewer series"
            )));
        }
        match sum / LOOK_SAMPLES > before / LOOK_SAMPLES {
            true => self.look_at_the_clock(),
            false => Ok(()),
        }
    }

    fn look_at_the_clock(&self) -> Result<()> {
        match self.until.is_some_and(|until| Instant::now() >= until) {
            true => Err(PromqlError::Timeout),
            false => Ok(()),
        }
    }

    fn root(&self, expr: &Expr, t: i64) -> Result<PromqlValue> {
        match expr {
            Expr::Paren(paren) => self.root(&paren.expr, t),
            Expr::MatrixSelector(_) | Expr::Subquery(_) => {
                Ok(PromqlValue::Matrix(self.points(expr, t)?))
            }
            expr => self.value(expr, t),
        }
    }

    /// Returns the value of an expression at an instant.
    pub(super) fn value(&self, expr: &Expr, t: i64) -> Result<PromqlValue> {
        self.count(1)?;
        match expr {
            Expr::NumberLiteral(number) => Ok(PromqlValue::Scalar(number.val)),
            Expr::StringLiteral(text) => Ok(PromqlValue::Text(text.val.clone())),
            Expr::Paren(paren) => self.value(&paren.expr, t),
            Expr::Unary(unary) => Ok(match self.value(&unary.expr, t)? {
                PromqlValue::Vector(samples) => {
                    PromqlValue::Vector(unique(mapped(samples, |value| -value))?)
                }
                PromqlValue::Scalar(value) => PromqlValue::Scalar(-value),
                other => other,
            }),
            Expr::VectorSelector(selector) => {
                let t = shifted(t, selector.at.as_ref(), selector.offset.as_ref(), self.ends);
                let read = self.read(key(selector))?;
                self.count(read.series.len())?;
                let samples = read.series.iter().filter_map(|series| {
                    let (_, value) = series.at(t)?;
                    let labels = series.labels.clone();
                    Some(VectorSample { labels, value })
                });
                Ok(PromqlValue::Vector(samples.collect()))
            }
            Expr::Aggregate(a) => aggregate::value(self, a, t),
            Expr::Binary(b) => binary::value(self, b, t),
            Expr::Call(call) => function::value(self, call, t),
            Expr::MatrixSelector(_) | Expr::Subquery(_) | Expr::Extension(_) => Err(
                PromqlError::execution("a range of samples stands where one value is needed"),
            ),
        }
    }

    /// Returns the vector of an expression at an instant.
    pub(super) fn vector(&self, expr: &Expr, t: i64) -> Result<Vec<VectorSample>> {
        match self.value(expr, t)? {
            PromqlValue::Vector(samples) => Ok(samples),
            _ => Err(PromqlError::execution("a vector is needed here")),
        }
    }

    /// Returns the number of an expression at an instant.
    pub(super) fn scalar(&self, expr: &Expr, t: i64) -> Result<f64> {
        match self.value(expr, t)? {
            PromqlValue::Scalar(value) => Ok(value),
            _ => Err(PromqlError::execution("a scalar is needed here")),
        }
    }

    fn read(&self, selector: usize) -> Result<&SelectorRead> {
        let read = self.reads.get(&selector);
        read.ok_or_else(|| PromqlError::execution("BUG: a selector was not read"))
    }

    /// Returns the series of a range selector; `None` of a subquery.
    pub(super) fn ranged(&self, expr: &Expr) -> Result<Option<&[Series]>> {
        match expr {
            Expr::Paren(paren) => self.ranged(&paren.expr),
            Expr::MatrixSelector(matrix) => Ok(Some(&self.read(key(&matrix.vs))?.series)),
            _ => Ok(None),
        }
    }

    /// Returns the window of a range at an instant.
    pub(super) fn window(&self, expr: &Expr, t: i64) -> Result<RangeWindow> {
        let (at, offset, range) = match expr {
            Expr::Paren(paren) => return self.window(&paren.expr, t),
            Expr::MatrixSelector(m) => (m.vs.at.as_ref(), m.vs.offset.as_ref(), m.range),
            Expr::Subquery(s) => (s.at.as_ref(), s.offset.as_ref(), s.range),
            _ => return Err(PromqlError::execution("a range of samples is needed here")),
        };
        let to = shifted(t, at, offset, self.ends);
        let from = to.saturating_sub(ms(range));
        Ok(RangeWindow { from, to })
    }

    /// Returns the samples of a range at an instant; series without a sample are left out.
    pub(super) fn points(&self, expr: &Expr, t: i64) -> Result<Vec<Points>> {
        let RangeWindow { from, to } = self.window(expr, t)?;
        let Some(series) = self.ranged(expr)? else {
            return self.subquery(expr, t);
        };
        let mut all = Vec::new();
        for one in series {
            self.count(match one.kind {
                SeriesKind::Gauge => one.within(from, to).len() + 1,
                SeriesKind::Counter { .. } => one.buckets(from, to) + 1,
            })?;
            let points = one.samples(from, to);
            if !points.is_empty() {
                let labels = one.labels.clone();
                all.push(Points { labels, points });
            }
        }
        Ok(all)
    }

    fn subquery(&self, expr: &Expr, t: i64) -> Result<Vec<Points>> {
        let subquery = match expr {
            Expr::Paren(paren) => return self.subquery(&paren.expr, t),
            Expr::Subquery(subquery) => subquery,
            _ => return Err(PromqlError::execution("a range of samples is needed here")),
        };
        let one = Steps {
            start: t,
            end: t,
            step: 1,
        };
        let steps = subquery_steps(subquery, one, self.ends)?;
        let mut all: BTreeMap<Labels, Vec<(i64, f64)>> = BTreeMap::new();
        for t in steps.iter() {
            let samples = match self.value(&subquery.expr, t)? {
                PromqlValue::Vector(samples) => samples,
                PromqlValue::Scalar(value) => vec![VectorSample {
                    labels: Labels::default(),
                    value,
                }],
                _ => Vec::new(),
            };
            self.count(samples.len())?;
            for sample in samples {
                let points = all.entry(sample.labels).or_default();
                points.push((t, sample.value));
            }
        }
        let all = all.into_iter();
        Ok(all
            .map(|(labels, points)| Points { labels, points })
            .collect())
    }

    /// Returns the time of the sample of each series of a plain selector.
    pub(super) fn sample_times(&self, expr: &Expr, t: i64) -> Result<Option<Vec<VectorSample>>> {
        match expr {
            Expr::Paren(paren) => self.sample_times(&paren.expr, t),
            Expr::VectorSelector(selector) => {
                let t = shifted(t, selector.at.as_ref(), selector.offset.as_ref(), self.ends);
                let series = self.read(key(selector))?.series.iter();
                let times = series.filter_map(|series| {
                    let (at, _) = series.at(t)?;
                    let (labels, value) = (series.bare.clone(), at as f64 / 1e3);
                    Some(VectorSample { labels, value })
                });
                Ok(Some(times.collect()))
            }
            _ => Ok(None),
        }
    }
}

/// Returns samples with other values and without names.
pub(super) fn mapped(samples: Vec<VectorSample>, change: impl Fn(f64) -> f64) -> Vec<VectorSample> {
    let samples = samples.into_iter();
    let change = |sample: VectorSample| VectorSample {
        labels: sample.labels.nameless(),
        value: change(sample.value),
    };
    samples.map(change).collect()
}

/// Returns the samples, unless two of them have the same labels.
pub(super) fn unique(samples: Vec<VectorSample>) -> Result<Vec<VectorSample>> {
    let mut seen = std::collections::HashSet::with_capacity(samples.len());
    match samples.iter().find(|sample| !seen.insert(&sample.labels)) {
        None => Ok(samples),
        Some(_) => Err(PromqlError::execution(
            "vector cannot contain metrics with the same labelset: name one metric",
        )),
    }
}
