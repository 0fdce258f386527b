//! A cluster with its sealed files and its catalog in an object store and its journals in Kafka: a
//! shard whose machine is lost goes on in an empty directory.

use super::{SHARDS, ShardedServers, ask, lines, number, post, send};
use crate::support::{Broker, Home, Moto};

const TO: &str = "access?format=vhost_combined";

/// Starts a cluster on both, if they are installed.
fn cloud() -> Option<(Moto, Broker, ShardedServers)> {
    let moto = Moto::start()?;
    let broker = Broker::start()?;
    let partitions = i32::try_from(SHARDS).expect("a few");
    broker.create_partitions("logmill.journal", partitions, &[]);
    let options = "{ \"fetch.wait.max.ms\" = 4, \"message.timeout.ms\" = 4000 }";
    let kafka = [
        ("LOGMILL_CLUSTER__KAFKA", broker.address.as_str()),
        ("LOGMILL_CLUSTER__KAFKA_OPTIONS", options),
        ("LOGMILL_STORAGE__LAG", "1h"),
        ("LOGMILL_STREAM__ACCESS__SHARD_KEY", "host"),
    ];
    let environment = moto.environment().into_iter().chain(kafka);
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let environment: Vec<_> = environment.collect();
    let all = ShardedServers::start_in(&environment);
    Some((moto, broker, all))
}

#[test]
fn a_shard_goes_on_elsewhere_with_all_that_was_acknowledged() {
    let Some((_moto, _broker, mut all)) = cloud() else {
        return;
    };
    let before = lines(0..300);
    send(all.at(0), TO, "before", &before);
    all.seal();
    let behind = lines(300..500);
    let parts = send(all.at(1), TO, "behind", &behind)["parts"].take();
    assert_eq!(parts.as_array().map(Vec::len), Some(SHARDS), "{parts}");
    let question = "SELECT host, count(*) AS n, sum(response_size) AS s FROM access \
                    GROUP BY host ORDER BY host";
    let all_rows = ask(all.at(0), question)["rows"].take();

    // The first shard, whose server has no catalog of its own, and another one.
    for shard in [0, 2] {
        all.kill(shard);
        all.homes[shard] = Home::new();
        let refused = all.try_serve(shard, &[], &[]);
        let refused = refused.err().expect("without a permission").stderr;
        assert!(refused.contains("--take-over"), "{refused}");
        let server = all.try_serve(shard, &["--take-over"], &[]);
        all.servers[shard] = Some(server.unwrap_or_else(|told| panic!("{}", told.stderr)));
        for gateway in 0..SHARDS {
            assert_eq!(ask(all.at(gateway), question)["rows"], all_rows);
        }
        let again = post(all.at(shard), TO, "behind", &behind)
            .status(200)
            .json();
        assert_eq!(again["duplicate"], true, "{again}");
    }
    let new = "other?format=json";
    let document = "{\"time\":\"2024-03-01T00:00:00Z\",\"n\":1}\n";
    send(all.at(2), new, "new", document);
    assert_eq!(number(all.at(1), "SELECT sum(n) FROM other"), 1);
    assert_eq!(number(all.at(1), "SELECT count(*) FROM access"), 500);
}
