//! Several stores that answer together, beside one store with the events of all; and requests that
//! no peer would send.

mod floors;
mod hinted;
mod ruled_out;
mod system;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::array::{BooleanArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use bytes::Bytes;
use datafusion::common::TableReference;
use datafusion::logical_expr::{Expr, col, exists, lit};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use serde_json::{Value, json};
use storage::StreamKind;

use crate::answer::output::{Output, write};
use crate::tables::sharded::fragment::{Fragment, FragmentStep, ReadHints};
use crate::tables::sharded::frame::{Frame, Frames};
use crate::tables::sharded::request::Request;
use crate::tests::replay::replay;
use crate::tests::support::{Event, Fixture, Near, batch, mixture};
use crate::{
    Engine, EngineOptions, Error, GonePeer, NoSystemInfo, Parameters, Peer, PeerBytes, PeerTables,
    QueryStats, Result, Session, Sources, Viewer,
};

/// 2026-10-24T00:00:00Z: Berlin changes its clocks on the next day.
const START: i64 = 1_792_800_000_000_000;

/// Several stores; the first is the one that is asked.
struct Several(Vec<Fixture>);

impl Several {
    fn peers(&self) -> Vec<Arc<dyn Peer>> {
        let others = self.0.iter().enumerate().skip(1);
        let peers = others.map(|(nth, store)| Arc::new(Near::new(nth, store)) as _);
        peers.collect()
    }

    fn changed(&self, change: fn(PeerBytes) -> PeerBytes) -> Vec<Arc<dyn Peer>> {
        let peers = self.peers().into_iter();
        peers
            .map(|peer| Arc::new(Changed(peer, change)) as _)
            .collect()
    }

    fn sources(&self, peers: Vec<Arc<dyn Peer>>, gone: Vec<GonePeer>) -> Sources {
        let own = Sources::one(self.0[0].store.snapshot(), Arc::new(NoSystemInfo));
        own.with_peers(peers, gone)
    }

    async fn ask(&self, sources: Sources, partial: bool, sql: &str) -> Result<(Value, QueryStats)> {
        let session = Session {
            partial,
            ..Session::default()
        };
        let none = Parameters::None;
        let answer = self.0[0].engine.ask(sources, &session, sql.into(), none);
        let (schema, batches, figures) = answer.await?.collect().await?;
        let mut out = Vec::new();
        write(Output::Json, &schema, &batches, &mut out)?;
        Ok((serde_json::from_slice(&out).expect("JSON"), figures))
    }

    async fn rows(&self, sql: &str) -> Value {
        let sources = self.sources(self.peers(), Vec::new());
        let asked = self.ask(sources, false, sql).await;
        asked.unwrap_or_else(|e| panic!("{sql}: {e}")).0
    }

    async fn refused(&self, sql: &str) -> String {
        let sources = self.sources(self.peers(), Vec::new());
        let asked = self.ask(sources, false, sql).await;
        asked.expect_err("an error").to_string()
    }
}

/// Returns `count` stores and one with the events of all: in parts, in memory, and of days that
/// only some of them have.
fn several(count: usize, fixture: impl Fn() -> Fixture) -> (Several, Fixture) {
    let (stores, one) = ((0..count).map(|_| fixture()).collect::<Vec<_>>(), fixture());
    for round in 0..4 {
        let events = mixture(300, START + round * 86_400_000_000, 400_000_000);
        let mut of_stores: Vec<Vec<Event>> = vec![Vec::new(); count];
        for (nth, event) in events.iter().enumerate() {
            // The last store has no event of the first day.
            let within = if round == 0 { count - 1 } else { count };
            of_stores[nth * 7 % within.max(1)].push(event.clone());
        }
        one.write("access", StreamKind::Access, batch(&events));
        for (store, events) in stores.iter().zip(&of_stores) {
            if !events.is_empty() {
                store.write("access", StreamKind::Access, batch(events));
            }
            if round == 1 {
                store.store.seal().expect("seals");
            }
        }
        if round < 3 {
            one.store.seal().expect("seals");
        }
    }
    (Several(stores), one)
}

fn sorted(rows: Value) -> Vec<String> {
    let Value::Array(rows) = rows else {
        panic!("rows")
    };
    let mut texts: Vec<String> = rows.iter().map(ToString::to_string).collect();
    texts.sort();
    texts
}

/// The agreement of the stores is kept from one question to the next.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_finds_the_tables_that_its_stores_have_now() {
    let (several, _) = several(3, Fixture::with_defaults);
    let events = mixture(30, START, 1_000_000);
    let mut expected = 0;
    for store in [1, 2, 0] {
        let sql = format!("SELECT count(*) AS n FROM later_{store}");
        several.refused(&sql).await;
        let name = format!("later_{store}");
        several.0[store].write(&name, StreamKind::Access, batch(&events));
        assert_eq!(several.rows(&sql).await, json!([{ "n": 30 }]), "{sql}");
        several.0[store].write("later", StreamKind::Access, batch(&events));
        expected += 30;
        let all = several.rows("SELECT count(*) AS n FROM later").await;
        assert_eq!(all, json!([{ "n": expected }]));
    }
    // The own store gets columns while the peers keep their tables.
    let rows = |column: &str| {
        let values = Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef;
        documents(&[(column, values)])
    };
    several.0[1].write("notes", StreamKind::Documents, rows("a"));
    let peers = several.peers();
    for column in ["b", "c"] {
        several.0[0].write("notes", StreamKind::Documents, rows(column));
        for column in ["a", column] {
            let sql = format!("SELECT sum({column}) AS n FROM notes");
            let sources = several.sources(peers.clone(), Vec::new());
            let asked = several.ask(sources, false, &sql).await;
            assert_eq!(asked.expect(&sql).0, json!([{ "n": 3 }]), "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_levels_and_documents_of_several_stores_are_those_of_one() {
    for count in [2, 3, 16] {
        let (several, one) = several(count, Fixture::with_defaults);
        let tables = "SELECT table_schema || '.' || table_name AS t FROM information_schema.tables \
                      WHERE table_schema IN ('stats', 'traffic') ORDER BY 1";
        let tables = several.rows(tables).await;
        let tables = tables.as_array().expect("rows").clone();
        assert!(tables.len() > 8, "{tables:?}");
        for table in tables {
            let sql = format!("SELECT * FROM {}", table["t"].as_str().expect("a name"));
            let expected = sorted(Value::Array(one.rows(&sql).await));
            assert!(!expected.is_empty(), "{sql}");
            assert_eq!(sorted(several.rows(&sql).await), expected, "{count}: {sql}");
        }
        // The cells come with the states of the columns that are read.
        for level in ["stats.hourly", "stats.daily", "traffic.minutely"] {
            let columns = "SELECT column_name AS c FROM information_schema.columns \
                           WHERE table_schema || '.' || table_name = '{}'";
            let columns = several.rows(&columns.replace("{}", level)).await;
            for column in columns.as_array().expect("rows") {
                let column = column["c"].as_str().expect("a name");
                let sql = format!("SELECT bucket, status, \"{column}\" AS c FROM {level}");
                let sql = match level.starts_with("stats") {
                    true => sql.replace("status", "path"),
                    false => sql,
                };
                let expected = sorted(Value::Array(one.rows(&sql).await));
                assert_eq!(sorted(several.rows(&sql).await), expected, "{count}: {sql}");
            }
        }
        let filtered = "SELECT bucket, hits, size FROM stats.hourly WHERE path = '/p3' \
                        AND bucket >= TIMESTAMP '2026-10-25T00:00:00Z' ORDER BY bucket";
        let expected = Value::Array(one.rows(filtered).await);
        assert_eq!(several.rows(filtered).await, expected, "{count}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_compute_the_parts_of_aggregates_and_the_first_rows() {
    let (several, one) = several(3, Fixture::with_defaults);
    let sent = async |sql: &str| {
        let peers = several.changed(counted);
        let sources = several.sources(peers, Vec::new());
        let (found, figures) = several.ask(sources, false, sql).await.expect("an answer");
        let by = &figures.answered_by;
        assert!(by.contains(&"peer near 1".to_owned()), "{sql}: {by:?}");
        (found, BYTES.swap(0, Ordering::Relaxed))
    };
    let (_, of_rows) = sent("SELECT * FROM access").await;
    for sql in [
        "SELECT status, count(*) AS n, sum(response_size) AS b, avg(response_size) AS a, \
         min(time) AS f FROM access GROUP BY status ORDER BY status",
        "SELECT count(*) AS n FROM access WHERE host <> 'beta'",
        "SELECT time, host FROM access WHERE status < 500 ORDER BY time DESC LIMIT 5",
    ] {
        let (found, bytes) = sent(sql).await;
        assert_eq!(found, Value::Array(one.rows(sql).await), "{sql}");
        assert!(bytes * 4 < of_rows, "{bytes} bytes of {of_rows}: {sql}");
    }
}

static BYTES: AtomicUsize = AtomicUsize::new(0);

/// A peer whose answers are changed on their way.
#[derive(Debug)]
struct Changed(Arc<dyn Peer>, fn(PeerBytes) -> PeerBytes);

impl Peer for Changed {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn tables(&self) -> &Arc<PeerTables> {
        self.0.tables()
    }
    fn end_seq(&self) -> u64 {
        self.0.end_seq()
    }
    fn send(&self, request: Bytes) -> BoxFuture<'static, Result<PeerBytes>> {
        let (sent, change) = (self.0.send(request), self.1);
        async move { Ok(change(sent.await?)) }.boxed()
    }
}

/// Counts the bytes of an answer.
fn counted(answer: PeerBytes) -> PeerBytes {
    let count = |bytes: &Result<Bytes>| {
        let bytes = bytes.as_ref().map_or(0, Bytes::len);
        BYTES.fetch_add(bytes, Ordering::Relaxed);
    };
    answer.inspect(count).boxed()
}

/// Takes the last frame away.
fn cut_off(answer: PeerBytes) -> PeerBytes {
    let all = async {
        let all: Vec<_> = answer.collect().await;
        let but_the_last = all.len() - 1;
        futures::stream::iter(all).take(but_the_last)
    };
    all.flatten_stream().boxed()
}

fn documents(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    let times = TimestampMicrosecondArray::from_iter_values([START, START + 1]);
    let times = Arc::new(times.with_timezone("UTC")) as ArrayRef;
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let mut fields = vec![Field::new("time", time, false)];
    let columns = columns.iter();
    fields.extend(
        columns
            .clone()
            .map(|(name, column)| Field::new(*name, column.data_type().clone(), true)),
    );
    let arrays = std::iter::once(times).chain(columns.map(|(_, column)| Arc::clone(column)));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays.collect()).expect("columns")
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_agree_upon_columns_that_one_lacks_or_has_otherwise() {
    let several = Several((0..3).map(|_| Fixture::without_rollups()).collect());
    let integers = || Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef;
    let floats = Arc::new(Float64Array::from(vec![0.5, 1.0])) as ArrayRef;
    let texts = || Arc::new(StringArray::from(vec!["1", "x"])) as ArrayRef;
    let flags = Arc::new(BooleanArray::from(vec![true, false])) as ArrayRef;
    let batches = [
        documents(&[("n", integers()), ("own", texts()), ("mixed", integers())]),
        documents(&[("n", floats), ("mixed", texts())]),
        documents(&[("mixed", flags), ("theirs", texts())]),
    ];
    for (store, batch) in several.0.iter().zip(batches) {
        store.write("app", StreamKind::Documents, batch);
    }
    let rows = several.rows("SELECT n, own, mixed, theirs FROM app").await;
    let expected = [
        r#"{"n":0.5,"own":null,"mixed":"1","theirs":null}"#,
        r#"{"n":1.0,"own":"1","mixed":"1","theirs":null}"#,
        r#"{"n":1.0,"own":null,"mixed":"x","theirs":null}"#,
        r#"{"n":2.0,"own":"x","mixed":"2","theirs":null}"#,
        r#"{"n":null,"own":null,"mixed":"false","theirs":"x"}"#,
        r#"{"n":null,"own":null,"mixed":"true","theirs":"1"}"#,
    ];
    assert_eq!(sorted(rows), expected);
    let rows = several
        .rows("SELECT count(*) AS n FROM app WHERE n >= 1")
        .await;
    assert_eq!(rows[0]["n"], 3);
    // A stream that only a peer has, and one that is of another kind there.
    several.0[1].write(
        "far",
        StreamKind::Documents,
        documents(&[("n", integers())]),
    );
    assert_eq!(several.rows("SELECT sum(n) AS n FROM far").await[0]["n"], 3);
    several.0[2].write(
        "app2",
        StreamKind::Documents,
        documents(&[("n", integers())]),
    );
    several.0[0].write("app2", StreamKind::Access, batch(&mixture(1, START, 1)));
    let refused = several.refused("SELECT * FROM app2").await;
    assert!(
        refused.contains("documents there and access elsewhere"),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_of_large_unsigned_integers_are_those_of_one_store() {
    let (several, one) = several(3, Fixture::with_defaults);
    // 400 events of 2^54 exceed what a signed integer holds, and all 1,200 what any does.
    let sum = "SELECT sum(arrow_cast(18014398509481984, 'UInt64')) AS n FROM access WHERE status ";
    let sql = format!("{sum} IN (200, 304)");
    assert_eq!(several.rows(&sql).await, Value::Array(one.rows(&sql).await));
    let sql = format!("{sum} > 0");
    let expected = one.try_query(&sql).await.expect_err("an error").to_string();
    assert_eq!(several.refused(&sql).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_is_gone_is_an_error_or_left_out_by_name() {
    let (several, _) = several(3, Fixture::with_defaults);
    let gone = vec![GonePeer {
        name: "http://far:1".to_owned(),
        why: "connection refused".to_owned(),
    }];
    for sql in [
        "SELECT count(*) AS n FROM access",
        "SELECT sum(hits) AS n FROM stats.daily",
    ] {
        let sources = || several.sources(several.peers(), gone.clone());
        let refused = several
            .ask(sources(), false, sql)
            .await
            .expect_err("an error");
        assert!(matches!(refused, Error::Peer { .. }), "{refused}");
        let text = "peer http://far:1: connection refused; start it again, or send ?partial=1";
        assert!(refused.to_string().starts_with(text), "{refused}");
        let (rows, figures) = several.ask(sources(), true, sql).await.expect("an answer");
        assert_eq!(rows[0]["n"], 1_200, "{sql}");
        assert_eq!(figures.incomplete, ["http://far:1"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_level_is_refused_where_a_store_counts_otherwise() {
    let stores = vec![Fixture::with_defaults(), Fixture::without_rollups()];
    for store in &stores {
        store.write("access", StreamKind::Access, batch(&mixture(9, START, 1)));
    }
    let several = Several(stores);
    assert_eq!(
        several.rows("SELECT count(*) AS n FROM access").await[0]["n"],
        18
    );
    let refused = several.refused("SELECT * FROM stats.daily").await;
    let text = "rollup stats: peer near 1 has its stream without it; define it alike in all stores";
    assert!(refused.contains(text), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_cut_off_or_fails_is_an_error_of_the_question() {
    let (several, _) = several(2, Fixture::with_defaults);
    for sql in ["SELECT host FROM access", "SELECT hits FROM stats.daily"] {
        let cut = several.changed(cut_off);
        let sources = several.sources(cut, Vec::new());
        let refused = several
            .ask(sources, false, sql)
            .await
            .expect_err("an error");
        assert_eq!(
            refused.message(),
            "peer near 1: its answer was cut off",
            "{sql}"
        );
    }
    // The query's own fault is told as it is on one store.
    let refused = several
        .refused("SELECT CAST(host AS BIGINT) FROM access")
        .await;
    assert!(refused.contains("Cannot cast"), "{refused}");
}

fn request(steps: Vec<FragmentStep>) -> Request {
    Request::Rows {
        fragment: Fragment {
            stream: "access".to_owned(),
            relation: TableReference::bare("access"),
            columns: vec![
                ("host".to_owned(), DataType::Utf8View),
                ("status".to_owned(), DataType::Int16),
            ],
            steps,
            hints: ReadHints {
                no_rollup: true,
                indexes: Some(vec!["host".to_owned()]),
            },
        },
        time_zone: Some("Europe/Berlin".to_owned()),
    }
}

fn requests() -> Vec<Request> {
    let state = engine().state().clone();
    let function = |name: &str, arg: Expr| state.aggregate_functions()[name].call(vec![arg]);
    let filter = FragmentStep::Filter(col("access.status").gt(lit(399_i16)));
    vec![
        request(vec![filter.clone(), FragmentStep::Limit(7)]),
        request(vec![
            filter,
            FragmentStep::Alias(TableReference::partial("public", "a")),
            FragmentStep::Group {
                by: vec![col("a.host").alias("k")],
                aggregates: vec![
                    function("count", lit(1_i64)),
                    function("sum", col("a.status")).alias("s"),
                ],
            },
            FragmentStep::First {
                by: vec![col("k").sort(false, true)],
                fetch: 3,
            },
            FragmentStep::Project(vec![col("s")]),
        ]),
        Request::Cells {
            rollup: "stats".to_owned(),
            level: aggregator::Level::Hour,
            columns: vec!["bucket".to_owned(), "hits".to_owned()],
            filter: aggregator::Filter {
                from_us: -5,
                to_us: i64::MAX,
                keys: vec![
                    None,
                    Some(vec![
                        aggregator::KeyValue::Null,
                        aggregator::KeyValue::Int(-3),
                        aggregator::KeyValue::Text("/a".to_owned()),
                    ]),
                ],
            },
        },
    ]
}

fn engine() -> Engine {
    Engine::new(EngineOptions::default()).expect("an engine")
}

#[test]
fn a_request_is_decoded_as_it_was_encoded() {
    let functions = engine().state().task_ctx();
    for request in requests() {
        let bytes = request.encode().expect("encoded");
        assert_eq!(
            Request::decode(&bytes, &functions).expect("decoded"),
            request
        );
    }
}

#[test]
fn a_request_for_more_than_the_rows_of_a_stream_is_refused() {
    let functions = engine().state().task_ctx();
    let refused = |request: &Request| -> String {
        let bytes = request.encode().expect("encoded");
        let refused = Request::decode(&bytes, &functions).expect_err("refused");
        refused.to_string()
    };
    let empty = datafusion::logical_expr::LogicalPlanBuilder::empty(true);
    let empty = Arc::new(empty.build().expect("a plan"));
    let subquery = Expr::ScalarSubquery(datafusion::logical_expr::Subquery {
        subquery: Arc::clone(&empty),
        outer_ref_columns: Vec::new(),
        spans: Default::default(),
    });
    let told = refused(&request(vec![FragmentStep::Project(vec![subquery])]));
    assert!(told.contains("the columns of a row alone"), "{told}");
    // Others cannot even be written.
    let other = request(vec![FragmentStep::Filter(exists(empty))]);
    assert!(other.encode().is_err());
    let Request::Rows { mut fragment, .. } = request(Vec::new()) else {
        panic!("of rows")
    };
    let deep = (0..20).fold(DataType::Int64, |inner, _| {
        DataType::List(Arc::new(Field::new("item", inner, true)))
    });
    fragment.columns[0].1 = deep;
    let told = refused(&Request::Rows {
        fragment,
        time_zone: None,
    });
    assert!(told.contains("such a long name"), "{told}");
}

/// Decodes a request of anybody: one that is accepted is encoded again to one that means the same,
/// and its plan is made or refused.
fn peer_request(bytes: &[u8]) {
    thread_local! {
        static FUNCTIONS: Arc<datafusion::execution::TaskContext> = engine().state().task_ctx();
    }
    FUNCTIONS.with(|functions| {
        let Ok(request) = Request::decode(bytes, functions) else {
            return;
        };
        if let Ok(again) = request.encode() {
            let again = Request::decode(&again, functions).expect("decoded again");
            assert_eq!(format!("{again:?}"), format!("{request:?}"));
        }
        if let Request::Rows { fragment, .. } = request {
            let rows = datafusion::logical_expr::LogicalPlanBuilder::empty(false);
            let _either = fragment.plan(rows.build().expect("no rows"));
        }
    });
}

#[test]
fn no_request_stops_the_server() {
    replay("peer_request", peer_request);
}

#[test]
fn frames_are_read_however_they_are_cut() {
    let frames = [
        Frame::Rows(Bytes::from_static(b"abc")),
        Frame::Failed(Error::invalid("a fault")),
        Frame::End,
    ];
    let bytes: Vec<u8> = frames.into_iter().flat_map(Frame::encode).collect();
    for cut in 0..bytes.len() {
        let (mut reader, mut read) = (Frames::default(), Vec::new());
        for piece in [&bytes[..cut], &bytes[cut..]] {
            reader.add(piece);
            while let Some(frame) = reader.next("near").expect("a frame") {
                read.push(format!("{frame:?}"));
            }
        }
        assert_eq!(read.len(), 3, "{cut}: {read:?}");
        assert!(read[1].contains("a fault"), "{read:?}");
    }
    let mut reader = Frames::default();
    reader.add(&[9, 0, 0, 0, 0]);
    assert!(reader.next("near").is_err());
    let mut reader = Frames::default();
    reader.add(&[1, 255, 255, 255, 255]);
    assert!(reader.next("near").is_err());
}

#[test]
fn a_client_sees_the_tables_of_its_streams_alone() {
    let fixture = Fixture::with_defaults();
    fixture.write("access", StreamKind::Access, batch(&mixture(3, START, 1)));
    let integers = Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef;
    fixture.write("app", StreamKind::Documents, documents(&[("n", integers)]));
    let snapshot = fixture.store.snapshot();
    let all = PeerTables::of(&snapshot, &Viewer::default());
    assert_eq!(all.streams.len(), 2);
    assert!(!all.rollups.is_empty());
    let app = storage::Name::new("app").expect("a name");
    let viewer = Viewer {
        streams: Some(Arc::new([app.clone()].into())),
        ..Viewer::default()
    };
    let some = PeerTables::of(&snapshot, &viewer);
    assert_eq!(some.streams.keys().collect::<Vec<_>>(), [&app]);
    assert!(some.rollups.iter().all(|rollup| rollup.stream == app));
    assert!(some.rollups.len() < all.rollups.len());
}
