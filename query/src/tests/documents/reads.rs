//! Data read for documents, and refused queries.

use std::sync::Arc;

use futures::StreamExt;
use serde_json::json;

use super::super::support::{DAY_US, Event, Fixture, example, mixture};
use super::{in_zone, pages, text, utc, write};
use crate::{Engine, EngineOptions, Kind, NoSystemInfo};

#[tokio::test(flavor = "multi_thread")]
async fn filters_on_metadata_change_what_is_read_and_not_what_is_found() {
    let fixture = in_zone("Europe/Berlin");
    // Each write holds one local day. In the last week, after a clock change, local days begin an
    // hour earlier than the writes.
    for day in 0..24 {
        let from = utc("2013-03-13T23:00:00Z") + day * DAY_US;
        write(&fixture, &mixture(30, from, DAY_US / 31));
        if day % 8 == 7 && day < 23 {
            fixture.store.seal().expect("seals");
        }
    }
    let filters = [
        "metadata['date'] = '2013-03-30T23:00:00Z'",
        "metadata['date'] = '2013-03-31'",
        "metadata['date'] > '2013-03-30T23:00:00Z' AND metadata['date'] <= '2013-04-02'",
        "metadata['date'] >= '2013-03-31' AND metadata['date'] < '2013-04-01T22:00:00Z'",
        "metadata['date'] BETWEEN '2013-03-30T22:59:59Z' AND '2013-03-31T22:00:00Z'",
        "metadata['path'] = '/p3'",
        "metadata['path'] IS NULL",
        "metadata['path'] IN ('/p1', '/p2') AND metadata['host'] = 'alpha'",
        "metadata['path'] = '/p1' OR metadata['host'] = 'alpha'",
        "metadata['path'] <> '/p1'",
        "_id LIKE '20130331/%'",
        "daily > 1 AND metadata['host'] = 'beta'",
        "minute['5']['0'] > 0",
    ];
    for table in ["daily_documents", "monthly_documents"] {
        for filter in filters.iter().filter(|f| {
            table == "daily_documents" || !f.contains("minute[") && !f.contains("daily >")
        }) {
            let pushed = fixture
                .rows(&format!(
                    "SELECT * FROM pages.{table} WHERE {filter} ORDER BY _id"
                ))
                .await;
            let unpushed = format!(
                "SELECT * FROM (SELECT * FROM pages.{table} ORDER BY _id OFFSET 0) WHERE {filter} ORDER BY _id"
            );
            assert_eq!(pushed, fixture.rows(&unpushed).await, "{table}: {filter}");
        }
    }
    fixture.store.seal().expect("seals");
    let one_page = "metadata['path'] = '/p3' AND metadata['date'] = '2013-03-19T23:00:00Z'";
    let all = fixture.figures("SELECT * FROM pages.daily_documents").await;
    let one = fixture
        .figures(&format!(
            "SELECT * FROM pages.daily_documents WHERE {one_page}"
        ))
        .await;
    assert_eq!(
        one.answered_by,
        ["rollup pages.hourly", "rollup pages.minutely"]
    );
    let plan = text(
        &fixture,
        &format!("EXPLAIN SELECT * FROM pages.daily_documents WHERE {one_page}"),
    )
    .await;
    assert_eq!(all.row_groups.examined, all.row_groups.total);
    // The query reads one section of hours and one of minutes.
    assert_eq!(
        (one.row_groups.total, one.row_groups.examined),
        (all.row_groups.total, 2),
        "{plan}"
    );
    assert!(
        one.rows_examined * 20 < all.rows_examined,
        "{one:?} {all:?}"
    );
    let hours = fixture
        .figures("SELECT metadata, hourly FROM pages.daily_documents")
        .await;
    assert_eq!(hours.answered_by, ["rollup pages.hourly"]);
    assert!(
        plan.contains("DocumentScan: daily_documents; rollup pages.hourly, partitions=1/2")
            && plan.contains("sections=1/")
            && !plan.contains("FilterExec"),
        "{plan}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_with_the_name_of_another_column_is_not_taken_for_it() {
    let keys =
        ["daily", "_id", "hourly"].map(|name| json!({ "name": name, "expr": "status / 100" }));
    let fixture = pages(json!({ "by": keys }));
    let mut events = mixture(12, utc("2013-03-10T00:00:00Z"), 1);
    events.iter_mut().for_each(|event| event.status = Some(300));
    write(&fixture, &events);
    let asked = |filter: &str| format!("SELECT daily FROM pages.daily_documents WHERE {filter}");
    for filter in [
        "daily = 12",
        "metadata['daily'] = 3",
        "_id = '20130310/3/3/3'",
    ] {
        assert_eq!(
            fixture.rows(&asked(filter)).await,
            [json!({"daily": 12})],
            "{filter}"
        );
    }
    for filter in ["daily = 3", "metadata['daily'] = 12"] {
        assert!(fixture.rows(&asked(filter)).await.is_empty(), "{filter}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_documents_lack_is_named() {
    let cases = [
        (
            json!({ "levels": ["hour", "day"] }),
            "daily_documents",
            "has no minute level",
        ),
        (
            json!({ "levels": ["day"] }),
            "daily_documents",
            "has no hour and no minute level",
        ),
        (
            // With keys there would be a day level: the list of their names.
            json!({ "by": [], "levels": ["hour", "month"] }),
            "monthly_documents",
            "has no day level",
        ),
        (
            json!({ "measures": { "bytes": "sum(response_size)" } }),
            "daily_documents",
            "no count without a filter",
        ),
        (
            json!({ "measures": { "errors": { "of": "count", "filter": "status >= 500" } } }),
            "monthly_documents",
            "no count without a filter",
        ),
        (
            json!({ "measures": { "hits": { "of": "count", "from": "hour" } } }),
            "daily_documents",
            "has hits only from level hour on",
        ),
        (
            json!({ "by": [{ "name": "date", "expr": "path" }] }),
            "daily_documents",
            "a key named date",
        ),
    ];
    for (rollup, table, reason) in cases {
        let fixture = pages(rollup);
        write(&fixture, &[example()]);
        let asked = format!("SELECT * FROM pages.{table}");
        let error = fixture.try_query(&asked).await.expect_err(reason);
        assert_eq!(error.kind(), Kind::Invalid);
        let error = error.to_string();
        let remedy = if reason.contains("date") {
            "another name"
        } else {
            "such documents need"
        };
        assert!(error.contains(reason) && error.contains(remedy), "{error}");
        let listed =
            format!("SELECT count(*) FROM information_schema.tables WHERE table_name = '{table}'");
        assert_eq!(fixture.value(&listed).await, json!(0), "{reason}");
    }
    let fixture = in_zone("UTC");
    write(&fixture, &[example()]);
    for (table, reason) in [
        (
            "pages.dayly_documents",
            "did you mean pages.daily_documents?",
        ),
        ("page.daily_documents", "pages.daily_documents"),
    ] {
        let error = fixture
            .try_query(&format!("SELECT * FROM {table}"))
            .await
            .expect_err(reason);
        assert!(error.to_string().contains(reason), "{error}");
    }
    let listed =
        "SELECT count(*) FROM information_schema.tables WHERE table_name LIKE '%_documents'";
    assert_eq!(fixture.value(listed).await, json!(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_two_documents_have_one_id() {
    let fixture = in_zone("UTC");
    let keys = [
        ("a", Some("/b/c")),
        ("a/b", Some("/c")),
        ("a/b", Some("c")),
        ("a", Some("b/c")),
        ("a", None),
        ("a", Some("-")),
        ("a", Some("%2D")),
        ("-", Some("/")),
        ("", Some("/")),
        ("", Some("")),
        ("a%2Fb", Some("/c")),
    ];
    let events: Vec<Event> = keys
        .iter()
        .map(|(host, path)| Event {
            host,
            path: path.map(str::to_owned),
            ..example()
        })
        .collect();
    write(&fixture, &events);
    for table in ["daily_documents", "monthly_documents"] {
        let sql = format!("SELECT count(*) AS n, count(DISTINCT _id) AS ids FROM pages.{table}");
        assert_eq!(
            fixture.rows(&sql).await,
            [json!({"n": keys.len(), "ids": keys.len()})]
        );
    }
    let numbers = Fixture::with_defaults();
    write(&numbers, &events);
    let sql = "SELECT _id, metadata FROM traffic.daily_documents";
    let metadata =
        json!({"date": "2000-10-10T00:00:00Z", "site": null, "status": 200, "method": "GET"});
    assert_eq!(
        numbers.rows(sql).await,
        [json!({"_id": "20001010/-/200/GET", "metadata": metadata})]
    );
    let without = pages(json!({ "by": [] }));
    write(&without, &events);
    let sql = "SELECT _id, metadata, daily, minute['20']['55'] AS m FROM pages.daily_documents";
    let metadata = json!({"date": "2000-10-10T00:00:00Z"});
    assert_eq!(
        without.rows(sql).await,
        [json!({"_id": "20001010", "metadata": metadata, "daily": 11, "m": 11})]
    );
}

/// Returns the number of documents, and of their batches.
async fn read_documents(fixture: &Fixture) -> Result<(i64, i64), String> {
    let sql = "SELECT * FROM pages.daily_documents";
    let snapshot = fixture.store.snapshot();
    let asked = fixture
        .engine
        .sql(snapshot, Arc::new(NoSystemInfo), sql, None);
    let mut answer = asked.await.expect("planned");
    let (mut rows, mut batches) = (0, 0);
    while let Some(batch) = answer.stream.next().await {
        let batch = batch.map_err(|error| error.to_string())?;
        assert!(batch.num_rows() <= 256);
        rows += batch.num_rows() as i64;
        batches += 1;
    }
    Ok((rows, batches))
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_of_everything_come_in_little_memory() {
    let mut fixture = in_zone("UTC");
    const PAGES: i64 = 1_500;
    for day in 0..4 {
        let events: Vec<Event> = (0..PAGES)
            .map(|n| Event {
                path: Some(format!("/{n}")),
                time: example().time + day * DAY_US + n * 10_000_000,
                ..example()
            })
            .collect();
        write(&fixture, &events);
        fixture.store.seal().expect("seals");
    }
    // All documents together take 70 MiB; a quarter of the limit is for data that operators hold.
    let memory_bytes = 32 << 20;
    fixture.engine = Engine::new(EngineOptions {
        memory_bytes,
        ..EngineOptions::default()
    })
    .expect("starts");
    // Memory is measured for the whole process, in which other tests run: one of several reads
    // must end.
    let mut read = Err("not asked".to_owned());
    for _ in 0..5 {
        read = read_documents(&fixture).await;
        if read.is_ok() {
            break;
        }
    }
    let (rows, batches) = read.expect("documents");
    assert_eq!(rows, 4 * PAGES);
    assert!(batches >= 24, "{batches} batches");
    let count = fixture
        .value("SELECT count(*) FROM pages.daily_documents")
        .await;
    assert_eq!(count, json!(rows));
}
