//! Faults of brokers, by librdkafka's mock cluster, which lives in this process while servers are
//! killed.

use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr as Code};

use super::{TOPIC, assert_stored, send, try_serve_on};
use crate::support::{Home, Moto, PATIENCE, Server, knob, seed};

type Mock = MockCluster<'static, DefaultProducerContext>;

fn mock() -> Mock {
    let mock = MockCluster::new(3).expect("mock brokers");
    mock.create_topic(TOPIC, 1, 3).expect("a topic");
    mock
}

#[track_caller]
fn serve(moto: &Moto, mock: &Mock, data: &str) -> Server {
    let brokers = mock.bootstrap_servers();
    match try_serve_on(moto, &brokers, data, &["--take-over"], &[]) {
        Ok(server) => server,
        Err(told) => panic!("the server ends with {}: {}", told.code, told.stderr),
    }
}

/// Sends a batch until its outcome is known. Returns the other answers.
#[track_caller]
fn deliver(server: &Server, number: u64) -> u64 {
    let until = Instant::now() + PATIENCE;
    let mut others = 0;
    loop {
        let answer = send(server, number);
        match answer.status {
            200 => return others,
            503 => others += 1,
            other => panic!("{other}: {}; {}", answer.text(), server.log()),
        }
        assert!(Instant::now() < until, "{}", server.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn errors_of_brokers_delay_batches_and_change_nothing_of_them() {
    let Some(moto) = Moto::start() else {
        return;
    };
    let mock = mock();
    let (home, elsewhere) = (Home::new(), Home::new());
    let server = serve(&moto, &mock, &home.data);
    deliver(&server, 0);
    let produce = [
        Code::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        Code::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        Code::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        Code::RD_KAFKA_RESP_ERR__TRANSPORT,
    ];
    let fetch = [
        Code::RD_KAFKA_RESP_ERR__TRANSPORT,
        Code::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        Code::RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,
    ];
    for number in 1..20 {
        match number % 3 {
            0 => mock.request_errors(RDKafkaApiKey::Produce, &produce),
            1 => mock.request_errors(RDKafkaApiKey::Fetch, &fetch),
            _ => mock
                .partition_leader(TOPIC, 0, Some(1 + number % 2))
                .expect("a leader"),
        }
        // They pass within the time of a message.
        let number = u64::try_from(number).expect("a number");
        assert_eq!(deliver(&server, number), 0, "{}", server.log());
    }
    assert_stored(&server, 0..20);
    server.kill();
    let server = serve(&moto, &mock, &elsewhere.data);
    assert_stored(&server, 0..20);
}

#[test]
fn a_batch_whose_answer_was_lost_is_stored_once() {
    let Some(moto) = Moto::start() else {
        return;
    };
    let mock = mock();
    mock.partition_leader(TOPIC, 0, Some(1)).expect("a leader");
    let (home, elsewhere) = (Home::new(), Home::new());
    let server = serve(&moto, &mock, &home.data);
    deliver(&server, 0);
    let slow = Duration::from_millis(400);
    for number in 1..6 {
        mock.broker_round_trip_time(1, slow).expect("a broker");
        std::thread::scope(|scope| {
            scope.spawn(|| deliver(&server, number));
            // The broker takes it, and is gone before its answer.
            std::thread::sleep(slow / 2);
            mock.broker_down(1).expect("a broker");
            mock.broker_round_trip_time(1, Duration::ZERO)
                .expect("a broker");
            std::thread::sleep(slow / 4);
            mock.broker_up(1).expect("a broker");
        });
    }
    assert_stored(&server, 0..6);
    let ends = super::ends(&mock.bootstrap_servers());
    println!("{ends:?} for 6 batches and the fences");
    server.kill();
    let server = serve(&moto, &mock, &elsewhere.data);
    assert_stored(&server, 0..6);
}

#[test]
fn batches_without_brokers_are_answered_in_time_and_settled_later() {
    let Some(moto) = Moto::start() else {
        return;
    };
    let mock = mock();
    let home = Home::new();
    let server = serve(&moto, &mock, &home.data);
    deliver(&server, 0);
    for broker in 1..=3 {
        mock.broker_down(broker).expect("a broker");
    }
    let began = Instant::now();
    let answer = send(&server, 1).status(503);
    // The message has 4 s.
    assert!(began.elapsed() < Duration::from_secs(60), "{answer:?}");
    assert_stored(&server, 0..1);
    for broker in 1..=3 {
        mock.broker_up(broker).expect("a broker");
    }
    deliver(&server, 1);
    assert_stored(&server, 0..2);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_topic_that_has_lost_what_was_not_sealed_is_refused() {
    let Some(moto) = Moto::start() else {
        return;
    };
    let (first, second) = (mock(), mock());
    let home = Home::new();
    let server = serve(&moto, &first, &home.data);
    for number in 0..5 {
        deliver(&server, number);
    }
    server.seal();
    deliver(&server, 5);
    server.kill();
    // The same names in another cluster, which is empty.
    let brokers = second.bootstrap_servers();
    let told = try_serve_on(&moto, &brokers, &home.data, &["--take-over"], &[]).err();
    let told = told.expect("it is refused");
    assert_ne!(told.code, 0, "{}", told.stderr);
    println!("{}: {}", told.code, told.stderr);
    let server = serve(&moto, &first, &home.data);
    assert_stored(&server, 0..6);
}

#[test]
fn events_are_stored_once_whatever_brokers_and_writers_do() {
    let Some(moto) = Moto::start() else {
        return;
    };
    let mock = mock();
    let kills = knob("LOGMILL_KILLS", 4);
    let mut random = SmallRng::seed_from_u64(seed());
    let mut home = Home::new();
    let mut down = None;
    let (mut sent, mut others) = (0, 0);
    for kill in 0..kills {
        // A server starts only with its partition's leader.
        if let Some(broker) = down.take() {
            mock.broker_up(broker).expect("a broker");
        }
        let server = serve(&moto, &mock, &home.data);
        let until = Instant::now() + Duration::from_millis(random.random_range(300..3000));
        while Instant::now() < until {
            let broker = random.random_range(1..=3);
            match random.random_range(0..60) {
                0 => match down.take() {
                    Some(broker) => mock.broker_up(broker).expect("a broker"),
                    None => {
                        mock.broker_down(broker).expect("a broker");
                        down = Some(broker);
                    }
                },
                1..=3 => mock
                    .partition_leader(TOPIC, 0, Some(broker))
                    .expect("a leader"),
                4 => mock.request_errors(
                    RDKafkaApiKey::Produce,
                    &[Code::RD_KAFKA_RESP_ERR__TRANSPORT; 2],
                ),
                5 => mock.request_errors(
                    RDKafkaApiKey::Fetch,
                    &[Code::RD_KAFKA_RESP_ERR__TRANSPORT; 2],
                ),
                _ => {}
            }
            let answer = send(&server, sent);
            match answer.status {
                200 => sent += 1,
                503 => {
                    others += 1;
                    // The leader may be the one that is down.
                    if let Some(broker) = down.take() {
                        mock.broker_up(broker).expect("a broker");
                    }
                }
                other => panic!("{other}: {}; {}", answer.text(), server.log()),
            }
        }
        println!("kill {kill} after {sent} batches, {others} other answers");
        server.kill();
        if random.random_range(0..2) == 0 {
            home = Home::new();
        }
    }
    if let Some(broker) = down.take() {
        mock.broker_up(broker).expect("a broker");
    }
    let server = serve(&moto, &mock, &home.data);
    // The last batch of a writer may be there without an answer.
    deliver(&server, sent);
    assert_stored(&server, 0..=sent);
    assert_eq!(server.stop(), Some(0));
}
