//! Events that are in the journal but not yet in parts.
//!
//! # Invariants
//! A chunk's rows are in the order of their sequence numbers; chunks of a stream follow one
//! another. Chunks that a seal has frozen are never merged with later ones.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, TimestampMicrosecondArray, UInt64Array};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema};

use crate::error::Result;
use crate::memo::Memo;
use crate::model::{Name, SEQ, TIME};

/// Limit of a merged chunk. Small chunks are merged so that a stream of one-event requests does
/// not become a list of one-event chunks. 16 Ki rows keep one merge to about a millisecond.
const CHUNK_ROWS: usize = 16 * 1024;
/// Second limit of a merged chunk: rows may be a megabyte each. A merge copies them while readers
/// wait for a snapshot; it also keeps the offsets of one text column below 2 GiB.
const CHUNK_BYTES: usize = 16 << 20;

/// Number of journal records at which the memtable is sealed: replaying a record takes some ten
/// microseconds, however few events it has, and a start should take less than two seconds.
const RECORDS_MAX: usize = 100_000;

/// Events of one stream, immutable, with a cache of values that readers derive from them.
#[derive(Debug)]
pub struct Chunk {
    /// Typed columns with `time` and `_seq`.
    pub events: RecordBatch,
    /// First and last sequence number.
    pub seq: (u64, u64),
    /// Least and greatest event time, microseconds since 1970.
    pub time: (i64, i64),
    /// Values that the layers above have computed from this chunk, by rollup generation: each
    /// chunk's cells are computed once.
    derived: Memo,
}

impl Chunk {
    /// Adds sequence numbers to the events of a batch, one for each row.
    pub(crate) fn new(events: &RecordBatch, seqs: Vec<u64>) -> Result<Self> {
        let mut fields: Vec<Arc<Field>> = events.schema().fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(SEQ, DataType::UInt64, false)));
        let mut columns: Vec<ArrayRef> = events.columns().to_vec();
        columns.push(Arc::new(UInt64Array::from(seqs)));
        Self::of(RecordBatch::try_new(
            Arc::new(Schema::new(fields)),
            columns,
        )?)
    }

    fn of(events: RecordBatch) -> Result<Self> {
        let seqs: &UInt64Array = column(&events, SEQ);
        let times: &TimestampMicrosecondArray = column(&events, TIME);
        let seq = (seqs.value(0), seqs.value(seqs.len() - 1));
        let mut time = (i64::MAX, i64::MIN);
        for t in times.values() {
            time = (time.0.min(*t), time.1.max(*t));
        }
        Ok(Self {
            events,
            seq,
            time,
            derived: Memo::default(),
        })
    }

    /// Returns the bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.events.get_array_memory_size()
    }

    /// Returns the value derived under `generation`, which `make` computes the first time.
    pub fn derived<T: Any + Send + Sync>(
        &self,
        generation: u32,
        make: impl FnOnce(&RecordBatch) -> T,
    ) -> Arc<T> {
        self.derived.get(generation, || make(&self.events))
    }
}

pub(crate) fn column<'a, T: 'static>(events: &'a RecordBatch, name: &str) -> &'a T {
    events
        .column_by_name(name)
        .and_then(|c| c.as_any().downcast_ref())
        .expect("BUG: every chunk has time and _seq of their types")
}

/// Chunks by stream.
pub(crate) type Chunks = BTreeMap<Name, Vec<Arc<Chunk>>>;

/// Rows on their way into the memtable, buffered over many records, so that a stream of
/// one-event batches is not copied once for each batch.
#[derive(Debug, Default)]
pub(crate) struct RowBuffer(BTreeMap<Name, StreamRows>);

/// The buffered rows of one stream.
#[derive(Debug, Default)]
struct StreamRows {
    batches: Vec<RecordBatch>,
    seqs: Vec<u64>,
    bytes: usize,
    received_us: i64,
}

impl RowBuffer {
    /// Adds the rows of one record. When they do not fit to the rows buffered so far, those are
    /// appended to `memtable` first.
    pub(crate) fn add(
        &mut self,
        memtable: &mut Memtable,
        stream: &Name,
        rows: &RecordBatch,
        seqs: Vec<u64>,
        received_us: i64,
    ) -> Result<()> {
        if !self.0.contains_key(stream) {
            self.0.insert(stream.clone(), StreamRows::default());
        }
        let buffered = self.0.get_mut(stream).expect("BUG: inserted above");
        let bytes = rows.get_array_memory_size();
        if let Some(last) = buffered.batches.last()
            && (buffered.seqs.len() + seqs.len() > CHUNK_ROWS
                || buffered.bytes + bytes > CHUNK_BYTES
                || last.schema_ref() != rows.schema_ref())
        {
            std::mem::take(buffered).append_to(memtable, stream)?;
        }
        if buffered.batches.is_empty() {
            buffered.received_us = received_us;
        }
        buffered.batches.push(rows.clone());
        buffered.seqs.extend(seqs);
        buffered.bytes += bytes;
        Ok(())
    }

    /// Returns true when the last rows buffered for the stream share the schema object of
    /// `rows`.
    pub(crate) fn has_like(&self, stream: &Name, rows: &RecordBatch) -> bool {
        let last = self.0.get(stream).and_then(|r| r.batches.last());
        last.is_some_and(|last| Arc::ptr_eq(last.schema_ref(), rows.schema_ref()))
    }

    /// Appends all buffered rows to the memtable.
    pub(crate) fn append_to(self, memtable: &mut Memtable) -> Result<()> {
        for (stream, rows) in self.0 {
            rows.append_to(memtable, &stream)?;
        }
        Ok(())
    }
}

impl StreamRows {
    fn append_to(self, memtable: &mut Memtable, stream: &Name) -> Result<()> {
        let chunk = match self.batches.as_slice() {
            [] => return Ok(()),
            [only] => Chunk::new(only, self.seqs)?,
            many => Chunk::new(&concat_batches(&many[0].schema(), many)?, self.seqs)?,
        };
        memtable.append(stream, chunk, self.received_us)
    }
}

/// The memtable: events that arrived since the last seal began, and those that a running seal has
/// frozen.
#[derive(Debug, Default)]
pub(crate) struct Memtable {
    frozen: Chunks,
    active: Chunks,
    active_bytes: usize,
    frozen_bytes: usize,
    /// Journal records that no seal has taken yet.
    active_records: usize,
    /// Arrival time of the oldest active event, microseconds since 1970.
    pub(crate) oldest_us: Option<i64>,
}

impl Memtable {
    /// Adds a chunk and merges small neighbours.
    pub(crate) fn append(&mut self, stream: &Name, chunk: Chunk, now_us: i64) -> Result<()> {
        let chunks = self.active.entry(stream.clone()).or_default();
        let mut chunk = chunk;
        self.active_bytes += chunk.bytes();
        // Merge like a binary counter: a chunk is merged with its neighbour once it is as large,
        // so each row is copied a logarithmic number of times.
        while let Some(last) = chunks.last() {
            let rows = chunk.events.num_rows();
            let last_rows = last.events.num_rows();
            if last_rows > rows
                || last_rows + rows > CHUNK_ROWS
                || last.bytes() + chunk.bytes() > CHUNK_BYTES
                || last.events.schema() != chunk.events.schema()
            {
                break;
            }
            let merged = Chunk::of(concat_batches(
                &chunk.events.schema(),
                [&last.events, &chunk.events],
            )?)?;
            self.active_bytes -= last.bytes() + chunk.bytes();
            self.active_bytes += merged.bytes();
            chunks.pop();
            chunk = merged;
        }
        chunks.push(Arc::new(chunk));
        self.oldest_us.get_or_insert(now_us);
        Ok(())
    }

    /// Counts a journal record whose rows are, or will be, appended.
    pub(crate) fn count_record(&mut self) {
        self.active_records += 1;
    }

    /// Returns true when the memtable should be sealed: it holds `bytes_max` bytes, or so many
    /// records that a replay of the journal would take too long.
    pub(crate) fn is_full(&self, bytes_max: usize) -> bool {
        self.active_bytes >= bytes_max || self.active_records >= RECORDS_MAX
    }

    /// Freezes the active chunks for a seal and returns them.
    pub(crate) fn freeze(&mut self) -> Chunks {
        assert!(self.frozen.is_empty(), "BUG: one seal at a time");
        self.frozen = std::mem::take(&mut self.active);
        self.frozen_bytes = std::mem::take(&mut self.active_bytes);
        self.active_records = 0;
        self.oldest_us = None;
        self.frozen.clone()
    }

    /// Releases the chunks that a seal has committed.
    pub(crate) fn release(&mut self) {
        self.frozen.clear();
        self.frozen_bytes = 0;
    }

    /// Makes the chunks that a failed seal had frozen active again.
    pub(crate) fn thaw(&mut self, now_us: i64) {
        for (stream, mut chunks) in std::mem::take(&mut self.frozen) {
            let active = self.active.entry(stream).or_default();
            chunks.append(active);
            *active = chunks;
        }
        self.active_bytes += std::mem::take(&mut self.frozen_bytes);
        if !self.active.is_empty() {
            self.oldest_us = Some(now_us);
        }
    }

    /// Returns all chunks, oldest first.
    pub(crate) fn chunks(&self) -> Chunks {
        let mut all = self.frozen.clone();
        for (stream, chunks) in &self.active {
            all.entry(stream.clone())
                .or_default()
                .extend(chunks.iter().cloned());
        }
        all
    }

    /// Returns the bytes of memory held, frozen chunks included.
    pub(crate) fn bytes(&self) -> usize {
        self.active_bytes + self.frozen_bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.frozen.is_empty()
    }
}
