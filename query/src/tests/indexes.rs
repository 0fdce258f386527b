//! An index changes the rows that are read, and no answer.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use storage::{IndexKind, Name, StreamKind};

use super::support::{Event, Fixture, Random, batch, mixture};
use crate::NoSystemInfo;

/// 2000-10-09T00:00:00Z.
const START: i64 = 971_049_600_000_000;
const FIELDS: [&str; 4] = ["path", "user", "status", "referrer"];
const USERS: [&str; 5] = ["frank", "", "Ærøskøbing", "anna", "日本語"];

fn access() -> Name {
    Name::new("access").expect("a name")
}

/// Returns events of three days: some paths are in every part, most in few; few events have a user.
fn events(random: &mut Random, count: usize) -> Vec<Event> {
    const HOSTS: [&str; 3] = ["alpha", "beta", "gamma"];
    const STATUS: [i16; 6] = [200, 200, 304, 404, 500, 503];
    let event = |_| {
        let path = match random.below(8) {
            0 => None,
            1 => Some("/often".to_owned()),
            2 => Some(format!("/{}", "long/".repeat(100 + random.below(3)))),
            _ => Some(format!("/p{}", random.below(400))),
        };
        let user = random.below(80);
        Event {
            time: START
                + random.below(3 * 86_400) as i64 * 1_000_000
                + random.below(1_000_000) as i64,
            host: HOSTS[random.below(3)],
            method: Some("GET"),
            path,
            user: USERS.get(user).copied(),
            status: Some(STATUS[random.below(6)]),
            size: Some(random.below(1000) as i64),
            ..Event::default()
        }
    };
    (0..count).map(event).collect()
}

/// Makes two seals and a memtable.
fn store(random: &mut Random) -> Fixture {
    let fixture = Fixture::without_rollups();
    for round in 0..3 {
        let batch = batch(&events(random, 1500));
        fixture.write("access", StreamKind::Access, batch);
        if round < 2 {
            fixture.store.seal().expect("seals");
        }
    }
    fixture
}

fn index(fixture: &Fixture) {
    index_as(fixture, || IndexKind::Inverted);
}

fn index_as(fixture: &Fixture, mut kind: impl FnMut() -> IndexKind) {
    for field in FIELDS {
        let created = fixture.store.create_index(&access(), field, kind());
        created.expect("suits");
    }
    fixture.store.build_indexes().expect("builds");
}

/// Returns one of both kinds.
fn either(random: &mut Random) -> IndexKind {
    [IndexKind::Inverted, IndexKind::Covering][random.below(2)]
}

fn condition(random: &mut Random) -> String {
    let path = |random: &mut Random| match random.below(5) {
        0 => "/often".to_owned(),
        1 => format!("/{}", "long/".repeat(100 + random.below(4))),
        _ => format!("/p{}", random.below(420)),
    };
    let some: Vec<String> = (0..1 + random.below(4))
        .map(|_| format!("'{}'", path(random)))
        .collect();
    let user = USERS[random.below(5)];
    let status = [404, 503, 999, 70_000][random.below(4)];
    let day = 9 + random.below(3);
    let one = match random.below(9) {
        0 => format!("path = {}", some[0]),
        1 => format!("path IN ({})", some.join(", ")),
        2 => format!("user = '{user}'"),
        3 => format!("status = {status} AND path = {}", some[0]),
        4 => format!("user = '{user}' AND status IN (404, {status})"),
        5 => format!("(path = {} OR path = {})", some[0], some[some.len() - 1]),
        6 => format!("(path = {} OR user = '{user}')", some[0]),
        7 => format!("path <> {} AND user = '{user}'", some[0]),
        _ => format!("path = {} AND host = 'beta'", some[0]),
    };
    match random.below(3) {
        0 => format!("{one} AND time >= '2000-10-{day:02}T07:00:00Z'"),
        1 => format!(
            "{one} AND time >= '2000-10-{day:02}' AND time < '2000-10-{:02}'",
            day + 1
        ),
        _ => one,
    }
}

fn queries(random: &mut Random, count: usize) -> Vec<String> {
    let query = |_| {
        let condition = condition(random);
        match random.below(5) {
            0 => format!("SELECT count(*) FROM access WHERE {condition}"),
            1 => format!("SELECT *, _seq FROM access WHERE {condition} ORDER BY _seq"),
            2 => format!(
                "SELECT host, count(*), sum(response_size) FROM access WHERE {condition} GROUP BY host ORDER BY host"
            ),
            3 => format!("SELECT _seq FROM access WHERE {condition} ORDER BY time, _seq LIMIT 7"),
            _ => format!("SELECT min(time), max(path), count(user) FROM access WHERE {condition}"),
        }
    };
    (0..count).map(query).collect()
}

async fn answers(fixture: &Fixture, queries: &[String]) -> (Vec<Vec<Value>>, usize) {
    let (mut answers, mut by_index) = (Vec::new(), 0);
    for sql in queries {
        let (rows, figures) = fixture
            .try_query(sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
        let uses = figures.answered_by.iter().any(|by| by.starts_with("index"));
        by_index += usize::from(uses);
        answers.push(rows);
    }
    (answers, by_index)
}

#[track_caller]
fn assert_same(queries: &[String], before: &[Vec<Value>], after: &[Vec<Value>]) {
    for ((sql, before), after) in queries.iter().zip(before).zip(after) {
        assert_eq!(after, before, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_the_same_with_indexes_and_without() {
    for seed in 0..3 {
        let mut random = Random(seed);
        let fixture = store(&mut random);
        let queries = queries(&mut random, 60);
        let (scanned, by_index) = answers(&fixture, &queries).await;
        assert_eq!(by_index, 0);
        index_as(&fixture, || either(&mut random));
        let (found, by_index) = answers(&fixture, &queries).await;
        assert!(by_index >= 20, "{by_index} of 60");
        assert_same(&queries, &scanned, &found);
        // Some parts have indexes, others do not.
        let late = batch(&events(&mut random, 300));
        fixture.write("access", StreamKind::Access, late);
        fixture.store.seal().expect("seals");
        let (found, by_index) = answers(&fixture, &queries).await;
        assert!(by_index >= 20, "{by_index} of 60");
        for field in FIELDS {
            fixture.store.drop_index(&access(), field).expect("there");
        }
        let (scanned, by_index) = answers(&fixture, &queries).await;
        assert_eq!(by_index, 0);
        assert_same(&queries, &scanned, &found);
        // All parts are merged, and indexed anew.
        fixture.store.compact_parts(None, true).expect("compacts");
        index_as(&fixture, || either(&mut random));
        let (found, by_index) = answers(&fixture, &queries).await;
        assert!(by_index >= 20, "{by_index} of 60");
        assert_same(&queries, &scanned, &found);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_rows_of_a_value_are_looked_at() {
    let mut random = Random(9);
    let fixture = store(&mut random);
    fixture.store.seal().expect("seals");
    let one = "SELECT * FROM access WHERE path = '/p17'";
    let before = fixture.figures(one).await;
    assert_eq!(before.rows_examined, 4500);
    index(&fixture);
    let after = fixture.figures(one).await;
    assert_eq!(after.rows_examined, after.rows_returned);
    assert_eq!(after.rows_returned, before.rows_returned);
    assert!((1..9).contains(&after.parts.examined), "{after:?}");
    assert_eq!(after.parts.total, 9);
    assert_eq!(
        after.answered_by,
        ["parts of access", "index path of access"]
    );
    // A value that occurs nowhere opens no part.
    let none = fixture
        .figures("SELECT * FROM access WHERE path = '/nowhere'")
        .await;
    assert_eq!((none.parts.examined, none.bytes_read), (0, 0));
    assert_eq!(none.answered_by, ["index path of access"]);
    // A value that occurs everywhere is found by a scan.
    let often = fixture
        .figures("SELECT * FROM access WHERE path = '/often'")
        .await;
    assert_eq!(often.answered_by, ["parts of access"]);
    for (path, hint, by_index) in [
        ("/often", "index(path)", true),
        ("/p17", "index(user, path)", true),
        ("/p17", "index(user)", false),
        ("/p17", "no_index", false),
        ("/p17", "order(host, time)", false),
    ] {
        let sql = format!("SELECT /*+ {hint} */ * FROM access WHERE path = '{path}'");
        let hinted = fixture.figures(&sql).await;
        let uses = hinted.answered_by.contains(&"index path of access".into());
        assert_eq!(uses, by_index, "{sql}");
        assert_eq!(uses, hinted.rows_examined < 4500, "{sql}");
    }
    let rows = fixture
        .rows("SELECT * FROM system.indexes WHERE stream = 'access'")
        .await;
    let fields: Vec<&str> = rows.iter().filter_map(|r| r["field"].as_str()).collect();
    assert_eq!(fields, ["host, time", "path", "referrer", "status", "user"]);
    for row in &rows[1..] {
        assert_eq!(
            (&row["kind"], &row["parts_indexed"]),
            (&"inverted".into(), &9.into())
        );
        assert!(row["disk_bytes"].as_u64() > Some(9 * 50), "{row}");
        let is_used = row["field"] == "path";
        assert_eq!(row["last_used"].is_null(), !is_used, "{row}");
        assert_eq!(row["memory_bytes"].as_u64() > Some(0), is_used, "{row}");
    }
    assert_eq!(rows[0]["kind"], "order");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_covering_index_finds_the_rows_of_a_value_side_by_side() {
    let fixture = Fixture::without_rollups();
    // Each path has rows in every page of 8,192 rows.
    let events = mixture(60_000, START, 1_000_000);
    fixture.write("access", StreamKind::Access, batch(&events));
    fixture.store.seal().expect("seals");
    let one = "SELECT * FROM access WHERE path = '/p7' ORDER BY _id";
    let (expected, before) = fixture.try_query(one).await.expect("answered");
    assert_eq!(before.rows_examined, 60_000);
    index_as(&fixture, || IndexKind::Covering);
    let (found, after) = fixture.try_query(one).await.expect("answered");
    assert_eq!(found, expected);
    let rows = expected.len() as u64;
    assert!(after.rows_examined <= rows + 2 * 8192, "{after:?}");
    assert_eq!(
        after.answered_by,
        ["parts of access", "index path of access"]
    );
    // In the order of the parts a scan is as good as the index.
    let sql = "SELECT * FROM access WHERE path = '/p7' AND host = 'alpha'";
    let by_order = fixture.figures(sql).await;
    assert_eq!(by_order.answered_by, ["parts of access"]);
    // A query that holds the index reads it to its end, even after a drop.
    let snapshot = fixture.store.snapshot();
    let answer = fixture
        .engine
        .sql(snapshot, Arc::new(NoSystemInfo), one, None);
    let answer = answer.await.expect("planned");
    fixture.store.drop_index(&access(), "path").expect("there");
    let (_, batches, _) = answer.collect().await.expect("read");
    let found: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    assert_eq!(found, expected.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_covering_index_that_is_damaged_says_so_once_and_is_not_asked_again() {
    let mut random = Random(5);
    let fixture = store(&mut random);
    let sql = "SELECT *, _seq FROM access WHERE path = '/p17' ORDER BY _seq";
    let expected = fixture.rows(sql).await;
    index_as(&fixture, || IndexKind::Covering);
    let folder = fixture
        .store
        .snapshot()
        .data_dir()
        .join("indexes/access/path");
    for entry in std::fs::read_dir(&folder).expect("a folder") {
        let path = entry.expect("a file").path();
        if path.extension().is_some_and(|ending| ending == "rows") {
            let mut bytes = std::fs::read(&path).expect("there");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(&path, bytes).expect("written");
        }
    }
    let parts = fixture.store.snapshot().manifest().parts.len();
    let mut failed = 0;
    let found = loop {
        match fixture.try_query(sql).await {
            Ok((rows, _)) => break rows,
            Err(error) => {
                assert!(error.to_string().contains("indexes/access/path"), "{error}");
                failed += 1;
                assert!(failed <= parts, "{error}");
            }
        }
    };
    assert!(failed > 0);
    assert_eq!(found, expected);
    let uses = |figures: crate::QueryStats| figures.answered_by.len() > 2;
    assert!(!uses(fixture.figures(sql).await));
    // An index that is made in its place is used.
    fixture.store.drop_index(&access(), "path").expect("there");
    assert_eq!(fixture.rows(sql).await, expected);
    index_as(&fixture, || IndexKind::Covering);
    assert_eq!(fixture.rows(sql).await, expected);
    assert!(uses(fixture.figures(sql).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_is_damaged_or_lost_changes_no_answer() {
    let mut random = Random(3);
    let fixture = store(&mut random);
    let queries = queries(&mut random, 40);
    let (scanned, _) = answers(&fixture, &queries).await;
    index(&fixture);
    let folder = fixture
        .store
        .snapshot()
        .data_dir()
        .join("indexes/access/path");
    let files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("a folder")
        .map(|entry| entry.expect("a file").path())
        .collect();
    for round in 0..3 {
        for path in &files {
            let mut bytes = std::fs::read(path).expect("there");
            let at = random.below(bytes.len());
            match round {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes.truncate(at),
                _ => bytes.clear(),
            }
            std::fs::write(path, bytes).expect("written");
        }
        let (found, _) = answers(&fixture, &queries).await;
        assert_same(&queries, &scanned, &found);
    }
    std::fs::remove_dir_all(&folder).expect("removed");
    let (found, _) = answers(&fixture, &queries).await;
    assert_same(&queries, &scanned, &found);
}
