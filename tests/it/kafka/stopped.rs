//! Partitions that cannot be read on without loss.

use serde_json::json;

use super::{Cluster, TOPIC, start, wait_for};
use crate::support::{Home, Server};

/// Records that are more than the mock cluster keeps of a partition: 100,000.
const FLOOD: u64 = 220_000;

const STATES: &str =
    "SELECT state, error FROM system.sources WHERE producer LIKE 'kafka/%/logs' ORDER BY producer";

fn is_stopped(server: &Server) -> bool {
    server.number("SELECT count(*) FROM system.sources WHERE state = 'stopped'") == 1
}

#[test]
fn a_partition_whose_records_are_gone_stops_alone_and_says_what_to_do() {
    let mut cluster = Cluster::new(2);
    cluster.send(100);
    cluster.flush();
    let home = Home::new();
    let server = start(&home.data, &[cluster.source("logs", &[])]);
    cluster.assert_stored(&server);
    assert_eq!(server.stop(), Some(0));
    flood(&cluster);
    let more = |key: &'static str, value: &'static str| {
        cluster.source("logs", &[("group", "again"), (key, value)])
    };
    let server = start(&home.data, &[more("when_gone", "stop")]);
    wait_for(
        &server,
        "one partition stops and the other one is read",
        || {
            is_stopped(&server)
                && server.number("SELECT count(*) FROM logs WHERE number = 1000001") == 1
        },
    );
    let states = server.sql(STATES);
    assert_eq!(
        (&states[0]["state"], &states[1]["state"]),
        (&json!("stopped"), &json!("reading"))
    );
    let error = states[0]["error"].as_str().expect("a reason");
    for part in [
        "logs/0 stopped",
        "retention removed records",
        "when_gone = \"restart\"",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(server.log().contains(error), "{}", server.log());
    let sample = "logmill_source_stopped{source=\"logs\",topic=\"logs\",partition=\"0\"} 1\n";
    assert!(server.get("/metrics").text().contains(sample));
    assert_eq!(server.get("/health").status, 200);
    assert_eq!(server.stop(), Some(0));

    // An operator accepts the loss.
    let server = start(&home.data, &[more("when_gone", "restart")]);
    wait_for(&server, "the partition is read anew", || {
        server.number("SELECT count(*) FROM logs WHERE number = 2000000") == 1
    });
    let doubled = "SELECT count(*) - count(DISTINCT number) FROM logs";
    assert_eq!(server.number(doubled), 0);
    assert_eq!(server.stop(), Some(0));
}

/// Fills partition 0 until its oldest records are gone, and adds one to partition 1.
fn flood(cluster: &Cluster) {
    let send = |partition, number: u64| {
        let value = format!("{{\"number\":{number}}}");
        let record = rdkafka::producer::BaseRecord::<str, str>::to(TOPIC)
            .payload(&value)
            .partition(partition);
        if let Err((_, record)) = cluster.producer.send(record) {
            cluster.flush();
            cluster
                .producer
                .send(record)
                .map_err(|(e, _)| e)
                .expect("room");
        }
    };
    for number in 0..FLOOD {
        send(0, 1_100_000 + number);
    }
    send(0, 2_000_000);
    send(1, 1_000_001);
    cluster.flush();
}

#[test]
fn a_topic_that_was_created_anew_is_not_taken_for_the_old_one() {
    let mut cluster = Cluster::new(1);
    cluster.send(10);
    cluster.flush();
    let home = Home::new();
    let server = start(&home.data, &[cluster.source("logs", &[])]);
    wait_for(&server, "the records are stored", || {
        server.number("SELECT count(*) FROM system.sources WHERE position = 10") == 1
    });
    let name = server.sql("SELECT producer FROM system.sources WHERE position = 10");
    let name = name[0]["producer"].as_str().expect("a name").to_owned();
    assert_eq!(server.stop(), Some(0));

    // As if the topic had had 15 records, of which the last was another one than comes now.
    let server = Server::start(&home.data);
    let path = format!("logs?format=json&producer={name}&from=10&to=15&content=12345");
    server.ingest(&path, "{\"number\":1000}\n");
    assert_eq!(server.stop(), Some(0));
    cluster.send(10);
    cluster.flush();
    let source = |when: &str| cluster.source("logs", &[("group", "again"), ("when_gone", when)]);
    let server = start(&home.data, &[source("stop")]);
    wait_for(&server, "the partition stops", || is_stopped(&server));
    let error = server.sql(STATES)[0]["error"]
        .as_str()
        .expect("a reason")
        .to_owned();
    assert!(error.contains("created anew"), "{error}");
    assert_eq!(
        server.number("SELECT count(*) FROM logs WHERE number > 10"),
        1
    );
    assert_eq!(server.stop(), Some(0));

    // Read anew, under a name of its own, once.
    for _ in 0..2 {
        let server = start(&home.data, &[source("restart")]);
        let position = format!("SELECT position FROM system.sources WHERE producer = '{name}/2'");
        wait_for(&server, "the topic is read anew", || {
            server
                .sql(&position)
                .first()
                .is_some_and(|row| row["position"] == 20)
        });
        assert_eq!(
            server.number("SELECT count(*) FROM logs WHERE number BETWEEN 15 AND 19"),
            5
        );
        assert_eq!(server.stop(), Some(0));
    }
}
