//! The raw events that a rollup counts: from the parts of a snapshot and from its memtable.

use std::collections::BTreeSet;

use arrow::array::{RecordBatch, TimestampMicrosecondArray, UInt64Array};
use arrow::compute::filter_record_batch;
use storage::{Chunk, PartMeta, RollupMeta, SEQ, Snapshot, TIME, read_part};

use crate::calendar::Bucket;
use crate::definition::{Definition, Key};
use crate::error::{Error, Result};

/// The raw events of a window that the rollup's generation covers. The window consists of whole
/// days of the rollup.
pub(crate) struct RawEvents<'a> {
    snapshot: &'a Snapshot,
    meta: &'a RollupMeta,
    definition: &'a Definition,
    window: Bucket,
    /// Sorted by the time of their first event.
    sources: Vec<EventSource<'a>>,
}

/// A part, or a chunk of the memtable.
#[derive(Clone, Copy)]
enum EventSource<'a> {
    Part(&'a PartMeta),
    Chunk(&'a Chunk),
}

impl EventSource<'_> {
    fn time(&self) -> (i64, i64) {
        match self {
            Self::Part(part) => part.time,
            Self::Chunk(chunk) => chunk.time,
        }
    }

    fn rows(&self) -> u64 {
        match self {
            Self::Part(part) => part.rows,
            Self::Chunk(chunk) => chunk.events.num_rows() as u64,
        }
    }

    fn reaches(&self, window: Bucket) -> bool {
        let (first, last) = self.time();
        first < window.end_us && last >= window.start_us
    }
}

impl<'a> RawEvents<'a> {
    /// Selects the sealed events.
    pub(crate) fn sealed(
        snapshot: &'a Snapshot,
        meta: &'a RollupMeta,
        definition: &'a Definition,
        window: Bucket,
    ) -> Self {
        let parts = snapshot.manifest().parts_of(&meta.stream);
        let raw = Self {
            snapshot,
            meta,
            definition,
            window,
            sources: Vec::new(),
        };
        raw.with(parts.map(EventSource::Part))
    }

    /// Selects the sealed events and those in the memtable.
    pub(crate) fn all(
        snapshot: &'a Snapshot,
        meta: &'a RollupMeta,
        definition: &'a Definition,
        window: Bucket,
    ) -> Self {
        let chunks = snapshot.chunks(meta.stream.as_str()).iter();
        let sealed = Self::sealed(snapshot, meta, definition, window);
        sealed.with(chunks.map(|chunk| EventSource::Chunk(chunk)))
    }

    fn with(mut self, sources: impl Iterator<Item = EventSource<'a>>) -> Self {
        self.sources
            .extend(sources.filter(|s| s.reaches(self.window)));
        self.sources.sort_by_key(|s| s.time().0);
        self
    }

    pub(crate) fn definition(&self) -> &'a Definition {
        self.definition
    }

    /// Returns an upper bound for the number of events in a range of the window.
    pub(crate) fn rows_at_most(&self, window: Bucket) -> u64 {
        let sources = self.sources.iter().filter(|s| s.reaches(window));
        sources.map(EventSource::rows).sum()
    }

    /// Returns the number of parts and chunks with events of the window.
    pub(crate) fn sources(&self) -> usize {
        self.sources.len()
    }

    /// Returns the times of the first and the last event of a source, at most the window's.
    pub(crate) fn source_time(&self, nth: usize) -> (i64, i64) {
        let (first, last) = self.sources[nth].time();
        let (start_us, end_us) = (self.window.start_us, self.window.end_us);
        (first.max(start_us), last.min(end_us - 1))
    }

    /// Returns the events of a source, with the fields that the rollup reads.
    pub(crate) fn source_events(&self, nth: usize) -> Result<Vec<RecordBatch>> {
        self.read(self.sources[nth], &self.definition.fields(), self.window)
    }

    /// Returns the key fields of the events in a range of the window.
    pub(crate) fn keys(&self, window: Bucket) -> impl Iterator<Item = Result<Vec<RecordBatch>>> {
        let field = |key: &Key| key.value().field().to_owned();
        let fields: Vec<String> = self.definition.by().iter().map(field).collect();
        let sources = self.sources.iter().filter(move |s| s.reaches(window));
        sources.map(move |source| self.read(*source, &fields, window))
    }

    fn read(
        &self,
        source: EventSource<'_>,
        fields: &[String],
        window: Bucket,
    ) -> Result<Vec<RecordBatch>> {
        let columns: BTreeSet<&str> = fields.iter().map(String::as_str).collect();
        let columns: Vec<&str> = columns.into_iter().chain([TIME, SEQ]).collect();
        match source {
            EventSource::Chunk(chunk) => inside(
                std::slice::from_ref(&chunk.events),
                window,
                self.meta.first_seq,
            ),
            EventSource::Part(part) => {
                let bytes = self.snapshot.read(&part.file)?;
                let events =
                    read_part(bytes, Some(&columns)).map_err(|e| storage::Error::Corrupt {
                        path: self.snapshot.data_dir().join(&part.file.path),
                        offset: 0,
                        what: e.to_string(),
                    })?;
                inside(&events, window, self.meta.first_seq)
            }
        }
    }
}

/// Returns the events that a rollup counts when events before `from_us` still wait to be counted.
pub(crate) fn counted_from(events: &[RecordBatch], from_us: i64) -> Result<Vec<RecordBatch>> {
    let window = Bucket {
        start_us: from_us,
        end_us: i64::MAX,
    };
    inside(events, window, 0)
}

fn inside(events: &[RecordBatch], window: Bucket, first_seq: u64) -> Result<Vec<RecordBatch>> {
    let inside = |batch: &RecordBatch| {
        let times: &TimestampMicrosecondArray = column(batch, TIME)?;
        let seqs: &UInt64Array = column(batch, SEQ)?;
        let counted = times.values().iter().zip(seqs.values());
        let counted = counted.map(|(t, s)| window.contains(*t) && *s >= first_seq);
        Ok(filter_record_batch(batch, &counted.map(Some).collect())?)
    };
    let kept = events.iter().map(inside).collect::<Result<Vec<_>>>()?;
    Ok(kept.into_iter().filter(|b| b.num_rows() > 0).collect())
}

fn column<'a, T: 'static>(events: &'a RecordBatch, name: &str) -> Result<&'a T> {
    events
        .column_by_name(name)
        .and_then(|c| c.as_any().downcast_ref())
        .ok_or_else(|| {
            Error::invalid(format!(
                "raw events have no column {name} of the expected type"
            ))
        })
}
