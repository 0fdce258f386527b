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

/// The events of one window.
#[derive(Debug, Clone, Default)]
struct Window {
    rows: i64,
    value: f64,
    /// Microseconds since 1970, of the first or last value.
    at_us: i64,
    values: Vec<f64>,
}

/// Some events that lie in the same windows.
struct Piece {
    windows: (usize, usize),
    rows: i64,
    value: f64,
    at_us: i64,
    values: Option<Vec<f64>>,
}

/// Returns the series of the rows of a plan.
pub(super) fn series(
    range: &RangeAggregation,
    steps: Steps,
    batches: &[RecordBatch],
) -> Result<Matrix> {
    let mut found: BTreeMap<Labels, Vec<Window>> = BTreeMap::new();
    let (mut additions, mut values) = (0_u64, 0_usize);
    for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
        let rows = Rows::of(batch)?;
        for row in 0..batch.num_rows() {
            let labels = rows.labels(row)?;
            let labels = match &range.grouping {
                None => labels,
                grouping => kept(&labels, grouping.as_ref()),
            };
            let Some(piece) = rows.piece(row, steps) else {
                continue;
            };
            if !found.contains_key(&labels) {
                check_size(found.len() + 1, steps)?;
            }
            let windows = found.entry(labels);
            let windows = windows.or_insert_with(|| vec![Window::default(); steps.count]);
            let reach = piece.windows.1 - piece.windows.0 + 1;
            additions += reach as u64;
            values += reach * piece.values.as_ref().map_or(0, Vec::len);
            if additions > ADDITIONS_MAX || values > VALUES_MAX {
                return Err(Error::Limit {
                    limit: "the work of a LogQL range",
                    message: "the windows overlap too often".into(),
                    hint: "make the step longer, or the range in brackets shorter",
                });
            }
            for window in &mut windows[piece.windows.0..=piece.windows.1] {
                window.add(&piece, range.function);
            }
        }
    }
    if range.function == RangeFunction::Absent {
        return Ok(absent(range, steps, &found));
    }
    let finished = found.into_iter().map(|(labels, windows)| {
        let points = windows.into_iter().map(|window| window.result(range));
        Series {
            labels,
            points: points.collect(),
        }
    });
    let present = finished.filter(|series| series.points.iter().any(Option::is_some));
    Ok(present.collect())
}

/// Returns a series with 1 at the steps whose window has no event. Its labels are those that the
/// selector compares with `=`.
fn absent(range: &RangeAggregation, steps: Steps, found: &BTreeMap<Labels, Vec<Window>>) -> Matrix {
    let is_empty = |nth: usize| found.values().all(|windows| windows[nth].rows == 0);
    let points: Vec<_> = (0..steps.count)
        .map(|nth| is_empty(nth).then_some(1.0))
        .collect();
    if points.iter().all(Option::is_none) {
        return Matrix::new();
    }
    let equal = range
        .of
        .matchers
        .iter()
        .filter(|matcher| matcher.op == MatchOp::Equal);
    let labels = equal.map(|matcher| (matcher.label.clone(), matcher.value.clone()));
    vec![Series {
        labels: labels.collect(),
        points,
    }]
}

impl Window {
    fn add(&mut self, piece: &Piece, function: RangeFunction) {
        let is_first = self.rows == 0;
        self.rows += piece.rows;
        let replaces = match function {
            RangeFunction::Min => piece.value < self.value,
            RangeFunction::Max => piece.value > self.value,
            RangeFunction::First => piece.at_us < self.at_us,
            RangeFunction::Last => piece.at_us > self.at_us,
            _ => {
                self.value += piece.value;
                self.values.extend(piece.values.iter().flatten());
                return;
            }
        };
        if is_first || replaces {
            (self.value, self.at_us) = (piece.value, piece.at_us);
        }
    }

    /// Returns the value of the window; `None` if it has no event.
    fn result(mut self, range: &RangeAggregation) -> Option<f64> {
        if self.rows == 0 {
            return None;
        }
        let rows = self.rows as f64;
        let seconds = range.range_ns as f64 / 1e9;
        Some(match range.function {
            RangeFunction::Count => rows,
            RangeFunction::Rate if range.unwrap.is_none() => rows / seconds,
            RangeFunction::Rate | RangeFunction::BytesRate => self.value / seconds,
            RangeFunction::Avg => self.value / rows,
            RangeFunction::Quantile => {
                self.values.sort_by(f64::total_cmp);
                quantile(&self.values, range.quantile.unwrap_or(0.5))
            }
            _ => self.value,
        })
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
struct Rows<'a> {
    first: &'a Int64Array,
    last: Option<&'a Int64Array>,
    rows: &'a Int64Array,
    batch: &'a RecordBatch,
    labels_json: Option<&'a StringArray>,
    labels: Vec<(&'a str, &'a StringArray)>,
}

impl<'a> Rows<'a> {
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
    fn piece(&self, row: usize, steps: Steps) -> Option<Piece> {
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
        Some(Piece {
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
