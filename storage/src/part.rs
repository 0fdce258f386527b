//! Parts: the rows of one time partition, sorted, as one Parquet file.
//!
//! zstd, a page index, dictionaries for what repeats; `time` and `_seq` are stored as differences,
//! which take a byte or two where a dictionary would take none of its advantage. Row groups are as
//! large as a part usually is: the dictionary of a whole day is the one lever on size that
//! measurements found.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, TimestampMicrosecondArray, UInt64Array};
use arrow::datatypes::{
    DataType, Float64Type, Int16Type, Int64Type, SchemaRef, TimestampMicrosecondType, UInt64Type,
};
use bytes::Bytes;
use chrono::{DateTime, Datelike, NaiveDate};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use crate::error::{Error, Result};
use crate::gather::Columns;
use crate::manifest::{PartitionWidth, StreamMeta};
use crate::memtable::{Chunk, column};
use crate::model::{Column, ColumnType, SEQ, TIME, arrow_schema};

const HOUR_US: i64 = 3_600_000_000;
const DAY_US: i64 = 24 * HOUR_US;
/// Text bounds in the manifest are cut to this many bytes.
const BOUND_BYTES: usize = 64;
/// Rows of a row group, of a page, and of what is handed to the writer at a time.
const ROW_GROUP_ROWS: usize = 1 << 20;
const PAGE_ROWS: usize = 8 * 1024;
const WRITE_ROWS: usize = 8 * 1024;
const READ_ROWS: usize = 64 * 1024;
/// Whole-day dictionaries: large enough that a day's paths and hosts stay in theirs.
const DICTIONARY_BYTES: usize = 16 << 20;

/// A part as bytes, not yet on disk.
#[derive(Debug)]
pub(crate) struct PartImage {
    pub(crate) partition_us: i64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) rows: u64,
    pub(crate) seq: (u64, u64),
    pub(crate) time: (i64, i64),
    pub(crate) text_range: BTreeMap<String, (String, String)>,
}

/// The start of the partition that holds `time_us`.
pub fn partition_start(width: PartitionWidth, time_us: i64) -> i64 {
    match width {
        PartitionWidth::Hour => floor(time_us, HOUR_US),
        PartitionWidth::Day => floor(time_us, DAY_US),
        PartitionWidth::Month => DateTime::from_timestamp_micros(time_us)
            .and_then(|t| NaiveDate::from_ymd_opt(t.year(), t.month(), 1))
            .and_then(|d| d.and_hms_opt(0, 0, 0))
            .map_or_else(
                || floor(time_us, DAY_US),
                |t| t.and_utc().timestamp_micros(),
            ),
    }
}

/// The first instant after a partition that begins at `start_us`, microseconds since 1970.
pub fn partition_end(width: PartitionWidth, start_us: i64) -> i64 {
    match width {
        PartitionWidth::Hour => start_us.saturating_add(HOUR_US),
        PartitionWidth::Day => start_us.saturating_add(DAY_US),
        // No month has more than 31 days, and none two first days within 32.
        PartitionWidth::Month => partition_start(width, start_us.saturating_add(32 * DAY_US)),
    }
}

/// The greatest multiple of `width` not above `time_us`; the least time there is when that is none.
fn floor(time_us: i64, width: i64) -> i64 {
    time_us.div_euclid(width).saturating_mul(width)
}

/// The folder of a partition, as Hive spells it: `date=2000-10-10`.
pub fn partition_folder(width: PartitionWidth, start_us: i64) -> String {
    let format = match width {
        PartitionWidth::Hour => "hour=%Y-%m-%dT%H",
        PartitionWidth::Day => "date=%Y-%m-%d",
        PartitionWidth::Month => "month=%Y-%m",
    };
    DateTime::from_timestamp_micros(start_us).map_or_else(
        || format!("start={start_us}"),
        |t| t.format(format).to_string(),
    )
}

/// Turns the chunks of a stream into parts, one for each partition they touch.
pub(crate) fn build(meta: &StreamMeta, chunks: &[Arc<Chunk>]) -> Result<Vec<PartImage>> {
    let mut rows = index_rows(meta.partition, chunks);
    let keys = SortKeys::of(&meta.order_by, chunks);
    let schema = stored_schema(meta);
    let mut images = Vec::new();
    for (partition_us, rows) in &mut rows {
        keys.sort(rows);
        images.push(build_one(meta, &schema, *partition_us, rows, chunks)?);
    }
    Ok(images)
}

/// (chunk, row): where an event lies.
type Place = (u32, u32);

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

/// For each column of `order_by` and each chunk, numbers that compare as the values do (null first).
struct SortKeys {
    columns: Vec<Vec<Vec<u64>>>,
}

impl SortKeys {
    fn of(order_by: &[String], chunks: &[Arc<Chunk>]) -> Self {
        let columns = order_by.iter().map(|name| ranks(name, chunks)).collect();
        Self { columns }
    }

    fn sort(&self, rows: &mut [Place]) {
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

fn ranks(name: &str, chunks: &[Arc<Chunk>]) -> Vec<Vec<u64>> {
    let is_text = chunks
        .iter()
        .filter_map(|c| c.events.column_by_name(name))
        .any(|a| matches!(a.data_type(), DataType::Utf8));
    if is_text {
        text_ranks(name, chunks)
    } else {
        // A column that became wider holds integers in some chunks: all are ranked as floats then.
        let is_float = |c: &Arc<Chunk>| {
            let column = c.events.column_by_name(name);
            column.is_some_and(|a| *a.data_type() == DataType::Float64)
        };
        let floats = chunks.iter().any(is_float);
        chunks
            .iter()
            .map(|c| number_ranks(name, c, floats))
            .collect()
    }
}

fn number_ranks(name: &str, chunk: &Chunk, floats: bool) -> Vec<u64> {
    /// Moves the sign so that unsigned order is signed order; 0 is left for null.
    fn signed(n: i64) -> u64 {
        (n.cast_unsigned() ^ (1 << 63)).saturating_add(1)
    }
    fn float(f: f64) -> u64 {
        let bits = f.to_bits().cast_signed();
        signed(bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed())
    }
    let rows = chunk.events.num_rows();
    let Some(array) = chunk.events.column_by_name(name) else {
        return vec![0; rows];
    };
    let of = |rank: &dyn Fn(usize) -> u64| {
        (0..rows)
            .map(|i| if array.is_null(i) { 0 } else { rank(i) })
            .collect()
    };
    match ColumnType::of(array.data_type()) {
        Some(ColumnType::Time) => {
            let values = array.as_primitive::<TimestampMicrosecondType>().values();
            of(&|i| signed(values[i]))
        }
        Some(ColumnType::Int64) if floats => {
            of(&|i| float(array.as_primitive::<Int64Type>().value(i) as f64))
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
        _ => vec![0; rows],
    }
}

fn text_ranks(name: &str, chunks: &[Arc<Chunk>]) -> Vec<Vec<u64>> {
    let mut ids: HashMap<&str, u32, xxhash_rust::xxh3::Xxh3Builder> = HashMap::default();
    let mut texts: Vec<&str> = Vec::new();
    let mut by_chunk: Vec<Vec<u64>> = Vec::new();
    for chunk in chunks {
        let rows = chunk.events.num_rows();
        let array = chunk
            .events
            .column_by_name(name)
            .and_then(|a| a.as_string_opt::<i32>());
        let Some(array) = array else {
            by_chunk.push(vec![0; rows]);
            continue;
        };
        let mut numbers = Vec::with_capacity(rows);
        for i in 0..rows {
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

/// The columns of a stream's parts: its own, then `_seq`.
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
    // A column that no chunk of this part has is left out: readers put null in its place.
    let columns = Columns::of(schema, &batches)?;
    let schema = columns.schema();
    let mut image = PartImage {
        partition_us,
        bytes: Vec::new(),
        rows: rows.len() as u64,
        seq: (u64::MAX, 0),
        time: (i64::MAX, i64::MIN),
        text_range: BTreeMap::new(),
    };
    let parquet = |source| Error::Parquet {
        path: partition_folder(meta.partition, partition_us).into(),
        source,
    };
    let mut writer = ArrowWriter::try_new(&mut image.bytes, Arc::clone(schema), Some(properties()))
        .map_err(parquet)?;
    for places in places.chunks(WRITE_ROWS) {
        let batch = columns.rows(places)?;
        for t in column::<TimestampMicrosecondArray>(&batch, TIME).values() {
            image.time = (image.time.0.min(*t), image.time.1.max(*t));
        }
        for s in column::<UInt64Array>(&batch, SEQ).values() {
            image.seq = (image.seq.0.min(*s), image.seq.1.max(*s));
        }
        widen_text_range(&mut image.text_range, &meta.order_by, &batch);
        writer.write(&batch).map_err(parquet)?;
    }
    writer.close().map_err(parquet)?;
    Ok(image)
}

/// Widens the bounds of the text columns among `order_by`. Nulls are outside the bounds.
fn widen_text_range(
    range: &mut BTreeMap<String, (String, String)>,
    order_by: &[String],
    batch: &RecordBatch,
) {
    for name in order_by {
        let Some(texts) = batch
            .column_by_name(name)
            .and_then(|a| a.as_string_opt::<i32>())
        else {
            continue;
        };
        let (Some(least), Some(greatest)) = (
            arrow::compute::min_string(texts),
            arrow::compute::max_string(texts),
        ) else {
            continue;
        };
        let (least, greatest) = (cut(least, false), cut(greatest, true));
        match range.get_mut(name) {
            None => {
                range.insert(name.clone(), (least, greatest));
            }
            Some(bounds) => {
                if least < bounds.0 {
                    bounds.0 = least;
                }
                if greatest > bounds.1 {
                    bounds.1 = greatest;
                }
            }
        }
    }
}

/// A text cut to about [`BOUND_BYTES`]; an upper bound that was cut is above every text that begins
/// as it does.
fn cut(text: &str, upper: bool) -> String {
    if text.len() <= BOUND_BYTES {
        return text.to_owned();
    }
    let mut cut = text[..text.floor_char_boundary(BOUND_BYTES)].to_owned();
    if !upper {
        return cut;
    }
    while let Some(last) = cut.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            cut.push(next);
            return cut;
        }
    }
    // Nothing but the greatest character: no shorter text is above it.
    text.to_owned()
}

/// Reads rows of a part back, a batch at a time; `columns` that the part lacks are left out.
///
/// # Errors
/// When the bytes are not a part.
pub fn read_part(bytes: Bytes, columns: Option<&[&str]>) -> Result<Vec<RecordBatch>, ParquetError> {
    // The text types are asked for, since the file's own schema names them so.
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes)?;
    let mask = match columns {
        None => ProjectionMask::all(),
        // By position: a name with a dot in it is not a path here.
        Some(names) => {
            let roots = builder.parquet_schema().root_schema().get_fields();
            let wanted = |i: &usize| names.contains(&roots[*i].name());
            ProjectionMask::roots(builder.parquet_schema(), (0..roots.len()).filter(wanted))
        }
    };
    let reader = builder
        .with_projection(mask)
        .with_batch_size(READ_ROWS)
        .build()?;
    reader
        .map(|batch| batch.map_err(ParquetError::from))
        .collect()
}

fn properties() -> WriterProperties {
    let level = ZstdLevel::try_new(1).expect("BUG: zstd knows level 1");
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_dictionary_page_size_limit(DICTIONARY_BYTES)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_created_by("logmill".to_owned());
    for name in [TIME, SEQ] {
        let path = ColumnPath::from(name);
        builder = builder
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    builder.build()
}

#[cfg(test)]
mod tests;
