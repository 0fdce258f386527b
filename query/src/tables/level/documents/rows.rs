//! Rows of a level, and their keys in a form that can be compared.

use std::sync::Arc;

use aggregator::Level;
use arrow::array::{Array, ArrayRef, AsArray, NullArray, RecordBatch};
use arrow::datatypes::{DataType, Int64Type, TimestampMicrosecondType};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::Result;

use crate::tables::level::read::Work;

/// Rows of a level, sorted by bucket and keys.
pub(super) struct LevelRows {
    pub(super) level: Level,
    /// Start of the first bucket that retention has left in the level.
    pub(super) floor_us: i64,
    /// Starts of buckets, microseconds since 1970.
    buckets: ArrayRef,
    pub(super) keys: Vec<ArrayRef>,
    counts: ArrayRef,
}

impl LevelRows {
    pub(super) fn of(work: &Work, batch: &RecordBatch, counter: &str) -> Self {
        let column = |name: &str| batch.column_by_name(name).cloned();
        let names: Vec<String> = batch
            .schema()
            .fields()
            .iter()
            .map(|f| f.name().clone())
            .collect();
        let is_key = |name: &&String| *name != "bucket" && *name != counter;
        Self {
            level: work.level,
            floor_us: work.floor_us,
            buckets: column("bucket").expect("BUG: documents read buckets"),
            keys: names
                .iter()
                .filter(is_key)
                .filter_map(|n| column(n))
                .collect(),
            counts: column(counter).expect("BUG: documents read their counter"),
        }
    }

    pub(super) fn buckets(&self) -> &[i64] {
        self.buckets
            .as_primitive::<TimestampMicrosecondType>()
            .values()
    }

    pub(super) fn counts(&self) -> &[i64] {
        self.counts.as_primitive::<Int64Type>().values()
    }

    pub(super) fn slice(&self, from: usize, to: usize) -> Self {
        let cut = |array: &ArrayRef| array.slice(from, to - from);
        Self {
            level: self.level,
            floor_us: self.floor_us,
            buckets: cut(&self.buckets),
            keys: self.keys.iter().map(cut).collect(),
            counts: cut(&self.counts),
        }
    }
}

/// Converter of keys into rows that can be compared.
pub(super) struct KeyRows(RowConverter);

impl KeyRows {
    /// Besides the keys there is a column of nulls: without any key it gives the rows their number.
    pub(super) fn new(keys: impl Iterator<Item = DataType>) -> Result<Self> {
        let types = keys.chain([DataType::Null]);
        let converter = RowConverter::new(types.map(SortField::new).collect())?;
        Ok(Self(converter))
    }

    pub(super) fn of(&self, rows: &LevelRows) -> Result<Rows> {
        let nulls: ArrayRef = Arc::new(NullArray::new(rows.counts().len()));
        let columns: Vec<ArrayRef> = rows.keys.iter().cloned().chain([nulls]).collect();
        Ok(self.0.convert_columns(&columns)?)
    }
}
