//! Columns of events as integers: key values and coupons by id, numbers exact, instants by bucket.
//!
//! Each column that several rollups need is read once. Ids that end in a file are given by
//! frequency (in powers of two, then by value), so that the usual ones are small; they depend on
//! the set of events only, not on its order.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array,
};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Int64Type, TimeUnit, TimestampMicrosecondType};
use hashbrown::{HashMap, HashTable};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::calendar::{Calendar, Cursor, Level};
use crate::cells::{Keys, int_column};
use crate::column::{NO_BUCKET, NO_COUPON, OVERFLOWS};
use crate::definition::{KeyType, Number};
use crate::error::{Error, Result};
use crate::state::{Layout, SCALE};

/// Larger magnitudes do not fit: every 64-bit integer does, and sums of 2^43 of them are exact.
const NUMBER_MAX: f64 = 1e19;

/// A number column, exact.
#[derive(Debug)]
pub(crate) struct Numbers {
    values: Vec<i128>,
    /// 0: null; 1: fits; 2: does not.
    marks: Vec<u8>,
}

impl Numbers {
    /// The value of an event: none, one that fits, or one that does not.
    pub(crate) fn get(&self, event: usize) -> Option<Result<i128, ()>> {
        match self.marks[event] {
            0 => None,
            1 => Some(Ok(self.values[event])),
            _ => Some(Err(())),
        }
    }

    pub(crate) fn of(batches: &[RecordBatch], rows: usize, number: &Number) -> Result<Self> {
        let mut out = Self {
            values: Vec::with_capacity(rows),
            marks: Vec::with_capacity(rows),
        };
        let unit = if number.scaled { SCALE } else { 1 };
        for batch in batches {
            let Some(array) = batch.column_by_name(&number.field) else {
                out.skip(batch.num_rows(), 0);
                continue;
            };
            match array.data_type() {
                DataType::Null => out.skip(array.len(), 0),
                DataType::Float16 | DataType::Float32 | DataType::Float64 => {
                    let array = cast(array, &DataType::Float64)?;
                    out.floats(array.as_primitive(), unit);
                }
                DataType::Int64 => out.integers(array.as_primitive(), unit),
                DataType::Int8
                | DataType::Int16
                | DataType::Int32
                | DataType::UInt8
                | DataType::UInt16
                | DataType::UInt32
                | DataType::Timestamp(TimeUnit::Microsecond, _) => {
                    let array = cast(array, &DataType::Int64)?;
                    out.integers(array.as_primitive::<Int64Type>(), unit);
                }
                DataType::UInt64 => {
                    for value in array.as_primitive::<arrow::datatypes::UInt64Type>() {
                        out.push(value.map(|v| i128::from(v) * unit));
                    }
                }
                _ => {
                    for row in 0..array.len() {
                        out.skip(1, if array.is_null(row) { 0 } else { 2 });
                    }
                }
            }
        }
        Ok(out)
    }

    fn skip(&mut self, rows: usize, mark: u8) {
        self.values.resize(self.values.len() + rows, 0);
        self.marks.resize(self.marks.len() + rows, mark);
    }

    fn push(&mut self, value: Option<i128>) {
        self.values.push(value.unwrap_or(0));
        self.marks.push(u8::from(value.is_some()));
    }

    fn integers(&mut self, array: &Int64Array, unit: i128) {
        if array.null_count() == 0 {
            self.values
                .extend(array.values().iter().map(|v| i128::from(*v) * unit));
            self.marks.resize(self.values.len(), 1);
            return;
        }
        for value in array {
            self.push(value.map(|v| i128::from(v) * unit));
        }
    }

    fn floats(&mut self, array: &Float64Array, unit: i128) {
        for value in array {
            match value {
                None => self.push(None),
                // Half to even, so that the same decimal always becomes the same integer.
                Some(v) if v.abs() <= NUMBER_MAX => {
                    self.push(Some((v * unit as f64).round_ties_even() as i128))
                }
                Some(_) => self.skip(1, 2),
            }
        }
    }

    /// The histogram bucket of each event.
    pub(crate) fn buckets(&self, layout: Layout, scaled: bool) -> Vec<u32> {
        let bucket = |(value, mark): (&i128, &u8)| match (mark, layout.index_of(*value, scaled)) {
            (1, Some(index)) => index,
            (1, None) if layout.overflows(*value, scaled) => OVERFLOWS,
            _ => NO_BUCKET,
        };
        self.values.iter().zip(&self.marks).map(bucket).collect()
    }
}

/// The values of one key column: an id per event, and the value (or null) of each id.
#[derive(Debug)]
pub(crate) struct KeyValues {
    ids: Vec<u32>,
    values: ArrayRef,
    /// Rank of each value, null first.
    ranks: Vec<u32>,
}

impl KeyValues {
    pub(crate) fn of(
        batches: &[RecordBatch],
        rows: usize,
        field: &str,
        key_type: KeyType,
    ) -> Result<Self> {
        match key_type {
            KeyType::Text => Self::texts(batches, rows, field),
            KeyType::Int16 | KeyType::Int64 => Self::integers(batches, rows, field, key_type),
        }
    }

    fn texts(batches: &[RecordBatch], rows: usize, field: &str) -> Result<Self> {
        let arrays: Vec<Option<StringArray>> = batches
            .iter()
            .map(|b| b.column_by_name(field).map(as_text).transpose())
            .collect::<Result<_>>()?;
        let mut ids = Vec::with_capacity(rows);
        let mut values: Vec<Option<&str>> = Vec::new();
        let mut null = None;
        // The hash beside the id spares a look at the value when a slot holds another one.
        let mut table: HashTable<(u64, u32)> = HashTable::new();
        let mut last: Option<(&str, u32)> = None;
        for (batch, array) in batches.iter().zip(&arrays) {
            let mut null_id = |values: &mut Vec<Option<&str>>| {
                *null.get_or_insert_with(|| {
                    values.push(None);
                    values.len() as u32 - 1
                })
            };
            let Some(array) = array else {
                if batch.num_rows() > 0 {
                    ids.resize(ids.len() + batch.num_rows(), null_id(&mut values));
                }
                continue;
            };
            for row in 0..array.len() {
                if array.is_null(row) {
                    ids.push(null_id(&mut values));
                    continue;
                }
                let value = array.value(row);
                if let Some((text, id)) = last
                    && text == value
                {
                    ids.push(id);
                    continue;
                }
                let hash = xxh3_64(value.as_bytes());
                let found = table
                    .entry(
                        hash,
                        |(h, id)| *h == hash && values[*id as usize] == Some(value),
                        |(h, _)| *h,
                    )
                    .or_insert_with(|| {
                        values.push(Some(value));
                        (hash, values.len() as u32 - 1)
                    });
                let id = found.get().1;
                last = Some((value, id));
                ids.push(id);
            }
        }
        let ranks = ranks(&values);
        Ok(Self {
            ids,
            values: Arc::new(StringArray::from(values)),
            ranks,
        })
    }

    fn integers(
        batches: &[RecordBatch],
        rows: usize,
        field: &str,
        key_type: KeyType,
    ) -> Result<Self> {
        let mut ids = Vec::with_capacity(rows);
        let mut values: Vec<Option<i64>> = Vec::new();
        let mut table: HashMap<Option<i64>, u32> = HashMap::new();
        let mut last: Option<(Option<i64>, u32)> = None;
        let mut id_of = |value: Option<i64>| {
            if let Some((known, id)) = last
                && known == value
            {
                return id;
            }
            let id = *table.entry(value).or_insert_with(|| {
                values.push(value);
                values.len() as u32 - 1
            });
            last = Some((value, id));
            id
        };
        for batch in batches {
            let Some(array) = batch.column_by_name(field) else {
                ids.extend((0..batch.num_rows()).map(|_| id_of(None)));
                continue;
            };
            // What is no integer of this size reads as null.
            let array = cast(&cast(array, &key_type.arrow())?, &DataType::Int64)?;
            ids.extend(array.as_primitive::<Int64Type>().iter().map(&mut id_of));
        }
        let ranks = ranks(&values);
        let values = int_column(key_type, values.into_iter()).expect("BUG: the cast made them fit");
        Ok(Self { ids, values, ranks })
    }
}

/// The rank of each value among all of them.
fn ranks<T: Ord>(values: &[T]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..values.len() as u32).collect();
    order.sort_unstable_by(|a, b| values[*a as usize].cmp(&values[*b as usize]));
    let mut ranks = vec![0; values.len()];
    for (rank, id) in order.iter().enumerate() {
        ranks[*id as usize] = rank as u32;
    }
    ranks
}

/// Any column as text.
fn as_text(array: &ArrayRef) -> Result<StringArray> {
    if let Some(binary) = array.as_binary_opt::<i32>() {
        return Ok(binary
            .iter()
            .map(|v| v.map(String::from_utf8_lossy))
            .collect());
    }
    Ok(cast(array, &DataType::Utf8)?.as_string::<i32>().clone())
}

/// The key of each event, and the dictionary of keys.
pub(crate) fn keys(columns: &[&KeyValues], rows: usize) -> Result<(Vec<u32>, Keys)> {
    let mut ids = vec![0_u32; rows];
    let mut len = usize::from(rows > 0);
    // Per column the value id of each key.
    let mut tuples: Vec<Vec<u32>> = Vec::new();
    for column in columns {
        let (pairs, next) = combine(ids, &column.ids, len, column.ranks.len());
        for earlier in &mut tuples {
            *earlier = pairs
                .iter()
                .map(|(key, _)| earlier[*key as usize])
                .collect();
        }
        tuples.push(pairs.iter().map(|(_, value)| *value).collect());
        (ids, len) = (next, pairs.len());
    }
    let mut counts = vec![0_u64; len];
    ids.iter().for_each(|id| counts[*id as usize] += 1);
    let mut order: Vec<u32> = (0..len as u32).collect();
    order.sort_unstable_by(|a, b| {
        let (a, b) = (*a as usize, *b as usize);
        let by_value = || {
            let ranks = columns
                .iter()
                .zip(&tuples)
                .map(|(c, t)| c.ranks[t[a] as usize].cmp(&c.ranks[t[b] as usize]));
            ranks.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        };
        counts[b]
            .ilog2()
            .cmp(&counts[a].ilog2())
            .then_with(by_value)
    });
    let mut place = vec![0_u32; len];
    for (rank, id) in order.iter().enumerate() {
        place[*id as usize] = rank as u32;
    }
    ids.iter_mut().for_each(|id| *id = place[*id as usize]);
    let arrays = columns
        .iter()
        .zip(&tuples)
        .map(|(column, values)| {
            let indices: UInt32Array = order.iter().map(|id| Some(values[*id as usize])).collect();
            Ok(take(&column.values, &indices, None)?)
        })
        .collect::<Result<Vec<_>>>()?;
    Ok((
        ids,
        Keys {
            columns: arrays,
            len,
        },
    ))
}

/// Numbers the pairs that occur: the pairs, and the number of each event's.
fn combine(
    mut left: Vec<u32>,
    right: &[u32],
    lefts: usize,
    rights: usize,
) -> (Vec<(u32, u32)>, Vec<u32>) {
    let mut pairs = Vec::new();
    // A table of all pairs is quicker than hashing while it stays near the caches.
    if lefts.saturating_mul(rights) <= (1 << 20).max(4 * right.len()) {
        let mut table = vec![u32::MAX; lefts * rights];
        for (a, b) in left.iter_mut().zip(right) {
            let slot = &mut table[*a as usize * rights + *b as usize];
            if *slot == u32::MAX {
                *slot = pairs.len() as u32;
                pairs.push((*a, *b));
            }
            *a = *slot;
        }
        return (pairs, left);
    }
    let mut table: HashMap<(u32, u32), u32> = HashMap::new();
    for (a, b) in left.iter_mut().zip(right) {
        *a = *table.entry((*a, *b)).or_insert_with(|| {
            pairs.push((*a, *b));
            pairs.len() as u32 - 1
        });
    }
    (pairs, left)
}

/// The different values of a field: a number per event ([`NO_COUPON`] for null) and their hashes.
#[derive(Debug)]
pub(crate) struct Identities {
    ids: Vec<u32>,
    hashes: Vec<u64>,
}

impl Identities {
    pub(crate) fn of(batches: &[RecordBatch], rows: usize, field: &str) -> Result<Self> {
        let mut ids = Vec::with_capacity(rows);
        let mut hashes = Vec::new();
        let mut table: HashTable<(u64, u32)> = HashTable::new();
        // Values with one hash are one value to a distinct count, so hashes alone are compared.
        let mut id_of = |hash: u64| {
            let found = table
                .entry(hash, |(h, _)| *h == hash, |(h, _)| *h)
                .or_insert_with(|| {
                    hashes.push(hash);
                    (hash, hashes.len() as u32 - 1)
                });
            found.get().1
        };
        for batch in batches {
            let Some(array) = batch.column_by_name(field) else {
                ids.resize(ids.len() + batch.num_rows(), NO_COUPON);
                continue;
            };
            match array.data_type() {
                DataType::Boolean
                | DataType::Int8
                | DataType::Int16
                | DataType::Int32
                | DataType::Int64
                | DataType::UInt8
                | DataType::UInt16
                | DataType::UInt32
                | DataType::Timestamp(TimeUnit::Microsecond, _) => {
                    let array = cast(array, &DataType::Int64)?;
                    let values = array.as_primitive::<Int64Type>().iter();
                    ids.extend(values.map(|v| v.map_or(NO_COUPON, |v| id_of(hash_integer(v)))));
                }
                DataType::Float16 | DataType::Float32 | DataType::Float64 => {
                    let array = cast(array, &DataType::Float64)?;
                    let values = array.as_primitive::<arrow::datatypes::Float64Type>().iter();
                    ids.extend(values.map(|v| v.map_or(NO_COUPON, |v| id_of(hash_float(v)))));
                }
                _ => {
                    let array = as_text(array)?;
                    ids.extend(
                        array
                            .iter()
                            .map(|v| v.map_or(NO_COUPON, |v| id_of(xxh3_64(v.as_bytes())))),
                    );
                }
            }
        }
        Ok(Self { ids, hashes })
    }
}

/// An integer's hash: xxh3-64 with seed 1 of its 8 bytes, little endian. (Text has seed 0.)
fn hash_integer(value: i64) -> u64 {
    xxh3_64_with_seed(&value.to_le_bytes(), 1)
}

/// A float that is an integer counts as that integer: a JSON column may hold 1 and 1.0.
fn hash_float(value: f64) -> u64 {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.trunc() == value && value.abs() <= EXACT {
        return hash_integer(value as i64);
    }
    let bits = if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        value.to_bits()
    };
    xxh3_64_with_seed(&bits.to_le_bytes(), 2)
}

/// One dictionary of coupons for several fields, and each field's coupon per event.
pub(crate) fn coupons(fields: &[&Identities]) -> (Vec<u64>, Vec<Vec<u32>>) {
    let mut all: Vec<(u64, u64, u32, u32)> = Vec::new();
    for (nth, field) in fields.iter().enumerate() {
        let mut counts = vec![0_u64; field.hashes.len()];
        field
            .ids
            .iter()
            .filter(|id| **id != NO_COUPON)
            .for_each(|id| counts[*id as usize] += 1);
        let own = field.hashes.iter().zip(&counts).enumerate();
        all.extend(own.map(|(id, (hash, count))| (*hash, *count, nth as u32, id as u32)));
    }
    all.sort_unstable();
    // (class, hash) of each different hash, most frequent first.
    let mut dictionary: Vec<(u32, u64)> = Vec::new();
    for same in all.chunk_by(|a, b| a.0 == b.0) {
        let count: u64 = same.iter().map(|s| s.1).sum();
        dictionary.push((u64::BITS - count.ilog2(), same[0].0));
    }
    let mut order: Vec<u32> = (0..dictionary.len() as u32).collect();
    order.sort_unstable_by_key(|i| dictionary[*i as usize]);
    let mut place = vec![0_u32; dictionary.len()];
    for (rank, nth) in order.iter().enumerate() {
        place[*nth as usize] = rank as u32;
    }
    let mut maps: Vec<Vec<u32>> = fields.iter().map(|f| vec![0; f.hashes.len()]).collect();
    for (nth, same) in all.chunk_by(|a, b| a.0 == b.0).enumerate() {
        for (_, _, field, id) in same {
            maps[*field as usize][*id as usize] = place[nth];
        }
    }
    let per_event = |(field, map): (&&Identities, Vec<u32>)| {
        let coupon = |id: &u32| {
            if *id == NO_COUPON {
                NO_COUPON
            } else {
                map[*id as usize]
            }
        };
        field.ids.iter().map(coupon).collect()
    };
    let events = fields.iter().zip(maps).map(per_event).collect();
    (
        order.iter().map(|i| dictionary[*i as usize].1).collect(),
        events,
    )
}

/// The instants of events, microseconds since 1970.
pub(crate) fn times(batches: &[RecordBatch], rows: usize) -> Result<Vec<i64>> {
    let mut times = Vec::with_capacity(rows);
    for batch in batches.iter().filter(|b| b.num_rows() > 0) {
        let array = batch
            .column_by_name(storage::TIME)
            .and_then(|c| c.as_primitive_opt::<TimestampMicrosecondType>());
        let Some(array) = array.filter(|a| a.null_count() == 0) else {
            return Err(Error::invalid(
                "events need a time column of microseconds without nulls",
            ));
        };
        times.extend_from_slice(array.values());
    }
    Ok(times)
}

/// The bucket of each instant as a rank, and the starts of the buckets that occur, rising.
pub(crate) fn bucket_ranks(
    times: &[i64],
    calendar: Calendar,
    level: Level,
) -> (Vec<u32>, Vec<i64>) {
    let mut cursor = Cursor::new(calendar);
    let mut starts: Vec<i64> = Vec::new();
    let mut table: HashMap<i64, u32> = HashMap::new();
    let mut last: Option<(i64, u32)> = None;
    let mut ranks: Vec<u32> = Vec::with_capacity(times.len());
    for time in times {
        let start = cursor.bucket(level, *time).start_us;
        let rank = match last {
            Some((known, rank)) if known == start => rank,
            _ => *table.entry(start).or_insert_with(|| {
                starts.push(start);
                starts.len() as u32 - 1
            }),
        };
        last = Some((start, rank));
        ranks.push(rank);
    }
    if starts.is_sorted() {
        return (ranks, starts);
    }
    let mut order: Vec<u32> = (0..starts.len() as u32).collect();
    order.sort_unstable_by_key(|i| starts[*i as usize]);
    let mut place = vec![0; starts.len()];
    for (rank, nth) in order.iter().enumerate() {
        place[*nth as usize] = rank as u32;
    }
    ranks
        .iter_mut()
        .for_each(|rank| *rank = place[*rank as usize]);
    starts.sort_unstable();
    (ranks, starts)
}
