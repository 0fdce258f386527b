//! Numeric columns: numbers of values, exact sums and extremes.

use super::vectors::{append_or_zero, gather, reduce_or_zero, take_or_zero};
use crate::group::Grouping;
use crate::intern::Numbers;
use crate::seeded::{self, Bug};

/// Number of values, sums and extremes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Numeric {
    /// Number of values that fit.
    pub(crate) n: Vec<u64>,
    /// Number of values that do not fit; empty if no cell has any.
    pub(crate) unfit: Vec<u64>,
    pub(crate) sum: Vec<i128>,
    /// Smallest and largest value; 0 where `n` is 0.
    pub(crate) range: Option<(Vec<i128>, Vec<i128>)>,
}

impl Numeric {
    pub(super) fn of_events(numbers: &Numbers, groups: &Grouping, range: bool) -> Self {
        let mut out = Self::with_capacity(groups.len(), range);
        let mut unfit_values = Vec::new();
        for (group, events) in groups.iter().enumerate() {
            let (mut n, mut sum, mut unfit) = (0, 0_i128, 0);
            let (mut min, mut max) = (i128::MAX, i128::MIN);
            for event in events {
                match numbers.get(*event as usize) {
                    Some(Ok(value)) => {
                        n += 1;
                        sum = sum.wrapping_add(value);
                        (min, max) = (min.min(value), max.max(value));
                    }
                    Some(Err(())) => unfit += 1,
                    None => {}
                }
            }
            out.push(n, sum, min, max);
            if unfit > 0 {
                unfit_values.resize(group, 0);
                unfit_values.push(unfit);
            }
        }
        if !unfit_values.is_empty() {
            unfit_values.resize(groups.len(), 0);
        }
        out.unfit = unfit_values;
        out
    }

    fn with_capacity(cells: usize, range: bool) -> Self {
        let range = range.then(|| (Vec::with_capacity(cells), Vec::with_capacity(cells)));
        Self {
            n: Vec::with_capacity(cells),
            unfit: Vec::new(),
            sum: Vec::with_capacity(cells),
            range,
        }
    }

    fn push(&mut self, n: u64, sum: i128, min: i128, max: i128) {
        self.n.push(n);
        self.sum.push(sum);
        if let Some((mins, maxs)) = &mut self.range {
            mins.push(if n == 0 { 0 } else { min });
            maxs.push(if n == 0 { 0 } else { max });
        }
    }

    pub(super) fn reduce(&self, groups: &Grouping, range: bool) -> Self {
        let extremes = self.range.as_ref().filter(|_| range);
        let mut out = Self::with_capacity(groups.len(), extremes.is_some());
        for cells in groups.iter() {
            let (mut n, mut sum) = (0_u64, 0_i128);
            let (mut min, mut max) = (i128::MAX, i128::MIN);
            for cell in cells.iter().map(|c| *c as usize) {
                n = n.wrapping_add(self.n[cell]);
                sum = match seeded::is(Bug::FloatSums) {
                    true => (sum as f64 + self.sum[cell] as f64) as i128,
                    false => sum.wrapping_add(self.sum[cell]),
                };
                if let Some((mins, maxs)) = extremes
                    && self.n[cell] > 0
                {
                    (min, max) = (min.min(mins[cell]), max.max(maxs[cell]));
                }
            }
            out.push(n, sum, min, max);
        }
        out.unfit = reduce_or_zero(&self.unfit, groups);
        out
    }

    pub(super) fn take(&self, cells: &[u32]) -> Self {
        let range = self
            .range
            .as_ref()
            .map(|(min, max)| (gather(min, cells), gather(max, cells)));
        Self {
            n: gather(&self.n, cells),
            unfit: take_or_zero(&self.unfit, cells),
            sum: gather(&self.sum, cells),
            range,
        }
    }

    pub(super) fn append(&mut self, other: &Self, before: usize, cells: usize) {
        self.n.extend_from_slice(&other.n);
        self.sum.extend_from_slice(&other.sum);
        append_or_zero(&mut self.unfit, before, &other.unfit, cells);
        if let (Some((min, max)), Some((other_min, other_max))) = (&mut self.range, &other.range) {
            min.extend_from_slice(other_min);
            max.extend_from_slice(other_max);
        }
    }
}
