//! Reads the payload of a block, the inverse of `write.rs`; see the layout in `tile.rs`. Nothing
//! that is read is trusted.

mod sets;

use arrow::datatypes::i256;

use super::head::TileBlock;
use super::stream::Unpacker;
use crate::bytes_io::{ByteReader, unzigzag};
use crate::calendar::Level;
use crate::column::{Buckets, Numeric, Squares, StateColumn, square};
use crate::definition::{Component, Definition};
use crate::error::{Error, Result};
use crate::state::Layout;

/// The buckets (as ranks) and keys of the cells of a block.
pub(super) struct BlockShape {
    pub(super) ranks: Vec<u32>,
    pub(super) keys: Vec<u32>,
}

/// Returns the numbers that a component refers to, which were read before it.
fn numeric_of(columns: &[Option<StateColumn>], component: usize) -> &Numeric {
    let column = columns[component].as_ref();
    column
        .expect("BUG: numbers are wanted with what needs them")
        .numeric()
}

/// Reads a payload, component by component.
pub(super) struct Payload<'a> {
    pub(super) definition: &'a Definition,
    pub(super) level: Level,
    /// True if the cells are sorted by key first.
    pub(super) by_key: bool,
    pub(super) unpacker: &'a mut Unpacker,
    pub(super) reader: ByteReader<'a>,
}

impl Payload<'_> {
    /// Reads the shape of a block. The dictionary has `keys` keys.
    pub(super) fn shape(&mut self, block: &TileBlock, keys: usize) -> Result<BlockShape> {
        let (cells, at) = (block.cells, self.reader.offset());
        let wrong = || Error::corrupt(at, "its buckets and keys are not in order");
        let firsts = if self.by_key {
            cells
        } else {
            block.ranks.len()
        };
        let first = self.unpacker.integers(&mut self.reader, firsts)?;
        let second = self.unpacker.integers(&mut self.reader, cells)?;
        let (rank_end, key_end) = (
            u64::from(block.ranks.end),
            u64::from(block.keys.end).min(keys as u64),
        );
        let (first_rank, first_key) = (u64::from(block.ranks.start), u64::from(block.keys.start));
        let (mut ranks, mut ids) = (Vec::with_capacity(cells), Vec::with_capacity(cells));
        if self.by_key {
            let (mut rank, mut key) = (first_rank, first_key);
            for (nth, (step, place)) in first.iter().zip(&second).enumerate() {
                rank = if *step == 0 && nth > 0 {
                    rank.checked_add(1)
                } else {
                    Some(first_rank)
                }
                .and_then(|base| base.checked_add(*place))
                .filter(|r| *r < rank_end)
                .ok_or_else(wrong)?;
                key = key
                    .checked_add(*step)
                    .filter(|k| *k < key_end)
                    .ok_or_else(wrong)?;
                ranks.push(rank as u32);
                ids.push(key as u32);
            }
        } else {
            let mut rest = second.iter();
            for (rank, len) in block.ranks.clone().zip(&first) {
                let mut next = first_key;
                if *len > rest.len() as u64 {
                    return Err(wrong());
                }
                for distance in rest.by_ref().take(*len as usize) {
                    let key = next
                        .checked_add(*distance)
                        .filter(|k| *k < key_end)
                        .ok_or_else(wrong)?;
                    ranks.push(rank);
                    ids.push(key as u32);
                    next = key + 1;
                }
            }
            if ids.len() != cells {
                return Err(wrong());
            }
        }
        Ok(BlockShape { ranks, keys: ids })
    }

    /// Reads the numbers of events of the cells, which follow the shape. A block none of whose
    /// cells is wanted need not be read so far.
    pub(super) fn counts(&mut self, block: &TileBlock) -> Result<Vec<u64>> {
        let at = self.reader.offset();
        let wrong = || Error::corrupt(at, "a block's events differ from its head");
        let mut counts = self.unpacker.integers(&mut self.reader, block.cells)?;
        let mut events = 0_u64;
        for count in &mut counts {
            *count = count.checked_add(1).ok_or_else(wrong)?;
            events = events.checked_add(*count).ok_or_else(wrong)?;
        }
        match events == block.events {
            true => Ok(counts),
            false => Err(wrong()),
        }
    }

    /// Reads the `wanted` columns. A histogram can be read only together with its numbers.
    pub(super) fn columns(
        &mut self,
        wanted: &[bool],
        counts: &[u64],
        coupons: usize,
    ) -> Result<Vec<Option<StateColumn>>> {
        let components = self.definition.components();
        let mut columns: Vec<Option<StateColumn>> = vec![None; components.len()];
        for (nth, component) in components.iter().enumerate() {
            if !component.at(self.level) {
                continue;
            }
            let len = self.reader.varint_len()?;
            let base = self.reader.offset();
            let block = self.reader.take(len)?;
            if !wanted[nth] {
                continue;
            }
            let mut block = ByteReader::new(block, base);
            columns[nth] = Some(match component {
                Component::Count { .. } => StateColumn::Counts(self.passed(&mut block, counts)?),
                Component::Numeric { .. } => StateColumn::Numeric(self.numeric(
                    &mut block,
                    counts,
                    component.range_at(self.level),
                )?),
                Component::Squares { numeric, .. } => {
                    StateColumn::Squares(self.squares(&mut block, numeric_of(&columns, *numeric))?)
                }
                Component::Histogram {
                    layout, numeric, ..
                } => {
                    let scaled = self.definition.is_scaled(component);
                    let numeric = numeric_of(&columns, *numeric);
                    StateColumn::Buckets(self.buckets(&mut block, numeric, *layout, scaled)?)
                }
                Component::Distinct { .. } => {
                    StateColumn::Sets(self.sets(&mut block, counts, coupons)?)
                }
            });
            block.finish()?;
        }
        self.reader.finish()?;
        Ok(columns)
    }

    /// Reads filtered counts, none of which may exceed the cell's own count.
    fn passed(&mut self, block: &mut ByteReader<'_>, counts: &[u64]) -> Result<Vec<u64>> {
        let at = block.offset();
        let passed = self.unpacker.integers(block, counts.len())?;
        if passed.iter().zip(counts).any(|(some, all)| some > all) {
            return Err(Error::corrupt(
                at,
                "a filtered count exceeds the count of its cell",
            ));
        }
        Ok(passed)
    }

    fn numeric(
        &mut self,
        block: &mut ByteReader<'_>,
        counts: &[u64],
        range: bool,
    ) -> Result<Numeric> {
        let at = block.offset();
        let missing = self.unpacker.integers(block, counts.len())?;
        let n = counts
            .iter()
            .zip(&missing)
            .map(|(count, missing)| count.checked_sub(*missing))
            .collect::<Option<Vec<u64>>>()
            .ok_or_else(|| Error::corrupt(at, "a cell has more missing values than events"))?;
        let mut unfit = self.unpacker.integers(block, counts.len())?;
        if unfit.iter().all(|u| *u == 0) {
            unfit = Vec::new();
        }
        let above = |least: u64| n.iter().filter(|n| **n > least).count();
        let mut sums = self.signed(block, above(0))?.into_iter();
        let mut next = |n: u64, least: u64| {
            if n > least {
                sums.next().unwrap_or(0)
            } else {
                0
            }
        };
        let sum: Vec<i128> = n.iter().map(|n| next(*n, 0)).collect();
        let range = if range {
            let mut mins = self.signed(block, above(1))?.into_iter();
            let mut spreads = self.unpacker.wide(block, above(2))?.into_iter();
            let (mut min, mut max) = (Vec::with_capacity(n.len()), Vec::with_capacity(n.len()));
            for (n, sum) in n.iter().zip(&sum) {
                let low = if *n > 1 {
                    mins.next().unwrap_or(0)
                } else {
                    *sum
                };
                min.push(low);
                max.push(match n {
                    0 | 1 => low,
                    2 => sum.wrapping_sub(low),
                    _ => low.wrapping_add(spreads.next().unwrap_or(0) as i128),
                });
            }
            Some((min, max))
        } else {
            None
        };
        Ok(Numeric {
            n,
            unfit,
            sum,
            range,
        })
    }

    fn signed(&mut self, block: &mut ByteReader<'_>, len: usize) -> Result<Vec<i128>> {
        let negative = block.u8()? != 0;
        let values = self.unpacker.wide(block, len)?;
        Ok(values
            .into_iter()
            .map(|v| if negative { unzigzag(v) } else { v as i128 })
            .collect())
    }

    fn squares(&mut self, block: &mut ByteReader<'_>, numeric: &Numeric) -> Result<Squares> {
        let written = numeric.n.iter().filter(|n| **n > 1).count();
        let mut low = self.unpacker.wide(block, written)?.into_iter();
        let mut high = self.unpacker.wide(block, written)?.into_iter();
        let values = numeric.n.iter().zip(&numeric.sum);
        let sums = values.map(|(n, sum)| {
            if *n > 1 {
                let (low, high) = (low.next().unwrap_or(0), high.next().unwrap_or(0));
                i256::from_parts(low, high as i128)
            } else {
                // The square of the only value, or of 0.
                square(*sum)
            }
        });
        Ok(Squares {
            sums: sums.collect(),
        })
    }

    fn buckets(
        &mut self,
        block: &mut ByteReader<'_>,
        numeric: &Numeric,
        layout: Layout,
        scaled: bool,
    ) -> Result<Buckets> {
        let at = block.offset();
        let wrong = || Error::corrupt(at, "its histograms do not add up");
        let (mins, maxs) = numeric
            .range
            .as_ref()
            .expect("BUG: a histogram has its extremes");
        let bounds: Vec<Option<(u32, u32)>> = mins
            .iter()
            .zip(maxs)
            .map(|(min, max)| {
                layout
                    .index_of(*min, scaled)
                    .zip(layout.index_of(*max, scaled))
            })
            .collect();
        let written = |cell: usize| {
            numeric.n[cell] > 2 && bounds[cell].is_some_and(|(low, high)| low != high)
        };
        let plain = |cell: usize| numeric.n[cell] > 0 && bounds[cell].is_none();
        let cells = 0..numeric.n.len();
        let lens_len = cells.clone().filter(|c| written(*c) || plain(*c)).count();
        let lens = self.unpacker.integers(block, lens_len)?;
        let total = lens.iter().try_fold(0_usize, |sum, len| {
            sum.checked_add(usize::try_from(*len).ok()?)
        });
        let total = total.ok_or_else(wrong)?;
        let firsts = cells.clone().filter(|c| written(*c)).count();
        let mut overflows = self
            .unpacker
            .integers(block, lens_len - firsts)?
            .into_iter();
        let mut index = self.unpacker.integers(block, total)?.into_iter();
        let mut amounts = self
            .unpacker
            .integers(block, total.checked_add(firsts).ok_or_else(wrong)?)?
            .into_iter();
        let mut lens = lens.into_iter();
        let mut out = Buckets::new(layout);
        let mut overflow = vec![0; cells.len()];
        for cell in cells {
            let n = numeric.n[cell];
            match bounds[cell] {
                _ if n == 0 => {}
                Some((low, high)) if low == high => out.push(low, n),
                Some((low, high)) if n == 2 => {
                    out.push(low, 1);
                    out.push(high, 1);
                }
                Some(_) if n == 1 => return Err(wrong()),
                Some((low, high)) => {
                    let mut left = n;
                    let mut amount = || {
                        let amount = amounts
                            .next()
                            .and_then(|a| a.checked_add(1))
                            .filter(|a| *a < left)?;
                        left -= amount;
                        Some(amount)
                    };
                    out.push(low, amount().ok_or_else(wrong)?);
                    let mut next = u64::from(low) + 1;
                    for _ in 0..lens.next().ok_or_else(wrong)? {
                        let place = index
                            .next()
                            .and_then(|d| next.checked_add(d))
                            .filter(|i| *i < u64::from(high));
                        let place = place.ok_or_else(wrong)?;
                        out.push(place as u32, amount().ok_or_else(wrong)?);
                        next = place + 1;
                    }
                    out.push(high, left);
                }
                None => {
                    overflow[cell] = overflows.next().ok_or_else(wrong)?;
                    let mut left = n.checked_sub(overflow[cell]).ok_or_else(wrong)?;
                    let mut next = 0_u64;
                    for _ in 0..lens.next().ok_or_else(wrong)? {
                        let place = index.next().and_then(|d| next.checked_add(d));
                        let place = place
                            .filter(|i| *i < u64::from(layout.len()))
                            .ok_or_else(wrong)?;
                        let amount = amounts
                            .next()
                            .and_then(|a| a.checked_add(1))
                            .ok_or_else(wrong)?;
                        left = left.checked_sub(amount).ok_or_else(wrong)?;
                        out.push(place as u32, amount);
                        next = place + 1;
                    }
                }
            }
            out.offsets.push(out.index.len());
        }
        if overflow.iter().any(|o| *o > 0) {
            out.overflow = overflow;
        }
        Ok(out)
    }
}
