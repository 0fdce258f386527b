//! rsyslog and syslog-ng fill a topic as the snippets of `docs/shippers/kafka.md` say: each message
//! is stored once, though the server is killed in the middle. None is missing when the sender is.

use super::{Cluster, TOPIC, start, wait_for};
use crate::shippers::clients::{is_there, rsyslog, run_syslog_ng};
use crate::shippers::kills::{SENT, Way};
use crate::shippers::{Background, installed, numbers, snippet};
use crate::support::{Home, Server};

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

/// Kills the sender in the middle, and starts it again.
fn loses_nothing(cluster: &Cluster, sender: fn(&Home, &Cluster) -> Option<Background>) {
    let serve = |home: &Home, _: &str| -> (Server, String) {
        let server = start(&home.data, &[cluster.source("logs", &[])]);
        let address = server.address.clone();
        (server, address)
    };
    let way = Way {
        stream: TOPIC,
        serve: &serve,
        start: &|home, _| sender(home, cluster),
    };
    way.through_a_kill_of_the_sender();
}

fn start_rsyslog(home: &Home, cluster: &Cluster) -> Option<Background> {
    let program = installed("rsyslogd")?;
    if !is_there("rsyslog/omkafka.so") {
        println!("skipped: rsyslog-kafka is not installed");
        return None;
    }
    let template = snippet("http.md", "template(name=\"document\"");
    let (_, template) = template.split_once("template(").expect("a template");
    let (template, _) = template.split_once("\n}\n").expect("its end");
    let failed = home.path("failed");
    let action = to(cluster, "omkafka").replace("/var/spool/rsyslog/kafka-failed", &failed);
    let config = format!("template({template}\n}}\n{action}");
    Some(rsyslog(&program, home, &config))
}

fn start_syslog_ng(home: &Home, cluster: &Cluster) -> Option<Background> {
    run_syslog_ng(
        home,
        "d_kafka",
        &to(cluster, "d_kafka"),
        Some("libkafka.so"),
    )
}

fn fills_a_topic(sender: fn(&Home, &Cluster) -> Option<Background>) {
    let home = Home::new();
    let cluster = Cluster::new(4);
    home.file("numbers", numbers(SENT));
    let Some(running) = sender(&home, &cluster) else {
        return;
    };
    stores_each_once(&home, &cluster, &running);
}

#[test]
fn rsyslog_fills_a_topic() {
    fills_a_topic(start_rsyslog);
}

#[test]
fn syslog_ng_fills_a_topic() {
    fills_a_topic(start_syslog_ng);
}

#[test]
fn rsyslog_leaves_nothing_out_of_a_topic_when_it_is_killed() {
    loses_nothing(&Cluster::new(4), start_rsyslog);
}

#[test]
fn syslog_ng_leaves_nothing_out_of_a_topic_when_it_is_killed() {
    loses_nothing(&Cluster::new(4), start_syslog_ng);
}
