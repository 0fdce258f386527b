//! Stores among which a key divides a stream: questions that name its values ask those that may
//! have such events, and find what one store finds.

use std::sync::Arc;

use aggregator::{Cascade, CascadeConfig};
use serde_json::{Value, json};
use storage::{Division, HotValues, Name, ShardKey, StreamKind};

use super::{START, Several, sorted};
use crate::QueryStats;
use crate::tests::support::{DAY_US, Event, Fixture, batch, mixture};

const STORES: u16 = 4;
const KEYS: [&str; 7] = [
    "host",
    "path",
    "path + hash if hot",
    "request, status",
    "status",
    "site, host",
    "user",
];
const QUESTIONS: [&str; 16] = [
    "host = 'beta'",
    "host IN ('beta', '::1', 'nobody', 'alpha', 'gamma')",
    "host NOT IN ('beta', '::1', 'nobody', 'alpha', 'gamma')",
    "NOT host = 'beta'",
    "host = 'beta' OR host = '::1' OR host = 'delta'",
    "host = 'beta' OR status = 404",
    "host = 'beta' AND host = 'alpha'",
    "path = '/p3' AND status = 200",
    "path = '/p3' OR path IS NULL",
    "request = 'garbage'",
    "request = 'GET /p3 HTTP/1.1' AND status = 200",
    "request = 'GET /p3 HTTP/1.1' AND status = 304",
    "request = 'GET /p3 HTTP/1.1' AND status = 404",
    "status = 404 OR status = 1",
    "status IN (200, 304, 500, 1, 2)",
    "\"user\" = 'frank'",
];
const LEVELS: [&str; 4] = [
    "path = '/p3'",
    "path = '(other)'",
    "host = '/p3'",
    "host = 'beta'",
];

/// Returns stores among which a key divides events, and one with all of them.
fn divided(key: &str) -> (Several, Fixture) {
    let config: CascadeConfig = serde_json::from_value(json!({"rollups": {
        "few": {"stream": "access", "by": ["path"], "max_keys": 3, "measures": {"n": "count"}},
        "named": {"stream": "access", "by": [{"name": "host", "expr": "lower(path)"}], "measures": {"n": "count"}},
    }, "streams": {}}))
    .expect("a configuration");
    let fixture = || Fixture::new(Arc::new(Cascade::new(config.clone()).expect("rollups")));
    let (stores, one): (Vec<Fixture>, _) = ((0..STORES).map(|_| fixture()).collect(), fixture());
    let key: ShardKey = key.parse().expect("a key");
    let hot = [vec!["/p3".to_owned()]];
    for (shard, store) in (0..).zip(&stores) {
        let division = Division::of(shard, STORES, &key, &hot);
        let name = Name::new("access").expect("a name");
        let created = store
            .store
            .create_stream(&name, StreamKind::Access, division);
        created.expect("created");
    }
    for day in 0..2 {
        let events = mixture(400, START + day * DAY_US, 200_000_000);
        let places = key.places(&batch(&events), STORES, 0, &HotValues::of(&hot));
        let mut of_stores: Vec<Vec<Event>> = vec![Vec::new(); stores.len()];
        for (event, place) in events.iter().zip(places) {
            of_stores[usize::from(place)].push(event.clone());
        }
        one.write("access", StreamKind::Access, batch(&events));
        for (store, events) in stores.iter().zip(&of_stores) {
            if !events.is_empty() {
                store.write("access", StreamKind::Access, batch(events));
            }
            if day == 0 {
                store.store.seal().expect("seals");
            }
        }
    }
    (Several(stores), one)
}

async fn ask(several: &Several, sql: &str) -> (Value, usize) {
    let sources = several.sources(several.peers(), Vec::new());
    let asked = several.ask(sources, false, sql).await;
    let (rows, QueryStats { answered_by, .. }) = asked.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let peers = answered_by.iter().filter(|by| by.starts_with("peer "));
    (rows, peers.count())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_store_is_left_out_that_has_an_event_of_the_answer() {
    let others = usize::from(STORES) - 1;
    let mut left_out = 0;
    for key in KEYS {
        let (several, one) = divided(key);
        for asked in QUESTIONS {
            for columns in ["time, host, path, request, status", "count(*)"] {
                let sql = format!("SELECT {columns} FROM access WHERE {asked}");
                let (rows, peers) = ask(&several, &sql).await;
                let of_one = Value::Array(one.rows(&sql).await);
                assert_eq!(sorted(rows), sorted(of_one), "{key}: {sql}");
                left_out += usize::from(peers < others);
            }
        }
        for asked in LEVELS {
            let table = if asked.starts_with("path") {
                "few"
            } else {
                "named"
            };
            let sql = format!("SELECT coalesce(sum(n), 0) AS n FROM {table}.daily WHERE {asked}");
            let (rows, peers) = ask(&several, &sql).await;
            // A limit of keys holds in each store.
            let mut all = 0;
            for store in &several.0 {
                all += store.value(&sql).await.as_i64().expect("a number");
            }
            assert_eq!(rows, json!([{"n": all}]), "{key}: {sql}");
            left_out += usize::from(peers < others);
        }
    }
    assert!(left_out > 40, "{left_out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_store_answers_for_one_value_of_the_key() {
    for (key, asked) in [("host", "host"), ("site, host", "host"), ("path", "path")] {
        let (several, _) = divided(key);
        for value in ["beta", "::1", "/p3", "/p5", "nobody"] {
            let sql = format!("SELECT count(*) FROM access WHERE {asked} = '{value}'");
            let (_, peers) = ask(&several, &sql).await;
            assert!(peers <= 1, "{key}: {sql}: {peers}");
        }
        let sql = "SELECT count(*) FROM access WHERE status = 200";
        assert!(ask(&several, sql).await.1 > 1, "{key}");
    }
}
