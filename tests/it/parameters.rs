//! A wrong parameter is an error that names it, in the form of all errors, on every
//! route.

use serde_json::Value;

use crate::support::{Home, PAST_S, Server, line};

/// A route with a parameter that is nearly one of its own, and what was meant; nothing where the
/// route takes none.
const MISSPELLED: [(&str, &str, &str); 29] = [
    ("GET", "/health?x=1", ""),
    ("GET", "/metrics?name=x", ""),
    ("POST", "/api/v1/ingest/access?fromat=json", "format"),
    ("POST", "/api/v1/ingest/access?wtimout=1", "wtimeout"),
    ("POST", "/api/v1/sql?format=csv", ""),
    ("POST", "/api/v1/sql?partal=1", "partial"),
    ("POST", "/api/v1/cluster/snapshots?stream=access", ""),
    ("DELETE", "/api/v1/cluster/snapshots/0?force=true", ""),
    ("POST", "/api/v1/cluster/requests?snapshots=0", "snapshot"),
    ("GET", "/api/v1/tail?stream=access&were=true", "where"),
    ("GET", "/api/v1/streams?name=access", ""),
    ("GET", "/api/v1/streams/access/schema?x=1", ""),
    ("GET", "/api/v1/streams/access/shard-keys?shard=4", "shards"),
    ("GET", "/api/v1/partitions?stream=access", ""),
    (
        "DELETE",
        "/api/v1/partitions?stream=access&date=2024&dryrun=true",
        "dry_run",
    ),
    (
        "POST",
        "/api/v1/partitions/detach?stream=access&date=2024&dry-run=true",
        "dry_run",
    ),
    (
        "POST",
        "/api/v1/partitions/attach?stream=access&dates=2024",
        "date",
    ),
    ("POST", "/api/v1/partitions/retain?strem=access", "stream"),
    (
        "POST",
        "/api/v1/partitions/compact?streams=access",
        "stream",
    ),
    ("POST", "/api/v1/indexes/access/path?cover=true", "covering"),
    ("DELETE", "/api/v1/indexes/access/path?covering=true", ""),
    ("GET", "/api/v1/quarantine?resaon=x", "reason"),
    ("POST", "/api/v1/quarantine/replay?dryrun=true", "dry_run"),
    ("POST", "/api/v1/quarantine/drop?dry_rum=true", "dry_run"),
    ("POST", "/api/v1/rollups/run?name=stats", ""),
    ("POST", "/api/v1/rollups/stats/verify?samples=1", "sample"),
    (
        "POST",
        "/api/v1/rollups/stats/rebuild?form=2024&to=2025",
        "from",
    ),
    ("GET", "/api/v1/sources?producers=x", "producer"),
    ("DELETE", "/api/v1/queries/1?force=true", ""),
];

fn ask(server: &Server, method: &str, path: &str, more: &str) -> (u16, Value) {
    let (status, body) = server.raw(&format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{more}\r\n",
        server.address
    ));
    let said = serde_json::from_str(&body);
    let said: Value = said.unwrap_or_else(|e| panic!("{method} {path}: not JSON ({e}): {body}"));
    assert!(said["error"]["code"].is_string(), "{method} {path}: {said}");
    (status, said)
}

#[test]
fn a_misspelled_parameter_does_nothing_and_is_named_with_the_nearest() {
    let home = Home::new();
    let server = Server::start(&home.data);
    let good = line("203.0.113.1", PAST_S, "/", 200, 10);
    server.ingest("access", good.repeat(3) + "bad\n");
    server.seal();
    for (method, path, meant) in MISSPELLED {
        let (status, said) = ask(&server, method, path, "Content-Length: 0\r\n");
        let message = said["error"]["message"].as_str().expect("a message");
        assert_eq!(status, 400, "{method} {path}: {said}");
        assert!(
            message.starts_with("unknown parameter"),
            "{path}: {message}"
        );
        let meant = if meant.is_empty() {
            String::new()
        } else {
            format!("did you mean {meant}?")
        };
        assert!(message.ends_with(&meant), "{path}: {message}");
        assert!(said["error"]["hint"].is_string(), "{path}: {said}");
    }
    assert_eq!(server.number("SELECT count(*) FROM access"), 3);
    assert_eq!(server.number("SELECT count(*) FROM system.quarantine"), 1);
    // The page keeps its own state in its address.
    server.get("/?stream=access&range=1h").status(200);
}

#[test]
fn wrong_paths_and_methods_are_answered_as_all_errors_are() {
    let home = Home::new();
    let server = Server::start(&home.data);
    for (method, path, expected) in [
        ("GET", "/api/v1/sql", 405),
        ("PUT", "/api/v1/partitions", 405),
        ("GET", "/api/v1/ingest/access", 405),
        ("POST", "/", 405),
        ("POST", "/health", 405),
        ("POST", "/api/v1/ingest", 404),
        ("POST", "/api/v1/ingest/a/b", 404),
        ("POST", "/nowhere", 404),
        ("GET", "/api/v1/", 404),
        ("DELETE", "/api/v1/queries/first", 400),
        ("GET", "/api/v1/streams/%FF/schema", 400),
        ("GET", "/api/v1/streams/access/shard-keys", 400),
        ("GET", "/api/v1/streams/access/shard-keys?shards=many", 400),
        ("GET", "/api/v1/streams/access/shard-keys?shards=1", 404),
        (
            "GET",
            "/api/v1/streams/access/shard-keys?shards=4&key=,",
            400,
        ),
        ("GET", "/api/v1/tail?stream=%FF", 400),
        ("GET", "/api/v1/tail?stream=%zz", 400),
        ("GET", "/api/v1/tail?stream=access&last=many", 400),
        ("POST", "/api/v1/ingest/access?format=yaml", 400),
        ("POST", "/api/v1/sql?partial=perhaps", 400),
        ("DELETE", "/api/v1/cluster/snapshots/0", 404),
        ("POST", "/api/v1/cluster/requests", 404),
        ("POST", "/api/v1/cluster/requests?snapshot=0", 404),
    ] {
        let (status, said) = ask(&server, method, path, "Content-Length: 0\r\n");
        assert_eq!(status, expected, "{method} {path}: {said}");
    }
    let refused = server.get("/api/v1/sql").status(405);
    assert_eq!(refused.header("allow"), "POST");
    assert_eq!(refused.json()["error"]["code"], "method_not_allowed");
}

#[test]
fn a_body_that_is_no_body_is_told_as_one() {
    let home = Home::new();
    let server = Server::start(&home.data);
    for size in ["fffffffffffffffff", "zz", "-1"] {
        let more = format!("Transfer-Encoding: chunked\r\n\r\n{size}\r\nx\r\n0\r\n");
        let (status, said) = ask(&server, "POST", "/api/v1/ingest/access", &more);
        assert_eq!(status, 400, "{size}: {said}");
        assert_eq!(said["error"]["code"], "broken_body", "{size}");
    }
    assert_eq!(server.number("SELECT count(*) FROM system.streams"), 0);
}
