//! Against librdkafka's mock brokers. They do not describe configurations, so the configured values
//! count here.

use std::sync::mpsc::{Receiver, channel};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::*;

const TOPIC: &str = "store.journal";
/// No wait is longer, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(200);

type Mock = MockCluster<'static, DefaultProducerContext>;

fn mock(brokers: i32) -> Mock {
    let mock = MockCluster::new(brokers).expect("mock brokers");
    mock.create_topic(TOPIC, 2, brokers).expect("a topic");
    mock
}

fn cluster(mock: &Mock, more: &str) -> Cluster {
    let brokers = mock.bootstrap_servers();
    let text = format!(
        "kafka = \"{brokers}\"\nkafka_topic = \"{TOPIC}\"\nkafka_min_insync_replicas = 2\n{more}"
    );
    toml::from_str(&text).expect("a section")
}

fn try_open(cluster: &Cluster) -> Result<PartitionJournal, String> {
    PartitionJournal::open(JournalSettings::of(cluster)?)
}

#[track_caller]
fn open(mock: &Mock, options: &str) -> PartitionJournal {
    let options = format!("[kafka_options]\nfetch.wait.max.ms = 10\n{options}");
    try_open(&cluster(mock, &options)).expect("a journal")
}

/// Appends a message; its outcome comes later.
#[track_caller]
fn append(journal: &PartitionJournal, message: impl Into<Vec<u8>>) -> Receiver<io::Result<u64>> {
    let (send, receive) = channel();
    // A test may not wait for it.
    let done = move |outcome| drop(send.send(outcome));
    let appended = journal.append(message.into(), Box::new(done));
    appended.expect("room");
    receive
}

#[track_caller]
fn outcome(receiver: &Receiver<io::Result<u64>>) -> io::Result<u64> {
    receiver.recv_timeout(PATIENCE).expect("a report")
}

/// Reads so many messages from an offset on.
#[track_caller]
fn read(journal: &PartitionJournal, from: u64, count: usize) -> Vec<(u64, String)> {
    let until = Instant::now() + PATIENCE;
    let (mut next, mut found) = (from, Vec::new());
    while found.len() < count {
        assert!(Instant::now() < until, "only {} of {count}", found.len());
        for (offset, message) in journal.read(next, SHORT).expect("messages") {
            let text = String::from_utf8_lossy(&message).into_owned();
            found.push((offset, text));
            next = offset + 1;
        }
    }
    found
}

fn numbered(numbers: std::ops::Range<u64>) -> Vec<(u64, String)> {
    numbers.map(|n| (n, format!("message {n}"))).collect()
}

#[test]
fn messages_are_read_back_in_their_order_with_their_offsets() {
    let mock = mock(3);
    let journal = open(&mock, "");
    assert_eq!(journal.place().topic, TOPIC);
    assert!(!journal.place().cluster.is_empty());
    let replication = Replication {
        replicas: 3,
        min_insync: Some(2),
        syncs: false,
    };
    assert_eq!(journal.replication(), replication);
    assert!(journal.read(0, SHORT).expect("nothing").is_empty());
    assert_eq!(journal.oldest().expect("an offset"), 0);
    let appended: Vec<_> = (0..500)
        .map(|n| append(&journal, format!("message {n}")))
        .collect();
    for (number, receiver) in (0..).zip(&appended) {
        assert_eq!(outcome(receiver).expect("appended"), number);
    }
    assert_eq!(read(&journal, 0, 500), numbered(0..500));
    // Behind the end nothing comes yet, and the reading goes on there.
    assert!(journal.read(500, SHORT).expect("nothing").is_empty());
    append(&journal, "message 500");
    assert_eq!(read(&journal, 500, 1), numbered(500..501));
    // It can go back, as another process does.
    assert_eq!(read(&journal, 120, 381), numbered(120..501));
    assert_eq!(read(&open(&mock, ""), 499, 2), numbered(499..501));
    assert_eq!(read(&journal, 3, 1)[0], (3, "message 3".to_owned()));
}

#[test]
fn an_offset_behind_the_end_or_before_the_beginning_is_gone() {
    let mock = mock(1);
    let journal = open(&mock, "compression.type = \"none\"\n");
    outcome(&append(&journal, "one")).expect("appended");
    let gone = journal.read(1000, PATIENCE).expect_err("behind the end");
    assert_eq!(gone.kind(), io::ErrorKind::NotFound, "{gone}");
    assert!(gone.to_string().contains("from 0 to before 1"), "{gone}");
    assert!(gone.to_string().contains(TOPIC), "{gone}");
    assert_eq!(read(&journal, 0, 1), [(0, "one".to_owned())]);
    assert!(journal.read(1, SHORT).expect("the end").is_empty());
    // The mock brokers keep 5 MiB of a partition.
    for _ in 0..12 {
        outcome(&append(&journal, vec![b'x'; 900_000])).expect("appended");
    }
    let oldest = journal.oldest().expect("an offset");
    assert!(oldest > 2, "{oldest}");
    let gone = journal.read(2, PATIENCE).expect_err("before the beginning");
    assert_eq!(gone.kind(), io::ErrorKind::NotFound, "{gone}");
    assert_eq!(read(&journal, 0, 1)[0].0, oldest);
}

#[test]
fn a_message_that_the_topic_does_not_take_is_refused_at_once() {
    let mock = mock(1);
    let journal = open(&mock, "");
    let message = vec![0; journal.message_bytes_max() + 1];
    let done: Appended = Box::new(|_| panic!("it was refused before"));
    let refused = journal.append(message, done).expect_err("too large");
    assert!(
        refused.to_string().contains("max.message.bytes"),
        "{refused}"
    );
    // One of the greatest length arrives, though it does not compress.
    let message: Vec<u8> = (0..journal.message_bytes_max())
        .map(|_| rand::random())
        .collect();
    assert_eq!(outcome(&append(&journal, message)).expect("appended"), 0);
}

#[test]
fn what_was_appended_while_no_broker_answers_fails_in_time_and_the_rest_goes_on() {
    let mock = mock(1);
    let options =
        "message.timeout.ms = 1500\nreconnect.backoff.max.ms = 100\nretry.backoff.max.ms = 100\n";
    let journal = open(&mock, options);
    assert_eq!(outcome(&append(&journal, "before")).expect("appended"), 0);
    assert_eq!(read(&journal, 0, 1), [(0, "before".to_owned())]);
    mock.broker_down(1).expect("a broker");
    let lost = outcome(&append(&journal, "lost")).expect_err("no broker");
    assert_eq!(lost.kind(), io::ErrorKind::TimedOut, "{lost}");
    assert!(lost.to_string().contains(TOPIC), "{lost}");
    assert!(journal.read(1, SHORT).expect("no broker").is_empty());
    mock.broker_up(1).expect("a broker");
    let until = Instant::now() + PATIENCE;
    while outcome(&append(&journal, "after")).is_err() {
        assert!(Instant::now() < until, "no broker comes back");
    }
    let found = read(&journal, 1, 1);
    assert!(found[0].1 == "after" || found[0].1 == "lost", "{found:?}");
}

#[test]
fn messages_stay_in_order_while_brokers_answer_with_errors() {
    use RDKafkaRespErr as Code;
    let mock = mock(3);
    let journal = open(&mock, "retry.backoff.ms = 10\nretry.backoff.max.ms = 20\n");
    outcome(&append(&journal, "message 0")).expect("appended");
    let errors = [
        Code::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        Code::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Code::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        Code::RD_KAFKA_RESP_ERR__TRANSPORT,
        Code::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
    ];
    mock.request_errors(RDKafkaApiKey::Produce, &errors);
    let fetch = [
        Code::RD_KAFKA_RESP_ERR__TRANSPORT,
        Code::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        Code::RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,
    ];
    mock.request_errors(RDKafkaApiKey::Fetch, &fetch);
    let appended: Vec<_> = (1..50)
        .map(|n| append(&journal, format!("message {n}")))
        .collect();
    for (number, receiver) in (1..).zip(&appended) {
        assert_eq!(outcome(receiver).expect("appended"), number);
    }
    assert_eq!(read(&journal, 0, 50), numbered(0..50));
}

#[test]
fn a_message_whose_answer_was_lost_may_come_twice_and_both_are_read() {
    let mock = mock(1);
    let journal = open(&mock, "reconnect.backoff.max.ms = 100\n");
    outcome(&append(&journal, "one")).expect("appended");
    // The broker takes it, and is gone before its answer.
    let slow = Duration::from_millis(1000);
    mock.broker_round_trip_time(1, slow).expect("a broker");
    let receiver = append(&journal, "two");
    let client = journal.producer.client();
    let until = Instant::now() + PATIENCE;
    std::thread::sleep(slow / 2);
    mock.broker_down(1).expect("a broker");
    mock.broker_round_trip_time(1, Duration::ZERO)
        .expect("a broker");
    mock.broker_up(1).expect("a broker");
    let at = outcome(&receiver).expect("appended");
    outcome(&append(&journal, "three")).expect("appended");
    let high = loop {
        if let Ok((_, high)) = client.fetch_watermarks(TOPIC, 0, ENDS_WITHIN) {
            break high;
        }
        assert!(Instant::now() < until, "no end");
    };
    let count = usize::try_from(high).expect("an offset");
    let found = read(&journal, 0, count);
    let texts: Vec<_> = found.iter().map(|(_, text)| &**text).collect();
    match at {
        1 => assert_eq!(texts, ["one", "two", "three"]),
        _ => assert_eq!(texts, ["one", "two", "two", "three"]),
    }
}

#[test]
fn a_topic_that_is_missing_is_named_with_its_remedy() {
    let mock = mock(1);
    let other = cluster(&mock, "kafka_partition = 2\n");
    let why = try_open(&other).expect_err("no such partition");
    assert!(why.contains("2 partitions and no number 2"), "{why}");
    let other = Cluster {
        kafka_topic: "other".to_owned(),
        ..cluster(&mock, "")
    };
    let why = try_open(&other).expect_err("no such topic");
    assert!(why.contains("topic other does not exist"), "{why}");
    assert!(why.contains("--create --topic other"), "{why}");
    // It was not created by the question.
    assert_eq!(try_open(&other).expect_err("no such topic"), why);
}

#[test]
fn options_are_checked_by_librdkafka_and_fixed_ones_stay() {
    let mock = mock(1);
    let with = |options: &str| cluster(&mock, &format!("[kafka_options]\n{options}\n"));
    assert_eq!(check(&with("socket.timeout.ms = 9000")), Ok(()));
    for (option, expected) in [
        ("\"socket.timeout\" = 9000", "socket.timeout: "),
        (
            "delivery.timeout.ms = 0",
            "delivery.timeout.ms: a batch would wait",
        ),
        ("linger.ms = \"soon\"", "linger.ms: "),
    ] {
        let why = check(&with(option)).expect_err(option);
        assert!(why.starts_with(expected), "{why}");
    }
    let missing = with("sasl.password = { env = \"LM_NO_SUCH\" }");
    assert_eq!(check(&missing), Ok(()));
    let why = JournalSettings::of(&missing).expect_err("no variable");
    assert!(why.contains("LM_NO_SUCH"), "{why}");
    let settings = with("delivery.timeout.ms = 5000\nfetch.wait.max.ms = 4");
    let settings = JournalSettings::of(&settings).expect("options");
    let producer = settings.clients.producer_of(2_000_000);
    let expected = [
        ("acks", Some("all")),
        ("max.in.flight", Some("1")),
        ("message.max.bytes", Some("2000000")),
        ("message.timeout.ms", None),
        ("delivery.timeout.ms", Some("5000")),
    ];
    for (option, value) in expected {
        assert_eq!(producer.get(option), value, "{option}");
    }
    let consumer = &settings.clients.consumer;
    assert_eq!(consumer.get("fetch.wait.max.ms"), Some("4"));
    assert_eq!(consumer.get("auto.offset.reset"), Some("error"));
    assert!(matches!(consumer.log_level, RDKafkaLogLevel::Warning));
    let told = common(&with("debug = \"cgrp\"")).expect("options");
    assert!(matches!(told.log_level, RDKafkaLogLevel::Debug));
}
