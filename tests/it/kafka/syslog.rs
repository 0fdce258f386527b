//! rsyslog and syslog-ng fill a topic as the snippets of `docs/shippers/kafka.md` say: each message
//! is stored once, though the server is killed in the middle.

use super::{Cluster, TOPIC, start, wait_for};
use crate::shippers::clients::{is_there, rsyslog, run_syslog_ng};
use crate::shippers::{Background, installed, numbers, snippet};
use crate::support::Home;

const SENT: usize = 20_000;

/// Returns a snippet with the topic and a broker of the cluster.
fn to(cluster: &Cluster, contains: &str) -> String {
    let brokers = cluster.mock.bootstrap_servers();
    let (broker, _) = brokers.split_once(',').expect("three brokers");
    let block = snippet("kafka.md", contains);
    assert!(block.contains("\"127.0.0.1:9092\""), "{block}");
    let block = block.replace("127.0.0.1:9092", broker);
    block.replace("\"syslog\"", &format!("{TOPIC:?}"))
}

fn stores_each_once(home: &Home, cluster: &Cluster, running: &Background) {
    let source = |group| cluster.source("logs", &[("group", group), ("bytes_max", "64KiB")]);
    let server = start(&home.data, &[source("first")]);
    wait_for(&server, "the first messages are stored", || {
        cluster.stored(&server) > 0
    });
    server.kill();
    let server = start(&home.data, &[source("second")]);
    wait_for(&server, "all messages are stored", || {
        cluster.stored(&server) >= SENT as u64
    });
    let rows = server.sql(&format!("SELECT line, app FROM {TOPIC}"));
    let mut found: Vec<&str> = rows.iter().filter_map(|row| row["line"].as_str()).collect();
    found.sort_unstable();
    let expected = numbers(SENT);
    let mut expected: Vec<&str> = expected.lines().collect();
    expected.sort_unstable();
    assert_eq!(found, expected, "{}", running.log());
    assert!(rows.iter().all(|row| row["app"] == "numbers"));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn rsyslog_fills_a_topic() {
    let Some(program) = installed("rsyslogd") else {
        return;
    };
    if !is_there("rsyslog/omkafka.so") {
        println!("skipped: rsyslog-kafka is not installed");
        return;
    }
    let home = Home::new();
    let cluster = Cluster::new(4);
    home.file("numbers", numbers(SENT));
    let template = snippet("http.md", "template(name=\"document\"");
    let (_, template) = template.split_once("template(").expect("a template");
    let (template, _) = template.split_once("\n}\n").expect("its end");
    let failed = home.path("failed");
    let action = to(&cluster, "omkafka").replace("/var/spool/rsyslog/kafka-failed", &failed);
    let config = format!("template({template}\n}}\n{action}");
    let running = rsyslog(&program, &home, &config);
    stores_each_once(&home, &cluster, &running);
}

#[test]
fn syslog_ng_fills_a_topic() {
    let home = Home::new();
    let cluster = Cluster::new(4);
    home.file("numbers", numbers(SENT));
    let snippet = to(&cluster, "d_kafka");
    let Some(running) = run_syslog_ng(&home, "d_kafka", &snippet, Some("libkafka.so")) else {
        return;
    };
    stores_each_once(&home, &cluster, &running);
}
