//! The windows of series, from the rows of a plan.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Float64Type, Int64Type, TimestampMicrosecondType};

use super::{AT, FIRST, LABEL, LABELS_JSON, LAST, ROWS, VALUE};
use crate::error::{Error, Result};
use crate::logql::ast::{MatchOp, RangeAggregation, RangeFunction};
use crate::logql::compile::text_at;
use crate::logql::entry::Labels;
use crate::logql::evaluate::kept;
use crate::logql::matrix::{Matrix, Series, Steps, check_size};

/// Most additions of a piece to a window, all together: some seconds.
const ADDITIONS_MAX: u64 = 100_000_000;
/// Most values that windows of quantiles hold, all together: 160 MB.
const VALUES_MAX: usize = 20_000_000;

/// Some events that lie in the same windows.
struct WindowPiece {
    /// The first and the last of the windows.
    windows: (usize, usize),
    rows: i64,
    value: f64,
    at_us: i64,
    values: Option<Vec<f64>>,
}

/// The windows of one series.
#[derive(Debug)]
struct SeriesWindows {
    /// Events: the difference of each window to the one before.
    rows: Vec<i64>,
    /// Values; for bytes, whose sums are whole numbers, the difference too.
    values: Vec<f64>,
    /// Instants of the values of `first_over_time` and `last_over_time`, microseconds since 1970.
    at_us: Vec<i64>,
    /// All values of `quantile_over_time`.
    all: Vec<Vec<f64>>,
}

/// The series of a range aggregation, collected from the rows of its plan.
#[derive(Debug)]
pub struct SeriesPieces<'a> {
    range: &'a RangeAggregation,
    steps: Steps,
    found: BTreeMap<Labels, SeriesWindows>,
    additions: u64,
    values: usize,
}

impl<'a> SeriesPieces<'a> {
    /// Begins without series.
    pub fn new(range: &'a RangeAggregation, steps: Steps) -> Self {
        Self {
            range,
            steps,
            found: BTreeMap::new(),
            additions: 0,
            values: 0,
        }
    }

    /// Adds rows of the plan.
    ///
    /// # Errors
    /// [`Error::Limit`] if there are too many series, or windows overlap too often.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let rows = PieceRows::of(batch)?;
        for row in 0..batch.num_rows() {
            let Some(piece) = rows.piece(row, self.steps) else {
                continue;
            };
            let labels = rows.labels(row)?;
            let labels = match &self.range.grouping {
                None => labels,
                grouping => kept(&labels, grouping.as_ref()),
            };
            if !self.found.contains_key(&labels) {
                check_size(self.found.len() + 1, self.steps)?;
            }
            self.check_work(&piece)?;
            let (function, count) = (kept_as(self.range), self.steps.count);
            let windows = self.found.entry(labels);
            let windows = windows.or_insert_with(|| SeriesWindows::new(function, count));
            windows.add(piece, function);
        }
        Ok(())
    }

    fn check_work(&mut self, piece: &WindowPiece) -> Result<()> {
        let reach = piece.windows.1 - piece.windows.0 + 1;
        if !adds_up(kept_as(self.range)) {
            self.additions += reach as u64;
        }
        self.values += reach * piece.values.as_ref().map_or(0, Vec::len);
        if self.additions <= ADDITIONS_MAX && self.values <= VALUES_MAX {
            return Ok(());
        }
        Err(Error::Limit {
            limit: "the work of a LogQL range",
            message: "the windows overlap too often".into(),
            hint: "make the step longer, or the range in brackets shorter",
        })
    }

    /// Returns the number of series and steps so far.
    pub fn cells(&self) -> usize {
        self.found.len().saturating_mul(self.steps.count)
    }

    /// Returns the series.
    pub fn finish(self) -> Matrix {
        let Self {
            range,
            steps,
            found,
            ..
        } = self;
        if range.function == RangeFunction::Absent {
            return absent(range, steps, found);
        }
        let finished = found.into_iter().map(|(labels, windows)| Series {
            labels,
            points: windows.points(range),
        });
        let present = finished.filter(|series| series.points.iter().any(Option::is_some));
        present.collect()
    }
}

/// Returns a series with 1 at the steps whose window has no event. Its labels are those that the
/// selector compares with `=`.
fn absent(
    range: &RangeAggregation,
    steps: Steps,
    found: BTreeMap<Labels, SeriesWindows>,
) -> Matrix {
    let mut points = vec![Some(1.0); steps.count];
    for windows in found.into_values() {
        let present = windows.points(range);
        for (point, present) in points.iter_mut().zip(present) {
            *point = point.filter(|_| present.is_none());
        }
    }
    if points.iter().all(Option::is_none) {
        return Matrix::new();
    }
    let matchers = range.of.matchers.iter();
    let equal = matchers.filter(|matcher| matcher.op == MatchOp::Equal);
    let labels = equal.map(|matcher| (matcher.label.clone(), matcher.value.clone()));
    vec![Series {
        labels: labels.collect(),
        points,
    }]
}

/// Returns the function whose windows a range aggregation keeps: a rate of lines is their count.
fn kept_as(range: &RangeAggregation) -> RangeFunction {
    match range.function {
        RangeFunction::Rate if range.unwrap.is_none() => RangeFunction::Count,
        function => function,
    }
}

/// Returns whether the values of windows are sums of whole numbers, which differences give exactly.
fn adds_up(function: RangeFunction) -> bool {
    use RangeFunction::{Absent, Bytes, BytesRate, Count};
    matches!(function, Absent | Bytes | BytesRate | Count)
}

impl SeriesWindows {
    fn new(function: RangeFunction, count: usize) -> Self {
        use RangeFunction::{Absent, Count, First, Last, Max, Min, Quantile};
        let only_if = |is_needed: bool| if is_needed { count } else { 0 };
        let has_values = !matches!(function, Absent | Count | Quantile);
        // The least and the greatest of NaN and a number are the number.
        let value = if matches!(function, Min | Max) {
            f64::NAN
        } else {
            0.0
        };
        let at_us = if function == First {
            i64::MAX
        } else {
            i64::MIN
        };
        Self {
            rows: vec![0; count + 1],
            values: vec![value; only_if(has_values) + 1],
            at_us: vec![at_us; only_if(matches!(function, First | Last))],
            all: vec![Vec::new(); only_if(function == Quantile)],
        }
    }

    fn add(&mut self, piece: WindowPiece, function: RangeFunction) {
        use RangeFunction::{Absent, Bytes, BytesRate, Count, First, Last, Max, Min, Quantile};
        let (first, last) = piece.windows;
        // Differences: the cost does not depend on the number of windows.
        self.rows[first] += piece.rows;
        self.rows[last + 1] -= piece.rows;
        match function {
            Absent | Count => {}
            Bytes | BytesRate => {
                self.values[first] += piece.value;
                self.values[last + 1] -= piece.value;
            }
            Quantile => {
                let values = piece.values.unwrap_or_default();
                for window in &mut self.all[first..=last] {
                    window.extend_from_slice(&values);
                }
            }
            Min | Max => {
                for value in &mut self.values[first..=last] {
                    *value = match function {
                        Min => value.min(piece.value),
                        _ => value.max(piece.value),
                    };
                }
            }
            First | Last => {
                for nth in first..=last {
                    let at_us = &mut self.at_us[nth];
                    let is_nearer = match function {
                        First => piece.at_us < *at_us,
                        _ => piece.at_us > *at_us,
                    };
                    if is_nearer {
                        (*at_us, self.values[nth]) = (piece.at_us, piece.value);
                    }
                }
            }
            _ => self.values[first..=last]
                .iter_mut()
                .for_each(|v| *v += piece.value),
        }
    }

    /// Returns the value of each window; `None` where it has no event.
    fn points(mut self, range: &RangeAggregation) -> Vec<Option<f64>> {
        use RangeFunction::{Avg, Bytes, BytesRate, Count, Quantile, Rate};
        let seconds = range.range_ns as f64 / 1e9;
        let (mut rows, mut bytes) = (0, 0.0);
        let mut points = Vec::with_capacity(self.rows.len());
        for nth in 0..self.rows.len() - 1 {
            rows += self.rows[nth];
            let value = match range.function {
                Bytes | BytesRate => {
                    bytes += self.values[nth];
                    bytes
                }
                _ => self.values.get(nth).copied().unwrap_or_default(),
            };
            let count = rows as f64;
            points.push((rows > 0).then(|| match range.function {
                Count => count,
                Rate if range.unwrap.is_none() => count / seconds,
                Rate | BytesRate => value / seconds,
                Avg => value / count,
                Quantile => {
                    let values = &mut self.all[nth];
                    values.sort_by(f64::total_cmp);
                    quantile(values, range.quantile.unwrap_or(0.5))
                }
                _ => value,
            }));
        }
        points
    }
}

/// Returns a quantile of sorted values, interpolated between two of them, as Prometheus does.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    if q < 0.0 {
        return f64::NEG_INFINITY;
    }
    if q > 1.0 {
        return f64::INFINITY;
    }
    let last = sorted.len().saturating_sub(1);
    let rank = q * last as f64;
    let below = (rank.floor() as usize).min(last);
    let above = (below + 1).min(last);
    let weight = rank - rank.floor();
    match sorted.get(below).zip(sorted.get(above)) {
        Some((low, high)) => low * (1.0 - weight) + high * weight,
        None => f64::NAN,
    }
}

/// The columns of a batch.
struct PieceRows<'a> {
    first: &'a Int64Array,
    last: Option<&'a Int64Array>,
    rows: &'a Int64Array,
    batch: &'a RecordBatch,
    labels_json: Option<&'a StringArray>,
    labels: Vec<(&'a str, &'a StringArray)>,
}

impl<'a> PieceRows<'a> {
    fn of(batch: &'a RecordBatch) -> Result<Self> {
        let wrong = || Error::invalid("the rows are no pieces of a LogQL range");
        let numbers = |name: &str| {
            let column = batch.column_by_name(name)?;
            column.as_primitive_opt::<Int64Type>()
        };
        let mut labels = Vec::new();
        let schema = batch.schema_ref();
        for (field, column) in schema.fields().iter().zip(batch.columns()) {
            if let Some(label) = field.name().strip_prefix(LABEL) {
                let texts = column.as_string_opt::<i32>().ok_or_else(wrong)?;
                labels.push((label, texts));
            }
        }
        Ok(Self {
            first: numbers(FIRST).ok_or_else(wrong)?,
            last: numbers(LAST),
            rows: numbers(ROWS).ok_or_else(wrong)?,
            batch,
            labels_json: batch
                .column_by_name(LABELS_JSON)
                .and_then(|c| c.as_string_opt::<i32>()),
            labels,
        })
    }

    fn labels(&self, row: usize) -> Result<Labels> {
        if let Some(json) = self.labels_json {
            let labels = serde_json::from_str(text_at(json, row).unwrap_or("{}"));
            return labels.map_err(|_| Error::invalid("the labels are no JSON"));
        }
        let present = self.labels.iter().filter_map(|(label, texts)| {
            let text = text_at(texts, row).filter(|text| !text.is_empty())?;
            Some(((*label).to_owned(), text.to_owned()))
        });
        Ok(present.collect())
    }

    /// Returns the piece of a row; `None` if it lies in no window.
    fn piece(&self, row: usize, steps: Steps) -> Option<WindowPiece> {
        let first = usize::try_from(self.first.value(row)).ok()?;
        let last = match self.last {
            None => first,
            Some(last) => usize::try_from(last.value(row)).ok()?,
        };
        if first > last || last >= steps.count {
            return None;
        }
        let value = self.batch.column_by_name(VALUE);
        let number = value.and_then(|value| value.as_primitive_opt::<Float64Type>());
        let list = value.and_then(|value| value.as_list_opt::<i32>());
        let at = self.batch.column_by_name(AT);
        let at = at.and_then(|at| at.as_primitive_opt::<TimestampMicrosecondType>());
        let values = list.map(|list| {
            let values = list.value(row);
            let values: Option<&Float64Array> = values.as_primitive_opt();
            values.map_or_else(Vec::new, |values| values.values().to_vec())
        });
        Some(WindowPiece {
            windows: (first, last),
            rows: self.rows.value(row),
            value: number
                .filter(|n| n.is_valid(row))
                .map_or(0.0, |n| n.value(row)),
            at_us: at.map_or(0, |at| at.value(row)),
            values,
        })
    }
}
