//! System tables of several stores: the rows of each, with its server.

use std::sync::Arc;

use serde_json::{Value, json};
use storage::{Batch, Name, Quarantined, StreamKind, WriteConcern};

use super::{START, Several, documents, several, sorted};
use crate::tables::system::{TABLES, is_of_store};
use crate::tests::support::Fixture;
use crate::{GonePeer, NoSystemInfo, Parameters, Session, Sources, Viewer};

/// Returns the rows of a store with the name of its server.
fn named(rows: Vec<Value>, server: &str) -> impl Iterator<Item = Value> {
    rows.into_iter().map(move |mut row| {
        row["server"] = json!(server);
        row
    })
}

/// Keeps items in the quarantine of a store.
fn quarantine(store: &Fixture, raws: &[&str]) {
    let items = (0..).zip(raws).map(|(rank, raw)| Quarantined {
        rank,
        index: rank.into(),
        reason: "no_format",
        detail: format!("{raw} has no format"),
        line: 1,
        byte: 0,
        raw: raw.as_bytes().to_vec(),
        event: None,
    });
    let batch = Batch {
        stream: Name::new("access").expect("a name"),
        kind: StreamKind::Access,
        received_us: START,
        source: "test".into(),
        events: arrow::array::RecordBatch::new_empty(crate::tests::support::batch(&[]).schema()),
        quarantine: items.collect(),
        identity: None,
    };
    let written = store.store.write(batch, WriteConcern::ACKNOWLEDGED);
    written.expect("acknowledged");
}

fn servers(several: &Several) -> Vec<(String, &Fixture)> {
    let stores = several.0.iter().enumerate();
    let named = stores.map(|(nth, store)| match nth {
        0 => ("this server".to_owned(), store),
        nth => (format!("near {nth}"), store),
    });
    named.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_system_table_has_the_rows_of_all_stores() {
    let (several, _) = several(3, Fixture::with_defaults);
    // The first store has nothing in quarantine.
    quarantine(&several.0[1], &["one", "two"]);
    quarantine(&several.0[2], &["three"]);
    let mut with_rows = 0;
    for table in TABLES.into_iter().filter(|table| is_of_store(table)) {
        let sql = format!("SELECT * FROM system.{table}");
        let mut expected = Vec::new();
        for (server, store) in servers(&several) {
            expected.extend(named(store.rows(&sql).await, &server));
        }
        with_rows += usize::from(!expected.is_empty());
        let found = sorted(several.rows(&sql).await);
        assert_eq!(found, sorted(Value::Array(expected)), "{sql}");
    }
    assert_eq!(with_rows, 9, "tables with rows");
    let own = several.rows("SELECT * FROM system.shards").await;
    assert_eq!(own, json!([]));
    let queries = several.rows("SELECT * FROM system.queries").await;
    assert!(queries[0].get("server").is_none(), "{queries}");
}

#[tokio::test(flavor = "multi_thread")]
async fn system_tables_of_several_stores_are_asked_as_others_are() {
    let (several, _) = several(3, Fixture::with_defaults);
    quarantine(&several.0[1], &["one", "two"]);
    quarantine(&several.0[2], &["three"]);
    for (sql, expected) in [
        (
            "SELECT server, count(*) AS n FROM system.quarantine GROUP BY server ORDER BY server",
            json!([{"server": "near 1", "n": 2}, {"server": "near 2", "n": 1}]),
        ),
        (
            "SELECT count(*) AS n FROM system.quarantine WHERE detail LIKE 't%' AND state = 'waiting'",
            json!([{"n": 2}]),
        ),
        (
            "SELECT detail FROM system.quarantine ORDER BY detail DESC LIMIT 2",
            json!([{"detail": "two has no format"}, {"detail": "three has no format"}]),
        ),
        (
            "SELECT q.detail FROM system.quarantine q WHERE q.server = 'near 2'",
            json!([{"detail": "three has no format"}]),
        ),
        (
            "SELECT sum(events) AS n FROM system.streams WHERE name = 'access'",
            json!([{"n": 1200}]),
        ),
        (
            "SELECT DISTINCT s.kind FROM system.streams s JOIN system.rollups r ON s.name = r.stream \
             AND s.server = r.server",
            json!([{"kind": "access"}]),
        ),
        (
            "SELECT count(*) AS n FROM information_schema.columns WHERE table_schema = 'system' \
             AND table_name = 'parts' AND column_name = 'server'",
            json!([{"n": 1}]),
        ),
    ] {
        assert_eq!(several.rows(sql).await, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_sees_the_rows_of_its_streams_in_all_stores() {
    let (several, _) = several(2, Fixture::with_defaults);
    for store in &several.0 {
        let integers = Arc::new(arrow::array::Int64Array::from(vec![1, 2]));
        store.write("app", StreamKind::Documents, documents(&[("n", integers)]));
        store.store.seal().expect("seals");
    }
    let app = Name::new("app").expect("a name");
    let session = Session {
        viewer: Viewer {
            streams: Some(Arc::new([app].into())),
            ..Viewer::default()
        },
        ..Session::default()
    };
    let ask = async |sql: &str| -> crate::Result<Vec<String>> {
        let own = Sources::one(several.0[0].store.snapshot(), Arc::new(NoSystemInfo));
        let sources = own.with_peers(several.peers(), Vec::new());
        let (engine, none) = (&several.0[0].engine, Parameters::None);
        let answer = engine.ask(sources, &session, sql.into(), none).await?;
        let (_, batches, _) = answer.collect().await?;
        let shown = arrow::util::pretty::pretty_format_batches(&batches).expect("printed");
        Ok(shown.to_string().lines().map(str::to_owned).collect())
    };
    for (table, owner) in [
        ("streams", "name"),
        ("parts", "stream"),
        ("partitions", "stream"),
        ("rollups", "stream"),
    ] {
        let sql = format!("SELECT DISTINCT {owner}, server FROM system.{table} ORDER BY server");
        let found = ask(&sql).await.expect("answered");
        let rows: Vec<&String> = found.iter().filter(|line| line.contains("app")).collect();
        assert_eq!(rows.len(), 2, "{table}: {found:#?}");
        assert_eq!(found.len(), rows.len() + 4, "{table}: {found:#?}");
    }
    let quarantine = ask("SELECT * FROM system.quarantine").await;
    assert!(quarantine.is_err(), "it does not exist for the client");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_gone_is_not_left_out_silently() {
    let (several, _) = several(2, Fixture::with_defaults);
    let gone = || {
        vec![GonePeer {
            name: "http://far:1".to_owned(),
            why: "connection refused".to_owned(),
        }]
    };
    let sources = || several.sources(several.peers(), gone());
    let sql = "SELECT DISTINCT server FROM system.parts ORDER BY server";
    let refused = several.ask(sources(), false, sql).await;
    let refused = refused.expect_err("an error").to_string();
    assert!(refused.contains("http://far:1"), "{refused}");
    let (rows, figures) = several.ask(sources(), true, sql).await.expect("an answer");
    assert_eq!(
        rows,
        json!([{"server": "near 1"}, {"server": "this server"}])
    );
    assert_eq!(figures.incomplete, ["http://far:1"]);
    let own = several.ask(sources(), false, "SELECT * FROM system.shards");
    own.await.expect("a table of this server alone");
}
