//! Columns of events as integers: key values and coupons become ids, numbers exact integers, and
//! instants ranks of buckets.
//!
//! A column that several rollups need is read once. Ids that are written to a file are assigned by
//! frequency (in powers of two, then by value), so that frequent values have small ids. The ids
//! depend on the set of events only, not on their order.
//!
//! # Invariant
//! An integer and the float equal to it are one value, as a key, a number and a coupon: a column of
//! documents may hold 5 in one part and 5.0 in the next, and both once the parts are merged.

mod keys;
mod numbers;

pub(crate) use keys::{KeyValues, Tuples};
pub(crate) use numbers::{NO_BUCKET, Numbers, OVERFLOWS};

use std::cmp::Ordering;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType};
use hashbrown::{HashMap, HashTable};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::calendar::{Calendar, Cursor, Level};
use crate::error::{Error, Result};
use crate::expression::{as_text, whole};

/// An event has no value for a distinct count.
pub(crate) const NO_COUPON: u32 = u32::MAX;

/// The distinct values of a field: an id per event ([`NO_COUPON`] for null), and a hash per id.
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
        // A distinct count treats values of equal hash as one value, so only hashes are compared.
        let mut id_of = |hash: u64| {
            let entry = table
                .entry(hash, |(h, _)| *h == hash, |(h, _)| *h)
                .or_insert_with(|| {
                    hashes.push(hash);
                    (hash, hashes.len() as u32 - 1)
                });
            entry.get().1
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
                    let values = array.as_primitive::<Float64Type>().iter();
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

/// Hashes an integer: xxh3-64 with seed 1 of its 8 bytes, little endian. (Text has seed 0.)
fn hash_integer(value: i64) -> u64 {
    xxh3_64_with_seed(&value.to_le_bytes(), 1)
}

/// Hashes a float; one that equals an integer as that integer: a JSON column may hold 1 and 1.0.
fn hash_float(value: f64) -> u64 {
    if let Some(integer) = whole(value) {
        return hash_integer(integer);
    }
    let bits = if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        value.to_bits()
    };
    xxh3_64_with_seed(&bits.to_le_bytes(), 2)
}

/// Builds one dictionary of coupons for several fields, and each field's coupon id per event.
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
    // Distinct hashes, and the number of events of each.
    let (mut hashes, mut counts) = (Vec::new(), Vec::new());
    for same in all.chunk_by(|a, b| a.0 == b.0) {
        hashes.push(same[0].0);
        counts.push(same.iter().map(|s| s.1).sum());
    }
    // The hashes ascend, so comparing two indices compares their hashes.
    let order = by_frequency(&counts, |a, b| a.cmp(&b));
    let mut place = vec![0_u32; hashes.len()];
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
    (order.iter().map(|i| hashes[*i as usize]).collect(), events)
}

/// Returns the order of a dictionary's values: by frequency in powers of two, the most frequent
/// first, then by value. Values of no event are omitted.
pub(crate) fn by_frequency(counts: &[u64], by_value: impl Fn(u32, u32) -> Ordering) -> Vec<u32> {
    let mut order: Vec<u32> = (0..counts.len() as u32)
        .filter(|id| counts[*id as usize] > 0)
        .collect();
    let class = |id: u32| counts[id as usize].ilog2();
    order.sort_unstable_by(|a, b| class(*b).cmp(&class(*a)).then_with(|| by_value(*a, *b)));
    order
}

/// Returns the instants of events, microseconds since 1970.
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

/// Returns the rank of each instant's bucket, and the starts of the buckets that occur, ascending.
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
            Some((last_start, rank)) if last_start == start => rank,
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
