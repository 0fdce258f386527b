//! The order of the rows of a part: by the columns of `order_by`, null first, then by `_seq`.
//!
//! A seal has its rows in memory and ranks them as numbers ([`SortKeys`]); a merge compares rows
//! of several files by keys that sort as bytes ([`RowOrder`]).

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Float64Type, Int16Type, Int64Type, Schema, TimestampMicrosecondType, UInt64Type,
};
use arrow::row::{RowConverter, Rows, SortField};

use crate::error::Result;
use crate::manifest::StreamMeta;
use crate::memtable::Chunk;
use crate::model::{ColumnType, SEQ};

/// Position of an event: (chunk, row).
pub(super) type Place = (u32, u32);

/// Numbers for each column of `order_by` and each chunk that compare as the values do (null
/// first).
pub(super) struct SortKeys {
    columns: Vec<Vec<Vec<u64>>>,
}

impl SortKeys {
    pub(super) fn of(meta: &StreamMeta, chunks: &[Arc<Chunk>]) -> Result<Self> {
        let columns = meta.order_by.iter().map(|name| ranks(name, meta, chunks));
        let columns = columns.collect::<Result<_>>()?;
        Ok(Self { columns })
    }

    pub(super) fn sort(&self, rows: &mut [Place]) {
        // Chunks and their rows are in the order of `_seq`, so a place breaks ties as `_seq` would.
        match self.columns.as_slice() {
            [first, second] => {
                let mut keyed: Vec<(u64, u64, Place)> = rows
                    .iter()
                    .map(|&(c, r)| {
                        (
                            first[c as usize][r as usize],
                            second[c as usize][r as usize],
                            (c, r),
                        )
                    })
                    .collect();
                keyed.sort_unstable();
                for (row, (_, _, place)) in rows.iter_mut().zip(keyed) {
                    *row = place;
                }
            }
            columns => rows.sort_unstable_by(|a, b| {
                let key = |k: &Vec<Vec<u64>>, p: &Place| k[p.0 as usize][p.1 as usize];
                columns
                    .iter()
                    .map(|k| key(k, a).cmp(&key(k, b)))
                    .find(|o| *o != Ordering::Equal)
                    .unwrap_or_else(|| a.cmp(b))
            }),
        }
    }
}

/// A chunk's values of a column, and its number of rows.
type Values = (Option<ArrayRef>, usize);

fn ranks(name: &str, meta: &StreamMeta, chunks: &[Arc<Chunk>]) -> Result<Vec<Vec<u64>>> {
    // Compare in the stream's type: an older chunk may have another, whose numbers compare
    // differently.
    let stored = meta.column_type(name).map(ColumnType::arrow);
    let values = |chunk: &Arc<Chunk>| -> Result<Values> {
        let array = chunk.events.column_by_name(name);
        let array = match (array, &stored) {
            (Some(array), Some(stored)) if array.data_type() != stored => {
                Some(cast(array, stored)?)
            }
            (array, _) => array.cloned(),
        };
        Ok((array, chunk.events.num_rows()))
    };
    let values = chunks.iter().map(values).collect::<Result<Vec<_>>>()?;
    let is_text = |(array, _): &Values| {
        array
            .as_ref()
            .is_some_and(|a| a.as_string_opt::<i32>().is_some())
    };
    Ok(if values.iter().any(is_text) {
        text_ranks(&values)
    } else {
        values.iter().map(number_ranks).collect()
    })
}

fn number_ranks((array, rows): &Values) -> Vec<u64> {
    /// Flips the sign bit so that unsigned order is signed order; 0 is reserved for null.
    fn signed(n: i64) -> u64 {
        (n.cast_unsigned() ^ (1 << 63)).saturating_add(1)
    }
    fn float(f: f64) -> u64 {
        let bits = f.to_bits().cast_signed();
        signed(bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed())
    }
    let Some(array) = array else {
        return vec![0; *rows];
    };
    let of = |rank: &dyn Fn(usize) -> u64| {
        (0..*rows)
            .map(|i| if array.is_null(i) { 0 } else { rank(i) })
            .collect()
    };
    match ColumnType::of(array.data_type()) {
        Some(ColumnType::Time) => {
            let values = array.as_primitive::<TimestampMicrosecondType>().values();
            of(&|i| signed(values[i]))
        }
        Some(ColumnType::Int64) => of(&|i| signed(array.as_primitive::<Int64Type>().value(i))),
        Some(ColumnType::Int16) => {
            of(&|i| signed(i64::from(array.as_primitive::<Int16Type>().value(i))))
        }
        Some(ColumnType::Float64) => of(&|i| float(array.as_primitive::<Float64Type>().value(i))),
        Some(ColumnType::Uint64) => of(&|i| {
            array
                .as_primitive::<UInt64Type>()
                .value(i)
                .saturating_add(1)
        }),
        Some(ColumnType::Bool) => of(&|i| 1 + u64::from(array.as_boolean().value(i))),
        _ => vec![0; *rows],
    }
}

fn text_ranks(values: &[Values]) -> Vec<Vec<u64>> {
    let mut ids: HashMap<&str, u32, xxhash_rust::xxh3::Xxh3Builder> = HashMap::default();
    let mut texts: Vec<&str> = Vec::new();
    let mut by_chunk: Vec<Vec<u64>> = Vec::new();
    for (array, rows) in values {
        let array = array.as_ref().and_then(|a| a.as_string_opt::<i32>());
        let Some(array) = array else {
            by_chunk.push(vec![0; *rows]);
            continue;
        };
        let mut numbers = Vec::with_capacity(*rows);
        for i in 0..*rows {
            if array.is_null(i) {
                numbers.push(0);
                continue;
            }
            let text = array.value(i);
            let next =
                u32::try_from(texts.len()).expect("BUG: a memtable has fewer than 2^32 texts");
            let id = *ids.entry(text).or_insert_with(|| {
                texts.push(text);
                next
            });
            numbers.push(u64::from(id) + 1);
        }
        by_chunk.push(numbers);
    }
    let mut order: Vec<u32> = (0..).take(texts.len()).collect();
    order.sort_unstable_by_key(|id| texts[*id as usize]);
    let mut rank_of = vec![0_u64; texts.len() + 1];
    for (rank, id) in order.into_iter().enumerate() {
        rank_of[id as usize + 1] = rank as u64 + 1;
    }
    for numbers in &mut by_chunk {
        for n in numbers {
            *n = rank_of[usize::try_from(*n).expect("BUG: an id fits")];
        }
    }
    by_chunk
}

/// The same order as byte keys, for rows that are not all in memory.
pub(super) struct RowOrder {
    converter: RowConverter,
    columns: Vec<usize>,
}

impl RowOrder {
    /// Returns the order of rows with these columns. (Binary columns are not compared, as in
    /// [`SortKeys`].)
    pub(super) fn of(order_by: &[String], schema: &Schema) -> Result<Self> {
        let names = order_by.iter().map(String::as_str).chain([SEQ]);
        let columns = names.filter_map(|name| schema.index_of(name).ok());
        let columns: Vec<usize> = columns
            .filter(|c| *schema.field(*c).data_type() != DataType::Binary)
            .collect();
        let fields = columns
            .iter()
            .map(|c| SortField::new(schema.field(*c).data_type().clone()));
        Ok(Self {
            converter: RowConverter::new(fields.collect())?,
            columns,
        })
    }

    /// Returns keys that compare as the rows do.
    pub(super) fn keys(&self, batch: &RecordBatch) -> Result<Rows> {
        let columns: Vec<ArrayRef> = self
            .columns
            .iter()
            .map(|c| Arc::clone(batch.column(*c)))
            .collect();
        Ok(self.converter.convert_columns(&columns)?)
    }
}
