//! Parts: the rows of one time partition, sorted, as one Parquet file.
//!
//! A seal builds them from the memtable; compaction merges them (`merge`). Both write with the
//! same properties (`write`) in the same order (`order`).

mod bounds;
mod calendar;
mod merge;
mod order;
mod read;
mod write;

pub(crate) use bounds::Bounds;
pub use calendar::{partition_end, partition_folder, partition_start};
pub(crate) use merge::{Census, Stop, census, merge, rewrite, write_sorted};
pub use read::read_part;
pub(crate) use read::{read_column, read_schema};

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{RecordBatch, TimestampMicrosecondArray, UInt64Array};
use arrow::datatypes::SchemaRef;

use crate::error::{Error, Result};
use crate::interleave::Columns;
use crate::manifest::{PartitionWidth, StreamMeta};
use crate::memtable::{Chunk, column};
use crate::model::{Column, ColumnType, SEQ, TIME, arrow_schema};
use order::{Place, SortKeys};
use write::{PartWriter, WRITE_BYTES, WRITE_ROWS};

/// A part as bytes, not yet on disk.
#[derive(Debug)]
pub(crate) struct PartImage {
    pub(crate) partition_us: i64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) bounds: Bounds,
}

/// Turns the chunks of a stream into parts, one for each partition that has rows.
pub(crate) fn build(meta: &StreamMeta, chunks: &[Arc<Chunk>]) -> Result<Vec<PartImage>> {
    let mut rows = index_rows(meta.partition, chunks);
    let keys = SortKeys::of(meta, chunks)?;
    let schema = stored_schema(meta);
    let mut images = Vec::new();
    for (partition_us, rows) in &mut rows {
        keys.sort(rows);
        images.push(build_one(meta, &schema, *partition_us, rows, chunks)?);
    }
    Ok(images)
}

/// Returns the sequence numbers of a chunk in the order in which a part stores its rows.
pub(crate) fn order_of(meta: &StreamMeta, chunk: &Arc<Chunk>) -> Result<Vec<u64>> {
    let keys = SortKeys::of(meta, std::slice::from_ref(chunk))?;
    let seqs: &UInt64Array = column(&chunk.events, SEQ);
    let mut rows: Vec<Place> = (0..).take(seqs.len()).map(|row| (0, row)).collect();
    keys.sort(&mut rows);
    Ok(rows
        .iter()
        .map(|(_, row)| seqs.value(*row as usize))
        .collect())
}

fn index_rows(width: PartitionWidth, chunks: &[Arc<Chunk>]) -> BTreeMap<i64, Vec<Place>> {
    let mut rows: BTreeMap<i64, Vec<Place>> = BTreeMap::new();
    for (c, chunk) in chunks.iter().enumerate() {
        let c = u32::try_from(c).expect("BUG: a memtable has fewer than 2^32 chunks");
        let times: &TimestampMicrosecondArray = column(&chunk.events, TIME);
        let first = partition_start(width, chunk.time.0);
        if first == partition_start(width, chunk.time.1) {
            let all = rows.entry(first).or_default();
            all.extend((0..).take(times.len()).map(|row| (c, row)));
            continue;
        }
        for (row, time) in (0..).zip(times.values()) {
            rows.entry(partition_start(width, *time))
                .or_default()
                .push((c, row));
        }
    }
    rows
}

/// Returns the columns of a stream's parts: its own, then `_seq`.
pub(crate) fn stored_schema(meta: &StreamMeta) -> SchemaRef {
    let mut columns = meta.columns.clone();
    columns.push(Column::new(SEQ, ColumnType::Uint64));
    arrow_schema(&columns)
}

fn build_one(
    meta: &StreamMeta,
    schema: &SchemaRef,
    partition_us: i64,
    rows: &[Place],
    chunks: &[Arc<Chunk>],
) -> Result<PartImage> {
    let used: Vec<u32> = {
        let mut used: Vec<u32> = rows.iter().map(|r| r.0).collect();
        used.sort_unstable();
        used.dedup();
        used
    };
    let position: HashMap<u32, usize> = used.iter().enumerate().map(|(i, c)| (*c, i)).collect();
    let places: Vec<(usize, usize)> = rows
        .iter()
        .map(|(c, r)| (position[c], *r as usize))
        .collect();
    let batches: Vec<&RecordBatch> = used.iter().map(|c| &chunks[*c as usize].events).collect();
    // A column that no chunk of this part has is left out: readers fill it with nulls.
    let columns = Columns::of(schema, &batches)?;
    let parquet = |source| Error::Parquet {
        path: partition_folder(meta.partition, partition_us).into(),
        source,
    };
    let mut bytes = Vec::new();
    let schema = Arc::clone(columns.schema());
    let rows = places.len() as u64;
    let mut writer = PartWriter::new(&mut bytes, schema, &meta.order_by, rows);
    for places in pieces(&places, &batches) {
        let batch = columns.rows(places)?;
        writer.write(&batch).map_err(parquet)?;
    }
    let bounds = writer.close().map_err(parquet)?;
    Ok(PartImage {
        partition_us,
        bytes,
        bounds,
    })
}

/// Cuts rows into pieces of [`WRITE_ROWS`] rows at most, and of about [`WRITE_BYTES`]: a piece is
/// copied, and the pages of its columns are in memory until it is written.
fn pieces<'a>(
    mut rows: &'a [(usize, usize)],
    batches: &[&RecordBatch],
) -> impl Iterator<Item = &'a [(usize, usize)]> {
    let mean = |batch: &&RecordBatch| batch.get_array_memory_size() / batch.num_rows().max(1);
    let row_bytes: Vec<usize> = batches.iter().map(mean).collect();
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |(batch, _): &&(usize, usize)| {
            let is_first = bytes == 0;
            bytes += row_bytes[*batch].max(1);
            is_first || bytes <= WRITE_BYTES
        };
        let len = rows.iter().take(WRITE_ROWS).take_while(fits).count();
        let piece;
        (piece, rows) = rows.split_at(len);
        (len > 0).then_some(piece)
    })
}

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
#[cfg(test)]
mod tests;
