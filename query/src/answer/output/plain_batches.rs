//! The batches of an answer in their plain form, for formats of Arrow that send batches.
//!
//! Rows of small batches are gathered and large batches are split: each batch costs its headers
//! anew, and the plain form of a large one needs memory beside it.

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::concat_batches;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;

use super::plain::{plain, plain_schema};
use crate::functions::sizes::size;

/// Rows that are written together: as many as an operator returns in a batch.
pub(super) const ROWS: usize = 8192;
/// Bytes that are written together, even when they are fewer rows.
const BYTES: u64 = 4 << 20;
/// Larger batches are split, because their plain form needs memory beside them.
const BATCH_BYTES_MAX: u64 = 16 << 20;

/// Gathers batches of an answer and returns them in their plain form.
#[derive(Debug)]
pub struct PlainBatches {
    schema: SchemaRef,
    /// Plain batches that wait for more rows.
    gathered: Vec<RecordBatch>,
    rows: usize,
    bytes: u64,
}

impl PlainBatches {
    /// Creates an empty collection for rows with the columns of `schema`.
    pub fn new(schema: &SchemaRef) -> Self {
        Self {
            schema: plain_schema(schema),
            gathered: Vec::new(),
            rows: 0,
            bytes: 0,
        }
    }

    /// Returns the columns in their plain form.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Adds the rows of a batch. Appends to `out` the batches that are complete: of 8,192 rows, or
    /// of 4 MiB and at most 16 MiB unless one row has more.
    ///
    /// # Errors
    /// When a column has more bytes than 32-bit offsets can count.
    pub fn add(
        &mut self,
        batch: &RecordBatch,
        out: &mut Vec<RecordBatch>,
    ) -> Result<(), ArrowError> {
        let rows = batch.num_rows();
        let bytes: u64 = batch.columns().iter().map(size).sum();
        if rows == 0 {
            return Ok(());
        }
        if bytes > BATCH_BYTES_MAX && rows > 1 {
            let half = rows / 2;
            self.add(&batch.slice(0, half), out)?;
            return self.add(&batch.slice(half, rows - half), out);
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
            out.extend(self.finish()?);
        }
        Ok(())
    }

    /// Returns the gathered rows, if there are any.
    ///
    /// # Errors
    /// When a column has more bytes than 32-bit offsets can count.
    pub fn finish(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let mut gathered = std::mem::take(&mut self.gathered);
        (self.rows, self.bytes) = (0, 0);
        match gathered.len() {
            0 | 1 => Ok(gathered.pop()),
            _ => concat_batches(&self.schema, &gathered).map(Some),
        }
    }
}

/// Returns the columns of an answer as a client is told of them before the answer begins: in the
/// plain form, each nullable and without metadata. Planning may still find that a column has no
/// nulls; its type and name stay.
pub fn described_schema(schema: &SchemaRef) -> Schema {
    let plain = plain_schema(schema);
    let described =
        |field: &std::sync::Arc<Field>| Field::new(field.name(), field.data_type().clone(), true);
    Schema::new(plain.fields().iter().map(described).collect::<Vec<_>>())
}
