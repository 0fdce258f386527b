//! Reads the cells of rollups as series.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aggregator::state::Histogram;
use aggregator::{Calendar, Level};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, TimeUnit, TimestampMicrosecondType};
use futures::StreamExt;
use promql_parser::label::{METRIC_NAME, MatchOp, Matcher};
use storage::Snapshot;

use super::families::{Column, Family, LE, LEVEL};
use super::levels::{before, buckets, levels, us};
use super::statement::{Buckets, Choice, EMPTY};
use crate::promql::{Kind, Labels, Need, PromqlError, Read, Reads, Series};
use crate::serve::{Client, Serving};

/// Most series that one selector reads.
pub(super) const SERIES_MAX: usize = 20_000;
/// Most cells that one selector reads.
const CELLS_MAX: usize = 2_000_000;

type Result<T> = std::result::Result<T, PromqlError>;
/// The values of the distinguished keys.
type Keys = Vec<Option<String>>;
/// The cells of one key: end of the bucket in microseconds, value.
type Found<V> = BTreeMap<Keys, Vec<(i64, V)>>;

/// A client and the state of the store that all selectors of its query read.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) serving: &'a Serving,
    pub(super) who: &'a Client,
    pub(super) snapshot: Arc<Snapshot>,
}

fn too_many_series() -> PromqlError {
    PromqlError::execution(format!(
        "a selector has more than {SERIES_MAX} series; add matchers, or take sum by (…) around rate or increase"
    ))
}

impl Reader<'_> {
    /// Returns the series of a selector.
    ///
    /// # Errors
    /// If they are too many, or cannot be read.
    pub(super) async fn read(&self, families: &[Family], need: &Need) -> Result<Read> {
        let named: Vec<&Family> = families
            .iter()
            .filter(|f| need.takes_name(&f.name))
            .collect();
        let keep = need.keep.as_ref().filter(|_| named.len() == 1);
        let mut read = Read::default();
        for family in named {
            let Some(choice) = Choice::new(family, &need.matchers, keep) else {
                continue;
            };
            for level in levels(family, need) {
                let part = Part {
                    family,
                    level,
                    choice: &choice,
                    need,
                };
                self.add(&part, &mut read).await?;
                if read.series.len() > SERIES_MAX {
                    return Err(too_many_series());
                }
            }
        }
        read.ends.sort_unstable();
        read.ends.dedup();
        read.series.sort_by(|a, b| a.labels.cmp(&b.labels));
        Ok(read)
    }

    async fn add(&self, part: &Part<'_>, read: &mut Read) -> Result<()> {
        let range = buckets(part.family, part.level, part.need);
        let cells = part.choice.cells(part.family, part.level, range);
        let is_gauge = matches!(part.family.column, Column::Gauge(_));
        let has_samples = matches!(part.need.reads, Reads::Samples(_) | Reads::LastIncrease(_));
        if has_samples && !is_gauge {
            read.ends
                .extend(ends(part.family.calendar(), part.level, range)?);
        }
        let has_base = matches!(part.need.reads, Reads::Samples(_) | Reads::Instants);
        let base = match range.from_us.filter(|_| has_base && !is_gauge) {
            None => None,
            Some(to_us) => {
                let before = before(part.family, part.level, to_us);
                Some(part.choice.sums(part.family, &before))
            }
        };
        let keys = part.choice.keys.len();
        match part.family.column {
            Column::Histogram(_) => {
                let cells = self.found(&cells, keys, true, states).await?;
                let base = match base {
                    Some(base) => self.found(&base, keys, false, states).await?,
                    None => Found::new(),
                };
                part.histograms(cells, base, &mut read.series)
            }
            Column::Sum(_) | Column::Gauge(_) => {
                let cells = self.found(&cells, keys, true, numbers).await?;
                let base = match base {
                    Some(base) => self.found(&base, keys, false, numbers).await?,
                    None => Found::new(),
                };
                part.numbers(cells, base, &mut read.series);
                Ok(())
            }
        }
    }

    /// Returns the rows of a statement: `bucket_end` if `has_end`, the keys, the value.
    async fn found<V>(
        &self,
        sql: &str,
        keys: usize,
        has_end: bool,
        values: fn(&dyn Array) -> Result<Vec<Option<V>>>,
    ) -> Result<Found<V>> {
        let mut found = Found::new();
        let mut rows = 0;
        let asked = self
            .serving
            .ask_at(self.who, Arc::clone(&self.snapshot), sql.into());
        let mut answer = asked.await?;
        while let Some(batch) = answer.stream.next().await {
            let batch = batch?;
            rows += batch.num_rows();
            if rows > CELLS_MAX {
                return Err(PromqlError::execution(format!(
                    "a selector reads more than {CELLS_MAX} cells; take a shorter range, a greater step that whole hours or days align with, or sum by (…) around rate or increase"
                )));
            }
            let first = usize::from(has_end);
            let names = key_columns(&batch, first..first + keys)?;
            let ends = match has_end {
                true => Some(times(batch.column(0))?),
                false => None,
            };
            for (row, value) in values(batch.column(first + keys))?.into_iter().enumerate() {
                let Some(value) = value else { continue };
                let key = names.iter().map(|column| column[row].clone()).collect();
                let end = ends.as_ref().map_or(0, |ends| ends[row]);
                found.entry(key).or_insert_with(Vec::new).push((end, value));
            }
            if found.len() > SERIES_MAX {
                return Err(too_many_series());
            }
        }
        for cells in found.values_mut() {
            cells.sort_by_key(|(end, _)| *end);
        }
        Ok(found)
    }

    /// Returns the sets of labels that a family has in some buckets, without names.
    pub(super) async fn labels(
        &self,
        family: &Family,
        choice: &Choice,
        level: Level,
        range: Buckets,
    ) -> Result<BTreeSet<Labels>> {
        let sql = choice.distinct(family, level, range);
        let asked = self
            .serving
            .ask_at(self.who, Arc::clone(&self.snapshot), sql.as_str().into());
        let mut answer = asked.await?;
        let mut all = BTreeSet::new();
        while let Some(batch) = answer.stream.next().await {
            let batch = batch?;
            let names = key_columns(&batch, 0..choice.keys.len())?;
            for row in 0..batch.num_rows() {
                let key: Keys = names.iter().map(|column| column[row].clone()).collect();
                all.insert(labels(&choice.keys, &key).collect());
            }
            if all.len() > SERIES_MAX {
                return Err(too_many_series());
            }
        }
        Ok(all)
    }
}

/// The cells of one level of one family that a selector reads.
struct Part<'a> {
    family: &'a Family,
    level: Level,
    choice: &'a Choice,
    need: &'a Need,
}

impl Part<'_> {
    fn labels(&self, keys: &Keys, more: Option<(&str, String)>) -> Labels {
        let name = (METRIC_NAME.to_owned(), self.family.name.clone());
        let more = more.map(|(label, value)| (label.to_owned(), value));
        labels(&self.choice.keys, keys)
            .chain([name])
            .chain(more)
            .collect()
    }

    /// Returns a cell with times in milliseconds.
    fn cell(&self, end_us: i64, value: f64) -> (i64, i64, f64) {
        let next = self.family.calendar().bucket(self.level, end_us);
        (
            end_us.div_euclid(1_000),
            next.end_us.div_euclid(1_000),
            value,
        )
    }

    fn numbers(&self, cells: Found<f64>, base: Found<f64>, series: &mut Vec<Series>) {
        let mut all: BTreeMap<Keys, (Option<f64>, Vec<(i64, f64)>)> = BTreeMap::new();
        for (key, sums) in base {
            all.entry(key).or_default().0 = Some(sums.iter().map(|(_, sum)| sum).sum());
        }
        for (key, cells) in cells {
            all.entry(key).or_default().1 = cells;
        }
        let is_gauge = matches!(self.family.column, Column::Gauge(_));
        for (key, (base, cells)) in all {
            let level = is_gauge.then(|| (LEVEL, self.level.as_str().to_owned()));
            let kind = if is_gauge {
                Kind::Gauge
            } else {
                Kind::Counter { base }
            };
            let cells = cells.into_iter().map(|(end, value)| self.cell(end, value));
            series.push(Series::new(self.labels(&key, level), kind, cells));
        }
    }

    /// Adds the series of the bounds of buckets that hold values, for each key.
    fn histograms(
        &self,
        cells: Found<Histogram>,
        base: Found<Histogram>,
        series: &mut Vec<Series>,
    ) -> Result<()> {
        let mut all: BTreeMap<Keys, (Option<Histogram>, Vec<(i64, Histogram)>)> = BTreeMap::new();
        for (key, mut sums) in base {
            all.entry(key).or_default().0 = sums.pop().map(|(_, sum)| sum);
        }
        for (key, cells) in cells {
            all.entry(key).or_default().1 = cells;
        }
        let all_states = all.values().flat_map(|(base, cells)| {
            let cells = cells.iter().map(|(_, state)| state);
            base.iter().chain(cells)
        });
        let bounds = bounds(all_states, &self.need.matchers);
        let cells: usize = all.values().map(|(_, cells)| cells.len()).sum();
        if series.len() + bounds.len().saturating_mul(all.len()) > SERIES_MAX
            || bounds.len().saturating_mul(cells) > CELLS_MAX * 4
        {
            return Err(PromqlError::execution(format!(
                "a histogram has more than {SERIES_MAX} series: {} keys with {} bounds each; take sum by (le) around rate or increase, or a shorter range",
                all.len(),
                bounds.len()
            )));
        }
        for (key, (base, cells)) in all {
            let curves: Vec<_> = cells
                .iter()
                .map(|(end, state)| (*end, curve(state)))
                .collect();
            let base = base.map(|state| curve(&state));
            for bound in &bounds {
                let le = crate::promql::number_text(*bound);
                let base = base.as_ref().map(|curve| up_to(curve, *bound));
                let cells = curves.iter();
                let cells = cells.map(|(end, curve)| self.cell(*end, up_to(curve, *bound)));
                let labels = self.labels(&key, Some((LE, le)));
                series.push(Series::new(labels, Kind::Counter { base }, cells));
            }
        }
        Ok(())
    }
}

/// Returns the upper bounds of the buckets that hold values and of the buckets before them, and
/// those that a matcher names.
fn bounds<'a>(states: impl Iterator<Item = &'a Histogram>, matchers: &[Matcher]) -> Vec<f64> {
    let mut whole = BTreeSet::new();
    for state in states {
        for bucket in state.buckets() {
            whole.extend(bucket.below);
            whole.insert(bucket.highest);
        }
    }
    let mut bounds: Vec<f64> = whole.into_iter().map(|bound| bound as f64).collect();
    let of_le = || matchers.iter().filter(|matcher| matcher.name == LE);
    for matcher in of_le() {
        if let (MatchOp::Equal, Ok(bound)) = (&matcher.op, matcher.value.parse::<f64>()) {
            bounds.push(bound);
        }
    }
    bounds.push(f64::INFINITY);
    bounds.retain(|bound| !bound.is_nan());
    bounds.sort_unstable_by(f64::total_cmp);
    bounds.dedup();
    let passes = |bound: &f64| {
        let text = crate::promql::number_text(*bound);
        of_le().all(
            |matcher| match (&matcher.op, matcher.value.parse::<f64>()) {
                (MatchOp::Equal, Ok(value)) => value == *bound,
                _ => matcher.is_match(&text),
            },
        )
    };
    bounds.retain(passes);
    bounds
}

/// Returns the running sums of a histogram: upper bound, values up to it.
fn curve(state: &Histogram) -> Vec<(f64, f64)> {
    let mut sum = 0;
    let mut curve: Vec<(f64, f64)> = Vec::new();
    for bucket in state.buckets() {
        sum += bucket.count;
        curve.push((bucket.highest as f64, sum as f64));
    }
    curve.push((f64::INFINITY, (sum + state.overflow()) as f64));
    curve
}

fn up_to(curve: &[(f64, f64)], bound: f64) -> f64 {
    let next = curve.partition_point(|(highest, _)| *highest <= bound);
    next.checked_sub(1).map_or(0.0, |at| curve[at].1)
}

/// Returns the labels of keys: null is no label.
fn labels(names: &[(String, String)], keys: &Keys) -> impl Iterator<Item = (String, String)> {
    let pairs = names.iter().zip(keys);
    pairs.filter_map(|((label, _), value)| {
        let value = value.as_ref()?;
        let value = if value.is_empty() { EMPTY } else { value };
        Some((label.clone(), value.to_owned()))
    })
}

/// Returns the ends of all buckets of a range, milliseconds.
fn ends(calendar: Calendar, level: Level, range: Buckets) -> Result<Vec<i64>> {
    let mut ends = Vec::new();
    let mut at = range.from_us.unwrap_or_default();
    while at < range.to_us.min(us(i64::MAX)) {
        at = calendar.bucket(level, at).end_us;
        ends.push(at.div_euclid(1_000));
        if ends.len() > CELLS_MAX {
            return Err(PromqlError::execution(format!(
                "a selector has more than {CELLS_MAX} buckets; take a shorter range"
            )));
        }
    }
    Ok(ends)
}

fn unreadable(error: impl std::fmt::Display) -> PromqlError {
    PromqlError::execution(format!("cells cannot be read: {error}"))
}

/// Returns the columns of keys as texts.
fn key_columns(
    batch: &RecordBatch,
    columns: std::ops::Range<usize>,
) -> Result<Vec<Vec<Option<String>>>> {
    let columns = columns.map(|at| {
        let column = cast(batch.column(at), &DataType::Utf8).map_err(unreadable)?;
        let texts = column.as_string::<i32>().iter();
        Ok(texts.map(|text| text.map(str::to_owned)).collect())
    });
    columns.collect()
}

fn times(column: &dyn Array) -> Result<Vec<i64>> {
    let kind = DataType::Timestamp(TimeUnit::Microsecond, None);
    let column = cast(column, &kind).map_err(unreadable)?;
    Ok(column
        .as_primitive::<TimestampMicrosecondType>()
        .values()
        .to_vec())
}

fn numbers(column: &dyn Array) -> Result<Vec<Option<f64>>> {
    let column = cast(column, &DataType::Float64).map_err(unreadable)?;
    Ok(column.as_primitive::<Float64Type>().iter().collect())
}

fn states(column: &dyn Array) -> Result<Vec<Option<Histogram>>> {
    let column = cast(column, &DataType::Binary).map_err(unreadable)?;
    let states = column.as_binary::<i32>().iter();
    let states = states.map(|bytes| bytes.map(Histogram::decode).transpose().map_err(unreadable));
    states.collect()
}
