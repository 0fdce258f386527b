//! Reads the cells of rollups as series.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aggregator::Level;
use aggregator::state::Histogram;
use futures::StreamExt;
use promql_parser::label::METRIC_NAME;
use query::Session;
use storage::Snapshot;

use super::families::{Family, FamilyColumn, LEVEL};
use super::levels::{before, buckets, levels, us};
use super::rows::{
    CellValue, CellsWithBase, FoundCells, KeyTexts, key_columns, label_pairs, times,
};
use super::statement::{Buckets, CellChoice};
use crate::promql::{
    Grid, GridCells, Labels, Need, PromqlError, Reads, SelectorRead, Series, SeriesKind,
};
use crate::serve::{Client, Serving};

/// Most series that one selector reads.
pub(super) const SERIES_MAX: usize = 20_000;
/// Most cells that one request holds; a bucket of a histogram counts as one.
const CELLS_MAX: usize = 4_000_000;

pub(super) type Result<T> = std::result::Result<T, PromqlError>;

/// A client and the state of the store that all selectors of its query read.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) serving: &'a Serving,
    pub(super) who: &'a Client,
    pub(super) snapshot: Arc<Snapshot>,
    /// GridCells that the request holds.
    held: AtomicUsize,
}

fn too_many_series() -> PromqlError {
    PromqlError::execution(format!(
        "a selector has more than {SERIES_MAX} series; add matchers, or take sum by (…) around rate or increase"
    ))
}

/// The cells of one level of one family that a selector reads.
pub(super) struct Part<'a> {
    pub(super) family: &'a Family,
    level: Level,
    choice: &'a CellChoice,
    pub(super) need: &'a Need,
    grid: Arc<Grid>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(serving: &'a Serving, who: &'a Client, snapshot: Arc<Snapshot>) -> Self {
        let held = AtomicUsize::new(0);
        Self {
            serving,
            who,
            snapshot,
            held,
        }
    }

    /// Counts cells that the request holds.
    pub(super) fn hold(&self, cells: usize) -> Result<()> {
        let before = self.held.fetch_add(cells, Ordering::Relaxed);
        if before.saturating_add(cells) <= CELLS_MAX {
            return Ok(());
        }
        Err(PromqlError::execution(format!(
            "the query reads more than {CELLS_MAX} cells; take a shorter range, a step and windows that whole hours or days align with, or sum by (…) around rate or increase"
        )))
    }

    /// Returns the series of a selector.
    ///
    /// # Errors
    /// If they are too many, or cannot be read.
    pub(super) async fn read(&self, families: &[Family], need: &Need) -> Result<SelectorRead> {
        let named = families.iter().filter(|f| need.takes_name(&f.name));
        let named: Vec<&Family> = named.collect();
        let mut read = SelectorRead::default();
        for family in &named {
            // A sum of gauges is not the sum of what they increase by.
            let is_summed = named.len() == 1 && !family.is_gauge();
            let keep = need.keep.as_ref().filter(|_| is_summed);
            let Some(choice) = CellChoice::new(family, &need.matchers, keep) else {
                continue;
            };
            for level in levels(family, need) {
                self.add(family, level, &choice, need, &mut read).await?;
                if read.series.len() > SERIES_MAX {
                    return Err(too_many_series());
                }
            }
        }
        read.series.sort_by(|a, b| a.labels.cmp(&b.labels));
        Ok(read)
    }

    async fn add(
        &self,
        family: &Family,
        level: Level,
        choice: &CellChoice,
        need: &Need,
        read: &mut SelectorRead,
    ) -> Result<()> {
        check_window(family, level, need)?;
        let has_base = matches!(need.reads, Reads::Samples(_) | Reads::Instants);
        let has_base = has_base && !family.is_gauge();
        let Some(range) = buckets(family, level, need, has_base) else {
            return Ok(());
        };
        let counted_from = range.from_us.filter(|_| has_base);
        let base = counted_from.map(|to_us| choice.sums(family, &before(family, level, to_us)));
        let part = Part {
            family,
            level,
            choice,
            need,
            grid: Arc::new(self.grid(family, level, range)?),
        };
        let cells = choice.cells(family, level, range);
        if let FamilyColumn::Histogram(_) = family.column {
            let cells = self.found::<Histogram>(&cells, choice, true).await?;
            let base = self.base::<Histogram>(base, choice).await?;
            return part.histograms(self, cells, base, &mut read.series);
        }
        let cells = self.found::<f64>(&cells, choice, true).await?;
        let base = self.base::<f64>(base, choice).await?;
        part.numbers(cells, base, &mut read.series)
    }

    /// Returns the buckets of a range, and the one behind it: a sample is good until its end.
    fn grid(&self, family: &Family, level: Level, range: Buckets) -> Result<Grid> {
        let calendar = family.calendar();
        let mut at = range.from_us.unwrap_or(range.to_us);
        let mut bounds = vec![at.div_euclid(1_000)];
        while at <= range.to_us && at < us(i64::MAX) {
            self.hold(1)?;
            at = calendar.bucket(level, at).end_us;
            bounds.push(at.div_euclid(1_000));
        }
        let complete_from = family.complete_from_us(level);
        Ok(Grid::new(bounds, complete_from.div_euclid(1_000)))
    }

    async fn base<V: CellValue>(
        &self,
        sql: Option<String>,
        choice: &CellChoice,
    ) -> Result<FoundCells<V>> {
        match sql {
            Some(sql) => self.found(&sql, choice, false).await,
            None => Ok(FoundCells::new()),
        }
    }

    /// Returns the rows of a statement: `bucket_end` if `has_end`, the keys, the value.
    async fn found<V: CellValue>(
        &self,
        sql: &str,
        choice: &CellChoice,
        has_end: bool,
    ) -> Result<FoundCells<V>> {
        let snapshot = Arc::clone(&self.snapshot);
        let asked = self
            .serving
            .ask_at(self.who, snapshot, Session::default(), sql.into());
        let (mut answer, keys) = (asked.await?, choice.keys.len());
        let mut found = FoundCells::new();
        while let Some(batch) = answer.stream.next().await {
            let batch = batch?;
            let first = usize::from(has_end);
            let names = key_columns(&batch, first..first + keys)?;
            let ends = match has_end {
                true => Some(times(batch.column(0))?),
                false => None,
            };
            for (row, value) in V::read(batch.column(first + keys))?.into_iter().enumerate() {
                let Some(value) = value else { continue };
                self.hold(value.weight())?;
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
        choice: &CellChoice,
        level: Level,
        range: Buckets,
    ) -> Result<BTreeSet<Labels>> {
        let sql = choice.distinct(family, level, range);
        let snapshot = Arc::clone(&self.snapshot);
        let asked =
            self.serving
                .ask_at(self.who, snapshot, Session::default(), sql.as_str().into());
        let mut answer = asked.await?;
        let mut all = BTreeSet::new();
        while let Some(batch) = answer.stream.next().await {
            let batch = batch?;
            let names = key_columns(&batch, 0..choice.keys.len())?;
            for row in 0..batch.num_rows() {
                let key: KeyTexts = names.iter().map(|column| column[row].clone()).collect();
                all.insert(label_pairs(&choice.keys, &key).collect());
            }
            if all.len() > SERIES_MAX {
                return Err(too_many_series());
            }
        }
        self.hold(all.len())?;
        Ok(all)
    }
}

/// Refuses the increase over a window that is shorter than a bucket: it would be that of the whole
/// bucket, or of none.
fn check_window(family: &Family, level: Level, need: &Need) -> Result<()> {
    let (Reads::Increase(range) | Reads::LastIncrease(range)) = need.reads else {
        return Ok(());
    };
    let last = family.calendar().bucket(level, us(need.steps.end) - 1);
    if family.is_gauge() || range.saturating_mul(1_000) >= last.end_us - last.start_us {
        return Ok(());
    }
    Err(PromqlError::execution(format!(
        "a window of {range} ms is shorter than a bucket: the finest level of {} is {level}; take a window of at least one {level}",
        family.name
    )))
}

impl Part<'_> {
    pub(super) fn labels(&self, keys: &KeyTexts, more: Option<(&str, String)>) -> Labels {
        let name = (METRIC_NAME.to_owned(), self.family.name.clone());
        let more = more.map(|(label, value)| (label.to_owned(), value));
        label_pairs(&self.choice.keys, keys)
            .chain([name])
            .chain(more)
            .collect()
    }

    /// Returns the bucket of a cell.
    pub(super) fn bucket(&self, end_us: i64) -> Result<u32> {
        let bucket = self.grid.ending_at(end_us.div_euclid(1_000));
        bucket.ok_or_else(|| {
            let rollup = self.family.rollup.name();
            PromqlError::execution(format!(
                "level {} of rollup {rollup} has a bucket that follows other rules of its time zone; run logmill rollup redefine {rollup}",
                self.level
            ))
        })
    }

    pub(super) fn series(&self, labels: Labels, kind: SeriesKind, cells: GridCells) -> Series {
        Series::new(labels, kind, Arc::clone(&self.grid), cells)
    }

    fn numbers(
        &self,
        cells: FoundCells<f64>,
        base: FoundCells<f64>,
        series: &mut Vec<Series>,
    ) -> Result<()> {
        let mut all = CellsWithBase::<f64>::new();
        for (key, sums) in base {
            all.entry(key).or_default().0 = Some(sums.iter().map(|(_, sum)| sum).sum());
        }
        for (key, cells) in cells {
            all.entry(key).or_default().1 = cells;
        }
        let is_gauge = self.family.is_gauge();
        for (key, (base, cells)) in all {
            let level = is_gauge.then(|| (LEVEL, self.level.as_str().to_owned()));
            let kind = match is_gauge {
                true => SeriesKind::Gauge,
                false => SeriesKind::Counter { base },
            };
            let cells = cells.into_iter();
            let cells = cells.map(|(end, value)| Ok((self.bucket(end)?, value)));
            let cells = cells.collect::<Result<GridCells>>()?;
            series.push(self.series(self.labels(&key, level), kind, cells));
        }
        Ok(())
    }
}
