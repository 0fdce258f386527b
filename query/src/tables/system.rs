//! `system.*`: the state of the store as tables.
//!
//! Most of it comes from the snapshot. State that only a running store or server knows comes
//! through [`SystemInfo`]. The tables of background jobs and of disk space are in
//! `tables/system/upkeep.rs`, the table of indexes is in `tables/system/indexes.rs`.

mod indexes;
mod upkeep;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use aggregator::Level;
use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{Field, Schema};
use datafusion::common::Result;
use datafusion::datasource::{MemTable, TableProvider};
use serde::Serialize;
use storage::{Floor, JobEntry, Manifest, Name, QUARANTINE, Snapshot};

use crate::stats::QueryInfo;
use crate::tables::level::Rollup;
use crate::tables::stream::indexed::Heads;

/// Position up to which the store has taken the events of an ordered source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceInfo {
    /// Name of the source, as the source sends it.
    pub producer: String,
    /// End of the events that the store has taken, in the source's own counter.
    pub position: u64,
}

/// State that a snapshot does not have. Every method returns nothing by default.
pub trait SystemInfo: Send + Sync + Debug {
    /// Returns the ordered sources with their positions.
    fn sources(&self) -> Vec<SourceInfo> {
        Vec::new()
    }

    /// Returns the entries of the job log, oldest first, and the jobs under way.
    fn maintenance(&self) -> Vec<JobEntry> {
        Vec::new()
    }

    /// Returns the rollups that are no longer in the configuration.
    fn unwanted_rollups(&self) -> Vec<Name> {
        Vec::new()
    }

    /// Returns the error of the last seal, if it failed.
    fn last_error(&self) -> Option<String> {
        None
    }
}

/// Implementation without any state beyond the snapshot.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoSystemInfo;

impl SystemInfo for NoSystemInfo {}

/// Tables of the schema `system`.
pub(crate) const TABLES: [&str; 11] = [
    "disk",
    "indexes",
    "maintenance",
    "partitions",
    "parts",
    "quarantine",
    "queries",
    "rollups",
    "sources",
    "streams",
    "tiles",
];

/// Inputs of the tables.
pub(crate) struct View<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) system: &'a dyn SystemInfo,
    pub(crate) rollups: &'a BTreeMap<Name, Rollup>,
    pub(crate) queries: &'a [QueryInfo],
    pub(crate) heads: &'a Heads,
}

/// Returns the table `system.{name}`; `None` for an unknown name, and for `quarantine`, which is
/// a stream.
pub(crate) fn table(name: &str, view: &View<'_>) -> Result<Option<Arc<dyn TableProvider>>> {
    let columns = match name {
        "streams" => streams(view),
        "partitions" => partitions(view),
        "parts" => parts(view),
        "tiles" => tiles(view),
        "rollups" => rollups(view),
        "queries" => queries(view),
        "sources" => sources(view),
        "maintenance" => upkeep::maintenance(&view.system.maintenance()),
        "disk" => upkeep::disk(&storage::disk_use(view.snapshot)),
        "indexes" => indexes::indexes(view.snapshot, view.heads),
        _ => return Ok(None),
    };
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), arrays)?;
    Ok(Some(Arc::new(MemTable::try_new(
        schema,
        vec![vec![batch]],
    )?)))
}

type Column = (Field, ArrayRef);

fn column(name: &str, array: ArrayRef) -> Column {
    (Field::new(name, array.data_type().clone(), true), array)
}

fn text(name: &str, values: Vec<Option<String>>) -> Column {
    column(name, Arc::new(StringArray::from(values)))
}

fn int(name: &str, values: Vec<Option<u64>>) -> Column {
    let signed = values
        .into_iter()
        .map(|v| v.map(|v| i64::try_from(v).unwrap_or(i64::MAX)));
    column(name, Arc::new(signed.collect::<Int64Array>()))
}

fn number(name: &str, values: Vec<Option<f64>>) -> Column {
    column(name, Arc::new(Float64Array::from(values)))
}

fn stamp(name: &str, values: Vec<Option<i64>>) -> Column {
    column(
        name,
        Arc::new(TimestampMicrosecondArray::from(values).with_timezone("UTC")),
    )
}

fn flag(name: &str, values: Vec<Option<bool>>) -> Column {
    column(name, Arc::new(BooleanArray::from(values)))
}

/// Computes the values of one column.
fn of<R, T>(rows: &[R], value: impl Fn(&R) -> Option<T>) -> Vec<Option<T>> {
    rows.iter().map(value).collect()
}

/// Returns the variant of an enum as the manifest spells it.
fn word(value: impl Serialize) -> Option<String> {
    serde_json::to_value(value)
        .ok()?
        .as_str()
        .map(str::to_owned)
}

/// Totals, and ranges of times and sequence numbers, over some parts or chunks.
#[derive(Debug, Default, Clone)]
struct Sums {
    rows: u64,
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

fn memtable_sums(snapshot: &Snapshot, stream: &Name) -> Sums {
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

fn streams(view: &View<'_>) -> Vec<Column> {
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
        int(
            "columns",
            of(&rows, |r| {
                Some(crate::tables::stream::shown(r.1).len() as u64 + 1)
            }),
        ),
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

/// Builds one row for the live parts of a partition, and one for its detached parts.
fn partitions(view: &View<'_>) -> Vec<Column> {
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

fn parts(view: &View<'_>) -> Vec<Column> {
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

fn tiles(view: &View<'_>) -> Vec<Column> {
    let manifest = view.snapshot.manifest();
    let name = |id: u32| {
        manifest
            .rollups
            .iter()
            .find(|r| r.id == id)
            .map(|r| r.name.to_string())
    };
    let mut rows = Vec::new();
    for tile in &manifest.tiles {
        for file in &tile.files {
            rows.extend(file.sections.iter().map(|section| (tile, file, section)));
        }
    }
    vec![
        text("rollup", of(&rows, |r| name(r.0.rollup))),
        int("generation", of(&rows, |r| Some(u64::from(r.0.rollup)))),
        text("level", of(&rows, |r| Some(r.2.level.clone()))),
        stamp("partition", of(&rows, |r| Some(r.2.partition_us))),
        stamp("first_bucket", of(&rows, |r| Some(r.2.bucket_min_us))),
        stamp("last_bucket", of(&rows, |r| Some(r.2.bucket_max_us))),
        int("cells", of(&rows, |r| Some(r.2.cells))),
        int("events", of(&rows, |r| Some(r.2.events))),
        int("bytes", of(&rows, |r| Some(r.2.len))),
        int("first_seq", of(&rows, |r| Some(r.0.first_seq))),
        int("cutoff", of(&rows, |r| Some(r.0.cutoff))),
        text("path", of(&rows, |r| Some(r.1.file.path.clone()))),
    ]
}

/// Rollup, level, waiting events, cells, bytes, and the time from which buckets are complete.
type LevelRow<'a> = (&'a Rollup, Level, u64, u64, u64, Option<i64>);

/// Returns the retention floor of the level, if retention has dropped any of its buckets.
fn floor(row: &LevelRow<'_>) -> Option<Floor> {
    row.0.meta.floors.get(row.1.as_str()).copied()
}

/// Returns notes for the operator: actions that the rollup needs, or work to wait for.
fn note(rollup: &Rollup, manifest: &Manifest, unwanted: &[Name]) -> Option<String> {
    let meta = &rollup.meta;
    let mut notes = Vec::new();
    let outdated = aggregator::outdated_levels(manifest, meta, &rollup.definition);
    if !outdated.is_empty() {
        let levels: Vec<&str> = outdated.iter().map(|level| level.as_str()).collect();
        notes.push(format!(
            "{} has other rules since its levels {} were made; `logmill rollup redefine {}` counts them anew \
             by those of {}",
            rollup.definition.timezone().name(),
            levels.join(", "),
            meta.name,
            aggregator::zone::release()
        ));
    }
    if meta.counts_from_us().is_some() {
        let missing = meta.missing();
        notes.push(format!(
            "its history is being counted: {missing} events wait"
        ));
    }
    if unwanted.contains(&meta.name) {
        notes.push(format!(
            "the configuration does not have it; it is fed until `logmill rollup drop {}`",
            meta.name
        ));
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Builds one row for each rollup and level. `complete_from` is null if the rollup counts every
/// event of its stream; otherwise no bucket before it is complete.
fn rollups(view: &View<'_>) -> Vec<Column> {
    let manifest = view.snapshot.manifest();
    let last_error = view.system.last_error();
    let unwanted = view.system.unwanted_rollups();
    let mut rows: Vec<LevelRow<'_>> = Vec::new();
    for rollup in view.rollups.values() {
        let waiting = memtable_sums(view.snapshot, &rollup.meta.stream).rows;
        let detached = manifest.detached_of(&rollup.meta.stream);
        let older = manifest
            .parts_of(&rollup.meta.stream)
            .chain(detached.flat_map(|d| &d.parts))
            .filter(|p| p.seq.0 < rollup.meta.first_seq);
        let complete_from = older.map(|p| p.time.1.saturating_add(1)).max();
        let complete_from = complete_from.max(rollup.meta.complete_from_us());
        for level in rollup.definition.levels() {
            let tiles = manifest.tiles_of(rollup.meta.id);
            let sections = tiles.flat_map(|t| &t.files).flat_map(|f| &f.sections);
            let (mut cells, mut bytes) = (0, 0);
            for section in sections.filter(|s| s.level == level.as_str()) {
                cells += section.cells;
                bytes += section.len;
            }
            rows.push((rollup, *level, waiting, cells, bytes, complete_from));
        }
    }
    vec![
        text("name", of(&rows, |r| Some(r.0.meta.name.to_string()))),
        text("level", of(&rows, |r| Some(r.1.as_str().to_owned()))),
        int(
            "last_run",
            of(&rows, |r| Some(manifest.sealed_seq.max(r.0.meta.first_seq))),
        ),
        stamp("last_run_at", of(&rows, |_| Some(manifest.sealed_at_us))),
        int("waiting", of(&rows, |r| Some(r.2))),
        int("rows", of(&rows, |r| Some(r.3))),
        int("bytes", of(&rows, |r| Some(r.4))),
        stamp("complete_from", of(&rows, |r| r.5)),
        text("last_error", of(&rows, |_| last_error.clone())),
        int("last_ms", of(&rows, |_| Some(manifest.sealed_ms))),
        text("stream", of(&rows, |r| Some(r.0.meta.stream.to_string()))),
        text(
            "by",
            of(&rows, |r| {
                Some(
                    r.0.definition
                        .by()
                        .iter()
                        .map(|k| k.name.as_str())
                        .collect::<Vec<_>>()
                        .join(", "),
                )
            }),
        ),
        text(
            "timezone",
            of(&rows, |r| Some(r.0.definition.timezone().name().to_owned())),
        ),
        int("generation", of(&rows, |r| Some(u64::from(r.0.meta.id)))),
        stamp("floor", of(&rows, |r| floor(r).map(|f| f.from_us))),
        int("late", of(&rows, |r| floor(r).map(|f| f.late))),
        int("uncounted", of(&rows, |r| Some(r.0.meta.missing()))),
        text("note", of(&rows, |r| note(r.0, manifest, &unwanted))),
    ]
}

fn queries(view: &View<'_>) -> Vec<Column> {
    let rows = view.queries;
    vec![
        int("id", of(rows, |q| Some(q.id))),
        text("sql", of(rows, |q| Some(q.sql.clone()))),
        text("state", of(rows, |q| Some(q.state.to_string()))),
        stamp("started", of(rows, |q| Some(q.started_us))),
        int("elapsed_ms", of(rows, |q| Some(q.elapsed_ms))),
        int("rows_returned", of(rows, |q| Some(q.rows_returned))),
        int("partitions", of(rows, |q| Some(q.done.partitions.examined))),
        int("parts", of(rows, |q| Some(q.done.parts.total))),
        int("parts_done", of(rows, |q| Some(q.done.parts.examined))),
        int("rows", of(rows, |q| Some(q.done.rows_total))),
        int("rows_examined", of(rows, |q| Some(q.done.rows_examined))),
        int("bytes_read", of(rows, |q| Some(q.done.bytes_read))),
        number("percent", of(rows, |q| q.done.percent)),
        flag("cancelled", of(rows, |q| Some(q.cancelled))),
    ]
}

fn sources(view: &View<'_>) -> Vec<Column> {
    let rows = view.system.sources();
    vec![
        text("producer", of(&rows, |s| Some(s.producer.clone()))),
        int("position", of(&rows, |s| Some(s.position))),
    ]
}

/// Returns the name of the stream behind `system.quarantine`.
pub(crate) fn quarantine() -> Name {
    Name::new(QUARANTINE).expect("BUG: the quarantine has a name")
}
