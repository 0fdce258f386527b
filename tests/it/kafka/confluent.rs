//! confluent-kafka fills the topic: each of its records is stored once, though the server or the
//! producer is killed in the middle.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Cluster, TOPIC, number_of, start, wait_for};
use crate::support::{Home, finish};

/// Records of one run of the producer.
const RUN: u64 = 10_000;

/// More records than a producer sends before it is killed.
const ENDLESS: u64 = 1_000_000;

/// Returns the command of a producer of so many records with the numbers from `first`.
fn producer(python: &str, cluster: &Cluster, first: u64, count: u64) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/confluent_producer.py");
    let mut producer = Command::new(python);
    producer
        .arg(script)
        .args([&*cluster.mock.bootstrap_servers(), TOPIC])
        .args([count, first].map(|number| number.to_string()));
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
    let told = finish(&mut producer(&python, &cluster, 0, RUN), &[]).code(0);
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
    let second = producer(&python, &cluster, RUN, RUN)
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

#[test]
fn what_confluent_kafka_has_delivered_is_stored_once_when_it_is_killed() {
    let Ok(python) = std::env::var("LOGMILL_CLIENTS_PYTHON") else {
        println!("skipped: LOGMILL_CLIENTS_PYTHON names no Python with confluent-kafka");
        return;
    };
    let cluster = Cluster::new(4);
    let home = Home::new();
    let server = start(&home.data, &[cluster.source("logs", &[])]);
    let mut child = producer(&python, &cluster, 0, ENDLESS)
        .arg("tell")
        .stdout(Stdio::piped())
        .spawn()
        .expect("python starts");
    let told = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut delivered = BTreeSet::new();
    for line in told {
        let line = line.expect("a line");
        let Some(number) = line.strip_prefix("delivered ") else {
            println!("{line}");
            assert!(line.starts_with("skipped"), "it ended before it was killed");
            child.wait().expect("python ends");
            return;
        };
        delivered.insert(number.parse::<u64>().expect("a number"));
        if delivered.len() == 3000 {
            child.kill().expect("a signal to our own child");
        }
    }
    child.wait().expect("python ends");
    // The records of another producer come behind these in each partition.
    let told = finish(&mut producer(&python, &cluster, ENDLESS, RUN), &[]).code(0);
    assert_eq!(told.stdout, format!("sent {RUN}\n"), "{}", told.stderr);
    let behind = format!("SELECT count(*) FROM {TOPIC} WHERE number >= {ENDLESS}");
    wait_for(&server, "the records behind are stored", || {
        cluster.stored(&server) > 0 && server.number(&behind) >= RUN
    });
    let rows = server.sql(&format!("SELECT number FROM {TOPIC}"));
    let numbers: Vec<u64> = rows.iter().map(|row| number_of(&row["number"])).collect();
    let distinct: BTreeSet<u64> = numbers.iter().copied().collect();
    assert_eq!(numbers.len(), distinct.len(), "records are doubled");
    delivered.extend(ENDLESS..ENDLESS + RUN);
    assert!(delivered.is_subset(&distinct), "records are missing");
    let more = distinct.len() - delivered.len();
    println!(
        "{} records were delivered, {more} more are stored",
        delivered.len()
    );
    assert_eq!(server.stop(), Some(0));
}
