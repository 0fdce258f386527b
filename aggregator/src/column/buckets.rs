//! Histograms: counts by bucket of values.

use super::vectors::{append_or_zero, reduce_or_zero, sparse_zeros, take_or_zero};
use crate::group::Grouping;
use crate::intern::{NO_BUCKET, OVERFLOWS};
use crate::state::Layout;

/// Counts by bucket of values: cell `c` has the entries `offsets[c]..offsets[c + 1]`, ascending.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Buckets {
    pub(crate) layout: Layout,
    pub(crate) offsets: Vec<usize>,
    pub(crate) index: Vec<u32>,
    pub(crate) counts: Vec<u64>,
    /// Number of values above the layout's max; empty if no cell has any.
    pub(crate) overflow: Vec<u64>,
}

/// Sums the entries of one cell: a dense array of counts, and the buckets that were touched.
struct Tally {
    counts: Vec<u64>,
    touched: Vec<u32>,
}

impl Tally {
    fn new(layout: Layout) -> Self {
        Self {
            counts: vec![0; layout.len() as usize],
            touched: Vec::new(),
        }
    }

    fn add(&mut self, index: u32, count: u64) {
        let slot = &mut self.counts[index as usize];
        if *slot == 0 {
            self.touched.push(index);
        }
        *slot = slot.wrapping_add(count);
    }

    fn flush(&mut self, out: &mut Buckets) {
        self.touched.sort_unstable();
        for index in self.touched.drain(..) {
            out.index.push(index);
            out.counts
                .push(std::mem::take(&mut self.counts[index as usize]));
        }
        out.offsets.push(out.index.len());
    }
}

impl Buckets {
    pub(crate) fn new(layout: Layout) -> Self {
        Self {
            layout,
            offsets: vec![0],
            index: Vec::new(),
            counts: Vec::new(),
            overflow: Vec::new(),
        }
    }

    /// Adds an entry to the cell that is being built.
    pub(crate) fn push(&mut self, index: u32, count: u64) {
        self.index.push(index);
        self.counts.push(count);
    }

    /// Returns the entries of a cell: buckets and their counts.
    pub(crate) fn entries(&self, cell: usize) -> (&[u32], &[u64]) {
        let range = self.offsets[cell]..self.offsets[cell + 1];
        (&self.index[range.clone()], &self.counts[range])
    }

    pub(super) fn of_events(values: &[u32], layout: Layout, groups: &Grouping) -> Self {
        let mut out = Self::new(layout);
        let mut tally = Tally::new(layout);
        let mut overflow = vec![0; groups.len()];
        for (group, events) in groups.iter().enumerate() {
            for event in events {
                match values[*event as usize] {
                    NO_BUCKET => {}
                    OVERFLOWS => overflow[group] += 1,
                    index => tally.add(index, 1),
                }
            }
            tally.flush(&mut out);
        }
        out.overflow = sparse_zeros(overflow);
        out
    }

    pub(super) fn reduce(&self, groups: &Grouping) -> Self {
        let mut out = Self::new(self.layout);
        let mut tally = Tally::new(self.layout);
        for cells in groups.iter() {
            if let [cell] = cells {
                let (index, counts) = self.entries(*cell as usize);
                out.index.extend_from_slice(index);
                out.counts.extend_from_slice(counts);
                out.offsets.push(out.index.len());
                continue;
            }
            for cell in cells {
                let (index, counts) = self.entries(*cell as usize);
                index
                    .iter()
                    .zip(counts)
                    .for_each(|(index, count)| tally.add(*index, *count));
            }
            tally.flush(&mut out);
        }
        out.overflow = reduce_or_zero(&self.overflow, groups);
        out
    }

    pub(super) fn take(&self, cells: &[u32]) -> Self {
        let mut out = Self::new(self.layout);
        for cell in cells {
            let (index, counts) = self.entries(*cell as usize);
            out.index.extend_from_slice(index);
            out.counts.extend_from_slice(counts);
            out.offsets.push(out.index.len());
        }
        out.overflow = take_or_zero(&self.overflow, cells);
        out
    }

    pub(super) fn append(&mut self, other: &Self, before: usize, cells: usize) {
        let base = self.index.len();
        self.index.extend_from_slice(&other.index);
        self.counts.extend_from_slice(&other.counts);
        self.offsets
            .extend(other.offsets[1..].iter().map(|o| o + base));
        append_or_zero(&mut self.overflow, before, &other.overflow, cells);
    }
}
