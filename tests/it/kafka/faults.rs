//! Every record is stored exactly once, whatever fails: servers that are killed, brokers that go
//! down, leaders that move, errors, and changes of the group.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::{Cluster, TOPIC, start};
use crate::support::{Home, knob, seed};

/// Records between two looks at the time.
const PIECE: u64 = 50;

#[test]
fn every_record_is_stored_once_whatever_is_killed() {
    let kills = knob("LOGMILL_KAFKA_KILLS", 2);
    let mut random = SmallRng::seed_from_u64(seed());
    let mut cluster = Cluster::new(4);
    let home = Home::new();
    let mut down = None;
    for round in 0..kills {
        // The mock cluster keeps 100,000 records of a partition.
        if cluster.sent > 300_000 {
            break;
        }
        // A member that was killed is remembered for a while by its group: another group needs not
        // wait for it. Positions are those of the store.
        let group = format!("g{round}");
        let source = cluster.source("logs", &[("group", &group)]);
        let server = start(&home.data, &[source]);
        // The group waits 3 s for other members. Only a kill behind the first batch tells anything.
        let before = cluster.stored(&server);
        let mut more = random.random_range(1..40);
        while more > 0 {
            cluster.send(PIECE);
            fault(&cluster, &mut random, &mut down);
            std::thread::sleep(Duration::from_millis(random.random_range(5..60)));
            more -= u32::from(cluster.stored(&server) > before);
        }
        server.kill();
    }
    if let Some(broker) = down {
        cluster.mock.broker_up(broker).expect("a broker");
    }
    cluster.flush();
    let server = start(&home.data, &[cluster.source("logs", &[("group", "last")])]);
    cluster.assert_stored(&server);
    println!("{kills} kills, {} records", cluster.sent);
    assert_eq!(server.stop(), Some(0));
}

/// Makes trouble now and then.
fn fault(cluster: &Cluster, random: &mut SmallRng, down: &mut Option<i32>) {
    let mock = &cluster.mock;
    let broker = random.random_range(1..=3);
    // Rare enough that a group can settle between two of them.
    match random.random_range(0..150) {
        0..=2 => match down.take() {
            Some(broker) => mock.broker_up(broker).expect("a broker"),
            None => {
                mock.broker_down(broker).expect("a broker");
                *down = Some(broker);
            }
        },
        7..=12 => {
            let partition = random.random_range(0..4);
            mock.partition_leader(TOPIC, partition, Some(broker))
                .expect("a leader");
        }
        3 => mock.request_errors(
            RDKafkaApiKey::Fetch,
            &[
                RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
                RDKafkaRespErr::RD_KAFKA_RESP_ERR__TRANSPORT,
            ],
        ),
        4 => mock.request_errors(
            RDKafkaApiKey::ListOffsets,
            &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE; 2],
        ),
        5 => mock.request_errors(
            RDKafkaApiKey::OffsetCommit,
            &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS; 3],
        ),
        6 => mock.request_errors(
            RDKafkaApiKey::Heartbeat,
            &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION],
        ),
        _ => {}
    }
}

#[test]
fn members_that_come_and_go_change_nothing_of_what_is_stored() {
    let mut cluster = Cluster::new(4);
    let home = Home::new();
    cluster.send(500);
    let of_group = |name: &str| cluster.source(name, &[("group", "shared")]);
    let sources = [of_group("one"), of_group("two")];
    let server = start(&home.data, &sources);
    // A third member takes partitions of both sources, and stores nothing.
    let third: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", cluster.mock.bootstrap_servers())
        .set("group.id", "shared")
        .set("session.timeout.ms", "4000")
        .set("heartbeat.interval.ms", "200")
        .set("partition.assignment.strategy", "cooperative-sticky")
        .create()
        .expect("a consumer");
    third.subscribe(&[TOPIC]).expect("a subscription");
    let mut was_assigned = 0;
    for _ in 0..250 {
        cluster.send(PIECE);
        third.poll(Duration::from_millis(50));
        was_assigned = was_assigned.max(third.assignment().map_or(0, |list| list.count()));
    }
    assert!(was_assigned > 0, "the third member never got a partition");
    drop(third);
    cluster.send(500);
    cluster.flush();
    cluster.assert_stored(&server);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn two_sources_of_one_stream_store_each_record_once() {
    let mut cluster = Cluster::new(2);
    let home = Home::new();
    cluster.send(2000);
    // Each is alone in its group, so that both read every partition.
    let sources = ["one", "two"].map(|name| cluster.source(name, &[("bytes_max", "64KiB")]));
    let server = start(&home.data, &sources);
    for _ in 0..60 {
        cluster.send(PIECE);
        std::thread::sleep(Duration::from_millis(20));
    }
    cluster.flush();
    cluster.assert_stored(&server);
    assert_eq!(server.stop(), Some(0));
}
