//! A store of the frozen format, written by this program once and kept for ever: every later
//! version opens it, returns the same answers and continues it.
//!
//! The store has an access log with both rollups, merged tiles and parts, a dropped day and a
//! detached one, documents of changing shapes, a quarantine of which an item was replayed, and a
//! journal that goes on after the last seal; it was killed, not closed.
//! `LOGMILL_WRITE_FIXTURES=1 cargo test --workspace of_today` writes it anew while the format is
//! not published. `EXPECT` has a query and its answer in each line. Its raw events follow from the
//! tests of the formats; its levels are recomputed by `check`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Home, LEVEL_TABLES, Server, fixture, fixture_bytes, run, sql};

const EXPECT: &str = "EXPECT";

fn folder() -> PathBuf {
    fixture("store-1")
}

/// Returns some lines of a committed log.
fn lines(name: &str, from: usize, count: usize) -> Vec<u8> {
    let bytes = fixture_bytes(name);
    let lines = bytes.split_inclusive(|b| *b == b'\n');
    lines.skip(from).take(count).flatten().copied().collect()
}

/// Returns queries that read everything there is: raw events, the quarantine and each level.
fn queries() -> Vec<String> {
    let mut queries = vec![
        "SELECT count(*) AS n, sum(response_size) AS bytes, count(DISTINCT host) AS hosts, min(time) AS first, \
         max(time) AS last, min(_id) AS id, max(_seq) AS seq FROM access"
            .to_owned(),
        "SELECT _seq, time, service, level, took_ms, \"http.url.path\" AS path FROM documents ORDER BY _seq".to_owned(),
        "SELECT stream, reason, state, count(*) AS n, max(line) AS line FROM system.quarantine GROUP BY 1, 2, 3 \
         ORDER BY 1, 2, 3"
            .to_owned(),
        "SELECT name, kind, columns, events, first_time, last_time FROM system.streams ORDER BY name".to_owned(),
    ];
    for table in LEVEL_TABLES {
        queries.push(format!(
            "SELECT count(*) AS cells, sum(hits) AS hits, sum(bytes) AS bytes, min(bucket) AS first FROM {table}"
        ));
    }
    queries
}

/// Copies the files of a store, except those of the process that had it open.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_owned();
        if [
            "LOCK",
            "WRITER",
            "JOURNAL",
            "RESERVE",
            "STORE",
            "manifest-copy",
            "readers",
            EXPECT,
        ]
        .iter()
        .any(|n| name == *n)
        {
            continue;
        }
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else {
            std::fs::copy(&path, to.join(name)).expect("copied");
        }
    }
}

fn make() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let post = |path: &str| server.post(path, &[], b"").status(200);
    server.ingest("access", lines("sample.log", 0, 60));
    server.ingest("documents?format=json", lines("documents.ndjson", 0, 8));
    server.seal();
    server.ingest("access", lines("sample.log", 120, 60));
    server.ingest(
        "documents?format=json",
        b"{\"ok\":true,\"time\":5}\nno json\n{\"took_ms\":\"long\"}\n",
    );
    server.ingest("documents?format=json", b"{\"took_ms\":2.5,\"time\":6}\n");
    server.seal();
    let replayed = post("/api/v1/quarantine/replay?stream=documents&format=plain").json();
    assert_eq!(replayed["replayed"], 1, "{replayed}");
    server.seal();
    post("/api/v1/rollups/compact");
    let merged = post("/api/v1/partitions/compact").json();
    assert!(merged["merged"].as_u64() > Some(1), "{merged}");
    let dropped = server.delete("/api/v1/partitions?stream=access&date=2024-02-29");
    assert!(dropped.status(200).json()["events"].as_u64() > Some(0));
    let detached = post("/api/v1/partitions/detach?stream=access&date=2024-03-30").json();
    assert!(detached["events"].as_u64() > Some(0));
    server.ingest("access", lines("sample.log", 240, 20));
    server.ingest("documents?format=json", lines("documents.ndjson", 8, 4));
    // The next edit deletes the files that earlier ones gave up.
    std::thread::sleep(std::time::Duration::from_millis(500));
    server.kill();
    let folder = folder();
    if folder.exists() {
        std::fs::remove_dir_all(&folder).expect("removed");
    }
    copy(Path::new(&home.data), &folder);
    let mut text = String::new();
    for query in queries() {
        let answer = Value::Array(home.sql(&query));
        let _ignored = writeln!(text, "{query}\t{answer}");
    }
    std::fs::write(folder.join(EXPECT), text).expect("written");
}

#[test]
fn a_store_of_today_is_read_for_ever() {
    if std::env::var_os("LOGMILL_WRITE_FIXTURES").is_some() {
        make();
    }
    let expect = std::fs::read_to_string(folder().join(EXPECT)).expect("what it says");
    let home = Home::new();
    copy(&folder(), Path::new(&home.data));
    let place = ["--data", home.data.as_str()];
    let says_the_same = |when: &str| {
        for line in expect.lines() {
            let (query, answer) = line.split_once('\t').expect("a query and its answer");
            let answer: Value = serde_json::from_str(answer).expect("JSON");
            assert_eq!(Value::Array(sql(&place, query)), answer, "{when}: {query}");
        }
        let checked = run(&["check", &home.data]).code(0);
        assert!(checked.stdout.contains(" 0 differences"), "{checked:?}");
    };
    assert_eq!(expect.lines().count(), queries().len());
    says_the_same("as it was left");
    run(&[&["rollup", "run"], &place[..]].concat()).code(0);
    says_the_same("sealed");
    run(&[&["rollup", "compact"], &place[..]].concat()).code(0);
    says_the_same("compacted");
    run(&["backup", &home.path("copy"), place[0], place[1]]).code(0);
    run(&["check", &home.path("copy")]).code(0);
    run(&["repair", &home.data, "--accept-loss"]).code(0);
    says_the_same("with nothing to repair");
    run(&[&["partition", "compact"], &place[..]].concat()).code(0);
    says_the_same("with fewer parts");
    let sum = |of: &str, from: &str| {
        sql(&place, &format!("SELECT {of} AS n FROM {from}"))[0]["n"].as_u64()
    };
    let before = sum("count(*)", "access");
    run(&[&["partition", "attach", "access", "2024-03-30"], &place[..]].concat()).code(0);
    let checked = run(&["check", &home.data]).code(0);
    assert!(checked.stdout.contains(" 0 differences"), "{checked:?}");
    assert!(sum("count(*)", "access") > before);
    assert!(
        sum("count(*)", "access") < sum("sum(hits)", "traffic.daily"),
        "a day was dropped"
    );
}
