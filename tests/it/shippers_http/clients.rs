//! Real clients send numbered records; the numbers that they are told are stored are compared with
//! those in the store.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Home, Server, finish, knob};

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

/// A client that gives each chunk a key sends it again until it is told the outcome, while the
/// server is killed and started again.
#[test]
fn chunks_with_a_key_are_stored_once_while_the_server_is_killed() {
    let Some(python) = python() else { return };
    let home = Home::new();
    let mut server = Server::start(&home.data);
    let address = server.address.clone();
    let count = knob("LOGMILL_KILLS", 4) * 2_000;
    let mut child = client(&python, &server.url, "elasticsearch-retrying", count)
        .stdout(Stdio::piped())
        .spawn()
        .expect("python starts");
    let began = Instant::now();
    let mut kills = 0;
    while child.try_wait().expect("a child").is_none() {
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "the client does not end"
        );
        std::thread::sleep(Duration::from_millis(400));
        server.kill();
        server = Server::start_at(&home.data, &address, &[]);
        kills += 1;
    }
    let told = child.wait_with_output().expect("its output");
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    if told.starts_with("skipped") {
        println!("{}", told.trim_end());
        return;
    }
    assert_eq!(told.trim_end(), format!("sent {count}"));
    let expected: BTreeMap<u64, u64> = (0..count).map(|n| (n, 1)).collect();
    let found = stored(&server, "of_elasticsearch");
    let wrong: Vec<_> = expected
        .keys()
        .filter(|n| found.get(n) != Some(&1))
        .collect();
    assert!(
        wrong.is_empty() && found.len() == expected.len(),
        "{kills} kills: {wrong:?}"
    );
    println!("{count} records through {kills} kills");
}
