//! Real clients send numbered records; the numbers that they are told are stored are compared with
//! those in the store.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;

use crate::support::{Home, Server, finish, knob, seed};

fn python() -> Option<String> {
    let python = std::env::var("LOGMILL_CLIENTS_PYTHON").ok();
    if python.is_none() {
        println!("skipped: LOGMILL_CLIENTS_PYTHON names no Python with clients of shippers");
    }
    python
}

/// Returns the command of a client that sends so many records.
fn client(python: &str, server: &str, name: &str, count: u64) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/shippers.py");
    let mut client = Command::new(python);
    client.arg(script).args([server, name, &count.to_string()]);
    client
}

/// Returns how often each number is stored.
fn stored(server: &Server, stream: &str) -> BTreeMap<u64, u64> {
    let query = format!("SELECT n, count(*) AS times FROM {stream} GROUP BY n");
    let number = |value: &Value| match value {
        Value::String(text) => text.parse().expect("a number"),
        number => number.as_u64().expect("a number"),
    };
    let rows = server.sql(&query);
    rows.iter()
        .map(|row| (number(&row["n"]), number(&row["times"])))
        .collect()
}

#[test]
fn every_record_of_a_real_client_is_stored_once() {
    let Some(python) = python() else { return };
    let home = Home::new();
    let server = Server::start_with(&home.data, &[("LOGMILL_SERVER__OTLP_GRPC", "127.0.0.1:0")]);
    let grpc = server.announced("OTLP exporters (gRPC): ");
    for name in [
        "elasticsearch",
        "opensearch",
        "otlp",
        "otlp_grpc",
        "loki",
        "hec",
    ] {
        let count = 300;
        let url = if name == "otlp_grpc" {
            &grpc
        } else {
            &server.url
        };
        let told = finish(&mut client(&python, url, name, count), &[]);
        if told.stdout.starts_with("skipped") {
            println!("{}", told.stdout.trim_end());
            continue;
        }
        let told = told.code(0);
        assert_eq!(
            told.stdout.trim_end(),
            format!("sent {count}"),
            "{}",
            told.stderr
        );
        let expected: BTreeMap<u64, u64> = (0..count).map(|n| (n, 1)).collect();
        assert_eq!(stored(&server, &format!("of_{name}")), expected, "{name}");
    }
    assert_eq!(
        server.number("SELECT count(*) AS n FROM system.quarantine"),
        0
    );
}

/// A client that gives each chunk a key sends it again until it is told that it is stored, while
/// the server and the client are killed.
fn sends_through_kills(name: &str) {
    let Some(python) = python() else { return };
    let home = Home::new();
    let grpc = &[("LOGMILL_SERVER__OTLP_GRPC", "127.0.0.1:0")];
    let mut server = Server::start_with(&home.data, grpc);
    let address = server.address.clone();
    let grpc = server.announced("OTLP exporters (gRPC): ");
    let url = if name == "otlp_grpc" {
        grpc.clone()
    } else {
        server.url.clone()
    };
    let port = grpc.rsplit_once('/').map_or(&*grpc, |(_, address)| address);
    let kills = knob("LOGMILL_KILLS", 4);
    // Chunks of 40, and at most 12 of them before a kill.
    let count = kills * 480 + 80;
    let mut random = SmallRng::seed_from_u64(seed());
    let mut stored_to = 0;
    let mut clients = 0;
    for kill in 0.. {
        let mut child = client(&python, &url, name, count)
            .arg(stored_to.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python starts");
        clients += 1;
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        // It is killed behind so many chunks, with the next one on its way.
        let last = random.random_range(1..12);
        for (chunk, line) in (0..).zip(lines) {
            let line = line.expect("a line");
            if line.starts_with("skipped") {
                println!("{line}");
                child.wait().expect("the client ends");
                return;
            }
            let to = line.strip_prefix("stored ").expect("a number");
            stored_to = to.parse().expect("a number");
            if kill < kills && chunk == last / 2 {
                server.kill();
                server =
                    Server::start_at(&home.data, &address, &[("LOGMILL_SERVER__OTLP_GRPC", port)]);
            }
            if kill < kills && chunk == last {
                std::thread::sleep(Duration::from_millis(random.random_range(0..8)));
                child.kill().expect("a signal to our own child");
                break;
            }
        }
        let ended = child.wait().expect("the client ends");
        if stored_to == count || !ended.success() && kill >= kills {
            assert_eq!(stored_to, count, "the client failed");
            break;
        }
    }
    let expected: BTreeMap<u64, u64> = (0..count).map(|n| (n, 1)).collect();
    assert_eq!(stored(&server, &format!("of_{name}")), expected);
    println!("{count} records of {clients} clients, {kills} kills of the server");
}

#[test]
fn elasticsearch_sends_each_chunk_once_through_kills() {
    sends_through_kills("elasticsearch");
}

#[test]
fn opensearch_sends_each_chunk_once_through_kills() {
    sends_through_kills("opensearch");
}

#[test]
fn otlp_exports_each_chunk_once_through_kills() {
    sends_through_kills("otlp");
}

#[test]
fn otlp_over_grpc_exports_each_chunk_once_through_kills() {
    sends_through_kills("otlp_grpc");
}

#[test]
fn logging_loki_pushes_each_record_once_through_kills() {
    sends_through_kills("loki");
}
