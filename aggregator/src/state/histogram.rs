//! HDR histograms: counts by buckets of values whose width grows with the value, so that each
//! bucket is exact to a number of decimal digits.
//!
//! The layout is the classic one of HdrHistogram with a lowest discernible value of 1: the first
//! `2^b` values (the least `2^b >= 2 * 10^digits`) have a bucket each; every further doubling of
//! the value has `2^(b-1)` buckets. A value is recorded in its bucket when `0 <= value <= max`. A
//! larger value is counted in `overflow`, a negative one in neither. Count, sum, min and max
//! include them all.
//!
//! Bytes of a state, in order: `H`, version 1, digits, scale (0: integers, 6: millionths), then as
//! varints max, count, unfit, and unless count is 0: sum, min, max (zigzag), overflow, number of
//! entries, and per entry the distance of its bucket from the one before (from -1) and its count.

use crate::bytes_io::{ByteReader, put_varint, zigzag};
use crate::error::{Error, Result};

const KIND: u8 = b'H';
const VERSION: u8 = 1;
/// Decimals are kept as integer numbers of millionths.
pub(crate) const SCALE: i128 = 1_000_000;

/// The buckets of values of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    digits: u8,
    max: u64,
}

impl Layout {
    /// Two digits up to one TiB.
    pub const DEFAULT: Self = Self {
        digits: 2,
        max: 1 << 40,
    };

    /// Creates a layout of these bounds.
    ///
    /// # Errors
    /// [`Error::State`] unless `digits` is 1, 2 or 3 and `max` from 1 to 2^62.
    pub fn new(digits: u8, max: u64) -> Result<Self> {
        if !(1..=3).contains(&digits) {
            return Err(Error::state(format!(
                "digits is {digits}; a histogram has 1, 2 or 3"
            )));
        }
        if max == 0 || max > 1 << 62 {
            return Err(Error::state(format!(
                "max is {max}; a histogram has a max from 1 to 2^62"
            )));
        }
        Ok(Self { digits, max })
    }

    /// Significant decimal digits.
    pub fn digits(self) -> u8 {
        self.digits
    }

    /// The largest value with a bucket.
    pub fn max(self) -> u64 {
        self.max
    }

    /// Number of bits of a value that a bucket keeps.
    fn bits(self) -> u32 {
        match self.digits {
            1 => 5,
            2 => 8,
            _ => 11,
        }
    }

    /// Number of buckets.
    pub(crate) fn len(self) -> u32 {
        self.index(self.max) + 1
    }

    /// Returns the bucket of a value from 0 to `max`.
    pub(crate) fn index(self, value: u64) -> u32 {
        let bits = self.bits();
        let mask = (1_u64 << bits) - 1;
        let shift = 64 - bits - (value | mask).leading_zeros();
        (shift << (bits - 1)) + (value >> shift) as u32
    }

    /// Returns the largest value of a bucket.
    pub(crate) fn highest(self, index: u32) -> u64 {
        let half_bits = self.bits() - 1;
        let doubling = index >> half_bits;
        if doubling == 0 {
            return u64::from(index);
        }
        let shift = doubling - 1;
        let within = u64::from(index & ((1 << half_bits) - 1)) + (1 << half_bits);
        ((within + 1) << shift) - 1
    }

    /// Returns the bucket of a value in the unit of its state (`scaled`: millionths); `None` below
    /// zero and above `max`.
    pub(crate) fn index_of(self, value: i128, scaled: bool) -> Option<u32> {
        let whole = u64::try_from(bucket_value(value, scaled)).ok()?;
        (whole <= self.max).then(|| self.index(whole))
    }

    /// Returns whether a value counts as overflow.
    pub(crate) fn overflows(self, value: i128, scaled: bool) -> bool {
        bucket_value(value, scaled) > i128::from(self.max)
    }
}

/// Returns the whole number that decides the bucket of a value: the value itself, or a number of
/// millionths rounded half to even.
pub(crate) fn bucket_value(value: i128, scaled: bool) -> i128 {
    if !scaled {
        return value;
    }
    let (whole, rest) = (value.div_euclid(SCALE), value.rem_euclid(SCALE));
    let half = SCALE / 2;
    whole + i128::from(rest > half || (rest == half && whole & 1 == 1))
}

/// Returns the value at a quantile, in millionths when the state is scaled: the largest value of
/// the bucket with the rank `ceil(q * count)`, or the largest value of all when that rank lies in
/// the overflow.
pub(crate) fn quantile(parts: &HistogramParts<'_>, q: f64) -> Option<i128> {
    let recorded: u128 =
        parts.counts.iter().map(|c| u128::from(*c)).sum::<u128>() + u128::from(parts.overflow);
    if recorded == 0 {
        return None;
    }
    // The rank is exact for counts below 2^53. A NaN stands for the smallest value, as 0 does.
    let rank = ((q.clamp(0.0, 1.0) * recorded as f64).ceil() as u128).clamp(1, recorded);
    let mut seen = 0_u128;
    for (index, count) in parts.index.iter().zip(parts.counts) {
        seen += u128::from(*count);
        if seen >= rank {
            let unit = if parts.scaled { SCALE } else { 1 };
            return Some(i128::from(parts.layout.highest(*index)) * unit);
        }
    }
    Some(parts.max)
}

/// One bucket of a histogram that holds values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistogramBucket {
    /// The largest value of the bucket before, in the field's unit; `None` for the first bucket.
    pub below: Option<u64>,
    /// The largest value of the bucket, in the field's unit.
    pub highest: u64,
    /// Values in the bucket.
    pub count: u64,
}

/// A histogram as cells hold it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HistogramParts<'a> {
    pub(crate) layout: Layout,
    pub(crate) scaled: bool,
    pub(crate) n: u64,
    pub(crate) unfit: u64,
    pub(crate) sum: i128,
    pub(crate) min: i128,
    pub(crate) max: i128,
    pub(crate) overflow: u64,
    pub(crate) index: &'a [u32],
    pub(crate) counts: &'a [u64],
}

impl HistogramParts<'_> {
    /// Appends the canonical bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend([
            KIND,
            VERSION,
            self.layout.digits,
            if self.scaled { 6 } else { 0 },
        ]);
        put_varint(out, self.layout.max.into());
        put_varint(out, self.n.into());
        put_varint(out, self.unfit.into());
        if self.n == 0 {
            return;
        }
        for value in [self.sum, self.min, self.max] {
            put_varint(out, zigzag(value));
        }
        put_varint(out, self.overflow.into());
        put_varint(out, self.index.len() as u128);
        let mut before = -1_i64;
        for (index, count) in self.index.iter().zip(self.counts) {
            put_varint(out, (i64::from(*index) - before) as u128);
            put_varint(out, (*count).into());
            before = i64::from(*index);
        }
    }
}

/// The state of a histogram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    layout: Layout,
    scaled: bool,
    n: u64,
    unfit: u64,
    sum: i128,
    min: i128,
    max: i128,
    overflow: u64,
    index: Vec<u32>,
    counts: Vec<u64>,
}

impl Histogram {
    /// Creates an empty state; `scaled` when its values are numbers of millionths.
    pub fn new(layout: Layout, scaled: bool) -> Self {
        let (index, counts) = (Vec::new(), Vec::new());
        Self {
            layout,
            scaled,
            n: 0,
            unfit: 0,
            sum: 0,
            min: 0,
            max: 0,
            overflow: 0,
            index,
            counts,
        }
    }

    /// Counts one value, in millionths when the state is scaled.
    pub fn record(&mut self, value: i128) {
        let mut one = Self::new(self.layout, self.scaled);
        (one.n, one.sum, one.min, one.max) = (1, value, value, value);
        one.overflow = u64::from(self.layout.overflows(value, self.scaled));
        one.index.extend(self.layout.index_of(value, self.scaled));
        one.counts.resize(one.index.len(), 1);
        self.merge(&one).expect("BUG: both have one layout");
    }

    /// Reads canonical bytes.
    ///
    /// # Errors
    /// [`Error::State`] when the bytes are not those of a histogram.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        Self::read(bytes).map_err(|e| match e {
            Error::Corrupt { offset, what } => {
                Error::state(format!("not a histogram state: byte {offset}: {what}"))
            }
            other => other,
        })
    }

    fn read(bytes: &[u8]) -> Result<Self> {
        let mut reader = ByteReader::new(bytes, 0);
        if reader.take(2)? != [KIND, VERSION] {
            return Err(Error::corrupt(0, "wrong kind or version"));
        }
        let digits = reader.u8()?;
        let scaled = match reader.u8()? {
            0 => false,
            6 => true,
            _ => return Err(Error::corrupt(3, "the scale is neither 0 nor 6")),
        };
        let mut state = Self::new(Layout::new(digits, reader.varint_u64()?)?, scaled);
        state.n = reader.varint_u64()?;
        state.unfit = reader.varint_u64()?;
        if state.n > 0 {
            (state.sum, state.min, state.max) =
                (reader.signed()?, reader.signed()?, reader.signed()?);
            state.overflow = reader.varint_u64()?;
            let entries = reader.varint_len()?;
            let mut next = 0_u64;
            let mut total = u128::from(state.overflow);
            for _ in 0..entries {
                let at = reader.offset();
                let distance = reader.varint_u64()?;
                let index = distance
                    .checked_add(next)
                    .filter(|i| distance > 0 && *i <= u64::from(state.layout.len()));
                let Some(index) = index else {
                    return Err(Error::corrupt(at, "a bucket is out of order or range"));
                };
                let count = reader.varint_u64()?;
                total += u128::from(count);
                if count == 0 || total > u128::from(state.n) {
                    return Err(Error::corrupt(at, "the counts do not add up"));
                }
                next = index;
                state.index.push((index - 1) as u32);
                state.counts.push(count);
            }
            if state.min > state.max || state.overflow > state.n {
                return Err(Error::corrupt(0, "its numbers contradict each other"));
            }
        }
        reader.finish()?;
        Ok(state)
    }

    /// Returns the canonical bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.parts().encode(&mut out);
        out
    }

    /// Adds another state to this one.
    ///
    /// # Errors
    /// [`Error::State`] when their layouts differ.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if (self.layout, self.scaled) != (other.layout, other.scaled) {
            return Err(Error::state(format!(
                "histograms of different layouts cannot be merged: {} digits up to {}, {} digits up to {}",
                self.layout.digits, self.layout.max, other.layout.digits, other.layout.max
            )));
        }
        if other.n > 0 {
            (self.min, self.max) = if self.n == 0 {
                (other.min, other.max)
            } else {
                (self.min.min(other.min), self.max.max(other.max))
            };
        }
        // Wrapping keeps hostile states associative; counts of real events never come near.
        self.n = self.n.wrapping_add(other.n);
        self.unfit = self.unfit.wrapping_add(other.unfit);
        self.sum = self.sum.wrapping_add(other.sum);
        self.overflow = self.overflow.wrapping_add(other.overflow);
        let mut merged: Vec<(u32, u64)> = Vec::with_capacity(self.index.len() + other.index.len());
        merged.extend(self.index.iter().copied().zip(self.counts.iter().copied()));
        merged.extend(
            other
                .index
                .iter()
                .copied()
                .zip(other.counts.iter().copied()),
        );
        merged.sort_unstable_by_key(|(index, _)| *index);
        self.index.clear();
        self.counts.clear();
        for (index, count) in merged {
            if self.index.last() == Some(&index) {
                let last = self.counts.last_mut().expect("BUG: as long as the indexes");
                *last = last.wrapping_add(count);
            } else {
                self.index.push(index);
                self.counts.push(count);
            }
        }
        Ok(())
    }

    /// Values counted.
    pub fn count(&self) -> u64 {
        self.n
    }

    /// Values that are not finite numbers, or beyond 10^19, and are counted nowhere else.
    pub fn unfit(&self) -> u64 {
        self.unfit
    }

    /// Values above the layout's max.
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// Returns whether sum, min and max are numbers of millionths of the field's unit.
    pub fn is_scaled(&self) -> bool {
        self.scaled
    }

    /// The buckets of values.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the buckets that hold values, in ascending order. Values beyond the layout's max are
    /// in [`Histogram::overflow`].
    pub fn buckets(&self) -> impl Iterator<Item = HistogramBucket> {
        let layout = self.layout;
        let pairs = self.index.iter().zip(&self.counts);
        pairs.map(move |(index, count)| HistogramBucket {
            below: index.checked_sub(1).map(|before| layout.highest(before)),
            highest: layout.highest(*index),
            count: *count,
        })
    }

    /// Exact sum, `None` without values; see [`Histogram::is_scaled`].
    pub fn sum(&self) -> Option<i128> {
        (self.n > 0).then_some(self.sum)
    }

    /// Smallest value, exact.
    pub fn min(&self) -> Option<i128> {
        (self.n > 0).then_some(self.min)
    }

    /// Largest value, exact.
    pub fn max(&self) -> Option<i128> {
        (self.n > 0).then_some(self.max)
    }

    /// Returns the value at quantile `q` (0 to 1) in the field's unit: the largest value of the
    /// bucket with that rank; `None` without values.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let value = quantile(&self.parts(), q)? as f64;
        Some(if self.scaled {
            value / SCALE as f64
        } else {
            value
        })
    }

    fn parts(&self) -> HistogramParts<'_> {
        let Self {
            layout,
            scaled,
            n,
            unfit,
            sum,
            min,
            max,
            overflow,
            ref index,
            ref counts,
        } = *self;
        HistogramParts {
            layout,
            scaled,
            n,
            unfit,
            sum,
            min,
            max,
            overflow,
            index,
            counts,
        }
    }
}

#[cfg(test)]
mod tests;
