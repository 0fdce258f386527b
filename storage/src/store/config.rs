//! What a store is told when it is opened.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::env::{Clock, Fs, RealFs, SystemClock};
use crate::error::Error;
use crate::index::{INDEX_ROWS_MIN, IndexKind, IndexName};
use crate::manifest::{PartitionWidth, StreamMeta};
use crate::model::{Name, StreamKind, TIME, access_fields};
use crate::record::quarantine_columns;
use crate::retention::Retention;
use crate::rollup_hook::{NoRollups, RollupHook};

/// The most columns of a stream by default.
pub const COLUMNS_MAX: usize = 1000;

/// Figures of a store.
#[derive(Debug, Clone)]
pub struct Config {
    /// The memtable is sealed at this age at the latest, microseconds.
    pub lag_us: i64,
    /// And at this size, bytes of memory.
    pub memtable_bytes_max: usize,
    /// The journal is synced at least this often, milliseconds: what `w=1` may lose in a power cut.
    pub sync_interval_ms: u64,
    /// Whether tiles and parts are compacted, and the retention of levels applied, without being asked.
    pub tends: bool,
    /// The history of a rollup that is added is counted when the store opens if it has at most so
    /// many events, and in the background otherwise.
    pub backfill_at_once: u64,
    /// Rows of the days that one step of it counts, but for a single day of more.
    pub backfill_step_rows: u64,
    /// Whether the log of maintenance is written.
    pub keeps_log: bool,
    /// The most columns of a stream, besides those that the store gives it by itself; the values of
    /// further fields stay in `_rest`.
    pub columns_max: usize,
    /// Room that is kept back on the disk for dropping, detaching and a stop when it is full,
    /// bytes; at most a sixteenth of the disk.
    pub reserve_bytes: u64,
    /// Parts of fewer rows get no index.
    pub index_rows_min: u64,
    /// Streams that are not to have the defaults.
    pub streams: BTreeMap<Name, StreamConfig>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lag_us: 60_000_000,
            // About half a million access-log events. An import of ten million took 0.7 GiB at its
            // peak with this and 1.7 GiB with four times as much, for 4 % fewer bytes on disk.
            memtable_bytes_max: 128 << 20,
            sync_interval_ms: 100,
            tends: true,
            backfill_at_once: 1 << 16,
            backfill_step_rows: 1 << 20,
            keeps_log: true,
            columns_max: COLUMNS_MAX,
            reserve_bytes: 0,
            index_rows_min: INDEX_ROWS_MIN,
            streams: BTreeMap::new(),
        }
    }
}

/// How a stream is laid out when it is created, and what it gives up.
#[derive(Debug, Clone, Default)]
pub struct StreamConfig {
    /// The width of its partitions; a day when not said.
    pub partition: Option<PartitionWidth>,
    /// The columns by which parts are sorted; `host, time` for access logs, else `time`.
    pub order_by: Option<Vec<String>>,
    /// What its raw events may be kept for.
    pub retention: Retention,
    /// Columns that are to have an index.
    pub indexes: Vec<String>,
    /// Columns that are to have a covering one.
    pub covering: Vec<String>,
}

impl Config {
    /// The indexes that are asked for here.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = IndexName> {
        self.streams.iter().flat_map(|(stream, config)| {
            let of_kind = move |(fields, kind): (&'_ Vec<String>, IndexKind)| {
                let name = |field: &String| IndexName {
                    stream: stream.clone(),
                    field: field.clone(),
                    kind,
                };
                fields.iter().map(name).collect::<Vec<_>>()
            };
            let (indexes, covering) = (&config.indexes, &config.covering);
            let kinds = [
                (indexes, IndexKind::Inverted),
                (covering, IndexKind::Covering),
            ];
            kinds.into_iter().flat_map(of_kind)
        })
    }

    pub(crate) fn stream_meta(&self, name: &Name, kind: StreamKind, created_us: i64) -> StreamMeta {
        let config = self.streams.get(name).cloned().unwrap_or_default();
        let (columns, order_by) = match kind {
            StreamKind::Access => (access_fields(), vec!["host", TIME]),
            StreamKind::Quarantine => (quarantine_columns(), vec![TIME]),
            StreamKind::Documents => (Vec::new(), vec![TIME]),
        };
        let order_by = order_by.into_iter().map(str::to_owned).collect();
        StreamMeta {
            kind,
            partition: config.partition.unwrap_or_default(),
            order_by: config.order_by.unwrap_or(order_by),
            columns,
            created_us,
            sealed_events: 0,
            dropped: Vec::new(),
        }
    }
}

/// Told of a disk error after which nothing is taken any more.
pub(crate) type OnPoison = Arc<dyn Fn(&Error) + Send + Sync>;

/// The world that a store lives in.
#[derive(Clone)]
pub struct Options {
    /// The disk.
    pub fs: Arc<dyn Fs>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The aggregator.
    pub rollup_hook: Arc<dyn RollupHook>,
    /// Figures.
    pub config: Config,
    /// Called once after a disk error that poisons the store; the process should end with 74.
    pub on_poison: Option<OnPoison>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            fs: Arc::new(RealFs),
            clock: Arc::new(SystemClock),
            rollup_hook: Arc::new(NoRollups),
            config: Config::default(),
            on_poison: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
