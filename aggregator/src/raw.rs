//! The raw events that a rollup counts, read from the parts of a snapshot, one part at a time.

use std::collections::BTreeSet;

use arrow::array::{RecordBatch, TimestampMicrosecondArray, UInt64Array};
use arrow::compute::filter_record_batch;
use storage::{RollupMeta, SEQ, Snapshot, TIME, read_part};

use crate::calendar::Bucket;
use crate::definition::Definition;
use crate::error::{Error, Result};

/// The sealed events of a window, part by part: what the rollup's generation covers, and the columns
/// that its definition reads.
pub(crate) fn sealed<'a>(
    snapshot: &'a Snapshot,
    meta: &'a RollupMeta,
    definition: &Definition,
    window: Bucket,
) -> impl Iterator<Item = Result<Vec<RecordBatch>>> + 'a {
    let columns = columns(definition);
    let parts = snapshot.manifest().parts_of(&meta.stream);
    let reaches = move |time: (i64, i64)| time.0 < window.end_us && time.1 >= window.start_us;
    parts.filter(move |p| reaches(p.time)).map(move |part| {
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let bytes = snapshot.read(&part.file)?;
        let events = read_part(bytes, Some(&columns))
            .map_err(|e| Error::invalid(format!("{}: {e}", part.file.path)))?;
        inside(&events, window, meta.first_seq)
    })
}

/// The events of a window that are in memory.
pub(crate) fn in_memory<'a>(
    snapshot: &'a Snapshot,
    meta: &'a RollupMeta,
    window: Bucket,
) -> impl Iterator<Item = Result<Vec<RecordBatch>>> + 'a {
    let chunks = snapshot.chunks(meta.stream.as_str()).iter();
    chunks.map(move |c| inside(std::slice::from_ref(&c.events), window, meta.first_seq))
}

/// The columns of events that a definition reads.
fn columns(definition: &Definition) -> BTreeSet<String> {
    let own = [TIME, SEQ].map(str::to_owned);
    definition.fields().into_iter().chain(own).collect()
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
        .ok_or_else(|| Error::invalid(format!("raw events have no {name} of its type")))
}
