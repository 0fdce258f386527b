//! The server itself: health, figures, following a stream, where it listens and how it stops.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Home, PAST_S, Server, line, run};

fn good(path: &str, status: u16) -> String {
    line("203.0.113.1", PAST_S, path, status, 10)
}

/// Returns the samples of `/metrics`, a text in the format of Prometheus.
fn samples(server: &Server) -> BTreeMap<String, f64> {
    let answer = server.get("/metrics").status(200);
    assert!(
        answer
            .header("content-type")
            .starts_with("text/plain; version=0.0.4")
    );
    let text = answer.text();
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            (name.to_owned(), value.parse().expect("a number"))
        })
        .collect()
}

#[test]
fn received_is_stored_and_quarantined_and_refused_and_duplicate() {
    let home = Home::new();
    let limit = [("LOGMILL_SERVER__BATCH_BYTES_MAX", "64KiB")];
    let server = Server::start_with(&home.data, &limit);
    let mixed = good("/a", 200) + "bad\n" + &good("/b", 404) + "\n";
    let key = [("Idempotency-Key", "one")];
    let path = "/api/v1/ingest/access";
    for _ in 0..3 {
        server.post(path, &key, mixed.as_bytes()).status(200);
    }
    server
        .post(path, &key, good("/other", 200).as_bytes())
        .status(422);
    server.post(path, &[], &vec![b'x'; 70_000]).status(413);
    server.ingest("access?j=true", &mixed);
    server.ingest("events?format=json", "{\"ts\":1709251200}\nbad\n");
    server.seal();
    let found = samples(&server);
    let of = |what: &str, stream: &str| {
        let name = format!("logmill_events_{what}_total{{stream=\"{stream}\"}}");
        *found
            .get(&name)
            .unwrap_or_else(|| panic!("{name} is not there: {found:?}"))
    };
    for stream in ["access", "events"] {
        let sum = of("stored", stream)
            + of("quarantined", stream)
            + of("refused", stream)
            + of("duplicate", stream);
        assert_eq!(of("received", stream), sum, "{stream}");
    }
    assert_eq!(of("stored", "access"), 4.0);
    assert_eq!(of("quarantined", "access"), 2.0);
    assert_eq!(of("duplicate", "access"), 6.0);
    assert!(
        of("refused", "access") >= 2.0,
        "one with another body, one too large"
    );
    assert_eq!(
        (of("stored", "events"), of("quarantined", "events")),
        (1.0, 1.0)
    );
    assert_eq!(server.number("SELECT count(*) FROM access"), 4);
}

#[test]
fn the_figures_of_the_rollups_are_there() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("access", good("/", 200));
    server.seal();
    server.ingest("access", good("/", 200).repeat(3));
    for rollup in ["stats", "traffic"] {
        let verified = server.post(&format!("/api/v1/rollups/{rollup}/verify"), &[], b"");
        assert_eq!(verified.status(200).json()["rollup"], rollup);
    }
    let found = samples(&server);
    assert_eq!(found["logmill_rollup_mismatch_total"], 0.0);
    for rollup in ["stats", "traffic"] {
        for level in ["minute", "hour", "day", "week", "month", "year"] {
            let name = format!("logmill_rollup_waiting{{rollup=\"{rollup}\",level=\"{level}\"}}");
            assert_eq!(found.get(&name), Some(&3.0), "{name}");
        }
    }
    let status = server.get("/api/v1/rollups").status(200).json();
    let status = status.as_array().expect("an array");
    assert_eq!(status.len(), 12);
    for level in status {
        assert_eq!(
            (&level["waiting"], &level["last_run"]),
            (&json!(3), &json!(1)),
            "{level}"
        );
        assert_eq!(
            (&level["rows"], &level["last_error"]),
            (&json!(1), &Value::Null),
            "{level}"
        );
    }
    server
        .post("/api/v1/rollups/nonsense/verify", &[], b"")
        .status(404);
    let partitions = server.get("/api/v1/partitions").status(200).json();
    assert_eq!(partitions.as_array().map(Vec::len), Some(1), "{partitions}");
    let streams = server.get("/api/v1/streams").status(200).json();
    assert_eq!(
        (&streams[0]["name"], &streams[0]["events"]),
        (&json!("access"), &json!(4))
    );
}

#[test]
fn health_and_ready_say_so_and_what_is_not_there_has_a_hint() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.get("/health").status(200);
    server.get("/ready").status(200);
    let nothing = server.get("/api/v2/sql").status(404).json();
    assert!(
        nothing["error"]["hint"]
            .as_str()
            .is_some_and(|h| h.contains("/api/v1/")),
        "{nothing}"
    );
    assert!(
        nothing["error"]["message"]
            .as_str()
            .is_some_and(|m| m.contains("/api/v2/sql"))
    );
    assert_eq!(server.get("/api/v1/sql").status, 405);
}

/// Follows a stream; returns the events as they come.
fn follow(server: &Server, query: &str) -> impl Iterator<Item = Value> + use<> {
    let mut socket = TcpStream::connect(&server.address).expect("the server listens");
    let within = Some(Duration::from_secs(20));
    socket
        .set_read_timeout(within)
        .expect("a socket that can wait");
    write!(
        socket,
        "GET /api/v1/tail?{query} HTTP/1.1\r\nHost: {}\r\n\r\n",
        server.address
    )
    .expect("the server reads");
    let mut lines = BufReader::new(socket)
        .lines()
        .map(|l| l.expect("a line in time"));
    let status = lines.next().expect("a status");
    assert!(status.contains(" 200 "), "{status}");
    let followed = lines.by_ref().find(|l| l == ": following");
    assert!(followed.is_some(), "the stream does not begin");
    lines.filter_map(|l| {
        l.strip_prefix("data: ")
            .map(|data| serde_json::from_str(data).expect("an event"))
    })
}

#[test]
fn tail_delivers_what_passes_the_filter_as_it_comes() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("access", good("/before", 500));
    let mut errors = follow(&server, "stream=access&where=status%20%3E%3D%20500");
    let mut all = follow(&server, "stream=access");
    for (i, status) in [200, 500, 404, 503, 200, 500].into_iter().enumerate() {
        server.ingest("access", good(&format!("/{i}"), status));
        // Events of another stream, and bad ones, are not delivered.
        server.ingest("other", good("/other", 500));
        server.ingest("access?format=combined", "bad\n");
    }
    for (path, status) in [("/1", 500), ("/3", 503), ("/5", 500)] {
        let event = errors.next().expect("an event");
        assert_eq!(
            (&event["path"], &event["status"]),
            (&json!(path), &json!(status))
        );
    }
    for i in 0..6 {
        let event = all.next().expect("an event");
        assert_eq!(event["path"], format!("/{i}"));
        assert_eq!(event["time"], "2024-03-01T00:00:00Z");
        assert_eq!(event["_id"].as_str().map(str::len), Some(24));
    }
    server.get("/api/v1/tail?stream=nowhere").status(404);
    server
        .get("/api/v1/tail?stream=access&where=nonsense")
        .status(400);
    server
        .get("/api/v1/tail?stream=access&colour=blue")
        .status(400);
    server.get("/api/v1/tail").status(400);
    // Followers do not keep the server from stopping.
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn an_address_beyond_this_machine_is_refused() {
    let home = Home::new();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7070"] {
        let told = run(&["serve", &home.data, "--http", address]).code(78);
        for remedy in [
            "logmill user add",
            "logmill tls self-signed",
            "--insecure-plaintext",
        ] {
            assert!(told.stderr.contains(remedy), "{}", told.stderr);
        }
    }
    run(&["serve", &home.data, "--http", "not an address"]).code(2);
}

#[test]
fn a_signal_ends_the_server_after_it_has_sealed() {
    let home = Home::new();
    let server = Server::start(&home.data);
    server.ingest("access", good("/", 200).repeat(10));
    assert_eq!(server.stop(), Some(0));
    let status = home.sql("SELECT DISTINCT waiting, last_run FROM system.rollups");
    assert_eq!(status, [json!({ "waiting": 0, "last_run": 10 })]);
    assert_eq!(home.number("SELECT sum(rows) FROM system.parts"), 10);
    assert_eq!(home.number("SELECT sum(hits) FROM stats.yearly"), 10);
}

#[test]
fn an_unknown_key_of_the_configuration_is_an_error_with_a_suggestion() {
    let home = Home::new();
    let file = home.file("logmill.toml", "[storage]\nlagg = \"5s\"\n");
    let told = run(&["config", "show", "--config", &file]).code(78);
    assert!(
        told.stderr.contains("lagg") && told.stderr.contains("`lag`"),
        "{}",
        told.stderr
    );
    let file = home.file("logmill.toml", "[storage]\nlag = \"5s\"\n");
    let shown = run(&["config", "show", "--origin", "--config", &file]).code(0);
    assert!(shown.stdout.contains("storage.lag"), "{}", shown.stdout);
    assert!(shown.stdout.contains("logmill.toml"), "{}", shown.stdout);
}

#[test]
fn a_tail_begins_with_the_last_events_and_misses_none_after_them() {
    let home = Home::new();
    let server = Server::start(&home.data);
    for i in 0..30 {
        server.ingest(
            "access",
            good(&format!("/{i}"), if i % 2 == 0 { 200 } else { 500 }),
        );
        if i == 20 {
            server.seal();
        }
    }
    let mut all = follow(&server, "stream=access&last=10");
    let mut errors = follow(&server, "stream=access&last=3&where=status=500%20--");
    for i in 30..33 {
        server.ingest("access", good(&format!("/{i}"), 500));
    }
    for i in 20..33 {
        let event = all.next().expect("an event");
        assert_eq!(event["path"], format!("/{i}"));
        assert_eq!(event["_id"].as_str().map(str::len), Some(24));
    }
    for i in [25, 27, 29, 30, 31, 32] {
        let event = errors.next().expect("an event");
        assert_eq!(event["path"], format!("/{i}"));
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn the_command_tail_shows_the_last_ten_first_and_writes_objects_only() {
    let home = Home::new();
    let server = Server::start(&home.data);
    for i in 0..12 {
        server.ingest("access", good(&format!("/{i}"), 200));
    }
    let places = [["--server", &server.url], ["--data", &home.data]];
    for place in places {
        for form in ["csv", "table", "arrow"] {
            let args = [&["tail", "--output", form][..], &place].concat();
            let told = run(&args).code(2);
            assert!(told.stderr.contains("--output ndjson"), "{}", told.stderr);
        }
        let mut tail = crate::support::command();
        tail.arg("tail").args(place);
        let mut child = tail
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("it starts");
        let stdout = child.stdout.take().expect("BUG: its output is piped");
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        for i in 2..12 {
            let event: Value = serde_json::from_str(&lines.next().expect("a line")).expect("JSON");
            assert_eq!(event["path"], format!("/{i}"));
        }
        child.kill().expect("a signal to our own child");
        child.wait().expect("it ends");
    }
    let args = [
        "tail",
        "--server",
        &server.url,
        "--where",
        "1/(status-200)>0",
    ];
    let told = run(&args).code(1);
    assert!(
        told.stdout.is_empty() && told.stderr.contains("zero"),
        "{}",
        told.stderr
    );
}

#[test]
fn there_are_series_for_streams_that_there_are() {
    let home = Home::new();
    let limit = [("LOGMILL_SERVER__BATCH_BYTES_MAX", "64KiB")];
    let server = Server::start_with(&home.data, &limit);
    for i in 0..20 {
        let path = format!("/api/v1/ingest/invented_{i}");
        server.post(&path, &[], &vec![b'x'; 70_000]).status(413);
        server
            .post(&path, &[("Content-Encoding", "gzip")], b"no gzip")
            .status(400);
    }
    let long = "s".repeat(63);
    server.ingest(&format!("{long}?format=json"), "{\"a\":1}\n");
    server.seal();
    let found = samples(&server);
    assert!(
        !found.keys().any(|name| name.contains("invented")),
        "{found:?}"
    );
    assert!(found["logmill_events_refused_total{stream=\"_unknown\"}"] >= 20.0);
    assert_eq!(
        found[&format!("logmill_events_stored_total{{stream=\"{long}\"}}")],
        1.0
    );
}

#[test]
fn metrics_count_requests_errors_and_times_by_route() {
    let home = Home::new();
    let server = Server::start(&home.data);
    for i in 0..3 {
        server.ingest("access", good(&format!("/{i}"), 200));
        server.get(&format!("/invented/{i}")).status(404);
    }
    server
        .post("/api/v1/sql", &[], b"SELECT nonsense")
        .status(400);
    server.number("SELECT count(*) FROM access");
    let found = samples(&server);
    let requests = |method: &str, route: &str, status: u16| {
        let name = format!(
            "logmill_http_requests_total{{method=\"{method}\",route=\"{route}\",status=\"{status}\"}}"
        );
        found.get(&name).copied().unwrap_or_default()
    };
    assert_eq!(requests("POST", "/api/v1/ingest/{stream}", 200), 3.0);
    assert_eq!(requests("GET", "other", 404), 3.0);
    assert_eq!(requests("POST", "/api/v1/sql", 400), 1.0);
    assert_eq!(found["logmill_http_errors_total{code=\"not_found\"}"], 3.0);
    let time = "logmill_http_request_duration_seconds";
    let labels = "method=\"POST\",route=\"/api/v1/sql\"";
    let (all, count) = (
        format!("{time}_bucket{{{labels},le=\"+Inf\"}}"),
        format!("{time}_count{{{labels}}}"),
    );
    assert_eq!((found[&all], found[&count]), (2.0, 2.0));
    let version = format!(
        "logmill_build_info{{version=\"{}\"}}",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(found[&version], 1.0);
    for name in [
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_max_fds",
        "process_start_time_seconds",
        "logmill_http_connections",
    ] {
        assert!(found[name] > 0.0, "{name}");
    }
    // The kernel counts in hundredths of a second: a young server may have used none.
    assert!(found["process_cpu_seconds_total"] >= 0.0);
    assert_eq!(found["logmill_tails"], 0.0);
}
