//! `logmill ship` to a topic: librdkafka's mock brokers, or a real cluster, while the shipper is
//! killed, logs are rotated and brokers fail.
//!
//! A broker hides the records of an aborted transaction from those who read committed ones. These
//! brokers do not: a line counts where the position behind its batch is in the topic, too, which
//! says at what offsets the batch is.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::Value;

use super::rotation::{Log, compress, write};
use super::{Shipper, append, lines};
use crate::support::{Home, PATIENCE, command, finish, knob, run, seed};

const PARTITIONS: i32 = 4;

/// The cluster under test.
struct Cluster {
    /// Brokers of this process; none if `LOGMILL_KAFKA` names others.
    mock: Option<MockCluster<'static, DefaultProducerContext>>,
    brokers: String,
    topic: String,
}

/// A record of a line.
#[derive(Debug, Clone)]
struct LineRecord {
    offset: i64,
    text: String,
    source: String,
    line: u64,
}

impl Cluster {
    fn new() -> Self {
        match std::env::var("LOGMILL_KAFKA") {
            Ok(brokers) => Self::real(brokers),
            Err(_) => Self::mock(),
        }
    }

    fn mock() -> Self {
        let mock = MockCluster::new(3).expect("mock brokers");
        for (topic, partitions) in [("logs", PARTITIONS), ("logs.positions", 1)] {
            mock.create_topic(topic, partitions, 3).expect("a topic");
        }
        Self {
            brokers: mock.bootstrap_servers(),
            mock: Some(mock),
            topic: "logs".to_owned(),
        }
    }

    /// Creates a topic of its own; the shipper creates that of the positions.
    fn real(brokers: String) -> Self {
        let topic = format!("logs-{:08x}", rand::random::<u32>());
        let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
            .set("bootstrap.servers", &brokers)
            .create()
            .expect("a client");
        let new = NewTopic::new(&topic, PARTITIONS, TopicReplication::Fixed(1));
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let created = runtime
            .expect("a thread")
            .block_on(admin.create_topics([&new], &AdminOptions::new()));
        assert!(matches!(created.as_deref(), Ok([Ok(_)])), "{created:?}");
        Self {
            mock: None,
            brokers,
            topic,
        }
    }

    fn start(&self, home: &Home, file: &str) -> Shipper {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(home.path("shipper.log"))
            .expect("the shipper's log");
        let options = home.file(
            "options",
            "reconnect.backoff.max.ms=200\nfetch.wait.max.ms=10\n",
        );
        let mut shipper = command();
        shipper.args(["ship", file, "--kafka", &self.brokers]);
        shipper.args(["--topic", &self.topic, "--kafka-options", &options]);
        let child = shipper.stdout(Stdio::null()).stderr(log).spawn();
        Shipper(child.expect("a shipper"))
    }

    /// Reads all records of a topic: the key, and the record.
    fn read(&self, topic: &str, partitions: i32) -> Vec<(i32, Option<String>, LineRecord)> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.brokers)
            .set("group.id", "reader")
            .set("enable.partition.eof", "true")
            .set("fetch.wait.max.ms", "10")
            .create()
            .expect("a consumer");
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition_offset(topic, partition, Offset::Beginning)
                .expect("a partition");
        }
        consumer.assign(&list).expect("an assignment");
        let mut records = Vec::new();
        let mut ends = 0;
        let until = Instant::now() + PATIENCE;
        while ends < partitions {
            assert!(Instant::now() < until, "{topic} is not read to its end");
            match consumer.poll(Duration::from_millis(100)) {
                None => {}
                Some(Ok(record)) => {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let header = |name: &str| {
                        let headers = record.headers()?;
                        let named = headers.iter().find(|h| h.key == name)?;
                        named.value.map(text)
                    };
                    let line = LineRecord {
                        offset: record.offset(),
                        text: record.payload().map(text).unwrap_or_default(),
                        source: header("source").unwrap_or_default(),
                        line: header("line").map_or(0, |n| n.parse().expect("a number")),
                    };
                    records.push((record.partition(), record.key().map(text), line));
                }
                Some(Err(rdkafka::error::KafkaError::PartitionEOF(_))) => ends += 1,
                Some(Err(error)) => panic!("{topic}: {error}"),
            }
        }
        records
    }

    /// Returns the number of records of positions.
    fn batches(&self) -> usize {
        let positions = self.read(&format!("{}.positions", self.topic), 1);
        let is_batch = |key: &Option<String>| key.as_ref().is_some_and(|k| k.starts_with("file:"));
        positions.iter().filter(|(_, key, _)| is_batch(key)).count()
    }

    /// Waits until a shipper that was started at so many batches has sent some: it takes seconds to
    /// begin where brokers have no answer about a policy.
    fn wait_for_a_batch(&self, batches: usize) {
        let until = Instant::now() + Duration::from_secs(6);
        while self.batches() < batches + 2 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the lines whose positions are there, and the number of the others.
    fn committed(&self) -> (Vec<LineRecord>, usize) {
        let positions = self.read(&format!("{}.positions", self.topic), 1);
        let mut batches: BTreeMap<(i64, i64), i64> = BTreeMap::new();
        for (_, key, record) in positions {
            if key.is_some_and(|key| key.starts_with("file:")) {
                let value: Value = serde_json::from_str(&record.text).expect("a position");
                let Some(offsets) = value["offsets"].as_array() else {
                    continue;
                };
                let at = |value: &Value| value.as_i64().expect("a number");
                let place = (at(&value["partition"]), at(&offsets[0]));
                batches.insert(place, at(&offsets[1]));
            }
        }
        let records = self.read(&self.topic, PARTITIONS);
        let all = records.len();
        let counts = |partition: i32, offset: i64| {
            let partition = i64::from(partition);
            let before = batches.range(..=(partition, offset)).next_back();
            before.is_some_and(|((p, _), last)| *p == partition && offset <= *last)
        };
        let lines = records
            .into_iter()
            .filter(|(partition, _, record)| counts(*partition, record.offset));
        let lines: Vec<LineRecord> = lines.map(|(_, _, record)| record).collect();
        let others = all - lines.len();
        (lines, others)
    }

    /// Waits until so many lines are there, as long as more come.
    fn wait_for(&self, count: usize, log: &str) {
        let (mut last, mut since) = (0, Instant::now());
        loop {
            let found = self.committed().0.len();
            if found >= count {
                return;
            }
            if found > last {
                (last, since) = (found, Instant::now());
            }
            assert!(
                since.elapsed() < Duration::from_secs(60),
                "{found} of {count} lines, and no more come; {}",
                std::fs::read_to_string(log).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Lets the next requests of a kind fail.
    fn fail(&self, random: &mut SmallRng) {
        use RDKafkaRespErr as E;
        let Some(mock) = &self.mock else {
            return;
        };
        let (api, error) = [
            (
                RDKafkaApiKey::Produce,
                E::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
            ),
            (
                RDKafkaApiKey::Produce,
                E::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            ),
            (
                RDKafkaApiKey::Produce,
                E::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
            ),
            (
                RDKafkaApiKey::EndTxn,
                E::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
            ),
            (
                RDKafkaApiKey::EndTxn,
                E::RD_KAFKA_RESP_ERR_INVALID_TXN_STATE,
            ),
            (
                RDKafkaApiKey::AddPartitionsToTxn,
                E::RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS,
            ),
            (
                RDKafkaApiKey::InitProducerId,
                E::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
            ),
        ][random.random_range(0..7)];
        mock.request_errors(api, &vec![error; random.random_range(1..4)]);
    }
}

#[test]
fn each_line_comes_once_into_a_topic_over_kills_rotations_and_errors() {
    let cycles = knob("LOGMILL_SHIP_CYCLES", 10);
    let mut random = SmallRng::seed_from_u64(seed());
    let cluster = Cluster::new();
    let home = Home::new();
    std::fs::create_dir(home.path("logs")).expect("a folder");
    let folder = PathBuf::from(home.path("logs"));
    let log = Mutex::new(Log::at(folder.join("a.log")));
    let file = home.path("logs/a.log");
    let mut shipper = cluster.start(&home, &file);
    let (stops, pause_ms) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut counts = [0_u64; 6];
    let mut batches = 0;
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&log, &stops, &pause_ms));
        for _ in 0..cycles {
            std::thread::sleep(Duration::from_millis(random.random_range(20..800)));
            // Only brokers of this process can be told to fail.
            let act = match random.random_range(0..8).min(5) {
                4 if cluster.mock.is_none() => 5,
                act => act,
            };
            counts[act] += 1;
            match act {
                0 => log.lock().expect("the log").rename(),
                1 => log.lock().expect("the log").copy_and_truncate(),
                2 => compress(&folder, &mut random),
                3 => pause_ms.store(random.random_range(100..1500), Ordering::SeqCst),
                4 => cluster.fail(&mut random),
                _ => {
                    cluster.wait_for_a_batch(batches);
                    std::thread::sleep(Duration::from_millis(random.random_range(0..400)));
                    shipper.kill();
                    batches = cluster.batches();
                    std::thread::sleep(Duration::from_millis(random.random_range(0..300)));
                    shipper = cluster.start(&home, &file);
                }
            }
        }
        stops.store(true, Ordering::SeqCst);
        usize::try_from(writer.join().expect("the writer")).expect("few lines")
    });
    let trail = home.path("shipper.log");
    cluster.wait_for(written, &trail);
    // Lines that came twice would come late.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(shipper.stop(), 0);
    let (lines, others) = cluster.committed();
    let [renames, cuts, compressions, pauses, errors, kills] = counts;
    println!(
        "{written} lines over {kills} kills, {renames} renames, {cuts} copies cut off, {compressions} compressions, {pauses} pauses and {errors} errors of brokers: {} lines, {others} records of other transactions",
        lines.len()
    );
    let mut texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(
        (lines.len(), texts.len()),
        (written, written),
        "lost or doubled"
    );
}

/// One batch follows the other, so that a kill falls into a transaction.
#[test]
fn a_long_file_comes_once_though_its_shipper_is_killed_again_and_again() {
    let mut random = SmallRng::seed_from_u64(seed());
    let cluster = Cluster::new();
    let home = Home::new();
    // The brokers of this process keep 5 MiB of a partition.
    let kills = match cluster.mock.is_some() {
        true => 4,
        false => knob("LOGMILL_KILLS", 4),
    };
    let written = 50_000 * (kills + 1);
    let file = home.file("a.log", lines("a", written));
    // The brokers of this process let a shipper wait for an answer before it begins.
    let begins_ms = if cluster.mock.is_some() { 2000 } else { 0 };
    for _ in 0..kills {
        let mut shipper = cluster.start(&home, &file);
        let lives_ms = begins_ms + random.random_range(200..500);
        std::thread::sleep(Duration::from_millis(lives_ms));
        shipper.kill();
    }
    let left = cluster.committed().0.len();
    let shipper = cluster.start(&home, &file);
    let written = usize::try_from(written).expect("few lines");
    cluster.wait_for(written, &home.path("shipper.log"));
    assert_eq!(shipper.stop(), 0);
    let (lines, others) = cluster.committed();
    println!(
        "{written} lines, {left} of them before the last of {kills} kills; {others} records of other transactions"
    );
    let mut texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(
        (lines.len(), texts.len()),
        (written, written),
        "lost or doubled"
    );
}

#[test]
fn lines_of_a_file_stay_in_order_and_records_name_their_place() {
    let cluster = Cluster::new();
    let home = Home::new();
    let text = format!("{}\n\r\n\tat a\n{}", lines("a", 3000), lines("b", 2));
    let file = home.file("a.log", &text);
    let ship = || {
        let mut shipper = command();
        shipper.args(["ship", &file, "--kafka", &cluster.brokers, "--once"]);
        shipper.args(["--topic", &cluster.topic, "--site", "web1"]);
        shipper.stdin(Stdio::piped());
        finish(&mut shipper, &[])
    };
    let told = ship();
    assert_eq!(told.code, 0, "{}", told.stderr);
    assert!(told.stdout.contains("3003 accepted"), "{}", told.stdout);
    assert!(told.stdout.contains(" 2 empty"), "{}", told.stdout);
    let (found, others) = cluster.committed();
    assert_eq!(others, 0);
    let expected = (1..).zip(text.lines()).filter(|(_, line)| !line.is_empty());
    let expected: Vec<(u64, &str)> = expected.collect();
    let found: Vec<(u64, &str)> = found.iter().map(|r| (r.line, r.text.as_str())).collect();
    assert_eq!(found, expected);
    assert!(cluster.committed().0.iter().all(|r| r.source == file));
    // The next shipper finds all of it in the topic.
    append(&file, &lines("c", 1));
    let told = ship();
    assert!(told.stdout.contains("1 accepted"), "{}", told.stdout);
    assert_eq!(cluster.committed().0.len(), 3004);
}

#[test]
fn records_of_several_lines_are_one_record() {
    let cluster = Cluster::new();
    let home = Home::new();
    let file = home.file("a.log", "one\n\tat a\n\tat b\ntwo\nthree\n  x\n");
    let mut shipper = command();
    shipper.args(["ship", &file, "--kafka", &cluster.brokers, "--once"]);
    shipper.args(["--topic", &cluster.topic, "--multiline", "indent"]);
    shipper.stdin(Stdio::piped());
    let told = finish(&mut shipper, &[]);
    assert_eq!(told.code, 0, "{}", told.stderr);
    let (found, _) = cluster.committed();
    let found: Vec<(u64, &str)> = found.iter().map(|r| (r.line, r.text.as_str())).collect();
    assert_eq!(
        found,
        [(1, "one\n\tat a\n\tat b"), (4, "two"), (5, "three\n  x")]
    );
}

#[test]
fn wrong_arguments_and_clusters_are_told() {
    let home = Home::new();
    let file = home.file("a.log", "a line\n");
    let options = home.file("options", "acks=1\n");
    for (more, told) in [
        (&["--kafka", "b:9092"][..], "--topic"),
        (&["--topic", "t"], "--kafka"),
        (
            &["--kafka", "b:9092", "--topic", "t", "--stream", "s"],
            "cannot be used with",
        ),
        (
            &["--kafka", "b:9092", "--topic", "t", "--journal"],
            "cannot be used with",
        ),
        (
            &["--kafka", "b:9092", "--topic", "t", "--server", "http://x"],
            "one place",
        ),
        (
            &[
                "--kafka",
                "b:9092",
                "--topic",
                "t",
                "--kafka-options",
                &options,
            ],
            "line 1: acks cannot be set",
        ),
        (
            &[
                "--kafka",
                "b:9092",
                "--topic",
                "t",
                "--kafka-options",
                "/no/file",
            ],
            "No such file",
        ),
    ] {
        let output = run(&[&["ship", &file], more].concat());
        assert_eq!(output.code, 2, "{more:?}: {}", output.stderr);
        assert!(output.stderr.contains(told), "{more:?}: {}", output.stderr);
    }
    // A line that the topic does not take ends the shipper, and is named.
    let cluster = Cluster::new();
    let target = ["--kafka", &cluster.brokers, "--topic", &cluster.topic];
    let long = home.file("b.log", format!("short\n{}\n", "x".repeat(3000)));
    let options = home.file("options", "message.max.bytes=2000\n");
    let limited = [
        &["ship", &long, "--once", "--kafka-options", &options],
        &target[..],
    ];
    let output = run(&limited.concat());
    assert_eq!(output.code, 1, "{}", output.stderr);
    let told = "line 2: 3001 bytes are refused as too large; raise max.message.bytes";
    assert!(output.stderr.contains(told), "{}", output.stderr);
    let lines: Vec<String> = cluster.committed().0.into_iter().map(|r| r.text).collect();
    assert_eq!(lines, ["short"]);
    // A topic of positions that others write to is left alone.
    let config = ClientConfig::new()
        .set("bootstrap.servers", &cluster.brokers)
        .clone();
    let producer: rdkafka::producer::BaseProducer = config.create().expect("a producer");
    let foreign = rdkafka::producer::BaseRecord::to(&cluster.topic)
        .partition(0)
        .key("k")
        .payload("no position");
    producer
        .send(foreign)
        .map_err(|(e, _)| e)
        .expect("a record");
    rdkafka::producer::Producer::flush(&producer, PATIENCE).expect("it is there");
    let output = run(&[
        &["ship", &file, "--once"],
        &target[..],
        &["--positions", &cluster.topic],
    ]
    .concat());
    assert_eq!(output.code, 1, "{}", output.stderr);
    let told = "the record at offset 0 is no position of a shipper";
    assert!(output.stderr.contains(told), "{}", output.stderr);
}
