//! confluent-kafka fills the topic: each of its records is stored once, though the server is killed
//! in the middle.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{Cluster, TOPIC, number_of, start, wait_for};
use crate::support::{Home, finish};

/// Records of one run of the producer.
const RUN: u64 = 10_000;

/// Returns the command of a producer of records with the numbers from `first`.
fn producer(python: &str, cluster: &Cluster, first: u64) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/confluent_producer.py");
    let mut producer = Command::new(python);
    producer
        .arg(script)
        .args([&*cluster.mock.bootstrap_servers(), TOPIC])
        .args([RUN, first].map(|number| number.to_string()));
    producer
}

#[test]
fn records_of_confluent_kafka_are_stored_once_though_the_server_is_killed() {
    let Ok(python) = std::env::var("LOGMILL_CLIENTS_PYTHON") else {
        println!("skipped: LOGMILL_CLIENTS_PYTHON names no Python with confluent-kafka");
        return;
    };
    let cluster = Cluster::new(4);
    let home = Home::new();
    // A group of its own need not wait for the member that was killed.
    let source = |group, bytes| cluster.source("logs", &[("group", group), ("bytes_max", bytes)]);
    // With few bytes under way, others still wait when the first records are stored.
    let server = start(&home.data, &[source("first", "64KiB")]);
    let told = finish(&mut producer(&python, &cluster, 0), &[]).code(0);
    if told.stdout.starts_with("skipped") {
        println!("{}", told.stdout.trim_end());
        return;
    }
    let sent = format!("sent {RUN}\n");
    assert_eq!(told.stdout, sent, "{}", told.stderr);
    wait_for(&server, "the first records are stored", || {
        cluster.stored(&server) > 0
    });
    let before = cluster.stored(&server);
    // More records come while there is no server.
    let second = producer(&python, &cluster, RUN)
        .stdout(Stdio::piped())
        .spawn()
        .expect("python starts");
    server.kill();
    let server = start(&home.data, &[source("second", "32MiB")]);
    let told = second.wait_with_output().expect("its output");
    assert_eq!(String::from_utf8_lossy(&told.stdout), sent);
    wait_for(&server, "all records are stored", || {
        cluster.stored(&server) >= 2 * RUN
    });
    let rows = server.sql(&format!("SELECT number FROM {TOPIC} ORDER BY number"));
    let numbers = rows.iter().map(|row| number_of(&row["number"]));
    assert!(numbers.eq(0..2 * RUN), "records are missing or doubled");
    let foreign =
        "SELECT count(*) FROM logs WHERE kafka_key IS DISTINCT FROM concat('key-', number)";
    assert_eq!(server.number(foreign), 0, "keys of other records");
    let quarantined = server.number("SELECT count(*) FROM system.quarantine");
    assert_eq!(quarantined, 0);
    println!("killed when {before} of {} records were stored", 2 * RUN);
    assert_eq!(server.stop(), Some(0));
}
