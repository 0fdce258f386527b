//! Merge of parts: the rows of several sorted files are written, in order, as one.
//!
//! # Invariants
//! * At a time, some thousand rows of each input and one row group of the output are in memory. The
//!   rows of all inputs have at most [`MEMORY_BYTES`], if those of one column in one row group are
//!   equally long; of inputs with longer rows, or with many columns, only the first are merged, at
//!   least two.
//! * Every row that an input's manifest entry counts is written once, but for those that an erasure
//!   leaves out, or nothing is written. Rows, sequence numbers and times of each input are compared
//!   with its entry, and the caller that commits compares the [`Census`] of the input with that of
//!   the resulting file.
//! * The result is in the order of [`RowOrder`]. An input that is not is reported, and nothing of
//!   it is written ([`rewrite`] sorts it in pieces).
//! * No value changes except by the cast to the current type of its stream's column; a value that
//!   the cast cannot preserve stops the merge.

mod input;

pub(crate) use input::{Census, census};

use std::io::Write;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch, UInt32Array};
use arrow::compute::{interleave, take_record_batch};
use arrow::datatypes::{Schema, SchemaRef};
use parquet::errors::ParquetError;

use self::input::{Input, InputCursor, fit};
use super::order::RowOrder;
use super::write::{PartWriter, WRITE_ROWS};
use super::{Bounds, stored_schema};
use crate::blocks::CheckedFile;
use crate::error::{Error, Result};
use crate::manifest::{PartMeta, StreamMeta};
use crate::seeded::{self, Bug};

/// Rows of all inputs, and of one input, that are in memory at a time.
const MEMORY_ROWS: usize = 64 * 1024;
const BATCH_ROWS: usize = 8 * 1024;
/// Decoded bytes of one input, and of all, that are in memory at a time. Rows may have megabytes
/// each, and one row of each input is needed.
const BATCH_BYTES: u64 = 4 << 20;
const MEMORY_BYTES: u64 = 64 << 20;
/// Bytes that an input needs for the reader of a column: its page, and that before decompression.
const COLUMN_BYTES: u64 = 32 << 10;
/// Rows, and their bytes, that are sorted in memory at a time.
const SORT_ROWS: usize = 128 * 1024;
const SORT_BYTES: u64 = 32 << 20;

/// Reason for which a merge has ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A part has rows that are not in the required order.
    Unsorted(u64),
    /// A part cannot be read, or differs from its manifest entry.
    Unread(u64, Error),
    /// Another error.
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// A finished merge.
#[derive(Debug)]
pub(crate) struct MergedRows {
    /// The number of inputs that were merged: all, or the first.
    pub(crate) inputs: usize,
    pub(crate) bounds: Bounds,
    /// The rows that were read and not left out.
    pub(crate) census: Census,
}

/// Merges the rows of the inputs in their order, without the sequence numbers in `without`, which
/// rise. `pause` is called every few thousand rows; an
/// error that it returns ends the merge.
pub(crate) fn merge(
    meta: &StreamMeta,
    inputs: Vec<(&PartMeta, CheckedFile)>,
    without: &[u64],
    to: impl Write + Send,
    pause: &dyn Fn() -> Result<()>,
) -> Result<MergedRows, Stop> {
    let inputs = inputs
        .into_iter()
        .map(|(part, file)| Input::open(part, file));
    let mut inputs = inputs.collect::<Result<Vec<_>, Stop>>()?;
    let rows = (MEMORY_ROWS / inputs.len().max(1)).clamp(1, BATCH_ROWS);
    inputs.truncate(fitting(&inputs, rows));
    let merged = inputs.len();
    let all_rows = inputs.iter().map(Input::rows).sum();
    let schema = schema_of(meta, &inputs)?;
    let order = RowOrder::of(&meta.order_by, &schema)?;
    let mut cursors = Vec::new();
    for input in inputs {
        let mut cursor = InputCursor::begin(input, &schema, without, (rows, BATCH_BYTES))?;
        if cursor.load(&order)? {
            cursors.push(cursor);
        }
    }
    let mut writer = PartWriter::new(to, Arc::clone(&schema), &meta.order_by, all_rows);
    let mut heads = Heads::of(&cursors);
    let mut block = Block::of(schema, &cursors, &heads);
    while let Some(least) = heads.least() {
        let cursor = &mut cursors[least];
        block.take(least, cursor.row);
        cursor.row += 1;
        if cursor.is_used_up() {
            if cursor.load(&order)? {
                block.enter(least, cursor.batch.clone());
            } else {
                heads.remove_least();
            }
        }
        heads.sift_down(&cursors);
        if block.is_full() {
            pause()?;
            writer.write(&block.rows()?).map_err(written)?;
            block = Block::of(block.schema, &cursors, &heads);
        }
    }
    if !block.places.is_empty() {
        writer.write(&block.rows()?).map_err(written)?;
    }
    let bounds = writer.close().map_err(written)?;
    let mut read = Census::default();
    for cursor in &cursors {
        read.add(cursor.census);
    }
    Ok(MergedRows {
        inputs: merged,
        bounds,
        census: read,
    })
}

/// Returns how many of the first inputs fit into memory, two of several at least: fewer would not
/// be a merge.
fn fitting(inputs: &[Input<'_>], rows: usize) -> usize {
    let mut bytes = 0;
    let fits = |input: &&Input<'_>| {
        bytes += input.batch_bytes((rows, BATCH_BYTES)) + input.columns() * COLUMN_BYTES;
        bytes <= MEMORY_BYTES
    };
    let fitting = inputs.iter().take_while(fits).count();
    fitting.max(2).min(inputs.len())
}

/// Passes the rows of an unsorted part to `piece`, in sorted pieces that fit into memory, without
/// the sequence numbers in `without`, which rise.
pub(crate) fn rewrite(
    meta: &StreamMeta,
    part: &PartMeta,
    file: CheckedFile,
    without: &[u64],
    piece: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<Census, Stop> {
    let input = Input::open(part, file)?;
    let schema = schema_of(meta, std::slice::from_ref(&input))?;
    let order = RowOrder::of(&meta.order_by, &schema)?;
    let mut cursor = InputCursor::begin(input, &schema, without, (SORT_ROWS, SORT_BYTES))?;
    while let Some(batch) = cursor.next_batch()? {
        let keys = order.keys(&batch)?;
        let mut places: Vec<u32> = (0..).take(batch.num_rows()).collect();
        places.sort_unstable_by(|a, b| keys.row(*a as usize).cmp(&keys.row(*b as usize)));
        piece(take_record_batch(&batch, &UInt32Array::from(places))?)?;
    }
    Ok(cursor.census)
}

/// Writes sorted rows as a part.
pub(crate) fn write_sorted(
    meta: &StreamMeta,
    rows: &RecordBatch,
    to: impl Write + Send,
) -> Result<Bounds> {
    let has = |field: &str| {
        rows.column_by_name(field)
            .is_some_and(|c| c.null_count() < c.len())
    };
    let schema = leave_out(meta, has);
    let rows = fit(rows, &schema)?;
    let mut writer = PartWriter::new(to, schema, &meta.order_by, rows.num_rows() as u64);
    for from in (0..rows.num_rows()).step_by(WRITE_ROWS) {
        let len = WRITE_ROWS.min(rows.num_rows() - from);
        writer.write(&rows.slice(from, len)).map_err(written)?;
    }
    writer.close().map_err(written)
}

/// Returns the columns for which some row of the inputs has a value.
fn schema_of(meta: &StreamMeta, inputs: &[Input<'_>]) -> Result<SchemaRef, Stop> {
    for input in inputs {
        input.knows_only(&stored_schema(meta))?;
    }
    Ok(leave_out(meta, |column| {
        inputs.iter().any(|input| input.has(column))
    }))
}

fn leave_out(meta: &StreamMeta, has: impl Fn(&str) -> bool) -> SchemaRef {
    let stored = stored_schema(meta);
    let fields = stored.fields().iter();
    let fields = fields
        .filter(|f| !f.is_nullable() || has(f.name()))
        .cloned();
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn written(source: ParquetError) -> Error {
    Error::Parquet {
        path: "a merged part".into(),
        source,
    }
}

/// A binary heap of the cursors that have rows left, the one with the least row first.
struct Heads(Vec<usize>);

impl Heads {
    fn of(cursors: &[InputCursor<'_>]) -> Self {
        let mut all: Vec<usize> = (0..cursors.len()).collect();
        all.sort_by(|a, b| cursors[*a].head().cmp(&cursors[*b].head()));
        Self(all)
    }

    fn least(&self) -> Option<usize> {
        self.0.first().copied()
    }

    fn remove_least(&mut self) {
        self.0.swap_remove(0);
    }

    /// Moves the first cursor down to its place in the heap.
    fn sift_down(&mut self, cursors: &[InputCursor<'_>]) {
        let heads = &mut self.0;
        let mut at = 0;
        loop {
            let below = [2 * at + 1, 2 * at + 2]
                .into_iter()
                .filter(|i| *i < heads.len());
            let Some(next) = below.min_by_key(|i| cursors[heads[*i]].head()) else {
                return;
            };
            if cursors[heads[at]].head() <= cursors[heads[next]].head() {
                return;
            }
            heads.swap(at, next);
            at = next;
        }
    }
}

/// Rows to be written next, by their position in the batches of the inputs.
struct Block {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// Index of the current batch of each cursor.
    at: Vec<usize>,
    places: Vec<(usize, usize)>,
    batches_max: usize,
}

impl Block {
    fn of(schema: SchemaRef, cursors: &[InputCursor<'_>], heads: &Heads) -> Self {
        let mut block = Self {
            schema,
            batches: Vec::new(),
            at: vec![0; cursors.len()],
            places: Vec::with_capacity(WRITE_ROWS),
            batches_max: 2 * heads.0.len() + 2,
        };
        for head in &heads.0 {
            block.enter(*head, cursors[*head].batch.clone());
        }
        block
    }

    fn enter(&mut self, cursor: usize, batch: RecordBatch) {
        self.at[cursor] = self.batches.len();
        self.batches.push(batch);
    }

    fn take(&mut self, cursor: usize, row: usize) {
        self.places.push((self.at[cursor], row));
    }

    fn is_full(&self) -> bool {
        self.places.len() == WRITE_ROWS || self.batches.len() >= self.batches_max
    }

    fn rows(&mut self) -> Result<RecordBatch> {
        if seeded::is(Bug::PartRowLost)
            && let [first, second, ..] = self.places.as_mut_slice()
        {
            *first = *second;
        }
        let column = |nth: usize| {
            let arrays: Vec<&dyn Array> = self.batches.iter().map(|b| &**b.column(nth)).collect();
            interleave(&arrays, &self.places)
        };
        let columns = (0..self.schema.fields().len()).map(column);
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

#[cfg(test)]
mod tests;
