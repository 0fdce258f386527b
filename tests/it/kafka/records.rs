//! The parts of a record, and the first one that is read.

use std::time::Duration;

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;
use serde_json::json;

use super::{Cluster, TOPIC, start, wait_for};
use crate::support::{Home, PAST_S, line};

#[test]
fn documents_keep_key_headers_and_timestamp_and_tombstones_are_counted() {
    let cluster = Cluster::new(1);
    let headers = OwnedHeaders::new()
        .insert(Header {
            key: "trace",
            value: Some("abc"),
        })
        .insert(Header {
            key: "trace",
            value: Some("def"),
        })
        .insert(Header {
            key: "empty",
            value: None::<&str>,
        });
    let stamped = 1_700_000_000_123;
    let records = [
        BaseRecord::to(TOPIC)
            .key("k1")
            .payload("{\"number\":1}\n")
            .headers(headers)
            .timestamp(stamped),
        BaseRecord::to(TOPIC).key("k2"),
        BaseRecord::to(TOPIC).key("k3").payload("broken"),
        BaseRecord::<str, str>::to(TOPIC)
            .payload("{\"number\":2,\"time\":\"2024-03-01T00:00:00Z\"}"),
    ];
    for record in records {
        cluster
            .producer
            .send(record.partition(0))
            .map_err(|(e, _)| e)
            .expect("room");
    }
    cluster.flush();
    let home = Home::new();
    let server = start(&home.data, &[cluster.source("logs", &[])]);
    wait_for(&server, "all records are stored", || {
        server
            .get("/metrics")
            .text()
            .contains("logmill_source_position{source=\"logs\",topic=\"logs\",partition=\"0\"} 4\n")
    });
    let rows =
        server.sql("SELECT number, time, kafka_key, kafka_headers FROM logs ORDER BY number");
    let expected = json!([
        {"number": 1, "time": "2023-11-14T22:13:20.123Z", "kafka_key": "k1",
         "kafka_headers": "{\"trace\":[\"abc\",\"def\"],\"empty\":null}"},
        {"number": 2, "time": "2024-03-01T00:00:00Z", "kafka_key": null, "kafka_headers": null},
    ]);
    assert_eq!(json!(rows), expected);
    let bad = server.sql("SELECT source, byte FROM system.quarantine");
    assert_eq!(
        json!(bad),
        json!([{"source": "kafka/logs/logs/0", "byte": 2}])
    );
    let metrics = server.get("/metrics").text();
    for (name, value) in [
        ("tombstones_total", 1),
        ("records_total", 4),
        ("stopped", 0),
        ("up", 1),
    ] {
        let sample = format!(
            "logmill_source_{name}{{source=\"logs\",topic=\"logs\",partition=\"0\"}} {value}\n"
        );
        assert!(metrics.contains(&sample), "{sample}{metrics}");
    }
    let sources = server.sql("SELECT position, state, error FROM system.sources WHERE producer LIKE 'kafka/%/logs/0/logs'");
    assert_eq!(
        json!(sources),
        json!([{"position": 4, "state": "reading", "error": null}])
    );
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn lines_of_an_access_log_are_counted_by_their_rollups() {
    let cluster = Cluster::new(1);
    for n in 0..300_i64 {
        let line = line("10.0.0.1", n * 60 + PAST_S, "/a", 200, 10);
        let record = BaseRecord::to(TOPIC).key("k").payload(&line).partition(0);
        cluster
            .producer
            .send(record)
            .map_err(|(e, _)| e)
            .expect("room");
    }
    cluster.flush();
    let home = Home::new();
    let server = start(
        &home.data,
        &[cluster.source("logs", &[("format", "combined")])],
    );
    wait_for(&server, "all records are stored", || {
        server.get("/metrics").text().contains(
            "logmill_source_position{source=\"logs\",topic=\"logs\",partition=\"0\"} 300\n",
        )
    });
    server.seal();
    assert_eq!(server.number("SELECT sum(hits) FROM stats.yearly"), 300);
    assert_eq!(
        server.number("SELECT count(*) FROM logs WHERE status = 200"),
        300
    );
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_source_starts_at_the_end_or_at_a_time_and_goes_on_from_there() {
    let mut cluster = Cluster::new(1);
    cluster.send(5);
    cluster.flush();
    std::thread::sleep(Duration::from_millis(20));
    let home = Home::new();
    let latest = || cluster.source("logs", &[("start", "latest")]);
    let server = start(&home.data, &[latest()]);
    wait_for(&server, "the end is noted", || {
        server.number("SELECT count(*) FROM system.sources WHERE position = 5") == 1
    });
    server.kill();
    let latest = latest();
    // Sent while nothing reads: behind the end that was noted.
    cluster.send(10);
    cluster.flush();
    let server = start(&home.data, &[latest]);
    wait_for(&server, "later records are stored", || {
        server.number("SELECT count(*) FROM system.sources WHERE position = 15") == 1
    });
    let numbers = "SELECT min(number) AS first, count(*) AS all FROM logs";
    assert_eq!(json!(server.sql(numbers)), json!([{"first": 5, "all": 8}]));
    assert_eq!(server.stop(), Some(0));
}
