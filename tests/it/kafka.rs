//! The Kafka source, against librdkafka's cluster of three mock brokers, which lives in this
//! process while servers are killed.
//!
//! Each record has a number of its own, so that what is stored is compared number by number.

mod broker;
mod confluent;
mod faults;
mod records;
mod setup;
mod stopped;
mod syslog;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rdkafka::message::DeliveryResult;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{
    BaseProducer, BaseRecord, DefaultProducerContext, Producer, ProducerContext,
};
use rdkafka::{ClientConfig, ClientContext};
use serde_json::Value;

use crate::support::{PATIENCE, Server};

/// The topic of all tests, and the stream that reads it.
const TOPIC: &str = "logs";
/// Every so many records, one is not JSON, and one has no value.
const POISON_EVERY: u64 = 97;
const TOMBSTONE_EVERY: u64 = 89;

/// Notes the records that the cluster did not take.
#[derive(Default)]
struct Refused(Mutex<Vec<String>>);

impl ClientContext for Refused {}

impl ProducerContext for Refused {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            self.0.lock().push(error.to_string());
        }
    }
}

/// A cluster and the records that it has.
struct Cluster {
    mock: MockCluster<'static, DefaultProducerContext>,
    producer: BaseProducer<Refused>,
    partitions: u64,
    sent: u64,
}

impl Cluster {
    fn new(partitions: u64) -> Self {
        let mock = MockCluster::new(3).expect("mock brokers");
        let count = i32::try_from(partitions).expect("few partitions");
        mock.create_topic(TOPIC, count, 3).expect("a topic");
        let producer = ClientConfig::new()
            .set("bootstrap.servers", mock.bootstrap_servers())
            .set("enable.idempotence", "true")
            .set("linger.ms", "1")
            .create_with_context(Refused::default())
            .expect("a producer");
        Self {
            mock,
            producer,
            partitions,
            sent: 0,
        }
    }

    /// Sends the next records: the number decides about the partition and the kind.
    fn send(&mut self, count: u64) {
        for number in self.sent..self.sent + count {
            let (key, value) = (format!("key-{number}"), value_of(number));
            let mut record = BaseRecord::to(TOPIC).key(&key);
            record =
                record.partition(i32::try_from(number % self.partitions).expect("a partition"));
            if let Some(value) = &value {
                record = record.payload(value);
            }
            self.producer
                .send(record)
                .map_err(|(error, _)| error)
                .expect("room in its queue");
        }
        self.sent += count;
        self.producer.poll(Duration::ZERO);
    }

    /// Waits until the brokers have every record.
    fn flush(&self) {
        self.producer
            .flush(PATIENCE)
            .expect("every record is there");
        // A flush is over, too, when records are refused.
        let refused = self.producer.context().0.lock();
        assert!(refused.is_empty(), "not sent: {refused:?}");
    }

    /// Returns the configuration of a source in the environment, with more keys.
    fn source(&self, name: &str, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let brokers: Vec<_> = self
            .mock
            .bootstrap_servers()
            .split(',')
            .map(str::to_owned)
            .collect();
        let options = "{ \"session.timeout.ms\" = 4000, \"heartbeat.interval.ms\" = 200, \"reconnect.backoff.max.ms\" = 200, \"topic.metadata.refresh.interval.ms\" = 1000 }";
        let mut keys = BTreeMap::from([
            ("brokers", format!("{brokers:?}")),
            ("topics", format!("[{TOPIC:?}]")),
            ("stream", TOPIC.to_owned()),
            ("format", "json".to_owned()),
            ("options", options.to_owned()),
        ]);
        keys.extend(more.iter().map(|(key, value)| (*key, (*value).to_owned())));
        let named = |(key, value): (&str, String)| {
            (
                format!("LOGMILL_KAFKA__{name}__{key}").to_ascii_uppercase(),
                value,
            )
        };
        keys.into_iter().map(named).collect()
    }

    /// Waits until the server has every record that was sent, and compares them.
    #[track_caller]
    fn assert_stored(&self, server: &Server) {
        let numbers = || 0..self.sent;
        let poison = numbers()
            .filter(|n| is_poison(*n))
            .map(|n| value_of(n).expect("a value"));
        let mut poison: Vec<String> = poison.collect();
        let events: Vec<u64> = numbers()
            .filter(|n| !is_poison(*n) && !is_tombstone(*n))
            .collect();
        let until = Instant::now() + PATIENCE;
        while !self.is_stored(server, events.len() as u64, poison.len() as u64) {
            if Instant::now() > until {
                self.tell_missing(server, &events);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let stored = numbers_of(server);
        assert_eq!(stored, events, "events are missing or doubled");
        let items =
            server.sql("SELECT raw, source, byte FROM system.quarantine ORDER BY source, byte");
        let mut raw: Vec<String> = items.iter().map(|item| text_of(&item["raw"])).collect();
        raw.sort_unstable();
        poison.sort_unstable();
        assert_eq!(raw, poison, "quarantined records are missing or doubled");
    }

    /// Panics with all that tells where records were lost.
    #[track_caller]
    fn tell_missing(&self, server: &Server, events: &[u64]) -> ! {
        let stored: BTreeSet<u64> = numbers_of(server).into_iter().collect();
        let missing: Vec<&u64> = events.iter().filter(|n| !stored.contains(n)).collect();
        let client = self.producer.client();
        let ends: Vec<_> = (0..self.partitions)
            .map(|n| {
                let number = i32::try_from(n).expect("a partition");
                client.fetch_watermarks(TOPIC, number, Duration::from_secs(10))
            })
            .collect();
        let sources = server.sql("SELECT * FROM system.sources");
        panic!(
            "of {} records, {} are missing: {missing:?}; partitions: {ends:?}; sources: {sources:?}; the log:\n{}",
            self.sent,
            missing.len(),
            server.log()
        )
    }

    /// Returns the number of events in the stream.
    fn stored(&self, server: &Server) -> u64 {
        let streams = server.sql("SELECT name FROM system.streams");
        match streams.iter().any(|stream| stream["name"] == TOPIC) {
            true => server.number(&format!("SELECT count(*) FROM {TOPIC}")),
            false => 0,
        }
    }

    fn is_stored(&self, server: &Server, events: u64, poison: u64) -> bool {
        self.stored(server) >= events
            && server.number("SELECT count(*) FROM system.quarantine") >= poison
    }
}

fn is_poison(number: u64) -> bool {
    number % POISON_EVERY == 7
}

fn is_tombstone(number: u64) -> bool {
    number % TOMBSTONE_EVERY == 11 && !is_poison(number)
}

/// Returns the value of a record.
fn value_of(number: u64) -> Option<String> {
    match number {
        poison if is_poison(poison) => Some(format!("no JSON {number}")),
        tombstone if is_tombstone(tombstone) => None,
        _ => Some(format!(
            "{{\"number\":{number},\"text\":\"event {number}\"}}"
        )),
    }
}

/// Returns the numbers of the records in the stream, in order.
fn numbers_of(server: &Server) -> Vec<u64> {
    let stored = server.sql(&format!("SELECT number FROM {TOPIC} ORDER BY number"));
    stored.iter().map(|row| number_of(&row["number"])).collect()
}

fn number_of(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

/// Returns the text of quarantined bytes.
fn text_of(raw: &Value) -> String {
    let bytes = crate::support::base64(raw.as_str().expect("bytes"));
    String::from_utf8(bytes).expect("the records are text")
}

/// Starts a server with sources.
#[track_caller]
fn start(data: &str, sources: &[Vec<(String, String)>]) -> Server {
    let all = sources.iter().flatten();
    let all: Vec<(&str, &str)> = all.map(|(key, value)| (&**key, &**value)).collect();
    Server::start_with(data, &all)
}

/// Waits until something is so.
#[track_caller]
fn wait_for(server: &Server, what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(
            Instant::now() < until,
            "not so: {what}; the log:\n{}",
            server.log()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}
