//! An answer as an Arrow stream that is about as large as its rows.
//!
//! # Rule
//! An Arrow answer is never larger than the same answer as NDJSON, with three exceptions:
//! * its headers: 512 bytes, and 256 bytes and the name for each column, where fields of records
//!   and elements of lists count as columns too. Headers are written once for every 8,192 rows or
//!   4 MiB, and once for the schema;
//! * values of a fixed width that JSON does not need: a 64-bit number takes eight bytes,
//!   and `"n":1,` six. Under a name of four letters the number takes no more than its JSON. In a
//!   list `1,` is two bytes, and of a record that is null JSON writes nothing at all; so there
//!   each number and each text may take its fixed width more;
//! * `_rest`, whose BSON is written as it is: the JSON of a list is shorter than its BSON.
//!
//! So rows are written in their plain form, and the rows of small batches are written together.

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::MetadataVersion;
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};

use super::plain::{plain, plain_schema};
use crate::functions::sizes::size;

/// Rows that are written together: as many as an operator returns in a batch.
const ROWS: usize = 8192;
/// Bytes that are written together, even when they are fewer rows.
const BYTES: u64 = 4 << 20;
/// Larger batches are split, because their plain form needs memory beside them.
const BATCH_BYTES_MAX: u64 = 16 << 20;
/// Minimum alignment that the format allows. The default of 64 costs a small answer more than its
/// values.
const ALIGNMENT: usize = 8;

/// Maximum bytes of a message, and of each column of it, beside values.
#[cfg(test)]
pub(crate) const HEADER_BYTES: usize = 512;
#[cfg(test)]
pub(crate) const HEADER_COLUMN_BYTES: usize = 256;

/// Writes batches as an Arrow stream.
pub(super) struct ArrowStream {
    stream: StreamWriter<Vec<u8>>,
    schema: SchemaRef,
    /// Plain batches that wait for more rows.
    gathered: Vec<RecordBatch>,
    rows: usize,
    bytes: u64,
}

impl ArrowStream {
    pub(super) fn new(schema: &SchemaRef) -> Result<Self, ArrowError> {
        let schema = plain_schema(schema);
        let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
        Ok(Self {
            stream: StreamWriter::try_new_with_options(Vec::new(), &schema, options)?,
            schema,
            gathered: Vec::new(),
            rows: 0,
            bytes: 0,
        })
    }

    /// Adds the rows of a batch. Appends to `out` the messages that are complete.
    pub(super) fn batch(
        &mut self,
        batch: &RecordBatch,
        out: &mut Vec<u8>,
    ) -> Result<(), ArrowError> {
        let rows = batch.num_rows();
        let bytes: u64 = batch.columns().iter().map(size).sum();
        if rows == 0 {
            return Ok(());
        }
        if bytes > BATCH_BYTES_MAX && rows > 1 {
            let half = rows / 2;
            self.batch(&batch.slice(0, half), out)?;
            return self.batch(&batch.slice(half, rows - half), out);
        }
        let columns = batch.columns().iter().map(plain);
        let plain = RecordBatch::try_new_with_options(
            self.schema.clone(),
            columns.collect::<Result<_, _>>()?,
            &RecordBatchOptions::new().with_row_count(Some(rows)),
        )?;
        self.gathered.push(plain);
        self.rows += rows;
        self.bytes += bytes;
        if self.rows >= ROWS || self.bytes >= BYTES {
            self.write(out)?;
        }
        Ok(())
    }

    /// Writes the gathered batches.
    fn write(&mut self, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        let gathered = std::mem::take(&mut self.gathered);
        (self.rows, self.bytes) = (0, 0);
        match gathered.as_slice() {
            [] => {}
            [one] => self.stream.write(one)?,
            many => self.stream.write(&concat_batches(&self.schema, many)?)?,
        }
        out.append(self.stream.get_mut());
        Ok(())
    }

    /// Writes the remaining rows and the end of the stream.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        self.write(out)?;
        self.stream.finish()?;
        out.append(self.stream.get_mut());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
