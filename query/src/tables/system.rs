//! `system.*`: the state of the store as tables.
//!
//! Most of it comes from the snapshot. State that only a running store or server knows comes
//! through [`SystemInfo`]. The modules have the larger tables.

mod access;
mod indexes;
mod rollups;
mod store;
mod streams;
mod upkeep;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Field, Schema};
use datafusion::common::{Result, internal_err};
use datafusion::datasource::{MemTable, TableProvider};
use serde::Serialize;
use storage::{DiskForecast, JobEntry, Name, QUARANTINE, Snapshot};

use crate::question::Viewer;
use crate::stats::QueryInfo;
use crate::tables::level::Rollup;
use crate::tables::stream::indexed::Heads;

/// Position up to which the store has taken the events of an ordered source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SourceInfo {
    /// Name of the source, as the source sends it.
    pub producer: String,
    /// End of the events that the store has taken, in the source's own counter; `None` for a
    /// protocol, whose senders have no order.
    pub position: Option<u64>,
    /// `reading`, `waiting`, `stopped` or `idle`, of a source that the server itself reads.
    pub state: Option<&'static str>,
    /// Records that exist and are not stored yet, of such a source.
    pub lag: Option<u64>,
    /// Its last error, until it works again.
    pub error: Option<String>,
    /// Counts of a protocol.
    pub arrived: Option<Arrived>,
}

/// Counts of the items that came over one protocol for one stream, since the server started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Arrived {
    /// Name of the stream.
    pub stream: String,
    /// Items that came.
    pub received: u64,
    /// Items that were stored as events.
    pub stored: u64,
    /// Items that were kept in quarantine.
    pub quarantined: u64,
    /// Items that came again and were left out.
    pub duplicates: u64,
    /// Deliveries of which nothing was stored.
    pub refused: u64,
    /// Bytes of the items as they came, decompressed.
    pub bytes: u64,
    /// Time of the last delivery, microseconds since 1970.
    pub last_us: Option<i64>,
}

/// A user or a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountInfo {
    /// Its name.
    pub name: String,
    /// `user` or `token`.
    pub kind: &'static str,
    /// `ingest`, `read` or `admin`.
    pub role: &'static str,
    /// Patterns of its streams; none for all.
    pub streams: Vec<String>,
    /// Time of its creation, microseconds since 1970.
    pub created_us: i64,
    /// End of its validity, microseconds since 1970.
    pub expires_us: Option<i64>,
}

/// A failed login, or a change of accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditInfo {
    /// Time of the first one, microseconds since 1970.
    pub time_us: i64,
    /// `login failed` or `changed`.
    pub event: &'static str,
    /// The account, or the name that a login gave.
    pub who: String,
    /// Address of the client.
    pub address: Option<String>,
    /// The change.
    pub detail: String,
    /// The number of such logins within a minute.
    pub count: u64,
}

/// State of a store that the process that writes it knows, and its manifest does not.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StoreState {
    /// Exclusive end of the sequence numbers that are synced in the journal.
    pub durable_seq: u64,
    /// Space of the disk, and the time until it is full.
    pub disk: DiskForecast,
}

/// A shard of the cluster, as this server saw it last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardState {
    /// Its number.
    pub shard: u16,
    /// URL of its server, or `this server`.
    pub server: Option<String>,
    /// The epoch of its writer: the number of its starts and take-overs.
    pub epoch: Option<u32>,
    /// Sequence numbers that are not sealed.
    pub unsealed: Option<u64>,
    /// Messages of a shared journal that a start would read.
    pub behind: Option<u64>,
    /// Time of the last seal, microseconds since 1970.
    pub sealed_at_us: Option<i64>,
    /// The reason for which it takes no batches, or is not found.
    pub error: Option<String>,
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

    /// Returns the users and tokens.
    fn accounts(&self) -> Vec<AccountInfo> {
        Vec::new()
    }

    /// Returns the latest failed logins and changes of accounts, oldest first.
    fn audit(&self) -> Vec<AuditInfo> {
        Vec::new()
    }

    /// Returns the shards of the cluster, in their order.
    fn shards(&self) -> Vec<ShardState> {
        Vec::new()
    }

    /// Returns what only the process that writes the store knows of it.
    fn store(&self) -> Option<StoreState> {
        None
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

/// Returns the column of a table that has the stream or the rollup of each row; a client that
/// sees some streams only gets the rows of those. Other tables do not exist for it.
pub(crate) fn owner_column(table: &str) -> Option<&'static str> {
    match table {
        "erasures" | "indexes" | "partitions" | "parts" | "rollups" => Some("stream"),
        "streams" => Some("name"),
        "tiles" => Some("rollup"),
        _ => None,
    }
}

/// Returns whether the rows of a table belong to streams, or are left out by other means.
pub(crate) fn is_by_stream(table: &str) -> bool {
    table == "queries" || owner_column(table).is_some()
}

/// Returns whether a table has the state of a store. A question to several stores reads the rows
/// of all; other tables are of the server that is asked.
pub(crate) fn is_of_store(table: &str) -> bool {
    !matches!(table, "audit" | "queries" | "shards" | "users")
}

/// Keeps the rows that a client sees.
fn seen(table: &str, batch: RecordBatch, view: &SystemInputs<'_>) -> Result<RecordBatch> {
    let (false, Some(column)) = (view.viewer.sees_all(), owner_column(table)) else {
        return Ok(batch);
    };
    let names = batch.column_by_name(column);
    let names = names.and_then(|names| names.as_string_opt::<i32>());
    let Some(names) = names else {
        return internal_err!("system.{table} has no text column {column}");
    };
    let is_seen = |owner: &str| match table {
        "tiles" => {
            let rollup = view.rollups.get(owner);
            rollup.is_some_and(|rollup| view.viewer.sees(rollup.meta.stream.as_str()))
        }
        _ => view.viewer.sees(owner),
    };
    let kept: BooleanArray = names
        .iter()
        .map(|owner| Some(owner.is_some_and(is_seen)))
        .collect();
    Ok(filter_record_batch(&batch, &kept)?)
}

/// Tables of the schema `system`.
pub(crate) const TABLES: [&str; 16] = [
    "audit",
    "disk",
    "erasures",
    "indexes",
    "maintenance",
    "partitions",
    "parts",
    "quarantine",
    "queries",
    "rollups",
    "shards",
    "sources",
    "store",
    "streams",
    "tiles",
    "users",
];

/// Inputs of the tables.
pub(crate) struct SystemInputs<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) system: &'a dyn SystemInfo,
    pub(crate) rollups: &'a BTreeMap<Name, Rollup>,
    pub(crate) queries: &'a [QueryInfo],
    pub(crate) heads: &'a Heads,
    pub(crate) viewer: &'a Viewer,
}

/// Returns the table `system.{name}`; `None` for an unknown name, and for `quarantine`, which is
/// a stream.
pub(crate) fn table(name: &str, view: &SystemInputs<'_>) -> Result<Option<Arc<dyn TableProvider>>> {
    let columns = match name {
        "streams" => streams::streams(view),
        "erasures" => streams::erasures(view),
        "partitions" => streams::partitions(view),
        "parts" => streams::parts(view),
        "tiles" => rollups::tiles(view),
        "rollups" => rollups::rollups(view),
        "queries" => queries(view),
        "shards" => shards(view),
        "sources" => sources(view),
        "maintenance" => upkeep::maintenance(&view.system.maintenance()),
        "store" => store::store(view),
        "disk" => upkeep::disk(&storage::disk_use(view.snapshot)),
        "audit" => access::audit(&view.system.audit()),
        "users" => access::users(&view.system.accounts()),
        "indexes" => indexes::indexes(view.snapshot, view.heads),
        _ => return Ok(None),
    };
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    let schema = Arc::new(Schema::new(fields));
    let batch = seen(name, RecordBatch::try_new(schema.clone(), arrays)?, view)?;
    Ok(Some(Arc::new(MemTable::try_new(
        schema,
        vec![vec![batch]],
    )?)))
}

type SystemColumn = (Field, ArrayRef);

fn column(name: &str, array: ArrayRef) -> SystemColumn {
    (Field::new(name, array.data_type().clone(), true), array)
}

fn text(name: &str, values: Vec<Option<String>>) -> SystemColumn {
    column(name, Arc::new(StringArray::from(values)))
}

fn int(name: &str, values: Vec<Option<u64>>) -> SystemColumn {
    let signed = values
        .into_iter()
        .map(|v| v.map(|v| i64::try_from(v).unwrap_or(i64::MAX)));
    column(name, Arc::new(signed.collect::<Int64Array>()))
}

fn number(name: &str, values: Vec<Option<f64>>) -> SystemColumn {
    column(name, Arc::new(Float64Array::from(values)))
}

fn stamp(name: &str, values: Vec<Option<i64>>) -> SystemColumn {
    column(
        name,
        Arc::new(TimestampMicrosecondArray::from(values).with_timezone("UTC")),
    )
}

fn flag(name: &str, values: Vec<Option<bool>>) -> SystemColumn {
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

fn queries(view: &SystemInputs<'_>) -> Vec<SystemColumn> {
    let rows = view.queries;
    vec![
        int("id", of(rows, |q| Some(q.id))),
        text("client", of(rows, |q| q.client.clone())),
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

fn sources(view: &SystemInputs<'_>) -> Vec<SystemColumn> {
    let rows = view.system.sources();
    let count =
        |of_arrived: fn(&Arrived) -> u64| of(&rows, move |s| s.arrived.as_ref().map(of_arrived));
    vec![
        text("producer", of(&rows, |s| Some(s.producer.clone()))),
        int("position", of(&rows, |s| s.position)),
        text("state", of(&rows, |s| s.state.map(str::to_owned))),
        int("lag", of(&rows, |s| s.lag)),
        text("error", of(&rows, |s| s.error.clone())),
        text(
            "stream",
            of(&rows, |s| s.arrived.as_ref().map(|a| a.stream.clone())),
        ),
        int("received", count(|a| a.received)),
        int("stored", count(|a| a.stored)),
        int("quarantined", count(|a| a.quarantined)),
        int("duplicates", count(|a| a.duplicates)),
        int("refused", count(|a| a.refused)),
        int("bytes", count(|a| a.bytes)),
        stamp("last_at", of(&rows, |s| s.arrived.as_ref()?.last_us)),
    ]
}

fn shards(view: &SystemInputs<'_>) -> Vec<SystemColumn> {
    let rows = view.system.shards();
    vec![
        int("shard", of(&rows, |s| Some(u64::from(s.shard)))),
        text("server", of(&rows, |s| s.server.clone())),
        int("epoch", of(&rows, |s| s.epoch.map(u64::from))),
        int("unsealed", of(&rows, |s| s.unsealed)),
        int("behind", of(&rows, |s| s.behind)),
        stamp("sealed_at", of(&rows, |s| s.sealed_at_us)),
        text("error", of(&rows, |s| s.error.clone())),
    ]
}

/// Returns the name of the stream behind `system.quarantine`.
pub(crate) fn quarantine() -> Name {
    Name::new(QUARANTINE).expect("BUG: the quarantine has a name")
}
