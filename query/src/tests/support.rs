//! A store in a temporary directory, an engine, and access-log events.

use std::sync::Arc;

use aggregator::Cascade;
use arrow::array::{
    ArrayRef, Int16Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use serde_json::Value;
use storage::{
    Batch, ColumnType, Name, RollupHook, Snapshot, Store, StreamKind, WriteConcern, access_fields,
    arrow_schema,
};

use crate::{
    Engine, EngineOptions, NoSystemInfo, Peer, PeerBytes, PeerTables, QueryStats, Result, Session,
    Sources, Viewer,
};

pub(crate) const DAY_US: i64 = 86_400_000_000;

pub(crate) struct Fixture {
    _dir: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) engine: Engine,
}

impl Fixture {
    pub(crate) fn new(rollup_hook: Arc<dyn RollupHook>) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        // Each test decides what is sealed and compacted, and when.
        let config = storage::Config {
            tends: false,
            lag_us: i64::MAX,
            // The parts of tests are small.
            index_rows_min: 1,
            ..storage::Config::default()
        };
        let options = storage::Options {
            rollup_hook: rollup_hook.clone(),
            config,
            ..storage::Options::default()
        };
        let store = Store::open(dir.path(), options).expect("opens");
        let engine = Engine::new(EngineOptions {
            target_partitions: 2,
            ..EngineOptions::default()
        })
        .expect("starts");
        Self {
            _dir: dir,
            store,
            engine,
        }
    }

    pub(crate) fn without_rollups() -> Self {
        Self::new(Arc::new(storage::NoRollups))
    }

    pub(crate) fn with_defaults() -> Self {
        let config = aggregator::CascadeConfig::default();
        Self::new(Arc::new(
            Cascade::new(config).expect("the defaults are right"),
        ))
    }

    pub(crate) fn write(&self, stream: &str, kind: StreamKind, events: RecordBatch) {
        let batch = Batch {
            stream: Name::new(stream).expect("a name"),
            kind,
            received_us: 1_000_000,
            source: "test".into(),
            events,
            quarantine: Vec::new(),
            identity: None,
        };
        self.store
            .write(batch, WriteConcern::ACKNOWLEDGED)
            .expect("acknowledged");
    }

    pub(crate) async fn try_query(&self, sql: &str) -> Result<(Vec<Value>, QueryStats)> {
        self.query_with(sql, None).await
    }

    pub(crate) async fn query_with(
        &self,
        sql: &str,
        params: Option<Value>,
    ) -> Result<(Vec<Value>, QueryStats)> {
        self.query_of(self.store.snapshot(), sql, params).await
    }

    pub(crate) async fn query_of(
        &self,
        snapshot: Arc<Snapshot>,
        sql: &str,
        params: Option<Value>,
    ) -> Result<(Vec<Value>, QueryStats)> {
        let system = Arc::new(NoSystemInfo);
        let answer = self.engine.sql(snapshot, system, sql, params).await?;
        let (schema, batches, figures) = answer.collect().await?;
        let mut out = Vec::new();
        crate::answer::output::write(
            crate::answer::output::Output::Json,
            &schema,
            &batches,
            &mut out,
        )?;
        let Value::Array(rows) = serde_json::from_slice(&out).expect("JSON") else {
            panic!("an array")
        };
        Ok((rows, figures))
    }

    pub(crate) async fn rows(&self, sql: &str) -> Vec<Value> {
        self.try_query(sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e}"))
            .0
    }

    pub(crate) async fn figures(&self, sql: &str) -> QueryStats {
        self.try_query(sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e}"))
            .1
    }

    /// Returns the one value of a query with one row of one column.
    pub(crate) async fn value(&self, sql: &str) -> Value {
        let rows = self.rows(sql).await;
        assert_eq!(rows.len(), 1, "{sql}");
        rows[0]
            .as_object()
            .expect("a row")
            .values()
            .next()
            .expect("a column")
            .clone()
    }
}

/// An access-log event; what is `None` is null.
#[derive(Debug, Clone, Default)]
pub(crate) struct Event {
    pub(crate) time: i64,
    pub(crate) host: &'static str,
    pub(crate) user: Option<&'static str>,
    pub(crate) method: Option<&'static str>,
    pub(crate) path: Option<String>,
    pub(crate) query: Option<&'static str>,
    pub(crate) protocol: Option<&'static str>,
    pub(crate) request: Option<&'static str>,
    pub(crate) status: Option<i16>,
    pub(crate) size: Option<i64>,
    pub(crate) referrer: Option<&'static str>,
    pub(crate) agent: Option<&'static str>,
}

/// Returns the worked example of the specification.
pub(crate) fn example() -> Event {
    Event {
        // 2000-10-10T20:55:36Z
        time: 971_211_336_000_000,
        host: "127.0.0.1",
        user: Some("frank"),
        method: Some("GET"),
        path: Some("/apache_pb.gif".into()),
        protocol: Some("HTTP/1.0"),
        status: Some(200),
        size: Some(2326),
        referrer: Some("http://www.example.com/start.html"),
        agent: Some("Mozilla/4.08 [en] (Win98; I ;Nav)"),
        ..Event::default()
    }
}

/// Returns a repeatable mixture: hosts, paths with and without query, statuses, sizes, some nulls.
pub(crate) fn mixture(n: usize, from: i64, step: i64) -> Vec<Event> {
    const HOSTS: [&str; 7] = ["alpha", "beta", "gamma", "delta", "10.0.0.1", "::1", "host"];
    (0..n)
        .map(|i| Event {
            time: from + step * i as i64,
            host: HOSTS[i * 31 % 7],
            method: (i % 11 != 0).then_some("GET"),
            path: (i % 11 != 0).then(|| format!("/p{}", i * 17 % 13)),
            query: (i % 5 == 1).then_some("a=1"),
            protocol: (i % 3 != 0).then_some("HTTP/1.1"),
            request: (i % 11 == 0).then_some("garbage"),
            status: Some([200, 304, 404, 500][i % 4]),
            size: (i % 4 != 1).then_some((i as i64 * 7919) % 100_000),
            ..Event::default()
        })
        .collect()
}

/// Returns events as a batch of an access log.
pub(crate) fn batch(events: &[Event]) -> RecordBatch {
    let text = |value: &dyn Fn(&Event) -> Option<String>| -> ArrayRef {
        Arc::new(events.iter().map(value).collect::<StringArray>())
    };
    let of = |value: Option<&'static str>| value.map(str::to_owned);
    let columns: Vec<ArrayRef> = access_fields()
        .iter()
        .map(|column| match (&*column.name, column.column_type) {
            ("time", _) => {
                let times =
                    TimestampMicrosecondArray::from_iter_values(events.iter().map(|e| e.time));
                Arc::new(times.with_timezone("UTC")) as ArrayRef
            }
            ("status", _) => Arc::new(events.iter().map(|e| e.status).collect::<Int16Array>()),
            ("response_size", _) => Arc::new(events.iter().map(|e| e.size).collect::<Int64Array>()),
            ("host", _) => text(&|e| Some(e.host.to_owned())),
            ("user", _) => text(&|e| of(e.user)),
            ("method", _) => text(&|e| of(e.method)),
            ("path", _) => text(&|e| e.path.clone()),
            ("query", _) => text(&|e| of(e.query)),
            ("protocol", _) => text(&|e| of(e.protocol)),
            ("request", _) => text(&|e| of(e.request)),
            ("referrer", _) => text(&|e| of(e.referrer)),
            ("user_agent", _) => text(&|e| of(e.agent)),
            (_, ColumnType::Text) => text(&|_| None),
            (name, _) => panic!("an access log has a column {name} that this test does not know"),
        })
        .collect();
    RecordBatch::try_new(arrow_schema(&access_fields()), columns).expect("columns fit")
}

/// A store of this process as a peer.
#[derive(Debug)]
pub(crate) struct Near {
    name: String,
    tables: Arc<PeerTables>,
    engine: Engine,
    snapshot: Arc<Snapshot>,
}

impl Near {
    pub(crate) fn new(nth: usize, fixture: &Fixture) -> Self {
        let snapshot = fixture.store.snapshot();
        Self {
            name: format!("near {nth}"),
            tables: Arc::new(PeerTables::of(&snapshot, &Viewer::default())),
            engine: fixture.engine.clone(),
            snapshot,
        }
    }
}

impl Peer for Near {
    fn name(&self) -> &str {
        &self.name
    }
    fn tables(&self) -> &Arc<PeerTables> {
        &self.tables
    }
    fn end_seq(&self) -> u64 {
        self.snapshot.next_seq()
    }
    fn send(&self, request: Bytes) -> BoxFuture<'static, Result<PeerBytes>> {
        let sources = Sources::one(Arc::clone(&self.snapshot), Arc::new(NoSystemInfo));
        let answer = self
            .engine
            .answer_peer(sources, &Session::default(), request);
        async { Ok(answer.map(Ok).boxed()) }.boxed()
    }
}

/// A repeatable sequence of numbers.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Returns a number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % end
    }
}
