//! Writing a part: the properties of its Parquet file, and its bounds on the way.
//!
//! zstd, a page index, dictionaries for what repeats; `time` and `_seq` are stored as differences,
//! which take a byte or two where a dictionary would take none of its advantage, and the column that the
//! part is in the order of stands as it is. Row groups are as
//! large as a part usually is: the dictionary of a whole day is the one lever on size that
//! measurements found.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use super::bounds::Bounds;
use crate::model::{SEQ, TIME};

/// Rows of a row group, of a page, and of what is handed to the writer at a time.
const ROW_GROUP_ROWS: usize = 1 << 20;
const PAGE_ROWS: usize = 8 * 1024;
pub(super) const WRITE_ROWS: usize = 8 * 1024;
/// Encoded bytes of a row group: the writer holds one in memory. That of a million access-log events
/// stays below.
const ROW_GROUP_BYTES: usize = 32 << 20;
/// Whole-day dictionaries: large enough that a day's paths and hosts stay in theirs.
const DICTIONARY_BYTES: usize = 16 << 20;

/// A part that is being written.
pub(super) struct PartWriter<'a, W: Write + Send> {
    writer: ArrowWriter<W>,
    order_by: &'a [String],
    bounds: Bounds,
}

impl<'a, W: Write + Send> PartWriter<'a, W> {
    pub(super) fn new(
        to: W,
        schema: SchemaRef,
        order_by: &'a [String],
    ) -> Result<Self, ParquetError> {
        Ok(Self {
            writer: ArrowWriter::try_new(to, schema, Some(properties(order_by)))?,
            order_by,
            bounds: Bounds::new(),
        })
    }

    /// The next rows, in their order.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), ParquetError> {
        self.bounds.widen(batch, self.order_by);
        self.writer.write(batch)
    }

    pub(super) fn close(self) -> Result<Bounds, ParquetError> {
        self.writer.close()?;
        Ok(self.bounds)
    }
}

fn properties(order_by: &[String]) -> WriterProperties {
    let level = ZstdLevel::try_new(1).expect("BUG: zstd knows level 1");
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
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
    // Equal values lie side by side, so a page of them takes less than its share of a dictionary; and who
    // looks for one reads that page, not the dictionary of a whole day.
    if let Some(first) = order_by.first().filter(|name| *name != TIME) {
        builder = builder.set_column_dictionary_enabled(ColumnPath::from(first.as_str()), false);
    }
    builder.build()
}
