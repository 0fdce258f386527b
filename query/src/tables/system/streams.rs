//! The tables `system.streams`, `system.erasures`, `system.partitions` and `system.parts`.

use std::collections::BTreeMap;

use storage::{Name, Snapshot};

use super::{SystemColumn, SystemInputs, int, of, stamp, text, word};
use crate::tables::stream::column_count;

/// Totals, and ranges of times and sequence numbers, over some parts or chunks.
#[derive(Debug, Default, Clone)]
pub(super) struct Sums {
    pub(super) rows: u64,
    bytes: u64,
    count: u64,
    time: Option<(i64, i64)>,
    seq: Option<(u64, u64)>,
}

impl Sums {
    fn add(&mut self, rows: u64, bytes: u64, time: (i64, i64), seq: (u64, u64)) {
        self.rows += rows;
        self.bytes += bytes;
        self.count += 1;
        let known = self.time.unwrap_or(time);
        self.time = Some((known.0.min(time.0), known.1.max(time.1)));
        let known = self.seq.unwrap_or(seq);
        self.seq = Some((known.0.min(seq.0), known.1.max(seq.1)));
    }
}

pub(super) fn memtable_sums(snapshot: &Snapshot, stream: &Name) -> Sums {
    let mut sums = Sums::default();
    for chunk in snapshot.chunks(stream.as_str()) {
        sums.add(
            chunk.events.num_rows() as u64,
            chunk.bytes() as u64,
            chunk.time,
            chunk.seq,
        );
    }
    sums
}

pub(super) fn streams(view: &SystemInputs<'_>) -> Vec<SystemColumn> {
    let snapshot = view.snapshot;
    let rows: Vec<_> = snapshot
        .streams()
        .iter()
        .map(|(name, meta)| {
            let mut parts = Sums::default();
            for part in snapshot.manifest().parts_of(name) {
                parts.add(part.rows, part.file.len, part.time, part.seq);
            }
            let memtable = memtable_sums(snapshot, name);
            let time = match (parts.time, memtable.time) {
                (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
                (a, b) => a.or(b),
            };
            (name, meta, parts, memtable, time)
        })
        .collect();
    vec![
        text("name", of(&rows, |r| Some(r.0.to_string()))),
        text("kind", of(&rows, |r| word(r.1.kind))),
        text("partition", of(&rows, |r| word(r.1.partition))),
        text("order_by", of(&rows, |r| Some(r.1.order_by.join(", ")))),
        int("columns", of(&rows, |r| Some(column_count(r.1) as u64))),
        int("events", of(&rows, |r| Some(r.2.rows + r.3.rows))),
        int("parts", of(&rows, |r| Some(r.2.count))),
        int("bytes", of(&rows, |r| Some(r.2.bytes))),
        int("memtable_events", of(&rows, |r| Some(r.3.rows))),
        int("memtable_bytes", of(&rows, |r| Some(r.3.bytes))),
        stamp("first_time", of(&rows, |r| r.4.map(|t| t.0))),
        stamp("last_time", of(&rows, |r| r.4.map(|t| t.1))),
        stamp("created", of(&rows, |r| Some(r.1.created_us))),
    ]
}

/// Builds one row for each erasure of a stream: when and how much, and not what.
pub(super) fn erasures(view: &SystemInputs<'_>) -> Vec<SystemColumn> {
    let streams = view.snapshot.manifest().streams.iter();
    let rows = streams.flat_map(|(name, meta)| meta.erasures.iter().map(move |e| (name, e)));
    let rows: Vec<_> = rows.collect();
    vec![
        text("stream", of(&rows, |r| Some(r.0.to_string()))),
        stamp("time", of(&rows, |r| Some(r.1.at_us))),
        int("events", of(&rows, |r| Some(r.1.events))),
        int("still_counted", of(&rows, |r| Some(r.1.still_counted))),
    ]
}

/// Builds one row for the live parts of a partition, and one for its detached parts.
pub(super) fn partitions(view: &SystemInputs<'_>) -> Vec<SystemColumn> {
    let manifest = view.snapshot.manifest();
    let live = manifest.parts.iter().map(|p| (p, "live"));
    let detached = manifest.detached.iter().flat_map(|d| &d.parts);
    let mut sums: BTreeMap<(&Name, i64, &str), Sums> = BTreeMap::new();
    for (part, state) in live.chain(detached.map(|p| (p, "detached"))) {
        let key = (&part.stream, part.partition_us, state);
        let entry = sums.entry(key).or_default();
        entry.add(part.rows, part.file.len, part.time, part.seq);
    }
    let rows: Vec<_> = sums.into_iter().collect();
    vec![
        text("stream", of(&rows, |r| Some(r.0.0.to_string()))),
        stamp("partition", of(&rows, |r| Some(r.0.1))),
        int("parts", of(&rows, |r| Some(r.1.count))),
        int("rows", of(&rows, |r| Some(r.1.rows))),
        int("bytes", of(&rows, |r| Some(r.1.bytes))),
        stamp("first_time", of(&rows, |r| r.1.time.map(|t| t.0))),
        stamp("last_time", of(&rows, |r| r.1.time.map(|t| t.1))),
        int("first_seq", of(&rows, |r| r.1.seq.map(|s| s.0))),
        int("last_seq", of(&rows, |r| r.1.seq.map(|s| s.1))),
        text("state", of(&rows, |r| Some(r.0.2.to_owned()))),
        int(
            "complete_from",
            of(&rows, |r| manifest.complete_from(r.0.0, r.0.1)),
        ),
    ]
}

pub(super) fn parts(view: &SystemInputs<'_>) -> Vec<SystemColumn> {
    let rows = &view.snapshot.manifest().parts;
    vec![
        int("id", of(rows, |p| Some(p.id))),
        text("stream", of(rows, |p| Some(p.stream.to_string()))),
        stamp("partition", of(rows, |p| Some(p.partition_us))),
        text("path", of(rows, |p| Some(p.file.path.clone()))),
        int("rows", of(rows, |p| Some(p.rows))),
        int("bytes", of(rows, |p| Some(p.file.len))),
        stamp("first_time", of(rows, |p| Some(p.time.0))),
        stamp("last_time", of(rows, |p| Some(p.time.1))),
        int("first_seq", of(rows, |p| Some(p.seq.0))),
        int("last_seq", of(rows, |p| Some(p.seq.1))),
    ]
}
