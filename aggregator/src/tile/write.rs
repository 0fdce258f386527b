//! Writes the payload of a block; see the layout in `tile.rs`.

use std::ops::Range;

use super::head::TileBlock;
use super::layout::{DENSE, LISTED_MAX, VERSION, by_key};
use super::stream::Packer;
use crate::bytes_io::{put_varint, zigzag};
use crate::calendar::Level;
use crate::cells::Cells;
use crate::column::{Buckets, Numeric, Sets, Squares, StateColumn, or_zero};
use crate::definition::{Component, Definition};
use crate::state::{REGISTERS, decode_registers};

/// The cells of one block.
pub(super) struct BlockCells<'a> {
    pub(super) definition: &'a Definition,
    pub(super) level: Level,
    pub(super) cells: &'a Cells,
    /// Cells, by key and bucket where [`by_key`] holds for the level, else by bucket and key.
    pub(super) order: &'a [u32],
    /// For each cell in this order, the rank of its bucket in the section.
    pub(super) ranks: &'a [u32],
    /// The id in the file of each coupon.
    pub(super) coupon_ids: &'a [u32],
}

impl BlockCells<'_> {
    fn cells(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        self.order.iter().map(|c| *c as usize)
    }

    /// Returns the block's entry in the head, without the position of its payload.
    pub(super) fn block(&self) -> TileBlock {
        TileBlock {
            cells: self.order.len(),
            events: self.cells().map(|c| self.cells.count[c]).sum(),
            ranks: range_of(self.ranks.iter().copied()),
            keys: range_of(self.cells().map(|c| self.cells.key[c])),
            payload: 0..0,
        }
    }

    /// Appends everything that is not in `block`, the entry in the head.
    pub(super) fn write(&self, block: &TileBlock, packer: &mut Packer, out: &mut Vec<u8>) {
        self.shape(block, packer, out);
        let counts: Vec<u64> = self.cells().map(|c| self.cells.count[c] - 1).collect();
        packer.integers(&counts, out);
        for (component, column) in self.definition.components().iter().zip(&self.cells.columns) {
            if !component.at(self.level) {
                continue;
            }
            let mut states = Vec::new();
            match column
                .as_ref()
                .expect("BUG: a tile is written from whole cells")
            {
                StateColumn::Counts(counts) => {
                    let counts: Vec<u64> = self.cells().map(|c| counts[c]).collect();
                    packer.integers(&counts, &mut states);
                }
                StateColumn::Numeric(numeric) => self.numeric(numeric, packer, &mut states),
                StateColumn::Squares(squares) => {
                    self.squares(component, squares, packer, &mut states)
                }
                StateColumn::Buckets(buckets) => {
                    self.buckets(component, buckets, packer, &mut states)
                }
                StateColumn::Sets(sets) => self.sets(sets, packer, &mut states),
            }
            put_varint(out, states.len() as u128);
            out.extend_from_slice(&states);
        }
    }

    /// Appends the buckets and keys of the cells.
    fn shape(&self, block: &TileBlock, packer: &mut Packer, out: &mut Vec<u8>) {
        let (first_rank, first_key) = (block.ranks.start, block.keys.start);
        let keys = self.cells().map(|c| self.cells.key[c]);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let mut before: Option<(u32, u32)> = None;
        if by_key(self.level, VERSION) {
            for (rank, key) in self.ranks.iter().copied().zip(keys) {
                let same = before.filter(|b| b.1 == key);
                first.push(u64::from(key - before.map_or(first_key, |b| b.1)));
                second.push(u64::from(
                    same.map_or(rank - first_rank, |b| rank - b.0 - 1),
                ));
                before = Some((rank, key));
            }
        } else {
            first.resize(block.ranks.len(), 0);
            for (rank, key) in self.ranks.iter().copied().zip(keys) {
                let same = before.filter(|b| b.0 == rank);
                first[(rank - first_rank) as usize] += 1;
                second.push(u64::from(same.map_or(key - first_key, |b| key - b.1 - 1)));
                before = Some((rank, key));
            }
        }
        packer.integers(&first, out);
        packer.integers(&second, out);
    }

    fn numeric(&self, numeric: &Numeric, packer: &mut Packer, out: &mut Vec<u8>) {
        let missing: Vec<u64> = self
            .cells()
            .map(|c| self.cells.count[c] - numeric.n[c])
            .collect();
        packer.integers(&missing, out);
        let unfit: Vec<u64> = self.cells().map(|c| or_zero(&numeric.unfit, c)).collect();
        packer.integers(&unfit, out);
        signed(
            packer,
            self.cells()
                .filter(|c| numeric.n[*c] > 0)
                .map(|c| numeric.sum[c]),
            out,
        );
        if let Some((min, max)) = &numeric.range {
            signed(
                packer,
                self.cells().filter(|c| numeric.n[*c] > 1).map(|c| min[c]),
                out,
            );
            let spread: Vec<u128> = self
                .cells()
                .filter(|c| numeric.n[*c] > 2)
                .map(|c| max[c].wrapping_sub(min[c]) as u128)
                .collect();
            packer.wide(&spread, out);
        }
    }

    /// Returns the numbers that a component refers to.
    fn numeric_of(&self, component: usize) -> &Numeric {
        let column = self.cells.columns[component].as_ref();
        column
            .expect("BUG: a tile is written from whole cells")
            .numeric()
    }

    fn squares(
        &self,
        component: &Component,
        squares: &Squares,
        packer: &mut Packer,
        out: &mut Vec<u8>,
    ) {
        let numeric = component.numeric().expect("BUG: squares have numbers");
        let numeric = self.numeric_of(numeric);
        let written = self.cells().filter(|c| numeric.n[*c] > 1);
        let (low, high): (Vec<u128>, Vec<i128>) =
            written.map(|c| squares.sums[c].to_parts()).unzip();
        packer.wide(&low, out);
        packer.wide(&high.iter().map(|h| *h as u128).collect::<Vec<_>>(), out);
    }

    fn buckets(
        &self,
        component: &Component,
        buckets: &Buckets,
        packer: &mut Packer,
        out: &mut Vec<u8>,
    ) {
        let Component::Histogram {
            numeric, layout, ..
        } = component
        else {
            unreachable!("BUG: buckets belong to a histogram")
        };
        let scaled = self.definition.is_scaled(component);
        let numeric = self.numeric_of(*numeric);
        let (mins, maxs) = numeric
            .range
            .as_ref()
            .expect("BUG: a histogram has its extremes");
        let (mut lens, mut index, mut counts, mut overflow) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for cell in self.cells() {
            let (entries, amounts) = buckets.entries(cell);
            let bounds = layout
                .index_of(mins[cell], scaled)
                .zip(layout.index_of(maxs[cell], scaled));
            match (numeric.n[cell], bounds) {
                // The buckets follow from the number of values and the extremes.
                (0 | 1, Some(_)) | (2, Some(_)) | (0, None) => {}
                (_, Some((low, high))) if low == high => {}
                (_, Some((low, _))) => {
                    let inner = &entries[1..entries.len() - 1];
                    lens.push(inner.len() as u64);
                    distances(u64::from(low) + 1, inner, &mut index);
                    counts.extend(amounts[..amounts.len() - 1].iter().map(|a| a - 1));
                }
                (_, None) => {
                    lens.push(entries.len() as u64);
                    overflow.push(or_zero(&buckets.overflow, cell));
                    distances(0, entries, &mut index);
                    counts.extend(amounts.iter().map(|a| a - 1));
                }
            }
        }
        packer.integers(&lens, out);
        packer.integers(&overflow, out);
        packer.integers(&index, out);
        packer.integers(&counts, out);
    }

    fn sets(&self, sets: &Sets, packer: &mut Packer, out: &mut Vec<u8>) {
        let (mut lacking, mut ids) = (Vec::new(), Vec::new());
        let (mut raised, mut places, mut rhos, mut dense) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut registers = Box::new([0; REGISTERS]);
        let mut mapped = Vec::new();
        for cell in self.cells() {
            let body = sets.body(cell);
            let coupons = sets.coupons(cell);
            let len = if body.is_some() {
                DENSE
            } else {
                coupons.len() as u64
            };
            lacking.push(self.cells.count[cell].min(DENSE) - len);
            mapped.clear();
            mapped.extend(coupons.iter().map(|id| self.coupon_ids[*id as usize]));
            mapped.sort_unstable();
            distances(0, &mapped, &mut ids);
            let Some(body) = body else { continue };
            registers.fill(0);
            decode_registers(body, &mut registers)
                .expect("BUG: bodies are checked when they are read");
            let listed: Vec<u32> = (0..REGISTERS as u32)
                .filter(|r| registers[*r as usize] > 0)
                .collect();
            raised.push(listed.len() as u64);
            if listed.len() < LISTED_MAX {
                distances(0, &listed, &mut places);
                rhos.extend(listed.iter().map(|r| registers[*r as usize]));
            } else {
                dense.extend_from_slice(&registers[..]);
            }
        }
        packer.integers(&lacking, out);
        packer.integers(&ids, out);
        packer.integers(&raised, out);
        packer.integers(&places, out);
        packer.bytes(&rhos, out);
        packer.bytes(&dense, out);
    }
}

/// Returns the range from the least id to one past the greatest.
fn range_of(ids: impl Iterator<Item = u32> + Clone) -> Range<u32> {
    let start = ids.clone().min().unwrap_or(0);
    start..ids.max().map_or(start, |last| last + 1)
}

/// Appends rising numbers as distances from the least value that each can have; for the first that
/// is `next`.
fn distances(mut next: u64, rising: &[u32], out: &mut Vec<u64>) {
    for value in rising {
        out.push(u64::from(*value) - next);
        next = u64::from(*value) + 1;
    }
}

/// Appends integers of either sign: a byte, 1 if some are negative, then the values, in zigzag only
/// if some are negative.
fn signed(packer: &mut Packer, values: impl Iterator<Item = i128>, out: &mut Vec<u8>) {
    let values: Vec<i128> = values.collect();
    let negative = values.iter().any(|v| *v < 0);
    out.push(u8::from(negative));
    let plain: Vec<u128> = values
        .iter()
        .map(|v| if negative { zigzag(*v) } else { *v as u128 })
        .collect();
    packer.wide(&plain, out);
}
