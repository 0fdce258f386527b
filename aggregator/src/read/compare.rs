//! Comparison for verify: two sides of one level, cell by cell and state by state.

use std::cmp::Ordering;

use xxhash_rust::xxh3::xxh3_64;

use super::merge::{key_ranks, unify_keys};
use super::states::{count_distinct, encode_distinct, parts};
use crate::bytes_io::put_varint;
use crate::calendar::Level;
use crate::cells::Cells;
use crate::column::or_zero;
use crate::definition::{Component, Definition, Measure};
use crate::keys::KeyValue;

/// Most differences that are described; all are counted.
const SHOWN_MAX: usize = 100;

/// One state that differs between the two sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Start of the bucket, microseconds since 1970.
    pub bucket_us: i64,
    /// Values of the key columns.
    pub key: Vec<KeyValue>,
    /// The measures computed from the state, separated by commas; `events` for the count of events.
    pub measure: String,
    /// The state of the left side; `absent` when it has no such cell.
    pub left: String,
    /// The state of the right side.
    pub right: String,
}

/// The outcome of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Comparison {
    /// Cells compared (present on either side).
    pub cells: u64,
    /// Differences found.
    pub total: u64,
    /// The first differences, at most 100, by bucket and key.
    pub shown: Vec<Difference>,
}

impl Comparison {
    /// Adds the outcome of another comparison, such as that of the next partition.
    pub fn add(&mut self, other: Self) {
        self.cells += other.cells;
        self.total += other.total;
        let remaining = SHOWN_MAX.saturating_sub(self.shown.len());
        self.shown.extend(other.shown.into_iter().take(remaining));
    }
}

/// Compares two sides of one level, state by state, by canonical bytes. A state that only one side
/// has read is skipped. Each side must be one merged [`Cells`]: one cell per bucket and key.
pub fn compare(definition: &Definition, level: Level, left: &Cells, right: &Cells) -> Comparison {
    let (keys, maps) = unify_keys(&[left, right], &vec![true; left.keys.columns.len()]);
    let all: Vec<u32> = [left, right]
        .iter()
        .zip(&maps)
        .flat_map(|(side, map)| side.key.iter().map(|k| map[*k as usize]))
        .collect();
    let ranks = key_ranks(&keys, &all);
    let listed = |side: &Cells, map: &[u32]| {
        let mut cells: Vec<(i64, u32, usize)> = (0..side.len())
            .map(|cell| {
                (
                    side.bucket[cell],
                    ranks[map[side.key[cell] as usize] as usize],
                    cell,
                )
            })
            .collect();
        cells.sort_unstable();
        cells
    };
    let (lefts, rights) = (listed(left, &maps[0]), listed(right, &maps[1]));
    let mut report = Report {
        definition,
        level,
        out: Comparison::default(),
    };
    let (mut l, mut r) = (lefts.iter().peekable(), rights.iter().peekable());
    loop {
        let order = match (l.peek(), r.peek()) {
            (None, None) => return report.out,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => (a.0, a.1).cmp(&(b.0, b.1)),
        };
        let a = if order.is_le() { l.next() } else { None };
        let b = if order.is_ge() { r.next() } else { None };
        report.cell(a.map(|a| (left, a.2)), b.map(|b| (right, b.2)));
    }
}

struct Report<'a> {
    definition: &'a Definition,
    level: Level,
    out: Comparison,
}

impl Report<'_> {
    fn cell(&mut self, left: Option<(&Cells, usize)>, right: Option<(&Cells, usize)>) {
        self.out.cells += 1;
        let count = |side: Option<(&Cells, usize)>| side.map(|(cells, cell)| cells.count[cell]);
        if count(left) != count(right) {
            let text = |side| count(side).map_or_else(|| "absent".to_owned(), |c| c.to_string());
            self.add(left.or(right), "events".to_owned(), text(left), text(right));
        }
        let (Some(left), Some(right)) = (left, right) else {
            return;
        };
        for nth in 0..self.definition.components().len() {
            let (a, b) = (self.canonical(nth, left), self.canonical(nth, right));
            let (Some(a), Some(b)) = (a, b) else { continue };
            if a != b {
                let uses = |m: &&Measure| {
                    m.from <= self.level && self.definition.components_for(m).contains(&nth)
                };
                let names: Vec<&str> = self
                    .definition
                    .measures()
                    .iter()
                    .filter(uses)
                    .map(|m| m.name.as_str())
                    .collect();
                let texts = (self.describe(nth, left), self.describe(nth, right));
                self.add(Some(left), names.join(", "), texts.0, texts.1);
            }
        }
    }

    fn add(&mut self, at: Option<(&Cells, usize)>, measure: String, left: String, right: String) {
        self.out.total += 1;
        let Some((cells, cell)) = at.filter(|_| self.out.shown.len() < SHOWN_MAX) else {
            return;
        };
        let key = cells.keys.tuple(cells.key[cell] as usize);
        self.out.shown.push(Difference {
            bucket_us: cells.bucket[cell],
            key,
            measure,
            left,
            right,
        });
    }

    /// Returns the canonical bytes of one state; `None` when it was not read.
    fn canonical(&self, nth: usize, (cells, cell): (&Cells, usize)) -> Option<Vec<u8>> {
        let column = cells.columns[nth].as_ref()?;
        let mut out = Vec::new();
        match &self.definition.components()[nth] {
            Component::Count { .. } => out.extend(column.counts()[cell].to_le_bytes()),
            Component::Numeric { .. } => {
                let c = column.numeric();
                let range = c
                    .range
                    .as_ref()
                    .map_or((0, 0), |(min, max)| (min[cell], max[cell]));
                for value in [c.sum[cell], range.0, range.1] {
                    out.extend(value.to_le_bytes());
                }
                out.extend(c.n[cell].to_le_bytes());
                out.extend(or_zero(&c.unfit, cell).to_le_bytes());
            }
            Component::Squares { .. } => {
                out.extend(column.squares().sums[cell].to_le_bytes());
            }
            Component::Histogram { .. } => {
                let c = column.buckets();
                let (index, counts) = c.entries(cell);
                put_varint(&mut out, or_zero(&c.overflow, cell).into());
                for (index, count) in index.iter().zip(counts) {
                    put_varint(&mut out, (*index).into());
                    put_varint(&mut out, (*count).into());
                }
            }
            Component::Distinct { .. } => {
                encode_distinct(column.sets(), &cells.coupons, cell, &mut out)
            }
        }
        Some(out)
    }

    /// Describes one state in words.
    fn describe(&self, nth: usize, (cells, cell): (&Cells, usize)) -> String {
        let Some(column) = &cells.columns[nth] else {
            return "not read".to_owned();
        };
        let component = &self.definition.components()[nth];
        let unit = if self.definition.is_scaled(component) {
            " millionths"
        } else {
            ""
        };
        match component {
            Component::Count { .. } => format!("{} events", column.counts()[cell]),
            Component::Numeric { .. } => {
                let c = column.numeric();
                let range = c.range.as_ref().map_or_else(String::new, |(min, max)| {
                    format!(", min {}{unit}, max {}{unit}", min[cell], max[cell])
                });
                let unfit = or_zero(&c.unfit, cell);
                format!(
                    "{} values, {unfit} unfit, sum {}{unit}{range}",
                    c.n[cell], c.sum[cell]
                )
            }
            Component::Squares { .. } => {
                format!("sum of squares {}", column.squares().sums[cell])
            }
            Component::Histogram { numeric, .. } => {
                let c = column.buckets();
                let counted: u64 = c.entries(cell).1.iter().sum();
                let median = cells.columns[*numeric].as_ref().and_then(|n| {
                    crate::state::quantile(&parts(n.numeric(), c, !unit.is_empty(), cell), 0.5)
                });
                let median = median.map_or_else(|| "none".to_owned(), |m| format!("{m}{unit}"));
                let bytes = self.canonical(nth, (cells, cell)).unwrap_or_default();
                format!(
                    "{counted} in {} buckets, median {median}, state {:016x}",
                    c.entries(cell).0.len(),
                    xxh3_64(&bytes)
                )
            }
            Component::Distinct { .. } => {
                let bytes = self.canonical(nth, (cells, cell)).unwrap_or_default();
                let (count, hash) = (count_distinct(column.sets(), cell), xxh3_64(&bytes));
                format!("{count} different, state {hash:016x}")
            }
        }
    }
}
