//! Writer of parts: the properties of the Parquet file, and the bounds of its rows.
//!
//! Files use zstd, a page index and dictionaries for repeated values. `time` and `_seq` are
//! stored as differences, which take a byte or two and gain nothing from a dictionary. The first
//! column of the part's sort order is stored without a dictionary. A row group usually holds a
//! whole part: in measurements only the dictionary of a whole day reduced the size. A query for
//! ten rows reads all of that dictionary, so columns of many values are compressed with LZ4: as
//! zstd they took more than half of the scan time. Parts of an access log are 7 % larger for it.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int64Type, SchemaRef};
use hashbrown::HashSet;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;
use xxhash_rust::xxh3::xxh3_64;

use super::bounds::Bounds;
use crate::model::{SEQ, TIME};

/// Maximum of rows of a row group, of a page, and of one call of the writer.
const ROW_GROUP_ROWS: u64 = 1 << 20;
const PAGE_ROWS: usize = 8 * 1024;
pub(super) const WRITE_ROWS: usize = 8 * 1024;
/// Bytes of the rows of one call of the writer, as far as they are known.
pub(super) const WRITE_BYTES: usize = 16 << 20;
/// Encoded bytes of a row group: the writer holds one in memory. A row group of a million
/// access-log events stays below.
const ROW_GROUP_BYTES: usize = 32 << 20;
/// Size limit of a dictionary: large enough for a day's paths and hosts.
const DICTIONARY_BYTES: usize = 16 << 20;

/// Minimum of distinct values among the first rows for a column of many values; at most three
/// quarters of the rows may be distinct.
const MANY_VALUES: usize = 512;

/// A part that is being written.
pub(super) struct PartWriter<'a, W: Write + Send> {
    /// Destination, until the first rows determine the properties of the file.
    to: Option<W>,
    writer: Option<ArrowWriter<W>>,
    schema: SchemaRef,
    order_by: &'a [String],
    /// Rows of a row group.
    group_rows: usize,
    bounds: Bounds,
}

impl<'a, W: Write + Send> PartWriter<'a, W> {
    /// Returns a writer for about so many rows.
    pub(super) fn new(to: W, schema: SchemaRef, order_by: &'a [String], rows: u64) -> Self {
        // Row groups have one size: a scan assigns one to each of its threads.
        let groups = rows.div_ceil(ROW_GROUP_ROWS).max(1);
        let group_rows = rows.div_ceil(groups).next_multiple_of(PAGE_ROWS as u64);
        Self {
            group_rows: usize::try_from(group_rows.max(1)).expect("BUG: 2^20 at most"),
            to: Some(to),
            writer: None,
            schema,
            order_by,
            bounds: Bounds::new(),
        }
    }

    /// Writes the next rows, in their order.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), ParquetError> {
        self.bounds.widen(batch, self.order_by);
        self.begin(batch)?.write(batch)
    }

    pub(super) fn close(mut self) -> Result<Bounds, ParquetError> {
        let none = RecordBatch::new_empty(Arc::clone(&self.schema));
        self.begin(&none)?.finish()?;
        Ok(self.bounds)
    }

    fn begin(&mut self, first: &RecordBatch) -> Result<&mut ArrowWriter<W>, ParquetError> {
        if let Some(to) = self.to.take() {
            let properties = properties(self.order_by, first, self.group_rows);
            let writer = ArrowWriter::try_new(to, Arc::clone(&self.schema), Some(properties))?;
            self.writer = Some(writer);
        }
        Ok(self.writer.as_mut().expect("BUG: it was begun"))
    }
}

/// Estimates from the first rows whether the dictionary of a column will be large.
fn has_many_values(column: &ArrayRef) -> bool {
    let rows = column.len().min(WRITE_ROWS);
    let mut values = HashSet::new();
    let mut add = |bytes: &[u8]| {
        values.insert(xxh3_64(bytes));
    };
    let valid = (0..rows).filter(|row| column.is_valid(*row));
    match column.data_type() {
        DataType::Utf8 => {
            let texts = column.as_string::<i32>();
            valid.for_each(|row| add(texts.value(row).as_bytes()));
        }
        DataType::Utf8View => {
            let texts = column.as_string_view();
            valid.for_each(|row| add(texts.value(row).as_bytes()));
        }
        DataType::Int64 => {
            let numbers = column.as_primitive::<Int64Type>();
            valid.for_each(|row| add(&numbers.value(row).to_le_bytes()));
        }
        _ => {}
    }
    (MANY_VALUES..=rows / 4 * 3).contains(&values.len())
}

fn properties(order_by: &[String], first: &RecordBatch, group_rows: usize) -> WriterProperties {
    let zstd = Compression::ZSTD(ZstdLevel::try_new(1).expect("BUG: zstd knows level 1"));
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(zstd)
        .set_max_row_group_row_count(Some(group_rows))
        .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_dictionary_page_size_limit(DICTIONARY_BYTES)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_created_by("logmill".to_owned());
    for (field, column) in first.schema().fields().iter().zip(first.columns()) {
        if has_many_values(column) {
            let path = ColumnPath::from(field.name().as_str());
            builder = builder.set_column_compression(path, Compression::LZ4_RAW);
        }
    }
    for name in [TIME, SEQ] {
        let path = ColumnPath::from(name);
        builder = builder
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_compression(path.clone(), zstd)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    // Equal values are adjacent, so a page of them takes less than its share of a dictionary, and
    // a lookup reads that page instead of the dictionary of a whole day.
    if let Some(leading) = order_by.first().filter(|name| *name != TIME) {
        let path = ColumnPath::from(leading.as_str());
        builder = builder
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_compression(path, zstd);
    }
    builder.build()
}
